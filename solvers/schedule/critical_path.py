"""How long a run must take, and which waits made it as long as it is.

With the stages of a schedule as they are, each received, computed and sent without a break, m micro-batches and any
order of work on the devices:

* Load bound: m max_d L_d. Device d works L_d ms on every micro-batch, whatever the order; nor does it help to cut its
  stages finer, as long as the split stays.
* Critical-path bound: the longest path of one micro-batch through its stages, each after those whose tensors it needs.
  It is what a single micro-batch takes, alone in an empty pipeline, where no two stages of a device are independent.
* Lower bound: the larger of the critical path and max_d [ min head + m L_d + min tail ]. The head of a stage is the
  longest path that must be over before it can start, its tail the longest that must follow; a device can start no
  earlier than the least head of its stages, and the least of their tails is left when it has finished. For a pipeline
  this is max_i [ sum_{j<i} F_j + m (F_i + B_i) + sum_{j<i} B_j ]: inference and, for equal stages, GPipe and 1F1B reach
  it, so that no other order of the same stages is faster. Cutting the backward stages in two, as zero-bubble schedules
  do, gives other stages and with them another bound.

The critical chain leads from the end of the run back to its start, from each block to the one whose end it waited for.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from solvers.schedule.records import PipelineStage
from solvers.schedule.run import Block


@dataclass(frozen=True, slots=True)
class MakespanBounds:
    """Proven lower bounds on the makespan in ms: see the module's text."""

    load_ms: float
    critical_path_ms: float
    lower_bound_ms: float


def makespan_bounds(
    stages: Sequence[PipelineStage], num_micro_batches: int, parallel_devices: Collection[int] = ()
) -> MakespanBounds:
    """Return the bounds for stages listed after those they need.

    A parallel device runs any number of stages at a time, so that its load bounds nothing.
    """
    head = [0.0] * len(stages)
    for stage in stages:
        inputs = (*stage.receives_from, *stage.follows)
        head[stage.index] = max((head[i] + stages[i].total_ms for i in inputs), default=0.0)
    tail = [0.0] * len(stages)
    for stage in reversed(stages):
        for i in (*stage.receives_from, *stage.follows):
            tail[i] = max(tail[i], stage.total_ms + tail[stage.index])
    path = max((head[stage.index] + stage.total_ms for stage in stages), default=0.0)
    load = best = 0.0
    for d in {stage.device for stage in stages} - set(parallel_devices):
        own = [stage for stage in stages if stage.device == d]
        work = num_micro_batches * sum(stage.total_ms for stage in own)
        load = max(load, work)
        best = max(best, min(head[stage.index] for stage in own) + work + min(tail[stage.index] for stage in own))
    return MakespanBounds(load, path, max(best, path))


def critical_chain(blocks: Sequence[Block]) -> list[int]:
    """Return the indices of the blocks of one chain of waits, from the start of the run to its end.

    Where a block could start neither before another one ended nor before its own device was free, the chain stays on
    its device.
    """
    if not blocks:
        return []
    chain: list[int] = []
    i: int | None = max(range(len(blocks)), key=lambda i: blocks[i].end_ms)
    while i is not None:
        chain.append(i)
        i = blocks[i].cause
    return chain[::-1]
