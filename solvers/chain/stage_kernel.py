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

`solvers.chain.label_kernel` answers for the plain model faster: there one stage is better than another whatever comes
next, if it costs less even where tensors differ. Here loads are no single sum, memory depends on the state and a better
forward time may come with a worse backward time. What a stage costs:

* Passes. One pass p for max-load; for GPipe two, forward and backward. A stage has a load in each pass, and limits hold
  for each *measure*: for max-load its load, for GPipe F (forward), B (backward) and T (both together, since
  FW_i + BW_i <= max FW + max BW). The table holds the least possible maximum of the last pass: of the load, or of BW
  among the chains with FW <= F. `solvers.chain.stage_search` chooses the limits.
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
limit times the rates of the devices left. `solvers.chain.stage_costs` chooses w_b so that rates are low: for one kind
its time, which makes the rate 1.

What depends on the problem and the limits alone is prepared by `solvers.chain.stage_costs`.
"""

import numpy as np
from numba import njit

from solvers.chain.bit_sets import lowest_bit
from solvers.chain.compiled import compiled, inlined
from solvers.chain.descendants import stop_of, word_of
from solvers.chain.stage_records import Growth

FINISHED, FULL, STOPPED, TOO_MANY = 0, 1, 2, 3
"""Outcomes of filling a table: done, it must grow, the stop flag was set, it reached its limit."""

NO_STATE = -1
RELATIVE_SLACK = 1e-9
"""Sums of the same times in another order differ by less; thresholds are widened by it so that no chain is lost."""

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


@compiled
def holds(blocks, row, v):
    """Whether the ideal in `row` holds block v."""
    return (blocks[row, v >> 6] >> np.uint64(v & 63)) & np.uint64(1) != np.uint64(0)


@inlined
def _leave_out(problem, growth, d, v):
    """Put block v and all that depend on it out of reach of the stage of depth d."""
    rows, dead = problem.descendants, growth.dead
    num_trail = growth.num_trail[d]
    added = 0.0
    for w in range(v >> 6, stop_of(rows, v)):
        fresh = word_of(rows, v, w) & ~dead[w]
        if fresh == np.uint64(0):
            continue
        dead[w] |= fresh
        growth.trail_word[num_trail] = w
        growth.trail_bits[num_trail] = fresh
        num_trail += 1
        while fresh != np.uint64(0):
            added += problem.last_work[(w << 6) + lowest_bit(fresh)]
            fresh &= fresh - np.uint64(1)
    growth.num_trail[d] = num_trail
    growth.dead_work[d] += added


@inlined
def _put_within_reach(growth, d):
    """Undo what was left out at depth d."""
    for i in range(growth.num_trail[d - 1], growth.num_trail[d]):
        growth.dead[growth.trail_word[i]] ^= growth.trail_bits[i]


@compiled
def row_of(table, key0, key1, size, max_rows):
    """Return the row of an ideal, adding it when it is new; -1 when there is no room, -2 at the limit."""
    mask = np.uint64(table.slots.size - 1)
    s = key0 & mask
    while table.slots[s] != NO_STATE:
        row = table.slots[s]
        if table.key[row, 0] == key0 and table.key[row, 1] == key1:
            return row
        s = (s + np.uint64(1)) & mask
    row = np.int32(table.counters[0])
    if row >= max_rows:
        return np.int32(-2)
    if row >= table.size.size:
        return np.int32(-1)
    table.slots[s] = row
    table.key[row, 0] = key0
    table.key[row, 1] = key1
    table.size[row] = size
    table.next_of_size[row] = table.first_of_size[size]
    table.first_of_size[size] = row
    table.counters[0] += 1
    return row


@compiled
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


@compiled
def combined(communication, compute, received, sent):
    """Return the load in a pass."""
    if communication == SUM:
        return compute + received + sent
    if communication == OVERLAPPED:
        return max(compute, received + sent)
    return compute + max(received, sent)


@compiled
def least_combined(communication, compute, in_for_good, out_for_good, for_good):
    """Return the least load in a pass that the stage can have, however it grows."""
    if communication == FULL_DUPLEX:
        return compute + max(in_for_good, out_for_good, 0.5 * for_good)
    return combined(communication, compute, for_good, 0.0)


@compiled
def least_of_rest(communication, work, crossing):
    """Return what the loads of later stages, all on accelerators, at least sum to in a measure."""
    if communication == FULL_DUPLEX:
        return work + 0.5 * crossing
    return combined(communication, work, crossing, 0.0)


@compiled
def replicated(load, sync, replicas):
    """Return the time per micro-batch of a stage on several accelerators."""
    return (load + (replicas - 1) * sync) / replicas


@compiled
def exceeds(load, sync, most_replicas, limit):
    """Whether a stage with this load is too much for one accelerator and for as many as there may be."""
    return load > limit and (most_replicas == 1 or replicated(load, sync, most_replicas) > limit)


@compiled
def _is_empty(value, row):
    """Whether no chain has come to the ideal in `row` yet."""
    is_empty = True
    for s in range(value.shape[1]):
        is_empty = is_empty and value[row, s] == np.inf
    return is_empty


@compiled
def _uses_no_more(used, s, t):
    """Whether state s has no more devices of any kind in use than state t."""
    is_no_more = True
    for g in range(used.shape[1]):
        is_no_more = is_no_more and used[s, g] <= used[t, g]
    return is_no_more


@inlined
def _find_moves(problem, limits, growth, value):
    """List what a stage may add to the chains that end in an ideal, given by the `value` of each state.

    A chain is left out if another one is as good and uses no more devices of any kind: whatever comes next is as good
    for that one. Returns the number of moves, whether one is to a CPU, whether all states have one device left, and the
    most work that may be left after the stage.
    """
    kinds = problem.accelerator_ms.shape[0]
    last = limits.limit.size - 1
    goal = max(0, last - 1)
    used, available, stride = problem.used, problem.available, problem.stride
    for g in range(kinds):
        growth.is_possible[g] = False
        growth.most_replicas[g] = 0
        growth.fewest_before[g] = problem.memory_factor.shape[0] - 1
    on_cpu = False
    only_one_left = True
    room_after = -1.0
    num_moves = num_alive = 0
    for s in range(value.size):
        if value[s] > limits.limit[goal]:
            continue
        is_dominated = False
        for i in range(num_alive):  # a state that uses no more devices has a lower number
            t = growth.alive[i]
            if value[t] <= value[s] and _uses_no_more(used, t, s):
                is_dominated = True
                break
        if is_dominated:
            continue
        growth.alive[num_alive] = s
        num_alive += 1
        for g in range(kinds + 1):
            left = available[g] - used[s, g]
            if left == 0:
                continue
            growth.move_from[num_moves] = s
            growth.move_kind[num_moves] = g
            num_moves += 1
            room_after = max(room_after, limits.room[s + stride[g], last])
            if g == kinds:
                on_cpu = True
            else:
                growth.is_possible[g] = True
                growth.most_replicas[g] = max(growth.most_replicas[g], min(problem.max_replicas, left))
                growth.fewest_before[g] = min(growth.fewest_before[g], problem.in_use[s])
        if problem.num_left[s] > 1:
            only_one_left = False
    return num_moves, on_cpu, only_one_left, room_after


@inlined
def _begin(problem, limits, growth, table, row):
    """Begin an empty stage at the ideal in `row`."""
    n, measures = problem.cpu_ms.shape
    last = measures - 1
    growth.rest_work[0, :] = 0.0
    growth.rest_cpu_only_ms[0, :] = 0.0
    growth.num_cpu_only[0] = 0
    growth.rest_bytes[0, :] = 0.0
    growth.before[:] = 0
    growth.taken[:] = 0
    growth.forward_taken[:] = 0
    for v in range(n):
        growth.missing[v] = problem.num_predecessors[v]
    for v in range(n):
        if holds(table.blocks, row, v):
            for i in range(problem.successor_ptr[v], problem.successor_ptr[v + 1]):
                growth.missing[problem.successor_idx[i]] -= 1
            for i in range(problem.tensor_ptr[v], problem.tensor_ptr[v + 1]):
                growth.before[problem.tensor_idx[i]] += 1
        else:
            growth.num_cpu_only[0] += problem.is_cpu_only[v]
            for q in range(measures):
                growth.rest_work[0, q] += problem.work[v, q]
                growth.rest_cpu_only_ms[0, q] += problem.cpu_only_ms[v, q]
            for i in range(3):
                growth.rest_bytes[0, i] += problem.memory_bytes[v, i]
    growth.crossing[0, :] = 0.0
    for e in range(limits.weight.size):
        growth.place[e] = BEFORE if holds(table.blocks, row, problem.tensor_writer[e]) else AFTER
        if 0 < growth.before[e] < problem.tensor_size[e]:
            growth.crossing[0, last] += limits.weight[e]
            if last > 0 and problem.tensor_pass[e] != MIXED:
                growth.crossing[0, problem.tensor_pass[e]] += limits.weight[e]
    head = -1
    num_cells = 0
    for v in range(n - 1, -1, -1):
        if growth.missing[v] == 0 and not holds(table.blocks, row, v):
            growth.cell_node[num_cells] = v
            growth.cell_next[num_cells] = head
            head = num_cells
            num_cells += 1
    growth.next_cell[0] = head
    growth.key[0, 0] = table.key[row, 0]
    growth.key[0, 1] = table.key[row, 1]
    growth.dead[:] = 0
    growth.num_trail[0] = 0
    growth.dead_work[0] = 0.0
    return num_cells


@inlined
def _held(problem, num_bytes, d, in_use):
    """Return the bytes of a stage, or of what is left of the graph, that is entered with so many devices in use."""
    factor = problem.memory_factor
    return num_bytes[d, 0] + factor[in_use, 1] * num_bytes[d, 1] + factor[in_use, 2] * num_bytes[d, 2]


@inlined
def _may_grow(problem, limits, growth, d, t, g):
    """Whether a stage on accelerators of kind g may be within the limits, however it grows.

    Its compute is that of depth d, its transfers those of depth t.
    """
    passes = growth.traffic.shape[1]
    link_factor = problem.link_factor[g]
    sync = problem.sync_factor[g] * growth.sync_ms[d]
    most = growth.most_replicas[g]
    together = 0.0
    fits = True
    for p in range(passes):
        least = least_combined(
            problem.communication,
            growth.on_accelerator[d, g, p],
            link_factor * growth.traffic[t, p, IN_FOR_GOOD],
            link_factor * growth.traffic[t, p, OUT_FOR_GOOD],
            link_factor * growth.traffic[t, p, FOR_GOOD],
        )
        together += least
        fits = fits and not exceeds(least, problem.pays_sync[p] * sync, most, limits.limit[p])
    return fits and not exceeds(together, sync, most, limits.limit[limits.limit.size - 1])


@inlined
def _add_compute(problem, limits, growth, d, v, on_cpu):
    """Add block v to the times and bytes of depth d - 1; return on what the stage may be then: accelerators, CPUs."""
    kinds, _, measures = problem.accelerator_ms.shape
    growth.sync_ms[d] = growth.sync_ms[d - 1] + problem.sync_ms[v]
    growth.num_pinned[d] = growth.num_pinned[d - 1] + problem.is_pinned[v]
    for i in range(3):
        growth.num_bytes[d, i] = growth.num_bytes[d - 1, i] + problem.memory_bytes[v, i]
    is_apart = growth.num_pinned[d] <= 1
    on_cpu = on_cpu and is_apart
    for q in range(measures):
        growth.on_a_cpu[d, q] = growth.on_a_cpu[d - 1, q] + problem.cpu_ms[v, q]
        on_cpu = on_cpu and growth.on_a_cpu[d, q] <= limits.limit[q]
        growth.crossing[d, q] = growth.crossing[d - 1, q]
    on_acc = False
    for g in range(kinds):
        for q in range(measures):
            growth.on_accelerator[d, g, q] = growth.on_accelerator[d - 1, g, q] + problem.accelerator_ms[g, v, q]
        growth.fits[g] = (
            is_apart
            and growth.is_possible[g]
            and _held(problem, growth.num_bytes, d, growth.fewest_before[g]) <= problem.memory_limit[g]
            and _may_grow(problem, limits, growth, d, d - 1, g)
        )
        on_acc = on_acc or growth.fits[g]
    return on_acc, on_cpu


@inlined
def _add_tensors(problem, limits, growth, d, v):
    """Let the tensors of block v change the traffic and the crossing of depth d."""
    measures, passes = growth.crossing.shape[1], growth.traffic.shape[1]
    before, taken, forward_taken, place = growth.before, growth.taken, growth.forward_taken, growth.place
    for p in range(passes):
        for i in range(NUM_SUMS):
            growth.traffic[d, p, i] = growth.traffic[d - 1, p, i]
    for i in range(problem.tensor_ptr[v], problem.tensor_ptr[v + 1]):
        e = problem.tensor_idx[i]
        weight, size, in_pass = limits.weight[e], problem.tensor_size[e], problem.tensor_pass[e]
        old = payment(in_pass, size, before[e], taken[e], forward_taken[e], place[e])
        taken[e] += 1
        if problem.role[i] & READS_FORWARD:
            forward_taken[e] += 1
        if problem.role[i] & WRITES:
            place[e] = IN_STAGE
        new = payment(in_pass, size, before[e], taken[e], forward_taken[e], place[e])
        changed = old ^ new
        if changed != 0:
            for p in range(passes):
                for b in range(NUM_SUMS):
                    bit = 1 << (NUM_SUMS * p + b)
                    if changed & bit:
                        growth.traffic[d, p, b] += weight if new & bit else -weight
        ends = before[e] + taken[e]
        change = 0.0
        if ends == 1:
            change = weight
        elif ends == size:
            change = -weight
        if change != 0.0:
            growth.crossing[d, measures - 1] += change
            if passes == 2 and in_pass != MIXED:
                growth.crossing[d, in_pass] += change


@inlined
def _put_back_tensors(problem, growth, v):
    """Take block v out of the ends of its tensors."""
    for i in range(problem.tensor_ptr[v], problem.tensor_ptr[v + 1]):
        e = problem.tensor_idx[i]
        growth.taken[e] -= 1
        if problem.role[i] & READS_FORWARD:
            growth.forward_taken[e] -= 1
        if problem.role[i] & WRITES:
            growth.place[e] = AFTER


@inlined
def _take(problem, limits, growth, d, v, num_cells):
    """Take block v: its readers may become candidates, ahead of the candidates after v. Return the cells in use."""
    growth.node[d] = v
    growth.num_cells[d] = num_cells
    head = growth.next_cell[d - 1]
    for i in range(problem.successor_ptr[v], problem.successor_ptr[v + 1]):
        u = problem.successor_idx[i]
        growth.missing[u] -= 1
        if growth.missing[u] == 0:
            growth.cell_node[num_cells] = u
            growth.cell_next[num_cells] = head
            head = num_cells
            num_cells += 1
    growth.next_cell[d] = head
    growth.num_trail[d] = growth.num_trail[d - 1]
    growth.dead_work[d] = growth.dead_work[d - 1]
    growth.key[d, 0] = growth.key[d - 1, 0] ^ problem.keys[v, 0]
    growth.key[d, 1] = growth.key[d - 1, 1] ^ problem.keys[v, 1]
    growth.num_cpu_only[d] = growth.num_cpu_only[d - 1] - problem.is_cpu_only[v]
    for i in range(3):
        growth.rest_bytes[d, i] = growth.rest_bytes[d - 1, i] - problem.memory_bytes[v, i]
    for q in range(growth.rest_work.shape[1]):
        growth.rest_work[d, q] = growth.rest_work[d - 1, q] - problem.work[v, q]
        growth.rest_cpu_only_ms[d, q] = growth.rest_cpu_only_ms[d - 1, q] - problem.cpu_only_ms[v, q]
    return num_cells


@inlined
def _find_loads(problem, limits, growth, d):
    """Find the loads of a stage that ends at depth d, and on which kinds it may; say whether on any."""
    kinds, _, measures = problem.accelerator_ms.shape
    passes = growth.traffic.shape[1]
    on_acc = False
    for g in range(kinds):
        if not growth.fits[g]:
            continue
        link_factor = problem.link_factor[g]
        sync = problem.sync_factor[g] * growth.sync_ms[d]
        together = 0.0
        for p in range(passes):
            growth.load[g, p] = combined(
                problem.communication,
                growth.on_accelerator[d, g, p],
                link_factor * growth.traffic[d, p, IN],
                link_factor * growth.traffic[d, p, OUT],
            )
            together += growth.load[g, p]
        growth.load[g, measures - 1] = together
        for q in range(measures):
            growth.fits[g] = growth.fits[g] and not exceeds(
                growth.load[g, q], problem.pays_sync[q] * sync, growth.most_replicas[g], limits.limit[q]
            )
        on_acc = on_acc or growth.fits[g]
    return on_acc


@inlined
def _leaves_enough(problem, limits, growth, d, s):
    """Whether what comes after a stage that leads to state s may fit on the devices left over."""
    cpus = problem.accelerator_ms.shape[0]
    cpus_left = problem.available[cpus] - problem.used[s, cpus]
    fits = problem.num_left[s] > 0
    if cpus_left == 0:
        rest = _held(problem, growth.rest_bytes, d, problem.in_use[s])
        fits = fits and growth.num_cpu_only[d] == 0 and rest <= problem.rest_memory[s] + problem.memory_slack
    for q in range(limits.limit.size):
        needed = growth.rest_work[d, q]
        if cpus_left > 0:
            cpu_ms = growth.rest_cpu_only_ms[d, q] - RELATIVE_SLACK * growth.rest_cpu_only_ms[0, q]
            fits = fits and cpu_ms <= cpus_left * limits.limit[q]
        elif fits:
            needed = least_of_rest(problem.communication, needed, problem.least_transfer[s, q] * growth.crossing[d, q])
        fits = fits and needed <= limits.room[s, q] + RELATIVE_SLACK * (needed + growth.rest_work[0, q])
    return fits


@inlined
def _end(problem, limits, growth, table, row, size, d, num_moves, on_cpu, max_rows):
    """Let the stage end at depth d: enter the chains this makes. Return FINISHED, or why the table has no room."""
    kinds, n, measures = problem.accelerator_ms.shape
    goal, last = max(0, measures - 2), measures - 1
    limit = limits.limit
    is_complete = size + d == n
    target = np.int32(NO_STATE)
    for move in range(num_moves):
        t, g = growth.move_from[move], growth.move_kind[move]
        so_far = table.value[row, t]
        most = 1
        sync = 0.0
        if g == kinds:
            if not on_cpu:
                continue
        else:
            if not growth.fits[g] or _held(problem, growth.num_bytes, d, problem.in_use[t]) > problem.memory_limit[g]:
                continue
            most = min(problem.max_replicas, problem.available[g] - problem.used[t, g])
            sync = problem.sync_factor[g] * growth.sync_ms[d]
        for replicas in range(1, most + 1):
            s = t + replicas * problem.stride[g]
            if g == kinds:
                code = 0
                value = max(so_far, growth.on_a_cpu[d, goal])
                first = growth.on_a_cpu[d, 0]
            else:
                code = g * problem.max_replicas + replicas
                value = max(so_far, replicated(growth.load[g, goal], sync, replicas))
                first = replicated(growth.load[g, 0], problem.pays_sync[0] * sync, replicas)
            if value > limit[goal] or (measures > 1 and (first > limit[0] or first + value > limit[last])):
                continue
            if not is_complete and not _leaves_enough(problem, limits, growth, d, s):
                continue
            if target == NO_STATE:
                target = row_of(table, growth.key[d, 0], growth.key[d, 1], size + d, max_rows)
                if target < 0:
                    return FULL if target == -1 else TOO_MANY
                if _is_empty(table.value, target):
                    for w in range(table.blocks.shape[1]):
                        table.blocks[target, w] = table.blocks[row, w]
                    for i in range(1, d + 1):
                        u = growth.node[i]
                        table.blocks[target, u >> 6] |= np.uint64(1) << np.uint64(u & 63)
            if value < table.value[target, s]:
                table.value[target, s] = value
                table.origin[target, s] = row * (kinds * problem.max_replicas + 1) + code
    return FINISHED


@inlined
def _grow_from(problem, limits, growth, table, row, size, max_rows):
    """Grow all stages from the ideal in `row`; return FINISHED, STOPPED, FULL or TOO_MANY."""
    num_moves, cpu_possible, only_one_left, room_after = _find_moves(problem, limits, growth, table.value[row])
    if num_moves == 0:
        return FINISHED
    n, measures = problem.cpu_ms.shape
    num_cells = _begin(problem, limits, growth, table, row)
    tolerance = RELATIVE_SLACK * growth.rest_work[0, measures - 1]
    depth = 0
    steps = table.counters[3]
    while True:
        steps += 1
        if steps & 4095 == 0 and table.stop[0]:
            return STOPPED
        cell = growth.next_cell[depth]
        if cell == -1 or growth.dead_work[depth] > room_after + tolerance:
            if depth == 0:
                table.counters[3] = steps
                return FINISHED
            # Put the last block back; from here on it is left out.
            v = growth.node[depth]
            for i in range(problem.successor_ptr[v], problem.successor_ptr[v + 1]):
                growth.missing[problem.successor_idx[i]] += 1
            _put_back_tensors(problem, growth, v)
            _put_within_reach(growth, depth)
            num_cells = growth.num_cells[depth]
            depth -= 1
            is_taken = False
        else:
            v = growth.cell_node[cell]
            growth.next_cell[depth] = growth.cell_next[cell]
            on_acc, on_cpu = _add_compute(problem, limits, growth, depth + 1, v, cpu_possible)
            is_taken = on_acc or on_cpu
            if is_taken:
                _add_tensors(problem, limits, growth, depth + 1, v)
                on_acc = False
                for g in range(growth.fits.size):
                    growth.fits[g] = growth.fits[g] and _may_grow(problem, limits, growth, depth + 1, depth + 1, g)
                    on_acc = on_acc or growth.fits[g]
                is_taken = on_acc or on_cpu
                if not is_taken:
                    _put_back_tensors(problem, growth, v)
        if is_taken:
            depth += 1
            num_cells = _take(problem, limits, growth, depth, v, num_cells)
            on_acc = _find_loads(problem, limits, growth, depth)
            is_too_small = growth.rest_work[depth, measures - 1] > room_after + tolerance and size + depth < n
            if (on_acc or on_cpu) and not is_too_small:
                outcome = _end(problem, limits, growth, table, row, size, depth, num_moves, on_cpu, max_rows)
                if outcome != FINISHED:
                    return outcome
        elif growth.next_cell[depth] != -1:
            # With one device left nothing may be left out.
            if only_one_left or problem.depending_work[v] > room_after + tolerance:
                growth.next_cell[depth] = -1
            else:
                _leave_out(problem, growth, depth, v)


@njit(cache=True, nogil=True)
def expand(problem, limits, table, max_rows):
    """Grow stages from every ideal of `table`, smallest first, keeping chains within the `limits` of all measures.

    An origin is (kinds x max_replicas + 1) x the row of I', plus 0 for a stage on a CPU and g max_replicas + r for one
    on r accelerators of kind g. May be called again after FULL with a larger table: it takes up the ideal it left,
    whose work is idempotent.
    """
    # Allocated here and all steps inlined: so the compiler knows that these arrays are apart from all others. Handed
    # over from outside they made the search take a third longer.
    kinds, n, measures = problem.accelerator_ms.shape
    passes = 1 if measures == 1 else 2
    states, tensors = problem.used.shape[0], problem.tensor_weight.size
    growth = Growth(
        np.zeros(n, np.int32),
        np.zeros(tensors, np.int32),
        np.zeros(tensors, np.int32),
        np.zeros(tensors, np.int32),
        np.zeros(tensors, np.int32),
        np.zeros(2 * n + 1, np.int32),
        np.zeros(2 * n + 1, np.int32),
        np.zeros(problem.descendants.num_words, np.uint64),
        np.zeros(n + 1, np.int32),
        np.zeros(n + 1, np.uint64),
        np.zeros(n + 1, np.int32),
        np.zeros(n + 1, np.int32),
        np.zeros(n + 1, np.int32),
        np.zeros((n + 1, kinds, measures)),
        np.zeros((n + 1, measures)),
        np.zeros((n + 1, 3)),
        np.zeros(n + 1),
        np.zeros(n + 1, np.int32),
        np.zeros((n + 1, passes, NUM_SUMS)),
        np.zeros((n + 1, measures)),
        np.zeros((n + 1, measures)),
        np.zeros((n + 1, measures)),
        np.zeros(n + 1, np.int32),
        np.zeros((n + 1, 3)),
        np.zeros((n + 1, 2), np.uint64),
        np.zeros(n + 1, np.int32),
        np.zeros(n + 1),
        np.zeros(kinds, np.bool_),
        np.zeros(kinds, np.int64),
        np.zeros(kinds, np.int64),
        np.zeros(kinds, np.bool_),
        np.zeros((kinds, measures)),
        np.zeros(states * (kinds + 1), np.int64),
        np.zeros(states * (kinds + 1), np.int64),
        np.zeros(states, np.int64),
    )
    for size in range(table.counters[2], problem.sync_ms.size):
        row = table.first_of_size[size] if table.counters[1] == 0 else np.int32(table.counters[1] - 1)
        table.counters[2] = size
        while row != NO_STATE:
            table.counters[1] = row + 1
            outcome = _grow_from(problem, limits, growth, table, row, size, max_rows)
            if outcome != FINISHED:
                return outcome
            row = table.next_of_size[row]
        table.counters[1] = 0
    return FINISHED
