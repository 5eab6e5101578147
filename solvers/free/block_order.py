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

import numpy as np
from numba import njit

from solvers.problem.contraction import IntArray

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
    nets = _nets_of_blocks(n, ends)
    starts = [given[0]] if before else range(0, n, max(1, n // GREEDY_STARTS))
    candidates = [list(given), *(_greedy_order(nets, ends, start, before, check) for start in starts)]
    best = np.array(min(candidates, key=lambda order: cost_of_order(order, ends)), np.int32)
    return [_with_best_windows(best, nets, ends, before, check), best]


def _nets_of_blocks(num_blocks: int, ends: Sequence[Sequence[int]]) -> list[list[int]]:
    nets: list[list[int]] = [[] for _ in range(num_blocks)]
    for e, blocks in enumerate(ends):
        for b in blocks:
            nets[b].append(e)
    return nets


def cost_of_order(order: Sequence[int] | IntArray, ends: Sequence[Sequence[int]]) -> float:
    """Return the sum of 2^(blocks that bear an open net) over all positions."""
    nets = _nets_of_blocks(len(order), ends)
    left = [len(e) for e in ends]
    open_of = [0] * len(nets)
    bearing = 0
    cost = 0.0
    for b in order:
        for e in nets[b]:
            left[e] -= 1
            if left[e]:
                open_of[b] += 1
            else:
                for c in ends[e]:
                    if c != b:
                        open_of[c] -= 1
                        bearing -= open_of[c] == 0
        bearing += open_of[b] > 0
        cost += 2.0 ** min(bearing, MOST_BEARING)
    return cost


def _greedy_order(
    nets: Sequence[Sequence[int]],
    ends: Sequence[tuple[int, ...]],
    start: int,
    before: Sequence[Sequence[int]],
    check: Callable[[], object],
) -> list[int]:
    """Return an order from a block on: next comes the block that leaves the fewest nets open, of those of open nets."""
    n = len(nets)
    left = [len(e) for e in ends]
    opened = [False] * len(ends)
    placed = [False] * n
    waits_for = [len(row) for row in before] or [0] * n
    after: list[list[int]] = [[] for _ in range(n)]
    for c, row in enumerate(before):
        for u in row:
            after[u].append(c)
    touched: dict[int, int] = {}
    order: list[int] = []
    b: int | None = start
    while b is not None:
        check()
        placed[b] = True
        touched.pop(b, None)
        order.append(b)
        for c in after[b]:
            waits_for[c] -= 1
        for e in nets[b]:
            left[e] -= 1
            if not opened[e]:
                opened[e] = True
                for c in ends[e]:
                    if not placed[c]:
                        touched[c] = len(order)
        free = [c for c in touched if not waits_for[c]]
        if free:
            b = min(
                free,
                key=lambda c: (
                    sum((not opened[e]) - (left[e] == 1) for e in nets[c]),
                    -touched[c],
                    c,
                ),
            )
        else:
            rest = (c for c in range(n) if not placed[c])
            b = min(rest, key=lambda c: (waits_for[c] > 0, c), default=None)
    return order


def _with_best_windows(
    order: IntArray,
    nets: Sequence[Sequence[int]],
    ends: Sequence[Sequence[int]],
    before: Sequence[Sequence[int]],
    check: Callable[[], object],
) -> IntArray:
    """Return the order with windows in their best order, until none can be bettered or MOST_ROUNDS are over."""
    order = order.copy()
    sizes = np.array([len(e) for e in ends], np.int64)
    flat = (*_flat(nets), sizes, *_flat(before or [()] * len(nets)))
    is_due = np.ones((len(order) + STEP - 1) // STEP, np.bool_)
    for _ in range(MOST_ROUNDS):
        check()
        if not is_due.any():
            break
        _order_windows(order, *flat, is_due)
    return order


def _flat(rows: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return the rows one behind the other, after where each begins."""
    begin = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    return begin, np.array([x for row in rows for x in row], np.int32)


@njit(cache=True, nogil=True)
def _order_windows(order, net_begin, net, net_size, before_begin, before, is_due):
    """Put every window that is due into its best order, in place; due are then those that overlap one that changed."""
    n = order.size
    open_ends = net_size.copy()  # of each net, blocks that are not placed yet
    in_window = np.full(n, -1, np.int64)
    mask_of = np.zeros(open_ends.size, np.int64)  # of each net of the window, which of its blocks are ends
    cost = np.empty(1 << WINDOW)
    least = np.empty(1 << WINDOW)
    last = np.empty(1 << WINDOW, np.int64)
    for k in range(is_due.size):
        start = k * STEP
        size = min(WINDOW, n - start)
        if is_due[k]:
            is_due[k] = False
            blocks = order[start : start + size].copy()
            for i in range(size):
                in_window[blocks[i]] = i
            _subset_costs(order[:start], blocks, open_ends, mask_of, net_begin, net, cost)
            needs = np.zeros(size, np.int64)
            for i in range(size):
                for j in range(before_begin[blocks[i]], before_begin[blocks[i] + 1]):
                    if in_window[before[j]] >= 0:
                        needs[i] |= 1 << in_window[before[j]]
            full = (1 << size) - 1
            least[0] = 0.0
            for subset in range(1, full + 1):
                least[subset] = np.inf
                for i in range(size):
                    rest = subset & ~(1 << i)
                    if rest != subset and not needs[i] & ~rest and least[rest] < least[subset]:
                        least[subset] = least[rest]
                        last[subset] = i
                least[subset] += cost[subset]
            now = 0.0
            for i in range(size):
                now += cost[(1 << (i + 1)) - 1]
            if least[full] < now * (1 - 1e-12):
                subset = full
                for i in range(size - 1, -1, -1):
                    order[start + i] = blocks[last[subset]]
                    subset &= ~(1 << last[subset])
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
def _subset_costs(placed, blocks, open_ends, mask_of, net_begin, net, cost):
    """Fill cost[S] = 2^(blocks that bear an open net once S, of the blocks of the window, follows what is placed)."""
    size = blocks.size
    for i in range(size):
        for j in range(net_begin[blocks[i]], net_begin[blocks[i] + 1]):
            mask_of[net[j]] |= 1 << i
    # What bears nets of the window alone is told by one mask: the blocks of the window that close all of them.
    always = 0
    closing = np.empty(placed.size + size, np.int64)
    num_closing = 0
    for b in placed:
        bears, mask = _closed_by(b, open_ends, mask_of, net_begin, net)
        if bears:
            always += 1
        elif mask:
            closing[num_closing] = mask
            num_closing += 1
    own = np.empty(size, np.int64)
    own_always = np.zeros(size, np.bool_)
    for i in range(size):
        own_always[i], own[i] = _closed_by(blocks[i], open_ends, mask_of, net_begin, net)
    for subset in range(1 << size):
        bearing = always
        for j in range(num_closing):
            bearing += (closing[j] & ~subset) != 0
        for i in range(size):
            bearing += subset >> i & 1 and (own_always[i] or (own[i] & ~subset) != 0)
        cost[subset] = 2.0 ** min(bearing, MOST_BEARING)
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
