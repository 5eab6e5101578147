"""All sets of blocks that one accelerator may hold, with their loads, as a layered decision diagram.

Blocks are decided one after the other: in the set S or not. What the past means for the future is, for every net
(hyperedge) with both decided and undecided ends, whether its decided ends are all outside, all inside, or divided; a
net is paid at the moment it becomes divided. Sets with the same such state share a node of the diagram, so that layer
i has at most 3^a nodes, a the number of nets across position i of the order, and far fewer where the order follows
the graph: a cut of a computation graph is narrow (its pathwidth is 2 to 10 for common networks).

    load(S) = sum of the lengths of the arcs along the path of S,
    arc "b joins" = p_b + sum of w_e over nets that this divides,  arc "b stays out" = sum of w_e over those nets.

The least length that surely follows at a node is moved to the arcs that lead to it, and nodes from which the same can
follow are one (`solvers.free.diagram`).

Every maximisation of sum_{b in S} price_b - mu load(S) over all 2^n sets is thus one pass over the arcs. A diagram that
would exceed a width leaves nets out, the cheapest across that position first: loads then are underestimated,
which keeps every upper bound on what a device can hold valid.

Where sets must be convex the past also tells, for every block that a later one reads from, whether it is inside, or
outside behind a block inside. A block that reads from one of the latter may not join: a path would leave the set and
come back. Blocks are then decided in an order of the graph, forwards or backwards, and only sets that are convex are
paths of finite length. A path that passes through a block of several forward nodes is not followed there, and columns
of such states are left out like nets where the diagram gets too wide: more sets are then allowed, which keeps every
bound valid.

(Decision diagrams for discrete optimisation: Bergman, Cire, van Hoeve, Hooker, 2016; here exact, but for dropped nets.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from solvers.free.block_order import narrow_orders
from solvers.free.diagram import Arcs, reduced
from solvers.free.layers import decided, distinct
from solvers.model.graph import DnnGraph
from solvers.problem.contraction import Contraction, IntArray

MAX_WIDTH = 32_768
"""Nodes of a layer above which nets are left out while a diagram is built."""

MAX_NODES = (1_200_000, 400_000, 160_000)
"""Nodes of all layers together while it is built: half of them shared out evenly, half for where the diagram is wide.

The next one is for where too many are left of the one before.
"""
MAX_WHOLE_WITH_PATHS = 1_500_000
"""Nodes of all layers together of a diagram of convex sets from which nothing is left out; layers may share them as
they like: where it is wide shares would be too few. Often one of the four orders takes far fewer nodes than the others.
"""
MAX_REDUCED, MAX_REDUCED_WITH_PATHS = 160_000, 400_000
"""Nodes that may be left of a diagram: without a few nets a bound is hardly worse, and comes much sooner.

Paths are left out all or not at all.
"""
MORE_THAN_OTHERS = 3
"""A whole diagram is given up when it has so many times as many nodes as another; it may end with fewer."""
LAYERS_AT_ONCE = 8
"""Of that half a layer may have the share of so many of the layers that are left."""


class Paths(NamedTuple):
    """What convex sets must not leave and enter again: which blocks each reads from, and which blocks paths pass.

    `passes[b]` is false for a block with several forward nodes: what enters at one may not leave at another.
    """

    before: tuple[tuple[int, ...], ...]
    passes: tuple[bool, ...]

    @staticmethod
    def of(contraction: Contraction, graph: DnnGraph) -> "Paths":
        """Return the forward paths between the blocks of a contraction of a graph.

        Not `contraction.edges`, which has mirrored backward edges, too: those order a chain, and divide no convex set.
        """
        block_of = {v: b for b, ids in enumerate(contraction.members) for v in ids}
        is_backward = {node.id: node.is_backward for node in graph.nodes}
        edges = {
            (block_of[edge.source], block_of[edge.target])
            for edge in graph.edges
            if not is_backward[edge.source] and not is_backward[edge.target]
        }
        before: list[list[int]] = [[] for _ in contraction.members]
        for u, v in sorted(edges):
            if u != v:
                before[v].append(u)
        forward = [sum(not graph.node_by_id[v].is_backward for v in ids) for ids in contraction.members]
        return Paths(tuple(map(tuple, before)), tuple(count == 1 for count in forward))

    def backwards(self) -> "Paths":
        """Return the same paths walked from their ends: the same sets are convex."""
        after: list[list[int]] = [[] for _ in self.before]
        for v, row in enumerate(self.before):
            for u in row:
                after[u].append(v)
        return Paths(tuple(map(tuple, after)), self.passes)


@dataclass(frozen=True, slots=True)
class ContentsDiagram:
    """The diagram, the total weight in ms of the nets that were left out of it, and whether paths were, too.

    `paths`, where sets are convex, are in the direction of its order.
    """

    arcs: Arcs
    dropped_ms: float
    forgets_paths: bool
    paths: Paths | None

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return not (self.forgets_paths or self.dropped_ms)

    @property
    def num_nodes(self) -> int:
        """Nodes of all layers together but the end."""
        return len(self.arcs.target)

    @property
    def badness(self) -> tuple[bool, float, int]:
        """What is the worse the more it is: paths left out, then nets, then the number of nodes."""
        return self.forgets_paths, self.dropped_ms, self.num_nodes


def contents_diagram(
    contraction: Contraction,
    max_width: int = MAX_WIDTH,
    check: Callable[[], object] = object,
    order: IntArray | None = None,
    paths: Paths | None = None,
) -> ContentsDiagram:
    """Return the diagram of a contraction's blocks, in an `order` if one is given, else in a narrow one.

    With `paths` it is one of convex sets only; the order, if one is given, then goes along these paths.

    An arc on which a block joins that accelerators cannot run is infinitely long. `check` is called often; what it
    raises ends the work.

    >>> import numpy as np
    >>> from solvers.problem.contraction import Hyperedge
    >>> one, none = np.ones(2), np.zeros(2)
    >>> diagram = contents_diagram(Contraction(((1,), (2,)), one, one, none, (), (Hyperedge((0, 1), 0.5, None),)))
    >>> diagram.arcs.length.tolist()
    [[0.0, 1.5], [0.0, 1.5], [0.0, 0.5]]
    """
    orders = [(paths, order)] if order is not None else _orders(contraction, check, paths)
    most_left = MAX_REDUCED if paths is None else MAX_REDUCED_WITH_PATHS
    best = None if paths is None else _best_of_orders(contraction, max_width, check, orders, None)
    for room in MAX_NODES:
        if best is not None and best.num_nodes <= most_left:
            break
        best = _best_of_orders(contraction, max_width, check, orders, room)
    assert best is not None
    return best


def _best_of_orders(
    contraction: Contraction,
    max_width: int,
    check: Callable[[], object],
    orders: Sequence[tuple[Paths | None, IntArray]],
    room: int | None,
) -> ContentsDiagram | None:
    """Return the best reduced diagram, in one of these orders, of those built with room for so many nodes.

    Without `room` nothing is left out, and None is returned where all orders take too many nodes.
    """
    tried: list[ContentsDiagram] = []
    fewest: int | None = None  # nodes of a whole one, as it was built
    most_nodes = MAX_WHOLE_WITH_PATHS if room is None else None
    for paths, order in orders:
        built = _diagram_in_order(contraction, max_width, check, order, paths, room, most_nodes)
        if built is None or (fewest is not None and not built.is_whole):
            continue
        if built.is_whole:
            fewest = built.num_nodes if fewest is None else min(fewest, built.num_nodes)
            # What an order is taken to cost is wrong where nets have many ends or paths follow each other.
            most_nodes = min(MORE_THAN_OTHERS * fewest, most_nodes or MORE_THAN_OTHERS * fewest)
        tried.append(replace(built, arcs=reduced(built.arcs)))
    return min(tried, key=lambda diagram: diagram.badness, default=None)


def _orders(
    contraction: Contraction, check: Callable[[], object], paths: Paths | None
) -> list[tuple[Paths | None, IntArray]]:
    """Return orders to try. With `paths` blocks follow those they read from in some, and go before them in others."""
    given = list(range(contraction.num_blocks))
    ends = [h.blocks for h in contraction.hyperedges]
    if paths is None:
        # Which end comes first decides how many nets a wide diagram leaves out. Views would be compiled for again.
        orders = narrow_orders(given, ends, (), check)
        return [(None, way) for order in orders for way in (order, order[::-1].copy())]
    ends += [(*row, b) for b, row in enumerate(paths.backwards().before) if row]
    found: list[tuple[Paths | None, IntArray]] = []
    for way, start in ((paths, given), (paths.backwards(), given[::-1])):
        found += [(way, order) for order in narrow_orders(start, ends, way.before, check)]
    return found


def _diagram_in_order(
    contraction: Contraction,
    max_width: int,
    check: Callable[[], object],
    order: IntArray,
    paths: Paths | None,
    room: int | None,
    most_nodes: int | None,
) -> ContentsDiagram | None:
    """Return the diagram that decides blocks in this order, which goes along the `paths` if there are any.

    Columns are left out where it would not have room, for so many nodes, or be wider than `max_width`. None if it has
    more than `most_nodes`, or no `room` is given and it would be wider.
    """
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
    # Beside the nets there is a column for each block that a later one reads from, numbered after them.
    num_nets = len(weight)
    reads: list[list[int]] = [[] for _ in order]
    if paths is not None:
        read_until = np.full(contraction.num_blocks, -1, np.int64)
        for b, row in enumerate(paths.before):
            reads[position[b]] = [u for u in row if position[u] < position[b]]
            for u in reads[position[b]]:
                read_until[u] = max(read_until[u], position[b])
        last += read_until.tolist()
        dearest = np.zeros(contraction.num_blocks)
        for h in contraction.hyperedges:
            dearest[list(h.blocks)] = np.maximum(dearest[list(h.blocks)], h.weight_ms)
        weight += dearest.tolist()
    shared = None if room is None else room // 2
    even_share = (shared or 0) // len(order)
    dropped: set[int] = set()
    active: list[int] = []
    states = np.zeros((1, 0), np.uint8)
    first, targets, lengths = [0, 1], [], []
    for i, b in enumerate(order.tolist()):
        check()
        if most_nodes is not None and first[-1] > most_nodes + 1:
            return None
        size = len(states)
        own = num_nets + b
        is_read = paths is not None and last[own] > i
        added = [*(e for e in starts[i] if e not in dropped), *([own] if is_read else [])]
        active = [*active, *added]
        column = {e: j for j, e in enumerate(active)}
        nets = [e for e in nets_at[i] if e not in dropped]
        kept = [e for e in active if last[e] > i]
        rows, length = decided(
            np.ascontiguousarray(np.hstack([states, np.zeros((size, len(added)), np.uint8)])),
            np.array([column[e] for e in nets], np.int64),
            np.array([weight[e] for e in nets]),
            np.array([e in added for e in nets], np.bool_),
            np.array([column[num_nets + u] for u in reads[i] if num_nets + u not in dropped], np.int64),
            column[own] if is_read else -1,
            paths is None or paths.passes[b],
            np.array([column[e] for e in kept], np.int64),
            contraction.accelerator_ms[b],
        )
        states, inverse = distinct(rows)
        most = max_width
        if shared is not None:
            nodes_left = shared - max(0, first[-1] - i * even_share)
            most = max(1, min(max_width, even_share + LAYERS_AT_ONCE * nodes_left // (len(order) - i)))
        elif len(states) > max_width:
            return None
        while len(states) > most:
            cheapest = min(kept, key=weight.__getitem__)
            dropped.add(cheapest)
            states, number = distinct(np.delete(states, kept.index(cheapest), axis=1))
            kept.remove(cheapest)
            inverse = number[inverse]
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
        dropped_ms=sum(weight[e] for e in dropped if e < num_nets),
        forgets_paths=any(e >= num_nets for e in dropped),
        paths=paths,
    )
