r"""Compiled core of the chain solver: the cheapest way to have come to each ideal, found for all stages at once.

A chain is a path of nested ideals {} = I_0 < I_1 < ... < all blocks; the stage I_{i+1} \ I_i runs on an accelerator or
on a CPU. The recurrence over pairs of ideals (Tarnawski et al., NeurIPS 2020, section 4),

    value(I, j, c) = min over ideals I' < I of  max(value(I', j-1, c), load of I \ I' on an accelerator),
                                                max(value(I', j, c-1), load of I \ I' on a CPU),

looks at every pair, or at least at every pair within a threshold T. Most stages that come to I are however no better
than another one that has come to I, whatever comes next. So ideals are taken in the order of their size, and each
carries labels: stages under way. A label knows the devices used, the largest load of the stages before it, its cost so
far (compute time and transfers paid), its memory, and of each tensor that crosses the border of I one of three things:

    inside   its first end is in the stage: it will cost w if the stage ends before the tensor's last end
    unread   it comes from before the stage, which does not read it: it will cost w as soon as the stage does
    read     it comes from before the stage, which reads it: it has been paid

Taking a further block changes these by O(degree). A label may end its stage at I, which makes a chain that ends in I
and starts the labels of the next stage there. Label a dominates b if both stages are on the same kind of device and
both or neither hold a pinned block (a stage holds at most one), a has used no more devices of any kind, its largest
load and its memory are no larger, and its cost is no larger even if every tensor whose status differs costs a its w and
b nothing; a tensor that a has read costs it nothing more. Then every continuation of b is as good for a.

A stage takes blocks in the order of their indices, a topological one, so that it comes to an ideal in one way only: the
blocks that are ready and `passed` when another is taken are left out for good, with all that depend on them. For
dominance a must not have passed more of them than b.

Labels, and ideals without labels, end when they cannot lead to a chain within T: the cost exceeds T, or more work is
left than the devices left can do in T, even when this stage takes all it can; likewise for the work of the blocks left
out. The CPUs among those devices can at best take the blocks with the best ratio of accelerator to CPU time (a
fractional knapsack).

Accelerators may be of several kinds. A state s says how many devices of each kind, and how many CPUs, are in use; the
value of the recurrence is that of I and s, and its minimum goes over the kinds.

* The labels of an ideal are a list for each kind of the device that the stage runs on, CPUs last. A label's cost is in
  the time of its kind: a block takes t_gb on kind g, and a tensor w x link factor_g.
* Work. Kinds may be good at different blocks, so the work w_b of a block is any number >= 0
(`solvers.chain.label_search`
  chooses it; for one kind it is the block's time), and kind g does at most rate_g = max_b w_b / t_gb of it in a ms. A
  state leaves room for sum_g left_g rate_g T, and the CPUs' fractional knapsack: no more work can be done on the
  devices left. A label with r ms left on its own device adds at most rate_g r.
* Transfers ahead. Each tensor that crosses the border of an ideal is paid by a later stage, if no CPU is left on an
  accelerator of some kind g that is left, and takes w x link factor_g of its time; that is rate_g x link factor_g x w
  less work. The least such product over the kinds left counts.
* Memory, too, is that of the kind; the blocks outside must fit into what is left of all kinds together.

One machine code does for any number of kinds: for one, the loops over them cost nothing that can be measured.

Time O(ideals x width x labels^2), with few labels per ideal wherever the graph is narrow. Memory is O(1) for each
ideal, all else is kept for two neighbouring sizes only. Ideals are told apart by 128-bit keys: two of N share one with
probability below N^2 / 2^129, less than that of a memory error.
"""

import numpy as np

from solvers.chain.bit_sets import lowest_bit
from solvers.chain.compiled import compiled
from solvers.chain.descendants import stop_of, word_of

FINISHED, FULL, STOPPED, PAUSED = 0, 1, 2, 3
"""Outcomes of `grow`: done, some table must grow, the stop flag was set, it has taken as many steps as it may."""

RELATIVE_SLACK = 1e-9
"""Sums of the same times in another order differ by less; thresholds are widened by it so that no chain is lost."""
EQUAL = 1e-14
"""Costs that differ by this share of the threshold count as equal; 20,000 times this is still below RELATIVE_SLACK."""

LABEL_LOOKS = 200
"""A new label is compared with at most so many others; labels that should have been dropped cost time only."""

SIDE, SIZE, ROW, COUNT, LABEL_COUNT, FIRST_WORD, LAST_WORD = 0, 1, 2, 3, 5, 7, 9
NUM_IDEALS, NUM_CHAINS, COMPLETE, STEPS = 11, 12, 13, 14
NEED_ROWS, NEED_LABELS, NEED_IDEALS, NEED_CHAINS = 15, 16, 17, 18
LOOK_AT, MOST_STEPS = 19, 20
NUM_COUNTERS = 21
"""Entries of the counters: COUNT, LABEL_COUNT, FIRST_WORD and LAST_WORD have one for each side. A label that meets a
block it may take is a step; after each LOOK_EVERY the search looks whether it is to end."""
LOOK_EVERY = 4096


@compiled
def assign_slots(order, descendants, pin_ptr, pin_idx, slot, behind, stopped):
    """Give hyperedges slots, in this order, so that no two in one slot cross the border of the same ideal.

    Hyperedge f may follow e in its slot if every end of f depends on all ends of e (or is the last of them): as soon as
    f has an end in an ideal, e lies inside. That holds for all later ones in the slot too. First fit. `behind` is
    (slots, words) of room; returns the number of slots, -1 if they were too few or `stopped[0]` is set.
    """
    words = descendants.num_words
    count = 0
    for e in order:
        chosen = count
        if stopped[0]:
            return -1
        for s in range(count):
            fits = True
            for i in range(pin_ptr[e], pin_ptr[e + 1]):
                v = pin_idx[i]
                if (behind[s, v >> 6] >> np.uint64(v & 63)) & np.uint64(1) == np.uint64(0):
                    fits = False
                    break
            if fits:
                chosen = s
                break
        if chosen == count:
            if count == behind.shape[0]:
                return -1
            count += 1
        slot[e] = chosen
        for w in range(words):
            common = word_of(descendants, pin_idx[pin_ptr[e]], w)
            for i in range(pin_ptr[e] + 1, pin_ptr[e + 1]):
                common &= word_of(descendants, pin_idx[i], w)
            behind[chosen, w] = common
    return count


@compiled
def _weight_of(bits, w, net_at, side, row, net_weight):
    """Return the weight of the hyperedges in the slots that are set in word `w`."""
    total = 0.0
    while bits != np.uint64(0):
        total += net_weight[net_at[side, row, (w << 6) + lowest_bit(bits)]]
        bits &= bits - np.uint64(1)
    return total


@compiled
def _holds(borders, side, row, v, first_word):
    """Whether an ideal holds block v."""
    w = max(v >> 6, first_word)
    return (v >> 6 < first_word) | ((borders.blocks[side, row, w] >> np.uint64(v & 63)) & np.uint64(1) != np.uint64(0))


@compiled
def _row_with(problem, limits, borders, places, found, counters, i, v):
    """Return the row, on the other side, of ideal i and block v; it is made if it is new."""
    side = counters[SIDE]
    other = 1 - side
    first_word = counters[FIRST_WORD + side]
    key0, key1 = borders.key[side, i, 0] ^ problem.keys[v, 0], borders.key[side, i, 1] ^ problem.keys[v, 1]
    mask = np.uint64(places.shape[1] - 1)
    s = key0 & mask
    while places[other, s] != -1:
        row = np.int64(places[other, s])
        if borders.key[other, row, 0] == key0 and borders.key[other, row, 1] == key1:
            return row
        s = (s + np.uint64(1)) & mask
    row = counters[COUNT + other]
    counters[COUNT + other] += 1
    places[other, s] = row
    borders.place[other, row] = s
    borders.key[other, row, 0], borders.key[other, row, 1] = key0, key1
    borders.first[other, row, :] = -1
    for w in range(first_word, counters[LAST_WORD + side] + 1):
        borders.blocks[other, row, w] = borders.blocks[side, i, w]
        borders.ready[other, row, w] = borders.ready[side, i, w]
    bit = np.uint64(1) << np.uint64(v & 63)
    borders.blocks[other, row, v >> 6] |= bit
    borders.ready[other, row, v >> 6] ^= bit
    for a in range(problem.successor_ptr[v], problem.successor_ptr[v + 1]):
        u = problem.successor_idx[a]
        is_ready = True
        for b in range(problem.predecessor_ptr[u], problem.predecessor_ptr[u + 1]):
            if not _holds(borders, other, row, problem.predecessor_idx[b], first_word):
                is_ready = False
                break
        if is_ready:
            borders.ready[other, row, u >> 6] |= np.uint64(1) << np.uint64(u & 63)
            counters[LAST_WORD + other] = max(counters[LAST_WORD + other], u >> 6)
    for t in range(borders.net_at.shape[2]):
        borders.net_at[other, row, t] = borders.net_at[side, i, t]
    # Hyperedges that end here leave first, for one that begins here may take the slot.
    crossing = borders.crossing[side, i]
    for a in range(problem.net_ptr[v], problem.net_ptr[v + 1]):
        e = problem.net_idx[a]
        if borders.net_at[side, i, problem.slot[e]] == e:
            is_inside = True
            for b in range(problem.pin_ptr[e + 1] - 1, problem.pin_ptr[e] - 1, -1):
                if not _holds(borders, other, row, problem.pin_idx[b], first_word):
                    is_inside = False
                    break
            if is_inside:
                borders.net_at[other, row, problem.slot[e]] = -1
                crossing -= limits.net_weight[e]
    for a in range(problem.net_ptr[v], problem.net_ptr[v + 1]):
        e = problem.net_idx[a]
        if borders.net_at[side, i, problem.slot[e]] != e:
            borders.net_at[other, row, problem.slot[e]] = e
            crossing += limits.net_weight[e]
    borders.crossing[other, row] = crossing
    borders.work[other, row] = borders.work[side, i] - problem.work[v]
    borders.cpu_only_ms[other, row] = borders.cpu_only_ms[side, i] - problem.cpu_only_ms[v]
    borders.num_cpu_only[other, row] = borders.num_cpu_only[side, i] - problem.is_cpu_only[v]
    borders.memory[other, row] = borders.memory[side, i] - problem.memory_bytes[v]
    borders.gate[other, row] = max(borders.gate[side, i], limits.gate[v])
    number = counters[NUM_IDEALS]
    counters[NUM_IDEALS] += 1
    found.parent[number] = borders.number[side, i]
    found.last_block[number] = v
    borders.number[other, row] = number
    return row


@compiled
def _uses_no_more(code, guards, s, t):
    """Whether state s has no more devices of any kind in use than state t."""
    return ((code[t] | guards) - code[s]) & guards == guards


@compiled
def _dominates(labels, side, a, b, slack, code, guards, net_at, row, net_weight, link_factor):
    """Whether every continuation of label b is as good for a; both run on the same kind in the ideal in `row`."""
    saving = labels.cost[side, b] - labels.cost[side, a] + slack
    if (
        labels.value[side, a] > labels.value[side, b]
        or labels.passed[side, a] > labels.passed[side, b]
        or labels.memory[side, a] > labels.memory[side, b]
        or not _uses_no_more(code, guards, labels.state[side, a], labels.state[side, b])
    ):
        saving = -1.0
    w = 0
    while saving >= 0.0 and w < labels.unread.shape[2]:
        differs = (labels.unread[side, a, w] ^ labels.unread[side, b, w]) | (
            labels.read[side, a, w] ^ labels.read[side, b, w]
        )
        differs &= ~labels.read[side, a, w]
        if differs != np.uint64(0):
            saving -= link_factor * _weight_of(differs, w, net_at, side, row, net_weight)
        w += 1
    return saving >= 0.0


@compiled
def _insert(labels, counters, new, first, side, row, g, code, guards, net_at, net_weight, link_factor, slack):
    """Add label `new`, already written behind the last one, to an ideal unless dominated; drop what it dominates."""
    previous = np.int64(-1)
    other = np.int64(first[side, row, g])
    looks = 0
    is_dominated = False
    while other != -1 and looks < LABEL_LOOKS and not is_dominated:
        looks += 1
        following = np.int64(labels.next[side, other])
        dominates = False
        if labels.pinned[side, other] == labels.pinned[side, new]:
            is_dominated = _dominates(
                labels, side, other, new, slack, code, guards, net_at, row, net_weight, link_factor
            )
            if not is_dominated:
                dominates = _dominates(
                    labels, side, new, other, 0.0, code, guards, net_at, row, net_weight, link_factor
                )
        if not dominates:
            previous = other
        elif previous == -1:
            first[side, row, g] = following
        else:
            labels.next[side, previous] = following
        other = following
    if not is_dominated:
        labels.next[side, new] = first[side, row, g]
        first[side, row, g] = new
        counters[LABEL_COUNT + side] += 1


@compiled
def _add_reads(problem, limits, borders, side, i, first_word, reads):
    """Fill reads[d] with what a stage that begins at ideal i and goes d classes on is sure to read (`border_bound`)."""
    reads[:] = 0.0
    last = reads.size - 3
    for t in range(borders.net_at.shape[2]):
        e = borders.net_at[side, i, t]
        if e == -1:
            continue
        held_from = np.int64(limits.at_border.shape[1])
        for b in range(problem.pin_ptr[e], problem.pin_ptr[e + 1]):
            v = problem.pin_idx[b]
            if limits.held_from[v] < held_from and not _holds(borders, side, i, v, first_word):
                held_from = np.int64(limits.held_from[v])
        steps = max(held_from - borders.gate[side, i], 0)
        if held_from == limits.at_border.shape[1] or steps > last:
            steps = last + 1
        reads[steps] += limits.transfer_work * limits.net_weight[e]
    for d in range(1, last + 2):
        reads[d] += reads[d - 1]


@compiled
def _has_room(limits, borders, side, i, s, reads):
    """Whether what is left outside ideal i can be done in state s, all that borders cost counted (`border_bound`)."""
    work = borders.work[side, i] * (1.0 - RELATIVE_SLACK) - limits.work_slack
    t = borders.gate[side, i]
    for d in range(reads.size):  # noqa: SIM110 -- numba knows no generators in `any`
        if work + reads[d] * (1.0 - RELATIVE_SLACK) <= limits.at_border[s, t, d]:
            return True
    return False


@compiled
def _end_stages(problem, mixes, limits, borders, labels, counters, i, best, best_origin, reads):
    """Find the best chain that ends in ideal i for each state: its largest load, and the chain before its last stage.

    Returns the number of labels there. `reads` is room for as many numbers as there are steps.
    """
    has_reads = False
    n = problem.work.size
    cpus = mixes.available.size - 1
    side, size = counters[SIDE], counters[SIZE]
    net_at, net_weight = borders.net_at, limits.net_weight
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
                        transfers -= _weight_of(outside, w, net_at, side, i, net_weight)
                load += mixes.link_factor[g] * transfers
            value = max(labels.value[side, a], load)
            if load <= limits.limit and value < best[s]:
                fits = True
                if size < n:
                    needed = borders.work[side, i] + mixes.transfer_work[s] * borders.crossing[side, i]
                    cpus_left = mixes.available[cpus] - mixes.used[s, cpus]
                    fits = (
                        needed <= limits.room[s] + RELATIVE_SLACK * needed + limits.work_slack
                        and borders.memory[side, i] <= mixes.rest_memory[s] + limits.memory_slack
                    )
                    if cpus_left == 0:
                        fits = fits and borders.num_cpu_only[side, i] == 0
                    else:
                        fits = fits and (
                            borders.cpu_only_ms[side, i] - limits.cpu_only_slack <= cpus_left * limits.limit
                        )
                    if fits and limits.at_border.shape[1] > 1:
                        if not has_reads:
                            _add_reads(problem, limits, borders, side, i, counters[FIRST_WORD + side], reads)
                            has_reads = True
                        fits = _has_room(limits, borders, side, i, s, reads)
                if fits:
                    best[s] = value
                    best_origin[s] = labels.origin[side, a]
            a = labels.next[side, a]
    return num_labels


@compiled
def _begin_stages(mixes, borders, labels, chains, counters, i, best, best_origin, alive):
    """Keep the undominated chains that end in ideal i and begin their next stages; return how many labels were made."""
    cpus = mixes.available.size - 1
    side = counters[SIDE]
    code = mixes.code
    made = 0
    num_alive = 0
    for s in range(best.size):
        if best[s] == np.inf:
            continue
        # A state that uses no more devices has a lower number.
        dominated = False
        for j in range(num_alive):
            if best[alive[j]] <= best[s] and _uses_no_more(code, mixes.guards, alive[j], s):
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
        chains.gate[chain] = -1 if counters[SIZE] == 0 else borders.gate[side, i]
        for g in range(cpus + 1):
            if mixes.used[s, g] == mixes.available[g]:
                continue
            a = counters[LABEL_COUNT + side]
            counters[LABEL_COUNT + side] += 1
            made += 1
            labels.cost[side, a] = 0.0
            labels.value[side, a] = best[s]
            labels.memory[side, a] = 0.0
            labels.state[side, a] = s + mixes.stride[g]
            labels.pinned[side, a] = 0
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


@compiled
def _leave_out(problem, v, dead):
    """Add block v and all that depend on it to the bit set `dead`; return the work this adds."""
    added = 0.0
    for w in range(v >> 6, stop_of(problem.descendants, v)):
        fresh = word_of(problem.descendants, v, w) & ~dead[w]
        dead[w] |= fresh
        if fresh == ~np.uint64(0):
            added += problem.work_of_word[w]
            continue
        while fresh != np.uint64(0):
            added += problem.work[(w << 6) + lowest_bit(fresh)]
            fresh &= fresh - np.uint64(1)
    return added


@compiled
def _take(problem, mixes, limits, borders, labels, places, found, chains, counters, i, v, dead_work, touched, ending):
    """Let the labels of ideal i that have not passed block v take it."""
    cpus = mixes.available.size - 1
    side = counters[SIDE]
    other = 1 - side
    net_at, net_weight = borders.net_at, limits.net_weight
    first, code = borders.first, mixes.code
    row = np.int64(-1)
    passed = np.int64(-1)
    rest = borders.work[side, i] - problem.work[v]
    gate = max(borders.gate[side, i], limits.gate[v])
    last_step = limits.under_way.shape[2] - 1
    for g in range(cpus + 1):
        block_ms = problem.time_ms[g, v]
        if block_ms > limits.limit:
            continue
        block_bytes = 0.0 if g == cpus else problem.memory_bytes[v]
        memory_limit = mixes.memory_limit[g] * (1.0 + RELATIVE_SLACK)
        link_factor = mixes.link_factor[g]
        a = borders.first[side, i, g]
        while a != -1:
            following = labels.next[side, a]
            s = labels.state[side, a]
            cost = labels.cost[side, a] + block_ms
            memory = labels.memory[side, a] + block_bytes
            left = limits.limit - cost
            reach = limits.room[s] + limits.work_slack
            slope = limits.cpu_slope[mixes.used[s, cpus]] if g == cpus else mixes.rate[g]
            # The same with what borders cost, by the classes at which the stage began and is now.
            steps = last_step
            if g < cpus:
                began = chains.gate[labels.origin[side, a]]
                steps = last_step - 1 if began == -1 else min(gate - began, last_step - 2)
            border_reach = limits.under_way[s, gate, steps] + limits.work_slack
            border_slope = limits.cpu_rate if g == cpus else mixes.rate[g]
            if (
                labels.passed[side, a] >= v
                or left < 0.0
                or memory > memory_limit
                or labels.pinned[side, a] & problem.pinned[v] != 0
                or dead_work > reach
                or rest > reach + left * slope
                or rest > border_reach + left * border_slope
            ):
                a = following
                continue
            if row == -1:
                row = _row_with(problem, limits, borders, places, found, counters, i, v)
                for w in range(touched.size):
                    touched[w] = 0
                    ending[w] = 0
                for b in range(problem.net_ptr[v], problem.net_ptr[v + 1]):
                    e = problem.net_idx[b]
                    t = problem.slot[e]
                    if net_at[side, i, t] == e:
                        touched[t >> 6] |= np.uint64(1) << np.uint64(t & 63)
                        if net_at[other, row, t] != e:
                            ending[t >> 6] |= np.uint64(1) << np.uint64(t & 63)
                # The last ready block before v: if there is none, nothing that matters has been passed.
                for w in range(counters[FIRST_WORD + side], (v >> 6) + 1):
                    before = borders.ready[other, row, w]
                    if w == v >> 6:
                        before &= (np.uint64(1) << np.uint64(v & 63)) - np.uint64(1)
                    while before != np.uint64(0):
                        passed = (w << 6) + lowest_bit(before)
                        before &= before - np.uint64(1)
            new = counters[LABEL_COUNT + other]
            for w in range(touched.size):
                paid = labels.unread[side, a, w] & touched[w]
                if paid != np.uint64(0):
                    cost += link_factor * _weight_of(paid, w, net_at, side, i, net_weight)
                labels.unread[other, new, w] = labels.unread[side, a, w] & ~touched[w]
                labels.read[other, new, w] = (labels.read[side, a, w] | paid) & ~ending[w]
            left = limits.limit - cost
            if left >= 0.0 and rest <= reach + left * slope and rest <= border_reach + left * border_slope:
                labels.cost[other, new] = cost
                labels.value[other, new] = labels.value[side, a]
                # Memory that cannot exceed the limit any more is forgotten.
                labels.memory[other, new] = 0.0 if memory + borders.memory[other, row] <= memory_limit else memory
                labels.state[other, new] = s
                labels.pinned[other, new] = labels.pinned[side, a] | problem.pinned[v]
                labels.passed[other, new] = passed
                labels.origin[other, new] = labels.origin[side, a]
                _insert(
                    labels, counters, new, first, other, row, g, code, mixes.guards,
                    net_at, net_weight, link_factor, EQUAL * limits.limit,
                )  # fmt: skip
            a = following


@compiled
def _next_size(borders, places, counters):
    """Go on to the ideals with one block more. Their rows share full words at their beginning: no longer kept."""
    side = counters[SIDE]
    other = 1 - side
    for i in range(counters[COUNT + side]):
        places[side, borders.place[side, i]] = -1
        for w in range(counters[FIRST_WORD + side], counters[LAST_WORD + side] + 1):
            borders.blocks[side, i, w] = 0
            borders.ready[side, i, w] = 0
    counters[COUNT + side] = 0
    counters[LABEL_COUNT + side] = 0
    counters[SIDE] = other
    counters[SIZE] += 1
    counters[ROW] = 0
    first_word = counters[FIRST_WORD + side]
    is_full = True
    while first_word < counters[LAST_WORD + other]:
        for i in range(counters[COUNT + other]):
            if borders.blocks[other, i, first_word] != ~np.uint64(0):
                is_full = False
                break
        if not is_full:
            break
        first_word += 1
    counters[FIRST_WORD + other] = first_word
    counters[LAST_WORD + side] = counters[LAST_WORD + other]


@compiled
def grow(
    problem,
    mixes,
    limits,
    borders,
    labels,
    places,
    found,
    chains,
    counters,
    best,
    best_origin,
    alive,
    masks,
    dead,
    reads,
    stop,
):
    """Go through the ideals by size from where `counters` stand; after FULL call again with larger tables."""
    n = problem.work.size
    states = best.size
    kinds = mixes.available.size
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
            counters[STEPS] += (num_labels + kinds * states) * max(num_ready, 1)
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

            num_labels = _end_stages(problem, mixes, limits, borders, labels, counters, i, best, best_origin, reads)
            if counters[SIZE] == n:
                s = np.argmin(best)
                if best[s] < np.inf:
                    chains.ideal[counters[NUM_CHAINS]] = borders.number[side, i]
                    chains.state[counters[NUM_CHAINS]] = s
                    chains.origin[counters[NUM_CHAINS]] = best_origin[s]
                    counters[NUM_CHAINS] += 1
                    counters[COMPLETE] = 1
                return FINISHED
            num_labels += _begin_stages(mixes, borders, labels, chains, counters, i, best, best_origin, alive)
            if num_labels == 0:
                continue
            # In the order of their indices: whoever takes a block leaves out the ready ones before it, for good.
            dead[:] = 0
            dead_work = 0.0
            for w in range(counters[FIRST_WORD + side], counters[LAST_WORD + side] + 1):
                ready = borders.ready[side, i, w]
                while ready != np.uint64(0):
                    v = (w << 6) + lowest_bit(ready)
                    ready &= ready - np.uint64(1)
                    if dead_work <= max_room + limits.work_slack:
                        _take(
                            problem, mixes, limits, borders, labels, places, found, chains, counters, i, v, dead_work,
                            masks[0], masks[1],
                        )  # fmt: skip
                        if num_ready > 1:
                            dead_work += _leave_out(problem, v, dead)
        if counters[COUNT + other] == 0:
            return FINISHED
        _next_size(borders, places, counters)


@compiled
def rehash(places, key, place, side, rows):
    """Enter the rows of one side into its empty hash table."""
    mask = np.uint64(places.shape[1] - 1)
    for row in range(rows):
        s = key[side, row, 0] & mask
        while places[side, s] != -1:
            s = (s + np.uint64(1)) & mask
        places[side, s] = row
        place[side, row] = s
