"""What a device holds while a schedule runs, in micro-batches and in bytes.

A device holds, at any time,

    constant + (versions - 1) weights + the activations of the micro-batches in flight   bytes, sums over its nodes,

with the words of `solvers.model.memory`: `constant` is everything but the activations of forward nodes, and activations
of backward nodes count once, always, since a device runs one micro-batch backward at a time. A micro-batch is in flight
from the start of the first stage that the device runs for it to the end of the last; of a device with several chunks
each holds activations of its own, from its forward to the end of its backward. So activations are kept until the weight
gradients are done where the backward pass is in two. PipeDream keeps the weights that each micro-batch in flight has
seen, a version for each of the most there are; all others keep one. Where the graph does not tell activations from the
rest, memory is constant; where it does not tell weights, versions beyond the first are not counted. With a state factor
in the deployment's training memory the constant is that many times the weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Node
from solvers.model.memory import is_scheduled, tells_weights, training_bytes
from solvers.schedule.records import LOOPED_KINDS, MemoryPoint, Pass, PipelineStage, ScheduleKind
from solvers.schedule.run import Block


@dataclass(frozen=True, slots=True)
class MemoryTrack:
    """What a device holds over time, its micro-batches in flight at most, and its versions of weights."""

    points: tuple[MemoryPoint, ...]
    peak_in_flight: int
    weight_versions: int

    @property
    def peak_bytes(self) -> float:
        """The most bytes it holds at any time."""
        return max(point.memory_bytes for point in self.points)


def memory_track(
    graph: DnnGraph,
    deployment: Deployment,
    stages: Sequence[PipelineStage],
    blocks: Sequence[Block],
    kind: ScheduleKind,
) -> MemoryTrack:
    """Return what a device holds; `stages` and `blocks` are those of one device, blocks sorted by start."""
    held = _device_bytes(graph, deployment, stages)

    def group(stage: PipelineStage) -> int:
        return stage.number if kind in LOOPED_KINDS else 0

    activations: dict[int, float] = {}
    stages_in: dict[int, int] = {}
    for stage in stages:
        stages_in[group(stage)] = stages_in.get(group(stage), 0) + 1
        if stage.direction is Pass.FORWARD:
            own = sum(held.activations.get(v, 0.0) for v in stage.nodes)
            activations[group(stage)] = activations.get(group(stage), 0.0) + own
    # Time, whether a group of stages begins (+1) or ends (-1) a micro-batch, and which.
    changes: list[tuple[float, int, int, int]] = []
    left: dict[tuple[int, int], int] = {}
    for block in blocks:
        key = group(block.stage), block.micro_batch
        if key not in left:
            left[key] = stages_in[key[0]]
            changes.append((block.start_ms, 1, *key))
        left[key] -= 1
        if left[key] == 0:
            changes.append((block.end_ms, -1, *key))
    # Nodes on CPUs may run side by side; elsewhere the changes are in order.
    changes.sort(key=lambda change: change[0])
    groups_of: dict[int, int] = {}
    groups_holding: dict[int, int] = {}
    peak = 0
    # A later change at the same time replaces the earlier one: no time passes between them.
    states: dict[float, tuple[int, float]] = {0.0: (0, 0.0)}
    for time, step, number, micro_batch in changes:
        groups_of[micro_batch] = groups_of.get(micro_batch, 0) + step
        if groups_of[micro_batch] == 0:
            del groups_of[micro_batch]
        groups_holding[number] = groups_holding.get(number, 0) + step
        peak = max(peak, len(groups_of))
        states[time] = len(groups_of), sum(count * activations.get(g, 0.0) for g, count in groups_holding.items())
    versions = peak if kind is ScheduleKind.PIPEDREAM else int(bool(stages))
    constant = held.constant + max(0, versions - 1) * held.weights
    points: list[MemoryPoint] = []
    for time, (in_flight, in_activations) in states.items():
        point = MemoryPoint(time, in_flight, constant + in_activations)
        if not points or (points[-1].in_flight, points[-1].memory_bytes) != (point.in_flight, point.memory_bytes):
            points.append(point)
    return MemoryTrack(tuple(points), peak, versions)


@dataclass(frozen=True, slots=True)
class _DeviceBytes:
    """What a device holds always, one version of its weights, and per node and micro-batch in flight."""

    constant: float
    weights: float
    activations: Mapping[int, float]


def _device_bytes(graph: DnnGraph, deployment: Deployment, stages: Sequence[PipelineStage]) -> _DeviceBytes:
    nodes = [graph.node_by_id[v] for v in dict.fromkeys(v for stage in stages for v in stage.nodes)]
    forward = [node for node in nodes if not node.is_backward]
    activations = {node.id: node.activation_bytes or 0.0 for node in forward}
    if deployment.training_memory is not None and is_scheduled(graph, deployment):
        held = training_bytes(graph, deployment.training_memory, [node.id for node in nodes])
        return _DeviceBytes(held.constant, held.weights, activations)
    constant = sum(node.memory_bytes for node in nodes)
    weights = sum(node.parameter_bytes or 0.0 for node in forward) if tells_weights(graph) else 0.0
    if not all(map(_tells_activations, nodes)):
        return _DeviceBytes(constant, weights, {})
    return _DeviceBytes(constant - sum(activations.values()), weights, activations)


def tells_activations(graph: DnnGraph) -> bool:
    """Whether each node tells its activations, within its size."""
    return all(map(_tells_activations, graph.nodes))


def _tells_activations(node: Node) -> bool:
    return node.activation_bytes is not None and node.activation_bytes <= node.memory_bytes
