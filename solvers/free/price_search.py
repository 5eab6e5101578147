"""The best prices of blocks for a proof at a threshold T: cutting planes within a box, on ever finer groups of blocks.

`solvers.free.column_generation` says what prices prove. The best ones solve, over all contents S within T of an
accelerator of each kind g (k_g of them) and all y in [0, 1]^n with sum_b q_b y_b <= l T for the CPUs,

    maximise  sum_b price_b - theta   subject to   price(S) <= z_g,   sum_g k_g z_g = 1,   price(y) <= theta,

and a value above 1 is the proof. Contents and y are found one after the other: each round solves the program with those
known, and prices that exceed what they may on other contents make these known (Kelley 1960, the dual of column
generation). Two things keep prices from jumping between extremes, of which there are as many as blocks:

* A box. Prices move by at most a share of what they are around the best ones known (Marsten, Hogan and Blankenship,
  "The boxstep method for large-scale optimization", Operations Research 1975). The box moves where prices prove more,
  widens where the program was right about them, and shrinks where it was not.
* Groups. Prices first change for groups of blocks that are neighbours in the order of the diagram, so that a program
  has a few variables; then each group is divided in two, until every block is one (cf. Elhallaoui et al., "Dynamic
  aggregation of set-partitioning constraints in column generation", Operations Research 2005). Prices of groups are
  prices of blocks, so every round proves what it proves.
"""

import math
from collections.abc import Callable

import numpy as np

from solvers.free.column_generation import SETS_PER_ROUND, BoolArray, Certificate, DeviceContents
from solvers.free.pricing import EXACT, GAP, Dearest
from solvers.milp.highs import CuttingPlanes
from solvers.problem.contraction import FloatArray, IntArray

FIRST_GROUPS = 32
"""Groups to begin with; their number doubles."""

EFFORTS = (*range(EXACT + 1), EXACT)
"""Efforts of pricing, tried in turn until contents are found that the program did not know."""
LOOK_AGAIN = 8
"""They are tried from the least one again after so many rounds, and else from the one that found something."""

ROUNDS_OF_GROUPS = 60
"""Rounds with the same groups after which they are divided in any case."""

ENOUGH_OF_GROUPS, ENOUGH = 4e-3, 1e-7
"""The most that prices of groups, or of blocks, may still promise to gain when it is not worth another round."""

FIRST_RADIUS, LEAST_RADIUS, LARGEST_RADIUS = 0.5, 0.01, 4.0
"""The box: prices move by this share of their size, or of LEAST_SIZE of the average one."""
LEAST_SIZE, UNLIMITED = 0.2, 1e3
FACTOR_SIZE = 0.2
"""The factor of all prices counts as this large."""
GOOD_SHARE = 0.5
"""The box widens after a round that gained this share of what its program promised."""
FUTILE_ROUNDS = 5
"""The box shrinks after so many rounds in turn that gained nothing."""

MOST_CUTS = 600
"""Contents known before that enter a new program, those dearest first."""

START_EFFORT = 3
"""Effort for the prices to begin with."""

ASCENT_EFFORTS, NEARLY = (1, 2), 0.998
"""Efforts of the ascent: the first that proves so large a share of what START_EFFORT does."""
ASCENT_TARGET, ASCENT_GAIN, ASCENT_ROUNDS = 1.03, 1e-4, 120
"""It aims at this ratio, counts a round as futile that gained less, and ends after so many in any case."""
ASCENT_PATIENCE, MOST_FUTILE, LEAST_STEP = 20, 100, 0.01
"""Rounds without a better ratio after which steps of the ascent get shorter, and after which it ends."""

PROGRAM_SECONDS = 1.0
"""A linear program that takes longer ends the attempt: nothing can be reported while it runs."""

LARGEST_GAP, GAP_SHARE = 0.01, 0.1
"""Pricing is as exact as this share of what the program promises to gain."""

MOST_BESIDE, BESIDE_EFFORT = 7, 2
"""Contents of so many further devices are sought in a round, with this effort at most."""

ROUNDING = 1e-9
"""Contents whose price exceeds z by no more are none that the program did not know."""

MARGIN = 1e-8
"""A program whose value is above 1 by less promises no proof."""


def best_prices(
    contents: DeviceContents, threshold_ms: float, start: FloatArray, proceed: Callable[[Certificate], bool]
) -> tuple[bool | None, Certificate]:
    """Look for prices that prove a threshold out of reach; return the outcome and the best certificate.

    True: proven. False: no prices prove it. None: `proceed`, which is called often with the best certificate so far,
    said to stop, or a linear program took too long.
    """
    best, dearest = contents.certify(start, threshold_ms, START_EFFORT)
    paid = contents.paid(dearest)
    if best.ratio > 1 or not 0 < paid < math.inf:
        return (True if best.ratio > 1 else None), best
    contents.take(dearest, threshold_ms)
    best, paid = _ascended(contents, threshold_ms, best, paid, proceed)
    if best.ratio > 1:
        return True, best
    n = len(start)
    order = np.empty(n, np.int32)
    order[contents.order] = np.arange(n, dtype=np.int32)
    # Blocks without a price take part in the changes of their group too.
    share = np.abs(start) + 1e-3 * max(float(np.abs(start).mean()), 1e-300)
    num_groups = min(FIRST_GROUPS, n)
    group = _first_groups(order, share, num_groups)
    while True:
        is_last = len(np.unique(group)) == n
        search = _Rounds(contents, threshold_ms, best, paid, group, share, is_last)
        outcome, best = search.run(proceed)
        paid = search.paid
        if outcome is True or is_last or not proceed(best) or search.has_failed:
            return outcome, best
        group = _divided(group, order, share)


def _ascended(
    contents: DeviceContents,
    threshold_ms: float,
    best: Certificate,
    paid: float,
    proceed: Callable[[Certificate], bool],
) -> tuple[Certificate, float]:
    """Raise the ratio by deflected subgradients (Polyak 1969) while that is quick; return prices and what is paid.

    Steps cost little, so this is the better way where few of them are enough.
    """
    quick = (e for e in ASCENT_EFFORTS if contents.certify(best.price, threshold_ms, e)[0].ratio >= NEARLY * best.ratio)
    effort = next(quick, None)
    if effort is None:
        return best, paid
    price, direction = best.price, np.zeros(len(best.price))
    step, futile = 0.5, 0
    for _ in range(ASCENT_ROUNDS):
        if best.ratio > 1 or step < LEAST_STEP or futile >= MOST_FUTILE or not proceed(best):
            break
        certificate, dearest = contents.certify(price, threshold_ms, effort)
        pays = contents.paid(dearest)
        if not 0 < pays < math.inf:
            break
        futile = 0 if certificate.ratio > best.ratio + ASCENT_GAIN else futile + 1
        if certificate.ratio > best.ratio:
            best, paid = certificate, pays
        contents.take(dearest, threshold_ms)
        price = price / pays  # so that the accelerators pay 1
        if futile and futile % ASCENT_PATIENCE == 0:
            step *= 0.7
            price = best.price / paid
        gradient = 1.0 - contents.paid_by_cpus(price, threshold_ms)[1]
        for count, kind in zip(contents.counts, dearest, strict=True):
            gradient -= count * kind.sets[0]
        direction = 0.7 * direction + gradient
        price = price + step * (ASCENT_TARGET - certificate.ratio) / (direction @ direction + 1e-9) * direction
    return best, paid


def _first_groups(place: IntArray, share: FloatArray, count: int) -> IntArray:
    """Return the group of each block: `count` groups of neighbours with about the same share."""
    in_order = np.argsort(place)
    upto = np.cumsum(share[in_order])
    group = np.empty(len(place), np.int32)
    group[in_order] = np.minimum((upto / upto[-1] * count).astype(np.int32), count - 1)
    return np.asarray(np.unique(group, return_inverse=True)[1])


def _divided(group: IntArray, place: IntArray, share: FloatArray) -> IntArray:
    """Return the groups with each of several blocks divided in two, at half its share."""
    finer = np.empty_like(group)
    count = 0
    for g in range(int(group.max()) + 1):
        blocks = np.flatnonzero(group == g)
        blocks = blocks[np.argsort(place[blocks])]
        upto = np.cumsum(share[blocks])
        middle = int(np.clip(np.searchsorted(upto, 0.5 * upto[-1]), 1, max(1, len(blocks) - 1)))
        finer[blocks[:middle]] = count
        finer[blocks[middle:]] = count + 1
        count += 2 if len(blocks) > middle else 1
    return finer


class _Rounds:
    """Rounds with one division into groups.

    Prices are f x base + delta_group x part, with the best prices known as the base. The variables of the program are
    the deltas, then f, then z of each kind, then theta.
    """

    def __init__(
        self,
        contents: DeviceContents,
        threshold_ms: float,
        best: Certificate,
        paid: float,
        group: IntArray,
        share: FloatArray,
        is_last: bool,
    ) -> None:
        self._contents, self._threshold_ms, self._best, self.paid = contents, threshold_ms, best, paid
        self._group, self._is_last = group, is_last
        self.has_failed = False
        counts = contents.counts
        groups = int(group.max()) + 1
        self._part = share / np.bincount(group, share, groups)[group]
        self._kinds = len(counts)
        self._effort, self._num_looks = 0, 0
        self._entered: set[tuple[int, bytes]] = set()
        self._base = best.price / paid
        self._center = np.concatenate([np.zeros(groups), [1.0]])
        size = np.abs(np.bincount(group, self._base, groups))
        self._size = np.maximum(size, LEAST_SIZE * max(float(size.mean()), 1e-300))
        infinite = np.full(groups, math.inf)
        self._program = CuttingPlanes(
            gain=np.concatenate([np.ones(groups), [float(self._base.sum())], np.zeros(self._kinds), [-1.0]]),
            lower=np.concatenate([-infinite, np.zeros(1 + self._kinds + 1)]),
            upper=np.concatenate([infinite, np.full(1 + self._kinds + 1, math.inf)]),
        )
        z = np.arange(groups + 1, groups + 1 + self._kinds, dtype=np.int32)
        self._program.add_row(1.0, 1.0, z, np.array(counts, np.float64))
        known = [(g, row) for (g, _), (row, load) in contents.columns.items() if load <= threshold_ms]
        dear = np.argsort([-float(self._base[row].sum()) for _, row in known], kind="stable")
        for i in dear[: MOST_CUTS + 2 * groups].tolist():
            self._enter(*known[i])
        self._add_cpus(contents.paid_by_cpus(self._base, threshold_ms)[1])

    def run(self, proceed: Callable[[Certificate], bool]) -> tuple[bool | None, Certificate]:
        """Go on until there is a proof, nothing more to gain, or `proceed` says to stop."""
        radius, futile = FIRST_RADIUS, 0
        enough = ENOUGH if self._is_last else ENOUGH_OF_GROUPS
        rounds = 0
        while proceed(self._best) and (self._is_last or rounds < ROUNDS_OF_GROUPS):
            rounds += 1
            solved = self._solve(radius)
            if solved is None:
                self.has_failed = True
                break
            promised, x, is_free = solved
            if self._is_last and promised <= 1 + MARGIN and (is_free or self._is_hopeless()):
                return False, self._best
            if promised <= self._best.ratio + enough:
                if is_free or radius >= LARGEST_RADIUS:
                    break
                radius *= 2
                continue
            before = self._best.ratio
            gap = min(LARGEST_GAP, max(GAP, GAP_SHARE * (promised - before)))
            has_new, gained = self._look(x, gap)
            if self._best.ratio > 1:
                return True, self._best
            if gained:
                futile = 0
                if self._best.ratio - before > GOOD_SHARE * (promised - before):
                    radius = min(LARGEST_RADIUS, 1.5 * radius)
            else:
                futile += 1
                if futile % FUTILE_ROUNDS == 0:
                    radius = max(LEAST_RADIUS, 0.6 * radius)
                if not has_new:
                    break
        return None, self._best

    def _solve(self, radius: float) -> tuple[float, FloatArray, bool] | None:
        """Return the promised value, all variables, and whether the box keeps none; None if it took too long."""
        groups = len(self._size)
        size = np.append(self._size, FACTOR_SIZE)
        low, high = self._center - radius * size, self._center + radius * size
        low[-1] = max(0.0, low[-1])
        self._program.set_bounds(low, high)
        solved = self._program.solve(PROGRAM_SECONDS)
        if solved is None:
            return None
        value, x = solved
        near = 1e-6 * size
        is_free = ((x[: groups + 1] > low + near) & (x[: groups + 1] < high - near)).all()
        return value, x, bool(is_free)

    def _is_hopeless(self) -> bool:
        """Whether prices anywhere promise no proof."""
        solved = self._solve(UNLIMITED)
        return solved is not None and solved[0] <= 1 + MARGIN

    def _look(self, x: FloatArray, gap: float) -> tuple[bool, bool]:
        """Price the program's solution; return whether it met what exceeds it, and whether it proves more."""
        groups = len(self._size)
        solution, z, theta = x[: groups + 1], x[groups + 1 : -1], float(x[-1])
        price = solution[-1] * self._base + solution[:-1][self._group] * self._part
        gained = has_new = False
        first = 0 if self._num_looks % LOOK_AGAIN == 0 else self._effort
        self._num_looks += 1
        for i, effort in enumerate(EFFORTS[first:], start=first):
            self._effort = i
            # Before it is said that there is nothing, pricing is as exact as it can be.
            exactly = GAP if i == len(EFFORTS) - 1 else gap
            floors = z * (1 + 0.5 * exactly)
            certificate, dearest = self._contents.certify(price, self._threshold_ms, effort, exactly, floors)
            has_new |= self._enter_all(dearest, price, z)
            if certificate.ratio > self._best.ratio:
                self._best, gained = certificate, True
                self.paid = self._contents.paid(dearest)
                self._center = solution / self.paid
            if gained or has_new:
                break
        if has_new:
            self._look_beside(dearest, price, z, min(effort, BESIDE_EFFORT), gap)
        paid, part = self._contents.paid_by_cpus(price, self._threshold_ms)
        if paid > theta + ROUNDING:
            self._add_cpus(part)
            has_new = True
        return has_new, gained

    def _look_beside(self, dearest: list[Dearest], price: FloatArray, z: FloatArray, effort: int, gap: float) -> None:
        """Enter contents for the other devices too, of blocks that those found so far leave: they tell far more."""
        left = price.copy()
        for _ in range(min(MOST_BESIDE, sum(self._contents.counts) - 1)):
            for kind in dearest:
                left[kind.sets[0] & (left > 0)] = 0.0
            dearest = self._contents.dearest(left, self._threshold_ms, effort, gap)
            if not self._enter_all(dearest, price, z):
                break

    def _enter_all(self, dearest: list[Dearest], price: FloatArray, z: FloatArray) -> bool:
        """Remember contents, and add rows for those that exceed z; say whether there are such."""
        self._contents.take(dearest, self._threshold_ms)
        has_new = False
        for g, kind in enumerate(dearest):
            for row in kind.sets[kind.loads <= self._threshold_ms][:SETS_PER_ROUND]:
                has_new |= float(price[row].sum()) > z[g] + ROUNDING and self._enter(g, row)
        return has_new

    def _enter(self, kind: int, contents: BoolArray) -> bool:
        """Add the row price(S) - z <= 0; say whether it is new."""
        key = kind, np.packbits(contents).tobytes()
        if key in self._entered:
            return False
        self._entered.add(key)
        groups = len(self._size)
        row = np.zeros(groups + 1)
        row[:groups] = np.bincount(self._group[contents], self._part[contents], groups)
        row[groups] = self._base[contents].sum()
        self._add(row, groups + 1 + kind)
        return True

    def _add_cpus(self, part: FloatArray) -> None:
        """Add the row price(y) - theta <= 0."""
        groups = len(self._size)
        row = np.zeros(groups + 1)
        row[:groups] = np.bincount(self._group, self._part * part, groups)
        row[groups] = self._base @ part
        self._add(row, groups + 1 + self._kinds)

    def _add(self, row: FloatArray, minus: int) -> None:
        index = np.flatnonzero(row).astype(np.int32)
        coefficients = np.append(row[index], -1.0)
        self._program.add_row(-math.inf, 0.0, np.append(index, minus).astype(np.int32), coefficients)
