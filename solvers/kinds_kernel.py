"""Compiled core of the chain solver for GPipe and the variants on several kinds: see `solvers.variant_kernel`.

It goes through the same stages in the same order as the kernel for one kind, and keeps what depends on the kind (times,
memory and link) for each of them. It is a kernel of its own, since one kind alone would take it twice the time. The
plain model has a faster one in `solvers.chain_kinds_kernel`.
"""

import numpy as np
from numba import njit

from solvers.ideal_table import FINISHED, FULL, NO_STATE, RELATIVE_SLACK, STOPPED, TOO_MANY, holds, leave_out, row_of
from solvers.variant_kernel import (
    AFTER,
    BEFORE,
    FOR_GOOD,
    FORWARD,
    IN,
    IN_FOR_GOOD,
    IN_STAGE,
    MIXED,
    NUM_SUMS,
    OUT,
    OUT_FOR_GOOD,
    READS_FORWARD,
    WRITES,
    combined,
    exceeds,
    least_combined,
    least_of_rest,
    payment,
    replicated,
)


@njit(cache=True, nogil=True)
def _may_grow(communication, compute, d, g, traffic, t, link_factor, sync, pays_sync, most_replicas, limit):
    """Whether a stage on accelerators of kind g may be within the limits, however it grows.

    Its compute is that of depth d, its transfers those of depth t.
    """
    passes = traffic.shape[1]
    together = 0.0
    for p in range(passes):
        least = least_combined(
            communication,
            compute[d, g, p],
            link_factor * traffic[t, p, IN_FOR_GOOD],
            link_factor * traffic[t, p, OUT_FOR_GOOD],
            link_factor * traffic[t, p, FOR_GOOD],
        )
        together += least
        if exceeds(least, pays_sync[p] * sync, most_replicas, limit[p]):
            return False
    return not exceeds(together, sync, most_replicas, limit[limit.size - 1])


@njit(cache=True, nogil=True)
def _is_dominated(value, row, s, used):
    """Whether some chain to the ideal in `row` is as good as that of state s and uses no more devices of any kind.

    Whatever comes next is as good for it. The number of its state is lower.
    """
    for t in range(s):
        if value[row, t] <= value[row, s]:
            uses_more = False
            for g in range(used.shape[1]):
                if used[t, g] > used[s, g]:
                    uses_more = True
                    break
            if not uses_more:
                return True
    return False


@njit(cache=True, nogil=True)
def expand_kinds(problem, table, limits, max_rows):
    """Grow stages as `solvers.variant_kernel.expand_variant` does, on accelerators of any number of kinds.

    An origin is (kinds x max_replicas + 1) x the row of I', plus 0 for a stage on a CPU and g max_replicas + r for one
    on r accelerators of kind g. May be called again after FULL with a larger table: it takes up the ideal it left,
    whose work is idempotent.
    """
    n = problem.sync_ms.size
    measures = problem.cpu_ms.shape[1]
    passes = 1 if measures == 1 else 2
    goal, last = passes - 1, measures - 1
    communication = problem.communication
    accelerator_ms = problem.accelerator_ms
    cpu_ms = problem.cpu_ms
    memory_bytes = problem.memory_bytes
    memory_factor = problem.memory_factor
    link_factor = problem.link_factor
    sync_factor = problem.sync_factor
    sync_ms = problem.sync_ms
    work = problem.work
    rate = problem.rate
    successor_ptr = problem.successor_ptr
    successor_idx = problem.successor_idx
    tensor_ptr = problem.tensor_ptr
    tensor_idx = problem.tensor_idx
    role = problem.role
    tensor_size = problem.tensor_size
    tensor_pass = problem.tensor_pass
    tensor_writer = problem.tensor_writer
    descendants = problem.descendants
    keys = problem.keys
    max_replicas = problem.max_replicas
    used = problem.used
    stride = problem.stride
    available = problem.available
    states = used.shape[0]
    kinds = accelerator_ms.shape[0]
    num_cpus = available[kinds]
    words = descendants.shape[1]
    num_tensors = problem.tensor_weight.size
    limit = limits * (1.0 + RELATIVE_SLACK)
    memory_limit = problem.memory_limit * (1.0 + RELATIVE_SLACK)
    memory_slack = 0.0
    for i in range(3):
        memory_slack += RELATIVE_SLACK * memory_factor[:, i].max() * memory_bytes[:, i].sum()
    # A dearer tensor can never cross an accelerator's border; capped, it cannot swamp the sums either.
    least_factor = 1.0
    for g in range(kinds):
        least_factor = min(least_factor, link_factor[g])
    weight = np.minimum(problem.tensor_weight, 2.0 * max_replicas * limit[last] / least_factor)

    # Replicas exchange gradients in the backward pass.
    pays_sync = np.ones(measures)
    if passes == 2:
        pays_sync[FORWARD] = 0.0

    is_cpu_only = np.ones(n, np.bool_)
    cpu_only = np.zeros((n, measures))
    for v in range(n):
        for g in range(kinds):
            if np.isfinite(accelerator_ms[g, v, last]):
                is_cpu_only[v] = False
        if is_cpu_only[v]:
            cpu_only[v, :] = cpu_ms[v, :]
    work_last = work[:, last].copy()
    depending_work = np.zeros(n)
    for v in range(n):
        for u in range(n):
            if holds(descendants, v, u):
                depending_work[v] += work_last[u]
    # room: work that the devices left over after each state can do within the limits
    room = np.zeros((states, measures))
    least_transfer = np.full((states, measures), np.inf)  # work that a ms of transfers displaces there, at least
    in_use = np.zeros(states, np.int64)
    num_left = np.zeros(states, np.int64)
    rest_memory = np.zeros(states)  # what the accelerators left over hold
    for s in range(states):
        for g in range(kinds + 1):
            left = available[g] - used[s, g]
            in_use[s] += used[s, g]
            num_left[s] += left
            if left == 0:
                continue
            for q in range(measures):
                # A CPU that does some work in no time can do any amount of it.
                room[s, q] += np.inf if np.isinf(rate[g, q]) else left * rate[g, q] * limit[q]
            if g < kinds:
                rest_memory[s] += left * memory_limit[g]
                for q in range(measures):
                    least_transfer[s, q] = min(least_transfer[s, q], rate[g, q] * link_factor[g])

    missing = np.empty(n, np.int32)
    before = np.empty(num_tensors, np.int32)  # ends of each tensor in the ideal that the stage starts from
    taken = np.empty(num_tensors, np.int32)  # ends in the stage
    forward_taken = np.empty(num_tensors, np.int32)
    place = np.empty(num_tensors, np.int32)  # of the writer
    cell_node = np.empty(2 * n + 1, np.int32)
    cell_next = np.empty(2 * n + 1, np.int32)
    frame_cell = np.empty(n + 1, np.int32)  # next candidate at each depth
    frame_cells = np.empty(n + 1, np.int32)  # cells in use before this depth
    frame_node = np.empty(n + 1, np.int32)
    on_accelerator = np.zeros((n + 1, kinds, measures))
    on_a_cpu = np.zeros((n + 1, measures))
    num_bytes = np.zeros((n + 1, 3))
    sync = np.zeros(n + 1)
    num_pinned = np.zeros(n + 1, np.int32)
    traffic = np.zeros((n + 1, passes, NUM_SUMS))
    load = np.zeros((kinds, measures))
    crossing = np.zeros((n + 1, measures))  # tensors with ends in and outside the ideal that the stage ends in
    rest_work = np.zeros((n + 1, measures))
    rest_cpu_only = np.zeros((n + 1, measures))
    num_cpu_only = np.zeros(n + 1, np.int32)  # counted, since what is left of a sum need not be exactly zero
    rest_bytes = np.zeros((n + 1, 3))
    key = np.zeros((n + 1, 2), np.uint64)
    dead = np.zeros((n + 1, words), np.uint64)
    dead_work = np.zeros(n + 1)
    possible = np.zeros(kinds, np.bool_)
    on_kind = np.zeros(kinds, np.bool_)
    most_replicas = np.zeros(kinds, np.int64)
    fewest_before = np.zeros(kinds, np.int64)
    move_from = np.zeros(states * (kinds + 1), np.int64)  # what a stage may add to a state: the state, and the kind
    move_kind = np.zeros(states * (kinds + 1), np.int64)
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
            for g in range(kinds):
                possible[g] = False
                most_replicas[g] = 0
                fewest_before[g] = memory_factor.shape[0] - 1
            num_moves = 0
            for s in range(states):
                if table.value[row, s] > limit[goal] or _is_dominated(table.value, row, s, used):
                    continue
                for g in range(kinds + 1):
                    if used[s, g] < available[g]:
                        move_from[num_moves] = s
                        move_kind[num_moves] = g
                        num_moves += 1
                for g in range(kinds):
                    left = available[g] - used[s, g]
                    if left > 0:
                        acc_possible = True
                        possible[g] = True
                        room_after = max(room_after, room[s + stride[g], last])
                        most_replicas[g] = max(most_replicas[g], min(max_replicas, left))
                        fewest_before[g] = min(fewest_before[g], in_use[s])
                if used[s, kinds] < num_cpus:
                    cpu_possible = True
                    room_after = max(room_after, room[s + 1, last])
                if num_left[s] > 1:
                    only_one_left = False
            if not acc_possible and not cpu_possible:
                row = table.next_of_size[row]
                continue

            # Counters of the ideal the stages start from.
            rest_work[0, :] = 0.0
            rest_cpu_only[0, :] = 0.0
            num_cpu_only[0] = 0
            rest_bytes[0, :] = 0.0
            before[:] = 0
            taken[:] = 0
            forward_taken[:] = 0
            missing[:] = problem.num_predecessors
            for v in range(n):
                if holds(table.blocks, row, v):
                    for i in range(successor_ptr[v], successor_ptr[v + 1]):
                        missing[successor_idx[i]] -= 1
                    for i in range(tensor_ptr[v], tensor_ptr[v + 1]):
                        before[tensor_idx[i]] += 1
                else:
                    num_cpu_only[0] += is_cpu_only[v]
                    for q in range(measures):
                        rest_work[0, q] += work[v, q]
                        rest_cpu_only[0, q] += cpu_only[v, q]
                    for i in range(3):
                        rest_bytes[0, i] += memory_bytes[v, i]
            crossing[0, :] = 0.0
            for e in range(num_tensors):
                place[e] = BEFORE if holds(table.blocks, row, tensor_writer[e]) else AFTER
                if 0 < before[e] < tensor_size[e]:
                    crossing[0, last] += weight[e]
                    if passes == 2 and tensor_pass[e] != MIXED:
                        crossing[0, tensor_pass[e]] += weight[e]
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
            tolerance = RELATIVE_SLACK * rest_work[0, last]
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
                    for i in range(successor_ptr[v], successor_ptr[v + 1]):
                        missing[successor_idx[i]] += 1
                    for i in range(tensor_ptr[v], tensor_ptr[v + 1]):
                        taken[tensor_idx[i]] -= 1
                        if role[i] & READS_FORWARD:
                            forward_taken[tensor_idx[i]] -= 1
                        if role[i] & WRITES:
                            place[tensor_idx[i]] = AFTER
                    num_cells = frame_cells[depth]
                    depth -= 1
                    if frame_cell[depth] != -1:
                        # With one device left nothing may be left out.
                        if only_one_left or depending_work[v] > room_after + tolerance:
                            frame_cell[depth] = -1
                        else:
                            leave_out(v, depth, descendants, work_last, dead, dead_work)
                    continue
                v = cell_node[cell]
                frame_cell[depth] = cell_next[cell]
                d = depth + 1
                sync[d] = sync[depth] + sync_ms[v]
                num_pinned[d] = num_pinned[depth] + problem.is_pinned[v]
                for i in range(3):
                    num_bytes[d, i] = num_bytes[depth, i] + memory_bytes[v, i]
                on_cpu = cpu_possible and num_pinned[d] <= 1
                for q in range(measures):
                    on_a_cpu[d, q] = on_a_cpu[depth, q] + cpu_ms[v, q]
                    on_cpu = on_cpu and on_a_cpu[d, q] <= limit[q]
                    crossing[d, q] = crossing[depth, q]
                on_acc = False
                for g in range(kinds):
                    for q in range(measures):
                        on_accelerator[d, g, q] = on_accelerator[depth, g, q] + accelerator_ms[g, v, q]
                    on_kind[g] = (
                        possible[g]
                        and num_pinned[d] <= 1
                        and num_bytes[d, 0]
                        + memory_factor[fewest_before[g], 1] * num_bytes[d, 1]
                        + memory_factor[fewest_before[g], 2] * num_bytes[d, 2]
                        <= memory_limit[g]
                    )
                    if on_kind[g]:
                        on_kind[g] = _may_grow(
                            communication, on_accelerator, d, g, traffic, depth, link_factor[g],
                            sync_factor[g] * sync[d], pays_sync, most_replicas[g], limit,
                        )  # fmt: skip
                    on_acc = on_acc or on_kind[g]
                if on_acc or on_cpu:
                    for p in range(passes):
                        for i in range(NUM_SUMS):
                            traffic[d, p, i] = traffic[depth, p, i]
                    for i in range(tensor_ptr[v], tensor_ptr[v + 1]):
                        e = tensor_idx[i]
                        old = payment(tensor_pass[e], tensor_size[e], before[e], taken[e], forward_taken[e], place[e])
                        taken[e] += 1
                        if role[i] & READS_FORWARD:
                            forward_taken[e] += 1
                        if role[i] & WRITES:
                            place[e] = IN_STAGE
                        new = payment(tensor_pass[e], tensor_size[e], before[e], taken[e], forward_taken[e], place[e])
                        changed = old ^ new
                        if changed != 0:
                            for p in range(passes):
                                for b in range(NUM_SUMS):
                                    bit = 1 << (NUM_SUMS * p + b)
                                    if changed & bit:
                                        traffic[d, p, b] += weight[e] if new & bit else -weight[e]
                        ends = before[e] + taken[e]
                        change = 0.0
                        if ends == 1:
                            change = weight[e]
                        elif ends == tensor_size[e]:
                            change = -weight[e]
                        if change != 0.0:
                            crossing[d, last] += change
                            if passes == 2 and tensor_pass[e] != MIXED:
                                crossing[d, tensor_pass[e]] += change
                    on_acc = False
                    for g in range(kinds):
                        if on_kind[g]:
                            on_kind[g] = _may_grow(
                                communication, on_accelerator, d, g, traffic, d, link_factor[g],
                                sync_factor[g] * sync[d], pays_sync, most_replicas[g], limit,
                            )  # fmt: skip
                            on_acc = on_acc or on_kind[g]
                    if not (on_acc or on_cpu):
                        for i in range(tensor_ptr[v], tensor_ptr[v + 1]):
                            taken[tensor_idx[i]] -= 1
                            if role[i] & READS_FORWARD:
                                forward_taken[tensor_idx[i]] -= 1
                            if role[i] & WRITES:
                                place[tensor_idx[i]] = AFTER
                if not (on_acc or on_cpu):
                    if only_one_left or depending_work[v] > room_after + tolerance:
                        frame_cell[depth] = -1
                    else:
                        leave_out(v, depth, descendants, work_last, dead, dead_work)
                    continue

                # Take v: its readers may become candidates, ahead of the candidates after v.
                frame_node[d] = v
                frame_cells[d] = num_cells
                head = frame_cell[depth]
                for i in range(successor_ptr[v], successor_ptr[v + 1]):
                    u = successor_idx[i]
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
                key[d, 0] = key[depth, 0] ^ keys[v, 0]
                key[d, 1] = key[depth, 1] ^ keys[v, 1]
                num_cpu_only[d] = num_cpu_only[depth] - is_cpu_only[v]
                for i in range(3):
                    rest_bytes[d, i] = rest_bytes[depth, i] - memory_bytes[v, i]
                for q in range(measures):
                    rest_work[d, q] = rest_work[depth, q] - work[v, q]
                    rest_cpu_only[d, q] = rest_cpu_only[depth, q] - cpu_only[v, q]
                depth = d
                complete = size + d == n

                # May a stage end here?
                on_acc = False
                for g in range(kinds):
                    if not on_kind[g]:
                        continue
                    together = 0.0
                    for p in range(passes):
                        load[g, p] = combined(
                            communication,
                            on_accelerator[d, g, p],
                            link_factor[g] * traffic[d, p, IN],
                            link_factor[g] * traffic[d, p, OUT],
                        )
                        together += load[g, p]
                    load[g, last] = together
                    shared = sync_factor[g] * sync[d]
                    for q in range(measures):
                        on_kind[g] = on_kind[g] and not exceeds(
                            load[g, q], pays_sync[q] * shared, most_replicas[g], limit[q]
                        )
                    on_acc = on_acc or on_kind[g]
                if not (on_acc or on_cpu) or (rest_work[d, last] > room_after + tolerance and not complete):
                    continue
                target = np.int32(NO_STATE)
                for move in range(num_moves):
                    t, g = move_from[move], move_kind[move]
                    so_far = table.value[row, t]
                    most = 1
                    if g == kinds:
                        if not on_cpu:
                            continue
                    else:
                        if not on_kind[g]:
                            continue
                        taken_bytes = (
                            num_bytes[d, 0]
                            + memory_factor[in_use[t], 1] * num_bytes[d, 1]
                            + memory_factor[in_use[t], 2] * num_bytes[d, 2]
                        )
                        if taken_bytes > memory_limit[g]:
                            continue
                        most = min(max_replicas, available[g] - used[t, g])
                    for replicas in range(1, most + 1):
                        s = t + replicas * stride[g]
                        if g == kinds:
                            code = 0
                            value = max(so_far, on_a_cpu[d, goal])
                            first = on_a_cpu[d, 0]
                        else:
                            code = g * max_replicas + replicas
                            shared = sync_factor[g] * sync[d]
                            value = max(so_far, replicated(load[g, goal], shared, replicas))
                            first = replicated(load[g, 0], pays_sync[0] * shared, replicas)
                        if value > limit[goal] or (passes == 2 and (first > limit[0] or first + value > limit[last])):
                            continue
                        if not complete:
                            cpus_left = num_cpus - used[s, kinds]
                            fits = num_left[s] > 0
                            if cpus_left == 0:
                                rest = (
                                    rest_bytes[d, 0]
                                    + memory_factor[in_use[s], 1] * rest_bytes[d, 1]
                                    + memory_factor[in_use[s], 2] * rest_bytes[d, 2]
                                )
                                fits = fits and num_cpu_only[d] == 0 and rest <= rest_memory[s] + memory_slack
                            for q in range(measures):
                                needed = rest_work[d, q]
                                if cpus_left == 0:
                                    if fits:
                                        needed = least_of_rest(
                                            communication, needed, least_transfer[s, q] * crossing[d, q]
                                        )
                                elif rest_cpu_only[d, q] - RELATIVE_SLACK * rest_cpu_only[0, q] > cpus_left * limit[q]:
                                    fits = False
                                if needed > room[s, q] + RELATIVE_SLACK * (needed + rest_work[0, q]):
                                    fits = False
                            if not fits:
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
                            table.origin[target, s] = row * (kinds * max_replicas + 1) + code
            row = table.next_of_size[row]
        table.counters[1] = 0
    return FINISHED
