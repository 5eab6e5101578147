"""Which blocks depend on each block, as bit sets that end where all later blocks depend on it, or none does.

Blocks are in topological order, so that only later ones depend on a block. Of a long narrow network all of them do, but
for some close behind: rows of a matrix would hold n^2 / 8 bytes of ones.
"""

from typing import NamedTuple

import numpy as np

from solvers.chain.bit_sets import ALL, lowest_bit, words_for
from solvers.chain.compiled import compiled
from solvers.chain.ending import Ending
from solvers.problem.contraction import FloatArray, IntArray

FIRST_WORDS = 1024
"""About so many words there is room for at first, if not those of a whole row; it doubles when it is full."""


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
def stop_of(rows, b):
    """Return the number of the word from which on the row of block b is empty."""
    if rows.tail[b] != np.uint64(0):
        return rows.num_words
    return (b >> 6) + rows.end[b] - rows.begin[b]


@compiled
def _fill(successor_ptr, successor_idx, rows, b, used, stopped):
    """Fill the rows from block b down to 0, as far as there is room; return the next block, and the words in use.

    Ends early, too, when `stopped[0]` is set from another thread.
    """
    while b >= 0 and not stopped[0]:
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


def descendants_of(
    successor_ptr: IntArray, successor_idx: IntArray, max_bytes: int, stopped: np.ndarray
) -> Descendants | Ending:
    """Return the blocks that depend on each block; compressed rows of successors, in topological order.

    What ended it if that takes more than `max_bytes`, or if `stopped[0]` was set from another thread.
    """
    n = successor_ptr.size - 1
    num_words = words_for(n)
    # A size that doubles to what there may be: while it grows, half as much again is in use.
    most = max_bytes // 8
    doublings = max(0, most.bit_length() - max(FIRST_WORDS, num_words).bit_length())
    rows = Descendants(
        begin=np.zeros(n, np.int64),
        end=np.zeros(n, np.int64),
        tail=np.zeros(n, np.uint64),
        words=np.zeros(most >> doublings, np.uint64),
        num_words=num_words,
        last=np.uint64((1 << (n - 64 * (num_words - 1))) - 1) if n else ALL,
    )
    b, used = _fill(successor_ptr, successor_idx, rows, n - 1, 0, stopped)
    while b >= 0 and not stopped[0]:
        if not doublings:
            return Ending.MEMORY
        doublings -= 1
        words = np.zeros(most >> doublings, np.uint64)
        words[:used] = rows.words[:used]
        rows = rows._replace(words=words)
        b, used = _fill(successor_ptr, successor_idx, rows, b, used, stopped)
    return Ending.STOPPED if b >= 0 else rows._replace(words=rows.words[:used])


@compiled
def _add_rows(rows, work, work_of_word, work_from_word, total, stopped):
    for b in range(total.size):
        if stopped[0]:
            return
        first = b >> 6
        stop = first + rows.end[b] - rows.begin[b]
        if rows.tail[b] != np.uint64(0):
            total[b] += work_from_word[stop]
        for w in range(first, stop):
            word = rows.words[rows.begin[b] + w - first]
            if word == ALL:
                total[b] += work_of_word[w]
                continue
            while word != np.uint64(0):
                total[b] += work[(w << 6) + lowest_bit(word)]
                word &= word - np.uint64(1)


def work_by_word(work: FloatArray) -> FloatArray:
    """Return the work of the blocks of each word."""
    return np.add.reduceat(work, np.arange(0, work.size, 64))


def depending_work(rows: Descendants, work: FloatArray, stopped: np.ndarray) -> FloatArray:
    """Return for each block the work of all that depend on it, itself included; less where `stopped[0]` is set."""
    of_word = work_by_word(work)
    from_word = np.append(np.cumsum(of_word[::-1])[::-1], 0.0)
    total = np.zeros(work.size)
    _add_rows(rows, work, of_word, from_word, total, stopped)
    return total
