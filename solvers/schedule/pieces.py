"""The pieces of a split: which nodes a device runs together, in which pass, and how far apart pieces work.

Pieces. A device with forward nodes has one forward stage and a device with backward nodes one backward stage, as
long as the devices, joined by the data that passes between them in that pass, form no circle. Where they do, the
nodes of a pass are cut into pieces whose graph is acyclic. Repeat: of the devices whose remaining nodes can all run
now take the first; if there is none, take the device whose runnable nodes (those that become ready by running this
device alone) are the largest share of its remaining work. What can run becomes one stage. Every step runs all that
a device can run, so the earliest remaining node in topological order is always among the candidates, and the loop
ends after O(nodes + edges + pieces x devices) steps. When the devices form no circle some device can always run to
its end, so each gets one stage.

Depth. A device works in rounds: in round n a stage of depth t runs micro-batch n - t, and the stages of a round run
in order of pass, depth and position in the graph. Write L for the largest load.
* Depth by longest path (inference; each pass of GPipe; 1F1B and PipeDream without a pipeline in both passes): data
  that passes to another device adds one round, data that stays adds none, and a device's backward stages come no
  earlier than its forward stages. Any circuit of waiting events is a sequence of visits to devices; a visit that
  spans r round boundaries takes at most (r + 1) L, and the step to the next device adds a round to the r. So no
  circuit takes longer than L per round: the period is L.
* Depth by position (1F1B and PipeDream on pipelines, and ZB-H1, which runs on nothing else): there is one order of the
  p devices along which forward data only passes on and backward data only passes back. The forward stage of the
  device at position i has depth i and every backward stage depth p - 1: that is p - 1 - i forwards, then pairs of
  forward and backward, then the backwards that are left. A backward step to an earlier device adds no round, but a
  circuit steps back over each boundary as often as it steps on, so it enters the forward and the backward stage of a
  device equally often and makes one round for each such pair: again at most L per round. Steps that skip
  devices visit fewer stages in as many rounds, and so do forward tensors read in the backward pass of any device.
  ZB-H1 adds weight gradients at depth p - 1 + i, for which nobody waits.
Either way every wait points to an earlier (round, stage) pair, so no order of this kind can deadlock.

Chunks (interleaved 1F1B, ZB-V): each chunk of a looped split is a forward and a backward piece, in orders of their own
(`solvers.schedule.looped_orders`). For the latency of one micro-batch each subgraph is a piece, and so is each node
on a CPU.

A pipeline by its forward data may be none by its backward data: in the paper's published layer graphs for training
(BERT-24, ResNet-50) the backward edges run along the forward ones instead of against them, and no backward node
reads a forward one. Such a graph is taken at its word, and 1F1B runs it by longest path.

Sources: Huang et al., "GPipe" (arXiv 1811.06965); Narayanan et al., "PipeDream" (SOSP 2019) and "Memory-Efficient
Pipeline-Parallel DNN Training" (arXiv 2006.09503, the variant with flushes); Fan et al., "DAPPLE" (arXiv
2007.01045); cyclic splits: Tarnawski et al. (NeurIPS 2020), on pipelines of non-contiguous splits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import networkx as nx

from solvers.model.costs import Task, task_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.schedule.checks import needs_pipeline, order_of_both_passes
from solvers.schedule.records import LoopedSplit, Pass, ScheduleError, ScheduleKind

BY_POSITION = (ScheduleKind.ONE_F_ONE_B, ScheduleKind.PIPEDREAM, ScheduleKind.ZB_H1)
"""Schedules whose depths count the devices of the pipeline, where there is one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stage before its times are known; pieces are listed in an order that keeps every input first."""

    device: int
    direction: Pass
    nodes: tuple[int, ...]
    depth: int = 0
    number: int = 0


def device_pieces(
    graph: DnnGraph, deployment: Deployment, device_of: Mapping[int, int], kind: ScheduleKind
) -> list[Piece]:
    """Cut each pass of each device into as many pieces as it takes, with depths for rounds."""
    order = order_of_both_passes(graph, device_of)
    if kind is ScheduleKind.ZB_H1 and order is None:
        raise needs_pipeline(kind)
    preference = order or tuple(range(deployment.num_devices))

    def pieces_of(direction: Pass) -> list[Piece]:
        in_pass = [v for v in graph.topological_order if _direction(graph, v) is direction]
        # The backward pass comes back along the pipeline; either way a pipeline is cut in its own order.
        devices = preference if direction is Pass.FORWARD else preference[::-1]
        return [Piece(d, direction, nodes) for d, nodes in _cut(graph, deployment, device_of, in_pass, devices)]

    pieces = pieces_of(Pass.FORWARD) + pieces_of(Pass.BACKWARD)
    if kind in BY_POSITION and order is not None:
        depth = [order.index(s.device) if s.direction is Pass.FORWARD else len(order) - 1 for s in pieces]
    else:
        piece_of = {v: i for i, piece in enumerate(pieces) for v in piece.nodes}
        depth = _longest_paths(graph, pieces, piece_of, passes_apart=kind is ScheduleKind.GPIPE)
    numbers = _numbers(pieces)
    ranked = sorted(range(len(pieces)), key=lambda i: (pieces[i].direction is Pass.BACKWARD, depth[i], i))
    return [replace(pieces[i], depth=depth[i], number=numbers[i]) for i in ranked]


def chunk_pieces(graph: DnnGraph, looped: LoopedSplit, kind: ScheduleKind) -> list[Piece]:
    """Take each pass of each chunk as a piece: forward along the chunks, backward back."""
    chunk_of = {v: c for c, members in enumerate(looped.chunks) for v in members}
    for edge in graph.edges:
        u, v = edge.source, edge.target
        direction = _direction(graph, u)
        step = chunk_of[v] - chunk_of[u] if direction is Pass.FORWARD else chunk_of[u] - chunk_of[v]
        if direction is _direction(graph, v) and step < 0:
            raise needs_pipeline(kind)
    last = len(looped.chunks) - 1
    pieces: list[Piece] = []
    for direction in (Pass.FORWARD, Pass.BACKWARD):
        in_pass = [v for v in graph.topological_order if _direction(graph, v) is direction]
        for c in range(last + 1) if direction is Pass.FORWARD else range(last, -1, -1):
            nodes = tuple(v for v in in_pass if chunk_of[v] == c)
            depth = c if direction is Pass.FORWARD else 2 * last - c
            if nodes:
                pieces.append(Piece(looped.devices[c], direction, nodes, depth, c))
    return pieces


def task_pieces(graph: DnnGraph, split: Split, device_of: Mapping[int, int]) -> list[Piece]:
    """Take each subgraph of an accelerator as a piece, and each node on a CPU, as in `costs.single_sample_latency`."""
    tasks = task_graph(graph, split)
    if not nx.is_directed_acyclic_graph(tasks):
        raise ScheduleError(
            "Devices of this split wait for each other in a circle, so no micro-batch gets through it one subgraph "
            f"after the other; choose {ScheduleKind.UNPIPELINED}, or a split solved for latency."
        )
    position = {v: i for i, v in enumerate(graph.topological_order)}
    members: dict[Task, tuple[int, ...]] = {}
    for task in tasks:
        what, index, part = task
        nodes = split.subgraphs_of(index)[part] if what == "block" else (index,)
        members[task] = tuple(sorted(nodes, key=position.__getitem__))
    ranked = nx.lexicographical_topological_sort(tasks, key=lambda task: position[members[task][0]])
    return [Piece(device_of[members[task][0]], Pass.FORWARD, members[task], number=i) for i, task in enumerate(ranked)]


def _direction(graph: DnnGraph, v: int) -> Pass:
    return Pass.BACKWARD if graph.node_by_id[v].is_backward else Pass.FORWARD


def _compute_ms(graph: DnnGraph, deployment: Deployment, device_of: Mapping[int, int], v: int) -> float:
    return deployment.node_ms(graph.node_by_id[v], device_of[v])


def _cut(
    graph: DnnGraph,
    deployment: Deployment,
    device_of: Mapping[int, int],
    in_pass: Sequence[int],
    preference: Sequence[int],
) -> list[tuple[int, tuple[int, ...]]]:
    """Return (device, nodes) of the pieces of one pass, in an order in which they can run one after another.

    `in_pass` lists the nodes of the pass in topological order; among equal devices the first in `preference` wins.
    """
    members = set(in_pass)
    position = {v: i for i, v in enumerate(in_pass)}
    # An input stops missing when its piece has run or, on the reader's own device, as soon as it can run.
    missing = {v: sum(u in members for u in graph.inputs[v]) for v in in_pass}
    remaining: dict[int, int] = dict.fromkeys(preference, 0)
    remaining_ms: dict[int, float] = dict.fromkeys(preference, 0.0)
    runnable: dict[int, list[int]] = {d: [] for d in preference}
    runnable_ms: dict[int, float] = dict.fromkeys(preference, 0.0)
    for v in in_pass:
        remaining[device_of[v]] += 1
        remaining_ms[device_of[v]] += _compute_ms(graph, deployment, device_of, v)

    def make_runnable(ready: list[int]) -> None:
        while ready:
            v = ready.pop()
            d = device_of[v]
            runnable[d].append(v)
            runnable_ms[d] += _compute_ms(graph, deployment, device_of, v)
            ready.extend(release(v, inside=True))

    def release(u: int, inside: bool) -> list[int]:
        """Count u as present for its readers on its own device, or for those elsewhere; return who is ready now."""
        ready: list[int] = []
        for v in graph.readers[u]:
            if v in members and (device_of[v] == device_of[u]) is inside:
                missing[v] -= 1
                if missing[v] == 0:
                    ready.append(v)
        return ready

    def share(d: int) -> tuple[bool, float]:
        """Rank a device: whether it can finish its pass now, then how much of what it has left it can do."""
        if len(runnable[d]) == remaining[d]:
            return True, 1.0
        by_time = remaining_ms[d] > 0
        return False, runnable_ms[d] / remaining_ms[d] if by_time else len(runnable[d]) / remaining[d]

    make_runnable([v for v in in_pass if missing[v] == 0])
    pieces: list[tuple[int, tuple[int, ...]]] = []
    while candidates := [d for d in preference if runnable[d]]:
        chosen = max(candidates, key=share)  # the first in `preference` of equal ones
        nodes = tuple(sorted(runnable[chosen], key=position.__getitem__))
        pieces.append((chosen, nodes))
        remaining[chosen] -= len(nodes)
        remaining_ms[chosen] -= runnable_ms[chosen]
        runnable[chosen], runnable_ms[chosen] = [], 0.0
        for u in nodes:
            make_runnable(release(u, inside=False))
    return pieces


def _longest_paths(
    graph: DnnGraph, pieces: Sequence[Piece], piece_of: Mapping[int, int], passes_apart: bool
) -> list[int]:
    """Return the depth of each piece: the steps to another device on the longest path that leads to it.

    With `passes_apart` the backward pass counts from 0 again; else a device's backward pieces come no earlier than
    its forward ones. `pieces` is in topological order.
    """
    depth: list[int] = []
    deepest_forward: dict[int, int] = {}
    for i, piece in enumerate(pieces):
        sources = {piece_of[u] for v in piece.nodes for u in graph.inputs[v]} - {i}
        if passes_apart:
            sources = {s for s in sources if pieces[s].direction is piece.direction}
        deepest = max((depth[s] + (pieces[s].device != piece.device) for s in sources), default=0)
        if piece.direction is Pass.FORWARD:
            deepest_forward[piece.device] = max(deepest, deepest_forward.get(piece.device, 0))
        elif not passes_apart:
            deepest = max(deepest, deepest_forward.get(piece.device, 0))
        depth.append(deepest)
    return depth


def _numbers(pieces: Sequence[Piece]) -> list[int]:
    """Number forward pieces in order; the backward pieces of a device take its forward numbers from last to first."""
    numbers: list[int] = []
    forward_numbers: dict[int, list[int]] = {}
    fresh = sum(piece.direction is Pass.FORWARD for piece in pieces)
    for i, piece in enumerate(pieces):
        own = forward_numbers.setdefault(piece.device, [])
        if piece.direction is Pass.FORWARD:
            own.append(i)
            numbers.append(i)
        elif own:
            numbers.append(own.pop())
        else:
            numbers.append(fresh)
            fresh += 1
    return numbers
