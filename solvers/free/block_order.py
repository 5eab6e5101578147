"""An order of blocks in which few nets are open at a time, for a narrow diagram of contents (`solvers.free.patterns`).

A net is open across a position of the order if it has ends on both sides. A block before the position bears it if it is
one of its ends. Which bearing blocks are in a set tells all that the rest of the order has to know of the set, so a
diagram has up to 2^(bearing blocks) nodes there, and an order costs the sum of these over all positions.

Orders are found in two steps: the best of the given one and greedy ones, and then windows of it put into their best
order, by turns, until none can be bettered. What bears a net across a position depends on which blocks come before it
and not on their order, so the best order of a window is a dynamic program over its subsets (as of vertex orderings in
general: Bodlaender, Fomin, Koster, Kratsch and Thilikos, "A note on exact algorithms for vertex ordering problems on
graphs", Theory of Computing Systems 2012).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.problem.contraction import IntArray, compressed_rows

MAX_BLOCKS = 3000
"""Above this the blocks are taken in the order they have."""

GREEDY_STARTS = 12
"""How many blocks a greedy order is tried from."""

WINDOW, STEP = 12, 3
"""Blocks of a window, and how far the next one begins behind it."""

MOST_ROUNDS = 20
"""How often all windows are gone through at most."""

MOST_BEARING = 60
"""So many bearing blocks are as bad as any more: their nodes could never be made."""


def narrow_orders(
    given: Sequence[int],
    ends: Sequence[tuple[int, ...]],
    before: Sequence[Sequence[int]] = (),
    check: Callable[[], object] = object,
) -> list[IntArray]:
    """Return orders of the blocks in which nets with these `ends` are open across few positions, the best first.

    The first has its windows in their best order, the second, if there is one, not. No block comes ahead of those in
    its row of `before`, where there are such; the `given` order must be one of that kind. `check` is called often; what
    it raises ends the work.

    >>> narrow_orders(range(4), [(0, 2), (2, 1), (1, 3)])[0].tolist()
    [0, 2, 1, 3]
    """
    n = len(given)
    if n > MAX_BLOCKS:
        return [np.array(given, np.int32)]
    nets = _Nets.of(n, ends)
    rows = compressed_rows(before or [()] * n)
    # Those that wait for a block.
    after: list[list[int]] = [[] for _ in range(n)]
    for b, row in enumerate(before):
        for u in row:
            after[u].append(b)
    readers = compressed_rows(after)
    best = np.array(given, np.int32)
    least = _cost(best, *nets)
    for start in [given[0]] if before else range(0, n, max(1, n // GREEDY_STARTS)):
        check()
        order = _greedy_order(start, *nets, *rows, *readers)
        cost = _cost(order, *nets)
        if cost < least:
            best, least = order, cost
    return [_with_best_windows(best, nets, rows, check), best]


class _Nets(NamedTuple):
    """Where the nets of each block begin, these nets, where the ends of each net begin, and these ends."""

    net_begin: IntArray
    net: IntArray
    end_begin: IntArray
    end: IntArray

    @staticmethod
    def of(num_blocks: int, ends: Sequence[Sequence[int]]) -> "_Nets":
        nets: list[list[int]] = [[] for _ in range(num_blocks)]
        for e, blocks in enumerate(ends):
            for b in blocks:
                nets[b].append(e)
        return _Nets(*compressed_rows(nets), *compressed_rows(ends))


def cost_of_order(order: Sequence[int] | IntArray, ends: Sequence[Sequence[int]]) -> float:
    """Return the sum of 2^(blocks that bear an open net) over all positions."""
    return float(_cost(np.array(order, np.int32), *_Nets.of(len(order), ends)))


@njit(cache=True, nogil=True)
def _cost(order, net_begin, net, end_begin, end):
    """Return the cost of an order."""
    left = end_begin[1:] - end_begin[:-1]
    open_of = np.zeros(order.size, np.int64)
    bearing = 0
    cost = 0.0
    for b in order:
        for j in range(net_begin[b], net_begin[b + 1]):
            e = net[j]
            left[e] -= 1
            if left[e]:
                open_of[b] += 1
                continue
            for i in range(end_begin[e], end_begin[e + 1]):
                c = end[i]
                if c != b:
                    open_of[c] -= 1
                    bearing -= open_of[c] == 0
        bearing += open_of[b] > 0
        cost += 2.0 ** min(bearing, MOST_BEARING)
    return cost


@njit(cache=True, nogil=True)
def _greedy_order(start, net_begin, net, end_begin, end, before_begin, before, after_begin, after):
    """Return an order from a block on: next comes the block that leaves the fewest nets open, of those of open nets.

    Of several the one that was touched by an open net last, and of these the first. Where none of open nets can come,
    the first that can.
    """
    n = net_begin.size - 1
    left = end_begin[1:] - end_begin[:-1]
    is_open = np.zeros(left.size, np.bool_)
    is_placed = np.zeros(n, np.bool_)
    waits_for = before_begin[1:] - before_begin[:-1]
    touched = np.zeros(n, np.int64)  # when by an open net, counted from 1; 0 is never
    frontier = np.empty(n, np.int64)  # blocks that were touched and are not placed
    size = 0
    order = np.empty(n, np.int32)
    b = start
    for i in range(n):
        is_placed[b] = True
        order[i] = b
        for j in range(after_begin[b], after_begin[b + 1]):
            waits_for[after[j]] -= 1
        for j in range(net_begin[b], net_begin[b + 1]):
            e = net[j]
            left[e] -= 1
            if is_open[e]:
                continue
            is_open[e] = True
            for k in range(end_begin[e], end_begin[e + 1]):
                c = end[k]
                if not is_placed[c]:
                    if touched[c] == 0:
                        frontier[size] = c
                        size += 1
                    touched[c] = i + 1
        best, fewest, kept = -1, 0, 0
        for j in range(size):
            c = frontier[j]
            if is_placed[c]:
                continue
            frontier[kept] = c
            kept += 1
            if waits_for[c]:
                continue
            opened = 0
            for k in range(net_begin[c], net_begin[c + 1]):
                e = net[k]
                opened += (not is_open[e]) - (left[e] == 1)
            if (
                best < 0
                or opened < fewest
                or (opened == fewest and (touched[c] > touched[best] or (touched[c] == touched[best] and c < best)))
            ):
                best, fewest = c, opened
        size = kept
        if best < 0:
            for c in range(n):
                if not is_placed[c] and (best < 0 or (waits_for[c] == 0 and waits_for[best] > 0)):
                    best = c
        b = best
    return order


def _with_best_windows(
    order: IntArray, nets: _Nets, rows: tuple[IntArray, IntArray], check: Callable[[], object]
) -> IntArray:
    """Return the order with windows in their best order, until none can be bettered or MOST_ROUNDS are over."""
    order = order.copy()
    sizes = np.diff(nets.end_begin).astype(np.int64)
    is_due = np.ones((len(order) + STEP - 1) // STEP, np.bool_)
    for _ in range(MOST_ROUNDS):
        check()
        if not is_due.any():
            break
        _order_windows(order, nets.net_begin, nets.net, sizes, *rows, is_due)
    return order


@njit(cache=True, nogil=True)
def _order_windows(order, net_begin, net, net_size, before_begin, before, is_due):
    """Put every window that is due into its best order, in place; due are then those that overlap one that changed."""
    n = order.size
    open_ends = net_size.copy()  # of each net, blocks that are not placed yet
    in_window = np.full(n, -1, np.int64)
    mask_of = np.zeros(open_ends.size, np.int64)  # of each net of the window, which of its blocks are ends
    cost = np.empty(1 << WINDOW)
    least = np.zeros(1 << WINDOW)  # of each subset, the cost of its best order
    rest_of = np.zeros(1 << WINDOW, np.int64)  # what goes before its last block there
    needs = np.zeros(1 << WINDOW, np.int64)  # of one block as a subset, what must go before it
    held = np.empty(1 << WINDOW, np.int32)
    for k in range(is_due.size):
        start = k * STEP
        size = min(WINDOW, n - start)
        if is_due[k]:
            is_due[k] = False
            blocks = order[start : start + size].copy()
            for i in range(size):
                in_window[blocks[i]] = i
            _subset_costs(order[:start], blocks, open_ends, mask_of, net_begin, net, held, cost)
            for i in range(size):
                needs[1 << i] = 0
                for j in range(before_begin[blocks[i]], before_begin[blocks[i] + 1]):
                    if in_window[before[j]] >= 0:
                        needs[1 << i] |= 1 << in_window[before[j]]
            full = (1 << size) - 1
            for subset in range(1, full + 1):
                best = np.inf
                left = subset
                while left:
                    one = left & -left
                    left ^= one
                    rest = subset ^ one
                    if least[rest] < best and not needs[one] & ~rest:
                        best = least[rest]
                        rest_of[subset] = rest
                least[subset] = best + cost[subset]
            now = 0.0
            for i in range(size):
                now += cost[(1 << (i + 1)) - 1]
            if least[full] < now * (1 - 1e-12):
                subset = full
                for i in range(size - 1, -1, -1):
                    last = 0
                    while 1 << last != subset ^ rest_of[subset]:
                        last += 1
                    order[start + i] = blocks[last]
                    subset = rest_of[subset]
                for other in range(max(0, k - WINDOW // STEP), min(is_due.size, k + WINDOW // STEP + 1)):
                    if other != k:
                        is_due[other] = True
            for i in range(size):
                in_window[blocks[i]] = -1
        for i in range(min(STEP, n - start)):
            b = order[start + i]
            for j in range(net_begin[b], net_begin[b + 1]):
                open_ends[net[j]] -= 1


@njit(cache=True, nogil=True)
def _subset_costs(placed, blocks, open_ends, mask_of, net_begin, net, held, cost):
    """Fill cost[S] = 2^(blocks that bear an open net once S, of the blocks of the window, follows what is placed)."""
    size = blocks.size
    for i in range(size):
        for j in range(net_begin[blocks[i]], net_begin[blocks[i] + 1]):
            mask_of[net[j]] |= 1 << i
    # Count what bears a net before S, and every block of S, and take off those whose nets are all closed once S holds
    # the blocks of a mask: the sums over the subsets of each S, for all S at once.
    held[: 1 << size] = 0
    bearing = 0
    for b in placed:
        bears, mask = _closed_by(b, open_ends, mask_of, net_begin, net)
        if bears:
            bearing += 1
        elif mask:
            bearing += 1
            held[mask] -= 1
    for i in range(size):
        bears, mask = _closed_by(blocks[i], open_ends, mask_of, net_begin, net)
        held[1 << i] += 1
        if not bears:
            held[mask | 1 << i] -= 1
    for i in range(size):
        for begin in range(1 << i, 1 << size, 2 << i):
            for subset in range(begin, begin + (1 << i)):
                held[subset] += held[subset - (1 << i)]
    power = 2.0 ** np.arange(MOST_BEARING + 1)
    for subset in range(1 << size):
        cost[subset] = power[min(bearing + held[subset], MOST_BEARING)]
    for i in range(size):
        for j in range(net_begin[blocks[i]], net_begin[blocks[i] + 1]):
            mask_of[net[j]] = 0


@njit(cache=True, nogil=True)
def _closed_by(b, open_ends, mask_of, net_begin, net):
    """Return whether a block bears a net that is open beyond the window, and which of the window close the others."""
    mask = 0
    for j in range(net_begin[b], net_begin[b + 1]):
        e = net[j]
        inside = mask_of[e]
        count = 0
        while inside:
            inside &= inside - 1
            count += 1
        if open_ends[e] > count:
            return True, 0
        mask |= mask_of[e]
    return False, mask
