"""Where each box of a graph is drawn: layers by longest path, ordered by barycentres, wrapped into columns.

A network is deep and narrow, so its plain layered drawing is a thin sliver. Here the layers run down a column and go
on at the top of the next one, like text on a page, with as many columns as fill the panel best; a graph of a few layers
runs from left to right instead. A backward box stands in the row of its forward twin, beside it. Lines that skip
layers leave the chain at its side, and lines between columns run in the gutters, so neither hides under a box.

The result depends on the structure alone, never on a placement: boxes stay where they are from solve to solve.
O(sweeps * edges) apart from sorting; about 0.1 s at 2,000 boxes, and remembered per structure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil, sqrt

import networkx as nx

BOX_WIDTH = 92.0
BOX_HEIGHT = 26.0
PANEL_ASPECT = 2.3
"""Width over height of the panel the drawing should fill."""
PANEL_WIDTH = 1050.0
MAX_COMFORTABLE_SCALE = 1.5
"""A drawing that fits at this magnification does not get better by growing."""
SWEEPS = 6
HORIZONTAL_LAYERS = 12
"""Up to this many layers a graph may run from left to right."""
LANE_STEP = 6.0
MAX_LANES = 8
"""Side lines next to each other in a column; further ones share a lane."""


@dataclass(frozen=True, slots=True)
class Structure:
    """What a drawing depends on: boxes 0 .. n-1 in an order in which data mostly flows, and edges between them.

    `is_backward` says which boxes belong to the backward pass; boxes with the same `twin` (not -1) want to share a
    row. An edge against the order is allowed: it is drawn, but does not order the layers.
    """

    is_backward: tuple[bool, ...]
    twin: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    box_width: float = BOX_WIDTH
    box_height: float = BOX_HEIGHT


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
class _Sizes:
    """Extents along the flow and across it: a layer's box and the gap to the next layer or neighbour."""

    along: float
    across: float
    layer_gap: float
    neighbour_gap: float

    @property
    def layer_pitch(self) -> float:
        return self.along + self.layer_gap

    @property
    def neighbour_pitch(self) -> float:
        return self.across + self.neighbour_gap


DOWN_GAPS = 20.0, 14.0
RIGHT_GAPS = 48.0, 18.0
"""Between layers, and between neighbours in a layer."""
PASS_GAP = 30.0
COLUMN_GAP = 34.0
MARGIN = 12.0


@lru_cache(maxsize=64)
def layered_layout(structure: Structure) -> Layout:
    """Return the drawing of a structure.

    >>> layout = layered_layout(Structure((False,) * 3, (-1,) * 3, ((0, 1), (1, 2))))
    >>> layout.flow, [x for x, _ in layout.centres] == sorted(x for x, _ in layout.centres)
    ('right', True)
    """
    if not structure.is_backward:
        return Layout((), (), 2 * MARGIN, 2 * MARGIN, "down")
    rows = _ordered_rows(structure, _layers(structure))
    down = _Sizes(structure.box_height, structure.box_width, *DOWN_GAPS)
    columns, scale = _best_wrap(rows, structure, down)
    if len(rows) <= HORIZONTAL_LAYERS:
        right = _Sizes(structure.box_width, structure.box_height, *RIGHT_GAPS)
        extent = _extent(rows, structure, right, [0, len(rows)])
        horizontal = _scale(extent[1], extent[0])
        if horizontal >= min(1.0, 0.85 * scale):
            return _Drawing(structure, rows, [0, len(rows)], right).finish(transposed=True)
    return _Drawing(structure, rows, columns, down).finish(transposed=False)


# Layers


def _layers(structure: Structure) -> list[int]:
    """Return the layer of each box: longest paths, forward downwards and backward upwards, twins in one layer."""
    arcs = _ordering_arcs(structure)
    n = len(structure.is_backward)
    group = list(range(n))
    first_with: dict[int, int] = {}
    for v, twin in enumerate(structure.twin):
        if twin >= 0:
            group[v] = first_with.setdefault(twin, v)
    while True:
        joined = [(group[u], group[v]) for u, v in arcs if group[u] != group[v]]
        layer = _longest_paths(n, joined)
        if layer is not None:
            return _beside_neighbours(structure, arcs, [layer[group[v]] for v in range(n)])
        # Twins that cannot share a layer without a cycle go separate ways; the arcs alone are acyclic.
        quotient: nx.DiGraph[int] = nx.DiGraph(joined)
        circular = {g for part in nx.strongly_connected_components(quotient) if len(part) > 1 for g in part}
        group = [v if group[v] in circular else group[v] for v in range(n)]


def _beside_neighbours(structure: Structure, arcs: Sequence[tuple[int, int]], layer: list[int]) -> list[int]:
    """Move each box that nothing orders, such as one whose edges all go to the other pass, to a neighbour's layer."""
    ordered = {v for arc in arcs for v in arc} | {v for v, twin in enumerate(structure.twin) if twin >= 0}
    for u, v in structure.edges:
        for free, other in ((u, v), (v, u)):
            if free not in ordered:
                layer[free] = layer[other]
                ordered.add(free)
    return layer


def _ordering_arcs(structure: Structure) -> list[tuple[int, int]]:
    """Return the pairs (above, below): forward edges as they are, backward edges turned round where they run up."""
    upwards = _backward_runs_up(structure)
    arcs: list[tuple[int, int]] = []
    for u, v in structure.edges:
        if u < v and structure.is_backward[u] == structure.is_backward[v]:
            arcs.append((v, u) if structure.is_backward[u] and upwards else (u, v))
    return arcs


def _backward_runs_up(structure: Structure) -> bool:
    """Whether backward edges mostly run against their forward twins.

    They should; but in some published training graphs the backward part is a copy of the forward part, direction
    included, and such a copy reads best beside its original.
    """
    forward_twin = {twin: v for v, twin in enumerate(structure.twin) if twin >= 0 and not structure.is_backward[v]}
    against = along = 0
    for u, v in structure.edges:
        if structure.is_backward[u] and structure.is_backward[v]:
            first, second = forward_twin.get(structure.twin[u]), forward_twin.get(structure.twin[v])
            if first is not None and second is not None and first != second:
                against += second < first
                along += second > first
    return against >= along


def _longest_paths(n: int, arcs: Sequence[tuple[int, int]]) -> list[int] | None:
    """Return the longest-path layer of each box, what may be is pulled down to its readers; None when cyclic."""
    below: list[list[int]] = [[] for _ in range(n)]
    num_above = [0] * n
    for u, v in arcs:
        below[u].append(v)
        num_above[v] += 1
    waiting = list(num_above)
    layer = [0] * n
    order = [v for v in range(n) if waiting[v] == 0]
    for u in order:
        for v in below[u]:
            layer[v] = max(layer[v], layer[u] + 1)
            waiting[v] -= 1
            if waiting[v] == 0:
                order.append(v)
    if len(order) < n:
        return None
    # Moving down lengthens the edges above and shortens those below: worth it unless there are more above, and
    # always where what is above is a loose tree, which moves along.
    is_loose = [True] * n
    for u in order:
        for v in below[u]:
            is_loose[v] = is_loose[v] and is_loose[u] and len(below[u]) == 1
    # Ends that nothing reads do not hold a box back when others do read it; they follow it down afterwards.
    for u in reversed(order):
        if below[u] and (is_loose[u] or num_above[u] <= len(below[u])):
            layer[u] = max(layer[u], min(layer[v] for v in [v for v in below[u] if below[v]] or below[u]) - 1)
    for u in order:
        for v in below[u]:
            layer[v] = max(layer[v], layer[u] + 1)
    used = {value: i for i, value in enumerate(sorted(set(layer)))}
    return [used[value] for value in layer]


def _ordered_rows(structure: Structure, layer: Sequence[int]) -> list[list[int]]:
    """Return the boxes of each layer from left to right, forward before backward; overlong layers are split."""
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for v, i in enumerate(layer):
        rows[i].append(v)
    neighbours: list[list[int]] = [[] for _ in layer]
    for u, v in structure.edges:
        neighbours[u].append(v)
        neighbours[v].append(u)
    place = [0.0] * len(layer)

    def renumber(row: list[int]) -> None:
        for side in (False, True):
            members = [v for v in row if structure.is_backward[v] == side]
            for i, v in enumerate(members):
                place[v] = i - (len(members) - 1) / 2

    for row in rows:
        renumber(row)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for i in range(len(rows)) if downwards else range(len(rows) - 1, -1, -1):
            row = rows[i]
            if len(row) < 2:
                continue
            centre: dict[int, float] = {}
            for v in row:
                seen = [
                    place[u]
                    for u in neighbours[v]
                    if (layer[u] < i if downwards else layer[u] > i)
                    and structure.is_backward[u] == structure.is_backward[v]
                ]
                centre[v] = sum(seen) / len(seen) if seen else place[v]
            row.sort(key=lambda v, c=centre: (structure.is_backward[v], c[v], v))  # type: ignore[misc]
            renumber(row)
    limit = max(6, ceil(1.2 * sqrt(len(layer))))
    split: list[list[int]] = []
    for row in rows:
        split.extend(row[i : i + limit] for i in range(0, len(row), limit))
    return split


# Wrapping


def _extent(
    rows: Sequence[Sequence[int]], structure: Structure, sizes: _Sizes, breaks: Sequence[int]
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


def _best_wrap(rows: Sequence[Sequence[int]], structure: Structure, sizes: _Sizes) -> tuple[list[int], float]:
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


# Drawing


class _Drawing:
    """Coordinates across (a) and along (b) the flow while they are worked out."""

    def __init__(self, structure: Structure, rows: list[list[int]], breaks: list[int], sizes: _Sizes) -> None:
        self.structure = structure
        self.rows = rows
        self.sizes = sizes
        runs_up = _backward_runs_up(structure)
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
