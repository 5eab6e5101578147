"""The ideals a chain search has found, with the best value of every state: a table that compiled kernels fill.

An ideal is a row: its blocks as a bit set, its key, and for every state (j, c), that is j accelerators and c CPUs in
use, a value and where it came from. Rows are found in an open-addressing hash table by an incremental 128-bit key, the
exclusive-or of its blocks' random keys. Two different ideals share a key with probability below n_ideals^2 / 2^129,
less than that of a memory error. Memory is O(ideals x states).
"""

from typing import NamedTuple

import numpy as np

from solvers.chain.bit_sets import words_for
from solvers.chain.compiled import compiled
from solvers.chain.stage_kernel import NO_STATE
from solvers.problem.contraction import FloatArray, IntArray


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
    counters: np.ndarray  # int64: rows, row being expanded + 1, its size, steps
    stop: np.ndarray  # uint8 (1,): set from another thread


def bytes_per_row(num_blocks: int, num_states: int) -> int:
    """Return the size of one ideal in a table, its share of the hash table included."""
    return 8 * words_for(num_blocks) + 2 * 8 + 2 * 4 + 12 * num_states + 4 * 4


def new_table(num_blocks: int, num_states: int, capacity: int, stop: np.ndarray | None = None) -> IdealTable:
    """Return a table that holds the empty ideal and has room for `capacity`; `stop` is its flag, if not a new one."""
    table = IdealTable(
        blocks=np.zeros((capacity, words_for(num_blocks)), np.uint64),
        key=np.zeros((capacity, 2), np.uint64),
        size=np.zeros(capacity, np.int32),
        next_of_size=np.full(capacity, NO_STATE, np.int32),
        value=np.full((capacity, num_states), np.inf),
        origin=np.full((capacity, num_states), NO_STATE, np.int32),
        slots=np.full(_slots_for(capacity), NO_STATE, np.int32),
        first_of_size=np.full(num_blocks + 1, NO_STATE, np.int32),
        counters=np.zeros(4, np.int64),
        stop=np.zeros(1, np.uint8) if stop is None else stop,
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


@compiled
def _rehash(slots, key, rows):
    mask = np.uint64(slots.size - 1)
    for row in range(rows):
        s = key[row, 0] & mask
        while slots[s] != NO_STATE:
            s = (s + np.uint64(1)) & mask
        slots[s] = row
