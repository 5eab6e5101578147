"""Where boxes and lines are drawn, once it is known which box is in which row and how rows are cut into columns.

Lines that skip layers leave the chain at its side, and lines between columns run in the gutters, so neither hides under
a box.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from explorer.layout.rows import SWEEPS, Structure, backward_runs_up
from explorer.server.sizes import NUMBER_BYTES, TUPLE_BYTES

PASS_GAP = 30.0
COLUMN_GAP = 34.0
MARGIN = 12.0
LANE_STEP = 6.0
MAX_LANES = 8
"""Side lines next to each other in a column; further ones share a lane."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Centres of the boxes and routes of the edges (x0, y0, x1, y1, ...), in units of about one pixel.

    `flow` is "down" or "right"; all coordinates lie within 0 .. `width` and 0 .. `height`.
    """

    centres: tuple[tuple[float, float], ...]
    routes: tuple[tuple[float, ...], ...]
    width: float
    height: float
    flow: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """Extents along the flow and across it: a layer's box and the gap to the next layer or neighbour."""

    along: float
    across: float
    layer_gap: float
    neighbour_gap: float

    @property
    def layer_pitch(self) -> float:
        """From one layer to the next."""
        return self.along + self.layer_gap

    @property
    def neighbour_pitch(self) -> float:
        """From one box to the next in its layer."""
        return self.across + self.neighbour_gap


class Drawing:
    """Coordinates across (a) and along (b) the flow while they are worked out."""

    def __init__(self, structure: Structure, rows: list[list[int]], breaks: list[int], sizes: Sizes) -> None:
        self.structure = structure
        self.rows = rows
        self.sizes = sizes
        runs_up = backward_runs_up(structure)
        self.up = [is_backward and runs_up for is_backward in structure.is_backward]
        self.row_of = {v: i for i, row in enumerate(rows) for v in row}
        self.column_of_row = [c for c, (begin, end) in enumerate(pairwise(breaks)) for _ in range(begin, end)]
        self.breaks = breaks
        n = len(structure.is_backward)
        self.a = [0.0] * n
        self.b = [(self.row_of[v] - breaks[self.column_of_row[self.row_of[v]]]) * sizes.layer_pitch for v in range(n)]
        self.left = [0.0] * (len(breaks) - 1)
        self.right = [0.0] * (len(breaks) - 1)
        self.lane_of: dict[int, float] = {}
        """Offset across of the side line of edge i."""
        self.gutter_of: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
        self.top_of: dict[tuple[str, int], float] = {}
        self._place()

    def finish(self, transposed: bool) -> Layout:
        """Route the edges and move everything into the positive quadrant."""
        routes = self._routes()
        half_a, half_b = self.sizes.across / 2, self.sizes.along / 2
        all_a = [c for a in self.a for c in (a - half_a, a + half_a)] + [p[0] for route in routes for p in route]
        all_b = [c for b in self.b for c in (b - half_b, b + half_b)] + [p[1] for route in routes for p in route]
        shift_a, shift_b = MARGIN - min(all_a), MARGIN - min(all_b)
        extent_a, extent_b = max(all_a) + shift_a + MARGIN, max(all_b) + shift_b + MARGIN

        def point(a: float, b: float) -> tuple[float, float]:
            a, b = round(a + shift_a, 1), round(b + shift_b, 1)
            return (b, a) if transposed else (a, b)

        return Layout(
            tuple(point(a, b) for a, b in zip(self.a, self.b, strict=True)),
            tuple(tuple(c for a, b in route for c in point(a, b)) for route in routes),
            extent_b if transposed else extent_a,
            extent_a if transposed else extent_b,
            "right" if transposed else "down",
        )

    # Boxes

    def _place(self) -> None:
        """Set `a` column by column, from left to right, leaving room for the side lines of each."""
        inside: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for i, (u, v) in enumerate(self.structure.edges):
            column = self.column_of_row[self.row_of[u]]
            if column == self.column_of_row[self.row_of[v]]:
                inside[column].append((i, u, v))
        start = 0.0
        for column, (begin, end) in enumerate(zip(self.breaks, self.breaks[1:], strict=False)):
            members = [v for row in self.rows[begin:end] for v in row]
            forward = [v for v in members if not self.structure.is_backward[v]]
            backward = [v for v in members if self.structure.is_backward[v]]
            edges = inside[column]
            block_start = start
            for block in (forward, backward):
                if not block:
                    continue
                if block is backward and forward:
                    block_start += PASS_GAP
                is_backward = block is backward
                block_edges = [
                    (i, u, v)
                    for i, u, v in edges
                    if self.structure.is_backward[u] == is_backward == self.structure.is_backward[v]
                ]
                self._align(begin, end, is_backward, [(u, v) for _, u, v in block_edges])
                low = min(self.a[v] for v in block) - self.sizes.across / 2
                # Side lines keep out of the space between the passes: forward ones go left, the others right.
                side = -1 if backward and not is_backward else 1
                lanes = self._assign_lanes(block_edges, side, is_backward)
                extra = min([low, *(self.lane_of[i] - 4 for i in lanes)]) if side < 0 else low
                shift = block_start - extra
                for v in block:
                    self.a[v] += shift
                for i in lanes:
                    self.lane_of[i] += shift
                high = max(self.a[v] for v in block) + self.sizes.across / 2
                block_start = max([high, *(self.lane_of[i] + 4 for i in lanes)])
            self.left[column], self.right[column] = start, block_start
            start = block_start + COLUMN_GAP

    def _align(self, begin: int, end: int, is_backward: bool, edges: Sequence[tuple[int, int]]) -> None:
        """Move the boxes of a column's rows towards their neighbours without changing their order.

        Every sweep looks back only, so after the last one, downwards, a chain stands straight below its first box.
        """
        pitch = self.sizes.neighbour_pitch
        rows = [[v for v in row if self.structure.is_backward[v] == is_backward] for row in self.rows[begin:end]]
        bound = (max(map(len, rows)) - 1) / 2 * pitch
        above: dict[int, list[int]] = defaultdict(list)
        below: dict[int, list[int]] = defaultdict(list)
        for u, v in edges:
            top, bottom = (u, v) if self.row_of[u] < self.row_of[v] else (v, u)
            if self.row_of[bottom] - self.row_of[top] == 1:
                below[top].append(bottom)
                above[bottom].append(top)
        for row in rows:
            for i, v in enumerate(row):
                self.a[v] = (i - (len(row) - 1) / 2) * pitch
        for sweep in range(SWEEPS + 1):
            seen = above if sweep % 2 == 0 else below
            for row in rows if sweep % 2 == 0 else reversed(rows):
                wanted = [sum(self.a[u] for u in seen[v]) / len(seen[v]) if seen[v] else self.a[v] for v in row]
                placed = _spread(wanted, pitch)
                if placed:
                    shift = max(-bound - placed[0], 0.0) + min(bound - placed[-1], 0.0)
                    for v, a in zip(row, placed, strict=True):
                        self.a[v] = a + shift

    def _assign_lanes(self, edges: Sequence[tuple[int, int, int]], side: int, is_backward: bool) -> list[int]:
        """Give every edge that would run through a box a line beside the boxes; return the numbers of these edges."""
        hidden = [(i, u, v) for i, u, v in edges if self._is_hidden(u, v)]
        border: dict[int, float] = {}
        for i, row in enumerate(self.rows):
            mine = [self.a[v] for v in row if self.structure.is_backward[v] == is_backward]
            if mine:
                border[i] = max(side * a for a in mine) + self.sizes.across / 2
        bundles: dict[tuple[str, int], list[int]] = defaultdict(list)
        for (i, _, _), bundle in zip(hidden, _bundles([(u, v) for _, u, v in hidden]), strict=True):
            bundles[bundle].append(i)
        spans: list[tuple[int, int, list[int]]] = []
        for members in bundles.values():
            rows = [self.row_of[end] for i in members for end in self.structure.edges[i]]
            spans.append((min(rows), max(rows), members))
        taken: list[list[tuple[int, int]]] = []
        # Short lines come first and stay near the boxes; lines that do not overlap share a lane.
        for top, bottom, members in sorted(spans, key=lambda span: (span[1] - span[0], span)):
            lane = next((k for k, used in enumerate(taken) if all(bottom < t or b < top for t, b in used)), len(taken))
            if lane == len(taken):
                taken.append([])
            taken[lane].append((top, bottom))
            outer = max(border[r] for r in range(top, bottom + 1) if r in border)
            for i in members:
                self.lane_of[i] = side * (outer + 9 + (lane % MAX_LANES) * LANE_STEP)
        return [i for i, _, _ in hidden]

    def _is_hidden(self, u: int, v: int) -> bool:
        """Whether the straight line between two boxes of a column would touch a third one."""
        i, j = self.row_of[u], self.row_of[v]
        if i == j:
            return True
        step = 1 if j > i else -1
        for r in range(i + step, j, step):
            share = (r - i) / (j - i)
            a = self.a[u] + (self.a[v] - self.a[u]) * share
            if any(abs(self.a[w] - a) < self.sizes.across / 2 + 6 for w in self.rows[r]):
                return True
        return False

    # Lines

    def _routes(self) -> list[list[tuple[float, float]]]:
        edges = self.structure.edges
        columns = [self.column_of_row[self.row_of[v]] for v in range(len(self.a))]
        between = [i for i, (u, v) in enumerate(edges) if columns[u] != columns[v]]
        bundle_of = dict(zip(between, _bundles([edges[i] for i in between]), strict=True))
        return [
            self._route_between(u, v, columns[u], columns[v], bundle_of[i])
            if i in bundle_of
            else self._route_inside(i, u, v)
            for i, (u, v) in enumerate(edges)
        ]

    def _route_inside(self, i: int, u: int, v: int) -> list[tuple[float, float]]:
        """Return the corner points of an edge within a column, from the border of one box to that of the other."""
        half_a, half_b = self.sizes.across / 2, self.sizes.along / 2
        a1, b1, a2, b2 = self.a[u], self.b[u], self.a[v], self.b[v]
        if i in self.lane_of:
            lane = self.lane_of[i]
            return self._via(u, v, lane, 1 if lane > a1 else -1, 1 if lane > a2 else -1)
        if self.structure.is_backward[u] != self.structure.is_backward[v]:
            side = 1 if a2 > a1 else -1
            return [(a1 + side * half_a, b1), (a2 - side * half_a, b2)]
        side = 1 if b2 > b1 else -1
        return [(a1, b1 + side * half_b), (a2, b2 - side * half_b)]

    def _route_between(
        self, u: int, v: int, column_u: int, column_v: int, bundle: tuple[str, int]
    ) -> list[tuple[float, float]]:
        """Return the corner points of an edge from column to column; edges of one bundle share their lines."""
        side = 1 if column_v > column_u else -1
        leaving = self._gutter(column_u + 1 if side > 0 else column_u, bundle)
        if abs(column_u - column_v) == 1:
            # From the end of one column to the beginning of the next, the line goes round like a reader's eye.
            natural = self.up[u] == self.up[v] == (side < 0)
            last, first = self.breaks[column_u + 1] - 1, self.breaks[column_v]
            if side < 0:
                last, first = self.breaks[column_u], self.breaks[column_v + 1] - 1
            return self._via(
                u, v, leaving, side, -side, natural and self.row_of[u] == last, natural and self.row_of[v] == first
            )
        arriving = self._gutter(column_v if side > 0 else column_v + 1, bundle)
        if bundle not in self.top_of:
            self.top_of[bundle] = -self.sizes.along / 2 - 14 - (len(self.top_of) % 10) * 4
        top = self.top_of[bundle]
        out, into = self._stub(u, side, True), self._stub(v, -side, False)
        return [*out, (leaving, out[-1][1]), (leaving, top), (arriving, top), (arriving, into[-1][1]), *into[::-1]]

    def _via(
        self,
        u: int,
        v: int,
        lane: float,
        side_u: int,
        side_v: int,
        leave_by_gap: bool = False,
        enter_by_gap: bool = False,
    ) -> list[tuple[float, float]]:
        """Return the route from box to box along one line."""
        out, into = self._stub(u, side_u, True, leave_by_gap), self._stub(v, side_v, False, enter_by_gap)
        return [*out, (lane, out[-1][1]), (lane, into[-1][1]), *into[::-1]]

    def _stub(self, v: int, side: int, leaving: bool, by_gap: bool = False) -> list[tuple[float, float]]:
        """Return the first points of a line out of (or, reversed, into) a box towards a side.

        Straight from its side when nothing stands there, else through the gap between the layers.
        """
        half_a, half_b = self.sizes.across / 2, self.sizes.along / 2
        a, b = self.a[v], self.b[v]
        if not by_gap and all(side * (self.a[w] - a) <= 0 for w in self.rows[self.row_of[v]]):
            return [(a + side * half_a, b)]
        direction = 1 if leaving != self.up[v] else -1
        return [(a, b + direction * half_b), (a, b + direction * (half_b + self.sizes.layer_gap / 2))]

    def _gutter(self, column: int, bundle: tuple[str, int]) -> float:
        """Return a bundle's line in the gutter left of a column."""
        used = self.gutter_of[column]
        position = used.setdefault(bundle, len(used))
        return self.left[column] - COLUMN_GAP / 2 + (position % 7 - 3) * 3.5


def _bundles(edges: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
    """Name for each edge the end it shares its line with: all lines of one tensor run together, as one wire."""
    fan_out: dict[int, int] = defaultdict(int)
    fan_in: dict[int, int] = defaultdict(int)
    for u, v in edges:
        fan_out[u] += 1
        fan_in[v] += 1
    return [("out", u) if fan_out[u] >= fan_in[v] else ("in", v) for u, v in edges]


def _spread(wanted: Iterable[float], pitch: float) -> list[float]:
    """Return the positions nearest to `wanted`, in order and at least `pitch` apart (isotonic regression)."""
    blocks: list[tuple[float, int]] = []
    for i, w in enumerate(wanted):
        total, count = w - i * pitch, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            previous = blocks.pop()
            total, count = total + previous[0], count + previous[1]
        blocks.append((total, count))
    placed: list[float] = []
    for total, count in blocks:
        for _ in range(count):
            placed.append(total / count + len(placed) * pitch)
    return placed


def layout_bytes(layout: Layout) -> int:
    """Return the size of a drawing's coordinates."""
    numbers = 2 * len(layout.centres) + sum(map(len, layout.routes))
    return NUMBER_BYTES * numbers + TUPLE_BYTES * (len(layout.centres) + len(layout.routes))
