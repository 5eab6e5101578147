"""A plan on its way out: its stages in the order of the pipeline, on which schedule, for so many micro-batches."""

from dataclasses import dataclass
from functools import cached_property

from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.split import Split, pipeline_order
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import INFERENCE_KINDS, LOOPED_KINDS, TRAINING_KINDS, LoopedSplit, ScheduleKind


class ExportError(PlacementError):
    """A plan that a framework cannot express; the message says what does not fit, and the remedy."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What a framework reads, and sentences on what of the plan it cannot express."""

    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a pipeline: the ids of its nodes, backward ones among them, and its device by number of the split."""

    nodes: frozenset[int]
    device: int


@dataclass(frozen=True)
class Plan:
    """A complete split of a graph over devices, and the schedule that it is to run under.

    `looped` is the split cut anew into chunks, where the schedule runs several on each device.
    """

    graph: DnnGraph
    deployment: Deployment
    split: Split
    schedule: ScheduleKind
    num_micro_batches: int
    looped: LoopedSplit | None = None

    @cached_property
    def device_of(self) -> dict[int, int]:
        """Device number of each node in the split."""
        return self.placed.device_of()

    @property
    def placed(self) -> Split:
        """The split that is run."""
        return self.split if self.looped is None else self.looped.split.on(self.deployment)

    @property
    def chunks_per_device(self) -> int:
        """How many stages each device runs."""
        return 1 if self.looped is None else self.looped.chunks_per_device

    def device_name(self, device: int) -> str:
        """What a person calls a device of the split."""
        return self.placed.device_name(device, self.deployment)

    def is_cpu(self, device: int) -> bool:
        """Whether a device of the split is a CPU."""
        return self.placed.is_cpu(device)

    @cached_property
    def stages(self) -> tuple[Stage, ...] | None:
        """The stages in the order of the pipeline; None where the devices do not form one."""
        if self.looped is not None:
            pairs = zip(self.looped.chunks, self.looped.devices, strict=True)
            return tuple(Stage(chunk, device) for chunk, device in pairs)
        order = pipeline_order(self.graph, self.split)
        return None if order is None else tuple(Stage(self.split.devices[d], d) for d in order)


def planned(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    schedule: ScheduleKind | None = None,
    num_micro_batches: int = 1,
    chunks: int = 2,
    whole: DnnGraph | None = None,
) -> Plan:
    """Return the plan of a complete split; by default 1F1B in training and the pipelined schedule of inference.

    Chunks are cut between what is kept together in the graph `whole`, if the split keeps it together too.

    Raises ExportError for a schedule of the other kind of graph, ScheduleError where one with several chunks on each
    device cannot be cut.
    """
    kinds = TRAINING_KINDS if graph.is_training else INFERENCE_KINDS
    schedule = kinds[0] if schedule is None else schedule
    if schedule not in kinds:
        what = "training" if graph.is_training else "inference"
        raise ExportError(f"The schedule {schedule} is not one of {what}; choose one of {', '.join(kinds)}.")
    looped = None
    if schedule in LOOPED_KINDS:
        keeps = whole is not None and all(
            any(device.issuperset(ids) for device in split.devices) for ids in whole.colocation_members.values()
        )
        cut = whole if whole is not None and keeps else graph
        looped = looped_split(cut, deployment, split, chunks, schedule, num_micro_batches)
    return Plan(graph, deployment, split, schedule, num_micro_batches, looped)
