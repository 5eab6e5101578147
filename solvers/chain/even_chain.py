"""A chain at once, however large the graph: blocks in one order, a stage as long as its device has room."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import Contraction, FloatArray, IntArray

HALVINGS = 40
"""Of what a stage may take, until it is about the least for which the devices are enough."""


class _Device(NamedTuple):
    number: int
    time_ms: FloatArray  # (n + 1,): of the blocks before each one, without those that do not run here
    cannot: IntArray  # blocks that do not run here, and last n
    memory_bytes: float


def even_chain(
    graph: DnnGraph, contraction: Contraction, deployment: Deployment, order: IntArray
) -> dict[int, int] | None:
    """Return the device of each block in a chain of about equal compute times, or None if it finds none that fits.

    Its stages follow each other in `order`, a topological one of the blocks. Transfers are not looked at, nor what a
    training schedule or replicas change: whoever uses it has to judge it.
    Accelerators follow each other as they are numbered within their kinds; CPUs come last, or first where that is
    better. Time O(kinds x n + HALVINGS x devices x log n).
    """
    memory = _sums(contraction.memory_bytes[order])
    accelerators: list[_Device] = []
    for kind in accelerator_kinds(graph, deployment):
        time_ms, cannot = _times(kind.block_ms(contraction)[order])
        accelerators += [_Device(d, time_ms, cannot, kind.memory_limit_bytes) for d in kind.devices]
    numbers = range(deployment.num_accelerators, deployment.num_devices)
    cpus = [_Device(d, *_times(contraction.cpu_ms[order]), np.inf) for d in numbers]
    best_ms, best = np.inf, None
    for devices in ([*accelerators, *cpus], [*cpus, *accelerators])[: 2 if cpus else 1]:
        longest_ms, borders = _shortest(devices, memory)
        if borders is not None and longest_ms < best_ms:
            stages = zip(devices, pairwise(borders), strict=True)
            best_ms = longest_ms
            best = {b: device.number for device, (begin, end) in stages for b in order[begin:end].tolist()}
    return best


def depth_first_order(contraction: Contraction) -> IntArray:
    """Return the blocks in an order in which each comes right after what only it has waited for so far.

    Branches follow each other so, and an input comes before the first block that reads it: of a network that is
    numbered across its branches, or from all of its inputs on, stages along this order cut fewer tensors.
    """
    n = contraction.num_blocks
    before: list[list[int]] = [[] for _ in range(n)]
    is_read = bytearray(n)
    for source, target in contraction.edges:
        before[target].append(source)
        is_read[source] = 1
    order: list[int] = []
    is_there = bytearray(n)
    for last in range(n):
        path = [] if is_read[last] else [last]
        while path:
            b = path[-1]
            if before[b]:
                awaited = before[b].pop()
                if not is_there[awaited]:
                    path.append(awaited)
            else:
                path.pop()
                is_there[b] = 1
                order.append(b)
    return np.array(order, np.int32)


def _sums(of_blocks: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(of_blocks)])


def _times(block_ms: FloatArray) -> tuple[FloatArray, IntArray]:
    runs = np.isfinite(block_ms)
    return _sums(np.where(runs, block_ms, 0.0)), np.append(np.flatnonzero(~runs), block_ms.size)


def _shortest(devices: list[_Device], memory: FloatArray) -> tuple[float, list[int] | None]:
    """Return about the least compute time in ms of the longest stage, and the borders of the stages of that chain."""
    low, high = 0.0, max((float(device.time_ms[-1]) for device in devices), default=0.0)
    best = _filled(devices, memory, high)
    for _ in range(HALVINGS if best is not None else 0):
        middle = 0.5 * (low + high)
        borders = _filled(devices, memory, middle)
        if borders is None:
            low = middle
        else:
            high, best = middle, borders
    return high, best


def _filled(devices: list[_Device], memory: FloatArray, most_ms: float) -> list[int] | None:
    """Return the borders of stages of which each takes what it may, if that is all blocks."""
    borders = [0]
    for device in devices:
        begin = borders[-1]
        ends = (
            np.searchsorted(device.time_ms, device.time_ms[begin] + most_ms, side="right") - 1,
            np.searchsorted(memory, memory[begin] + device.memory_bytes, side="right") - 1,
            device.cannot[np.searchsorted(device.cannot, begin)],
        )
        borders.append(max(begin, int(min(ends))))
    return borders if borders[-1] == memory.size - 1 else None
