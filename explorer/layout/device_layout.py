"""Where the devices of a plan are drawn: in rows like text, in the order of the data, with what passes between them.

Lines towards later devices leave at the right half of a box and run above its row, lines back run below it, so the
two directions between two devices never lie on each other. Neighbours in a row are joined straight.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from explorer.layout.layered import PANEL_ASPECT, PANEL_WIDTH
from explorer.layout.lines import MARGIN, Layout, layout_bytes
from explorer.server.byte_cache import remembered

GAP = 96.0
"""Between neighbours: room for what stands on the lines."""
LANE = 22.0
"""Between lines above or below a row."""
FIRST_LANE = 20.0
LEGIBLE_SCALE = 0.85
"""At this magnification all that stands on a box can be read."""
TRACK = 16.0
"""Distance of the two lines between neighbours from the middle of the row."""


def device_layout(n: int, edges: tuple[tuple[int, int], ...], width: float, height: float) -> Layout:
    """Return the places of `n` boxes of `width` x `height` and the routes of the edges between them.

    >>> layout = device_layout(2, ((0, 1), (1, 0)), 100.0, 40.0)
    >>> layout.routes[0][1] < layout.centres[0][1] < layout.routes[1][1]
    True
    """
    return remembered(
        "devices", (n, edges, width, height), lambda: _device_layout(n, edges, width, height), layout_bytes
    )


def _device_layout(n: int, edges: tuple[tuple[int, int], ...], width: float, height: float) -> Layout:
    layouts = [_drawn(n, ceil(n / num_rows), edges, width, height) for num_rows in range(1, max(1, ceil(n / 3)) + 1)]
    # A pipeline reads best in one row: further rows are for what would be too small otherwise.
    return next((layout for layout in layouts if _scale(layout) >= LEGIBLE_SCALE), max(layouts, key=_scale))


def _scale(layout: Layout) -> float:
    return min(PANEL_WIDTH / layout.width, PANEL_WIDTH / PANEL_ASPECT / layout.height)


def _drawn(n: int, columns: int, edges: Sequence[tuple[int, int]], width: float, height: float) -> Layout:
    row_of = [i // columns for i in range(n)]
    column_of = [i % columns for i in range(n)]
    num_rows = max(row_of, default=0) + 1
    straight = [row_of[u] == row_of[v] and abs(u - v) == 1 for u, v in edges]
    # Each bent line has a lane in the gutter above the row (on) or below it (back); one to another row also has a
    # place in the channel at the right.
    lanes: dict[tuple[int, bool], list[list[tuple[float, float]]]] = defaultdict(list)
    lane_of: dict[tuple[int, int], int] = {}
    ports: dict[tuple[int, bool, bool], list[int]] = defaultdict(list)
    x_of = [c * (width + GAP) + width / 2 for c in column_of]
    channel_x = columns * (width + GAP) - GAP / 2
    for i, (u, v) in sorted(enumerate(edges), key=lambda e: abs(e[1][0] - e[1][1])):
        if straight[i]:
            continue
        is_on = v > u
        same_row = row_of[u] == row_of[v]
        # A line to another row leaves in the gutter between, and arrives in that of its reader.
        for end, other in ((u, x_of[v] if same_row else channel_x), (v, x_of[u] if same_row else channel_x)):
            if end == v and same_row:
                lane_of[i, 1] = lane_of[i, 0]
            else:
                span = min(x_of[end], other) - width / 2, max(x_of[end], other) + width / 2
                used = lanes[row_of[end], is_on]
                lane = next(
                    (k for k, taken in enumerate(used) if all(span[1] < a or b < span[0] for a, b in taken)), len(used)
                )
                if lane == len(used):
                    used.append([])
                used[lane].append(span)
                lane_of[i, int(end == v)] = lane
            ports[end, is_on, end == u].append(i)
    tops: list[float] = []
    y = MARGIN
    for row in range(num_rows):
        above, below = len(lanes[row, True]), len(lanes[row, False])
        y += (FIRST_LANE + LANE * (above - 1) + 12 if above else 0) + (24 if row else 0)
        tops.append(y)
        y += height + (FIRST_LANE + LANE * (below - 1) + 12 if below else 0)
    centre = [(x_of[i] + MARGIN, tops[row_of[i]] + height / 2) for i in range(n)]

    def port(box: int, is_on: bool, leaves: bool, i: int) -> float:
        """Spread the lines over the right (leaving) or left (arriving) half of the box; outer lanes are outermost."""
        mine = ports[box, is_on, leaves]
        k = mine.index(i)
        share = (k + 1) / (len(mine) + 1)
        side = 1 if leaves == is_on else -1
        return centre[box][0] + side * (0.06 + 0.4 * (1 - share)) * width

    channel: dict[int, float] = {}
    routes: list[tuple[float, ...]] = []
    for i, (u, v) in enumerate(edges):
        side = 1 if v > u else -1
        if straight[i]:
            y_line = centre[u][1] - side * TRACK
            routes.append((centre[u][0] + side * width / 2, y_line, centre[v][0] - side * width / 2, y_line))
            continue
        points: list[tuple[float, float]] = []
        borders = [(centre[end][1] - side * height / 2) for end in (u, v)]
        levels = [borders[k] - side * (FIRST_LANE + LANE * lane_of[i, k]) for k in (0, 1)]
        xs = port(u, v > u, True, i), port(v, v > u, False, i)
        points = [(xs[0], borders[0]), (xs[0], levels[0])]
        if row_of[u] != row_of[v]:
            x = channel.setdefault(i, channel_x + MARGIN + 7.0 * len(channel))
            points += [(x, levels[0]), (x, levels[1])]
        points += [(xs[1], levels[1]), (xs[1], borders[1])]
        routes.append(tuple(round(c, 1) for point in points for c in point))
    extent_x = max([x + width / 2 for x, _ in centre] + [c for route in routes for c in route[::2]], default=0.0)
    return Layout(
        tuple((round(x, 1), round(y, 1)) for x, y in centre), tuple(routes), extent_x + MARGIN, y + MARGIN, "right"
    )
