"""Better free splits by simulated annealing: move one block at a time, or swap two, from the best plan known.

Load is a cut of hyperedges without direction, so moving block b from device s to device t changes the loads of s and t
only: with count[e, d] the number of ends of hyperedge e on device d, every other device sees e cut exactly when it did.
A move therefore costs O(hyperedges of b). The energy is sum_d (load_d / scale)^power, a smooth stand-in for the
largest load that still rewards relief of every busy device; the best plan is kept by its largest load.

Nothing is proven here: bounds come from elsewhere.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.contraction import Contraction, FloatArray, IntArray, compressed_rows
from solvers.deployment import Deployment

POWERS = (4.0, 8.0, 16.0)
HOTTEST = (0.01, 0.1, 1.0)
COLDEST = 1e-4
"""Temperatures at the start and the end of a sweep, in units of the energy of one device at the scale.

No single setting suits all graphs: sweeps take turns through all of these.
"""
SWEEP_MOVES = (200_000, 1_000_000, 4_000_000)
"""Moves of a sweep; longer ones follow once short ones find nothing better."""
PATIENCE = 12
"""Sweeps without a better plan after which to stop: every setting has had a turn."""
NEIGHBOUR_SHARE = 0.7
"""How often a block is offered the device of a neighbour instead of any device."""
SWAP_SHARE = 0.25


class AnnealingProblem(NamedTuple):
    """A contraction as flat arrays; `neighbour_*` are rows of blocks that share a hyperedge with each block."""

    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    memory_bytes: FloatArray
    net_ptr: IntArray
    net_idx: IntArray
    net_weight: FloatArray
    net_size: IntArray
    neighbour_ptr: IntArray
    neighbour_idx: IntArray
    num_accelerators: int
    num_devices: int
    memory_limit: float


class Annealing:
    """Sweeps of annealing from a plan; each returns whether it found a better one."""

    def __init__(
        self, contraction: Contraction, deployment: Deployment, device_of_block: dict[int, int], seed: int = 0
    ) -> None:
        """Start from a valid plan of the free family."""
        self._problem = _problem(contraction, deployment)
        self._seed = seed
        n = contraction.num_blocks
        self._best = np.array([device_of_block[b] for b in range(n)], np.int32)
        self.value_ms = float(_loads(self._problem, self._best, _counts(self._problem, self._best)).max())

    @property
    def device_of_block(self) -> dict[int, int]:
        """The best plan so far."""
        return {b: int(d) for b, d in enumerate(self._best)}

    def sweep(self) -> bool:
        """Cool down once from the best plan; say whether a better plan was found."""
        turn = self._seed
        self._seed += 1
        num_settings = len(POWERS) * len(HOTTEST)
        moves = SWEEP_MOVES[min(turn // num_settings, len(SWEEP_MOVES) - 1)]
        hottest = HOTTEST[turn % len(HOTTEST)]
        power = POWERS[turn // len(HOTTEST) % len(POWERS)]
        device = self._best.copy()
        best, value = _anneal(self._problem, device, self.value_ms, moves, power, hottest, self._seed)
        if value < self.value_ms * (1 - 1e-12):
            self._best, self.value_ms = best, float(value)
            return True
        return False


def _problem(contraction: Contraction, deployment: Deployment) -> AnnealingProblem:
    n = contraction.num_blocks
    nets: list[list[int]] = [[] for _ in range(n)]
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for e, hyperedge in enumerate(contraction.hyperedges):
        for b in hyperedge.blocks:
            nets[b].append(e)
            neighbours[b].update(hyperedge.blocks)
    net_ptr, net_idx = compressed_rows(nets)
    neighbour_ptr, neighbour_idx = compressed_rows([sorted(others - {b}) for b, others in enumerate(neighbours)])
    memory = deployment.memory_bytes
    return AnnealingProblem(
        accelerator_ms=contraction.accelerator_ms,
        cpu_ms=contraction.cpu_ms,
        memory_bytes=contraction.memory_bytes,
        net_ptr=net_ptr,
        net_idx=net_idx,
        net_weight=np.array([h.weight_ms for h in contraction.hyperedges]),
        net_size=np.array([len(h.blocks) for h in contraction.hyperedges], np.int32),
        neighbour_ptr=neighbour_ptr,
        neighbour_idx=neighbour_idx,
        num_accelerators=deployment.num_accelerators,
        num_devices=deployment.num_devices,
        memory_limit=np.inf if memory is None else memory,
    )


@njit(cache=True, nogil=True)
def _counts(problem, device):
    """Ends of each hyperedge on each device, shape (hyperedges, devices)."""
    counts = np.zeros((problem.net_weight.size, problem.num_devices), np.int32)
    for b in range(device.size):
        for i in range(problem.net_ptr[b], problem.net_ptr[b + 1]):
            counts[problem.net_idx[i], device[b]] += 1
    return counts


@njit(cache=True, nogil=True)
def _loads(problem, device, counts):
    """Load of each device in ms, computed afresh."""
    loads = np.zeros(problem.num_devices)
    for b in range(device.size):
        if device[b] < problem.num_accelerators:
            loads[device[b]] += problem.accelerator_ms[b]
        else:
            loads[device[b]] += problem.cpu_ms[b]
    for e in range(problem.net_weight.size):
        for d in range(problem.num_accelerators):
            if 0 < counts[e, d] < problem.net_size[e]:
                loads[d] += problem.net_weight[e]
    return loads


@njit(cache=True, nogil=True)
def _after(problem, counts, b, d, step, load):
    """Load of device d once block b has joined it (step 1) or left it (step -1)."""
    if d >= problem.num_accelerators:
        return load + step * problem.cpu_ms[b]
    load += step * problem.accelerator_ms[b]
    for i in range(problem.net_ptr[b], problem.net_ptr[b + 1]):
        e = problem.net_idx[i]
        count, size = counts[e, d], problem.net_size[e]
        if 0 < count < size:
            load -= problem.net_weight[e]
        if 0 < count + step < size:
            load += problem.net_weight[e]
    return load


@njit(cache=True, nogil=True)
def _place(problem, device, counts, memory, b, d):
    """Move block b to device d in all books but the loads."""
    s = device[b]
    for i in range(problem.net_ptr[b], problem.net_ptr[b + 1]):
        counts[problem.net_idx[i], s] -= 1
        counts[problem.net_idx[i], d] += 1
    memory[s] -= problem.memory_bytes[b]
    memory[d] += problem.memory_bytes[b]
    device[b] = d


@njit(cache=True, nogil=True)
def _anneal(problem, device, value, moves, power, hottest, seed):
    """Cool down from `device`, in place; return the best plan seen and its largest load."""
    np.random.seed(seed)
    n, num_devices = device.size, problem.num_devices
    counts = _counts(problem, device)
    loads = _loads(problem, device, counts)
    memory = np.zeros(num_devices)
    for b in range(n):
        memory[device[b]] += problem.memory_bytes[b]
    limit = problem.memory_limit * (1.0 + 1e-12)
    best = device.copy()
    best_value = value
    scale = value if value > 0 else 1.0
    cooling = (COLDEST / hottest) ** (1.0 / moves)
    temperature = hottest
    for move in range(moves):
        temperature *= cooling
        if move & 65535 == 65535:
            loads = _loads(problem, device, counts)  # undo the drift of many small changes
        b = np.random.randint(n)
        s = device[b]
        other = -1
        first, last = problem.neighbour_ptr[b], problem.neighbour_ptr[b + 1]
        if last > first and np.random.random() < NEIGHBOUR_SHARE:
            t = device[problem.neighbour_idx[first + np.random.randint(last - first)]]
        else:
            t = np.random.randint(num_devices)
        if np.random.random() < SWAP_SHARE:
            other = np.random.randint(n)
            t = device[other]
        if t == s:
            continue
        if t < problem.num_accelerators and np.isinf(problem.accelerator_ms[b]):
            continue
        if other >= 0 and s < problem.num_accelerators and np.isinf(problem.accelerator_ms[other]):
            continue
        gain = problem.memory_bytes[b] - (problem.memory_bytes[other] if other >= 0 else 0.0)
        if t < problem.num_accelerators and gain > 0 and memory[t] + gain > limit:
            continue
        if s < problem.num_accelerators and gain < 0 and memory[s] - gain > limit:
            continue
        new_s = _after(problem, counts, b, s, -1, loads[s])
        new_t = _after(problem, counts, b, t, 1, loads[t])
        if other >= 0:
            _place(problem, device, counts, memory, b, t)
            new_t = _after(problem, counts, other, t, -1, new_t)
            new_s = _after(problem, counts, other, s, 1, new_s)
        change = (
            (new_s / scale) ** power
            + (new_t / scale) ** power
            - (loads[s] / scale) ** power
            - (loads[t] / scale) ** power
        )
        if change <= 0 or np.random.random() < np.exp(-change / temperature):
            if other >= 0:
                _place(problem, device, counts, memory, other, s)
            else:
                _place(problem, device, counts, memory, b, t)
            loads[s], loads[t] = new_s, new_t
            if max(new_s, new_t) < best_value and loads.max() < best_value:
                fresh = _loads(problem, device, counts).max()
                if fresh < best_value:
                    best_value = fresh
                    best[:] = device
        elif other >= 0:
            _place(problem, device, counts, memory, b, s)
    return best, best_value
