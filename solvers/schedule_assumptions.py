"""What a schedule takes for granted, in sentences for whoever looks at its picture."""

from collections.abc import Sequence

from solvers.deployment import Deployment
from solvers.schedule_types import PipelineStage, ScheduleKind

ONE_AT_A_TIME = "A device receives, computes and sends one after the other."
HOST_MEMORY = "Data passes through host memory, which holds any number of tensors."
FREE_CPUS = "CPUs transfer in no time."
NO_UPDATE = "Weight updates take no time."


def assumptions_of(kind: ScheduleKind, deployment: Deployment, stages: Sequence[PipelineStage]) -> tuple[str, ...]:
    """Return the sentences that a picture of the schedule should show, the more telling ones first."""
    sentences = [ONE_AT_A_TIME]
    if len({stage.device for stage in stages}) > 1:
        sentences.append(HOST_MEMORY)
    if any(deployment.is_cpu(stage.device) for stage in stages):
        sentences.append(FREE_CPUS)
    if kind is not ScheduleKind.INFERENCE:
        sentences.append(NO_UPDATE)
    return tuple(sentences)
