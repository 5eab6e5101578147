"""Lower bounds on the max-load of free splits, from cheap to strong, while a search improves the plan.

Every bound is a threshold T that is proven out of reach:

1. Merging blocks that must be together below T until one is too heavy (`solvers.free.min_cuts`), by bisection.
2. Prices equal to the work of blocks: the most work one device can hold within T (`solvers.free.column_generation`).
3. The best prices at a T just below the value of the best plan, over the merged blocks: first one per cent below, then
   ever closer. If no prices prove that, or time is short, at a lower T, from which the next one begins.

Prices and contents of one threshold are a start at the next: both are kept per block of the original contraction.

Where accelerators are of several classes merging takes all of them for the best in every respect, which is valid for
each; work and prices know every class and its number.

Communication that overlaps with compute or is full duplex is relaxed to the sum of smaller terms: compute alone is at
most max(compute, transfers), and compute + (in + out) / 2 at most compute + max(in, out). The bounds hold for convex
and chain splits too, which are free splits. Where splits must be convex only convex sets are priced, which are far
fewer: bounds are better and come sooner. Graphs so wide that paths would have to be forgotten get the bounds of free
splits.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from solvers.free.column_generation import BoolArray, Certificate, DeviceContents
from solvers.free.filling import Prices
from solvers.free.min_cuts import colocated, merged
from solvers.free.patterns import Paths
from solvers.free.price_search import best_prices
from solvers.free.pricing import EXACT
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.problem.accelerator_kinds import blocks_on_the_best_of_all_classes
from solvers.problem.bounds import block_work
from solvers.problem.contraction import Contraction, FloatArray

MAX_BLOCKS_FOR_CUTS = 2000
"""Minimum cuts between all neighbours take too long beyond."""

BISECTIONS = 10
TARGET_GAPS = (0.01, 0.003, 0.001, 0.0002, 0.00001, 5e-7)
"""Gaps between plan and bound to prove, one after the other."""

LEAST_SHARE = 1e-3
"""A threshold below this share of the plan's value is not tried: from a bound of zero halving would hardly end."""

FIRST_SHARE, LARGEST_SHARE = 0.15, 0.6
"""Share of the time left for an attempt at one threshold; it doubles where that was too short."""
LEAST_PART = 0.125
"""And the next threshold is half as far from the bound, but at least this part of the way to what is to be proven."""

ROUNDS_BETWEEN_BOUNDS = 40
"""Rounds of column generation after which better prices are turned into a bound at a lower threshold."""

FEW_BLOCKS = 128
"""Up to so many blocks prices are found by column generation, beyond by `solvers.free.price_search`."""

Watch = Callable[[], bool]
"""Called often while bounds are sought; returns whether to go on."""


def additive(contraction: Contraction, communication: Communication) -> Contraction:
    """Return a contraction whose loads, compute + transfers, are at most those under `communication`."""
    if communication is Communication.SUM:
        return contraction
    factor = 0.5 if communication is Communication.FULL_DUPLEX else 0.0
    halved = tuple(replace(h, weight_ms=factor * h.weight_ms) for h in contraction.hyperedges) if factor else ()
    return replace(contraction, hyperedges=halved)


class _StoppedError(Exception):
    """The watch said to stop."""


class FreeBounds:
    """The bound so far and what helps to raise it."""

    def __init__(
        self,
        contraction: Contraction,
        deployment: Deployment,
        lower_bound_ms: float,
        convex_in: DnnGraph | None = None,
    ) -> None:
        """Start from a bound that is known; bounds hold for the convex splits of a graph alone if it is given."""
        self._paths = None if convex_in is None else Paths.of(contraction, convex_in)
        self._contraction = additive(contraction, deployment.communication)
        self._deployment = deployment
        self._easier, self._identical = blocks_on_the_best_of_all_classes(self._contraction, deployment)
        self.lower_bound_ms = lower_bound_ms
        work = contraction.accelerator_ms
        if deployment.classes:
            present = [i for i, c in enumerate(deployment.classes) if c.count]
            count = np.array([deployment.classes[i].count for i in present])
            on_some = block_work(contraction.class_ms[present], count)
            work = np.where(np.isfinite(work), on_some, np.inf)
        finite = np.where(np.isfinite(work), work, contraction.cpu_ms)
        self._price: FloatArray = finite if finite.sum() > 0 else np.ones(contraction.num_blocks)
        self._work = self._price
        self._columns: list[tuple[int, BoolArray, float]] = []
        self._held: tuple[np.ndarray, DeviceContents] | None = None  # of the blocks merged so
        self.prices: Prices | None = None
        """The best prices at the threshold tried last, for plans made from them in another thread."""

    def raise_by_cuts(self, value_ms: float, watch: Watch) -> None:
        """Bisect for the largest threshold at which merging ends in a block that no device can take."""
        if self._contraction.num_blocks > MAX_BLOCKS_FOR_CUTS or not value_ms > self.lower_bound_ms:
            return
        low, high = self.lower_bound_ms, value_ms
        threshold = high
        for _ in range(BISECTIONS):
            try:
                reduced = self._merged(threshold, watch)
            except _StoppedError:
                return
            if reduced is None:
                low = threshold
                self._raise(threshold)
            else:
                high = threshold
            threshold = 0.5 * (low + high)

    def raise_by_work(self, value_ms: float, watch: Watch) -> None:
        """Bisect for the largest threshold within which the devices cannot hold all work."""
        if watch() and self._deployment.num_accelerators:
            try:
                contents = self._contents(self._contraction, watch)
                self._raise_to(contents.provable_thresholds(self._work, self.lower_bound_ms, value_ms, watch))
            except _StoppedError:
                return

    def raise_by_prices(
        self, value_ms: Callable[[], float], gap: float, watch: Watch, seconds_left: Callable[[], float]
    ) -> None:
        """Look for prices until the gap is proven, none can prove more, or time is up."""
        if not self._deployment.num_accelerators:
            return  # the bound of total work is as good without them
        last = max(0.99 * gap, TARGET_GAPS[-1])
        targets = (*(g for g in TARGET_GAPS if g > last), last)
        ceiling = math.inf
        part, share = 1.0, FIRST_SHARE
        while watch():
            low, value = self.lower_bound_ms, value_ms()
            target = next((g for g in targets if value * (1 - g) > low), None)
            if target is None:
                break
            threshold = min(low + part * (value * (1 - target) - low), 0.5 * (low + ceiling))
            if threshold <= max(low * (1 + 0.1 * target), LEAST_SHARE * value):
                break
            attempt = _until((1 - share) * seconds_left(), watch, seconds_left)
            try:
                proven = self._prove(threshold, _while_below(threshold, value_ms, attempt), watch)
            except _StoppedError:
                proven = None
            if proven is True or value_ms() <= threshold:
                part, share = min(1.0, 2 * part), FIRST_SHARE
            elif attempt():  # there was time for more
                ceiling = threshold
            else:
                part, share = max(LEAST_PART, 0.5 * part), min(LARGEST_SHARE, 2 * share)

    def _prove(self, threshold_ms: float, attempt: Watch, watch: Watch) -> bool | None:
        # Paths are known of the blocks themselves only.
        reduced = self._merged(threshold_ms, watch) if self._paths is None else self._unmerged()
        if reduced is None:
            self._raise(threshold_ms)
            return True
        contraction, block_of = reduced
        parts = np.array(block_of)
        knows_paths = self._paths is not None
        if self._held is None or not np.array_equal(self._held[0], parts):
            contents = self._contents(contraction, watch)
            if knows_paths and self._paths is None:
                return self._prove(threshold_ms, attempt, watch)  # on merged blocks
            self._held = parts, contents
        contents = self._held[1]
        self._hand_down(contents, parts)
        rounds = 0
        bounded_ratio = 0.0

        def proceed(certificate: Certificate) -> bool:
            nonlocal rounds, bounded_ratio
            rounds += 1
            provable_ms = certificate.ratio * threshold_ms
            if self.prices is None or self.prices.contents is not contents or self.prices.provable_ms < provable_ms:
                self.prices = Prices(contents, certificate.price, parts, provable_ms)
            if rounds % ROUNDS_BETWEEN_BOUNDS == 0 and certificate.ratio > bounded_ratio:
                bounded_ratio = certificate.ratio
                low_ms = self.lower_bound_ms
                self._raise_to(contents.provable_thresholds(certificate.price, low_ms, threshold_ms, watch))
            return attempt()

        start: FloatArray = np.bincount(parts, self._price, contraction.num_blocks).astype(np.float64)
        if contraction.num_blocks <= FEW_BLOCKS:
            outcome, best = contents.prove(threshold_ms, start, proceed)
        else:
            outcome, best = best_prices(contents, threshold_ms, start, proceed)
        if outcome is True:
            self._raise(threshold_ms)
        elif best.ratio * threshold_ms > self.lower_bound_ms and watch():
            low_ms = self.lower_bound_ms
            self._raise_to(contents.provable_thresholds(best.price, low_ms, threshold_ms, watch, EXACT))
        sizes = np.bincount(parts)
        self._price = (best.price / sizes)[parts]
        self._columns = [(g, row[parts], load) for (g, _), (row, load) in contents.columns.items()]
        return outcome

    def _hand_down(self, contents: DeviceContents, parts: np.ndarray) -> None:
        """Give contents known from other thresholds to new ones, where no merged block is divided by them."""
        first = np.unique(parts, return_index=True)[1]
        for g, row, load in self._columns:
            if np.array_equal(row[first][parts], row):
                contents.add(g, row[first], load)

    def _contents(self, contraction: Contraction, watch: Watch) -> DeviceContents:
        """Return what a device can hold: convex sets, until a diagram turns out too wide to tell them from others."""
        contents = DeviceContents(contraction, self._deployment, _checking(watch), self._paths)
        if not contents.forgets_paths:
            return contents
        self._paths, self._columns = None, []
        return DeviceContents(contraction, self._deployment, _checking(watch))

    def _unmerged(self) -> tuple[Contraction, list[int]]:
        return self._contraction, list(range(self._contraction.num_blocks))

    def _merged(self, threshold_ms: float, watch: Watch) -> tuple[Contraction, list[int]] | None:
        if self._contraction.num_blocks > MAX_BLOCKS_FOR_CUTS:
            return self._unmerged()
        reduced = colocated(self._easier, self._identical, threshold_ms, _checking(watch))
        if reduced is None or not self._deployment.classes:
            return reduced
        return merged(self._contraction, reduced[1], self._deployment.communication)

    def _raise_to(self, thresholds_ms: Iterable[float]) -> None:
        for threshold_ms in thresholds_ms:
            self._raise(threshold_ms)

    def _raise(self, threshold_ms: float) -> None:
        self.lower_bound_ms = max(self.lower_bound_ms, threshold_ms)


def _checking(watch: Watch) -> Callable[[], None]:
    """Return a check that raises _StoppedError when the watch says to stop."""

    def check() -> None:
        if not watch():
            raise _StoppedError

    return check


def _while_below(threshold_ms: float, value_ms: Callable[[], float], watch: Watch) -> Watch:
    """Return a watch that also ends when a plan within the threshold is known."""
    return lambda: value_ms() > threshold_ms and watch()


def _until(left: float, watch: Watch, seconds_left: Callable[[], float]) -> Watch:
    """Return a watch that also ends when only `left` seconds are left."""
    return lambda: watch() and seconds_left() > left
