"""The dearest contents of one device: maximise the sum of block prices over sets of load at most T.

    z(price, T) = max { sum_{b in S} price_b : load(S) <= T }

over the paths of a diagram of all sets (`solvers.free.patterns`). Three passes:

1. Lagrangian relaxation. For a rate mu >= 0, max_S price(S) - mu load(S) is one sweep over the arcs, and
   z <= mu T + that. The right side is convex in mu with slope T - load(S); the rate where the lines of two sets
   meet, one on each side, is tried next until none is better. It gives a bound,
   sets within T as candidates, and for every node and several rates a bound on what any completion can still add.
2. Dynamic programming from the end to the beginning over some hundred loads at every node (`solvers.free.within`):
   what a path from there can add within each, and the set that goes by it.
3. Label setting with ever wider beams (`solvers.free.labels`).

Upper bounds are raised by a slack for rounding, as is T, so that z is never underestimated.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.free.diagram import Arcs
from solvers.free.labels import labels_within
from solvers.free.within import UNKNOWN, Within, sets_within, step_of, within
from solvers.problem.contraction import FloatArray

SLACK = 1e-10
"""Relative rounding of sums over a path; bounds are raised and T is widened by it."""

MOST_RATES = 24
"""Lagrangian rates tried at most. Mostly a few find the best."""

FURTHER_RATES = (0.25, 0.5, 0.7, 1.4, 2.0, 4.0)
"""Rates with bounds on completions, as multiples of the best one: that is the best for a path that is just begun, and
of little use to tell which of the others are hopeless."""

SMALL, LARGE = (256, 12_000_000), (1_024, 60_000_000)
"""Loads of a node in pass 2, and numbers of its table, of four bytes each.

Full tables take about 0.03 and 0.13 s, as long as beams of some thousand labels.
"""
Tables = tuple[tuple[int, int], ...]
TABLES_FROM = 2
"""The effort from which pass 2 is not left out. A narrow beam alone is quicker where it is enough."""
COARSE = 0.02
"""A table, and after it a larger one, is filled where bound and best set are further apart than that."""

BEAMS = (300, 3_000, 30_000, 200_000)
"""Labels per layer; a wider beam follows while the bound exceeds the best set by more than a gap."""
GAP = 2e-4

LAGRANGIAN, EXACT = 0, len(BEAMS)


class Dearest(NamedTuple):
    """`bound` >= z; `sets` within T, most expensive first, with their loads in ms and prices."""

    bound: float
    sets: npt.NDArray[np.bool_]
    loads: FloatArray
    prices: FloatArray


class Pricing:
    """The dearest contents of one device at some prices and a threshold, looked for with ever more effort."""

    def __init__(
        self,
        arcs: Arcs,
        price: FloatArray,
        threshold_ms: float,
        check: Callable[[], object] = object,
        tables: Tables = (SMALL, LARGE),
    ) -> None:
        """Relax the limit of load; `check` is called often, and what it raises ends the work.

        `tables` are those of pass 2, each filled where the one before it was too coarse.
        """
        check()
        self._arcs, self._check, self._tables = arcs, check, tables
        self._limit = threshold_ms * (1 + SLACK)
        self._layer_price = np.ascontiguousarray(price[arcs.order])
        self._slack = SLACK * float(np.abs(price).sum())
        bound, self._rates, self._after, self._sets, self._loads, self._values = _lagrangian(
            arcs, self._layer_price, self._limit, MOST_RATES
        )
        self._bound = bound + self._slack
        self._best, self._by_table = float(self._values.max()), -math.inf
        self._added, self._size = UNKNOWN, (0, 0)
        self._num_tables = self._num_beams = 0

    def dearest(
        self, effort: int = EXACT, gap: float = GAP, floor: float = -math.inf, ceiling: float = math.inf
    ) -> Dearest:
        """Return an upper bound on z(price, T) and sets that come near it, as rows of booleans over blocks.

        `effort` is the number of beams to try: from LAGRANGIAN, none, to EXACT, all, as far as they are needed to bring
        bound and best set within `gap` of each other, or the bound down to `floor`: what is dearer by less is not
        looked for. It is enough to find a set dearer than `ceiling`. What was done with less effort is not done again.
        """
        if self._added.least > max(self._best, self._by_table, floor):  # what was told apart is too little now
            self._added, self._num_tables, self._num_beams = UNKNOWN, 0, 0
        for size in self._tables[self._num_tables :]:
            if effort < TABLES_FROM or self._is_near(COARSE, floor, ceiling):
                break
            self._num_tables += 1
            known = max(self._best, self._by_table)
            self._take_table(size, max(known - gap * abs(known), floor))
        for beam in BEAMS[self._num_beams : effort]:
            if self._is_near(gap, floor, ceiling):
                break
            self._num_beams += 1
            self._take_labels(beam, gap, floor)
        best_first = np.argsort(-self._values, kind="stable")
        contents = np.zeros(self._sets.shape, np.bool_)
        contents[:, self._arcs.order] = self._sets[best_first]
        return Dearest(float(self._bound), contents, self._loads[best_first], self._values[best_first])

    def _is_near(self, gap: float, floor: float, ceiling: float) -> bool:
        known = max(self._best, self._by_table)
        return known > ceiling or self._bound <= max(known + gap * abs(known), floor + self._slack)

    def _take_table(self, size: tuple[int, int], least: float) -> None:
        """Pass 2: bound what paths that add `least` or more add within each load, and follow them."""
        # Sums over a path may be rounded the other way: one that adds as much as was asked for counts.
        table = self._table(size, least - self._slack)
        if table is UNKNOWN:
            return
        self._added, self._size = table, size
        self._bound = min(self._bound, max(table.most, table.least) + self._slack)
        self._found(*sets_within(self._arcs, self._layer_price, self._limit, table))
        self._by_table = float(self._values.max())

    def _table(self, size: tuple[int, int], least: float) -> Within:
        return within(self._arcs, self._layer_price, self._limit, self._rates, self._after, *size, least)

    def _take_labels(self, beam: int, gap: float, floor: float) -> None:
        """Pass 3, with a beam."""
        best, by_table = self._best, self._by_table
        if self._added is not UNKNOWN and not self._added.holds:
            self._added = self._table(self._size, self._added.least)
        # Labels find the best set of the table again where there is none dearer: the bound is then what it is worth.
        cutoff = max(best + 0.5 * gap * abs(best), by_table - 0.5 * gap * abs(by_table), floor)
        bound, sets, loads, values = labels_within(
            self._arcs, self._layer_price, self._limit, self._rates, self._after, self._added, cutoff, self._slack,
            beam, self._check,
        )  # fmt: skip
        self._bound = min(self._bound, bound + self._slack)
        self._found(sets, loads, values)
        self._best = float(values.max(initial=best))

    def _found(self, sets: npt.NDArray[np.bool_], loads: FloatArray, values: FloatArray) -> None:
        self._sets, self._loads = np.vstack([sets, self._sets]), np.concatenate([loads, self._loads])
        self._values = np.concatenate([values, self._values])


def most_within(
    arcs: Arcs, price: FloatArray, threshold_ms: float, check: Callable[[], object] = object
) -> Callable[[float], float]:
    """Return an upper bound on z(price, t) as a function of any t up to a threshold: passes 1 and 2 tell all at once.

    It is infinite where the table of pass 2 would have too few loads.
    """
    check()
    limit = threshold_ms * (1 + SLACK)
    layer_price = np.ascontiguousarray(price[arcs.order])
    _, rates, after, *_ = _lagrangian(arcs, layer_price, limit, MOST_RATES)
    check()
    table = within(arcs, layer_price, limit, rates, after, *LARGE)
    most, first_ms = table.most_at[0].astype(np.float64), float(table.first_ms[0])
    slack = SLACK * float(np.abs(price).sum())

    def at(t_ms: float) -> float:
        return float(most[step_of(t_ms * (1 + SLACK), first_ms, table.step_ms, len(most) - 1)]) + slack

    return at


@njit(cache=True, nogil=True)
def _completions(arcs, layer_price, rate, after):
    """Fill after[a] = max over paths from node a to the end of price - rate x load."""
    last = arcs.first.size - 2
    after[arcs.first[last]] = 0.0
    for i in range(last - 1, -1, -1):
        for a in range(arcs.first[i], arcs.first[i + 1]):
            out = after[arcs.target[a, 0]] - rate * arcs.length[a, 0]
            joins = after[arcs.target[a, 1]] + layer_price[i] - rate * arcs.length[a, 1]
            after[a] = max(out, joins)


@njit(cache=True, nogil=True)
def _follow(arcs, layer_price, rate, after, row):
    """Write the best path by `after` into `row`; return its load and price."""
    a = 0
    load = 0.0
    value = 0.0
    for i in range(arcs.first.size - 2):
        out = after[arcs.target[a, 0]] - rate * arcs.length[a, 0]
        joins = after[arcs.target[a, 1]] + layer_price[i] - rate * arcs.length[a, 1]
        x = 1 if joins > out else 0
        row[i] = x
        load += arcs.length[a, x]
        value += x * layer_price[i]
        a = arcs.target[a, x]
    return load, value


@njit(cache=True, nogil=True)
def _lagrangian(arcs, layer_price, limit, steps):
    """Find the best rate; return the bound, ascending rates with bounds on completions, and the sets found within T."""
    num_layers = arcs.first.size - 2
    num_nodes = arcs.target.shape[0] + 1
    rates = np.zeros(3 + len(FURTHER_RATES))
    after = np.zeros((rates.size, num_nodes))
    sets = np.zeros((steps + 1, num_layers), np.bool_)  # the first is the empty set
    loads = np.zeros(steps + 1)
    values = np.zeros(steps + 1)
    num_sets = 1
    row = np.zeros(num_layers, np.bool_)
    work = np.zeros(num_nodes)
    total = 0.0
    for i in range(num_layers):
        total += max(0.0, layer_price[i])
    low, high = 0.0, -1.0
    # What the best path at each of the two rates comes to is a line over the rate; the most of all is above both.
    low_load = low_value = high_load = high_value = 0.0
    rate = total / limit if limit > 0 and total > 0 else 1.0
    bound = np.inf
    for step in range(steps):
        current = rate if step else 1e-9 * rate  # not 0, which would multiply infinite lengths
        _completions(arcs, layer_price, current, work)
        load, value = _follow(arcs, layer_price, current, work, row)
        candidate = current * limit + work[0]
        if load <= limit:
            rates[2] = current
            after[2] = work
            if values[num_sets - 1] != value or loads[num_sets - 1] != load:
                sets[num_sets] = row
                loads[num_sets] = load
                values[num_sets] = value
                num_sets += 1
        else:
            rates[1] = current
            after[1] = work
        if candidate < bound:
            bound = candidate
            rates[0] = current
            after[0] = work
        if step == 0 and load <= limit:
            break
        if load <= limit:
            high, high_load, high_value = current, load, value
        else:
            low, low_load, low_value = current, load, value
        if high < 0:
            rate = 2.0 * rate if step else rate
            continue
        # The most that paths come to is no less than where the lines meet; if no more, that is the least bound.
        rate = (low_value - high_value) / (low_load - high_load)
        if not low < rate < high or high - low <= 1e-12 * high:
            break
    if rates[2] == 0.0:
        rates[2] = rates[0]
        after[2] = after[0]
    if rates[1] == 0.0:
        rates[1] = rates[0]
        after[1] = after[0]
    for i in range(len(FURTHER_RATES)):
        rates[3 + i] = FURTHER_RATES[i] * rates[0]
        _completions(arcs, layer_price, rates[3 + i], after[3 + i])
    ascending = np.argsort(rates)
    return bound, rates[ascending], after[ascending], sets[:num_sets], loads[:num_sets], values[:num_sets]
