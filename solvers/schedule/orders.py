"""In which order the devices of a schedule work off their stages, and which of their rounds show the steady pace.

Rounds (inference, GPipe, 1F1B, PipeDream, ZB-H1): in round n a stage of depth t runs micro-batch n - t, and the stages
of a round run in order of pass, depth and position in the graph (`solvers.schedule.pieces`). GPipe finishes its forward
rounds before its backward rounds, which take the last micro-batch first. Kinds with several chunks per device:
`solvers.schedule.looped_orders`.

One micro-batch at a time: unpipelined runs the stages one after the other, as if there were one device; single-stream
starts each stage as soon as it can, and the next micro-batch when the last stage is done.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solvers.model.deployment import Deployment
from solvers.schedule.looped_orders import looped_orders
from solvers.schedule.records import LoopedSplit, Pass, PipelineStage, ScheduleKind
from solvers.schedule.run import Action


@dataclass(frozen=True, slots=True)
class Rounds:
    """The last actions of a device's rounds in which all its stages run, in order.

    In the steady state the end of a round and the end of the one `stride` rounds later are as many samples apart as
    `samples` says.
    """

    ends: tuple[Action, ...]
    stride: int = 1
    samples: int = 1


@dataclass(frozen=True, slots=True)
class Orders:
    """What each queue works off, and the rounds by which the steady pace is measured, per phase and device.

    With `one_at_a_time` no micro-batch begins before the one before it is through.
    """

    queues: tuple[tuple[Action, ...], ...]
    phases: tuple[tuple[Rounds, ...], ...]
    one_at_a_time: bool = False


def orders_of(
    stages: Sequence[PipelineStage],
    kind: ScheduleKind,
    deployment: Deployment,
    num_micro_batches: int,
    looped: LoopedSplit | None = None,
) -> Orders:
    """Return the orders of a schedule for `num_micro_batches`; kinds that loop over devices need their chunks.

    Raises ScheduleError for a number of micro-batches that the schedule does not allow.
    """
    if looped is not None:
        return _looped(stages, kind, looped, num_micro_batches)
    if kind is ScheduleKind.UNPIPELINED:
        queue = tuple((stage.index, n) for n in range(num_micro_batches) for stage in stages)
        return Orders((queue,), ((_of_stage(stages[-1], num_micro_batches),),) if stages else ())
    if kind is ScheduleKind.SINGLE_STREAM:
        return _single_stream(stages, deployment, num_micro_batches)
    return _rounds(stages, kind, deployment.num_devices, num_micro_batches)


def _of_stage(stage: PipelineStage, num_micro_batches: int) -> Rounds:
    """Return rounds that end with this stage."""
    return Rounds(tuple((stage.index, n) for n in range(num_micro_batches)))


def _looped(stages: Sequence[PipelineStage], kind: ScheduleKind, looped: LoopedSplit, num_micro_batches: int) -> Orders:
    orders = looped_orders(stages, looped, kind, num_micro_batches)
    p = len(looped.order)
    # Interleaved 1F1B repeats after a group of p micro-batches has passed through all chunks of a device.
    stride, samples = (p * looped.chunks_per_device, p) if kind is ScheduleKind.INTERLEAVED else (1, 1)
    return Orders(
        tuple(tuple(actions) for actions, _ in orders.values()),
        (tuple(Rounds(tuple(ends), stride, samples) for _, ends in orders.values()),),
    )


def _single_stream(stages: Sequence[PipelineStage], deployment: Deployment, num_micro_batches: int) -> Orders:
    """Return a queue for each accelerator and for each node on a CPU: there are as many CPUs as needed."""
    queues: dict[tuple[bool, int], list[Action]] = {}
    for n in range(num_micro_batches):
        for stage in stages:
            on_cpu = deployment.is_cpu(stage.device)
            queues.setdefault((on_cpu, stage.index if on_cpu else stage.device), []).append((stage.index, n))
    rounds = tuple(_of_stage(stage, num_micro_batches) for stage in stages)
    return Orders(tuple(map(tuple, queues.values())), (rounds,), one_at_a_time=True)


def _rounds(stages: Sequence[PipelineStage], kind: ScheduleKind, num_devices: int, num_micro_batches: int) -> Orders:
    phases = _phases(stages, kind)
    queues: list[list[Action]] = [[] for _ in range(num_devices)]
    rounds: list[tuple[Rounds, ...]] = []
    for phase, groups in enumerate(phases):

        def micro_batch(turn: int, is_reversed: bool = phase > 0) -> int:
            return num_micro_batches - 1 - turn if is_reversed else turn

        for stage, turn in _in_rounds(groups, num_micro_batches):
            queues[stage.device].append((stage.index, micro_batch(turn)))
        per_device = []
        for closing, turns in _full_rounds(groups, num_micro_batches):
            per_device.append(Rounds(tuple((closing.index, micro_batch(turn)) for turn in turns)))
        rounds.append(tuple(per_device))
    return Orders(tuple(map(tuple, queues)), tuple(rounds))


_Groups = tuple[tuple[PipelineStage, ...], ...]
"""The stages that run in the same rounds, by pass and in each pass by depth."""


def _phases(stages: Sequence[PipelineStage], kind: ScheduleKind) -> tuple[_Groups, ...]:
    """Return the groups of stages of each phase; GPipe finishes its forward rounds before its backward rounds."""
    groups = tuple(tuple(s for s in stages if s.direction is direction) for direction in Pass)
    return tuple((group,) for group in groups) if kind is ScheduleKind.GPIPE else (groups,)


def _in_rounds(groups: _Groups, num_micro_batches: int) -> Iterator[tuple[PipelineStage, int]]:
    """Yield (stage, n - depth) for every round n: an order in which nothing waits for anything later."""
    depths = [[stage.depth for stage in group] for group in groups]
    last_depth = max((depth for group in depths for depth in group), default=0)
    for n in range(num_micro_batches + last_depth):
        for group, depth in zip(groups, depths, strict=True):
            for stage in group[bisect_right(depth, n - num_micro_batches) : bisect_right(depth, n)]:
                yield stage, n - stage.depth


def _full_rounds(groups: _Groups, num_micro_batches: int) -> Iterator[tuple[PipelineStage, range]]:
    """Yield the last stage of each device's rounds, and its turns in those that run all stages of the device."""
    stages_on: dict[int, list[PipelineStage]] = {}
    for group in groups:
        for stage in group:
            stages_on.setdefault(stage.device, []).append(stage)
    for own in stages_on.values():
        closing = own[-1]
        first = max(stage.depth for stage in own) - closing.depth
        last = num_micro_batches - 1 + min(stage.depth for stage in own) - closing.depth
        yield closing, range(first, last + 1)
