"""Branches of a proof with CPUs: splits whose CPUs have some blocks, and have not some others.

Prices prove a threshold for all splits at once, and where CPUs may have a part of each block of a region that is too
much for them there are none that do (`solvers.free.price_search`): the same region is on the CPUs in one split and on
accelerators in another, and their average is cheaper than each. So splits are divided by whether CPUs have a certain
block, of which they have a part there. A threshold that is proven for every branch is proven, and the bound is the
least of theirs (branch and price: Barnhart et al., Operations Research 1998). One block often decides for a region,
since to cut it would take transfers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.free.cpu_share import BoolArray, CpuShare
from solvers.problem.contraction import FloatArray

PATIENCE, FURTHER_ROUNDS = 15, 45
"""A search stalls if, with the gain of so many rounds, more than so many further ones would not bring a proof."""

LEAST_PROMISE = 0.93
"""A threshold is too far away if a search comes to less of it."""
LEAST_SEARCHES = 4
"""So many searches of a tree say nothing of its pace."""

LEAST_PART = 1e-3
"""A block of which CPUs have less than this part, or all but this, is no reason to divide."""


@dataclass(slots=True, eq=False)
class Branch:
    """Splits whose CPUs have the blocks of `has` and none of `lacks`; what is known of them.

    No such split is within `bound_ms`, and `price`, per block, may prove more. A search at the threshold `searched_ms`,
    for these splits or for more, came to the ratio `promise`.
    """

    has: BoolArray
    lacks: BoolArray
    price: FloatArray
    failed_price: FloatArray
    """That of the last search without a proof: at every lower threshold it proves at least as much of it."""
    bound_ms: float
    searched_ms: float = 0.0
    promise: float = 0.0
    is_settled: bool = True
    """Whether it is known that the price proves no more than the bound."""

    @classmethod
    def of_all(cls, price: FloatArray, bound_ms: float) -> "Branch":
        """Return the branch of all splits."""
        nothing = np.zeros(len(price), np.bool_)
        return cls(nothing, nothing, price, price, bound_ms)

    def promise_at(self, threshold_ms: float) -> float:
        """Return the ratio that a search at this threshold came to; 0 where there was none."""
        return self.promise if self.searched_ms == threshold_ms else 0.0

    def divided(self, block: int) -> tuple["Branch", "Branch"]:
        """Return the splits whose CPUs have this block, and those whose have not: each split is one of them."""
        is_block = np.arange(len(self.has)) == block
        return replace(self, has=self.has | is_block), replace(self, lacks=self.lacks | is_block)


def block_to_divide_by(cpus: CpuShare, on_cpus: FloatArray) -> int | None:
    """Return the block with the most CPU time that is as well on the CPUs as not; None if all are clearly on one side.

    `on_cpus` is about which part of each block CPUs have in the best solution by parts.
    """
    unclear = np.minimum(on_cpus, 1 - on_cpus)
    unclear[cpus.has | cpus.lacks | (unclear < LEAST_PART) | ~np.isfinite(cpus.cpu_ms)] = 0.0
    weight = unclear * np.where(unclear > 0, cpus.cpu_ms, 0.0)
    return int(np.argmax(weight)) if weight.any() else None


def stalls(ratios: Sequence[float]) -> bool:
    """Say whether the best ratio of each round so far shows that there will be no proof soon.

    >>> stalls([0.8, *[0.9] * 20]), stalls([0.8 + 0.01 * i for i in range(20)]), stalls([0.5])
    (True, False, False)
    """
    if len(ratios) <= PATIENCE:
        return False
    gained = ratios[-1] - ratios[-1 - PATIENCE]
    return (1 - ratios[-1]) * PATIENCE > gained * FURTHER_ROUNDS


class Pace:
    """How fast the least promise of all branches rises at a threshold."""

    def __init__(self, seconds_left: Callable[[], float]) -> None:
        """Begin when `suffices` is asked for the first time."""
        self._seconds_left = seconds_left
        self._begun_s: float | None = None
        self._first, self._count = 0.0, 0

    def suffices(self, promise: float) -> bool:
        """Say whether at this pace the least promise, as a share of the threshold, gets to 1 in the time left."""
        left = self._seconds_left()
        if self._begun_s is None:
            self._begun_s, self._first = left, promise
        self._count += 1
        is_slow = (1 - promise) * (self._begun_s - left) > (promise - self._first) * left
        return self._count < LEAST_SEARCHES or not is_slow
