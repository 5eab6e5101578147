"""What a device holds while a schedule runs, in micro-batches and in bytes.

A device holds, at any time,

    constant + (versions - 1) weights + the activations of the micro-batches in flight   bytes, sums over its nodes,

with the words of `solvers.memory`: `constant` is everything but the activations of forward nodes, and activations of
backward nodes count once, always, since a device runs one micro-batch backward at a time. A micro-batch is in flight
from the start of the first stage that the device runs for it to the end of the last. Where the graph does not tell
activations from the rest, memory is constant; where it does not tell weights, versions beyond the first are not
counted. With a state factor in the deployment's training memory the constant is that many times the weights.
"""

from collections.abc import Sequence

from solvers.deployment import Deployment
from solvers.graph import DnnGraph, Node
from solvers.memory import is_scheduled, training_bytes
from solvers.schedule_run import Block
from solvers.schedule_types import MemoryPoint, PipelineStage


def memory_track(
    graph: DnnGraph,
    deployment: Deployment,
    stages: Sequence[PipelineStage],
    blocks: Sequence[Block],
) -> tuple[int, tuple[MemoryPoint, ...]]:
    """Return the largest number of micro-batches in flight on a device, and its memory over time.

    `stages` and `blocks` are those of one device; blocks are sorted by start.
    """
    constant, per_micro_batch = _bytes(graph, deployment, stages)
    left = dict.fromkeys((block.micro_batch for block in blocks), len(stages))
    in_flight = peak = 0
    # A later change at the same time replaces the earlier one: no time passes between them.
    changes: dict[float, int] = {0.0: 0}
    for block in blocks:
        if left[block.micro_batch] == len(stages):
            in_flight += 1
            peak = max(peak, in_flight)
            changes[block.start_ms] = in_flight
        left[block.micro_batch] -= 1
        if left[block.micro_batch] == 0:
            in_flight -= 1
            changes[block.end_ms] = in_flight
    points: list[MemoryPoint] = []
    for time, count in changes.items():
        if not points or points[-1].in_flight != count:
            points.append(MemoryPoint(time, count, constant + count * per_micro_batch))
    return peak, tuple(points)


def _bytes(graph: DnnGraph, deployment: Deployment, stages: Sequence[PipelineStage]) -> tuple[float, float]:
    """Return what a device holds always, and for each micro-batch in flight."""
    nodes = [graph.node_by_id[v] for stage in stages for v in stage.nodes]
    if deployment.training_memory is not None and is_scheduled(graph, deployment):
        held = training_bytes(graph, deployment.training_memory, [node.id for node in nodes])
        return held.constant, held.activations
    constant = sum(node.memory_bytes for node in nodes)
    if not all(map(_tells_activations, nodes)):
        return constant, 0.0
    per_micro_batch = sum(node.activation_bytes or 0.0 for node in nodes if not node.is_backward)
    return constant - per_micro_batch, per_micro_batch


def _tells_activations(node: Node) -> bool:
    return node.activation_bytes is not None and node.activation_bytes <= node.memory_bytes
