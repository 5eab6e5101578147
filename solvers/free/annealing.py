"""Better free and convex splits by simulated annealing: move one block, or swap two, from the best plan known.

A sweep has two halves: it cools down a coarse problem, whose blocks are clusters of blocks (`solvers.free.coarsening`),
and then the blocks themselves from the plan that came of it.

Load is a cut of hyperedges, so moving block b from device s to device t changes the loads of s and t only: with
count[e, d] the number of ends of hyperedge e on device d, every other device sees e cut, and its writer elsewhere,
exactly when it did. A move therefore costs O(hyperedges of b), whether transfers add to the compute, overlap with it,
or run both ways at once. The energy is sum_d (load_d / scale)^power, a smooth stand-in for the largest load that still
rewards relief of every busy device; the best plan is kept by its largest load. Each device has the times of its class,
and its link speed; a CPU is a device whose link takes no time and whose memory has no limit.

A convex split stays one: of a move that would be made, the sets of both devices are checked. With after[v] the bit set
of the forward nodes that v reaches and before[v] of those that reach it, S is convex if and only if

    (union of after[v] over v in S)  and  (union of before[v] over v in S)  have no common member outside S.

Nothing is proven here: bounds come from elsewhere.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.free.coarsening import clusters
from solvers.free.min_cuts import merged
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.problem.contraction import Contraction, FloatArray, IntArray, compressed_rows

BitArray = npt.NDArray[np.uint64]

POWERS = (4.0, 8.0, 16.0)
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
MOVES_PER_CLUSTER, MOVES_PER_BLOCK = 2_000, 3_000
MOST_MOVES = 8_000_000
"""Moves of the two halves of a sweep; twice, then four times as many once PATIENCE sweeps in turn found nothing."""
PATIENCE = 60
WANDER, RETURN = 1.004, 15
"""Sweeps go on from where the last one ended if it is so little worse than the best plan, for so many sweeps."""
NEIGHBOUR_SHARE = 0.7
"""How often a block is offered the device of a neighbour instead of any device."""
SWAP_SHARE = 0.25


MODES = {Communication.SUM: 0, Communication.OVERLAPPED: 1, Communication.FULL_DUPLEX: 2}

MOST_FORWARD_NODES = 4000
"""The bit sets of convex splits grow with the square of the number of forward nodes; above this nothing is tried."""


class AnnealingProblem(NamedTuple):
    """A contraction as flat arrays; `neighbour_*` are rows of blocks that share a hyperedge with each block.

    `writer` is -1 where receiving and sending are not told apart. `node_*` are rows of the forward nodes of each block,
    and `after` and `before` their bit sets, where splits must be convex; empty where they may be free.
    """

    time_ms: FloatArray  # (classes + 1, n): infinite where a block does not run; CPUs last
    class_of: IntArray  # (devices,): the row of its times
    link_factor: FloatArray  # (devices,): by what transfer times are multiplied; 0 for CPUs
    memory_limit: FloatArray  # (devices,)
    memory_bytes: FloatArray
    net_ptr: IntArray
    net_idx: IntArray
    net_weight: FloatArray
    net_size: IntArray
    net_writer: IntArray
    neighbour_ptr: IntArray
    neighbour_idx: IntArray
    num_devices: int
    mode: int
    node_ptr: IntArray
    node_idx: IntArray
    after: BitArray
    before: BitArray
    is_fixed: npt.NDArray[np.bool_]  # blocks that stay where they are


class Annealing:
    """Sweeps of annealing from a plan; each returns whether it found a better one."""

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
        self._problem = _problem(contraction, deployment, self._order, self._is_fixed)
        self._rng = np.random.default_rng(seed)
        self._futile = 0
        self._stop = np.zeros(1, np.bool_)
        n = contraction.num_blocks
        self._best = np.array([device_of_block[b] for b in range(n)], np.int32)
        self.value_ms = float(_largest_load(self._problem, self._best))
        self._current = self._best

    def stop(self) -> None:
        """Make a running sweep, and all later ones, return at once; safe from any thread."""
        self._stop[0] = True

    @property
    def device_of_block(self) -> dict[int, int]:
        """The best plan so far."""
        return {b: int(d) for b, d in enumerate(self._best)}

    @property
    def is_exhausted(self) -> bool:
        """Whether so many sweeps found nothing better that the next will hardly either."""
        return self._futile >= min(3 * PATIENCE, 10 + 2 * len(self._best))

    def sweep(self) -> bool:
        """Cool down once from the best plan or one near it; say whether a better plan was found."""
        rng, n = self._rng, len(self._best)
        share = rng.choice(SHARES_OF_BLOCKS)
        before = self.value_ms
        patience = 1 << min(self._futile // PATIENCE, 2)
        groups = clusters(
            self._contraction,
            self._current,
            max(2 * self._deployment.num_devices, int(share * n)),
            float(rng.choice(HEAVIEST)) * self.value_ms,
            rng,
        )
        coarse, cluster_of = merged(self._contraction, groups, self._deployment.communication)
        cluster = np.array(cluster_of)
        device = np.zeros(coarse.num_blocks, np.int32)
        device[cluster] = self._current
        is_fixed = np.zeros(coarse.num_blocks, np.bool_)
        is_fixed[cluster[self._is_fixed]] = True
        problem = _problem(coarse, self._deployment, self._order, is_fixed)
        moves = patience * MOVES_PER_CLUSTER * coarse.num_blocks
        best = self._cool(problem, device, moves, float(rng.choice(HOTTEST)))
        if best is not None:
            self._best = best[cluster]
        fine = device[cluster]
        best = self._cool(self._problem, fine, patience * MOVES_PER_BLOCK * n, float(rng.choice(HOTTEST_FINE)))
        if best is not None:
            self._best = best
        self._futile = 0 if self.value_ms < before else self._futile + 1
        if self.value_ms < before or self._futile % RETURN == 0:
            self._current = self._best
        elif _largest_load(self._problem, fine) <= self.value_ms * WANDER:
            self._current = fine
        return self.value_ms < before

    def _cool(self, problem: AnnealingProblem, device: IntArray, moves: int, hottest: float) -> IntArray | None:
        """Cool down `device`, in place; return the best plan on the way if it is better than the one known."""
        power = float(self._rng.choice(POWERS))
        seed = int(self._rng.integers(2**31))
        best, value = _anneal(problem, device, self.value_ms, min(moves, MOST_MOVES), power, hottest, seed, self._stop)
        if value >= self.value_ms * (1 - 1e-12):
            return None
        self.value_ms = float(value)
        return np.asarray(best)


class ForwardOrder(NamedTuple):
    """The forward nodes of a graph by number, and per node the bit sets of what it reaches and what reaches it."""

    number: dict[int, int]
    after: BitArray
    before: BitArray

    @staticmethod
    def of(graph: DnnGraph) -> "ForwardOrder":
        """Return the forward order of a graph; a node reaches itself."""
        forward = [v for v in graph.topological_order if not graph.node_by_id[v].is_backward]
        number = {v: i for i, v in enumerate(forward)}
        after = np.zeros((len(forward), (len(forward) + 63) // 64), np.uint64)
        for i in range(len(forward)):
            after[i, i >> 6] = np.uint64(1 << (i & 63))
        before = after.copy()
        edges = [(number[u], number[v]) for u in forward for v in graph.readers[u] if v in number]
        for u, v in reversed(edges):
            after[u] |= after[v]
        for u, v in sorted(edges, key=lambda edge: edge[1]):
            before[v] |= before[u]
        return ForwardOrder(number, after, before)


def _problem(
    contraction: Contraction, deployment: Deployment, order: ForwardOrder | None, is_fixed: np.ndarray
) -> AnnealingProblem:
    n = contraction.num_blocks
    nets: list[list[int]] = [[] for _ in range(n)]
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for e, hyperedge in enumerate(contraction.hyperedges):
        for b in hyperedge.blocks:
            nets[b].append(e)
            neighbours[b].update(hyperedge.blocks)
    net_ptr, net_idx = compressed_rows(nets)
    neighbour_ptr, neighbour_idx = compressed_rows([sorted(others - {b}) for b, others in enumerate(neighbours)])
    if order is None:
        order = ForwardOrder({}, np.zeros((0, 0), np.uint64), np.zeros((0, 0), np.uint64))
    node_ptr, node_idx = compressed_rows(
        [[order.number[v] for v in ids if v in order.number] for ids in contraction.members]
    )
    duplex = deployment.communication is Communication.FULL_DUPLEX
    k, num_cpus = deployment.num_accelerators, deployment.num_cpus
    times = contraction.class_ms if deployment.classes else contraction.accelerator_ms[None, :]
    class_of = [i for i, c in enumerate(deployment.classes) for _ in range(c.count)] if deployment.classes else [0] * k
    return AnnealingProblem(
        time_ms=np.vstack([times, contraction.cpu_ms]),
        class_of=np.array([*class_of, *[len(times)] * num_cpus], np.int32),
        link_factor=np.array([*(1.0 / deployment.link_speed_of(d) for d in range(k)), *[0.0] * num_cpus]),
        memory_limit=np.array([*(deployment.memory_limit_of(d) for d in range(k)), *[np.inf] * num_cpus]),
        memory_bytes=contraction.memory_bytes,
        net_ptr=net_ptr,
        net_idx=net_idx,
        net_weight=np.array([h.weight_ms for h in contraction.hyperedges]),
        net_size=np.array([len(h.blocks) for h in contraction.hyperedges], np.int32),
        net_writer=np.array(
            [h.writer if duplex and h.writer is not None else -1 for h in contraction.hyperedges], np.int32
        ),
        neighbour_ptr=neighbour_ptr,
        neighbour_idx=neighbour_idx,
        num_devices=deployment.num_devices,
        mode=MODES[deployment.communication],
        node_ptr=node_ptr,
        node_idx=node_idx,
        after=order.after,
        before=order.before,
        is_fixed=is_fixed,
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
def _combined(mode, compute, received, sent, factor):
    """Load of a device in ms; unless receiving and sending are told apart, `received` is both.

    Both are at link speed 1 and multiplied by the device's `factor`.
    """
    if mode == 0:
        return compute + factor * received
    if mode == 1:
        return max(compute, factor * received)
    return compute + factor * max(received, sent)


@njit(cache=True, nogil=True)
def _parts(problem, device, counts, parts):
    """Fill parts[d] = compute, received, sent of each device in ms, the latter at link speed 1, computed afresh."""
    parts[:] = 0.0
    for b in range(device.size):
        d = device[b]
        parts[d, 0] += problem.time_ms[problem.class_of[d], b]
    for e in range(problem.net_weight.size):
        writer = problem.net_writer[e]
        for d in range(problem.num_devices):
            if 0 < counts[e, d] < problem.net_size[e]:
                sends = writer >= 0 and device[writer] == d
                parts[d, 2 if sends else 1] += problem.net_weight[e]


@njit(cache=True, nogil=True)
def _largest_load(problem, device):
    """Largest load of a plan in ms."""
    parts = np.zeros((problem.num_devices, 3))
    _parts(problem, device, _counts(problem, device), parts)
    largest = 0.0
    for d in range(problem.num_devices):
        load = _combined(problem.mode, parts[d, 0], parts[d, 1], parts[d, 2], problem.link_factor[d])
        largest = max(largest, load)
    return largest


@njit(cache=True, nogil=True)
def _after(problem, device, counts, b, d, step, parts):
    """Compute, received and sent of device d, from `parts`, once block b has joined (step 1) or left it (-1)."""
    compute, received, sent = parts
    compute += step * problem.time_ms[problem.class_of[d], b]
    if problem.link_factor[d] == 0.0:
        return compute, 0.0, 0.0
    for i in range(problem.net_ptr[b], problem.net_ptr[b + 1]):
        e = problem.net_idx[i]
        count, size, weight = counts[e, d], problem.net_size[e], problem.net_weight[e]
        writer = problem.net_writer[e]
        if writer < 0:
            if 0 < count < size:
                received -= weight
            if 0 < count + step < size:
                received += weight
            continue
        sent_before = writer >= 0 and device[writer] == d
        sends_after = step == 1 if writer == b else sent_before
        if 0 < count < size:
            if sent_before:
                sent -= weight
            else:
                received -= weight
        if 0 < count + step < size:
            if sends_after:
                sent += weight
            else:
                received += weight
    return compute, received, sent


@njit(cache=True, nogil=True)
def _is_convex(problem, device, d, first, second, third):
    """Whether the forward nodes on device d are a convex set; the last three are working space."""
    words = problem.after.shape[1]
    if words == 0:
        return True
    first[:] = 0
    second[:] = 0
    third[:] = 0
    for b in range(device.size):
        if device[b] != d:
            continue
        for i in range(problem.node_ptr[b], problem.node_ptr[b + 1]):
            v = problem.node_idx[i]
            first[v >> 6] |= np.uint64(1) << np.uint64(v & 63)
            for w in range(words):
                second[w] |= problem.after[v, w]
                third[w] |= problem.before[v, w]
    for w in range(words):  # noqa: SIM110 -- numba compiles no generators
        if second[w] & third[w] & ~first[w]:
            return False
    return True


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
def _anneal(problem, device, value, moves, power, hottest, seed, stop):
    """Cool down from `device`, in place; return the best plan seen and its largest load."""
    np.random.seed(seed)
    n, num_devices, mode = device.size, problem.num_devices, problem.mode
    counts = _counts(problem, device)
    parts = np.zeros((num_devices, 3))
    _parts(problem, device, counts, parts)
    loads = np.zeros(num_devices)
    for d in range(num_devices):
        loads[d] = _combined(mode, parts[d, 0], parts[d, 1], parts[d, 2], problem.link_factor[d])
    memory = np.zeros(num_devices)
    for b in range(n):
        memory[device[b]] += problem.memory_bytes[b]
    words = problem.after.shape[1]
    first, second, third = np.zeros(words, np.uint64), np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    best = device.copy()
    best_value = value
    scale = value if value > 0 else 1.0
    cooling = (COLDEST / hottest) ** (1.0 / moves)
    temperature = hottest
    for move in range(moves):
        temperature *= cooling
        if move & 1023 == 1023 and stop[0]:
            break
        if move & 65535 == 65535:
            _parts(problem, device, counts, parts)  # undo the drift of many small changes
            for d in range(num_devices):
                loads[d] = _combined(mode, parts[d, 0], parts[d, 1], parts[d, 2], problem.link_factor[d])
        b = np.random.randint(n)
        s = device[b]
        other = -1
        begin, end = problem.neighbour_ptr[b], problem.neighbour_ptr[b + 1]
        if end > begin and np.random.random() < NEIGHBOUR_SHARE:
            t = device[problem.neighbour_idx[begin + np.random.randint(end - begin)]]
        else:
            t = np.random.randint(num_devices)
        if np.random.random() < SWAP_SHARE:
            other = np.random.randint(n)
            t = device[other]
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
        parts_s = _after(problem, device, counts, b, s, -1, (parts[s, 0], parts[s, 1], parts[s, 2]))
        parts_t = _after(problem, device, counts, b, t, 1, (parts[t, 0], parts[t, 1], parts[t, 2]))
        if other >= 0:
            _place(problem, device, counts, memory, b, t)
            parts_t = _after(problem, device, counts, other, t, -1, parts_t)
            parts_s = _after(problem, device, counts, other, s, 1, parts_s)
        new_s = _combined(mode, parts_s[0], parts_s[1], parts_s[2], problem.link_factor[s])
        new_t = _combined(mode, parts_t[0], parts_t[1], parts_t[2], problem.link_factor[t])
        change = (
            (new_s / scale) ** power
            + (new_t / scale) ** power
            - (loads[s] / scale) ** power
            - (loads[t] / scale) ** power
        )
        accepted = change <= 0 or np.random.random() < np.exp(-change / temperature)
        if accepted:
            if other >= 0:
                _place(problem, device, counts, memory, other, s)
            else:
                _place(problem, device, counts, memory, b, t)
            if words > 0 and not (
                _is_convex(problem, device, t, first, second, third)
                and _is_convex(problem, device, s, first, second, third)
            ):
                accepted = False
                if other >= 0:
                    _place(problem, device, counts, memory, other, t)
                _place(problem, device, counts, memory, b, s)
        elif other >= 0:
            _place(problem, device, counts, memory, b, s)
        if not accepted:
            continue
        parts[s, 0], parts[s, 1], parts[s, 2] = parts_s
        parts[t, 0], parts[t, 1], parts[t, 2] = parts_t
        loads[s], loads[t] = new_s, new_t
        if max(new_s, new_t) < best_value and loads.max() < best_value:
            fresh = _largest_load(problem, device)
            if fresh < best_value:
                best_value = fresh
                best[:] = device
    return best, best_value
