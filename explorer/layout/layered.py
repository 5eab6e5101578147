"""Where each box of a graph is drawn: layers by longest path, ordered by barycentres, wrapped into columns.

`explorer.layout.rows` decides which box stands in which row; here the rows are wrapped; `explorer.layout.lines` places
boxes and lines.

A network is deep and narrow, so its plain layered drawing is a thin sliver. Here the layers run down a column and go
on at the top of the next one, like text on a page, with as many columns as fill the panel best; a graph of a few layers
runs from left to right instead. A backward box stands in the row of its forward twin, beside it. Lines that skip
layers leave the chain at its side, and lines between columns run in the gutters, so neither hides under a box.

The result depends on the structure alone, never on a placement: boxes stay where they are from solve to solve.
O(sweeps * edges) apart from sorting; about 0.1 s at 2,000 boxes, and remembered per structure.
"""

from collections.abc import Sequence
from itertools import pairwise

from explorer.layout.lines import COLUMN_GAP, MARGIN, PASS_GAP, Drawing, Layout, Sizes, layout_bytes
from explorer.layout.rows import Structure, layers_of, ordered_rows
from explorer.server.byte_cache import remembered

PANEL_ASPECT = 2.3
"""Width over height of the panel the drawing should fill."""
PANEL_WIDTH = 1050.0
MAX_COMFORTABLE_SCALE = 1.5
"""A drawing that fits at this magnification does not get better by growing."""
HORIZONTAL_LAYERS = 12
"""Up to this many layers a graph may run from left to right."""

DOWN_GAPS = 20.0, 14.0
RIGHT_GAPS = 48.0, 18.0
"""Between layers, and between neighbours in a layer."""


def layered_layout(structure: Structure) -> Layout:
    """Return the drawing of a structure.

    >>> layout = layered_layout(Structure((False,) * 3, (-1,) * 3, ((0, 1), (1, 2))))
    >>> layout.flow, [x for x, _ in layout.centres] == sorted(x for x, _ in layout.centres)
    ('right', True)
    """
    return remembered("layout", (structure.digest,), lambda: _drawn(structure), layout_bytes)


def _drawn(structure: Structure) -> Layout:
    if not structure.is_backward:
        return Layout((), (), 2 * MARGIN, 2 * MARGIN, "down")
    rows = ordered_rows(structure, layers_of(structure))
    down = Sizes(structure.box_height, structure.box_width, *DOWN_GAPS)
    columns, scale = _best_wrap(rows, structure, down)
    if len(rows) <= HORIZONTAL_LAYERS:
        right = Sizes(structure.box_width, structure.box_height, *RIGHT_GAPS)
        extent = _extent(rows, structure, right, [0, len(rows)])
        horizontal = _scale(extent[1], extent[0])
        if horizontal >= min(1.0, 0.85 * scale):
            return Drawing(structure, rows, [0, len(rows)], right).finish(transposed=True)
    return Drawing(structure, rows, columns, down).finish(transposed=False)


def _extent(
    rows: Sequence[Sequence[int]], structure: Structure, sizes: Sizes, breaks: Sequence[int]
) -> tuple[float, float]:
    """Return the size across and along the flow when rows are cut into columns at `breaks`."""
    across = 0.0
    longest = 0
    for begin, end in pairwise(breaks):
        forward = backward = 0
        for row in rows[begin:end]:
            num_backward = sum(structure.is_backward[v] for v in row)
            backward = max(backward, num_backward)
            forward = max(forward, len(row) - num_backward)
        across += (forward + backward) * sizes.neighbour_pitch + COLUMN_GAP
        across += PASS_GAP if forward and backward else 0.0
        longest = max(longest, end - begin)
    return across, longest * sizes.layer_pitch


def _scale(width: float, height: float) -> float:
    return min(PANEL_WIDTH / (width + 2 * MARGIN), PANEL_WIDTH / PANEL_ASPECT / (height + 2 * MARGIN))


def _best_wrap(rows: Sequence[Sequence[int]], structure: Structure, sizes: Sizes) -> tuple[list[int], float]:
    """Return the row numbers at which columns begin and end, and the magnification that fills the panel."""
    n = len(rows)
    crossing = [0] * (n + 1)
    row_of = {v: i for i, row in enumerate(rows) for v in row}
    for u, v in structure.edges:
        top, bottom = sorted((row_of[u], row_of[v]))
        crossing[top + 1] += 1
        crossing[bottom + 1] -= 1
    for i in range(1, n + 1):
        crossing[i] += crossing[i - 1]
    best: tuple[float, float, list[int]] = (0.0, 0.0, [0, n])
    for num_columns in range(1, min(n, 48) + 1):
        breaks = [0]
        slack = max(0, round(0.1 * n / num_columns))
        for i in range(1, num_columns):
            target = round(i * n / num_columns)
            window = range(max(breaks[-1] + 1, target - slack), min(n - 1, target + slack) + 1)
            if window:
                # Cut where the fewest lines cross, and near the even share among those.
                breaks.append(min(window, key=lambda b, t=target: (crossing[b], abs(b - t), b)))  # type: ignore[misc]
        breaks.append(n)
        across, along = _extent(rows, structure, sizes, breaks)
        scale = min(MAX_COMFORTABLE_SCALE, _scale(across, along))
        # Of drawings that are equally large, the one that fills more of the panel.
        area = across * along * scale**2
        if scale > best[0] * 1.02 or (scale > best[0] * 0.98 and area > best[1] * 1.05):
            best = (scale, area, breaks)
    return best[2], best[0]
