"""What a schedule takes for granted, in sentences for whoever looks at its picture."""

from collections.abc import Sequence

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.quantities import percent
from solvers.schedule.memory import tells_activations, tells_weights
from solvers.schedule.records import ZERO_BUBBLE_KINDS, LoopedSplit, PipelineStage, ScheduleKind

OF_KIND = {
    ScheduleKind.PIPEDREAM: "The pipeline is never flushed; every micro-batch updates the weights.",
    ScheduleKind.SINGLE_STREAM: "One sample at a time.",
    ScheduleKind.UNPIPELINED: "One micro-batch and one device at a time.",
}
TRANSFERS = "A device receives, computes and sends one after the other, through host memory."
FREE_CPUS = "CPUs transfer in no time."
MANY_CPUS = "CPU nodes run side by side, on as many CPUs as needed."
NO_UPDATE = "Updating weights takes no time."
UNKNOWN_ACTIVATIONS = "Memory is constant: the graph does not tell activations from the rest."
UNKNOWN_WEIGHTS = "Versions of weights are not in the memory: the graph does not tell weights from the rest."


def assumptions_of(
    graph: DnnGraph,
    deployment: Deployment,
    stages: Sequence[PipelineStage],
    kind: ScheduleKind,
    looped: LoopedSplit | None,
    weight_gradient_share: float,
) -> tuple[str, ...]:
    """Return the sentences that a picture of the schedule should show, the more telling ones first."""
    sentences = [OF_KIND[kind]] if kind in OF_KIND else []
    if looped is not None:
        sentences.append(f"Every device runs {looped.chunks_per_device} model chunks.")
    if kind in ZERO_BUBBLE_KINDS:
        sentences.append(
            f"Weight gradients take {percent(weight_gradient_share)} of each backward pass, which the graph does not "
            "tell, and activations are kept until they are done."
        )
    sentences.append(TRANSFERS)
    if any(deployment.is_cpu(stage.device) for stage in stages):
        sentences.append(FREE_CPUS)
        if kind is ScheduleKind.SINGLE_STREAM:
            sentences.append(MANY_CPUS)
    if graph.is_training:
        sentences.append(NO_UPDATE)
        if not tells_activations(graph):
            sentences.append(UNKNOWN_ACTIVATIONS)
        if kind is ScheduleKind.PIPEDREAM and not tells_weights(graph):
            sentences.append(UNKNOWN_WEIGHTS)
    return tuple(sentences)
