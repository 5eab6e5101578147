"""What the timeline of a schedule shows, as plain data: lanes, bars, warm-up, drain, period and bubbles."""

from dataclasses import dataclass
from itertools import pairwise

from solvers.deployment import Deployment
from solvers.schedule import Pass, PipelineStage, Schedule, ScheduleKind, Slot, SlotKind

KIND_TITLES = {
    ScheduleKind.INFERENCE: "Pipelined inference",
    ScheduleKind.GPIPE: "GPipe",
    ScheduleKind.ONE_F_ONE_B: "1F1B",
    ScheduleKind.PIPEDREAM: "PipeDream, asynchronous 1F1B",
    ScheduleKind.INTERLEAVED: "Interleaved 1F1B",
    ScheduleKind.ZB_H1: "Zero bubble ZB-H1",
    ScheduleKind.ZB_V: "Zero bubble ZB-V",
    ScheduleKind.SINGLE_STREAM: "One sample at a time",
    ScheduleKind.UNPIPELINED: "Unpipelined",
}

NO_PERIOD = "no steady period: more micro-batches needed"


@dataclass(frozen=True, slots=True)
class GanttLane:
    """The row of one device that has work; `bubble_fraction` is the share of the makespan it idles.

    `peak_memory_bytes` is the most it holds at a time, None where the schedule does not tell.
    """

    device: int
    name: str
    bubble_fraction: float | None
    utilisation: float | None
    peak_memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class GanttBar:
    """One slot of the schedule; `lane` is the index of its row."""

    lane: int
    stage: int
    direction: Pass
    kind: SlotKind
    micro_batch: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class PeriodMark:
    """The steady interval between samples, shown between two like slots of one lane."""

    lane: int
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class GanttInfo:
    """Everything the timeline shows; bars are sorted by lane, then by start, and name an index in `stages`.

    The warm-up ends when every device with work has started to compute; the drain begins when the first device has
    nothing left to do, None when that is before the end of the warm-up. `period_name` says what the period is: GPipe
    has no steady state across its two phases, but one in each of them.
    """

    title: str
    deployment: Deployment
    lanes: tuple[GanttLane, ...]
    idle_devices: tuple[int, ...]
    bars: tuple[GanttBar, ...]
    stages: tuple[PipelineStage, ...]
    num_micro_batches: int
    makespan_ms: float
    period_ms: float | None
    period_name: str
    period_mark: PeriodMark | None
    warm_up_ms: float
    drain_start_ms: float | None
    assumptions: str

    @property
    def summary(self) -> str:
        """One sentence that says what the timeline shows, for a reader who does not see it."""
        period = f"{self.period_name} {self.period_ms:.4g} ms" if self.period_ms is not None else NO_PERIOD
        bubbles = ", ".join(
            f"{lane.name} {lane.bubble_fraction:.0%}" for lane in self.lanes[:16] if lane.bubble_fraction is not None
        )
        return (
            f"Timeline, {self.title}: {self.num_micro_batches} micro-batches on {len(self.lanes)} devices in "
            f"{self.makespan_ms:.4g} ms, {period}. Idle shares: {bubbles}."
        )


def gantt_info(schedule: Schedule, deployment: Deployment) -> GanttInfo:
    """Return what the timeline of a schedule shows."""
    used = sorted({slot.device for slot in schedule.slots})
    lane_of = {d: i for i, d in enumerate(used)}
    slots = sorted(schedule.slots, key=lambda slot: (slot.device, slot.start_ms, slot.end_ms))
    bars = tuple(
        GanttBar(
            lane_of[slot.device],
            slot.stage,
            slot.direction,
            slot.kind,
            slot.micro_batch,
            float(slot.start_ms),
            float(slot.end_ms),
        )
        for slot in slots
    )
    last_end: dict[int, float] = {}
    for slot in slots:
        last_end[slot.device] = max(last_end.get(slot.device, 0.0), float(slot.end_ms))
    drain = min(last_end.values(), default=None)
    return GanttInfo(
        title=KIND_TITLES[schedule.kind],
        deployment=deployment,
        lanes=tuple(_lane(d, schedule, deployment) for d in used),
        idle_devices=tuple(d for d in range(deployment.num_devices) if d not in lane_of),
        bars=bars,
        stages=schedule.stages,
        num_micro_batches=schedule.num_micro_batches,
        makespan_ms=float(schedule.makespan_ms),
        period_ms=None if schedule.period_ms is None else float(schedule.period_ms),
        period_name=_period_name(schedule),
        period_mark=_period_mark(schedule, lane_of),
        warm_up_ms=float(schedule.warm_up_ms),
        drain_start_ms=drain if drain is not None and schedule.warm_up_ms < drain < schedule.makespan_ms else None,
        assumptions=_assumptions(schedule),
    )


def _lane(device: int, schedule: Schedule, deployment: Deployment) -> GanttLane:
    bubble = schedule.bubble_fraction[device] if device < len(schedule.bubble_fraction) else None
    share = None if bubble is None else min(1.0, max(0.0, float(bubble)))
    peak = float(schedule.peak_memory_bytes[device]) if device < len(schedule.peak_memory_bytes) else None
    return GanttLane(device, deployment.device_name(device), share, None if share is None else 1.0 - share, peak)


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


def _assumptions(schedule: Schedule) -> str:
    parts = [
        "receive, compute and send do not overlap",
        f"{schedule.num_micro_batches} micro-batch{'es' if schedule.num_micro_batches != 1 else ''}",
    ]
    if schedule.period_ms is not None:
        parts.append(f"{_period_name(schedule)} {schedule.period_ms:.4g} ms")
    else:
        parts.append(NO_PERIOD)
    parts.append(f"makespan {schedule.makespan_ms:.4g} ms")
    return " · ".join(parts)
