r"""Compiled core of the chain solver for the GPipe time and the variants of the model: shortest paths over ideals.

A chain is a path of nested ideals {} = I_0 < I_1 < ... < all blocks; the stage I_{i+1} \ I_i runs on r accelerators of
one kind or on a CPU. A state s says how many devices of each kind, and how many CPUs, are in use. With value(I, s) the
smallest possible maximum over the stages of I on these devices, and e_g one device of kind g,

    value(I, s) = min over ideals I' < I of  max(value(I', s - r e_g), load of I \ I' on r accelerators of kind g),
                                             max(value(I', s - e_cpu), load of I \ I' on a CPU)

(Tarnawski et al., NeurIPS 2020, section 4, with one kind.) Kinds follow each other along the chain in any order.
The recurrence is pushed forwards from the smallest ideals to the largest:

* Stages that start at I' are grown block by block over a tree in which every stage occurs once: a candidate block is
  either taken, which makes further blocks candidates, or left out for good. Candidate lists share their tails.
* A branch ends when a sum that can only grow exceeds its limit, or when what it has left out makes the stage too small:
  the rest of the graph must fit on the devices left over after it. Left out are the blocks refused and all that depend
  on them. So only pairs of ideals within the limits are ever looked at, and an ideal exists only once a chain within
  them ends there.

Time O(pairs of ideals one stage apart within the limits x states x replicas x kinds), memory O(ideals x states), where
(k_1 + 1) ... (k_G + 1) (l + 1) states are all mixes of k_g devices of kind g and l CPUs.

`solvers.chain_kernel` answers for the plain model faster: there one stage is better than another whatever comes next,
if it costs less even where tensors differ. Here loads are no single sum, memory depends on the state and a better
forward time may come with a worse backward time. What a stage costs:

* Passes. One pass p for max-load; for GPipe two, forward and backward. A stage has a load in each pass, and limits hold
  for each *measure*: for max-load its load, for GPipe F (forward), B (backward) and T (both together, since
  FW_i + BW_i <= max FW + max BW). The table holds the least possible maximum of the last pass: of the load, or of BW
  among the chains with FW <= F. `solvers.variant_dp` chooses the limits.
* Communication. load = compute + in + out, max(compute, in + out) or compute + max(in, out) in each pass.
* Kinds. On a device of kind g a stage takes the sum of its blocks' times there, and transfers last `link_factor` times
  as long; each kind has a memory limit.
* Replicas. A stage on r accelerators takes (load + (r - 1) s) / r, with s the sum over its blocks of twice their weight
  bytes / bandwidth, and leads from state t to t + r e_g. For fixed load and s that is monotone in r, so one
  replica or as many as there may be are the best; both grow with the stage.
* Memory. A stage that is entered with i devices in use takes factor(i) . (three sorts of bytes of its blocks). For a
  training schedule the graph is turned around, so that i counts the stages after it, and the factors rise with it.

What can only grow. Let tensor e have some ends in the stage and some outside. If its writer is in the ideal before
the stage, the stage receives e for good. If the writer is in the stage and an end is in the ideal before, it sends e
for good. If an end is in the ideal before and the writer still comes, the stage pays for e for good, but may turn from
receiver to sender. All else may end when the stage takes all of e. With in*, out* and all* the sums of what is there
for good, the load stays, for the three ways to communicate, at least

    compute + all*,    max(compute, all*),    compute + max(in*, out*, all* / 2).

A payment keeps its pass unless e is written by a forward node and read by backward ones in other blocks. Such a mixed
tensor is received in the backward pass until a forward reader of it is in the stage; only from then on does it count as
received for good, in the forward pass.

What the stages after it must do. Every tensor with ends in and outside the ideal that the stage ends in is paid by
some later stage. If those are all on accelerators of one kind, their loads in a measure sum to at least
work + crossing, max(work, crossing) or work + crossing / 2, which must fit into the limit times their number. With
several kinds every block has an amount of work w_b in each measure, any number that is not negative, and kind g does at
most rate_g = max_b w_b / t_gb of it in a ms. Multiplied by the rates of their devices, these loads sum to at least
work + mu crossing and so on, with mu the least rate_g x link factor_g of the kinds that are left, and must fit into the
limit times the rates of the devices left. `solvers.variant_problem` chooses w_b so that rates are low: for one kind its
time, which makes the rate 1.

`expand_variant` is for one kind of accelerators; `solvers.kinds_kernel` has the same search for several.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.contraction import FloatArray, IntArray
from solvers.ideal_table import FINISHED, FULL, NO_STATE, RELATIVE_SLACK, STOPPED, TOO_MANY, holds, leave_out, row_of

SUM, OVERLAPPED, FULL_DUPLEX = 0, 1, 2
"""How a pass combines compute and transfers."""

FORWARD, BACKWARD, MIXED = 0, 1, 2
"""The pass a tensor is paid in; a mixed one is sent in the forward pass, and received in either."""

WRITES, READS_FORWARD = 1, 2
"""Bits of what a block does with a tensor; neither: only backward nodes of it read the tensor."""

BEFORE, IN_STAGE, AFTER = 0, 1, 2
"""Where the writer of a tensor is."""

IN, OUT, IN_FOR_GOOD, OUT_FOR_GOOD, FOR_GOOD = 0, 1, 2, 3, 4
"""Sums of tensors that a stage pays for in a pass: what it receives and sends, and of it what can only grow."""

NUM_SUMS = 5


class VariantProblem(NamedTuple):
    """A contraction and what its stages cost, as flat arrays; compressed rows `*_ptr`, `*_idx` as in sparse matrices.

    Measures are the load alone, or forward, backward and both together.
    """

    accelerator_ms: FloatArray  # (kinds, n, measures): infinite for a block that does not run there
    cpu_ms: FloatArray  # (n, measures)
    work: FloatArray  # (n, measures): in any unit; 0 for a block that only CPUs run, which keeps bounds valid
    rate: FloatArray  # (kinds + 1, measures): most work of any block / its time there; the last row is the CPU's
    memory_bytes: FloatArray  # (n, 3)
    memory_factor: FloatArray  # (k+l+1, 3): by number of devices in use before the stage; columns never fall
    memory_limit: FloatArray  # (kinds,)
    link_factor: FloatArray  # (kinds,): by what transfer times are multiplied
    sync_factor: FloatArray  # (kinds,): the same for the all-reduce of replicas
    is_pinned: np.ndarray  # int32 (n,): a stage holds at most one block with a 1
    sync_ms: FloatArray  # (n,): twice the weight bytes over the bandwidth
    successor_ptr: IntArray
    successor_idx: IntArray
    num_predecessors: IntArray
    tensor_ptr: IntArray  # tensors of each block
    tensor_idx: IntArray
    role: IntArray  # what the block does with the tensor
    tensor_weight: FloatArray
    tensor_size: IntArray  # blocks that write or read it
    tensor_pass: IntArray
    tensor_writer: IntArray
    descendants: np.ndarray  # uint64 (n, words): bit set of the blocks that depend on each block, itself included
    keys: np.ndarray  # uint64 (n, 2): random keys whose exclusive-or names an ideal
    used: IntArray  # (states, kinds + 1): devices in use in each state, CPUs last
    stride: IntArray  # (kinds + 1,): by how much the number of a state rises with a device of each kind; 1 for CPUs
    available: IntArray  # (kinds + 1,): devices there are
    max_replicas: int
    communication: int


@njit(cache=True, nogil=True)
def payment(tensor_pass, size, before, taken, forward_taken, place):
    """Return the bits of the sums that a tensor counts in, for a stage that holds `taken` of its ends."""
    if taken == 0 or (place == IN_STAGE and taken == size):
        return 0
    in_pass = tensor_pass & 1  # mixed tensors: forward
    if place == IN_STAGE:
        bits = 1 << OUT
        if before > 0:
            bits |= 1 << OUT_FOR_GOOD | 1 << FOR_GOOD
    elif tensor_pass == MIXED and forward_taken == 0:
        bits = 1 << IN
        in_pass = BACKWARD
    else:
        bits = 1 << IN
        if place == BEFORE:
            bits |= 1 << IN_FOR_GOOD
        if before > 0:
            bits |= 1 << FOR_GOOD
    return bits << (NUM_SUMS * in_pass)


@njit(cache=True, nogil=True)
def combined(communication, compute, received, sent):
    """Return the load in a pass."""
    if communication == SUM:
        return compute + received + sent
    if communication == OVERLAPPED:
        return max(compute, received + sent)
    return compute + max(received, sent)


@njit(cache=True, nogil=True)
def least_combined(communication, compute, in_for_good, out_for_good, for_good):
    """Return the least load in a pass that the stage can have, however it grows."""
    if communication == FULL_DUPLEX:
        return compute + max(in_for_good, out_for_good, 0.5 * for_good)
    return combined(communication, compute, for_good, 0.0)


@njit(cache=True, nogil=True)
def least_of_rest(communication, work, crossing):
    """Return what the loads of later stages, all on accelerators, at least sum to in a measure."""
    if communication == FULL_DUPLEX:
        return work + 0.5 * crossing
    return combined(communication, work, crossing, 0.0)


@njit(cache=True, nogil=True)
def replicated(load, sync, replicas):
    """Return the time per sample of a stage on several accelerators."""
    return (load + (replicas - 1) * sync) / replicas


@njit(cache=True, nogil=True)
def exceeds(load, sync, most_replicas, limit):
    """Whether a stage with this load is too much for one accelerator and for as many as there may be."""
    return load > limit and (most_replicas == 1 or replicated(load, sync, most_replicas) > limit)


@njit(cache=True, nogil=True)
def expand_variant(problem, table, limits, max_rows):
    """Grow stages from every ideal of `table`, smallest first, keeping chains within the `limits` of all measures.

    For one kind of accelerators. An origin is (max_replicas + 1) x the row of I', plus the number of replicas, 0 for a
    stage on a CPU. May be called again after FULL with a larger table: it takes up the ideal it left, whose work is
    idempotent.
    """
    n = problem.sync_ms.size
    measures = problem.cpu_ms.shape[1]
    passes = 1 if measures == 1 else 2
    goal, last = passes - 1, measures - 1
    communication = problem.communication
    accelerator_ms = problem.accelerator_ms[0]
    cpu_ms = problem.cpu_ms
    memory_bytes = problem.memory_bytes
    memory_factor = problem.memory_factor
    sync_ms = problem.sync_ms
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
    k, num_cpus = problem.available[0], problem.available[1]
    width = num_cpus + 1
    words = descendants.shape[1]
    num_tensors = problem.tensor_weight.size
    limit = limits * (1.0 + RELATIVE_SLACK)
    memory_limit = problem.memory_limit[0] * (1.0 + RELATIVE_SLACK)
    memory_slack = 0.0
    for i in range(3):
        memory_slack += RELATIVE_SLACK * memory_factor[:, i].max() * memory_bytes[:, i].sum()
    # A dearer tensor can never cross an accelerator's border; capped, it cannot swamp the sums either.
    weight = np.minimum(problem.tensor_weight, 2.0 * max_replicas * limit[last])

    # Replicas exchange gradients in the backward pass.
    pays_sync = np.ones(measures)
    if passes == 2:
        pays_sync[FORWARD] = 0.0

    # A block for CPUs only counts as no accelerator work, which keeps the bounds below valid.
    is_cpu_only = ~np.isfinite(accelerator_ms[:, last])
    work = np.zeros((n, measures))
    cpu_only = np.zeros((n, measures))
    for v in range(n):
        for q in range(measures):
            if is_cpu_only[v]:
                cpu_only[v, q] = cpu_ms[v, q]
            else:
                work[v, q] = accelerator_ms[v, q]
    work_last = work[:, last].copy()
    depending_work = np.zeros(n)
    for v in range(n):
        for u in range(n):
            if holds(descendants, v, u):
                depending_work[v] += work_last[u]
    # room: accelerator work that the devices left over after each state can do within the limits
    room = np.empty(((k + 1) * width, measures))
    for j in range(k + 1):
        for c in range(width):
            for q in range(measures):
                room[j * width + c, q] = (k - j) * limit[q]
                if c < num_cpus:
                    # A CPU that does some work in no time can do any amount of it.
                    boundless = np.isinf(problem.rate[1, q])
                    room[j * width + c, q] += np.inf if boundless else (num_cpus - c) * problem.rate[1, q] * limit[q]

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
    on_accelerator = np.zeros((n + 1, measures))
    on_a_cpu = np.zeros((n + 1, measures))
    num_bytes = np.zeros((n + 1, 3))
    sync = np.zeros(n + 1)
    num_pinned = np.zeros(n + 1, np.int32)
    traffic = np.zeros((n + 1, passes, NUM_SUMS))
    load = np.zeros(measures)
    crossing = np.zeros((n + 1, measures))  # tensors with ends in and outside the ideal that the stage ends in
    rest_work = np.zeros((n + 1, measures))
    rest_cpu_only = np.zeros((n + 1, measures))
    num_cpu_only = np.zeros(n + 1, np.int32)  # counted, since what is left of a sum need not be exactly zero
    rest_bytes = np.zeros((n + 1, 3))
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
            most_replicas = 0
            fewest_before = k + num_cpus
            for j in range(k + 1):
                for c in range(width):
                    if table.value[row, j * width + c] > limit[goal]:
                        continue
                    if j < k:
                        acc_possible = True
                        room_after = max(room_after, room[(j + 1) * width + c, last])
                        most_replicas = max(most_replicas, min(max_replicas, k - j))
                        fewest_before = min(fewest_before, j + c)
                    if c < num_cpus:
                        cpu_possible = True
                        room_after = max(room_after, room[j * width + c + 1, last])
                    if (k - j) + (num_cpus - c) > 1:
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
            least_memory_factor = memory_factor[fewest_before, 1]
            least_in_flight = memory_factor[fewest_before, 2]
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
                on_acc = (
                    acc_possible
                    and num_bytes[d, 0] + least_memory_factor * num_bytes[d, 1] + least_in_flight * num_bytes[d, 2]
                    <= memory_limit
                )
                on_cpu = cpu_possible and num_pinned[d] <= 1
                on_acc = on_acc and num_pinned[d] <= 1
                for q in range(measures):
                    on_accelerator[d, q] = on_accelerator[depth, q] + accelerator_ms[v, q]
                    on_a_cpu[d, q] = on_a_cpu[depth, q] + cpu_ms[v, q]
                    on_cpu = on_cpu and on_a_cpu[d, q] <= limit[q]
                    crossing[d, q] = crossing[depth, q]
                together = 0.0
                for p in range(passes):
                    least = least_combined(
                        communication,
                        on_accelerator[d, p],
                        traffic[depth, p, IN_FOR_GOOD],
                        traffic[depth, p, OUT_FOR_GOOD],
                        traffic[depth, p, FOR_GOOD],
                    )
                    together += least
                    on_acc = on_acc and not exceeds(least, pays_sync[p] * sync[d], most_replicas, limit[p])
                on_acc = on_acc and not exceeds(together, sync[d], most_replicas, limit[last])
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
                    together = 0.0
                    for p in range(passes):
                        least = least_combined(
                            communication,
                            on_accelerator[d, p],
                            traffic[d, p, IN_FOR_GOOD],
                            traffic[d, p, OUT_FOR_GOOD],
                            traffic[d, p, FOR_GOOD],
                        )
                        together += least
                        on_acc = on_acc and not exceeds(least, pays_sync[p] * sync[d], most_replicas, limit[p])
                    on_acc = on_acc and not exceeds(together, sync[d], most_replicas, limit[last])
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
                if on_acc:
                    together = 0.0
                    for p in range(passes):
                        load[p] = combined(communication, on_accelerator[d, p], traffic[d, p, IN], traffic[d, p, OUT])
                        together += load[p]
                    load[last] = together
                    for q in range(measures):
                        on_acc = on_acc and not exceeds(load[q], pays_sync[q] * sync[d], most_replicas, limit[q])
                if not (on_acc or on_cpu) or (rest_work[d, last] > room_after + tolerance and not complete):
                    continue
                target = np.int32(NO_STATE)
                for j in range(k + 1):
                    for c in range(width):
                        so_far = table.value[row, j * width + c]
                        if so_far > limit[goal]:
                            continue
                        replicas_here = 0
                        used = (
                            num_bytes[d, 0]
                            + memory_factor[j + c, 1] * num_bytes[d, 1]
                            + memory_factor[j + c, 2] * num_bytes[d, 2]
                        )
                        if on_acc and used <= memory_limit:
                            replicas_here = min(max_replicas, k - j)
                        for replicas in range(replicas_here + 1):
                            if replicas == 0:
                                if not on_cpu or c == num_cpus:
                                    continue
                                s = j * width + c + 1
                                value = max(so_far, on_a_cpu[d, goal])
                                first = on_a_cpu[d, 0]
                            else:
                                s = (j + replicas) * width + c
                                value = max(so_far, replicated(load[goal], sync[d], replicas))
                                first = replicated(load[0], pays_sync[0] * sync[d], replicas)
                            if value > limit[goal] or (
                                passes == 2 and (first > limit[0] or first + value > limit[last])
                            ):
                                continue
                            if not complete:
                                accs_left = k - j - replicas
                                cpus_left = num_cpus - c - (replicas == 0)
                                fits = accs_left + cpus_left > 0
                                if cpus_left == 0:
                                    before_rest = j + c + max(1, replicas)
                                    rest = (
                                        rest_bytes[d, 0]
                                        + memory_factor[before_rest, 1] * rest_bytes[d, 1]
                                        + memory_factor[before_rest, 2] * rest_bytes[d, 2]
                                    )
                                    fits = (
                                        fits
                                        and num_cpu_only[d] == 0
                                        and rest <= accs_left * memory_limit + memory_slack
                                    )
                                for q in range(measures):
                                    needed = rest_work[d, q]
                                    if cpus_left == 0:
                                        needed = least_of_rest(communication, needed, crossing[d, q])
                                    elif (
                                        rest_cpu_only[d, q] - RELATIVE_SLACK * rest_cpu_only[0, q]
                                        > cpus_left * limit[q]
                                    ):
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
                                table.origin[target, s] = row * (max_replicas + 1) + replicas
            row = table.next_of_size[row]
        table.counters[1] = 0
    return FINISHED
