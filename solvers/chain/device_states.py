"""States of a chain: how many devices of each kind its stages have used, written as one number.

With c_g devices of kind g, of which CPUs are the last, a state is the number sum_g used_g * stride_g with
stride_g = (c_{g+1} + 1) * ... * (c_last + 1): all states, from none used to all used, are 0, 1, 2, ...
"""

import math
from collections.abc import Sequence

import numpy as np

from solvers.problem.contraction import IntArray

MAX_STRIDE = 2**31 - 1

MAX_STATES = 100_000
"""Mixes of devices of several kinds of which there are more leave no room for ideals."""


def num_states(counts: Sequence[int]) -> int:
    """Return how many states there are for these numbers of devices of each kind."""
    return math.prod(count + 1 for count in counts)


def device_states(counts: Sequence[int], most: int | None = None) -> tuple[IntArray, IntArray]:
    """Return the stride of each kind, shape (kinds,), and what is used in each state, shape (states, kinds).

    Where there are more than `most` states, none is written down, and strides too large for an int32 are cut off.

    >>> stride, used = device_states((2, 1))
    >>> stride.tolist(), used.tolist()
    ([2, 1], [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    """
    states = num_states(counts)
    if most is not None and states > most:
        states = 0
    strides = [min(num_states(counts[g + 1 :]), MAX_STRIDE) for g in range(len(counts))]
    stride, available = np.array(strides, np.int32), np.array(counts, np.int32)
    return stride, (np.arange(states)[:, None] // stride % (available + 1)).astype(np.int32)
