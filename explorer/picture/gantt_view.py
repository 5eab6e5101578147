"""What the timeline of a schedule shows, as plain data: lanes, bars, phases, period, bounds, bubbles and memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from solvers.model.deployment import Deployment
from solvers.quantities import counted, milliseconds, percent
from solvers.schedule.records import LOOPED_KINDS
from solvers.schedule.simulate import MemoryPoint, Pass, PipelineStage, Schedule, ScheduleKind, Slot, SlotKind

KIND_TITLES = {
    ScheduleKind.INFERENCE: "Pipelined inference",
    ScheduleKind.GPIPE: "GPipe",
    ScheduleKind.ONE_F_ONE_B: "1F1B",
    ScheduleKind.PIPEDREAM: "PipeDream, asynchronous 1F1B",
    ScheduleKind.INTERLEAVED: "Interleaved 1F1B",
    ScheduleKind.ZB_H1: "Zero bubble ZB-H1",
    ScheduleKind.ZB_V: "Zero bubble ZB-V",
    ScheduleKind.SINGLE_STREAM: "One micro-batch at a time",
    ScheduleKind.UNPIPELINED: "Unpipelined",
}

BOUND_TOLERANCE = 1e-6
"""Relative to the makespan: a bound that is closer is reached, but for the rounding of sums."""

UNFILLED_KINDS = (ScheduleKind.SINGLE_STREAM, ScheduleKind.UNPIPELINED)
"""Those that never fill the pipeline, so that it neither fills nor drains."""

NO_PERIOD = "no steady period: more micro-batches needed"


@dataclass(frozen=True, slots=True)
class GanttLane:
    """The row of one device that has work; `bubble_fraction` is the share of the makespan it idles.

    `memory` is what the device holds over time, in bytes and in micro-batches in flight; `peak_memory_bytes` and
    `peak_in_flight` are its maxima. `capacity_bytes` is None where there is no limit.
    """

    device: int
    name: str
    bubble_fraction: float | None
    utilisation: float | None
    peak_memory_bytes: float
    peak_in_flight: int
    weight_versions: int
    capacity_bytes: float | None
    is_over_memory: bool
    memory: tuple[MemoryPoint, ...]

    @property
    def is_memory_constant(self) -> bool:
        """Whether micro-batches come and go and no byte is known to come and go with them."""
        in_flight = {point.in_flight for point in self.memory}
        return len(in_flight) > 1 and len({point.memory_bytes for point in self.memory}) == 1


@dataclass(frozen=True, slots=True)
class GanttBar:
    """One slot of the schedule; `lane` is the index of its row; critical ones form the longest chain of waits."""

    lane: int
    stage: int
    direction: Pass
    kind: SlotKind
    micro_batch: int
    start_ms: float
    end_ms: float
    is_critical: bool = False


@dataclass(frozen=True, slots=True)
class StagePiece:
    """Which of the stages that a device runs in a pass a stage is, by depth: `piece` from 0, of `num_pieces`.

    Splits that come back to a device give it several, as do schedules with several chunks per device; each works on
    a micro-batch of another age.
    """

    piece: int
    num_pieces: int


@dataclass(frozen=True, slots=True)
class PeriodMark:
    """The steady interval between samples, shown between two like slots of one lane."""

    lane: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class GanttInfo:
    """Everything the timeline shows; bars are sorted by lane, then by start, and name an index in `stages`.

    `pieces` are by stage, and `piece_name` is what the schedule calls them. The bounds are those of
    `solvers.schedule.records.Schedule`. `notes` are the sentences that stand under the picture: what is shown, what its
    bounds mean, and all it takes for granted.

    The warm-up ends when every device with work has started to compute; the drain begins when the first device has
    nothing left to do, None when that is before the end of the warm-up. One micro-batch at a time has neither.
    `period_name` says what the period is: GPipe has no steady state across its two phases, but one in each of them.
    Without `has_bounds` neither lines nor words tell of bounds, for readers who do not know yet what a bound is.
    """

    title: str
    deployment: Deployment
    lanes: tuple[GanttLane, ...]
    idle_devices: tuple[int, ...]
    bars: tuple[GanttBar, ...]
    stages: tuple[PipelineStage, ...]
    pieces: tuple[StagePiece, ...]
    piece_name: str
    num_micro_batches: int
    makespan_ms: float
    load_bound_ms: float
    critical_path_bound_ms: float
    lower_bound_ms: float
    period_ms: float | None
    period_name: str
    period_mark: PeriodMark | None
    warm_up_ms: float
    drain_start_ms: float | None
    notes: tuple[str, ...]
    is_by_device: bool = False
    has_bounds: bool = True

    @property
    def tells_memory(self) -> bool:
        """Whether memory over time can be drawn; else no device is known to hold activations that come and go."""
        return not any(lane.is_memory_constant for lane in self.lanes) or any(
            len({point.memory_bytes for point in lane.memory}) > 1 for lane in self.lanes
        )

    @property
    def summary(self) -> str:
        """What the timeline shows in a few sentences, for a reader who does not see it."""
        period = f"{self.period_name} {milliseconds(self.period_ms)}" if self.period_ms is not None else NO_PERIOD
        bubbles = ", ".join(
            f"{lane.name} {percent(lane.bubble_fraction)}"
            for lane in self.lanes[:16]
            if lane.bubble_fraction is not None
        )
        over = [lane.name for lane in self.lanes if lane.is_over_memory]
        bounds = (
            f"No order ends before {milliseconds(self.load_bound_ms)} by load, nor before "
            f"{milliseconds(self.critical_path_bound_ms)} by the path of one micro-batch. "
        )
        batches = counted(self.num_micro_batches, "micro-batch", "micro-batches")
        return (
            f"Timeline, {self.title}: {batches} on {counted(len(self.lanes), 'device')} in "
            f"{milliseconds(self.makespan_ms)}, {period}. {bounds if self.has_bounds else ''}Idle shares: {bubbles}."
            + (f" Over memory: {', '.join(over[:16])}." if over else "")
        )


def gantt_info(
    schedule: Schedule, deployment: Deployment, *, title: str = "", by_device: bool = False, has_bounds: bool = True
) -> GanttInfo:
    """Return what the timeline of a schedule shows; its lanes in the order of the pipeline, or of the devices' numbers.

    A device stands where its first stage does. The title is the name of the schedule where none is given.
    """
    used = sorted({slot.device for slot in schedule.slots})
    if not by_device:
        first = {d: min(stage.number for stage in schedule.stages if stage.device == d) for d in used}
        used.sort(key=lambda d: (first[d], d))
    lane_of = {d: i for i, d in enumerate(used)}
    numbered = sorted(
        enumerate(schedule.slots), key=lambda item: (lane_of[item[1].device], item[1].start_ms, item[1].end_ms)
    )
    bars = tuple(
        GanttBar(
            lane_of[slot.device],
            slot.stage,
            slot.direction,
            slot.kind,
            slot.micro_batch,
            float(slot.start_ms),
            float(slot.end_ms),
            i in schedule.critical,
        )
        for i, slot in numbered
    )
    is_pipelined = schedule.kind not in UNFILLED_KINDS
    return GanttInfo(
        title=title or KIND_TITLES[schedule.kind],
        deployment=deployment,
        lanes=tuple(_lane(d, schedule, deployment) for d in used),
        idle_devices=tuple(d for d in range(deployment.num_devices) if d not in lane_of),
        bars=bars,
        stages=schedule.stages,
        pieces=_pieces(schedule.stages),
        piece_name="chunk" if schedule.kind in LOOPED_KINDS else "fragment",
        num_micro_batches=schedule.num_micro_batches,
        makespan_ms=float(schedule.makespan_ms),
        load_bound_ms=float(schedule.load_bound_ms),
        critical_path_bound_ms=float(schedule.critical_path_bound_ms),
        lower_bound_ms=float(schedule.lower_bound_ms),
        period_ms=None if schedule.period_ms is None else float(schedule.period_ms),
        period_name=_period_name(schedule),
        period_mark=_period_mark(schedule, lane_of),
        warm_up_ms=float(schedule.warm_up_ms) if is_pipelined else 0.0,
        drain_start_ms=float(schedule.drain_start_ms) if is_pipelined and schedule.drain_start_ms is not None else None,
        notes=_notes(schedule, has_bounds),
        is_by_device=by_device,
        has_bounds=has_bounds,
    )


def _lane(device: int, schedule: Schedule, deployment: Deployment) -> GanttLane:
    peak = float(schedule.peak_memory_bytes[device])
    capacity = deployment.capacity_bytes(device)
    return GanttLane(
        device=device,
        name=deployment.device_name(device),
        bubble_fraction=_share(schedule.bubble_fraction[device]),
        utilisation=_share(schedule.utilisation[device]),
        peak_memory_bytes=peak,
        peak_in_flight=schedule.peak_in_flight[device],
        weight_versions=schedule.weight_versions[device],
        capacity_bytes=capacity,
        is_over_memory=capacity is not None and peak > deployment.memory_limit_of(device),
        memory=schedule.memory[device],
    )


def _share(share: float | None) -> float | None:
    """Keep rounding from leaving 0 to 1."""
    return None if share is None else min(1.0, max(0.0, float(share)))


def _pieces(stages: Sequence[PipelineStage]) -> tuple[StagePiece, ...]:
    """Number the stages of each device and pass by their place in the pipeline."""
    numbers: dict[tuple[int, Pass], list[int]] = {}
    for stage in stages:
        numbers.setdefault((stage.device, stage.direction), []).append(stage.number)
    return tuple(
        StagePiece(sorted(own).index(stage.number), len(own))
        for stage in stages
        for own in [numbers[stage.device, stage.direction]]
    )


def _period_name(schedule: Schedule) -> str:
    return "forward + backward period" if schedule.kind is ScheduleKind.GPIPE else "steady period"


def _period_mark(schedule: Schedule, lane_of: dict[int, int]) -> PeriodMark | None:
    """Place the period at two successive starts of the busiest device's main stage, about the middle of the run.

    None when no two starts lie one period apart: a bracket that fits nothing on the screen would mislead. None for
    GPipe too, whose period is the sum of those of its phases.
    """
    period = schedule.period_ms
    if period is None or period <= 0 or schedule.kind is ScheduleKind.GPIPE:
        return None
    busy: dict[int, float] = {}
    starts: dict[int, list[Slot]] = {}
    for slot in schedule.slots:
        busy[slot.device] = busy.get(slot.device, 0.0) + slot.end_ms - slot.start_ms
        if slot.kind is SlotKind.COMPUTE:
            starts.setdefault(slot.stage, []).append(slot)
    best: tuple[tuple[float, float], Slot] | None = None
    middle = schedule.makespan_ms / 2
    for slots in starts.values():
        slots.sort(key=lambda slot: slot.start_ms)
        for first, second in pairwise(slots):
            if abs(second.start_ms - first.start_ms - period) > 1e-6 * max(period, 1.0):
                continue
            # The busiest device tells the story; near the middle the pipeline is surely steady.
            rank = -busy[first.device], abs(first.start_ms + period / 2 - middle)
            if best is None or rank < best[0]:
                best = (rank, first)
    if best is None:
        return None
    start = float(best[1].start_ms)
    return PeriodMark(lane_of[best[1].device], start, start + float(period))


def _notes(schedule: Schedule, has_bounds: bool) -> tuple[str, ...]:
    """Return the sentences under the picture: the numbers, the bounds, the assumptions."""
    m = schedule.num_micro_batches
    period = NO_PERIOD if schedule.period_ms is None else f"{_period_name(schedule)} {milliseconds(schedule.period_ms)}"
    numbers = f"{counted(m, 'micro-batch', 'micro-batches')}, makespan {milliseconds(schedule.makespan_ms)}, {period}."
    bounds = (
        f"No order of {'these' if m != 1 else 'this one'} on this split ends before the load bound, "
        f"{milliseconds(schedule.load_bound_ms)}, or before the critical-path bound, "
        f"{milliseconds(schedule.critical_path_bound_ms)}, the time of one micro-batch through these stages."
    )
    return (numbers, *((bounds, _room(schedule)) if has_bounds else ()), *schedule.assumptions)


def _room(schedule: Schedule) -> str:
    """Say how much another order of the same stages could save at most."""
    saved_ms = schedule.makespan_ms - schedule.lower_bound_ms
    if saved_ms <= BOUND_TOLERANCE * schedule.makespan_ms:
        return "No order of the same stages is faster: this run ends at the proven lower bound."
    return (
        f"Another order of the same stages could save at most {percent(saved_ms / schedule.makespan_ms)}: none ends "
        f"before {milliseconds(schedule.lower_bound_ms)}."
    )
