"""The ideals a chain search has found, with the best value of every state: a table that compiled kernels fill.

An ideal is a row: its blocks as a bit set, its key, and for every state (j, c), that is j accelerators and c CPUs in
use, a value and where it came from. Rows are found in an open-addressing hash table by an incremental 128-bit key, the
exclusive-or of its blocks' random keys. Two different ideals share a key with probability below n_ideals^2 / 2^129,
less than that of a memory error. Memory is O(ideals x states).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.contraction import FloatArray, IntArray

FINISHED, FULL, STOPPED, TOO_MANY = 0, 1, 2, 3
"""Outcomes of filling a table: done, it must grow, the stop flag was set, it reached its limit."""

NO_STATE = -1
RELATIVE_SLACK = 1e-9
"""Sums of the same times in another order differ by less; thresholds are widened by it so that no chain is lost."""


class IdealTable(NamedTuple):
    """The ideals found so far. Row i describes one; the flat index of state (j, c) is j (l+1) + c."""

    blocks: np.ndarray  # uint64 (capacity, words)
    key: np.ndarray  # uint64 (capacity, 2)
    size: IntArray
    next_of_size: IntArray
    value: FloatArray  # (capacity, states)
    origin: IntArray  # (capacity, states): where the best value comes from, in the terms of the kernel
    slots: IntArray  # hash table of rows
    first_of_size: IntArray  # (n+1,)
    counters: np.ndarray  # int64: rows, row being expanded + 1, its size
    stop: np.ndarray  # uint8 (1,): set from another thread


def bytes_per_row(num_blocks: int, num_states: int) -> int:
    """Return the size of one ideal in a table, its share of the hash table included."""
    return 8 * words_for(num_blocks) + 2 * 8 + 2 * 4 + 12 * num_states + 4 * 4


def words_for(num_blocks: int) -> int:
    """Return how many 64-bit words hold a set of blocks."""
    return (num_blocks + 63) // 64


def new_table(num_blocks: int, num_states: int, capacity: int) -> IdealTable:
    """Return a table that holds the empty ideal and has room for `capacity` of them."""
    table = IdealTable(
        blocks=np.zeros((capacity, words_for(num_blocks)), np.uint64),
        key=np.zeros((capacity, 2), np.uint64),
        size=np.zeros(capacity, np.int32),
        next_of_size=np.full(capacity, NO_STATE, np.int32),
        value=np.full((capacity, num_states), np.inf),
        origin=np.full((capacity, num_states), NO_STATE, np.int32),
        slots=np.full(_slots_for(capacity), NO_STATE, np.int32),
        first_of_size=np.full(num_blocks + 1, NO_STATE, np.int32),
        counters=np.zeros(3, np.int64),
        stop=np.zeros(1, np.uint8),
    )
    table.first_of_size[0] = 0
    table.counters[0] = 1
    table.value[0, 0] = 0.0
    table.slots[0] = 0
    return table


def grown_table(table: IdealTable, capacity: int) -> IdealTable:
    """Return the same table with room for `capacity` ideals."""
    rows = int(table.counters[0])

    def longer(array: np.ndarray, fill: float) -> np.ndarray:
        result = np.full((capacity, *array.shape[1:]), fill, array.dtype)
        result[:rows] = array[:rows]
        return result

    slots = np.full(_slots_for(capacity), NO_STATE, np.int32)
    _rehash(slots, table.key, rows)
    return table._replace(
        blocks=longer(table.blocks, 0),
        key=longer(table.key, 0),
        size=longer(table.size, 0),
        next_of_size=longer(table.next_of_size, NO_STATE),
        value=longer(table.value, np.inf),
        origin=longer(table.origin, NO_STATE),
        slots=slots,
    )


def _slots_for(capacity: int) -> int:
    """At most half of the slots are ever used, and their number is a power of two."""
    return 1 << (2 * capacity - 1).bit_length()


@njit(cache=True, nogil=True)
def _rehash(slots, key, rows):
    mask = np.uint64(slots.size - 1)
    for row in range(rows):
        s = key[row, 0] & mask
        while slots[s] != NO_STATE:
            s = (s + np.uint64(1)) & mask
        slots[s] = row


_DE_BRUIJN = 0x03F79D71B4CB0A89
_BIT_OF_PRODUCT = np.zeros(64, np.int64)
for _i in range(64):
    _BIT_OF_PRODUCT[(((1 << _i) * _DE_BRUIJN) & (2**64 - 1)) >> 58] = _i


@njit(cache=True, nogil=True)
def holds(blocks, row, v):
    """Whether the ideal in `row` holds block v."""
    return (blocks[row, v >> 6] >> np.uint64(v & 63)) & np.uint64(1) != np.uint64(0)


@njit(cache=True, nogil=True)
def leave_out(v, depth, descendants, work, dead, dead_work):
    """Put block v and all that depend on it out of reach of the stage at `depth`."""
    added = 0.0
    for w in range(dead.shape[1]):
        fresh = descendants[v, w] & ~dead[depth, w]
        dead[depth, w] |= fresh
        while fresh != np.uint64(0):
            low = fresh & (~fresh + np.uint64(1))
            fresh ^= low
            added += work[(w << 6) + _BIT_OF_PRODUCT[(low * np.uint64(_DE_BRUIJN)) >> np.uint64(58)]]
    dead_work[depth] += added


@njit(cache=True, nogil=True)
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
