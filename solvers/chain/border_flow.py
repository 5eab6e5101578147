"""Compiled core of `solvers.chain.border_bound`: what the best ideal of a class is worth, by maximum flows.

Nodes 0 and 1 of a network are source and sink; a cut's source side is an ideal. Arcs come in pairs, an arc and the one
back. The capacity of an arc depends on what is asked, by its role.
"""

import numpy as np

from solvers.chain.compiled import compiled

BACK, ORDER, GAIN, LOSS, SENT, READ, READER = 0, 1, 2, 3, 4, 5, 6
"""Roles of arcs: the way back; a block needs those before it; the work of a block, as a gain or a loss; a tensor that
the stage before the border sends, and one that the stage behind it reads; an end whose reading counts."""

ROUNDING = 1e-13
"""Capacities that are smaller than this share of the whole work count as used up; what a flow misses for it makes
ideals seem better."""


@compiled
def border_values(ptr, head, twin, role, amount, nearness, base, free, slopes, arrays, whole, value, stop):
    """Fill value[i, d, m] with max over the ideals of a class of (1 - slope_m) work - reads_d - slope_m sends_i.

    `base` is the work of the blocks that all ideals of the class hold, `free` that of those that some hold. The last
    but one number i (or d) stands for the beginning (or end) of the chain, the last for a CPU, which pays nothing; an
    arc of role SENT or READER counts from number `nearness` on. `arrays` are room: a float for each arc, and six rows
    of integers as long as the nodes and one row of `value`. Returns False if `stop` was set.
    """
    capacity, ints = arrays
    level, arc_of, queue, path = ints[0], ints[1], ints[2], ints[3]
    kinds = value.shape[0]
    # Where no arc begins to count, all is as for the number before; a CPU, the last, is never like another.
    changes = ints[4:6]
    changes[:, :kinds] = 0
    changes[:, 0] = changes[:, kinds - 1] = 1
    for a in range(head.size):
        if role[a] == SENT:
            changes[0, nearness[a]] = 1
        elif role[a] == READER:
            changes[1, nearness[a]] = 1
    for i in range(kinds):
        for d in range(kinds):
            is_new = changes[0, i] == 1 and changes[1, d] == 1
            for m in range(slopes.size):
                if not is_new:
                    value[i, d, m] = value[i - 1, d, m] if changes[0, i] == 0 else value[i, d - 1, m]
                    continue
                if stop[0]:
                    return False
                slope = slopes[m]
                for a in range(head.size):
                    c = 0.0
                    if role[a] == ORDER:
                        c = np.inf
                    elif role[a] == GAIN:
                        c = amount[a] * max(0.0, 1.0 - slope)
                    elif role[a] == LOSS:
                        c = amount[a] * max(0.0, slope - 1.0)
                    elif role[a] == SENT:
                        if nearness[a] <= i < kinds - 1:
                            c = slope * amount[a]
                    elif role[a] == READ:
                        if d < kinds - 1:
                            c = amount[a]
                    elif role[a] == READER and nearness[a] <= d < kinds - 1:
                        c = np.inf
                    capacity[a] = c
                flow = _max_flow(ptr, head, twin, capacity, level, arc_of, queue, path, ROUNDING * whole)
                value[i, d, m] = (1.0 - slope) * base + max(0.0, 1.0 - slope) * free - flow
    return True


@compiled
def _max_flow(ptr, head, twin, capacity, level, arc_of, queue, path, least):
    """Return a flow from 0 to 1 to which no path with more than `least` can be added (Dinic's algorithm)."""
    nodes = ptr.size - 1
    flow = 0.0
    while True:
        level[:nodes] = -1
        level[0] = 0
        queue[0] = 0
        first, last = 0, 1
        while first < last and level[1] < 0:
            v = queue[first]
            first += 1
            for a in range(ptr[v], ptr[v + 1]):
                if capacity[a] > least and level[head[a]] < 0:
                    level[head[a]] = level[v] + 1
                    queue[last] = head[a]
                    last += 1
        if level[1] < 0:
            return flow
        for v in range(nodes):
            arc_of[v] = ptr[v]
        depth, v = 0, 0
        while True:
            if v == 1:
                amount = np.inf
                for j in range(depth):
                    amount = min(amount, capacity[path[j]])
                flow += amount
                if amount == np.inf:
                    return flow
                used_up = depth
                for j in range(depth - 1, -1, -1):
                    capacity[path[j]] -= amount
                    capacity[twin[path[j]]] += amount
                    if capacity[path[j]] <= least:
                        used_up = j
                depth = used_up
                v = head[twin[path[depth]]]
                continue
            is_further = False
            while arc_of[v] < ptr[v + 1]:
                a = arc_of[v]
                if capacity[a] > least and level[head[a]] == level[v] + 1:
                    path[depth] = a
                    depth += 1
                    v = head[a]
                    is_further = True
                    break
                arc_of[v] += 1
            if not is_further:
                if depth == 0:
                    break
                depth -= 1
                v = head[twin[path[depth]]]
                arc_of[v] += 1


@compiled
def cpu_work(order, work, cpu_ms, held_from, open_from, limit, done):
    """Fill done[u + 1, t] with the most work that a CPU does within `limit` ms between borders of classes u and t.

    Row 0 is for a stage that begins the chain, the last column for one that ends it; -inf where what it has to take is
    too much. `order` has the blocks by their work for each ms.
    """
    classes = done.shape[1] - 1
    done[:] = -np.inf
    for u in range(-1, classes):
        for t in range(max(u, 0), classes + 1):
            left, amount = limit, 0.0
            for b in range(work.size):
                if held_from[b] <= t and open_from[b] > u:
                    left -= cpu_ms[b]
                    amount += work[b]
            if left < 0.0:
                break  # later classes hold more
            for b in order:
                if work[b] == 0.0 or cpu_ms[b] == np.inf:
                    continue
                is_open = held_from[b] > u and open_from[b] <= t
                if is_open and not (held_from[b] <= t and open_from[b] > u):
                    if cpu_ms[b] > left:
                        amount += work[b] * (left / cpu_ms[b])
                        break
                    left -= cpu_ms[b]
                    amount += work[b]
            done[u + 1, t] = amount
