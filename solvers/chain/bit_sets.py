"""Sets of blocks as bits of 64-bit words, for the kernels of the chain solver."""

import numpy as np

from solvers.chain.compiled import compiled

ALL = ~np.uint64(0)

_DE_BRUIJN = 0x03F79D71B4CB0A89
_BIT_OF_PRODUCT = np.zeros(64, np.int64)
for _i in range(64):
    _BIT_OF_PRODUCT[(((1 << _i) * _DE_BRUIJN) & (2**64 - 1)) >> 58] = _i


def words_for(num_blocks: int) -> int:
    """Return how many words hold a set of blocks."""
    return (num_blocks + 63) // 64


@compiled
def lowest_bit(word):
    """Return the number of the lowest bit that is set in a word."""
    return _BIT_OF_PRODUCT[((word & (~word + np.uint64(1))) * np.uint64(_DE_BRUIJN)) >> np.uint64(58)]
