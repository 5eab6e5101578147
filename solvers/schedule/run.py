"""Run the orders of a schedule in time: every stage of every micro-batch as early as its order allows.

A queue is a resource that works off a fixed order of actions, one after the other: a device, as a rule. An action is a
stage and a micro-batch. It starts when its queue is free and the stages it receives from are done with the same
micro-batch. The times follow from the orders alone, in whatever sequence the queues are looked at, so the run is
exact; it takes O(actions x inputs) steps.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solvers.schedule.records import PipelineStage, Slot, SlotKind

Action = tuple[int, int]
"""Index of a stage, and a micro-batch."""

WHOLE = -1
"""In place of the index of a stage: all of them."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stage's receive, compute and send for one micro-batch, without a break.

    `cause` is the index of the block whose end it started at, the one before it in its queue where several ended at
    the time; None for a block that waited for none.
    """

    stage: PipelineStage
    micro_batch: int
    start_ms: float
    end_ms: float
    cause: int | None

    def slots(self) -> Iterator[Slot]:
        """Yield the slots of the block; transfers that take no time have none."""
        stage, received = self.stage, self.start_ms + self.stage.receive_ms
        computed = received + stage.compute_ms

        def slot(kind: SlotKind, start: float, end: float) -> Slot:
            return Slot(stage.device, stage.index, stage.direction, self.micro_batch, start, end, kind)

        if stage.receive_ms > 0:
            yield slot(SlotKind.RECEIVE, self.start_ms, received)
        yield slot(SlotKind.COMPUTE, received, computed)
        if stage.send_ms > 0:
            yield slot(SlotKind.SEND, computed, self.end_ms)


def run_orders(
    stages: Sequence[PipelineStage], queues: Sequence[Sequence[Action]], *, one_at_a_time: bool = False
) -> list[Block]:
    """Return the blocks of a run; those of a queue come in its order, and every block after those it waits for.

    With `one_at_a_time` a micro-batch, from 0, begins when all of the one before it is done. Raises AssertionError for
    orders that wait for each other in a circle or run an action before what it needs: a bug.
    """
    blocks: list[Block] = []
    block_of: dict[Action, int] = {}
    position = [0] * len(queues)
    last: list[int | None] = [None] * len(queues)
    waiting: dict[Action, list[int]] = {}
    done: dict[int, int] = {}
    last_of: dict[int, int] = {}
    ready = deque(range(len(queues)))
    while ready:
        q = ready.popleft()
        while position[q] < len(queues[q]):
            action = index, micro_batch = queues[q][position[q]]
            stage = stages[index]
            inputs = [(source, micro_batch) for source in (*stage.receives_from, *stage.follows)]
            if one_at_a_time and micro_batch > 0:
                inputs.append((WHOLE, micro_batch - 1))
            missing = next((needed for needed in inputs if needed not in block_of), None)
            if missing is not None:
                waiting.setdefault(missing, []).append(q)
                break
            cause = last[q]
            start = 0.0 if cause is None else blocks[cause].end_ms
            for needed in inputs:
                arrival = blocks[block_of[needed]].end_ms
                if arrival > start:
                    cause, start = block_of[needed], arrival
            # Added up as the slots are, so that rounding leaves no overlap.
            end = start + stage.receive_ms + stage.compute_ms + stage.send_ms
            block_of[action] = last[q] = len(blocks)
            blocks.append(Block(stage, micro_batch, start, end, cause))
            position[q] += 1
            ready.extend(waiting.pop(action, ()))
            if blocks[last_of.setdefault(micro_batch, len(blocks) - 1)].end_ms < end:
                last_of[micro_batch] = len(blocks) - 1
            done[micro_batch] = done.get(micro_batch, 0) + 1
            if done[micro_batch] == len(stages):
                block_of[WHOLE, micro_batch] = last_of[micro_batch]
                ready.extend(waiting.pop((WHOLE, micro_batch), ()))
    if waiting:
        stuck = ", ".join(
            f"{'all of ' if index == WHOLE else stages[index].notation}{n}" for index, n in list(waiting)[:6]
        )
        raise AssertionError(f"bug: the orders deadlock; queues wait for {stuck}")
    return blocks
