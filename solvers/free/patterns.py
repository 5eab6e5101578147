"""All sets of blocks that one accelerator may hold, with their loads, as a layered decision diagram.

Blocks are decided one after the other: in the set S or not. What the past means for the future is, for every net
(hyperedge) with both decided and undecided ends, whether its decided ends are all outside, all inside, or divided; a
net is paid at the moment it becomes divided. Sets with the same such state share a node of the diagram, so that layer
i has at most 3^a nodes, a the number of nets across position i of the order, and far fewer where the order follows
the graph: a cut of a computation graph is narrow (its pathwidth is 2 to 10 for common networks).

    load(S) = sum of the lengths of the arcs along the path of S,
    arc "b joins" = p_b + sum of w_e over nets that this divides,  arc "b stays out" = sum of w_e over those nets.

Every maximisation of sum_{b in S} price_b - mu load(S) over all 2^n sets is thus one pass over the arcs. A diagram that
would exceed a width leaves nets out, the cheapest across that position first: loads then are underestimated,
which keeps every upper bound on what a device can hold valid.

(Decision diagrams for discrete optimisation: Bergman, Cire, van Hoeve, Hooker, 2016; here exact, but for dropped nets.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from solvers.problem.contraction import Contraction, FloatArray, IntArray

MAX_WIDTH = 4096
"""Nodes of a layer above which nets are left out."""

MAX_NODES = 400_000
"""Nodes of all layers together, about; layers are narrower where there are very many."""

MAX_BLOCKS_FOR_GREEDY = 3000
"""Above this the blocks are taken in the order they have."""

ORDER_STARTS = 12
"""How many blocks the greedy order is tried from."""

OUTSIDE, INSIDE, DIVIDED = 0, 1, 2


class Arcs(NamedTuple):
    """The diagram as flat arrays. Layer i has nodes first[i] .. first[i+1]-1 and decides block order[i].

    `target[a, x]` is the node after decision x (0 out, 1 in) at node a, `length[a, x]` what it adds to the load in ms.
    The root is node 0, the only node of the last layer is the end.
    """

    order: IntArray
    first: IntArray
    target: IntArray
    length: FloatArray


@dataclass(frozen=True, slots=True)
class ContentsDiagram:
    """The diagram, and the total weight in ms of the nets that were left out of it."""

    arcs: Arcs
    dropped_ms: float

    @property
    def width(self) -> int:
        """Nodes of the largest layer."""
        return int(np.diff(self.arcs.first).max())


def contents_diagram(
    contraction: Contraction,
    max_width: int = MAX_WIDTH,
    check: Callable[[], object] = object,
    order: IntArray | None = None,
) -> ContentsDiagram:
    """Return the diagram of a contraction's blocks, in an `order` if one is given.

    An arc on which a block joins that accelerators cannot run is infinitely long. `check` is called often; what it
    raises ends the work.

    >>> import numpy as np
    >>> from solvers.problem.contraction import Hyperedge
    >>> one, none = np.ones(2), np.zeros(2)
    >>> diagram = contents_diagram(Contraction(((1,), (2,)), one, one, none, (), (Hyperedge((0, 1), 0.5, None),)))
    >>> diagram.arcs.length.tolist()
    [[0.0, 1.0], [0.0, 1.5], [0.5, 1.0]]
    """
    max_width = max(1, min(max_width, MAX_NODES // max(1, contraction.num_blocks)))
    order = vertex_order(contraction, check) if order is None else order
    position = np.empty(contraction.num_blocks, np.int64)
    position[order] = np.arange(contraction.num_blocks)
    starts: list[list[int]] = [[] for _ in order]
    last: list[int] = []
    nets_at: list[list[int]] = [[] for _ in order]
    for e, hyperedge in enumerate(contraction.hyperedges):
        places = sorted(int(position[b]) for b in hyperedge.blocks)
        starts[places[0]].append(e)
        last.append(places[-1])
        for place in places:
            nets_at[place].append(e)
    weight = [h.weight_ms for h in contraction.hyperedges]
    dropped: set[int] = set()
    active: list[int] = []
    states = np.zeros((1, 0), np.uint8)
    first, targets, lengths = [0, 1], [], []
    for i, b in enumerate(order.tolist()):
        check()
        size = len(states)
        added = [e for e in starts[i] if e not in dropped]
        active = [*active, *added]
        column = {e: j for j, e in enumerate(active)}
        states = np.hstack([states, np.zeros((size, len(added)), np.uint8)])
        length = np.zeros((size, 2))
        length[:, INSIDE] += contraction.accelerator_ms[b]
        after = []
        for x in (OUTSIDE, INSIDE):
            new = states.copy()
            for e in nets_at[i]:
                if e in dropped:
                    continue
                j = column[e]
                if e in added:
                    new[:, j] = x
                else:
                    divides = new[:, j] == 1 - x
                    length[divides, x] += weight[e]
                    new[divides, j] = DIVIDED
            after.append(new)
        kept = [e for e in active if last[e] > i]
        both = np.vstack(after)[:, [column[e] for e in kept]]
        states, inverse = _distinct(both)
        while len(states) > max_width:
            cheapest = min(kept, key=weight.__getitem__)
            dropped.add(cheapest)
            both = np.delete(both, kept.index(cheapest), axis=1)
            kept.remove(cheapest)
            states, inverse = _distinct(both)
        active = kept
        targets.append(first[-1] + inverse.reshape(2, size).T)
        lengths.append(length)
        first.append(first[-1] + len(states))
    return ContentsDiagram(
        Arcs(
            order=order,
            first=np.array(first, np.int32),
            target=np.vstack(targets).astype(np.int32, order="C"),
            length=np.ascontiguousarray(np.vstack(lengths)),
        ),
        dropped_ms=sum(weight[e] for e in dropped),
    )


def _distinct(rows: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the distinct rows, and for each row the number of its like among them."""
    if rows.shape[1] == 0:
        return rows[:1], np.zeros(len(rows), np.int64)
    packed = np.zeros((len(rows), (rows.shape[1] + 30) // 31), np.int64)
    for j in range(rows.shape[1]):
        packed[:, j // 31] |= rows[:, j].astype(np.int64) << (2 * (j % 31))
    if packed.shape[1] == 1:
        _, index, inverse = np.unique(packed[:, 0], return_index=True, return_inverse=True)
    else:
        _, index, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return rows[index], inverse.reshape(-1)


def vertex_order(contraction: Contraction, check: Callable[[], object] = object) -> IntArray:
    """Return an order of the blocks with few nets across any position: the best of the given order and greedy ones.

    Greedy: next comes the block that leaves the fewest nets open, among the blocks of open nets.
    """
    n = contraction.num_blocks
    nets: list[list[int]] = [[] for _ in range(n)]
    for e, hyperedge in enumerate(contraction.hyperedges):
        for b in hyperedge.blocks:
            nets[b].append(e)
    ends = [h.blocks for h in contraction.hyperedges]
    step = max(1, n // ORDER_STARTS) if n <= MAX_BLOCKS_FOR_GREEDY else n + 1
    candidates = [list(range(n))]
    candidates += [_greedy_order(n, nets, ends, s, check) for s in range(0, n, step)]
    best = min(candidates, key=lambda order: _cost_of_order(order, nets, ends))
    return np.array(best, np.int32)


def _greedy_order(
    n: int, nets: list[list[int]], ends: list[tuple[int, ...]], start: int, check: Callable[[], object]
) -> list[int]:
    left = [len(e) for e in ends]
    opened = [False] * len(ends)
    placed = [False] * n
    touched: dict[int, int] = {}
    order: list[int] = []
    waiting = iter(range(n))
    b: int | None = start
    while b is not None:
        check()
        placed[b] = True
        touched.pop(b, None)
        order.append(b)
        for e in nets[b]:
            left[e] -= 1
            if not opened[e]:
                opened[e] = True
                for c in ends[e]:
                    if not placed[c]:
                        touched[c] = len(order)
        if touched:
            b = min(
                touched,
                key=lambda c: (
                    sum((not opened[e]) - (left[e] == 1) for e in nets[c]),
                    -touched[c],
                    c,
                ),
            )
        else:
            b = next((c for c in waiting if not placed[c]), None)
    return order


def _cost_of_order(order: list[int], nets: list[list[int]], ends: list[tuple[int, ...]]) -> float:
    """About how many nodes a diagram in this order has: 2^(blocks that bear an open net) over all positions."""
    left = [len(e) for e in ends]
    open_of: list[int] = [0] * len(nets)
    placed: set[int] = set()
    bearing = 0
    cost = 0.0
    for b in order:
        placed.add(b)
        for e in nets[b]:
            left[e] -= 1
            if left[e]:
                open_of[b] += 1
            else:
                for c in ends[e]:
                    if c != b:
                        open_of[c] -= 1
                        bearing -= open_of[c] == 0
        bearing += open_of[b] > 0
        cost += 2.0 ** min(bearing, 60)
    return cost
