"""Which blocks depend on each block, as bit sets that end where all later blocks depend on it, or none does.

Blocks are in topological order, so that only later ones depend on a block. Of a long narrow network all of them do, but
for some close behind: rows of a matrix would hold n^2 / 8 bytes of ones.
"""

from typing import NamedTuple

import numpy as np

from solvers.chain.compiled import compiled
from solvers.problem.contraction import IntArray

ALL = ~np.uint64(0)

FIRST_WORDS = 1024
"""Words there is room for at first; it doubles when it is full."""


class Descendants(NamedTuple):
    """The blocks that depend on each of n blocks, itself included.

    Row b has the words of 64 blocks from number b // 64 on that `words` holds from begin[b] up to end[b]; all words
    after them, but for the bits of blocks that there are not, are tail[b].
    """

    begin: np.ndarray  # int64 (n,)
    end: np.ndarray  # int64 (n,)
    tail: np.ndarray  # uint64 (n,): no bit or all bits
    words: np.ndarray  # uint64
    num_words: int  # of a whole row
    last: np.uint64  # the bits of the last word that are blocks


@compiled
def word_of(rows, b, w):
    """Return word number w of the row of block b, none before its first."""
    i = rows.begin[b] + w - (b >> 6)
    if i < rows.begin[b]:
        return np.uint64(0)
    if i < rows.end[b]:
        return rows.words[i]
    return rows.tail[b] & rows.last if w == rows.num_words - 1 else rows.tail[b]


@compiled
def _fill(successor_ptr, successor_idx, rows, b, used):
    """Fill the rows from block b down to 0, as far as there is room; return the next block, and the words in use."""
    while b >= 0:
        first = b >> 6
        tail = np.uint64(0)
        longest, shortest = first + 1, rows.num_words  # of rows that end in zeros, and in ones
        for i in range(successor_ptr[b], successor_ptr[b + 1]):
            a = successor_idx[i]
            stop = (a >> 6) + rows.end[a] - rows.begin[a]
            if rows.tail[a] == np.uint64(0):
                longest = max(longest, stop)
            else:
                shortest = min(shortest, stop)
                tail = ALL
        stop = max(first + 1, shortest) if tail else longest
        if used + stop - first > rows.words.size:
            break
        for w in range(first, stop):
            word = np.uint64(1) << np.uint64(b & 63) if w == first else np.uint64(0)
            for i in range(successor_ptr[b], successor_ptr[b + 1]):
                word |= word_of(rows, successor_idx[i], w)
            rows.words[used + w - first] = word
        if stop == rows.num_words:
            tail = ALL if rows.words[used + stop - 1 - first] == rows.last else np.uint64(0)
        while stop > first + 1:
            whole = tail & rows.last if stop == rows.num_words else tail
            if rows.words[used + stop - 1 - first] != whole:
                break
            stop -= 1
        rows.begin[b], rows.end[b], rows.tail[b] = used, used + stop - first, tail
        used += stop - first
        b -= 1
    return b, used


def descendants_of(successor_ptr: IntArray, successor_idx: IntArray) -> Descendants:
    """Return the blocks that depend on each block; compressed rows of successors, in topological order."""
    n = successor_ptr.size - 1
    num_words = (n + 63) // 64
    rows = Descendants(
        begin=np.zeros(n, np.int64),
        end=np.zeros(n, np.int64),
        tail=np.zeros(n, np.uint64),
        words=np.zeros(max(FIRST_WORDS, num_words), np.uint64),
        num_words=num_words,
        last=np.uint64((1 << (n - 64 * (num_words - 1))) - 1) if n else ALL,
    )
    b, used = _fill(successor_ptr, successor_idx, rows, n - 1, 0)
    while b >= 0:
        rows = rows._replace(words=np.concatenate([rows.words, np.zeros_like(rows.words)]))
        b, used = _fill(successor_ptr, successor_idx, rows, b, used)
    return rows._replace(words=rows.words[:used].copy())
