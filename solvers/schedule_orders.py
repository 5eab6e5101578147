"""In which order the devices of a schedule work off their stages, and which of their rounds show the steady pace.

Rounds (inference, GPipe, 1F1B): in round n a stage of depth t runs micro-batch n - t, and the stages of a round run in
order of pass, depth and position in the graph (`solvers.stages`). GPipe finishes its forward rounds before its
backward rounds, which take the last micro-batch first.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solvers.schedule_run import Action
from solvers.schedule_types import Pass, PipelineStage, ScheduleKind


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
    """What each queue works off, and the rounds by which the steady pace is measured, per phase and device."""

    queues: tuple[tuple[Action, ...], ...]
    phases: tuple[tuple[Rounds, ...], ...]


def orders_of(stages: Sequence[PipelineStage], kind: ScheduleKind, num_devices: int, num_micro_batches: int) -> Orders:
    """Return the orders of a schedule for `num_micro_batches`; queue d is device d."""
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
