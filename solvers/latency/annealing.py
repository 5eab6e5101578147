"""Latency plans without proof, by annealing from plans that are known.

A plan is a slot for each block (nodes that must stay together): accelerator d runs the blocks of slots qd .. qd + q - 1
one slot after the other, and slot kq is the pool of CPUs. Annealing moves a block, a run of blocks that are neighbours
in topological order, or a branch of blocks after one another, to another slot, and judges the plan anew in time
O(nodes + edges): loads, then the finish times of the tasks (slots and CPU nodes) in the order in which their inputs
arrive. A plan whose tasks wait for each other is refused; one that exceeds memory is allowed on the way, at a price,
for full accelerators could not exchange blocks otherwise. Times, links and memory are those of the kind of each slot's
accelerator.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import Contraction

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

DIFFERENT_STARTS = 3
"""So many runs start from different plans, the best first; later ones from the best plan known."""
STEPS_PER_BLOCK = 1000
"""Annealing steps of the first run, for each block."""
LONGEST_RUN = 3
"""Each run takes twice the steps of the one before it, up to this many doublings."""
RUNS_WITHOUT_GAIN = 8
"""The search ends after this many runs in a row that find nothing better."""
FIRST_TEMPERATURES = (0.03, 0.1, 0.01, 0.3)
LAST_TEMPERATURE = 1e-5
"""Temperatures of the runs in turn, as a share of the best latency: graphs differ in which one they need."""
WORK_PER_ROUND = 60_000_000
"""Nodes, edges and pins visited between two looks at the clock: about 0.1 s."""
ROUNDS_PER_RUN = 40
"""No run is longer than this many rounds, or large graphs would never cool down in time."""


def latency_search(
    graph: DnnGraph,
    deployment: Deployment,
    contraction: Contraction,
    starts: Iterable[Split],
    others: Callable[[], Sequence[Split]] = tuple,
) -> Iterator[Split | None]:
    """Yield after each round of annealing (about 0.1 s): a better split, or None; ends when it stops finding any.

    `contraction` is that of the free family with idle blocks kept apart. Every start must be complete. `others` tells
    plans found elsewhere since it was asked last, which may hold too much: the best of them is the start of a run.
    """
    arrays = _Arrays(graph, deployment, contraction)
    rng = np.random.default_rng(0)
    plans = [plan for plan in (_plan_energy(arrays, start) for start in starts) if plan[0] < math.inf]
    if not plans:
        return
    plans.sort(key=lambda plan: plan[0])
    steps_per_round = max(20, WORK_PER_ROUND // arrays.size)
    best = np.array([np.inf])
    best_device = plans[0][1].copy()
    scale = plans[0][0] if plans[0][0] > 0 else 1.0
    run = without_gain = 0
    while without_gain < RUNS_WITHOUT_GAIN:
        value_before = float(best[0])
        device = (plans[run][1] if run < min(DIFFERENT_STARTS, len(plans)) else best_device).copy()
        first = FIRST_TEMPERATURES[run % len(FIRST_TEMPERATURES)]
        if first == min(FIRST_TEMPERATURES):  # hotter runs would lose a plan found elsewhere
            found = min((_plan_energy(arrays, split) for split in others()), key=lambda plan: plan[0], default=None)
            if found is not None and found[0] < math.inf:
                device = found[1]
        total = STEPS_PER_BLOCK * contraction.num_blocks << min(run, LONGEST_RUN)
        rounds = max(1, min(ROUNDS_PER_RUN, total // steps_per_round))
        steps = min(steps_per_round, total)
        cooling = (LAST_TEMPERATURE / first) ** (1 / rounds)
        for i in range(rounds):
            round_before = float(best[0])
            hot = first * scale * cooling**i
            _anneal(arrays.fields, rng, device, best, best_device, steps, hot, hot * cooling, 2 * scale)
            if best[0] < round_before:
                scale = float(best[0]) if best[0] > 0 else 1.0
                yield arrays.split(best_device)
            else:
                yield None
        run += 1
        without_gain = without_gain + 1 if best[0] >= value_before * (1 - 1e-9) else 0


class _Arrays:
    """A graph as the kernels see it; `fields` is what they take, `size` the work of judging one plan."""

    def __init__(self, graph: DnnGraph, deployment: Deployment, contraction: Contraction) -> None:
        self.contraction, self.deployment = contraction, deployment
        block_of_node = {v: b for b, members in enumerate(contraction.members) for v in members}
        row = {node.id: i for i, node in enumerate(graph.nodes)}
        readers = [[row[v] for v in graph.readers[node.id]] for node in graph.nodes]
        kinds = accelerator_kinds(graph, deployment)
        kind_of = np.zeros(deployment.num_accelerators, np.int32)
        share, accelerator_ms = (np.zeros((max(1, len(kinds)), contraction.num_blocks)) for _ in range(2))
        for g, kind in enumerate(kinds):
            kind_of[list(kind.devices)] = g
            accelerator_ms[g] = kind.block_ms(contraction)
            if kind.memory_bytes is not None:
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    share[g] = np.nan_to_num(contraction.memory_bytes / kind.memory_bytes, nan=0.0, posinf=math.inf)
        may_accelerate = np.isfinite(accelerator_ms) & (share <= 1 + 1e-9)
        pins = [list(e.blocks) for e in contraction.hyperedges]
        self.fields: tuple[Any, ...] = (
            deployment.num_accelerators * deployment.max_subgraphs,
            deployment.max_subgraphs,
            deployment.num_cpus > 0,
            np.array([block_of_node[node.id] for node in graph.nodes], np.int32),
            np.repeat(kind_of, deployment.max_subgraphs),
            np.array([1.0 / kind.link_speed for kind in kinds] or [1.0]),
            np.where(np.isfinite(accelerator_ms), accelerator_ms, 0.0),
            np.array([node.cpu_ms for node in graph.nodes]),
            np.where(np.isfinite(share), share, 0.0),
            may_accelerate,
            _offsets(readers),
            _flat(readers),
            _offsets(pins),
            _flat(pins),
            np.array([e.weight_ms for e in contraction.hyperedges], np.float64),
        )
        self.size = len(graph.nodes) + len(graph.edges) + sum(map(len, pins))

    def split(self, device: IntArray) -> Split:
        """Return the plan as a split; CPU nodes share the first CPU."""
        deployment = self.deployment
        q, num_slots = deployment.max_subgraphs, deployment.num_accelerators * deployment.max_subgraphs
        members: list[set[int]] = [set() for _ in range(num_slots + max(1, deployment.num_cpus))]
        for b, slot in enumerate(device):
            members[slot].update(self.contraction.members[b])
        sets = tuple(map(frozenset, members))
        return Split.from_subgraphs(
            tuple(sets[i : i + q] for i in range(0, num_slots, q)), sets[num_slots:] if deployment.num_cpus else ()
        )


def _plan_energy(arrays: _Arrays, start: Split) -> tuple[float, IntArray]:
    """Return what annealing minimises, and the device of each block; infinite where devices wait in a circle."""
    q = arrays.deployment.max_subgraphs
    cpus = arrays.deployment.num_accelerators * q
    slot_of = {v: cpus for members in arrays.contraction.members for v in members}
    for d in range(len(start.accelerators)):
        for i, members in enumerate(start.subgraphs_of(d)):
            slot_of.update(dict.fromkeys(members, d * q + i))
    # A class spread over subgraphs of one accelerator is gathered in one of them.
    device = np.array([slot_of[members[0]] for members in arrays.contraction.members], np.int32)
    latency, excess = _judge_once(arrays.fields, device)
    return (math.inf if latency < 0 else latency * (1 + 2 * excess)), device


def _offsets(lists: list[list[int]]) -> IntArray:
    return np.concatenate([[0], np.cumsum([len(items) for items in lists])]).astype(np.int32)


def _flat(lists: list[list[int]]) -> IntArray:
    return np.array([i for items in lists for i in items], np.int32)


@njit(cache=True, nogil=True)
def _judge(
    fields: Any, device: IntArray, task: IntArray, pending: IntArray, queue: IntArray, start: FloatArray,
    load: FloatArray, used: FloatArray, mark: IntArray, first: IntArray, following: IntArray,
) -> tuple[float, float]:  # fmt: skip
    """Return latency and memory in excess, in accelerators; latency -1 if tasks wait for each other in a circle.

    Here k counts slots, q to an accelerator.
    """
    (
        k, q, _, block_of, kind_of, link_factor, accelerator_ms, cpu_ms, share, _, reader_start, readers, pin_start,
        pins, weight,
    ) = fields  # fmt: skip
    n = block_of.size
    load[:] = 0.0
    used[:] = 0.0
    mark[:] = -1
    first[:] = -1
    pending[:] = 0
    start[:] = 0.0
    for b in range(device.size):
        d = device[b]
        if d < k:
            load[d] += accelerator_ms[kind_of[d], b]
            used[d // q] += share[kind_of[d], b]
    for e in range(weight.size):
        home = device[pins[pin_start[e]]]
        is_cut = False
        for i in range(pin_start[e] + 1, pin_start[e + 1]):
            if device[pins[i]] != home:
                is_cut = True
                break
        if is_cut:
            for i in range(pin_start[e], pin_start[e + 1]):
                d = device[pins[i]]
                if d < k and mark[d] != e:
                    mark[d] = e
                    load[d] += link_factor[kind_of[d]] * weight[e]
    # Tasks: slots 0 .. k-1, then CPU nodes at k + v. `first` and `following` list a slot's nodes.
    for v in range(n):
        d = device[block_of[v]]
        if d < k:
            task[v] = d
            following[v] = first[d]
            first[d] = v
        else:
            task[v] = k + v
    for u in range(n):
        for i in range(reader_start[u], reader_start[u + 1]):
            if task[readers[i]] != task[u]:
                pending[task[readers[i]]] += 1
    num_ready = 0
    for d in range(k):
        if d % q:
            pending[d] += 1  # waits for the slot before it
        if pending[d] == 0:
            queue[num_ready] = d
            num_ready += 1
    for v in range(n):
        if task[v] >= k and pending[task[v]] == 0:
            queue[num_ready] = task[v]
            num_ready += 1
    latency = 0.0
    done = 0
    position = 0
    while position < num_ready:
        t = queue[position]
        position += 1
        finish = start[t] + (load[t] if t < k else cpu_ms[t - k])
        latency = max(latency, finish)
        if t < k and (t + 1) % q:
            start[t + 1] = max(start[t + 1], finish)
            pending[t + 1] -= 1
            if pending[t + 1] == 0:
                queue[num_ready] = t + 1
                num_ready += 1
        v = first[t] if t < k else t - k
        while v >= 0:
            done += 1
            for i in range(reader_start[v], reader_start[v + 1]):
                r = task[readers[i]]
                if r != t:
                    start[r] = max(start[r], finish)
                    pending[r] -= 1
                    if pending[r] == 0:
                        queue[num_ready] = r
                        num_ready += 1
            v = following[v] if t < k else -1
    if done < n:
        return -1.0, 0.0
    excess = 0.0
    for d in range(k):
        if used[d] > 1 + 1e-9:
            excess += used[d] - 1
    return latency, excess


@njit(cache=True, nogil=True)
def _judge_once(fields: Any, device: IntArray) -> tuple[float, float]:
    """Judge one plan."""
    k, n = fields[0], fields[3].size
    ints, floats = np.int32, np.float64
    return _judge(
        fields, device, np.empty(n, ints), np.empty(k + n, ints), np.empty(k + n, ints), np.empty(k + n, floats),
        np.empty(k, floats), np.empty(k, floats), np.empty(k, ints), np.empty(k, ints), np.empty(n, ints),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _anneal(
    fields: Any, rng: np.random.Generator, device: IntArray, best: FloatArray, best_device: IntArray,
    steps: int, hot: float, cold: float, price: float,
) -> None:  # fmt: skip
    """Anneal `device` in place while the temperature falls from `hot` to `cold`; keep the best plan that fits.

    `price` is what memory in excess costs, in ms for one accelerator's worth.
    """
    k, _, has_cpu, block_of, kind_of, _, _, _, _, may_accelerate, reader_start, readers, _, _, _ = fields
    n, num_blocks = block_of.size, device.size
    task, following = np.empty(n, np.int32), np.empty(n, np.int32)
    pending, queue, start = np.empty(k + n, np.int32), np.empty(k + n, np.int32), np.empty(k + n, np.float64)
    load, used = np.empty(k, np.float64), np.empty(k, np.float64)
    mark, first = np.empty(k, np.int32), np.empty(k, np.int32)
    num_devices = k + 1 if has_cpu else k
    # The blocks of a move, where they were and where they go.
    moved, source, goal = np.empty(num_blocks, np.int32), np.empty(num_blocks, np.int32), np.empty(num_blocks, np.int32)
    latency, excess = _judge(fields, device, task, pending, queue, start, load, used, mark, first, following)
    energy = latency + price * excess
    if excess == 0.0 and latency < best[0]:
        best[0] = latency
        best_device[:] = device
    for step in range(steps):
        kind = rng.random()
        low = int(rng.random() * num_blocks)
        high = low + 1
        target = int(rng.random() * num_devices)
        num_moved = 0
        if kind < 0.1:
            # Two blocks change places.
            other = int(rng.random() * num_blocks)
            here, there = device[low], device[other]
            if (here < k and not may_accelerate[kind_of[here], other]) or (
                there < k and not may_accelerate[kind_of[there], low]
            ):
                continue
            if here != there:
                moved[0], source[0], goal[0] = low, here, there
                moved[1], source[1], goal[1] = other, there, here
                num_moved = 2
        else:
            if kind < 0.6:
                # A block joins the writer or a reader of its tensor.
                u = int(rng.random() * n)
                degree = reader_start[u + 1] - reader_start[u]
                if degree > 0:
                    a, b = block_of[u], block_of[readers[reader_start[u] + int(rng.random() * degree)]]
                    if rng.random() < 0.5:
                        a, b = b, a
                    low, high, target = a, a + 1, device[b]
            elif kind < 0.8:
                # A run of blocks joins the device beside it, or any other.
                high = min(num_blocks, low + 1 + int(num_blocks * 0.25 * rng.random() ** 3))
                if rng.random() < 0.7:
                    beside = low - 1 if rng.random() < 0.5 else high
                    if 0 <= beside < num_blocks:
                        target = device[beside]
            elif kind < 0.9:
                # A branch: blocks after one another on one device go to another, from a random one up to a few on.
                u = int(rng.random() * n)
                here = device[block_of[u]]
                left = 1 + int(num_blocks * 0.1 * rng.random() ** 3)
                low = high = 0
                if here != target:
                    while left > 0:
                        b = block_of[u]
                        if device[b] == here and (target == k or may_accelerate[kind_of[target], b]):
                            device[b] = target
                            moved[num_moved], source[num_moved], goal[num_moved] = b, here, target
                            num_moved += 1
                        left -= 1
                        degree = reader_start[u + 1] - reader_start[u]
                        if degree == 0:
                            break
                        u = readers[reader_start[u] + int(rng.random() * degree)]
                        if device[block_of[u]] != here:
                            break
            for b in range(low, high):
                if device[b] != target and (target == k or may_accelerate[kind_of[target], b]):
                    moved[num_moved], source[num_moved], goal[num_moved] = b, device[b], target
                    num_moved += 1
        if num_moved == 0:
            continue
        for i in range(num_moved):
            device[moved[i]] = goal[i]
        latency, excess = _judge(fields, device, task, pending, queue, start, load, used, mark, first, following)
        new_energy = latency + price * excess
        temperature = hot * (cold / hot) ** (step / steps)
        if latency >= 0 and new_energy <= energy - temperature * np.log(1.0 - rng.random()):
            energy = new_energy
            if excess == 0.0 and latency < best[0]:
                best[0] = latency
                best_device[:] = device
        else:
            for i in range(num_moved):
                device[moved[i]] = source[i]
