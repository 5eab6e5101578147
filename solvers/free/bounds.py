"""Lower bounds on the max-load of free splits, from cheap to strong, while a search improves the plan.

Every bound is a threshold T that is proven out of reach:

1. Merging blocks that must be together below T until one is too heavy (`solvers.free.min_cuts`), by bisection.
2. Prices equal to the work of blocks: the most work one device can hold within T (`solvers.free.column_generation`).
3. The best prices at a T below the value of the best plan, over the merged blocks: first half way between what is
   proven and the plan until these are close, then ever closer to the plan. Where there are CPUs splits are divided by
   which blocks these have, as far as prices prove no more (`solvers.free.branches`). What cannot be proven, or takes
   too long, is left for a lower T.

Prices, contents and branches of one threshold are a start at the next: all are kept per block of the original
contraction.

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

from solvers.free.branches import LEAST_PROMISE, Branch, Pace, block_to_divide_by, stalls
from solvers.free.column_generation import QUICK_EFFORT, Certificate, Certified, DeviceContents
from solvers.free.cpu_share import BoolArray
from solvers.free.merged_blocks import MergedBlocks, Prices
from solvers.free.min_cuts import colocated, merged
from solvers.free.patterns import Paths
from solvers.free.price_search import START_EFFORT, Found, best_prices
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.problem.accelerator_kinds import blocks_on_the_best_of_all_classes
from solvers.problem.bounds import block_work
from solvers.problem.contraction import Contraction, FloatArray

MAX_BLOCKS_FOR_CUTS = 2000
"""Minimum cuts between all neighbours take too long beyond."""

BISECTIONS = 6
TARGET_GAPS = (0.0095, 0.003, 0.001, 0.0002, 0.00001, 5e-7)
"""Gaps between plan and bound to prove, one after the other."""

LEAST_RISE = 0.1
"""A threshold above the bound by less than this share of the gap that is aimed at is not tried."""

LEAST_SHARE = 1e-3
"""A threshold below this share of the plan's value is not tried: from a bound of zero halving would hardly end."""

FAR = 4.0
"""Where bound and plan are so many times as far apart as is aimed at, the first threshold is half way between them.

Prices that prove it are the better ones to begin the next with; one close to the plan may take all its time in vain.
"""

FIRST_SHARE, LARGEST_SHARE = 0.3, 0.8
"""Share of the time left for an attempt at one threshold, which doubles when all thresholds were tried; the next one is
half as far from the bound where that was too short."""

SETTLING_EFFORT = 3
"""Effort of pricing for what prices prove in the end; the next threshold is a better test of them than more."""

FEW_BLOCKS = 128
"""Up to so many blocks prices are found by column generation, beyond by `solvers.free.price_search`."""

FEW_MORE = 1.1
"""So many times as many blocks are as good as those that merging more would leave."""

ROUNDS_BETWEEN_BOUNDS = 40
"""Rounds after which better prices are turned into a bound at a lower threshold."""

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
        self._work: FloatArray = finite if finite.sum() > 0 else np.ones(contraction.num_blocks)
        self._branches = [Branch.of_all(self._work, lower_bound_ms)]
        self._columns: list[tuple[int, BoolArray, float]] = []
        self._blocks: MergedBlocks | None = None  # those of the last threshold
        self._merged_from_ms = math.inf  # the least threshold at which merging more was not worth another diagram
        self.prices: Prices | None = None
        """The best prices, of all splits, for plans made from them in another thread."""
        self._watch: Watch = _always  # that of whoever asks now; what is kept between calls asks it, too

    def raise_by_cuts(self, value_ms: float, watch: Watch) -> None:
        """Bisect for the largest threshold at which merging ends in a block that no device can take."""
        self._watch = watch
        if self._contraction.num_blocks > MAX_BLOCKS_FOR_CUTS or not value_ms > self.lower_bound_ms:
            return
        low, high = self.lower_bound_ms, value_ms
        threshold = high
        for _ in range(BISECTIONS):
            try:
                reduced = self._merged(threshold)
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
        self._watch = watch
        if watch() and self._deployment.num_accelerators:
            try:
                blocks = self._blocks_below(value_ms, value_ms)
                if blocks is None:
                    self._raise(value_ms)
                    return
                work = blocks.summed(self._work)
                self._raise_to(blocks.contents.provable_thresholds(work, self.lower_bound_ms, value_ms, watch))
            except _StoppedError:
                return

    def num_nodes(self, watch: Watch) -> int | None:
        """Return how many nodes the diagrams have that prices look through; None where told to stop.

        They are far more, and bounds come later, where convex sets are hard to tell from others.
        """
        self._watch = watch
        try:
            blocks = self._blocks or self._blocks_below(math.inf, math.inf)
        except _StoppedError:
            return None
        return None if blocks is None else blocks.contents.num_nodes

    def raise_by_prices(
        self, value_ms: Callable[[], float], gap: float, watch: Watch, seconds_left: Callable[[], float]
    ) -> None:
        """Look for prices until the gap is proven, none can prove more, or time is up."""
        self._watch = watch
        if not self._deployment.num_accelerators:
            return  # the bound of total work is as good without them
        last = max(0.99 * gap, TARGET_GAPS[-1])
        targets = (*(g for g in TARGET_GAPS if g > last), last)
        share = FIRST_SHARE
        failed_ms, was_short = math.inf, False  # the threshold that was not proven, and whether for want of time
        low_before = -math.inf  # when all thresholds were tried last
        while watch():
            low, value = self.lower_bound_ms, value_ms()
            target = next((g for g in targets if value * (1 - g) > low * (1 + LEAST_RISE * g)), None)
            if target is None:
                break
            threshold = min(value * (1 - target), 0.5 * (low + failed_ms))
            if value - low > FAR * target * value:
                threshold = min(threshold, 0.5 * (low + value))
            if threshold <= max(low * (1 + LEAST_RISE * target), LEAST_SHARE * value):
                if not was_short or (share == LARGEST_SHARE and low == low_before):
                    break
                failed_ms, was_short, share, low_before = math.inf, False, min(LARGEST_SHARE, 2 * share), low
                continue
            attempt = _until((1 - share) * seconds_left(), watch, seconds_left)
            try:
                proven = self._prove(threshold, value, _while_below(threshold, value_ms, attempt), seconds_left)
            except _StoppedError:
                proven = None
            if not (proven is True or value_ms() <= threshold):
                failed_ms, was_short = threshold, proven is None

    def _prove(
        self, threshold_ms: float, value_ms: float, attempt: Watch, seconds_left: Callable[[], float]
    ) -> bool | None:
        """Look for a proof of a threshold below a plan; False if there is none, and None if it takes too long."""
        blocks = self._blocks_below(threshold_ms, value_ms)
        if blocks is None:
            self._raise(threshold_ms)
            return True
        blocks.hand_down(self._columns)
        outcome = self._prove_branches(blocks, threshold_ms, attempt, seconds_left)
        self._settle(blocks, threshold_ms)
        self._columns = [(g, row[blocks.parts], load) for (g, _), (row, load) in blocks.contents.columns.items()]
        return outcome

    def _blocks_below(self, threshold_ms: float, value_ms: float) -> MergedBlocks | None:
        """Return blocks that no split below a threshold divides; None where there is no such split.

        The lower the threshold, the more are merged. Since a diagram of what devices can hold takes seconds, those that
        no split below the plan divides, or those known, are kept where there are few more of them.
        """
        known = self._blocks
        if known is not None and self._merged_from_ms <= threshold_ms <= known.below_ms:
            return known
        if self._paths is not None:  # which are known of the blocks themselves only
            contents = DeviceContents(self._contraction, self._deployment, self._check, self._paths)
            if not contents.forgets_paths:
                parts = np.arange(self._contraction.num_blocks, dtype=np.int32)
                self._blocks, self._merged_from_ms = MergedBlocks(contents, parts, math.inf), 0.0
                return self._blocks
            self._paths = None  # the diagram is too wide to tell convex sets from others
        reduced, below_ms = self._merged(threshold_ms), threshold_ms
        if reduced is None:
            return None
        if known is None or threshold_ms > known.below_ms or not _are_few_more(known.num_blocks, reduced):
            of_plan = self._merged(value_ms) if value_ms > threshold_ms else None
            if of_plan is not None and _are_few_more(of_plan[0].num_blocks, reduced):
                reduced, below_ms = of_plan, value_ms
            contents = DeviceContents(reduced[0], self._deployment, self._check)
            known = MergedBlocks(contents, np.array(reduced[1], np.int32), below_ms)
        self._blocks, self._merged_from_ms = known, threshold_ms
        return known

    def _prove_branches(
        self, blocks: MergedBlocks, threshold_ms: float, attempt: Watch, seconds_left: Callable[[], float]
    ) -> bool | None:
        """Look for a proof of each branch, that of the least promise first, and divide those of which there is none."""
        pace = Pace(seconds_left)
        while left := [branch for branch in self._branches if branch.bound_ms < threshold_ms]:
            branch = min(left, key=lambda branch: (branch.promise_at(threshold_ms), branch.bound_ms))
            least = branch.promise_at(threshold_ms)
            if not attempt() or (least > 0 and not pace.suffices(least)):
                return None
            found = self._search(branch, blocks, threshold_ms, attempt)
            if found.outcome is True or not attempt():
                continue
            block = block_to_divide_by(blocks.within(branch).cpus, found.on_cpus)
            if block is None:
                return found.outcome
            if found.best.ratio < LEAST_PROMISE:
                return None
            if len(self._branches) == 1:
                self._raise_branch(branch, blocks.contents, found.best.price, threshold_ms, QUICK_EFFORT)
            self._branches.remove(branch)
            self._branches += branch.divided(self._longest_part(blocks, block))
        return True

    def _longest_part(self, blocks: MergedBlocks, merged_block: int) -> int:
        """Return the part of a merged block that takes a CPU longest.

        Where CPUs have it they have all of the merged block, below the threshold of its merging. Splits above that may
        divide it, and have to be in a branch, too.
        """
        parts = np.flatnonzero(blocks.parts == merged_block)
        return int(parts[np.argmax(self._contraction.cpu_ms[parts])])

    def _search(self, branch: Branch, blocks: MergedBlocks, threshold_ms: float, attempt: Watch) -> Found:
        """Look for prices that prove a threshold for a branch, until that is not likely to come soon; keep the best."""
        within = blocks.within(branch)
        is_whole = not (branch.has.any() or branch.lacks.any())
        ends_if_it_stalls = False
        ratios: list[float] = []
        bounded_ratio = 0.0

        def proceed(certificate: Certificate) -> bool:
            nonlocal bounded_ratio
            ratios.append(certificate.ratio)
            provable_ms = certificate.ratio * threshold_ms
            known = self.prices
            if is_whole and (known is None or known.parts is not blocks.parts or known.provable_ms < provable_ms):
                self.prices = Prices(within, certificate.price, blocks.parts, provable_ms)
            if len(ratios) % ROUNDS_BETWEEN_BOUNDS == 0 and certificate.ratio > bounded_ratio:
                bounded_ratio = certificate.ratio
                self._raise_branch(branch, within, certificate.price, threshold_ms, QUICK_EFFORT)
            return attempt() and not (ends_if_it_stalls and stalls(ratios))

        known = self._start(branch, blocks, threshold_ms)
        start = known[0].price
        found: Found | None = None
        if len(start) <= FEW_BLOCKS:
            outcome, best = within.prove(threshold_ms, start, proceed)
            found = Found(outcome, best, np.zeros(len(start)))
            start = best.price
        if found is None or (found.outcome is not True and within.cpus.num_cpus and attempt()):
            ends_if_it_stalls = within.cpus.num_cpus > 0
            ratios.clear()
            found = best_prices(within, threshold_ms, start, proceed, known if found is None else None)
            if found.outcome is None and attempt() and block_to_divide_by(within.cpus, found.on_cpus) is None:
                ends_if_it_stalls = False
                found = best_prices(within, threshold_ms, found.best.price, proceed)
        branch.price = blocks.shared_out(found.best.price)
        branch.searched_ms, branch.promise, branch.is_settled = threshold_ms, found.best.ratio, False
        if found.outcome is True:
            branch.bound_ms, branch.is_settled = threshold_ms, True
        else:
            branch.failed_price = branch.price
        return found

    def _start(self, branch: Branch, blocks: MergedBlocks, threshold_ms: float) -> Certified:
        """Return the prices to begin with, per merged block: those that prove most at this threshold."""
        within = blocks.within(branch)
        prices = [branch.price] if branch.failed_price is branch.price else [branch.price, branch.failed_price]
        certified = [within.certify(blocks.summed(price), threshold_ms, START_EFFORT) for price in prices]
        return max(certified, key=lambda one: one[0].ratio)

    def _settle(self, blocks: MergedBlocks, threshold_ms: float) -> None:
        """Raise the bound as far as the prices of branches prove it, up to a threshold."""
        while True:
            branch = min(self._branches, key=lambda branch: branch.bound_ms)
            self._raise(branch.bound_ms)
            if branch.is_settled or branch.bound_ms >= threshold_ms or not self._watch():
                break
            price = blocks.summed(branch.price)
            self._raise_branch(branch, blocks.within(branch), price, threshold_ms, SETTLING_EFFORT)
            branch.is_settled = True

    def _raise_branch(
        self,
        branch: Branch,
        within: DeviceContents,
        price: FloatArray,
        threshold_ms: float,
        effort: int,
    ) -> None:
        """Raise the bound of a branch, and that of all, as far as these prices prove it, up to a threshold."""
        low_ms = max(branch.bound_ms, self.lower_bound_ms)
        for proven_ms in within.provable_thresholds(price, low_ms, threshold_ms, self._watch, effort):
            branch.bound_ms = proven_ms
            self._raise(min(branch.bound_ms for branch in self._branches))

    def _merged(self, threshold_ms: float) -> tuple[Contraction, list[int]] | None:
        if self._contraction.num_blocks > MAX_BLOCKS_FOR_CUTS or math.isinf(threshold_ms):
            return self._contraction, list(range(self._contraction.num_blocks))
        reduced = colocated(self._easier, self._identical, threshold_ms, self._check)
        if reduced is None or not self._deployment.classes:
            return reduced
        return merged(self._contraction, reduced[1], self._deployment.communication)

    def _check(self) -> None:
        if not self._watch():
            raise _StoppedError

    def _raise_to(self, thresholds_ms: Iterable[float]) -> None:
        for threshold_ms in thresholds_ms:
            self._raise(threshold_ms)

    def _raise(self, threshold_ms: float) -> None:
        self.lower_bound_ms = max(self.lower_bound_ms, threshold_ms)


def _are_few_more(num_blocks: int, reduced: tuple[Contraction, list[int]]) -> bool:
    return num_blocks <= FEW_MORE * reduced[0].num_blocks


def _always() -> bool:
    return True


def _while_below(threshold_ms: float, value_ms: Callable[[], float], watch: Watch) -> Watch:
    """Return a watch that also ends when a plan within the threshold is known."""
    return lambda: value_ms() > threshold_ms and watch()


def _until(left: float, watch: Watch, seconds_left: Callable[[], float]) -> Watch:
    """Return a watch that also ends when only `left` seconds are left."""
    return lambda: watch() and seconds_left() > left
