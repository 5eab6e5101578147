"""What training keeps in memory: weights, their state, and the activations of the micro-batches in flight.

Under a schedule (`solvers.model.deployment.TrainingMemory`) a stage with a stages after it takes, on its device,

    constant + (w(a) - 1) weights + f(a) activations   bytes, sums over its nodes, where

weights      parameterBytes of the forward nodes; a backward node works on the parameters of its forward twin
activations  activationBytes of the forward nodes: what one micro-batch keeps from its forward to its backward pass
constant     everything else: the weights' state (weights, gradients, optimiser), and the activationBytes of backward
             nodes, once, since a device runs one micro-batch backward at a time. With a state factor the state is that
             many times the weights; without one it is what `size` holds beyond the activations of one micro-batch.

f and w never fall as a grows, so a stage never needs less memory for having more stages after it.

A graph without backward nodes, or one that does not know these bytes, keeps the static model: a device holds the `size`
of its nodes, whatever the schedule. (Narayanan et al., SOSP 2019 and ICML 2021; Rajbhandari et al., SC 2020.)

Replicas exchange the gradients of their weights once per micro-batch by a ring all-reduce, in which each sends and
receives 2 (r - 1)/r of the weights (Patarasuk and Yuan, 2009). In a file without any parameterBytes `size` counts as
weights.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from solvers.model.deployment import Deployment, InFlight, TrainingMemory
from solvers.model.errors import DeploymentError
from solvers.model.graph import DnnGraph, Node


@dataclass(frozen=True, slots=True)
class TrainingBytes:
    """What a node, or several together, add to a stage's memory; see the module's formula."""

    constant: float = 0.0
    weights: float = 0.0
    activations: float = 0.0

    def on_stage(self, training_memory: TrainingMemory, stages_after: int) -> float:
        """Return the bytes these nodes take on a stage with so many stages after it."""
        versions, in_flight = training_memory.weight_versions(stages_after), training_memory.in_flight(stages_after)
        return self.constant + (versions - 1) * self.weights + in_flight * self.activations


def why_static(graph: DnnGraph, training_memory: TrainingMemory) -> str | None:
    """Return one sentence that says why the schedule's memory cannot be told for this graph; None if it can."""
    if not graph.is_training:
        return "The schedule's memory is that of training and this graph has no backward nodes: sizes count once."
    needs_weights = (
        training_memory.state_factor is not None
        or training_memory.schedule is InFlight.PIPEDREAM
        or training_memory.schedule is InFlight.PIPEDREAM_2BW
    )
    for node in graph.nodes:
        missing = ["activationBytes"] if node.activation_bytes is None else []
        missing += ["parameterBytes"] if needs_weights and not _tells_weights(node) else []
        if missing:
            return f"{_sentence(node)} has no {' and no '.join(missing)}, so sizes count once whatever the schedule."
        if training_memory.state_factor is None and (node.activation_bytes or 0.0) > node.memory_bytes:
            return (
                f"{_sentence(node)} has more activationBytes than its size, so sizes count once whatever the "
                "schedule; give an optimizer-state multiplier or a size that includes them."
            )
    return None


def tells_weights(graph: DnnGraph) -> bool:
    """Whether each forward node tells its weights: those of a backward node are its forward twin's."""
    return all(map(_tells_weights, graph.nodes))


def _tells_weights(node: Node) -> bool:
    return node.is_backward or node.parameter_bytes is not None


def is_scheduled(graph: DnnGraph, deployment: Deployment) -> bool:
    """Whether memory depends on the stages after a device, and so on the splits being pipelines."""
    return deployment.training_memory is not None and why_static(graph, deployment.training_memory) is None


def training_bytes(graph: DnnGraph, training_memory: TrainingMemory, ids: Iterable[int]) -> TrainingBytes:
    """Return what these nodes add to a stage's memory, for a graph with `why_static` None."""
    constant = weights = activations = 0.0
    for node in (graph.node_by_id[v] for v in ids):
        held = node.activation_bytes or 0.0
        own = 0.0 if node.is_backward else node.parameter_bytes or 0.0
        weights += own
        factor = training_memory.state_factor
        constant += node.memory_bytes - held if factor is None else factor * own
        if node.is_backward:
            constant += held
        else:
            activations += held
    return TrainingBytes(constant, weights, activations)


def weight_bytes(graph: DnnGraph) -> dict[int, float]:
    """Return the bytes of weights of each node whose gradients its replicas exchange; none in an inference graph."""
    if not graph.is_training:
        return dict.fromkeys(graph.node_by_id, 0.0)
    if all(node.parameter_bytes is None for node in graph.nodes):
        return {node.id: node.memory_bytes for node in graph.nodes}
    return {node.id: 0.0 if node.is_backward else node.parameter_bytes or 0.0 for node in graph.nodes}


def sync_bandwidth(graph: DnnGraph, deployment: Deployment, accelerator: int = 0) -> float:
    """Return the bandwidth in bytes per ms of the all-reduce among accelerators like this one.

    It is that of the replication, or else that of the accelerator's own link. Raises DeploymentError where neither the
    replication nor the graph knows one.
    """
    known = None if deployment.replication is None else deployment.replication.bandwidth_bytes_per_ms
    if known is None and graph.bandwidth_bytes_per_ms is not None:
        known = graph.bandwidth_bytes_per_ms * deployment.link_speed_of(accelerator)
    if known is None:
        raise DeploymentError(
            "Replicas exchange gradients, and the graph implies no one bandwidth; give one for the replicas."
        )
    return known


def sync_ms(weights: float, replicas: int, bandwidth_bytes_per_ms: float) -> float:
    """Return the time in ms per micro-batch of the all-reduce of so many bytes of weights among so many replicas."""
    return 2 * (replicas - 1) / replicas * weights / bandwidth_bytes_per_ms


def _sentence(node: Node) -> str:
    """The node's label as a sentence begins."""
    return node.label[0].upper() + node.label[1:]
