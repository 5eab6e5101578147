"""The layers of a diagram of contents while it is built: what the nodes of one become by the next block.

A state, a row of a table (nodes, columns), tells a node what matters of the past: of each net across the position
whether its decided ends are all outside, all inside, or divided, and of each block that a later one reads from whether
it is inside, or outside behind a block inside (`solvers.free.patterns`). Compiled, so that a search in another thread
goes on meanwhile.
"""

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.problem.contraction import IntArray

OUTSIDE, INSIDE, DIVIDED = 0, 1, 2

COLUMNS_IN_A_WORD = 32


@njit(cache=True, nogil=True)
def decided(states, nets, weight_ms, begins, read, own, passes, kept, accelerator_ms):
    """Return the states after one more block, of all nodes with it outside, then inside, and the lengths of both in ms.

    `nets` are the columns of nets with an end in this block, with their weights, and which begin with it. `read` are
    the columns of blocks it reads from, `own` is its own, or -1; it is behind a block inside if it `passes` paths on.
    Columns that are not `kept` are left out of the states. Where it may not join the arc is infinitely long.
    """
    size, num_columns = states.shape
    after = np.empty((2 * size, kept.size), np.uint8)
    length = np.zeros((size, 2))
    row = np.empty(num_columns, np.uint8)
    for a in range(size):
        is_behind = comes_back = False
        for j in read:
            is_behind |= states[a, j] != OUTSIDE
            comes_back |= states[a, j] == DIVIDED
        for x in range(2):
            if x == INSIDE and comes_back:
                length[a, x] = np.inf
                after[size + a] = after[a]  # wherever it leads
                continue
            row[:] = states[a]
            if x == INSIDE:
                length[a, x] = accelerator_ms
            for i in range(nets.size):
                j = nets[i]
                if begins[i]:
                    row[j] = x
                elif row[j] == 1 - x:
                    length[a, x] += weight_ms[i]
                    row[j] = DIVIDED
            if own >= 0:
                row[own] = INSIDE if x == INSIDE else DIVIDED if is_behind and passes else OUTSIDE
            for i in range(kept.size):
                after[x * size + a, i] = row[kept[i]]
    return after, length


def distinct(rows: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], IntArray]:
    """Return the distinct ones of states (rows, columns) as they are met, and for each row the number of its like.

    >>> states, number = distinct(np.array([[1, 2], [0, 0], [1, 2]], np.uint8))
    >>> states.tolist(), number.tolist()
    ([[1, 2], [0, 0]], [0, 1, 0])
    """
    met, number = _distinct(np.ascontiguousarray(rows))  # one layout, so that it is compiled once
    return rows[met], number


@njit(cache=True, nogil=True)
def _distinct(rows):
    """Return which rows are the first of their kind, and the number of each row's kind."""
    size, num_columns = rows.shape
    num_words = (num_columns + COLUMNS_IN_A_WORD - 1) // COLUMNS_IN_A_WORD
    words = np.zeros((size, num_words), np.uint64)
    capacity = 2
    while capacity < 2 * size:
        capacity *= 2
    table = np.full(capacity, -1, np.int32)  # of kinds, with open addressing
    met = np.empty(size, np.int32)
    number = np.empty(size, np.int32)
    count = 0
    for a in range(size):
        for j in range(num_columns):
            w = j // COLUMNS_IN_A_WORD
            words[a, w] = words[a, w] << np.uint64(2) | np.uint64(rows[a, j])
        place = np.uint64(0)
        for w in range(num_words):
            place = (place ^ words[a, w]) * np.uint64(0x9E3779B97F4A7C15)
            place ^= place >> np.uint64(32)  # places are of the lower half, which then knows of the upper
        s = np.int64(place & np.uint64(capacity - 1))
        while table[s] >= 0:
            b = met[table[s]]
            is_same = True
            for w in range(num_words):
                is_same &= words[a, w] == words[b, w]
            if is_same:
                break
            s = (s + 1) & (capacity - 1)
        if table[s] < 0:
            table[s] = count
            met[count] = a
            count += 1
        number[a] = table[s]
    return met[:count].copy(), number
