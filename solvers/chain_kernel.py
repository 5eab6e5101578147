r"""Compiled core of the chain solver: shortest paths over ideals, without ever listing pairs of them.

A chain is a path of nested ideals {} = I_0 < I_1 < ... < all blocks; the stage I_{i+1} \ I_i runs on an accelerator or
on a CPU. With value(I, j, c) the smallest possible max-load of the blocks in I on j accelerators and c CPUs,

    value(I, j, c) = min over ideals I' < I of  max(value(I', j-1, c), load of I \ I' on an accelerator),
                                                max(value(I', j, c-1), load of I \ I' on a CPU)

(Tarnawski et al., NeurIPS 2020, section 4.) Here the recurrence is pushed forwards and only values up to a threshold T
are kept, so that an ideal exists only once a chain within T ends there:

* Stages that start at I' are grown block by block over a tree in which every stage occurs once: a candidate block is
  either taken, which makes further blocks candidates, or left out for good. Candidate lists share their tails.
* Growing a stage changes its compute time, memory and incoming transfers (tensors from inside I') by O(degree), and
  all three only grow, so a branch ends when one exceeds its limit. Outgoing transfers may fall again; they decide
  whether the stage may end here.
* A branch also ends when what it has left out makes the stage too small: with j devices left after it, the rest of
  the graph must fit into j T. Left out are the blocks refused and all that depend on them.
* Ideals are found by an incremental key, see `solvers.ideal_table`.

Memory is O(ideals x (k+1)(l+1)).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.contraction import FloatArray, IntArray
from solvers.ideal_table import FINISHED, FULL, NO_STATE, RELATIVE_SLACK, STOPPED, TOO_MANY, holds, leave_out, row_of


class ChainProblem(NamedTuple):
    """A contraction as flat arrays; compressed rows `*_ptr`, `*_idx` as in sparse matrices."""

    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    memory_bytes: FloatArray
    successor_ptr: IntArray
    successor_idx: IntArray
    num_predecessors: IntArray
    net_ptr: IntArray  # hyperedges of each block
    net_idx: IntArray
    net_weight: FloatArray
    net_size: IntArray
    descendants: np.ndarray  # uint64 (n, words): bit set of the blocks that depend on each block, itself included
    keys: np.ndarray  # uint64 (n, 2): random keys whose exclusive-or names an ideal
    num_accelerators: int
    num_cpus: int
    memory_limit: float
    speed_ratio: float  # best accelerator time / CPU time of any block


@njit(cache=True, nogil=True)
def expand(problem, table, threshold, max_rows):
    """Grow stages from every ideal of `table`, smallest first, keeping chains of max-load <= `threshold`.

    An origin is 2 x the row of I', plus 1 for a stage on a CPU. May be called again after FULL with a larger table: it
    takes up the ideal it left, whose work is idempotent.
    """
    n = problem.accelerator_ms.size
    k, num_cpus = problem.num_accelerators, problem.num_cpus
    width = num_cpus + 1
    words = problem.descendants.shape[1]
    limit = threshold * (1.0 + RELATIVE_SLACK)
    memory_limit = problem.memory_limit * (1.0 + RELATIVE_SLACK)
    num_nets = problem.net_weight.size
    # A dearer tensor can never cross an accelerator's border; capped, it cannot swamp the sums either.
    net_weight = np.minimum(problem.net_weight, 2.0 * limit)

    # A block for CPUs only counts as no accelerator work, which keeps the bounds below valid.
    work = np.where(np.isfinite(problem.accelerator_ms), problem.accelerator_ms, 0.0)
    is_cpu_only = ~np.isfinite(problem.accelerator_ms)
    cpu_only = np.where(is_cpu_only, problem.cpu_ms, 0.0)
    memory_slack = RELATIVE_SLACK * problem.memory_bytes.sum()
    depending_work = np.zeros(n)
    for v in range(n):
        for u in range(n):
            if holds(problem.descendants, v, u):
                depending_work[v] += work[u]
    # room: accelerator work that the devices left over after each state can do within the threshold
    room = np.empty((k + 1) * width)
    for j in range(k + 1):
        for c in range(width):
            room[j * width + c] = (k - j) * limit
            if c < num_cpus:
                # A CPU that does some work in no time can do any amount of it.
                boundless = np.isinf(problem.speed_ratio)
                room[j * width + c] += np.inf if boundless else (num_cpus - c) * problem.speed_ratio * limit

    missing = np.empty(n, np.int32)
    before = np.empty(num_nets, np.int32)  # pins of each hyperedge in the ideal that the stage starts from
    inside = np.empty(num_nets, np.int32)  # pins in that ideal and the stage
    cell_node = np.empty(2 * n + 1, np.int32)
    cell_next = np.empty(2 * n + 1, np.int32)
    frame_cell = np.empty(n + 1, np.int32)  # next candidate at each depth
    frame_cells = np.empty(n + 1, np.int32)  # cells in use before this depth
    frame_node = np.empty(n + 1, np.int32)
    time_acc = np.zeros(n + 1)
    time_cpu = np.zeros(n + 1)
    memory = np.zeros(n + 1)
    received = np.zeros(n + 1)
    sent = np.zeros(n + 1)
    crossing = np.zeros(n + 1)  # tensors with ends in and outside the ideal that the stage ends in
    rest_work = np.zeros(n + 1)
    rest_cpu_only = np.zeros(n + 1)
    num_cpu_only = np.zeros(n + 1, np.int32)  # counted, since what is left of a sum need not be exactly zero
    rest_memory = np.zeros(n + 1)
    key = np.zeros((n + 1, 2), np.uint64)
    dead = np.zeros((n + 1, words), np.uint64)
    dead_work = np.zeros(n + 1)
    steps = 0

    for size in range(table.counters[2], n):
        row = table.first_of_size[size] if table.counters[1] == 0 else np.int32(table.counters[1] - 1)
        table.counters[2] = size
        while row != NO_STATE:
            table.counters[1] = row + 1
            acc_possible = False
            cpu_possible = False
            only_one_left = True
            room_after = -1.0
            for j in range(k + 1):
                for c in range(width):
                    if table.value[row, j * width + c] > limit:
                        continue
                    if j < k:
                        acc_possible = True
                        room_after = max(room_after, room[(j + 1) * width + c])
                    if c < num_cpus:
                        cpu_possible = True
                        room_after = max(room_after, room[j * width + c + 1])
                    if (k - j) + (num_cpus - c) > 1:
                        only_one_left = False
            if not acc_possible and not cpu_possible:
                row = table.next_of_size[row]
                continue

            # Counters of the ideal the stages start from.
            rest_work[0] = 0.0
            rest_cpu_only[0] = 0.0
            num_cpu_only[0] = 0
            rest_memory[0] = 0.0
            inside[:] = 0
            missing[:] = problem.num_predecessors
            for v in range(n):
                if holds(table.blocks, row, v):
                    for i in range(problem.successor_ptr[v], problem.successor_ptr[v + 1]):
                        missing[problem.successor_idx[i]] -= 1
                    for i in range(problem.net_ptr[v], problem.net_ptr[v + 1]):
                        inside[problem.net_idx[i]] += 1
                else:
                    rest_work[0] += work[v]
                    rest_cpu_only[0] += cpu_only[v]
                    num_cpu_only[0] += is_cpu_only[v]
                    rest_memory[0] += problem.memory_bytes[v]
            crossing[0] = 0.0
            for e in range(num_nets):
                before[e] = inside[e]
                if 0 < inside[e] < problem.net_size[e]:
                    crossing[0] += net_weight[e]
            head = -1
            num_cells = 0
            for v in range(n - 1, -1, -1):
                if missing[v] == 0 and not holds(table.blocks, row, v):
                    cell_node[num_cells] = v
                    cell_next[num_cells] = head
                    head = num_cells
                    num_cells += 1
            depth = 0
            frame_cell[0] = head
            key[0, 0] = table.key[row, 0]
            key[0, 1] = table.key[row, 1]
            dead[0, :] = 0
            dead_work[0] = 0.0
            tolerance = RELATIVE_SLACK * rest_work[0]
            while True:
                steps += 1
                if steps & 4095 == 0 and table.stop[0]:
                    return STOPPED
                cell = frame_cell[depth]
                if cell == -1 or dead_work[depth] > room_after + tolerance:
                    if depth == 0:
                        break
                    # Put the last block back; from here on it is left out.
                    v = frame_node[depth]
                    for i in range(problem.successor_ptr[v], problem.successor_ptr[v + 1]):
                        missing[problem.successor_idx[i]] += 1
                    for i in range(problem.net_ptr[v], problem.net_ptr[v + 1]):
                        inside[problem.net_idx[i]] -= 1
                    num_cells = frame_cells[depth]
                    depth -= 1
                    if frame_cell[depth] != -1:
                        # With one device left nothing may be left out.
                        if only_one_left or depending_work[v] > room_after + tolerance:
                            frame_cell[depth] = -1
                        else:
                            leave_out(v, depth, problem.descendants, work, dead, dead_work)
                    continue
                v = cell_node[cell]
                frame_cell[depth] = cell_next[cell]
                d = depth + 1
                time_acc[d] = time_acc[depth] + problem.accelerator_ms[v]
                time_cpu[d] = time_cpu[depth] + problem.cpu_ms[v]
                memory[d] = memory[depth] + problem.memory_bytes[v]
                on_acc = acc_possible and time_acc[d] + received[depth] <= limit and memory[d] <= memory_limit
                on_cpu = cpu_possible and time_cpu[d] <= limit
                if on_acc or on_cpu:
                    received[d] = received[depth]
                    sent[d] = sent[depth]
                    crossing[d] = crossing[depth]
                    for i in range(problem.net_ptr[v], problem.net_ptr[v + 1]):
                        e = problem.net_idx[i]
                        first_of_stage = inside[e] == before[e]
                        if inside[e] == 0:
                            crossing[d] += net_weight[e]
                        inside[e] += 1
                        if inside[e] == problem.net_size[e]:
                            crossing[d] -= net_weight[e]
                        if before[e] > 0:
                            if first_of_stage:
                                received[d] += net_weight[e]
                        elif first_of_stage:
                            sent[d] += net_weight[e]
                        elif inside[e] == problem.net_size[e]:
                            sent[d] -= net_weight[e]
                    on_acc = on_acc and time_acc[d] + received[d] <= limit
                    if not (on_acc or on_cpu):
                        for i in range(problem.net_ptr[v], problem.net_ptr[v + 1]):
                            inside[problem.net_idx[i]] -= 1
                if not (on_acc or on_cpu):
                    if only_one_left or depending_work[v] > room_after + tolerance:
                        frame_cell[depth] = -1
                    else:
                        leave_out(v, depth, problem.descendants, work, dead, dead_work)
                    continue

                # Take v: its readers may become candidates, ahead of the candidates after v.
                frame_node[d] = v
                frame_cells[d] = num_cells
                head = frame_cell[depth]
                for i in range(problem.successor_ptr[v], problem.successor_ptr[v + 1]):
                    u = problem.successor_idx[i]
                    missing[u] -= 1
                    if missing[u] == 0:
                        cell_node[num_cells] = u
                        cell_next[num_cells] = head
                        head = num_cells
                        num_cells += 1
                frame_cell[d] = head
                for w in range(words):
                    dead[d, w] = dead[depth, w]
                dead_work[d] = dead_work[depth]
                key[d, 0] = key[depth, 0] ^ problem.keys[v, 0]
                key[d, 1] = key[depth, 1] ^ problem.keys[v, 1]
                rest_work[d] = rest_work[depth] - work[v]
                rest_cpu_only[d] = rest_cpu_only[depth] - cpu_only[v]
                num_cpu_only[d] = num_cpu_only[depth] - is_cpu_only[v]
                rest_memory[d] = rest_memory[depth] - problem.memory_bytes[v]
                depth = d
                complete = size + d == n

                # May a stage end here?
                load = time_acc[d] + received[d] + sent[d]
                on_acc = on_acc and load <= limit
                if not (on_acc or on_cpu) or (rest_work[d] > room_after + tolerance and not complete):
                    continue
                target = np.int32(NO_STATE)
                for j in range(k + 1):
                    for c in range(width):
                        so_far = table.value[row, j * width + c]
                        if so_far > limit:
                            continue
                        for stage_on_cpu in range(2):
                            if stage_on_cpu == 0:
                                if not on_acc or j == k:
                                    continue
                                s = (j + 1) * width + c
                                value = max(so_far, load)
                            else:
                                if not on_cpu or c == num_cpus:
                                    continue
                                s = j * width + c + 1
                                value = max(so_far, time_cpu[d])
                            if not complete:
                                accs_left = k - s // width
                                cpus_left = num_cpus - s % width
                                needed = rest_work[d]
                                if cpus_left == 0:
                                    if num_cpu_only[d] > 0:
                                        continue
                                    if rest_memory[d] > accs_left * memory_limit + memory_slack:
                                        continue
                                    needed += crossing[d]
                                elif rest_cpu_only[d] - RELATIVE_SLACK * rest_cpu_only[0] > cpus_left * limit:
                                    continue
                                if needed > room[s] + RELATIVE_SLACK * (needed + rest_work[0]):
                                    continue
                                if accs_left + cpus_left == 0:
                                    continue
                            if target == NO_STATE:
                                target = row_of(table, key[d, 0], key[d, 1], size + d, max_rows)
                                if target < 0:
                                    return FULL if target == -1 else TOO_MANY
                                if table.value[target].min() == np.inf:
                                    for w in range(words):
                                        table.blocks[target, w] = table.blocks[row, w]
                                    for i in range(1, d + 1):
                                        u = frame_node[i]
                                        table.blocks[target, u >> 6] |= np.uint64(1) << np.uint64(u & 63)
                            if value < table.value[target, s]:
                                table.value[target, s] = value
                                table.origin[target, s] = 2 * row + stage_on_cpu
            row = table.next_of_size[row]
        table.counters[1] = 0
    return FINISHED
