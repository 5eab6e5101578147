"""What a schedule is made of: kinds, passes, stages, slots, and what is measured on a finished run."""

from dataclasses import dataclass
from enum import StrEnum

from solvers.model.errors import PlacementError
from solvers.model.split import Split


class ScheduleError(PlacementError):
    """A schedule that this graph, split or number of micro-batches does not allow."""


class ScheduleKind(StrEnum):
    """The order in which devices run their passes; `solvers.schedule.simulate` says what each is."""

    INFERENCE = "inference"
    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    PIPEDREAM = "pipedream"
    INTERLEAVED = "interleaved"
    ZB_H1 = "zb-h1"
    ZB_V = "zb-v"
    SINGLE_STREAM = "single-stream"
    UNPIPELINED = "unpipelined"


INFERENCE_KINDS = (ScheduleKind.INFERENCE, ScheduleKind.SINGLE_STREAM, ScheduleKind.UNPIPELINED)
"""What a graph without backward nodes can run."""

TRAINING_KINDS = (
    ScheduleKind.ONE_F_ONE_B,
    ScheduleKind.GPIPE,
    ScheduleKind.PIPEDREAM,
    ScheduleKind.INTERLEAVED,
    ScheduleKind.ZB_H1,
    ScheduleKind.ZB_V,
    ScheduleKind.UNPIPELINED,
)
"""What a graph with backward nodes can run."""

LOOPED_KINDS = (ScheduleKind.INTERLEAVED, ScheduleKind.ZB_V)
"""Those that run several chunks of the pipeline on each device (`solvers.schedule.looped_split`)."""

ZERO_BUBBLE_KINDS = (ScheduleKind.ZB_H1, ScheduleKind.ZB_V)
"""Those that run the backward pass in two parts: input gradients and weight gradients."""

WEIGHT_GRADIENT_SHARE = 0.5
"""The share of a backward stage's compute that goes to weight gradients, unless said; graphs do not tell."""


class Pass(StrEnum):
    """Which pass of a sample a stage or slot belongs to; a backward pass is whole or in two parts."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INPUT_GRADIENT = "input-gradient"
    WEIGHT_GRADIENT = "weight-gradient"

    @property
    def letter(self) -> str:
        """How the field writes it: 'F', 'B', and 'I' and 'W' for the parts of 'B'."""
        return "FBIW"[tuple(Pass).index(self)]


class SlotKind(StrEnum):
    """What a device does in a slot."""

    RECEIVE = "receive"
    COMPUTE = "compute"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """Nodes of one device and one pass that run together, once per micro-batch. Times in ms per micro-batch.

    `index` is its place in the tuple of stages, in which every stage stands after those it needs. `number` is what
    notation calls it, as in `2F0` and `2B0`: forward stages count along the pipeline, and a backward stage shares the
    number of the forward stage it goes with. `nodes` are in topological order. In round n the stage runs micro-batch
    n - `depth`, in schedules that work in rounds. `receives_from` are the indices of the stages on other devices whose
    tensors it is the first on its device to need (for the latency of one micro-batch also of other subgraphs on its own
    device, from which it receives through host memory); `follows` those of the stages on its own device that make, or
    have received, what it needs. The two parts of a backward stage have the same nodes.
    """

    index: int
    number: int
    device: int
    direction: Pass
    nodes: tuple[int, ...]
    depth: int
    receive_ms: float
    compute_ms: float
    send_ms: float
    receives_from: tuple[int, ...]
    follows: tuple[int, ...] = ()

    @property
    def total_ms(self) -> float:
        """Time the device spends on this stage per micro-batch, transfers included."""
        return self.receive_ms + self.compute_ms + self.send_ms

    @property
    def notation(self) -> str:
        """Stage number and pass as the field writes them: '2F', '2B'."""
        return f"{self.number}{self.direction.letter}"


@dataclass(frozen=True, slots=True)
class LoopedSplit:
    """A pipeline whose stages loop over the devices, several chunks on each (`solvers.schedule.looped_split`).

    `chunks` are the nodes of each chunk in the order of the pipeline, and `devices` the device of each chunk, numbered
    as in the deployment. `split` is what the devices hold in
    all. `note` is a sentence that says what is wrong with it, empty if nothing is.
    """

    split: Split
    chunks: tuple[frozenset[int], ...]
    devices: tuple[int, ...]
    note: str = ""

    @property
    def order(self) -> tuple[int, ...]:
        """The devices in the order of their first chunks."""
        return tuple(dict.fromkeys(self.devices))

    @property
    def chunks_per_device(self) -> int:
        """How many chunks each device runs."""
        return len(self.devices) // max(1, len(self.order))


@dataclass(frozen=True, slots=True)
class Slot:
    """One device doing one thing for one micro-batch, from 0; `stage` is the index of its PipelineStage."""

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

    Every stage has one compute slot per micro-batch, and a receive and a send slot where these take time; slots are
    sorted by start, then by end. `period_ms` is the steady interval between samples, None when too few micro-batches
    ran to reach it. `warm_up_ms` is when the pipeline has filled: the last of the devices with work starts its first
    compute slot. `drain_start_ms` is when the first device has nothing left to do, None where that is not between the
    warm-up and the end. `bubble_fraction` is the share of the makespan a device idles and `utilisation` the rest, None
    for a device without work.

    Three lower bounds on the makespan of the m micro-batches, with the same stages (`solvers.schedule.critical_path`):
    `load_bound_ms`, m times the largest load, which no device can do in less; `critical_path_bound_ms`, the longest
    path of one micro-batch through the stages, as if it were alone; and `lower_bound_ms`, the best that is proven.
    `critical` are the indices in `slots` of one chain of waits that makes the run as long as it is: each starts when
    the one before it ends, the first at 0, and the last ends at the makespan.

    A micro-batch is in flight on a device from the start of the first stage the device runs for it to the end of the
    last: in training from its forward to its backward. With several chunks per device (`chunks_per_device`) that
    holds for each chunk, and a micro-batch is in flight as long as it is in one of them. `memory` is what a device
    holds over time, in bytes, and `peak_memory_bytes` its maximum (`solvers.schedule.memory`); `weight_versions` is
    how many copies of its weights a device keeps, 0 where it has no work. `assumptions` are sentences that a picture
    of the schedule should show.
    """

    kind: ScheduleKind
    num_micro_batches: int
    stages: tuple[PipelineStage, ...]
    slots: tuple[Slot, ...]
    makespan_ms: float
    period_ms: float | None
    warm_up_ms: float
    drain_start_ms: float | None
    bubble_fraction: tuple[float | None, ...]
    utilisation: tuple[float | None, ...]
    load_bound_ms: float
    critical_path_bound_ms: float
    lower_bound_ms: float
    critical: frozenset[int]
    peak_in_flight: tuple[int, ...]
    weight_versions: tuple[int, ...]
    memory: tuple[tuple[MemoryPoint, ...], ...]
    peak_memory_bytes: tuple[float, ...]
    assumptions: tuple[str, ...]
    chunks_per_device: int = 1
