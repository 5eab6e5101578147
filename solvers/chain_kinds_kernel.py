r"""Compiled core of the chain solver in the plain model where accelerators are of several kinds.

The search, its labels and what ends them are those of `solvers.chain_kernel`. What several kinds change:

* A state s says how many devices of each kind, and how many CPUs, are in use. The labels of an ideal are a list for
  each kind of the device that the stage runs on, CPUs last. A label's cost is in the time of its kind: a block takes
  t_gb on kind g, and a tensor w x link factor_g. Labels of different kinds are not compared; those of one kind are as
  before, with "no more devices" asked of every kind.
* Work. Kinds may be good at different blocks, so the work w_b of a block is any number >= 0 (`solvers.
  chain_kinds_search` chooses it), and kind g does at most rate_g = max_b w_b / t_gb of it in a ms. A state leaves room
  for sum_g left_g rate_g T, and the CPUs' fractional knapsack: no more work can be done on the devices left. A label
  with r ms left on its own device adds at most rate_g r.
* Transfers ahead. Each tensor that crosses the border of an ideal is paid by a later stage, if no CPU is left on an
  accelerator of some kind g that is left, and takes w x link factor_g of its time; that is rate_g x link factor_g x w
  less work. The least such product over the kinds left counts.
* Memory, too, is that of the kind; the blocks outside must fit into what is left of all kinds together.

Several kernels and not one: it would take one kind alone 1.2 to 2.5 times as long.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.chain_kernel import (
    COMPLETE,
    COUNT,
    EQUAL,
    FINISHED,
    FIRST_WORD,
    FULL,
    LABEL_COUNT,
    LABEL_LOOKS,
    LAST_WORD,
    LOOK_AT,
    LOOK_EVERY,
    MOST_STEPS,
    NEED_CHAINS,
    NEED_IDEALS,
    NEED_LABELS,
    NEED_ROWS,
    NUM_CHAINS,
    NUM_IDEALS,
    PAUSED,
    RELATIVE_SLACK,
    ROW,
    SIDE,
    SIZE,
    STEPS,
    STOPPED,
    ChainProblem,
    _leave_out,
    _lowest_bit,
    _next_size,
    _row_with,
    _weight_of,
)
from solvers.contraction import FloatArray, IntArray


class KindsProblem(NamedTuple):
    """A chain problem, and what is different for each kind of device; the last row of a kind is the CPUs'.

    Of `chain` the kernel takes all that does not depend on the kind, `work` in the units described above.
    """

    chain: ChainProblem
    time_ms: FloatArray  # (kinds + 1, n): infinite for a block that does not run there
    link_factor: FloatArray  # (kinds + 1,): by what transfer times are multiplied; 0 for CPUs
    memory_limit: FloatArray  # (kinds + 1,)
    available: IntArray  # (kinds + 1,): devices there are
    used: IntArray  # (states, kinds + 1): devices in use in each state
    stride: IntArray  # (kinds + 1,): by how much the number of a state rises with a device of each kind
    code: np.ndarray  # uint64 (states,): `used` in bit fields with a 0 between them
    guards: np.ndarray  # uint64 (1,): those zeros as ones


class KindsLimits(NamedTuple):
    """What one search looks for: chains of max-load <= `limit`, a threshold widened by RELATIVE_SLACK."""

    limit: float
    floor: float  # loads up to this count as this
    net_weight: FloatArray
    room: FloatArray  # (states,): work that the devices left over can do within the limit
    slope: FloatArray  # (states, kinds + 1): by how much a further ms on a device of a kind adds to that, at most
    transfer_work: FloatArray  # (states,): work that a ms of transfers displaces at least; 0 while a CPU is left
    rest_memory: FloatArray  # (states,): what the accelerators left over hold; infinite while a CPU is left
    work_slack: float
    cpu_only_slack: float
    memory_slack: float


@njit(cache=True, nogil=True)
def _uses_no_more(problem, s, t):
    """Whether state s has no more devices of any kind in use than state t."""
    return ((problem.code[t] | problem.guards[0]) - problem.code[s]) & problem.guards[0] == problem.guards[0]


@njit(cache=True, nogil=True)
def _dominates(problem, limits, labels, borders, side, row, a, b, slack, link_factor):
    """Whether every continuation of label b is as good for a; both run on the same kind in the ideal in `row`."""
    saving = labels.cost[side, b] - labels.cost[side, a] + slack
    if (
        saving < 0.0
        or labels.value[side, a] > labels.value[side, b]
        or labels.passed[side, a] > labels.passed[side, b]
        or labels.memory[side, a] > labels.memory[side, b]
        or not _uses_no_more(problem, labels.state[side, a], labels.state[side, b])
    ):
        return False
    for w in range(labels.unread.shape[2]):
        differs = (labels.unread[side, a, w] ^ labels.unread[side, b, w]) | (
            labels.read[side, a, w] ^ labels.read[side, b, w]
        )
        differs &= ~labels.read[side, a, w]
        if differs != np.uint64(0):
            saving -= link_factor * _weight_of(differs, w, borders.net_at, side, row, limits.net_weight)
            if saving < 0.0:
                return False
    return True


@njit(cache=True, nogil=True)
def _insert(problem, limits, labels, borders, counters, side, row, g, new):
    """Add label `new`, already written behind the last one, to an ideal unless dominated; drop what it dominates."""
    link_factor = problem.link_factor[g]
    previous = -1
    other = borders.first[side, row, g]
    looks = 0
    while other != -1 and looks < LABEL_LOOKS:
        looks += 1
        following = labels.next[side, other]
        if labels.kind[side, other] == labels.kind[side, new]:
            if _dominates(problem, limits, labels, borders, side, row, other, new, EQUAL * limits.limit, link_factor):
                return
            if _dominates(problem, limits, labels, borders, side, row, new, other, 0.0, link_factor):
                if previous == -1:
                    borders.first[side, row, g] = following
                else:
                    labels.next[side, previous] = following
                other = following
                continue
        previous = other
        other = following
    labels.next[side, new] = borders.first[side, row, g]
    borders.first[side, row, g] = new
    counters[LABEL_COUNT + side] += 1


@njit(cache=True, nogil=True)
def _end_stages(problem, limits, borders, labels, counters, i, best, best_origin):
    """Find the best chain that ends in ideal i for each state: its largest load, and the chain before its last stage.

    Returns the number of labels there.
    """
    n = problem.chain.work.size
    cpus = problem.available.size - 1
    side, size = counters[SIDE], counters[SIZE]
    best[:] = np.inf
    if size == 0:
        best[0] = limits.floor
        best_origin[0] = -1
    num_labels = 0
    for g in range(cpus + 1):
        a = borders.first[side, i, g]
        while a != -1:
            num_labels += 1
            s = labels.state[side, a]
            load = labels.cost[side, a]
            if g < cpus:
                transfers = borders.crossing[side, i]
                for w in range(labels.unread.shape[2]):
                    outside = labels.unread[side, a, w] | labels.read[side, a, w]
                    if outside != np.uint64(0):
                        transfers -= _weight_of(outside, w, borders.net_at, side, i, limits.net_weight)
                load += problem.link_factor[g] * transfers
            value = max(labels.value[side, a], load)
            if load <= limits.limit and value < best[s]:
                fits = True
                if size < n:
                    needed = borders.work[side, i] + limits.transfer_work[s] * borders.crossing[side, i]
                    cpus_left = problem.available[cpus] - problem.used[s, cpus]
                    fits = (
                        needed <= limits.room[s] + RELATIVE_SLACK * needed + limits.work_slack
                        and borders.memory[side, i] <= limits.rest_memory[s] + limits.memory_slack
                    )
                    if cpus_left == 0:
                        fits = fits and borders.num_cpu_only[side, i] == 0
                    else:
                        fits = fits and (
                            borders.cpu_only_ms[side, i] - limits.cpu_only_slack <= cpus_left * limits.limit
                        )
                if fits:
                    best[s] = value
                    best_origin[s] = labels.origin[side, a]
            a = labels.next[side, a]
    return num_labels


@njit(cache=True, nogil=True)
def _begin_stages(problem, borders, labels, chains, counters, i, best, best_origin, alive):
    """Keep the undominated chains that end in ideal i and begin their next stages; return how many labels were made."""
    cpus = problem.available.size - 1
    side = counters[SIDE]
    made = 0
    num_alive = 0
    for s in range(best.size):
        if best[s] == np.inf:
            continue
        # A state that uses no more devices has a lower number.
        dominated = False
        for j in range(num_alive):
            if best[alive[j]] <= best[s] and _uses_no_more(problem, alive[j], s):
                dominated = True
                break
        if dominated:
            continue
        alive[num_alive] = s
        num_alive += 1
        chain = counters[NUM_CHAINS]
        counters[NUM_CHAINS] += 1
        chains.ideal[chain] = borders.number[side, i]
        chains.state[chain] = s
        chains.origin[chain] = best_origin[s]
        for g in range(cpus + 1):
            if problem.used[s, g] == problem.available[g]:
                continue
            a = counters[LABEL_COUNT + side]
            counters[LABEL_COUNT + side] += 1
            made += 1
            labels.cost[side, a] = 0.0
            labels.value[side, a] = best[s]
            labels.memory[side, a] = 0.0
            labels.state[side, a] = s + problem.stride[g]
            labels.kind[side, a] = 0
            labels.passed[side, a] = -1
            labels.origin[side, a] = chain
            for w in range(labels.unread.shape[2]):
                labels.unread[side, a, w] = 0
                labels.read[side, a, w] = 0
            if g < cpus:
                for t in range(borders.net_at.shape[2]):
                    if borders.net_at[side, i, t] != -1:
                        labels.unread[side, a, t >> 6] |= np.uint64(1) << np.uint64(t & 63)
            labels.next[side, a] = borders.first[side, i, g]
            borders.first[side, i, g] = a
    return made


@njit(cache=True, nogil=True)
def _take(problem, limits, borders, labels, places, found, counters, i, v, dead_work, touched, ending):
    """Let the labels of ideal i that have not passed block v take it."""
    chain = problem.chain
    cpus = problem.available.size - 1
    side = counters[SIDE]
    other = 1 - side
    row = np.int64(-1)
    passed = np.int64(-1)
    rest = borders.work[side, i] - chain.work[v]
    for g in range(cpus + 1):
        block_ms = problem.time_ms[g, v]
        if block_ms > limits.limit:
            continue
        block_bytes = 0.0 if g == cpus else chain.memory_bytes[v]
        memory_limit = problem.memory_limit[g] * (1.0 + RELATIVE_SLACK)
        a = borders.first[side, i, g]
        while a != -1:
            following = labels.next[side, a]
            s = labels.state[side, a]
            cost = labels.cost[side, a] + block_ms
            memory = labels.memory[side, a] + block_bytes
            left = limits.limit - cost
            reach = limits.room[s] + limits.work_slack
            if (
                labels.passed[side, a] >= v
                or left < 0.0
                or memory > memory_limit
                or labels.kind[side, a] & chain.pinned[v] != 0
                or dead_work > reach
                or rest > reach + left * limits.slope[s, g]
            ):
                a = following
                continue
            if row == -1:
                row = _row_with(chain, limits, borders, places, found, counters, i, v)
                for w in range(touched.size):
                    touched[w] = 0
                    ending[w] = 0
                for b in range(chain.net_ptr[v], chain.net_ptr[v + 1]):
                    e = chain.net_idx[b]
                    t = chain.slot[e]
                    if borders.net_at[side, i, t] == e:
                        touched[t >> 6] |= np.uint64(1) << np.uint64(t & 63)
                        if borders.net_at[other, row, t] != e:
                            ending[t >> 6] |= np.uint64(1) << np.uint64(t & 63)
                # The last ready block before v: if there is none, nothing that matters has been passed.
                for w in range(counters[FIRST_WORD + side], (v >> 6) + 1):
                    before = borders.ready[other, row, w]
                    if w == v >> 6:
                        before &= (np.uint64(1) << np.uint64(v & 63)) - np.uint64(1)
                    while before != np.uint64(0):
                        passed = (w << 6) + _lowest_bit(before)
                        before &= before - np.uint64(1)
            new = counters[LABEL_COUNT + other]
            for w in range(touched.size):
                paid = labels.unread[side, a, w] & touched[w]
                if paid != np.uint64(0):
                    cost += problem.link_factor[g] * _weight_of(paid, w, borders.net_at, side, i, limits.net_weight)
                labels.unread[other, new, w] = labels.unread[side, a, w] & ~touched[w]
                labels.read[other, new, w] = (labels.read[side, a, w] | paid) & ~ending[w]
            left = limits.limit - cost
            if left >= 0.0 and rest <= reach + left * limits.slope[s, g]:
                labels.cost[other, new] = cost
                labels.value[other, new] = labels.value[side, a]
                # Memory that cannot exceed the limit any more is forgotten.
                labels.memory[other, new] = 0.0 if memory + borders.memory[other, row] <= memory_limit else memory
                labels.state[other, new] = s
                labels.kind[other, new] = labels.kind[side, a] | chain.pinned[v]
                labels.passed[other, new] = passed
                labels.origin[other, new] = labels.origin[side, a]
                _insert(problem, limits, labels, borders, counters, other, row, g, new)
            a = following


@njit(cache=True, nogil=True)
def grow_kinds(
    problem, limits, borders, labels, places, found, chains, counters, best, best_origin, alive, masks, dead, stop
):
    """Go through the ideals by size from where `counters` stand; after FULL call again with larger tables."""
    chain = problem.chain
    n = chain.work.size
    states = best.size
    kinds = problem.available.size
    while True:
        side = counters[SIDE]
        other = 1 - side
        while counters[ROW] < counters[COUNT + side]:
            i = counters[ROW]
            # Is there room for all that can come of this ideal? So it is never left half done.
            num_ready = 0
            for w in range(counters[FIRST_WORD + side], counters[LAST_WORD + side] + 1):
                ready = borders.ready[side, i, w]
                while ready != np.uint64(0):
                    num_ready += 1
                    ready &= ready - np.uint64(1)
            max_room = np.inf if counters[SIZE] == 0 else 0.0
            num_labels = 0
            for g in range(kinds):
                a = borders.first[side, i, g]
                while a != -1:
                    num_labels += 1
                    max_room = max(max_room, limits.room[labels.state[side, a]])
                    a = labels.next[side, a]
            # Every chain that ends here is that of a label, but the empty one.
            most_chains = min(states, num_labels + 1)
            counters[STEPS] += (num_labels + most_chains) * max(num_ready, 1)
            if counters[STEPS] >= counters[LOOK_AT]:
                counters[LOOK_AT] = counters[STEPS] + LOOK_EVERY
                if stop[0]:
                    return STOPPED
                if counters[STEPS] > counters[MOST_STEPS]:
                    return PAUSED
            counters[NEED_ROWS] = counters[COUNT + other] + num_ready
            counters[NEED_IDEALS] = counters[NUM_IDEALS] + num_ready
            counters[NEED_CHAINS] = counters[NUM_CHAINS] + most_chains
            counters[NEED_LABELS] = 1 + max(
                counters[LABEL_COUNT + side] + kinds * most_chains,
                counters[LABEL_COUNT + other] + (num_labels + kinds * most_chains) * num_ready,
            )
            if (
                counters[NEED_ROWS] > borders.number.shape[1]
                or counters[NEED_IDEALS] > found.parent.size
                or counters[NEED_CHAINS] > chains.ideal.size
                or counters[NEED_LABELS] > labels.cost.shape[1]
            ):
                return FULL
            counters[ROW] += 1

            num_labels = _end_stages(problem, limits, borders, labels, counters, i, best, best_origin)
            if counters[SIZE] == n:
                s = np.argmin(best)
                if best[s] < np.inf:
                    chains.ideal[counters[NUM_CHAINS]] = borders.number[side, i]
                    chains.state[counters[NUM_CHAINS]] = s
                    chains.origin[counters[NUM_CHAINS]] = best_origin[s]
                    counters[NUM_CHAINS] += 1
                    counters[COMPLETE] = 1
                return FINISHED
            num_labels += _begin_stages(problem, borders, labels, chains, counters, i, best, best_origin, alive)
            if num_labels == 0:
                continue
            # In the order of their indices: whoever takes a block leaves out the ready ones before it, for good.
            dead[:] = 0
            dead_work = 0.0
            for w in range(counters[FIRST_WORD + side], counters[LAST_WORD + side] + 1):
                ready = borders.ready[side, i, w]
                while ready != np.uint64(0):
                    v = (w << 6) + _lowest_bit(ready)
                    ready &= ready - np.uint64(1)
                    if dead_work <= max_room + limits.work_slack:
                        _take(
                            problem, limits, borders, labels, places, found, counters, i, v, dead_work,
                            masks[0], masks[1],
                        )  # fmt: skip
                        if num_ready > 1:
                            dead_work += _leave_out(chain, v, dead)
        if counters[COUNT + other] == 0:
            return FINISHED
        _next_size(borders, places, counters)
