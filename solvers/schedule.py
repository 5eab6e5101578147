"""A split run over micro-batches: who computes, receives and sends what, and when.

The stages and their orders are those of `solvers.stages`; here they meet real time. The simulation is exact:

* A device does one thing at a time. For each stage and micro-batch it receives, computes and sends, in this order
  and without a break; transfers do not overlap with compute. A CPU transfers in no time.
* A tensor can be received once its sender has sent it, or, from a CPU, once it is computed. A stage starts as soon
  as its device is free and all it receives from elsewhere is in host memory. Host memory holds any number of
  tensors, so a device never waits for a slower reader.
* Inference: rounds of the forward stages; on a pipeline, the micro-batches in order.
* GPipe: all forward micro-batches, then the backward ones, last micro-batch first.
* 1F1B with flush: device i of a pipeline of p runs min(m, p-1-i) forwards, then forward and backward in turn, then
  the backwards left. Where there is no such pipeline, rounds of all stages (see `solvers.stages`).

What follows for m micro-batches on a pipeline in which each device sends to the next, with F and B the whole time
of a device's forward and backward stage: inference and GPipe take sum F + (m-1) max F, and GPipe
sum B + (m-1) max B more, for any stage times. 1F1B takes (m+p-1)(F+B) when stages are equal; when they are not,
sum + (m-1) max is neither an upper nor a lower bound, which is why it is simulated. The period settles at the
max-load for inference and 1F1B, and at the sum of the largest forward and the largest backward time for GPipe, for
splits of every family. The price of a split that is no pipeline is depth: more micro-batches in flight.

Sources: as in `solvers.stages`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.split import Split
from solvers.stages import Pass, PipelineStage, ScheduleError, ScheduleKind, pipeline_stages

__all__ = [
    "MemoryPoint",
    "Pass",
    "PipelineStage",
    "Schedule",
    "ScheduleError",
    "ScheduleKind",
    "Slot",
    "SlotKind",
    "schedule_text",
    "simulate",
]

SETTLED_TOLERANCE = 1e-9
"""Relative to the makespan: two intervals that differ by less are equal, but for the rounding of sums."""


class SlotKind(StrEnum):
    """What a device does in a slot."""

    RECEIVE = "receive"
    COMPUTE = "compute"
    SEND = "send"


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
    sorted by start. `period_ms` is the steady interval between samples, None when too few micro-batches ran to
    reach it. `warm_up_ms` is when the pipeline has filled: the last of the devices with work starts its first compute
    slot. `bubble_fraction` is the share of the makespan a device idles, None for a device without work.

    A micro-batch is in flight on a device from the start of the first stage the device runs for it to the end of the
    last: in training from its forward to its backward. Memory counts parameters once and the activations of forward
    nodes once per micro-batch in flight; those of backward nodes count once, always, since a device runs one
    micro-batch backward at a time. It is constant where the graph does not tell activations from the rest.
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


def simulate(
    graph: DnnGraph, deployment: Deployment, split: Split, kind: ScheduleKind, num_micro_batches: int
) -> Schedule:
    """Return the schedule, in ms, of `num_micro_batches` through a complete split.

    Takes O(slots) time once the stages are known. Raises ScheduleError for a count below 1 and whatever
    `pipeline_stages` refuses.

    >>> from solvers.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> s = simulate(g, Deployment(2), Split((frozenset({1}), frozenset({2}))), ScheduleKind.INFERENCE, 4)
    >>> s.makespan_ms, s.period_ms
    (16.5, 3.5)
    """
    if num_micro_batches < 1:
        raise ScheduleError(f"{num_micro_batches} micro-batches: give a number of at least 1.")
    stages = pipeline_stages(graph, deployment, split, kind)
    phases = _phases(stages, kind)
    blocks = _run(stages, phases, deployment.num_devices, num_micro_batches, backward_last_first=len(phases) > 1)
    return _schedule(graph, deployment, kind, num_micro_batches, stages, phases, blocks)


def schedule_text(schedule: Schedule) -> str:
    """Return the order of work, one line per device with work: stage number, pass and micro-batch of each action.

    >>> from solvers.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> s = simulate(g, Deployment(2), Split((frozenset({1}), frozenset({2}))), ScheduleKind.INFERENCE, 3)
    >>> print(schedule_text(s))
    device 0: 0F0 0F1 0F2
    device 1: 1F0 1F1 1F2
    """
    actions: dict[int, list[str]] = {}
    for slot in schedule.slots:
        if slot.kind is SlotKind.COMPUTE:
            notation = f"{schedule.stages[slot.stage].notation}{slot.micro_batch}"
            actions.setdefault(slot.device, []).append(notation)
    return "\n".join(f"device {d}: {' '.join(actions[d])}" for d in sorted(actions))


@dataclass(frozen=True, slots=True)
class _Block:
    """A stage's receive, compute and send for one micro-batch."""

    stage: PipelineStage
    micro_batch: int
    start_ms: float
    end_ms: float


_Groups = tuple[tuple[PipelineStage, ...], ...]
"""The stages that run in the same rounds, by pass and in each pass by depth."""


def _phases(stages: Sequence[PipelineStage], kind: ScheduleKind) -> tuple[_Groups, ...]:
    """Return the groups of stages of each phase; GPipe finishes its forward rounds before its backward rounds."""
    groups = tuple(tuple(s for s in stages if s.direction is direction) for direction in Pass)
    return tuple((group,) for group in groups) if kind is ScheduleKind.GPIPE else (groups,)


def _rounds(groups: _Groups, num_micro_batches: int) -> Iterator[tuple[PipelineStage, int]]:
    """Yield (stage, n - depth) for every round n: an order in which nothing waits for anything later."""
    depths = [[stage.depth for stage in group] for group in groups]
    last_depth = max((depth for group in depths for depth in group), default=0)
    for n in range(num_micro_batches + last_depth):
        for group, depth in zip(groups, depths, strict=True):
            for stage in group[bisect_right(depth, n - num_micro_batches) : bisect_right(depth, n)]:
                yield stage, n - stage.depth


def _run(
    stages: Sequence[PipelineStage],
    phases: Sequence[_Groups],
    num_devices: int,
    num_micro_batches: int,
    backward_last_first: bool,
) -> list[list[_Block]]:
    """Return the blocks of each device in the order it runs them, each as early as possible."""
    free_ms = [0.0] * num_devices
    finish_ms: list[list[float | None]] = [[None] * num_micro_batches for _ in stages]
    blocks: list[list[_Block]] = [[] for _ in range(num_devices)]
    for groups in phases:
        for stage, turn in _rounds(groups, num_micro_batches):
            is_reversed = backward_last_first and stage.direction is Pass.BACKWARD
            micro_batch = num_micro_batches - 1 - turn if is_reversed else turn
            start = free_ms[stage.device]
            for source in stage.receives_from:
                arrival = finish_ms[source][micro_batch]
                if arrival is None:
                    raise AssertionError(
                        f"bug: {stage.notation}{micro_batch} waits for {stages[source].notation}{micro_batch}, "
                        "which the order runs later: the schedule would deadlock"
                    )
                start = max(start, arrival)
            # Added up as the slots are, so that rounding leaves no overlap.
            end = start + stage.receive_ms + stage.compute_ms + stage.send_ms
            finish_ms[stage.index][micro_batch] = free_ms[stage.device] = end
            blocks[stage.device].append(_Block(stage, micro_batch, start, end))
    return blocks


def _schedule(
    graph: DnnGraph,
    deployment: Deployment,
    kind: ScheduleKind,
    num_micro_batches: int,
    stages: tuple[PipelineStage, ...],
    phases: Sequence[_Groups],
    blocks: Sequence[Sequence[_Block]],
) -> Schedule:
    """Return everything that is measured on the finished run."""
    makespan = max((run[-1].end_ms for run in blocks if run), default=0.0)
    loads = [0.0] * deployment.num_devices
    for stage in stages:
        loads[stage.device] += stage.total_ms
    tracks = [_memory_track(graph, stages, d, run) for d, run in enumerate(blocks)]
    slots = [slot for run in blocks for block in run for slot in _slots(block)]
    slots.sort(key=lambda slot: slot.start_ms)
    return Schedule(
        kind=kind,
        num_micro_batches=num_micro_batches,
        stages=stages,
        slots=tuple(slots),
        makespan_ms=makespan,
        period_ms=_period(phases, blocks, num_micro_batches, makespan),
        warm_up_ms=max((run[0].start_ms + run[0].stage.receive_ms for run in blocks if run), default=0.0),
        bubble_fraction=tuple(
            max(0.0, 1 - num_micro_batches * load / makespan) if load > 0 else None for load in loads
        ),
        peak_in_flight=tuple(peak for peak, _ in tracks),
        memory=tuple(points for _, points in tracks),
    )


def _slots(block: _Block) -> Iterator[Slot]:
    stage, received = block.stage, block.start_ms + block.stage.receive_ms
    computed = received + stage.compute_ms

    def slot(kind: SlotKind, start: float, end: float) -> Slot:
        return Slot(stage.device, stage.index, stage.direction, block.micro_batch, start, end, kind)

    if stage.receive_ms > 0:
        yield slot(SlotKind.RECEIVE, block.start_ms, received)
    yield slot(SlotKind.COMPUTE, received, computed)
    if stage.send_ms > 0:
        yield slot(SlotKind.SEND, computed, block.end_ms)


def _period(
    phases: Sequence[_Groups], blocks: Sequence[Sequence[_Block]], num_micro_batches: int, makespan: float
) -> float | None:
    """Return the steady interval in ms, summed over the phases; None if one of them has not settled.

    Measured on each device over the later half of the rounds in which it runs all its stages of the phase: the
    largest mean interval between the ends of these rounds, provided that a device with this mean keeps it in every
    one of them. The bottleneck does, once it no longer idles. Other devices may alternate for ever, and a single
    longer interval travels from device to device while the pipeline fills, so neither a single interval nor all
    devices would do.
    """
    period = 0.0
    tolerance = SETTLED_TOLERANCE * makespan
    for groups in phases:
        stages_on: dict[int, list[PipelineStage]] = {}
        for group in groups:
            for stage in group:
                stages_on.setdefault(stage.device, []).append(stage)
        largest = steady = 0.0
        for d, stages in stages_on.items():
            closing = stages[-1]
            ends = [block.end_ms for block in blocks[d] if block.stage is closing]
            first_full = max(stage.depth for stage in stages) - closing.depth
            last_full = num_micro_batches - 1 + min(stage.depth for stage in stages) - closing.depth
            if last_full - first_full < 2:
                return None
            num_intervals = max(2, (last_full - first_full) // 2)
            window = ends[last_full - num_intervals : last_full + 1]
            mean = (window[-1] - window[0]) / num_intervals
            largest = max(largest, mean)
            if all(abs(end - start - mean) <= tolerance for start, end in pairwise(window)):
                steady = max(steady, mean)
        if largest - steady > tolerance:
            return None
        period += largest
    return period


def _memory_track(
    graph: DnnGraph, stages: Sequence[PipelineStage], device: int, run: Sequence[_Block]
) -> tuple[int, tuple[MemoryPoint, ...]]:
    """Return the largest number of micro-batches in flight on a device, and its memory over time."""
    nodes = [graph.node_by_id[v] for stage in stages if stage.device == device for v in stage.nodes]
    constant = sum(node.memory_bytes for node in nodes)
    per_micro_batch = 0.0
    activations = [(node, node.activation_bytes) for node in nodes if node.activation_bytes is not None]
    if len(activations) == len(nodes) and all(held <= node.memory_bytes for node, held in activations):
        per_micro_batch = sum(held for node, held in activations if not node.is_backward)
        constant -= per_micro_batch
    stages_here = sum(stage.device == device for stage in stages)
    left = dict.fromkeys((block.micro_batch for block in run), stages_here)
    in_flight = peak = 0
    # A later change at the same time replaces the earlier one: no time passes between them.
    changes: dict[float, int] = {0.0: 0}
    for block in run:
        if left[block.micro_batch] == stages_here:
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
