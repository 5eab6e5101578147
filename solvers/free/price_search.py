"""The best prices of blocks for a proof at a threshold T: cutting planes, from the nearest point that may be better.

`solvers.free.column_generation` says what prices prove. The best ones solve, over all contents S within T of an
accelerator of each kind g (k_g of them) and all y in [0, 1]^n with sum_b q_b y_b <= l T for the CPUs,

    maximise  sum_b price_b - theta   subject to   price(S) <= z_g,   sum_g k_g z_g = 1,   price(y) <= theta,

and a value above 1 is the proof. Contents and y are found one after the other: prices that exceed what they may on
other contents make these known. The optimum of the program with those known (Kelley 1960, the dual of column
generation) jumps between extremes, of which there are as many as blocks. So the next prices are those nearest to the
best ones known at which the program is worth a level between what is proven and what is wanted: a level bundle method
(Lemaréchal, Nemirovskii and Nesterov, "New variants of bundle methods", Mathematical Programming 1995). Near is
measured relative to the size of prices, so that a block counts for as much as its parts would. The level comes down
where it led to nothing, and up where it led to better prices. When many rounds in turn led to nothing the program
itself is solved: it says whether prices can prove the threshold at all.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from solvers.free.column_generation import SETS_PER_ROUND, Certificate, Certified, DeviceContents
from solvers.free.cpu_share import BoolArray
from solvers.free.pricing import EXACT, GAP, Dearest
from solvers.free.projection import Rows, project
from solvers.milp.highs import CuttingPlanes
from solvers.problem.contraction import FloatArray, IntArray

EFFORTS = (*range(EXACT + 1), EXACT)
"""Efforts of pricing, tried in turn until contents are found that the program did not know."""
LOOK_AGAIN = 8
"""They are tried from the least one again after so many rounds, and else from the one that found something."""

START_EFFORT = 3
"""Effort for the prices to begin with."""

WANTED = 1.002
"""The ratio that is aimed at: a proof, by a margin for what a projection leaves open."""
FIRST_STEP, LEAST_STEP, LARGEST_STEP = 0.5, 0.02, 1.0
"""The level is this share of the way from the best ratio to the one wanted."""
LONGER, SHORTER = 1.3, 0.7
"""What the step is multiplied by after a round that gained, or after FUTILE_ROUNDS in turn that did not."""
FUTILE_ROUNDS = 5
BEFORE_PROGRAM = 20
"""The program itself is solved after so many rounds in turn that gained nothing."""

MOST_ROWS, MOST_NUMBERS = 2_000, 8_000_000
"""Rows of the program, and numbers in them; those that held nothing for the longest time make room for others."""
MOST_KNOWN = 2_000
"""Contents known before that may become rows, those dearest first."""
ROWS_AT_ONCE, RECALLS, RECALLED = 20, 5, 1e-4
"""So many of them that exceed z by such a share become rows before the next projection, and so often in a round."""

LEAST_SIZE = 1e-3
"""Prices count as at least this share of the average one in size."""
PRICE_LIMIT = 1e3
"""Prices and what devices pay are at most so large in the program, whose accelerators pay 1 together."""

LATEST_SHARE = 0.2
"""Of the latest projection, in the average of what CPUs have."""

PROGRAM_SECONDS = 1.0
"""A linear program that takes longer is not tried again: nothing can be reported while it runs."""

LARGEST_GAP, GAP_SHARE = 0.01, 0.1
"""Pricing is as exact as this share of what the level is above the best ratio."""

MOST_BESIDE, BESIDE_EFFORT = 7, 1
"""Contents of so many further devices are sought in a round, with this effort at most."""

ROUNDING = 1e-6
"""Contents whose price exceeds z by no more are none that the program did not know: rows are of single precision."""

LEAST_GAIN = 1e-6
"""A round gained something if the ratio rose by more."""

MARGIN = 1e-8
"""A program whose value is above 1 by less promises no proof."""


class Found(NamedTuple):
    """What a search came to, the best certificate, and about which part of each block CPUs have in the program.

    True: proven. False: no prices prove it. None: the search was told to stop, or nothing led any further.
    """

    outcome: bool | None
    best: Certificate
    on_cpus: FloatArray


def best_prices(
    contents: DeviceContents,
    threshold_ms: float,
    start: FloatArray,
    proceed: Callable[[Certificate], bool],
    known: Certified | None = None,
) -> Found:
    """Look for prices that prove a threshold out of reach.

    `proceed` is called often with the best certificate so far; the search ends where it says no. `known` is what the
    prices to start from prove there, if that is known.
    """
    best, dearest = known or contents.certify(start, threshold_ms, START_EFFORT)
    if best.ratio > 1 or not 0 < contents.paid(dearest) < math.inf:
        return Found(True if best.ratio > 1 else None, best, np.zeros(len(start)))
    rounds = _Rounds(contents, threshold_ms, best, dearest)
    outcome = rounds.run(proceed)
    return Found(outcome, rounds.best, rounds.on_cpus)


class _Rounds:
    """The program so far, and the best prices.

    Its variables are the prices, then z of each kind, so that the accelerators pay 1 together; theta is not one of
    them: a row of CPUs says that prices without those of y are worth the level.
    """

    def __init__(
        self, contents: DeviceContents, threshold_ms: float, best: Certificate, dearest: list[Dearest]
    ) -> None:
        self._contents, self._threshold_ms, self.best = contents, threshold_ms, best
        self.on_cpus: FloatArray = np.zeros(len(best.price))
        self._counts = np.array(contents.counts, np.float64)
        self._num_blocks, kinds = len(best.price), len(self._counts)
        self._can_be_solved = True
        variables = self._num_blocks + kinds
        most = max(1, min(MOST_ROWS, MOST_NUMBERS // variables))
        # Pages of these that no row reaches are never touched.
        self._rows: Rows = np.zeros((most, variables), np.float32)
        self._limits = np.zeros(most)
        self._is_of_cpus = np.zeros(most, np.bool_)
        self._multipliers, self._idle_rounds = np.zeros(most), np.zeros(most, np.int64)
        self._keys: list[bytes] = []
        self._entered: set[bytes] = set()
        self._center = np.zeros(variables)
        self._move_to(best.price, dearest)
        size = np.abs(self._center)
        size[: self._num_blocks] += LEAST_SIZE * float(size[: self._num_blocks].mean())
        if kinds == 1:
            size[-1] = 0.0  # z is 1 / k
        else:
            for sign in (1.0, -1.0):
                self._add(np.append(np.zeros(self._num_blocks), sign * self._counts), sign)
        self._size: FloatArray = size / size.sum()
        self._known, self._kind_of_known = self._known_before()
        contents.take(dearest, threshold_ms)
        self._enter_all(dearest, self._center)
        self._enter_cpus(self._center)

    def run(self, proceed: Callable[[Certificate], bool]) -> bool | None:
        """Go on until there is a proof, nothing more to gain, or `proceed` says to stop."""
        step, futile = FIRST_STEP, 0
        while proceed(self.best):
            before = self.best.ratio
            level = before + step * (WANTED - before)
            has_new = self._look(self._projected(level), level)
            if self.best.ratio > 1:
                return True
            if self.best.ratio > before + LEAST_GAIN:
                futile, step = 0, min(LARGEST_STEP, LONGER * step)
                continue
            futile += 1
            # The same level would lead to the same prices where nothing is new.
            can_be_nearer = step > LEAST_STEP
            if futile % FUTILE_ROUNDS == 0 or not has_new:
                step = max(LEAST_STEP, SHORTER * step)
            if (has_new or can_be_nearer) and futile % BEFORE_PROGRAM:
                continue
            solved = self._solve()
            if solved is not None:
                if solved[0] <= 1 + MARGIN:
                    return False
                if solved[0] <= self.best.ratio + LEAST_GAIN:
                    break
                has_new |= self._look(solved[1], solved[0])
                if self.best.ratio > 1:
                    return True
            if not has_new:
                break
        return None

    def _move_to(self, price: FloatArray, dearest: list[Dearest]) -> None:
        """Let what is next be near these prices, scaled so that the accelerators pay 1."""
        self._center = np.append(price, [kind.bound for kind in dearest]) / self._contents.paid(dearest)
        self._multipliers[:] = 0.0

    def _projected(self, level: float) -> FloatArray:
        """Return the nearest variables at which the program is worth the level, as far as its rows are known."""
        x = self._center
        for recall in range(RECALLS + 1):
            count = len(self._keys)
            rows, multipliers = self._rows[:count], self._multipliers[:count]
            limits = np.where(self._is_of_cpus[:count], -level, self._limits[:count]) - rows @ self._center
            x = self._center + project(rows, limits, self._size, multipliers, self._contents.check)
            self._idle_rounds[:count] = np.where(multipliers > 0, 0, self._idle_rounds[:count] + 1)
            if recall == RECALLS or not self._recall(x):
                break
        self._average_cpus()
        return x

    def _average_cpus(self) -> None:
        """Average what CPUs have over the latest projections: multipliers of their rows weigh what these hold."""
        is_of_cpus = self._is_of_cpus[: len(self._keys)]
        weight = self._multipliers[: len(self._keys)][is_of_cpus]
        total = float(weight.sum())
        if total > 0:
            part = 1 + weight @ self._rows[: len(self._keys)][is_of_cpus, : self._num_blocks] / total
            self.on_cpus = LATEST_SHARE * part + (1 - LATEST_SHARE) * self.on_cpus if self.on_cpus.any() else part

    def _known_before(self) -> tuple[Rows, IntArray]:
        """Return the contents that other thresholds made known, as rows of prices, and the kinds they are of."""
        price = self._center[: self._num_blocks]
        known = [(g, row) for (g, _), (row, load) in self._contents.columns.items() if load <= self._threshold_ms]
        most = max(1, min(MOST_KNOWN, MOST_NUMBERS // self._num_blocks))
        dear = np.argsort([-float(price[row].sum()) for _, row in known], kind="stable")[:most].tolist()
        rows = np.array([known[i][1] for i in dear], np.float32).reshape(len(dear), self._num_blocks)
        return rows, np.array([known[i][0] for i in dear], np.int32)

    def _recall(self, x: FloatArray) -> bool:
        """Enter the contents known before that exceed z most; say whether there are such."""
        if not len(self._known):
            return False
        z = x[self._num_blocks :][self._kind_of_known]
        # OpenBLAS now and then reads beyond a row of float32 and says so of what it throws away
        # (https://github.com/numpy/numpy/issues/24067): no number here is without a value.
        with np.errstate(invalid="ignore"):
            excess = self._known @ x[: self._num_blocks].astype(np.float32) - z
        worst = np.argsort(-excess, kind="stable")[:ROWS_AT_ONCE]
        entered = [
            self._enter(int(self._kind_of_known[i]), self._known[i].astype(np.bool_))
            for i in worst.tolist()
            if excess[i] > RECALLED * z[i]
        ]
        return any(entered)

    def _look(self, x: FloatArray, level: float) -> bool:
        """Price the variables, and keep prices that prove more; say whether they met what the program did not know."""
        price, z = x[: self._num_blocks], x[self._num_blocks :]
        gap = min(LARGEST_GAP, max(GAP, GAP_SHARE * (level - self.best.ratio)))
        has_new = has_gained = False
        contents = self._contents
        first = 0 if contents.num_looks % LOOK_AGAIN == 0 else contents.effort
        contents.num_looks += 1
        pricings = contents.pricings(price, self._threshold_ms)
        for i, effort in enumerate(EFFORTS[first:], start=first):
            contents.effort = i
            # Before it is said that there is nothing, pricing is as exact as it can be.
            exactly = GAP if i == len(EFFORTS) - 1 else gap
            if exactly < gap:
                pricings = contents.pricings(price, self._threshold_ms)  # what was found ended at the wider gap
            # What pricing ends at, z by the floor, must be a proof where the level would be one.
            floors = z * (1 + 0.5 * (exactly if level <= 1 else min(exactly, level - 1)))
            certificate, dearest = contents.certify(
                price, self._threshold_ms, effort, exactly, floors, pricings=pricings
            )
            has_new |= self._enter_all(dearest, x)
            if certificate.ratio > self.best.ratio:
                self.best, has_gained = certificate, True
                self._move_to(price, dearest)
            if has_gained or has_new or (effort == EXACT and not _is_exact(dearest, floors, exactly)):
                break
        if has_new:
            self._look_beside(dearest, x, min(effort, BESIDE_EFFORT), gap)
        return self._enter_cpus(x) or has_new

    def _look_beside(self, dearest: list[Dearest], x: FloatArray, effort: int, gap: float) -> None:
        """Enter contents for the other devices too, of blocks that those found so far leave: they tell far more."""
        left = x[: self._num_blocks].copy()
        for _ in range(min(MOST_BESIDE, sum(self._contents.counts) - 1)):
            for kind in dearest:
                left[kind.sets[0] & (left > 0)] = 0.0
            dearest = self._contents.dearest(left, self._threshold_ms, effort, gap)
            if not self._enter_all(dearest, x):
                break

    def _enter_all(self, dearest: list[Dearest], x: FloatArray) -> bool:
        """Remember contents, and add rows for those that exceed z; say whether there are such."""
        self._contents.take(dearest, self._threshold_ms)
        price, z = x[: self._num_blocks], x[self._num_blocks :]
        has_new = False
        for g, kind in enumerate(dearest):
            for row in kind.sets[kind.loads <= self._threshold_ms][:SETS_PER_ROUND]:
                has_new |= float(price[row].sum()) > z[g] + ROUNDING and self._enter(g, row)
        return has_new

    def _enter(self, kind: int, contents: BoolArray) -> bool:
        """Add the row price(S) - z <= 0; say whether it is new."""
        paid = np.zeros(len(self._counts))
        paid[kind] = -1.0
        return self._add(np.append(contents, paid), 0.0)

    def _enter_cpus(self, x: FloatArray) -> bool:
        """Add the row price(y) - sum of prices <= -level of what CPUs hold at these prices; say whether it is new."""
        part = self._contents.cpus.dearest(x[: self._num_blocks], self._threshold_ms)[1]
        return self._add(np.append(part - 1.0, np.zeros(len(self._counts))), None)

    def _add(self, row: FloatArray, limit: float | None) -> bool:
        """Add a row with its limit, or the level, if it is new; say so."""
        single = row.astype(np.float32)
        key = single.tobytes()
        if key in self._entered:
            return False
        if len(self._keys) == len(self._rows):
            self._make_room()
        i = len(self._keys)
        self._keys.append(key)
        self._entered.add(key)
        self._rows[i] = single
        self._limits[i], self._is_of_cpus[i] = limit or 0.0, limit is None
        self._multipliers[i], self._idle_rounds[i] = 0.0, 0
        return True

    def _make_room(self) -> None:
        """Forget the half of the rows that hold nothing, and did not for the longest time."""
        self._idle_rounds[self._limits != 0] = 0  # the sum of z
        kept = np.sort(np.argsort(self._idle_rounds, kind="stable")[: (len(self._keys) + 1) // 2])
        for whole in (self._rows, self._limits, self._is_of_cpus, self._multipliers, self._idle_rounds):
            whole[: len(kept)] = whole[kept]
        self._keys = [self._keys[i] for i in kept.tolist()]
        self._entered = set(self._keys)

    def _solve(self) -> tuple[float, FloatArray] | None:
        """Return the optimum of the program as far as it is known, and its variables; None if that takes too long."""
        if not self._can_be_solved:
            return None
        n, variables = self._num_blocks, self._rows.shape[1]
        gain = np.concatenate([np.ones(n), np.zeros(variables - n), [-1.0]])
        lower = np.append(np.full(n, -PRICE_LIMIT), np.zeros(variables - n + 1))
        program = CuttingPlanes(gain, lower, np.full(variables + 1, PRICE_LIMIT))
        program.add_row(1.0, 1.0, np.arange(n, variables, dtype=np.int32), self._counts)
        for i in range(len(self._keys)):
            row = self._rows[i].astype(np.float64)
            if self._is_of_cpus[i]:
                row[:n] += 1.0
            index = np.flatnonzero(row).astype(np.int32)
            if self._is_of_cpus[i]:
                program.add_row(
                    -math.inf, 0.0, np.append(index, variables).astype(np.int32), np.append(row[index], -1.0)
                )
            else:
                program.add_row(-math.inf, self._limits[i], index, row[index])
        solved = program.solve(PROGRAM_SECONDS)
        self._can_be_solved = solved is not None
        return None if solved is None else (solved[0], solved[1][:variables])


def _is_exact(dearest: list[Dearest], floors: FloatArray, gap: float) -> bool:
    """Say whether each kind's dearest contents are known within a gap, or to be below its floor."""
    pairs = zip(dearest, floors.tolist(), strict=True)
    return all(kind.bound <= max((1 + 2 * gap) * float(kind.prices[0]), (1 + gap) * floor) for kind, floor in pairs)
