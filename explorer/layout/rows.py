"""In which row of a drawing each box of a graph stands, and where in the row: layers by longest path, barycentres.

A backward box stands in the row of its forward twin, beside it. What a drawing depends on is a `Structure`.
"""

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, sqrt

import networkx as nx

BOX_WIDTH = 92.0
BOX_HEIGHT = 26.0
SWEEPS = 6


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

    @property
    def digest(self) -> str:
        """A key that is equal for equal structures."""
        known = hashlib.sha256(
            f"{self.box_width} {self.box_height} {len(self.is_backward)} {len(self.edges)} ".encode()
        )
        known.update(bytes(self.is_backward))
        known.update(array("q", self.twin))
        known.update(array("q", chain.from_iterable(self.edges)))
        return known.hexdigest()


def layers_of(structure: Structure) -> list[int]:
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
    upwards = backward_runs_up(structure)
    arcs: list[tuple[int, int]] = []
    for u, v in structure.edges:
        if u < v and structure.is_backward[u] == structure.is_backward[v]:
            arcs.append((v, u) if structure.is_backward[u] and upwards else (u, v))
    return arcs


def backward_runs_up(structure: Structure) -> bool:
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


def ordered_rows(structure: Structure, layer: Sequence[int]) -> list[list[int]]:
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
