"""The stages of a split: which nodes a device runs together, in which pass, and how far apart stages work.

Pieces. A device with forward nodes has one forward stage and a device with backward nodes one backward stage, as
long as the devices, joined by the data that passes between them in that pass, form no circle. Where they do, the
nodes of a pass are cut into pieces whose graph is acyclic. Repeat: of the devices whose remaining nodes can all run
now take the first; if there is none, take the device whose runnable nodes (those that become ready by running this
device alone) are the largest share of its remaining work. What can run becomes one stage. Every step runs all that
a device can run, so the earliest remaining node in topological order is always among the candidates, and the loop
ends after O(nodes + edges + pieces x devices) steps. When the devices form no circle some device can always run to
its end, so each gets one stage.

Transfers. As in `solvers.costs`, a tensor read on other devices is sent once, by the stage that makes it, and
received once per device, by the first stage there that needs it; it then stays on the device. CPUs transfer for
free. So the times of a device's stages add up to its load.

Depth. A device works in rounds: in round n a stage of depth t runs micro-batch n - t, and the stages of a round run
in order of pass, depth and position in the graph. Write L for the largest load.
* Depth by longest path (inference; each pass of GPipe; 1F1B of splits that are no pipeline in both passes): data
  that passes to another device adds one round, data that stays adds none, and a device's backward stages come no
  earlier than its forward stages. Any circuit of waiting events is a sequence of visits to devices; a visit that
  spans r round boundaries takes at most (r + 1) L, and the step to the next device adds a round to the r. So no
  circuit takes longer than L per round: the period is L.
* Depth by position (1F1B of pipelines, as in PipeDream-flush and DAPPLE): there is one order of the
  p devices along which forward data only passes on and backward data only passes back. The forward stage of the
  device at position i has depth i and every backward stage depth p - 1: that is p - 1 - i forwards, then pairs of
  forward and backward, then the backwards that are left. A backward step to an earlier device adds no round, but a
  circuit steps back over each boundary as often as it steps on, so it enters the forward and the backward stage of a
  device equally often and makes one round for each such pair: again at most L per round. Steps that skip
  devices visit fewer stages in as many rounds, and so do forward tensors read in the backward pass of any device.
Either way every wait points to an earlier (round, stage) pair, so no order of this kind can deadlock.

A pipeline by its forward data may be none by its backward data: in the paper's published layer graphs for training
(BERT-24, ResNet-50) the backward edges run along the forward ones instead of against them, and no backward node
reads a forward one. Such a graph is taken at its word, and 1F1B runs it by longest path.

Sources: Huang et al., "GPipe" (arXiv 1811.06965); Narayanan et al., "PipeDream" (SOSP 2019) and "Memory-Efficient
Pipeline-Parallel DNN Training" (arXiv 2006.09503, the variant with flushes); Fan et al., "DAPPLE" (arXiv
2007.01045); cyclic splits: Tarnawski et al. (NeurIPS 2020), on pipelines of non-contiguous splits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from solvers.deployment import Communication, Deployment
from solvers.graph import DnnGraph
from solvers.schedule_types import Pass, PipelineStage, ScheduleError, ScheduleKind
from solvers.split import Split, complete_split


def pipeline_stages(
    graph: DnnGraph, deployment: Deployment, split: Split, kind: ScheduleKind
) -> tuple[PipelineStage, ...]:
    """Return the stages of a complete split, forward stages first, each pass by depth and place in the graph.

    Raises ScheduleError when `kind` does not fit the graph, when a forward node reads a backward one, when the split
    uses more devices than there are, or when transfers overlap or stages are replicated: such pipelines keep more
    micro-batches in flight, in orders of their own. SplitError when the split does not place every node once.

    >>> from solvers.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> split = Split((frozenset({1}), frozenset({2})))
    >>> [(s.notation, s.total_ms) for s in pipeline_stages(g, Deployment(2), split, ScheduleKind.INFERENCE)]
    [('0F', 2.5), ('1F', 3.5)]
    """
    _check_kind(graph, kind)
    _check_model(deployment, split)
    device_of = _device_of(graph, deployment, split)
    order = _order_of_both_passes(graph, device_of)
    preference = order or tuple(range(deployment.num_devices))

    def pieces_of(direction: Pass) -> list[_Piece]:
        in_pass = [v for v in graph.topological_order if _direction(graph, v) is direction]
        # The backward pass comes back along the pipeline; either way a pipeline is cut in its own order.
        devices = preference if direction is Pass.FORWARD else preference[::-1]
        return [_Piece(d, direction, nodes) for d, nodes in _cut(graph, deployment, device_of, in_pass, devices)]

    pieces = pieces_of(Pass.FORWARD) + pieces_of(Pass.BACKWARD)
    piece_of = {v: i for i, piece in enumerate(pieces) for v in piece.nodes}
    if kind is ScheduleKind.ONE_F_ONE_B and order is not None:
        depth = [order.index(s.device) if s.direction is Pass.FORWARD else len(order) - 1 for s in pieces]
    else:
        depth = _longest_paths(graph, pieces, piece_of, passes_apart=kind is ScheduleKind.GPIPE)
    ranked = sorted(range(len(pieces)), key=lambda i: (pieces[i].direction is Pass.BACKWARD, depth[i], i))
    index_of = {i: index for index, i in enumerate(ranked)}
    stage_of = {v: index_of[i] for v, i in piece_of.items()}
    numbers = _numbers(pieces)
    transfers = _transfers(graph, deployment, device_of, stage_of, len(pieces))
    return tuple(
        PipelineStage(
            index=index,
            number=numbers[i],
            device=pieces[i].device,
            direction=pieces[i].direction,
            nodes=pieces[i].nodes,
            depth=depth[i],
            receive_ms=transfers[index].receive_ms,
            compute_ms=sum(_compute_ms(graph, deployment, device_of, v) for v in pieces[i].nodes),
            send_ms=transfers[index].send_ms,
            receives_from=tuple(sorted(transfers[index].receives_from)),
            follows=tuple(sorted(transfers[index].follows)),
        )
        for index, i in enumerate(ranked)
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    device: int
    direction: Pass
    nodes: tuple[int, ...]


@dataclass(slots=True)
class _Transfers:
    """What one stage receives and sends per micro-batch, in ms, and which stages elsewhere and here it waits for."""

    receive_ms: float = 0.0
    send_ms: float = 0.0
    receives_from: set[int] = field(default_factory=set)
    follows: set[int] = field(default_factory=set)


def _check_kind(graph: DnnGraph, kind: ScheduleKind) -> None:
    if graph.is_training and kind is ScheduleKind.INFERENCE:
        raise ScheduleError(
            "The graph has backward nodes, which an inference schedule does not run; choose gpipe or 1f1b."
        )
    if not graph.is_training and kind is not ScheduleKind.INFERENCE:
        raise ScheduleError(f"The graph has no backward nodes for a {kind} schedule to run; choose inference.")
    for edge in graph.edges:
        u, v = graph.node_by_id[edge.source], graph.node_by_id[edge.target]
        if u.is_backward and not v.is_backward:
            raise ScheduleError(
                f"edge {edge.source} -> {edge.target}: the forward {v.label} reads the backward {u.label}, so the "
                "forward pass cannot run first; mark the reader as backward or remove the edge."
            )


def _check_model(deployment: Deployment, split: Split) -> None:
    if deployment.communication is not Communication.SUM:
        raise ScheduleError(
            "Schedules run transfers before and after compute; set communication to sum to see one, though the time "
            "per sample is then larger."
        )
    if split.replicas:
        raise ScheduleError("Schedules run each stage on one device; choose a split without replicas to see one.")


def _device_of(graph: DnnGraph, deployment: Deployment, split: Split) -> dict[int, int]:
    """Return the device number in `deployment` of each node."""
    if complete_split(graph, split) != split:
        raise ScheduleError("The split does not place every node; complete it first.")
    device_of: dict[int, int] = {}
    for what, devices, first, available in (
        ("accelerators", split.accelerators, 0, deployment.num_accelerators),
        ("CPUs", split.cpus, deployment.num_accelerators, deployment.num_cpus),
    ):
        for i, members in enumerate(devices):
            if members and i >= available:
                raise ScheduleError(
                    f"The split uses {what} up to number {i + 1}, but there are {available}; "
                    "add devices or choose another split."
                )
            device_of.update(dict.fromkeys(members, first + i))
    return device_of


def _direction(graph: DnnGraph, v: int) -> Pass:
    return Pass.BACKWARD if graph.node_by_id[v].is_backward else Pass.FORWARD


def _compute_ms(graph: DnnGraph, deployment: Deployment, device_of: Mapping[int, int], v: int) -> float:
    node = graph.node_by_id[v]
    return node.cpu_ms if deployment.is_cpu(device_of[v]) else node.accelerator_ms


def _order_of_both_passes(graph: DnnGraph, device_of: Mapping[int, int]) -> tuple[int, ...] | None:
    """Return the devices so that forward data only passes on and backward data only back; None without such an order.

    Among devices that may come next those with forward nodes come first, then the lower number, as in
    `split.pipeline_order`, which looks at fewer backward edges.
    """
    quotient: nx.DiGraph[int] = nx.DiGraph()
    quotient.add_nodes_from(device_of.values())
    for edge in graph.edges:
        u, v = device_of[edge.source], device_of[edge.target]
        if u != v and _direction(graph, edge.source) is _direction(graph, edge.target):
            quotient.add_edge(*((v, u) if graph.node_by_id[edge.source].is_backward else (u, v)))
    if not nx.is_directed_acyclic_graph(quotient):
        return None
    has_forward = {device_of[node.id] for node in graph.nodes if not node.is_backward}
    return tuple(nx.lexicographical_topological_sort(quotient, key=lambda d: (d not in has_forward, d)))


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
    graph: DnnGraph, pieces: Sequence[_Piece], piece_of: Mapping[int, int], passes_apart: bool
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


def _numbers(pieces: Sequence[_Piece]) -> list[int]:
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


def _transfers(
    graph: DnnGraph,
    deployment: Deployment,
    device_of: Mapping[int, int],
    stage_of: Mapping[int, int],
    num_stages: int,
) -> list[_Transfers]:
    """Return what each stage sends and receives; a lower stage index on a device runs a micro-batch earlier."""
    transfers = [_Transfers() for _ in range(num_stages)]
    for u, node in graph.node_by_id.items():
        home = device_of[u]
        readers: dict[int, set[int]] = {}
        for v in graph.readers[u]:
            readers.setdefault(device_of[v], set()).add(stage_of[v])
        for stage in readers.pop(home, set()) - {stage_of[u]}:
            transfers[stage].follows.add(stage_of[u])
        if readers and not deployment.is_cpu(home):
            transfers[stage_of[u]].send_ms += node.transfer_ms
        for d, stages in readers.items():
            first = min(stages)
            transfers[first].receives_from.add(stage_of[u])
            if not deployment.is_cpu(d):
                transfers[first].receive_ms += node.transfer_ms
            for stage in stages - {first}:
                transfers[stage].follows.add(first)
    return transfers
