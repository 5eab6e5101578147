"""Kernels of the latency bound: ideals of a partial order, and the cheapest way to cut it into tasks.

Nodes are 0 .. n-1 in a topological order and sets of them rows of 64-bit words. `above[v]` holds all nodes that must
precede v. Ideals are enumerated by adding nodes in increasing order only, sub-ideals of an ideal by removing nodes in
decreasing order only, so each appears exactly once and without a search among those seen; the number of a sub-ideal is
looked up by a hash that is the XOR of random words of its members. Ideals are finite and enumerated beforehand, so the
lookup is exact once their hashes are known to differ.
"""

from typing import Any

import numpy as np
from numba import njit

from solvers.latency.arrays import FULL, FloatArray, IntArray, WordArray


@njit(cache=True, nogil=True)
def enumerate_ideals(above: WordArray, ideals: WordArray) -> int:
    """Fill `ideals` with all ideals, the empty one first; return their number, or -1 if they are more than its rows."""
    n, num_words = above.shape
    last = np.empty(ideals.shape[0], np.int64)
    ideals[0] = 0
    last[0] = -1
    found = 1
    at = 0
    while at < found:
        for v in range(last[at] + 1, n):
            allowed = True
            for w in range(num_words):
                if above[v, w] & ~ideals[at, w]:
                    allowed = False
                    break
            if not allowed:
                continue
            if found == ideals.shape[0]:
                return -1
            ideals[found] = ideals[at]
            ideals[found, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
            last[found] = v
            found += 1
        at += 1
    return found


@njit(cache=True, nogil=True)
def fill_table(ideals: WordArray, num_ideals: int, keys: WordArray, hashes: WordArray, table: IntArray) -> bool:
    """Fill the open hash table with the ideals' numbers; return whether all their hashes differ."""
    mask = np.uint64(table.size - 1)
    table[:] = -1
    for i in range(num_ideals):
        h = np.uint64(0)
        for v in range(keys.size):
            if ideals[i, v >> 6] >> np.uint64(v & 63) & np.uint64(1):
                h ^= keys[v]
        hashes[i] = h
        slot = h & mask
        while table[slot] >= 0:
            if hashes[table[slot]] == h:
                return False
            slot = (slot + np.uint64(1)) & mask
        table[slot] = i
    return True


@njit(cache=True, nogil=True)
def cut_ideals(
    order: Any, costs: Any, flow: Any, nets: Any, between: Any, lookup: Any,
    least: FloatArray, choice: IntArray, first: int, end: int, work: int,
) -> int:  # fmt: skip
    """Set rows first .. end - 1 of `least`, or fewer when `work` steps are done; return the row to go on with.

    least[i, j] is the least cost of cutting ideal i into tasks of which so many are on accelerators of each of the g
    kinds as column j stands for, at most: j // stride % size of each kind. With a single column their numbers are not
    limited. choice[i, j] tells the ideal without the last task, times g + 1, and 1 + the kind where that task is on an
    accelerator. Rows must be set in order, those of smaller ideals first.

    `order`: ideals, `above`, and the nearest predecessors and successors of each node. `costs`: times on each kind of
    accelerators and on a CPU, shares of a kind's memory, link speeds, strides and sizes of the kinds' columns, the
    price of a share, and the longest task looked at. `flow`: how many paths pass each node, and
    how long they all take from the nodes before it if these are in other tasks; how many pass from it to which others,
    and how long each takes; and how many there are. `nets`: which nodes share a tensor of positive
    weight, or must stay together on an accelerator (weight -1), and how many there are. `between`: which nodes that
    are left out stand before each node and which after it, with their times and shares: they count in a task that has
    nodes on both sides of them.
    """
    ideals, above, before_start, before, after_start, after = order
    accelerator_ms, cpu_ms, share, link_speed, stride, digits, price, most = costs
    num_kinds = link_speed.size
    base = num_kinds + 1
    passing, arriving_ms, flow_start, flow_to, flow_amount, flow_ms, num_paths = flow
    pin_start, pins_of, weight, size = nets
    before_start_out, before_out, after_start_out, after_out, out_ms, out_share = between
    later_members, earlier_members = np.zeros(out_ms.shape[1], np.int64), np.zeros(out_ms.shape[1], np.int64)
    keys, hashes, table = lookup
    mask = np.uint64(table.size - 1)
    n, num_words = above.shape
    one = np.uint64(1)
    limited = least.shape[1] > 1
    count = np.zeros(weight.size, np.int64)
    # What stands at each depth of the tree of removals.
    removed = np.empty(n + 1, np.int64)
    upto = np.empty(n + 1, np.int64)  # removable nodes from here downwards are still to be tried
    removable = np.empty((n + 1, num_words), np.uint64)
    load, used, cut = np.empty((n + 1, num_kinds)), np.empty((n + 1, num_kinds)), np.empty(n + 1)
    broken, meeting, arriving = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1)
    key = np.empty(n + 1, np.uint64)
    rest = np.empty(num_words, np.uint64)
    steps = 0
    for i in range(first, end):
        if steps >= work:
            return i
        rest[:] = ideals[i]
        # Nodes of the ideal that precede no other of it.
        removable[0] = rest
        for v in range(n):
            if rest[v >> 6] >> np.uint64(v & 63) & one:
                for w in range(num_words):
                    removable[0, w] &= ~above[v, w]
        upto[0], cut[0], broken[0], meeting[0], key[0] = n, 0.0, 0, 0, hashes[i]
        load[0], arriving[0] = 0.0, 0.0
        used[0] = 0.0
        depth = 0
        while depth >= 0:
            # The next removable node below `upto`.
            v = -1
            w = (upto[depth] - 1) >> 6 if upto[depth] > 0 else -1
            while w >= 0:
                bits = removable[depth, w]
                if w == upto[depth] >> 6:
                    bits &= (one << np.uint64(upto[depth] & 63)) - one
                if bits:
                    v = w << 6
                    while bits > one:
                        bits >>= one
                        v += 1
                    break
                w -= 1
            if v < 0:
                if depth > 0:
                    u = removed[depth]
                    rest[u >> 6] |= one << np.uint64(u & 63)
                    for a in range(pin_start[u], pin_start[u + 1]):
                        count[pins_of[a]] -= 1
                    for a in range(before_start_out[u], before_start_out[u + 1]):
                        later_members[before_out[a]] -= 1
                    for a in range(after_start_out[u], after_start_out[u + 1]):
                        earlier_members[after_out[a]] -= 1
                depth -= 1
                continue
            upto[depth] = v
            steps += 1
            new_key = key[depth] ^ keys[v]
            if depth == 0:
                # v alone on a CPU.
                slot = new_key & mask
                while hashes[table[slot]] != new_key:
                    slot = (slot + one) & mask
                j = table[slot]
                if cpu_ms[v] < np.inf and cpu_ms[v] <= most:
                    ms = (cpu_ms[v] * passing[v] + arriving_ms[v]) / num_paths
                    for d in range(least.shape[1]):
                        if least[j, d] + ms < least[i, d]:
                            least[i, d], choice[i, d] = least[j, d] + ms, base * j
            fits = False
            for g in range(num_kinds):
                new_load = load[depth, g] + accelerator_ms[g, v]
                if used[depth, g] + share[g, v] <= FULL and new_load < np.inf and new_load <= most:
                    fits = True
                    break
            if not fits:
                continue
            # A path that meets the nodes removed enters them once: count those that enter at v, not at its successors.
            new_meeting, new_arriving = meeting[depth] + passing[v], arriving[depth] + arriving_ms[v]
            for a in range(flow_start[v], flow_start[v + 1]):
                if ideals[i, flow_to[a] >> 6] >> np.uint64(flow_to[a] & 63) & one:
                    new_meeting -= flow_amount[a]
                    new_arriving -= flow_amount[a] * flow_ms[a]
            new_cut, new_broken = cut[depth], broken[depth]
            for a in range(pin_start[v], pin_start[v + 1]):
                e = pins_of[a]
                count[e] += 1
                if count[e] == 1:
                    if weight[e] < 0:
                        new_broken += 1
                    else:
                        new_cut += weight[e]
                if count[e] == size[e]:
                    if weight[e] < 0:
                        new_broken -= 1
                    else:
                        new_cut -= weight[e]
            rest[v >> 6] &= ~(one << np.uint64(v & 63))
            depth += 1
            removed[depth], upto[depth], key[depth] = v, v, new_key
            for g in range(num_kinds):
                load[depth, g] = load[depth - 1, g] + accelerator_ms[g, v]
                used[depth, g] = used[depth - 1, g] + share[g, v]
            for a in range(before_start_out[v], before_start_out[v + 1]):
                later_members[before_out[a]] += 1
            for a in range(after_start_out[v], after_start_out[v + 1]):
                x = after_out[a]
                earlier_members[x] += 1
                if earlier_members[x] == 1 and later_members[x] > 0:
                    for g in range(num_kinds):
                        load[depth, g] += out_ms[g, x]
                        used[depth, g] += out_share[g, x]
            cut[depth] = new_cut
            broken[depth], meeting[depth], arriving[depth] = new_broken, new_meeting, new_arriving
            for w in range(num_words):
                removable[depth, w] = removable[depth - 1, w]
            removable[depth, v >> 6] &= ~(one << np.uint64(v & 63))
            for a in range(before_start[v], before_start[v + 1]):
                # u precedes v; does it precede another node that is left?
                u = before[a]
                free = True
                for b in range(after_start[u], after_start[u + 1]):
                    r = after[b]
                    if rest[r >> 6] >> np.uint64(r & 63) & one:
                        free = False
                        break
                if free:
                    removable[depth, u >> 6] |= one << np.uint64(u & 63)
            if new_broken:
                continue
            slot = new_key & mask
            while hashes[table[slot]] != new_key:
                slot = (slot + one) & mask
            j = table[slot]
            for g in range(num_kinds):
                ms = load[depth, g] + max(0.0, new_cut) / link_speed[g]
                if used[depth, g] > FULL or ms == np.inf or ms > most:
                    continue
                ms = (ms * new_meeting + max(0.0, new_arriving)) / num_paths + price * used[depth, g]
                for d in range(least.shape[1]):
                    if limited and d // stride[g] % digits[g] == 0:
                        continue
                    before_ms = least[j, d - stride[g] if limited else 0]
                    if before_ms + ms < least[i, d]:
                        least[i, d], choice[i, d] = before_ms + ms, base * j + 1 + g
    return end
