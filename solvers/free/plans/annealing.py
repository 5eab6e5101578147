"""Better free and convex splits by simulated annealing: move one block, or swap two, from the best plan known.

A sweep has two halves: it cools down a coarse problem, whose blocks are clusters of blocks
(`solvers.free.plans.coarsening`), and then the blocks themselves from the plan that came of it, if that is a good one:
blocks are many more than clusters, and so are their moves. Clusters are those of one plan, or of two: if neither plan
divides a cluster, the coarse problem has both plans in it and all mixtures of them, and is small where they agree
(combination as in KaFFPaE: Sanders and Schulz, "Distributed Evolutionary Graph Partitioning", ALENEX 2012).

The energy is sum_d (load_d / scale)^power, a smooth stand-in for the largest load that still rewards relief of every
busy device; the best plan is kept by its largest load. A move costs little (`solvers.free.plans.flat_problem`).

A convex split stays one. Most of its blocks lie between others of their device and cannot leave it alone: with one of
them all go that follow it there, or all that it follows.

Nothing is proven here: bounds come from elsewhere.
"""

from collections.abc import Collection

import numpy as np
from numba import njit

from solvers.free.min_cuts import merged
from solvers.free.plans.coarsening import clusters
from solvers.free.plans.device_sets import (
    device_sets,
    enter,
    is_between,
    is_convex,
    leave,
    may_join,
    may_leave,
    with_what_follows,
)
from solvers.free.plans.flat_problem import (
    FlatProblem,
    ForwardOrder,
    after_step,
    combined,
    count_ends,
    fill_parts,
    flat_problem,
    largest_load,
    place,
)
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.problem.contraction import Contraction, IntArray

SQUARINGS = (3, 4, 5, 6)
"""The power of the energy is 8 to 64: so many squarings, which take less time than a power of any exponent.

The higher it is, the less many full devices cost, as the best plans often have, next to one that is overfull.
"""
MOST_OVERFULL = 1e4
"""Loads count as so many times the scale at most: their energy, and the sum of all devices', stays finite."""
HOTTEST = (0.01, 0.1, 1.0, 3.0)
HOTTEST_FINE = (0.001, 0.01)
COLDEST = 1e-4
"""Temperatures at the start, coarse and fine, and the end of a sweep, in units of the energy of a device at the scale.

No single setting suits all graphs: every sweep draws its own.
"""
SHARES_OF_BLOCKS = (0.1, 0.2, 0.4, 0.7, 1.0)
"""Clusters of a coarse problem per block."""
HEAVIEST = (0.05, 0.1, 0.2, 0.4)
"""Work of the heaviest cluster, as a share of the largest load."""
NEVER = 30.0
"""A move that costs so many times the temperature is not made: it would be in one of 10^13."""
MOVES_PER_CLUSTER, MOVES_PER_BLOCK = 2_000, 3_000
MOST_MOVES = 8_000_000
"""Moves of the two halves of a sweep; twice, then four times as many once PATIENCE sweeps in turn found nothing."""
WORTH_REFINING = 1.02
"""A sweep goes on block by block where its first half ended at so many times the best plan's value at most.

Of 54 better plans of NASNet-A large one came from a worse end, and half of the time had gone there.
"""
PATIENCE = 60
WANDER, RETURN = 1.004, 15
"""Sweeps go on from where the last one ended if it is so little worse than the best plan, for so many sweeps."""
HEAVIEST_OF_TWO, HOTTEST_OF_TWO, MOVES_PER_CLUSTER_OF_TWO = (0.1, 0.2, 0.4, 1.0), (0.1, 1.0, 3.0), 6_000
"""Heaviest cluster, hottest temperatures and moves for clusters of two plans; there are few of these."""
NEIGHBOUR_SHARE = 0.7
"""How often a block is offered the device of a neighbour instead of any device."""
SWAP_SHARE = 0.25
"""How often two blocks are swapped instead."""

TOGETHER_SHARE = 0.05
"""How often a block of a convex split that cannot leave alone is offered another device with those that go with it."""
MOST_TOGETHER = 64
"""So many blocks go together at most."""


class Annealing:
    """Sweeps of annealing from a plan; each returns where it ended, and the best plan met is remembered."""

    def __init__(
        self,
        contraction: Contraction,
        deployment: Deployment,
        device_of_block: dict[int, int],
        seed: int = 0,
        convex_in: DnnGraph | None = None,
        fixed: Collection[int] = (),
    ) -> None:
        """Start from a valid plan of the free family, or of the convex splits of a graph; `fixed` blocks stay."""
        self._contraction, self._deployment = contraction, deployment
        self._order = None if convex_in is None else ForwardOrder.of(convex_in)
        self._is_fixed = np.zeros(contraction.num_blocks, np.bool_)
        self._is_fixed[list(fixed)] = True
        self.problem = flat_problem(contraction, deployment, self._order, self._is_fixed)
        self._rng = np.random.default_rng(seed)
        self._futile = 0
        self._stop = np.zeros(1, np.bool_)
        n = contraction.num_blocks
        start = np.array([device_of_block[b] for b in range(n)], np.int32)
        self._best = float(largest_load(self.problem, start)), start
        self._current = start

    def stop(self) -> None:
        """Make a running sweep, and all later ones, return at once; safe from any thread."""
        self._stop[0] = True

    @property
    def best(self) -> tuple[float, IntArray]:
        """The largest load of the best plan so far in ms, and the device of each block; from any thread."""
        return self._best

    @property
    def value_ms(self) -> float:
        """The largest load of the best plan so far."""
        return self._best[0]

    @property
    def is_exhausted(self) -> bool:
        """Whether so many sweeps found nothing better that the next will hardly either."""
        return self._futile >= min(3 * PATIENCE, 10 + 2 * len(self._current))

    def sweep(self) -> IntArray:
        """Cool down once from the best plan or one near it."""
        before = self.value_ms
        end = self._sweep_one(self._current, 1 << min(self._futile // PATIENCE, 2))
        self._futile = 0 if self.value_ms < before else self._futile + 1
        if self.value_ms < before or self._futile % RETURN == 0:
            self._current = self._best[1]
        elif largest_load(self.problem, end) <= self.value_ms * WANDER:
            self._current = end
        return end

    def sweep_from(self, device: IntArray) -> IntArray:
        """Cool down once from a valid plan that may be far worse."""
        before = self.value_ms
        value = float(largest_load(self.problem, device))
        if value < before:
            self._best = value, device.copy()
        return self._noted(self._sweep_one(device, 1), before)

    def combine(self, first: IntArray, second: IntArray) -> IntArray:
        """Cool down from the first of two valid plans, with clusters that neither divides."""
        before = self.value_ms
        both = first * self._deployment.num_devices + second
        heaviest, hottest = float(self._rng.choice(HEAVIEST_OF_TWO)), float(self._rng.choice(HOTTEST_OF_TWO))
        end = self._sweep(first, both, 0, heaviest, hottest, MOVES_PER_CLUSTER_OF_TWO, MOVES_PER_BLOCK)
        return self._noted(end, before)

    def _noted(self, end: IntArray, before_ms: float) -> IntArray:
        """Return where a sweep from elsewhere ended; sweeps begin anew where it found a better plan."""
        if self.value_ms < before_ms:
            self._current, self._futile = self._best[1], 0
        return end

    def _sweep_one(self, device: IntArray, patience: int) -> IntArray:
        """Cool down from a plan, with clusters on its devices at first."""
        rng = self._rng
        num_clusters = int(rng.choice(SHARES_OF_BLOCKS) * len(device))
        heaviest, hottest = float(rng.choice(HEAVIEST)), float(rng.choice(HOTTEST))
        moves_per_cluster, moves_per_block = patience * MOVES_PER_CLUSTER, patience * MOVES_PER_BLOCK
        return self._sweep(device, device, num_clusters, heaviest, hottest, moves_per_cluster, moves_per_block)

    def _sweep(
        self,
        current: IntArray,
        part: IntArray,
        num_clusters: int,
        heaviest: float,
        hottest: float,
        moves_per_cluster: int,
        moves_per_block: int,
    ) -> IntArray:
        """Cool down from a plan with clusters of blocks in the same part; go on without them from a good plan.

        Returns where that ended.
        """
        before_ms = self.value_ms
        num_clusters = max(2 * self._deployment.num_devices, num_clusters)
        groups = clusters(self._contraction, part, num_clusters, heaviest * self.value_ms, self._rng)
        coarse, cluster_of = merged(self._contraction, groups, self._deployment.communication)
        cluster = np.array(cluster_of)
        device = np.zeros(coarse.num_blocks, np.int32)
        device[cluster] = current
        is_fixed = np.zeros(coarse.num_blocks, np.bool_)
        is_fixed[cluster[self._is_fixed]] = True
        problem = flat_problem(coarse, self._deployment, self._order, is_fixed)
        self._cool(problem, device, cluster, moves_per_cluster * coarse.num_blocks, hottest)
        end: IntArray = device[cluster]
        if self.value_ms < before_ms:
            end = self._best[1].copy()
        elif largest_load(self.problem, end) > WORTH_REFINING * self.value_ms:
            return end
        hottest = float(self._rng.choice(HOTTEST_FINE))
        self._cool(self.problem, end, np.arange(len(end), dtype=np.int32), moves_per_block * len(end), hottest)
        return end

    def _cool(self, problem: FlatProblem, device: IntArray, cluster: IntArray, moves: int, hottest: float) -> None:
        """Cool down `device`, in place, and remember a better plan met on the way, by the cluster of each block."""
        squarings = int(self._rng.choice(SQUARINGS))
        known_ms, moves = self.value_ms, min(moves, MOST_MOVES)
        best, value = _anneal(problem, device, known_ms, moves, squarings, hottest, self._rng, self._stop)
        if value < known_ms * (1 - 1e-12):
            self._best = float(value), np.asarray(best)[cluster]


@njit(cache=True, nogil=True)
def _energy(load, scale, squarings):
    """(load / scale) to the power of 2^squarings."""
    energy = min(load / scale, MOST_OVERFULL)
    for _ in range(squarings):
        energy *= energy
    return energy


@njit(cache=True, nogil=True)
def _move_together(
    problem, device, counts, memory, sets, parts, loads, energies, blocks, s, t, scale, squarings, temperature, rng
):  # fmt: skip
    """Move blocks from device s to t if they fit, the sets of both stay convex, and luck has it; say whether it did.

    The loop of moves does the same for one block: what it calls for most moves has to be small enough to be inlined.
    """
    if memory[t] + problem.memory_bytes[blocks].sum() > problem.memory_limit[t]:
        return False
    parts_s, parts_t = (parts[s, 0], parts[s, 1], parts[s, 2]), (parts[t, 0], parts[t, 1], parts[t, 2])
    for b in blocks:
        parts_s = after_step(problem, device, counts, b, s, -1, parts_s)
        parts_t = after_step(problem, device, counts, b, t, 1, parts_t)
        place(problem, device, counts, memory, b, t)
    new_s = combined(problem.mode, parts_s[0], parts_s[1], parts_s[2], problem.link_factor[s])
    new_t = combined(problem.mode, parts_t[0], parts_t[1], parts_t[2], problem.link_factor[t])
    energy_s, energy_t = _energy(new_s, scale, squarings), _energy(new_t, scale, squarings)
    change = energy_s + energy_t - energies[s] - energies[t]
    accepted = change <= 0 or (change < NEVER * temperature and rng.random() < np.exp(-change / temperature))
    if not (accepted and is_convex(problem, device, s) and is_convex(problem, device, t)):
        for b in blocks:
            place(problem, device, counts, memory, b, s)
        return False
    for b in blocks:
        leave(problem, sets, b, s)
        enter(problem, sets, b, t)
    parts[s, 0], parts[s, 1], parts[s, 2] = parts_s
    parts[t, 0], parts[t, 1], parts[t, 2] = parts_t
    loads[s], loads[t] = new_s, new_t
    energies[s], energies[t] = energy_s, energy_t
    return True


@njit(cache=True, nogil=True)
def _anneal(problem, device, value, moves, squarings, hottest, rng, stop):
    """Cool down from `device`, in place; return the best plan seen and its largest load."""
    n, num_devices, mode = device.size, problem.num_devices, problem.mode
    counts = count_ends(problem, device)
    parts = np.zeros((num_devices, 3))
    fill_parts(problem, device, counts, parts)
    loads = np.zeros(num_devices)
    for d in range(num_devices):
        loads[d] = combined(mode, parts[d, 0], parts[d, 1], parts[d, 2], problem.link_factor[d])
    memory = np.zeros(num_devices)
    for b in range(n):
        memory[device[b]] += problem.memory_bytes[b]
    must_be_convex = problem.after.shape[1] > 0
    sets = device_sets(problem, device)
    own, nodes = problem.block_nodes, sets.nodes
    before, after = problem.block_before, problem.block_after
    has_one_node = problem.node_ptr[1:] - problem.node_ptr[:-1] == 1
    together = np.zeros(MOST_TOGETHER, np.int32)
    best = device.copy()
    best_value = value
    scale = value if value > 0 else 1.0
    energies = np.array([_energy(load, scale, squarings) for load in loads])
    cooling = (COLDEST / hottest) ** (1.0 / moves)
    temperature = hottest
    for move in range(moves):
        temperature *= cooling
        if move & 1023 == 1023 and stop[0]:
            break
        if move & 65535 == 65535:
            fill_parts(problem, device, counts, parts)  # undo the drift of many small changes
            for d in range(num_devices):
                loads[d] = combined(mode, parts[d, 0], parts[d, 1], parts[d, 2], problem.link_factor[d])
        b = int(rng.random() * n)
        s = device[b]
        other = -1
        begin, end = problem.neighbour_ptr[b], problem.neighbour_ptr[b + 1]
        if rng.random() < SWAP_SHARE:
            other = int(rng.random() * n)
            t = device[other]
        elif end > begin and rng.random() < NEIGHBOUR_SHARE:
            t = device[problem.neighbour_idx[begin + int(rng.random() * (end - begin))]]
        else:
            t = int(rng.random() * num_devices)
        if t == s or problem.is_fixed[b] or (other >= 0 and problem.is_fixed[other]):
            continue
        if np.isinf(problem.time_ms[problem.class_of[t], b]):
            continue
        if other >= 0 and np.isinf(problem.time_ms[problem.class_of[s], other]):
            continue
        gain = problem.memory_bytes[b] - (problem.memory_bytes[other] if other >= 0 else 0.0)
        if gain > 0 and memory[t] + gain > problem.memory_limit[t]:
            continue
        if gain < 0 and memory[s] - gain > problem.memory_limit[s]:
            continue
        stays = must_be_convex and is_between(before, after, own, nodes, b, b, s)
        if stays and (has_one_node[b] or not may_leave(problem, sets, b, s)):
            if other >= 0 or rng.random() >= TOGETHER_SHARE:
                continue
            count = with_what_follows(problem, sets, device, b, s, t, together)
            blocks = together[:count]
            if count == 0 or not _move_together(
                problem, device, counts, memory, sets, parts, loads, energies, blocks, s, t,
                scale, squarings, temperature, rng,
            ):  # fmt: skip
                continue
        else:
            stays = must_be_convex and other >= 0 and is_between(before, after, own, nodes, other, other, t)
            if stays and (has_one_node[other] or not may_leave(problem, sets, other, t)):
                continue
            parts_s = after_step(problem, device, counts, b, s, -1, (parts[s, 0], parts[s, 1], parts[s, 2]))
            parts_t = after_step(problem, device, counts, b, t, 1, (parts[t, 0], parts[t, 1], parts[t, 2]))
            if other >= 0:
                place(problem, device, counts, memory, b, t)
                parts_t = after_step(problem, device, counts, other, t, -1, parts_t)
                parts_s = after_step(problem, device, counts, other, s, 1, parts_s)
            new_s = combined(mode, parts_s[0], parts_s[1], parts_s[2], problem.link_factor[s])
            new_t = combined(mode, parts_t[0], parts_t[1], parts_t[2], problem.link_factor[t])
            energy_s, energy_t = _energy(new_s, scale, squarings), _energy(new_t, scale, squarings)
            change = energy_s + energy_t - energies[s] - energies[t]
            accepted = change <= 0 or (change < NEVER * temperature and rng.random() < np.exp(-change / temperature))
            if other >= 0:
                if accepted:
                    place(problem, device, counts, memory, other, s)
                    accepted = not must_be_convex or (is_convex(problem, device, s) and is_convex(problem, device, t))
                    if not accepted:
                        place(problem, device, counts, memory, other, t)
                if not accepted:
                    place(problem, device, counts, memory, b, s)
            elif accepted:
                accepted = not must_be_convex or may_join(problem, sets, device, b, t)
                if accepted:
                    place(problem, device, counts, memory, b, t)
            if not accepted:
                continue
            if must_be_convex:
                leave(problem, sets, b, s)
                enter(problem, sets, b, t)
                if other >= 0:
                    leave(problem, sets, other, t)
                    enter(problem, sets, other, s)
            parts[s, 0], parts[s, 1], parts[s, 2] = parts_s
            parts[t, 0], parts[t, 1], parts[t, 2] = parts_t
            loads[s], loads[t] = new_s, new_t
            energies[s], energies[t] = energy_s, energy_t
        if max(loads[s], loads[t]) < best_value and loads.max() < best_value:
            fresh = largest_load(problem, device)
            if fresh < best_value:
                best_value = fresh
                best[:] = device
    return best, best_value
