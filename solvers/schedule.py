"""A split run over micro-batches: who computes, receives and sends what, and when."""

from dataclasses import dataclass
from enum import StrEnum


class ScheduleKind(StrEnum):
    """The order in which devices run their passes."""

    INFERENCE = "inference"
    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"


class Pass(StrEnum):
    """Which pass of a sample a slot belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"


class SlotKind(StrEnum):
    """What a device does in a slot."""

    RECEIVE = "receive"
    COMPUTE = "compute"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """Nodes of one device and one pass that run together, once per micro-batch.

    A chain split has one stage per device and pass. A device of a cyclic split has several, each working on a
    micro-batch `depth` rounds old. Times in ms per micro-batch.
    """

    index: int
    device: int
    direction: Pass
    nodes: tuple[int, ...]
    depth: int
    receive_ms: float
    compute_ms: float
    send_ms: float


@dataclass(frozen=True, slots=True)
class Slot:
    """One device doing one thing for one micro-batch; `stage` is the index of its PipelineStage."""

    device: int
    stage: int
    direction: Pass
    micro_batch: int
    start_ms: float
    end_ms: float
    kind: SlotKind


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """From `time_ms` on, a device holds `in_flight` micro-batches and `memory_bytes` in all."""

    time_ms: float
    in_flight: int
    memory_bytes: float


@dataclass(frozen=True)
class Schedule:
    """A finished simulation. Tuples per device are indexed by device number, idle devices included.

    `period_ms` is the steady interval between samples, None when too few micro-batches ran to reach it.
    `warm_up_ms` is when the bottleneck device starts its first compute slot. `bubble_fraction` is the share of the
    makespan a device idles, None for a device without work.
    """

    kind: ScheduleKind
    num_micro_batches: int
    stages: tuple[PipelineStage, ...]
    slots: tuple[Slot, ...]
    makespan_ms: float
    period_ms: float | None
    warm_up_ms: float
    bubble_fraction: tuple[float | None, ...]
    peak_in_flight: tuple[int, ...]
    memory: tuple[tuple[MemoryPoint, ...], ...]
