"""Preparation: the smaller problem that solvers work on, with the same optimum as the graph it came from.

Nodes that must share a device become one block; traffic becomes hyperedges over blocks. An accelerator holding the
set S of blocks has

    load(S) = sum_{b in S} p_b + sum_e w_e [ e is cut by S ],

where hyperedge e holds the blocks of one tensor's writer and readers. A device whose blocks cut e receives the tensor
if the writer is elsewhere and sends it otherwise. Hyperedges inside one block vanish, and equal ones merge, since
neither changes any load: equal in their blocks where only the sum of a device's transfers counts (communication sum
and overlapped), in their writer too where receiving and sending are told apart (full duplex).

Which nodes share a block depends on the family (MODEL: a split assigns every node to one device):

* free and convex: the members of a colocation class, for every split of the family keeps them together.
* chain: besides, the strongly connected classes of the forward graph. Stages are differences of nested ideals, so
  along a forward edge the stage number cannot fall; around a cycle of classes it can then not change at all, and all
  of them share a stage. Conversely every chain of the contracted graph is one of the original graph. A class without
  forward member takes part through the mirror image of its backward edges (see `solvers.model.split.forward_edges`).

Idle blocks join a neighbour. Let b take no time on any device (and run on all of them), let its bytes not bind, and let
{a, b} be a hyperedge at least as dear as all others of b together (or b be in one hyperedge only, with a in it). Then
moving b to a's device never raises a device's transfers: the device b leaves and the device of a both stop paying for
{a, b} and start paying for at most b's other hyperedges; no other device notices. Compute stays as it is, so neither
compute + transfers nor max(compute, transfers) rises on any device, nor either of them divided by a number of replicas.

For full duplex neither what a device receives nor what it sends may rise. b may join a if the tensors {a, b} that a
writes are together at least as dear as what b writes besides, and those that b writes at least as dear as what b reads
besides. Then the device of a sends less by the former and more by at most what b writes besides; it receives less by
the latter and more by at most what b reads besides. The device b leaves receives less by the former and more by at most
what b writes besides (it may hold readers of that); it sends less by the latter and more by at most what b reads
besides (it may hold the writer). Other devices neither gain nor lose an end of a hyperedge, and its writer stays off
them. If b is in one hyperedge only, reads it, and a is in it, then no device starts to pay for it and its writer stays
where it is. (With b as the writer of one with further readers, the device b leaves may go from sending to receiving.)

For GPipe neither may rise in either pass, so the same is asked of the tensors of each pass by themselves. A tensor that
a forward node writes and backward nodes of other blocks read may be received in either pass, and a move may shift it
from one to the other: it counts against joining in both passes, and under full duplex rules it out.

With classes of accelerators all this is said of one device at a time: its transfers, before and after, are divided by
the same link speed, and b is idle if it takes no time on a device of any class.

Bytes do not bind without a memory limit or if everything fits on any one accelerator. Where they may bind, and under a
training schedule's memory or with replicas that exchange the gradients of their weights, only a block without any bytes
is joined: it leaves every other stage's bytes as they are, and if it empties its device, no stage has more stages after
it than before, so that none needs more memory.

For the chain family a must also be b's only neighbour before it, or its only one behind it, so that the move leaves no
device out of order. For the convex family no block is joined: mirrored backward edges bind chains but not convexity,
and neighbours are told by both.

Chain blocks are numbered in a topological order of the forward graph.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import networkx as nx
import numpy as np
import numpy.typing as npt

from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph, Node
from solvers.model.memory import is_scheduled, training_bytes
from solvers.model.split import Family, forward_edges

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Hyperedge:
    """A tensor, or several with the same ends: sorted blocks and what one device pays when it is cut, in ms.

    `writer` is the block that writes it; None when tensors of several writers are merged, which never happens under
    full duplex.
    """

    blocks: tuple[int, ...]
    weight_ms: float
    writer: int | None


@dataclass(frozen=True)
class Contraction:
    """Blocks 0 .. n-1 with their node ids, times in ms and memory in bytes; arrays have shape (n,).

    `memory_bytes` is what a block takes on an accelerator wherever it stands; under a training schedule that is what
    it takes on the last stage, and it may take more on others. `accelerator_ms` is infinite for a block with a node
    that runs on CPUs only. Where accelerators are of several classes it is the least of their times, and `class_ms`
    has a row of times per class, shape (classes, n); hyperedges have their weight at link speed 1. `edges` are the
    forward edges between blocks, without doubles; they are acyclic for the chain family.
    """

    members: tuple[tuple[int, ...], ...]
    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    memory_bytes: FloatArray
    edges: tuple[tuple[int, int], ...]
    hyperedges: tuple[Hyperedge, ...]
    class_ms: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def num_blocks(self) -> int:
        """Number of blocks."""
        return len(self.members)

    def device_of(self, device_of_block: dict[int, int]) -> dict[int, int]:
        """Device of each node, given the device of each block."""
        return {v: d for b, d in device_of_block.items() for v in self.members[b]}


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """What must share a device, and how long it takes there: the part of a contraction that needs no transfers.

    Fields are those of `Contraction`; blocks are in the order of their first nodes.
    """

    members: tuple[tuple[int, ...], ...]
    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    class_ms: FloatArray


def block_times(graph: DnnGraph, family: Family, deployment: Deployment) -> BlockTimes:
    """Return the blocks of `contract(..., join_idle=False)` with their times, for a small part of its cost."""
    block_of = _colocation_blocks(graph, ())
    if family is Family.CHAIN:
        block_of = _fuse_cycles(graph, block_of, forward_edges(graph))
    members: dict[int, list[int]] = defaultdict(list)
    for v in graph.topological_order:
        members[block_of[v]].append(v)
    times = _times([[graph.node_by_id[v] for v in ids] for ids in members.values()], deployment)
    return BlockTimes(tuple(map(tuple, members.values())), *times)


def contract(
    graph: DnnGraph,
    family: Family,
    deployment: Deployment,
    *,
    join_idle: bool = True,
    passes_apart: bool = False,
    together: Collection[Collection[int]] = (),
    fixed: Collection[int] = (),
) -> Contraction:
    """Return the prepared problem of a graph for a family of splits over the devices of `deployment`.

    `passes_apart` must be set for the GPipe time, where a move must not shift transfers between passes, and
    `join_idle` must be off for objectives that are neither that nor max-load. Only splits are kept that have each group
    of nodes of `together` on one device. The blocks of the nodes in `fixed` join no other: they may be idle, but are
    asked to be on a certain device.

    >>> from solvers.model.graph import Node, Edge
    >>> nodes = tuple(Node(i, 1.0, 1.0, colocation_class=i % 2) for i in range(4))
    >>> contract(DnnGraph(nodes, ()), Family.FREE, Deployment(2)).members
    ((0, 2), (1, 3))
    """
    block_of = _colocation_blocks(graph, together)
    edges = forward_edges(graph)
    if family is Family.CHAIN:
        block_of = _fuse_cycles(graph, block_of, edges)
    draft = _Draft(graph, block_of, edges)
    if join_idle and family is not Family.CONVEX:
        draft.join_idle_blocks(family, deployment, {block_of[v] for v in fixed}, passes_apart=passes_apart)

    position = {v: i for i, v in enumerate(graph.topological_order)}
    first = {b: min(position[v] for v in ids) for b, ids in draft.members.items()}
    quotient: nx.DiGraph[int] = nx.DiGraph()
    quotient.add_nodes_from(draft.members)
    quotient.add_edges_from((a, b) for a, behind in draft.behind.items() for b in behind)
    if family is Family.CHAIN:
        order = list(nx.lexicographical_topological_sort(quotient, key=first.__getitem__))
    else:
        order = sorted(draft.members, key=first.__getitem__)
    number = {b: i for i, b in enumerate(order)}

    nodes = [[graph.node_by_id[v] for v in draft.members[b]] for b in order]
    accelerator_ms, cpu_ms, class_ms = _times(nodes, deployment)
    return Contraction(
        members=tuple(tuple(draft.members[b]) for b in order),
        accelerator_ms=accelerator_ms,
        cpu_ms=cpu_ms,
        memory_bytes=_least_bytes(graph, deployment, [draft.members[b] for b in order]),
        edges=tuple(sorted((number[a], number[b]) for a, b in quotient.edges)),
        hyperedges=draft.hyperedges(number, keep_writers=deployment.communication is Communication.FULL_DUPLEX),
        class_ms=class_ms,
    )


def _times(blocks: list[list[Node]], deployment: Deployment) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return `accelerator_ms`, `cpu_ms` and `class_ms` of `Contraction` for blocks of nodes."""
    class_ms = np.array([_block_ms(blocks, device_class.node_ms) for device_class in deployment.classes])
    present = [i for i, device_class in enumerate(deployment.classes) if device_class.count]
    accelerator_ms = class_ms[present].min(axis=0) if present else _block_ms(blocks, lambda node: node.accelerator_ms)
    return accelerator_ms, np.array([sum(node.cpu_ms for node in block) for block in blocks]), class_ms


def _block_ms(blocks: list[list[Node]], node_ms: Callable[[Node], float]) -> FloatArray:
    """Return the time of each block on an accelerator; infinite where a node runs on CPUs only."""
    return np.array(
        [
            sum(node_ms(node) for node in block) if all(node.runs_on_accelerator for node in block) else np.inf
            for block in blocks
        ]
    )


class _Draft:
    """Blocks while they are being joined: members, neighbours in forward order, and hyperedges by index."""

    def __init__(self, graph: DnnGraph, block_of: dict[int, int], edges: list[tuple[int, int]]) -> None:
        self.graph = graph
        self.members: dict[int, list[int]] = defaultdict(list)
        for node in graph.nodes:
            self.members[block_of[node.id]].append(node.id)
        self.ahead: dict[int, set[int]] = {b: set() for b in self.members}
        self.behind: dict[int, set[int]] = {b: set() for b in self.members}
        for u, v in edges:
            if block_of[u] != block_of[v]:
                self.behind[block_of[u]].add(block_of[v])
                self.ahead[block_of[v]].add(block_of[u])
        self.net_blocks: list[set[int]] = []
        self.net_writer: list[int] = []
        self.net_weight: list[float] = []
        self.net_passes: list[tuple[bool, ...]] = []  # in which passes it may be paid: False forward, True backward
        self.nets_of: dict[int, set[int]] = {b: set() for b in self.members}
        for tensor in graph.tensors:
            home = block_of[tensor.source]
            ends = {home, *(block_of[v] for v in tensor.readers)}
            if len(ends) > 1 and tensor.transfer_ms > 0:
                for b in ends:
                    self.nets_of[b].add(len(self.net_blocks))
                self.net_blocks.append(ends)
                self.net_writer.append(home)
                self.net_weight.append(tensor.transfer_ms)
                late = any(graph.node_by_id[v].is_backward for v in tensor.readers if block_of[v] != home)
                is_backward = graph.node_by_id[tensor.source].is_backward
                self.net_passes.append((True,) if is_backward else (False, True) if late else (False,))

    def hyperedges(self, number: dict[int, int], *, keep_writers: bool) -> tuple[Hyperedge, ...]:
        """Return the hyperedges of more than one block, equal ones merged; `number` renames the blocks."""
        weights: dict[tuple[int, ...], dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for blocks, writer, weight in zip(self.net_blocks, self.net_writer, self.net_weight, strict=True):
            if len(blocks) > 1:
                weights[tuple(sorted(number[b] for b in blocks))][number[writer]] += weight
        merged: list[Hyperedge] = []
        for ends, of_writer in sorted(weights.items()):
            if keep_writers or len(of_writer) == 1:
                merged.extend(Hyperedge(ends, weight, writer) for writer, weight in sorted(of_writer.items()))
            else:
                merged.append(Hyperedge(ends, sum(of_writer.values()), None))
        return tuple(merged)

    def join_idle_blocks(self, family: Family, deployment: Deployment, fixed: set[int], *, passes_apart: bool) -> None:
        """Join every idle block that may join a neighbour, until none is left but the `fixed` ones."""
        total_bytes = sum(node.memory_bytes for node in self.graph.nodes)
        sizes = [deployment.memory_bytes, *(c.memory_bytes for c in deployment.classes if c.count)]
        smallest = min((size for size in sizes if size is not None), default=None)
        is_limited = smallest is not None
        memory_binds = smallest is not None and total_bytes > smallest
        all_bytes_bind = (is_limited and deployment.training_memory is not None) or (
            deployment.replication is not None and self.graph.is_training
        )

        def binds(node: Node) -> bool:
            if all_bytes_bind and (node.parameter_bytes or node.activation_bytes):
                return True
            return (memory_binds or all_bytes_bind) and node.memory_bytes > 0

        waiting = sorted(self.members, reverse=True)
        while waiting:
            b = waiting.pop()
            if b in fixed or b not in self.members or not self._is_idle(b) or any(map(binds, self._nodes(b))):
                continue
            a = self._host_of(b, family, deployment.communication, passes_apart)
            if a is not None:
                waiting.extend(sorted(({a} | self.ahead[b] | self.behind[b]) - {b}, reverse=True))
                self._join(b, a)

    def _nodes(self, b: int) -> list[Node]:
        return [self.graph.node_by_id[v] for v in self.members[b]]

    def _is_idle(self, b: int) -> bool:
        return all(
            node.accelerator_ms == 0
            and node.cpu_ms == 0
            and node.runs_on_accelerator
            and not any(dict(node.class_ms).values())
            for node in self._nodes(b)
        )

    def _host_of(self, b: int, family: Family, communication: Communication, passes_apart: bool) -> int | None:
        """Return the block that idle block b may join, None if there is none."""
        if family is Family.FREE:
            candidates = sorted({a for e in self.nets_of[b] for a in self.net_blocks[e]} - {b})
        else:
            candidates = sorted(a for side in (self.ahead[b], self.behind[b]) if len(side) == 1 for a in side)
        may_join = self._may_join_full_duplex if communication is Communication.FULL_DUPLEX else self._may_join
        groups = [self.nets_of[b]]
        if passes_apart:
            groups = [{e for e in self.nets_of[b] if p in self.net_passes[e]} for p in (False, True)]
            mixed = groups[0] & groups[1]
        else:
            mixed = set()
        return next((a for a in candidates if all(may_join(b, a, nets, mixed) for nets in groups)), None)

    def _may_join(self, b: int, a: int, nets: set[int], mixed: set[int]) -> bool:
        """Whether these tensors of idle block b alone show that moving it to a raises no device's transfers.

        `mixed` are those that the move may shift to these tensors' pass or from it.
        """
        if len(nets) <= 1:
            return all(a in self.net_blocks[e] and e not in mixed for e in nets)
        own = sum(self.net_weight[e] for e in nets - mixed if self.net_blocks[e] == {a, b})
        return own >= sum(self.net_weight[e] for e in nets) - own

    def _may_join_full_duplex(self, b: int, a: int, nets: set[int], mixed: set[int]) -> bool:
        """The same where neither what a device receives nor what it sends may rise."""
        if mixed:
            return False
        if len(nets) <= 1 and all(a in self.net_blocks[e] and self.net_writer[e] != b for e in nets):
            return True

        def weight(is_own: bool, is_written_by_b: bool) -> float:
            return sum(
                self.net_weight[e]
                for e in nets
                if (self.net_blocks[e] == {a, b}) == is_own and (self.net_writer[e] == b) == is_written_by_b
            )

        return all(weight(True, not written) >= weight(False, written) for written in (False, True))

    def _join(self, b: int, a: int) -> None:
        """Make b part of a."""
        self.members[a].extend(self.members.pop(b))
        for mine, theirs in ((self.ahead, self.behind), (self.behind, self.ahead)):
            for c in mine.pop(b):
                theirs[c].discard(b)
                if c != a:
                    theirs[c].add(a)
                    mine[a].add(c)
        for e in self.nets_of.pop(b):
            self.net_blocks[e].discard(b)
            self.net_blocks[e].add(a)
            if self.net_writer[e] == b:
                self.net_writer[e] = a
            self.nets_of[a].add(e)
        for e in list(self.nets_of[a]):
            if len(self.net_blocks[e]) == 1:
                self.nets_of[a].discard(e)


def _least_bytes(graph: DnnGraph, deployment: Deployment, blocks: list[list[int]]) -> FloatArray:
    """Return the bytes each block takes on an accelerator at least: on the last stage, if a schedule tells stages."""
    memory = deployment.training_memory
    if memory is not None and is_scheduled(graph, deployment):
        return np.array([training_bytes(graph, memory, ids).on_stage(memory, stages_after=0) for ids in blocks])
    return np.array([sum(graph.node_by_id[v].memory_bytes for v in ids) for ids in blocks])


def _colocation_blocks(graph: DnnGraph, together: Collection[Collection[int]]) -> dict[int, int]:
    """Return the block of each node: one per colocation class, one per node without; those with a group are one."""
    block_of_class: dict[int, int] = {}
    block_of: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        c = node.colocation_class
        block_of[node.id] = i if c is None else block_of_class.setdefault(c, i)
    if not together:
        return block_of
    ties: nx.Graph[int] = nx.Graph()
    ties.add_nodes_from(block_of.values())
    for ids in together:
        nx.add_path(ties, [block_of[v] for v in ids])
    first = {b: min(tied) for tied in nx.connected_components(ties) for b in tied}
    return {v: first[b] for v, b in block_of.items()}


def _fuse_cycles(graph: DnnGraph, block_of: dict[int, int], edges: list[tuple[int, int]]) -> dict[int, int]:
    """Return `block_of` with blocks on a common cycle of `edges` made one."""
    if not graph.is_training and len(set(block_of.values())) == len(block_of):
        return block_of  # the edges of single nodes are those of the graph, which has no cycle
    quotient: nx.DiGraph[int] = nx.DiGraph()
    quotient.add_nodes_from(block_of.values())
    quotient.add_edges_from((block_of[u], block_of[v]) for u, v in edges)
    fused = {b: min(component) for component in nx.strongly_connected_components(quotient) for b in component}
    return {v: fused[b] for v, b in block_of.items()}


def renumbered(contraction: Contraction, order: Sequence[int]) -> Contraction:
    """Return the contraction with its blocks numbered in `order`."""
    number = {b: i for i, b in enumerate(order)}
    rows = np.array(order)
    return replace(
        contraction,
        members=tuple(contraction.members[b] for b in order),
        accelerator_ms=contraction.accelerator_ms[rows],
        cpu_ms=contraction.cpu_ms[rows],
        memory_bytes=contraction.memory_bytes[rows],
        edges=tuple(sorted((number[a], number[b]) for a, b in contraction.edges)),
        class_ms=contraction.class_ms[:, rows] if contraction.class_ms.size else contraction.class_ms,
        hyperedges=tuple(
            Hyperedge(
                tuple(sorted(number[b] for b in hyperedge.blocks)),
                hyperedge.weight_ms,
                None if hyperedge.writer is None else number[hyperedge.writer],
            )
            for hyperedge in contraction.hyperedges
        ),
    )


def compressed_rows(rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return row pointers and concatenated entries, both int32."""
    ptr = np.zeros(len(rows) + 1, np.int32)
    ptr[1:] = np.cumsum([len(row) for row in rows])
    return ptr, np.array([x for row in rows for x in row], np.int32)
