"""A split run over micro-batches: who computes, receives and sends what, and when.

The stages are those of `solvers.schedule.stages` and their orders those of `solvers.schedule.orders`; here they meet
real time. The simulation is exact:

* A device does one thing at a time. For each stage and micro-batch it receives, computes and sends, in this order
  and without a break; transfers do not overlap with compute. A CPU transfers in no time.
* A tensor can be received once its sender has sent it, or, from a CPU, once it is computed. A stage starts as soon
  as its device is free and all it receives from elsewhere is in host memory. Host memory holds any number of
  tensors, so a device never waits for a slower reader.
* Inference: rounds of the forward stages; on a pipeline, the micro-batches in order.
* GPipe: all forward micro-batches, then the backward ones, last micro-batch first.
* 1F1B with flush: device i of a pipeline of p runs min(m, p-1-i) forwards, then forward and backward in turn, then
  the backwards left. Where there is no such pipeline, rounds of all stages (see `solvers.schedule.pieces`).
* PipeDream: the same order, of a run that never flushes. Each micro-batch keeps the weights it has seen.
* Interleaved 1F1B and ZB-V: several chunks of the pipeline on each device (see `solvers.schedule.looped_orders`).
* ZB-H1: 1F1B with the backward pass in two; weight gradients of a micro-batch run i rounds after its input gradients.
* Single stream: a sample starts when the one before it is through; its subgraphs run as soon as their inputs exist and
  CPU nodes side by side, as in `solvers.model.costs.single_sample_latency`, whose value is the period.
* Unpipelined: one micro-batch on one device at a time.

What follows for m micro-batches on a pipeline in which each device sends to the next, with F and B the whole time
of a device's forward and backward stage: inference and GPipe take sum F + (m-1) max F, and GPipe
sum B + (m-1) max B more, for any stage times. 1F1B takes (m+p-1)(F+B) when stages are equal; when they are not,
sum + (m-1) max is neither an upper nor a lower bound, which is why it is simulated. The period settles at the
max-load for inference, 1F1B and PipeDream, and at the sum of the largest forward and the largest backward time for
GPipe, for splits of every family. The price of a split that is no pipeline is depth: more micro-batches in flight.

For equal stages and free transfers, with v chunks per device and the backward pass B = I + W: interleaved 1F1B takes
m (F+B) + (p-1)(F+B)/v; ZB-H1 m (F+B) + (p-1)(F+I-W) where W is no longer than F and I and m >= p (beyond, it takes
longer); in ZB-V no device idles from its first action to its last if F = I = W and m >= 2p - 1.

Sources: as in `solvers.schedule.pieces` and `solvers.schedule.looped_orders`.
"""

from collections.abc import Sequence

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.quantities import count
from solvers.schedule.assumptions import assumptions_of
from solvers.schedule.critical_path import critical_chain, makespan_bounds
from solvers.schedule.memory import memory_track
from solvers.schedule.orders import Orders, Rounds, orders_of
from solvers.schedule.records import (
    WEIGHT_GRADIENT_SHARE,
    LoopedSplit,
    MemoryPoint,
    Pass,
    PipelineStage,
    Schedule,
    ScheduleError,
    ScheduleKind,
    Slot,
    SlotKind,
)
from solvers.schedule.run import Block, run_orders
from solvers.schedule.stages import pipeline_stages

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


def simulate(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split | LoopedSplit,
    kind: ScheduleKind,
    num_micro_batches: int,
    *,
    weight_gradient_share: float = WEIGHT_GRADIENT_SHARE,
    max_runs: int | None = None,
) -> Schedule:
    """Return the schedule, in ms, of `num_micro_batches` through a complete split.

    Interleaved 1F1B and ZB-V take a split cut into chunks, as `solvers.schedule.looped_split` returns it;
    `weight_gradient_share` is the part of a backward stage's compute that ZB-H1 and ZB-V run as weight gradients.
    Takes O(slots) time once the stages are known. Raises ScheduleError for a number of micro-batches below 1, or one
    that the schedule does not allow, for more than `max_runs` runs of a stage on a micro-batch, and whatever
    `pipeline_stages` refuses.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> s = simulate(g, Deployment(2), Split((frozenset({1}), frozenset({2}))), ScheduleKind.INFERENCE, 4)
    >>> s.makespan_ms, s.period_ms
    (16.5, 3.5)
    """
    if num_micro_batches < 1:
        raise ScheduleError(f"{num_micro_batches} micro-batches: give a number of at least 1.")
    stages = pipeline_stages(graph, deployment, split, kind, weight_gradient_share)
    if max_runs is not None and len(stages) * num_micro_batches > max_runs:
        fewer = f"up to {count(max_runs // len(stages))} micro-batches or " if len(stages) <= max_runs else ""
        raise ScheduleError(
            f"{count(len(stages))} stages with {count(num_micro_batches)} micro-batches are "
            f"{count(len(stages) * num_micro_batches)} runs, and up to {count(max_runs)} are simulated here; choose "
            f"{fewer}a plan with fewer stages."
        )
    looped = split if isinstance(split, LoopedSplit) else None
    orders = orders_of(stages, kind, deployment, num_micro_batches, looped)
    blocks = run_orders(stages, orders.queues, one_at_a_time=orders.one_at_a_time)
    is_parallel = kind is ScheduleKind.SINGLE_STREAM
    parallel_devices = {stage.device for stage in stages if is_parallel and deployment.is_cpu(stage.device)}
    makespan = max((block.end_ms for block in blocks), default=0.0)
    stages_on = [[stage for stage in stages if stage.device == d] for d in range(deployment.num_devices)]
    blocks_on: list[list[Block]] = [[] for _ in stages_on]
    # Blocks are listed after those they wait for; what takes no time keeps this order.
    in_order = sorted(blocks, key=lambda block: block.start_ms)
    for block in in_order:
        blocks_on[block.stage.device].append(block)
    warm_up = max((run[0].start_ms + run[0].stage.receive_ms for run in blocks_on if run), default=0.0)
    drain = min((max(block.end_ms for block in run) for run in blocks_on if run), default=0.0)
    bubbles: list[float | None] = []
    for d, own in enumerate(stages_on):
        load = sum(stage.total_ms for stage in own)
        busy = _union_ms(blocks_on[d]) if d in parallel_devices else num_micro_batches * load
        bubbles.append(max(0.0, 1 - busy / makespan) if load > 0 else None)
    bounds = makespan_bounds(stages, num_micro_batches, parallel_devices)
    tracks = [memory_track(graph, deployment, own, run, kind) for own, run in zip(stages_on, blocks_on, strict=True)]
    slots = [slot for block in in_order for slot in block.slots()]
    slots.sort(key=lambda slot: (slot.start_ms, slot.end_ms))
    chain = {(blocks[i].stage.index, blocks[i].micro_batch) for i in critical_chain(blocks)}
    return Schedule(
        kind=kind,
        num_micro_batches=num_micro_batches,
        stages=stages,
        slots=tuple(slots),
        makespan_ms=makespan,
        period_ms=_period(orders, blocks, makespan),
        warm_up_ms=warm_up,
        drain_start_ms=drain if warm_up < drain < makespan else None,
        bubble_fraction=tuple(bubbles),
        utilisation=tuple(None if bubble is None else 1 - bubble for bubble in bubbles),
        load_bound_ms=bounds.load_ms,
        critical_path_bound_ms=bounds.critical_path_ms,
        lower_bound_ms=bounds.lower_bound_ms,
        critical=frozenset(i for i, slot in enumerate(slots) if (slot.stage, slot.micro_batch) in chain),
        peak_in_flight=tuple(track.peak_in_flight for track in tracks),
        weight_versions=tuple(track.weight_versions for track in tracks),
        memory=tuple(track.points for track in tracks),
        peak_memory_bytes=tuple(track.peak_bytes for track in tracks),
        assumptions=assumptions_of(graph, deployment, stages, kind, looped, weight_gradient_share),
        chunks_per_device=1 if looped is None else looped.chunks_per_device,
    )


def _union_ms(blocks: Sequence[Block]) -> float:
    """Return for how long at least one of these blocks runs; they are sorted by start."""
    busy = until = 0.0
    for block in blocks:
        busy += max(0.0, block.end_ms - max(until, block.start_ms))
        until = max(until, block.end_ms)
    return busy


def schedule_text(schedule: Schedule) -> str:
    """Return the order of work, one line per device with work: stage number, pass and micro-batch of each action.

    >>> from solvers.model.graph import Node, Edge
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


def _period(orders: Orders, blocks: Sequence[Block], makespan: float) -> float | None:
    """Return the steady interval in ms, summed over the phases; None if one of them has not settled.

    Measured on each device over the later half of the rounds in which it runs all its stages of the phase: the
    largest mean interval between the ends of these rounds, provided that a device with this mean keeps it in every
    one of them. The bottleneck does, once it no longer idles. Other devices may alternate for ever, and a single
    longer interval travels from device to device while the pipeline fills, so neither a single interval nor all
    devices would do.
    """
    end_ms = {(block.stage.index, block.micro_batch): block.end_ms for block in blocks}
    period = 0.0
    tolerance = SETTLED_TOLERANCE * makespan
    for phase in orders.phases:
        largest = steady = 0.0
        for rounds in phase:
            intervals = _intervals([end_ms[action] for action in rounds.ends], rounds)
            if len(intervals) < 2:
                return None
            later = intervals[-max(2, len(intervals) // 2) :]
            mean = sum(later) / len(later)
            largest = max(largest, mean)
            if all(abs(interval - mean) <= tolerance for interval in later):
                steady = max(steady, mean)
        if largest - steady > tolerance:
            return None
        period += largest
    return period


def _intervals(ends_ms: Sequence[float], rounds: Rounds) -> list[float]:
    """Return the times per micro-batch from one end to the one a stride later."""
    later = ends_ms[rounds.stride :]
    return [(end - start) / rounds.samples for start, end in zip(ends_ms, later, strict=False)]
