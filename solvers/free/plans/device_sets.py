"""Which forward nodes each device of a plan has, as bit sets that are kept up to date while blocks move.

With after[v] the bit set of the forward nodes that v reaches and before[v] of those that reach it, S is convex if and
only if

    (union of after[v] over v in S)  and  (union of before[v] over v in S)  have no common member outside S.

So it is told from the sets of a device and of a block whether the block may join. A block may leave a convex set if and
only if none of its nodes has one of the others before it and one after it.

Where splits may be free the sets have no words, and every block may leave and join.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.free.plans.flat_problem import BitArray


class DeviceSets(NamedTuple):
    """Bit sets of forward nodes per device: those on it, and those after and before any of them."""

    nodes: BitArray  # (devices, words)
    after: BitArray
    before: BitArray
    is_stale: npt.NDArray[np.bool_]  # (devices,): a block has left since `after` and `before` were made


@njit(cache=True, nogil=True)
def device_sets(problem, device):
    """Return the sets of all devices of a plan; blocks without a device have a number beyond the last one's."""
    words = problem.after.shape[1]
    shape = problem.num_devices, words
    sets = DeviceSets(
        np.zeros(shape, np.uint64),
        np.zeros(shape, np.uint64),
        np.zeros(shape, np.uint64),
        np.zeros(problem.num_devices, np.bool_),
    )
    for b in range(device.size):
        if device[b] < problem.num_devices:
            enter(problem, sets, b, device[b])
    return sets


@njit(cache=True, nogil=True)
def enter(problem, sets, b, d):
    """Note in the sets of device d that block b has joined it."""
    for w in range(problem.after.shape[1]):
        sets.nodes[d, w] |= problem.block_nodes[b, w]
        sets.after[d, w] |= problem.block_after[b, w]
        sets.before[d, w] |= problem.block_before[b, w]


@njit(cache=True, nogil=True)
def leave(problem, sets, b, d):
    """Note in the sets of device d that block b has left it."""
    for w in range(problem.after.shape[1]):
        sets.nodes[d, w] &= ~problem.block_nodes[b, w]
    sets.is_stale[d] = True


@njit(cache=True, nogil=True)
def is_between(before, after, own, nodes, row, b, d):
    """Whether some nodes of device d that are not block b's come before, and some after, what `row` of the sets is of.

    It is given arrays one by one, which is far quicker than all of a problem: it is asked of most moves.
    """
    has_before, has_after = False, False
    for w in range(own.shape[1]):
        rest = nodes[d, w] & ~own[b, w]
        has_before |= before[row, w] & rest != 0
        has_after |= after[row, w] & rest != 0
    return has_before and has_after


@njit(cache=True, nogil=True)
def may_leave(problem, sets, b, d):
    """Whether device d, whose nodes are a convex set, stays so without block b: no node of b is between others."""
    own, nodes = problem.block_nodes, sets.nodes
    if not is_between(problem.block_before, problem.block_after, own, nodes, b, b, d):
        return True
    for i in range(problem.node_ptr[b], problem.node_ptr[b + 1]):
        if is_between(problem.before, problem.after, own, nodes, problem.node_idx[i], b, d):
            return False
    return True


@njit(cache=True, nogil=True)
def may_join(problem, sets, device, b, d):
    """Whether the nodes of device d are a convex set together with those of block b."""
    words = problem.after.shape[1]
    if sets.is_stale[d]:
        sets.after[d] = 0
        sets.before[d] = 0
        sets.is_stale[d] = False
        for c in range(device.size):
            if device[c] == d:
                enter(problem, sets, c, d)
    for w in range(words):
        after = sets.after[d, w] | problem.block_after[b, w]
        before = sets.before[d, w] | problem.block_before[b, w]
        if after & before & ~(sets.nodes[d, w] | problem.block_nodes[b, w]):
            return False
    return True


@njit(cache=True, nogil=True)
def is_convex(problem, device, d):
    """Whether the forward nodes on device d are a convex set."""
    words = problem.after.shape[1]
    nodes, after, before = np.zeros(words, np.uint64), np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    for b in range(device.size):
        if device[b] == d:
            for w in range(words):
                nodes[w] |= problem.block_nodes[b, w]
                after[w] |= problem.block_after[b, w]
                before[w] |= problem.block_before[b, w]
    for w in range(words):  # noqa: SIM110 -- numba compiles no generators
        if after[w] & before[w] & ~nodes[w]:
            return False
    return True


@njit(cache=True, nogil=True)
def with_what_follows(problem, sets, device, b, s, t, together):
    """Fill in what goes with block b from device s to t, and b: what follows it there if t does, else what it follows.

    Return how many these are, or 0 where they are too many or one of them must stay.
    """
    words = problem.after.shape[1]
    t_follows = False
    for w in range(words):
        t_follows = t_follows or problem.block_after[b, w] & sets.nodes[t, w] != 0
    reach = problem.block_after[b] if t_follows else problem.block_before[b]
    count = 0
    for c in range(device.size):
        if device[c] != s:
            continue
        for w in range(words):
            if problem.block_nodes[c, w] & reach[w]:
                if count == together.size or problem.is_fixed[c] or np.isinf(problem.time_ms[problem.class_of[t], c]):
                    return 0
                together[count] = c
                count += 1
                break
    return count
