"""The stages of a split: its pieces (`solvers.schedule.pieces`) with what they receive, compute and send.

Transfers. As in `solvers.model.costs`, a tensor read on other devices is sent once, by the stage that makes it, and
received once per device, by the first stage there that needs it; it then stays on the device. CPUs transfer for
free. So the times of a device's stages add up to its load.

In zero-bubble schedules a backward stage comes in two parts: input gradients (I), which take all its transfers, and
weight gradients (W), which nobody waits for. Graphs do not say which part of a backward node's time is which, so that
a share of each stage's compute, one half unless said otherwise, is taken for W.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.schedule.checks import check_kind, check_model, device_numbers
from solvers.schedule.pieces import Piece, chunk_pieces, device_pieces, task_pieces
from solvers.schedule.records import (
    LOOPED_KINDS,
    WEIGHT_GRADIENT_SHARE,
    ZERO_BUBBLE_KINDS,
    LoopedSplit,
    Pass,
    PipelineStage,
    ScheduleError,
    ScheduleKind,
)


def pipeline_stages(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split | LoopedSplit,
    kind: ScheduleKind,
    weight_gradient_share: float = WEIGHT_GRADIENT_SHARE,
) -> tuple[PipelineStage, ...]:
    """Return the stages of a complete split: forward, then backward ones, each pass by depth and place in the graph.

    Raises ScheduleError when `kind` does not fit the graph or the split, when a forward node reads a backward one,
    when the split uses more devices than there are, or when transfers overlap or stages are replicated: such
    pipelines keep more micro-batches in flight, in orders of their own. SplitError when the split does not place every
    node once.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> split = Split((frozenset({1}), frozenset({2})))
    >>> [(s.notation, s.total_ms) for s in pipeline_stages(g, Deployment(2), split, ScheduleKind.INFERENCE)]
    [('0F', 2.5), ('1F', 3.5)]
    """
    placed = split.split if isinstance(split, LoopedSplit) else split
    check_kind(graph, kind)
    check_model(deployment, placed, kind)
    device_of = device_numbers(graph, deployment, placed)
    if isinstance(split, LoopedSplit) is not (kind in LOOPED_KINDS):
        raise ScheduleError(
            f"A {kind} schedule runs {'several model chunks' if kind in LOOPED_KINDS else 'one stage'} per device; "
            f"{'cut the split into chunks' if kind in LOOPED_KINDS else 'give the split before it was cut'} first."
        )
    if isinstance(split, LoopedSplit):
        pieces = chunk_pieces(graph, split, kind)
    elif kind is ScheduleKind.SINGLE_STREAM:
        pieces = task_pieces(graph, split, device_of)
    else:
        pieces = device_pieces(graph, deployment, device_of, kind)
    stages = _with_times(graph, deployment, pieces, kind)
    if kind not in ZERO_BUBBLE_KINDS:
        return stages
    if not 0 <= weight_gradient_share <= 1:
        raise ScheduleError(f"A weight-gradient share of {weight_gradient_share}: give a number from 0 to 1.")
    return _with_backward_in_two(stages, weight_gradient_share)


@dataclass(slots=True)
class _Transfers:
    """What one stage receives and sends per micro-batch, in ms, and which stages elsewhere and here it waits for."""

    receive_ms: float = 0.0
    send_ms: float = 0.0
    receives_from: set[int] = field(default_factory=set)
    follows: set[int] = field(default_factory=set)


def _with_times(
    graph: DnnGraph, deployment: Deployment, pieces: Sequence[Piece], kind: ScheduleKind
) -> tuple[PipelineStage, ...]:
    """Return the pieces with what they receive, compute and send per micro-batch."""
    stage_of = {v: index for index, piece in enumerate(pieces) for v in piece.nodes}
    # For the latency of one sample each subgraph is received and sent on its own.
    places = [i if kind is ScheduleKind.SINGLE_STREAM else piece.device for i, piece in enumerate(pieces)]
    transfers = _transfers(graph, deployment, stage_of, places, [piece.device for piece in pieces])

    def compute_ms(piece: Piece) -> float:
        return sum(deployment.node_ms(graph.node_by_id[v], piece.device) for v in piece.nodes)

    return tuple(
        PipelineStage(
            index=index,
            number=piece.number,
            device=piece.device,
            direction=piece.direction,
            nodes=piece.nodes,
            depth=piece.depth,
            receive_ms=transfers[index].receive_ms,
            compute_ms=compute_ms(piece),
            send_ms=transfers[index].send_ms,
            receives_from=tuple(sorted(transfers[index].receives_from)),
            follows=tuple(sorted(transfers[index].follows)),
        )
        for index, piece in enumerate(pieces)
    )


def _with_backward_in_two(stages: Sequence[PipelineStage], weight_share: float) -> tuple[PipelineStage, ...]:
    """Return the stages with each backward stage in two: input gradients in its place, weight gradients at the end.

    In rounds, device i of a pipeline computes the weight gradients of a micro-batch i rounds after the input ones.
    """
    inputs: list[PipelineStage] = []
    weights: list[PipelineStage] = []
    place = {stage.device: stage.depth for stage in stages if stage.direction is Pass.FORWARD}
    for stage in stages:
        if stage.direction is Pass.FORWARD:
            inputs.append(stage)
            continue
        input_ms = (1 - weight_share) * stage.compute_ms
        inputs.append(replace(stage, direction=Pass.INPUT_GRADIENT, compute_ms=input_ms))
        weights.append(
            replace(
                stage,
                direction=Pass.WEIGHT_GRADIENT,
                depth=stage.depth + place.get(stage.device, 0),
                receive_ms=0.0,
                compute_ms=stage.compute_ms - input_ms,
                send_ms=0.0,
                receives_from=(),
                follows=(stage.index,),
            )
        )
    weights.sort(key=lambda stage: stage.depth)
    return (*inputs, *(replace(stage, index=len(inputs) + i) for i, stage in enumerate(weights)))


def _transfers(
    graph: DnnGraph,
    deployment: Deployment,
    stage_of: Mapping[int, int],
    places: Sequence[int],
    devices: Sequence[int],
) -> list[_Transfers]:
    """Return what each stage sends and receives, given its place and its device.

    Data passes from place to place. At one place a lower stage index runs a micro-batch earlier.
    """
    transfers = [_Transfers() for _ in places]
    accelerator = [None if deployment.is_cpu(d) else d for d in devices]
    for tensor in graph.tensors:
        home = stage_of[tensor.source]
        readers: dict[int, set[int]] = {}
        for v in tensor.readers:
            readers.setdefault(places[stage_of[v]], set()).add(stage_of[v])
        for stage in readers.pop(places[home], set()) - {home}:
            transfers[stage].follows.add(home)
        own = accelerator[home]
        if readers and own is not None:
            others = (accelerator[min(stages)] for stages in readers.values())
            transfers[home].send_ms += tensor.transfer_ms / deployment.transfer_speed(own, others)
        for stages in readers.values():
            first = min(stages)
            transfers[first].receives_from.add(home)
            reader = accelerator[first]
            if reader is not None:
                transfers[first].receive_ms += tensor.transfer_ms / deployment.transfer_speed(reader, (own,))
            for stage in stages - {first}:
                transfers[stage].follows.add(first)
    return transfers
