"""The orders of schedules that run several chunks of the pipeline on each device.

Interleaved 1F1B (Narayanan et al., SC 2021). Device i of p runs v chunks; chunk c of the pipeline is on device c mod p.
Micro-batches come in groups of p: all of a group pass through the device's first chunk, then through its second, and so
on, backwards in the reverse order of chunks. After min(m v, 2 (p-1-i) + (v-1) p) chunk forwards a device runs a forward
and a backward chunk in turn, and in the end the backwards that are left.

ZB-V (Qi et al., 2024). Two chunks on each device: device r holds chunks r and 2p-1-r of the pipeline, so that a sample
goes along the devices and comes back. Chunk 0 runs ahead by 2 (p-r) - 1 forwards; then forwards of both chunks in turn;
in the steady phase forward, input and weight gradient of one chunk and then of the other; in the end input gradients
come first, since others wait for them, and weight gradients fill the gaps. With fewer than 2p - 1 micro-batches it is
the order for so many, without the micro-batches that there are not.

Sources: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM"
(arXiv 2104.04473); Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241) and "Pipeline Parallelism with
Controllable Memory" (arXiv 2405.15362).
"""

from collections.abc import Iterator, Sequence

from solvers.schedule.records import LoopedSplit, Pass, PipelineStage, ScheduleError, ScheduleKind
from solvers.schedule.run import Action

Step = tuple[Pass, int, int]
"""A pass, the chunk of the device from 0 in the order of the pipeline, and a micro-batch."""


def looped_orders(
    stages: Sequence[PipelineStage], looped: LoopedSplit, kind: ScheduleKind, num_micro_batches: int
) -> dict[int, tuple[list[Action], list[Action]]]:
    """Return for each device its actions in order, and those of them that end a round of the steady phase.

    A round is a forward and a backward of one chunk in interleaved 1F1B, and all stages of the device in ZB-V. Raises
    ScheduleError for a number of micro-batches that the schedule does not allow.
    """
    stage_of = {(stage.direction, stage.number): stage.index for stage in stages}
    p, v = len(looped.order), looped.chunks_per_device
    if kind is ScheduleKind.INTERLEAVED and num_micro_batches % p:
        below = num_micro_batches - num_micro_batches % p
        raise ScheduleError(
            f"Interleaved 1F1B runs micro-batches in groups of {p}, the devices of the pipeline, and "
            f"{num_micro_batches} are no whole number of groups; choose {f'{below} or ' if below else ''}{below + p}."
        )
    orders: dict[int, tuple[list[Action], list[Action]]] = {}
    for i, device in enumerate(looped.order):
        chunks = [c for c, d in enumerate(looped.devices) if d == device]
        if kind is ScheduleKind.INTERLEAVED:
            rounds = interleaved_steps(p, v, i, num_micro_batches)
        else:
            rounds = zb_v_steps(p, i, num_micro_batches)
        actions: list[Action] = []
        ends: list[Action] = []
        for steps, is_steady in rounds:
            for direction, chunk, micro_batch in steps:
                # A chunk of backward nodes only has no forward stage.
                stage = stage_of.get((direction, chunks[chunk]))
                if stage is not None:
                    actions.append((stage, micro_batch))
            if is_steady and actions:
                ends.append(actions[-1])
        orders[device] = actions, ends
    return orders


def interleaved_steps(p: int, v: int, i: int, m: int) -> Iterator[tuple[list[Step], bool]]:
    """Yield the steps of device i of p with v chunks, m micro-batches, in groups; a steady one is an F and a B."""

    def step(direction: Pass, k: int) -> Step:
        group, turn = divmod(k, p * v)
        chunk = turn // p if direction is Pass.FORWARD else v - 1 - turn // p
        return direction, chunk, group * p + turn % p

    warm_up = min(m * v, 2 * (p - 1 - i) + (v - 1) * p)
    for k in range(warm_up):
        yield [step(Pass.FORWARD, k)], False
    for k in range(m * v - warm_up):
        yield [step(Pass.FORWARD, warm_up + k), step(Pass.BACKWARD, k)], True
    for k in range(m * v - warm_up, m * v):
        yield [step(Pass.BACKWARD, k)], False


def zb_v_steps(p: int, r: int, m: int) -> Iterator[tuple[list[Step], bool]]:
    """Yield the steps of device r of p, m micro-batches, in groups; a steady one runs all six stages of the device."""
    forward, inputs, weights = Pass.FORWARD, Pass.INPUT_GRADIENT, Pass.WEIGHT_GRADIENT
    total = max(m, 2 * p - 1)
    done = dict.fromkeys(((d, chunk) for d in (forward, inputs, weights) for chunk in (0, 1)), 0)

    def take(*stages: tuple[Pass, int]) -> list[Step]:
        """Return the next micro-batch of each of these stages, as far as there is one."""
        steps = []
        for direction, chunk in stages:
            micro_batch = done[direction, chunk]
            done[direction, chunk] += 1
            if micro_batch < m:
                steps.append((direction, chunk, micro_batch))
        return steps

    def backward(chunk: int) -> tuple[tuple[Pass, int], tuple[Pass, int]]:
        return (inputs, chunk), (weights, chunk)

    for _ in range(2 * (p - r) - 1):
        yield take((forward, 0)), False
    for _ in range(r):
        yield take((forward, 1), (forward, 0)), False
    for _ in range(p - r):
        yield take((forward, 1), *backward(1)), False
    while done[forward, 0] < total:
        steps = take((forward, 0), *backward(0), (forward, 1), *backward(1))
        yield steps, len(steps) == 6
    while done[forward, 1] < total:
        yield take(*backward(0), (forward, 1), *backward(1)), False
    for _ in range(r):
        yield take((inputs, 0), (inputs, 1)), False
    for _ in range(p - r):
        yield take(*backward(0)), False
    for chunk in (1, 0):
        while done[weights, chunk] < total:
            yield take((weights, chunk)), False
