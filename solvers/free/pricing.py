"""The dearest contents of one device: maximise the sum of block prices over sets of load at most T.

    z(price, T) = max { sum_{b in S} price_b : load(S) <= T }

over the paths of a diagram of all sets (`solvers.free.patterns`). Three passes:

1. Lagrangian relaxation. For a rate mu >= 0, max_S price(S) - mu load(S) is one sweep over the arcs, and
   z <= mu T + that. The right side is convex in mu with slope T - load(S); bisection finds the least. It gives a bound,
   sets within T as candidates, and for every node and several rates a bound on what any completion can still add.
2. Dynamic programming from the end to the beginning over some hundred loads at every node (`solvers.free.within`):
   what a path from there can add within each, and the set that goes by it.
3. Label setting (Desrochers and Soumis 1988; the constrained longest path). A label of a node is (load, price) of a
   path to it; those over T, dominated at their node, or unable by the bounds of passes 1 and 2 to exceed a cutoff, are
   dropped. Of a layer with more labels than a beam only the most promising go on, and the best that these bounds
   promise for the others enters the upper bound: a narrow beam is a heuristic with a bound, a wide one is exact.

Upper bounds are raised by a slack for rounding, as is T, so that z is never underestimated.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.free.diagram import Arcs
from solvers.free.within import UNKNOWN, Within, sets_within, step_of, within
from solvers.problem.contraction import FloatArray

SLACK = 1e-10
"""Relative rounding of sums over a path; bounds are raised and T is widened by it."""

RATES = 24
"""Steps of the bisection for the Lagrangian rate."""

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

MAX_LABELS = 40_000_000
"""Labels of all layers together, of four bytes each where one is reached; beams are narrower where they near it."""
LAYERS_AT_ONCE = 8
"""A layer may have the share of so many of those that are left."""

CANDIDATES_BETWEEN_CHECKS = 1_000_000
"""Labels looked at between two looks at the time limit, about a fifth of a second."""

NUM_FOUND = 16
"""Sets that label setting returns at most."""

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
            arcs, self._layer_price, self._limit, RATES
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
        for size in self._tables[self._num_tables :]:
            if effort < TABLES_FROM or self._is_near(COARSE, floor, ceiling):
                break
            self._num_tables += 1
            self._take_table(size)
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

    def _take_table(self, size: tuple[int, int]) -> None:
        """Pass 2: bound what paths add within each load, and follow them."""
        table = within(self._arcs, self._layer_price, self._limit, self._rates, self._after, *size)
        if table is UNKNOWN:
            return
        self._added, self._size = table, size
        self._bound = min(self._bound, table.most + self._slack)
        self._found(*sets_within(self._arcs, self._layer_price, self._limit, table))
        self._by_table = float(self._values.max())

    def _take_labels(self, beam: int, gap: float, floor: float) -> None:
        """Pass 3, with a beam."""
        best, by_table = self._best, self._by_table
        if self._added is not UNKNOWN and not self._added.holds:
            self._added = within(self._arcs, self._layer_price, self._limit, self._rates, self._after, *self._size)
        # Labels find the best set of the table again where there is none dearer: the bound is then what it is worth.
        cutoff = max(best + 0.5 * gap * abs(best), by_table - 0.5 * gap * abs(by_table), floor)
        bound, sets, loads, values = _labels(
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
    _, rates, after, *_ = _lagrangian(arcs, layer_price, limit, RATES)
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
    """Bisect the rate; return the bound, ascending rates with bounds on completions, and the sets found within T."""
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
        if step == 0:
            if load <= limit:
                break
            continue
        if load <= limit:
            high = rate
        else:
            low = rate
        rate = 0.5 * (low + high) if high >= 0 else 2.0 * rate
        if high >= 0 and high - low <= 1e-12 * high:
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


@njit(cache=True, nogil=True)
def _merge_runs(runs, run_begin, c_load, c_value, c_trace, b, load, value, node, trace, begin, end):
    """Append the candidates of these runs that are not dominated, by load, as labels of node b; return the new end.

    The labels of the layer begin at `begin`.
    """
    head = np.empty(runs.size, np.int64)
    for r in range(runs.size):
        head[r] = run_begin[runs[r]]
    highest = -np.inf
    while True:
        least = -1
        for r in range(runs.size):
            # What is dominated already need not be compared.
            while head[r] < run_begin[runs[r] + 1] and c_value[head[r]] <= highest:
                head[r] += 1
            if head[r] < run_begin[runs[r] + 1] and (least < 0 or c_load[head[r]] < c_load[head[least]]):
                least = r
        if least < 0:
            return end
        o = head[least]
        highest = c_value[o]
        load[end - begin] = c_load[o]
        value[end - begin] = highest
        node[end - begin] = b
        trace[end] = c_trace[o]
        end += 1
        head[least] += 1


def _labels(
    arcs: Arcs,
    layer_price: FloatArray,
    limit: float,
    rates: FloatArray,
    after: FloatArray,
    added: Within,
    cutoff: float,
    slack: float,
    beam: int,
    check: Callable[[], object],
) -> tuple[float, npt.NDArray[np.bool_], FloatArray, FloatArray]:
    """Return an upper bound on z, and the sets of the best complete labels above the cutoff."""
    num_layers = arcs.first.size - 2
    # Pages of these that no label reaches are never touched. Loads, prices and nodes are those of two layers, by turns;
    # of every label remains which one it came of, twice its number, and 1 more if the block joined.
    trace = np.empty(min(2 * beam * num_layers + 1, MAX_LABELS), np.int32)
    load, value, node = np.empty((2, beam + 1)), np.empty((2, beam + 1)), np.empty((2, beam + 1), np.int32)
    load[0, 0] = value[0, 0] = 0.0
    node[0, 0] = 0
    layer, begin, end, best = 0, 0, 1, cutoff
    while layer < num_layers:
        layer, begin, end, best = _extend(
            arcs, layer_price, limit, rates, after, added, cutoff, slack, beam, load, value, node, trace,
            layer, begin, end, best, CANDIDATES_BETWEEN_CHECKS,
        )  # fmt: skip
        check()
    last = num_layers % 2
    if end > begin:
        best = max(best, float(value[last, : end - begin].max()))
    # Labels of the last node ascend in load and price.
    found = np.ascontiguousarray(np.arange(max(begin, end - NUM_FOUND), end)[::-1])  # or one label is another type
    return best, _sets(found, num_layers, trace), load[last, found - begin], value[last, found - begin]


@njit(cache=True, nogil=True)
def _sets(found, num_layers, trace):
    """Return the sets of these labels of the last node, a row of booleans over layers each."""
    sets = np.zeros((found.size, num_layers), np.bool_)
    for f in range(found.size):
        j = found[f]
        for i in range(num_layers - 1, -1, -1):
            sets[f, i] = trace[j] & 1
            j = trace[j] >> 1
    return sets


@njit(cache=True, nogil=True)
def _least_lines(rates, limit, after, b, level, line):
    """Find the rates that bound best, somewhere, what a label at node b can still gain; return how many they are.

    By rate r a label of this load gains at most level[r] - rates[r] x load. `line` has those that are the least of all
    at some load, by ascending rate, which is the order in which they follow each other as the load grows.
    """
    count = 0
    for r in range(rates.size):
        level[r] = rates[r] * limit + after[r, b]
        if count and rates[r] == rates[line[count - 1]]:
            if level[r] >= level[line[count - 1]]:
                continue
            count -= 1
        while count >= 2:
            first, second = line[count - 2], line[count - 1]
            # Where the new one falls below the first, against where the second does.
            new_width = (level[r] - level[first]) * (rates[second] - rates[first])
            if new_width > (level[second] - level[first]) * (rates[r] - rates[first]):
                break
            count -= 1
        line[count] = r
        count += 1
    return count


@njit(cache=True, nogil=True)
def _extend(
    arcs, layer_price, limit, rates, after, added, cutoff, slack, beam, load, value, node, trace,
    first_layer, begin, end, best, work,
):  # fmt: skip
    """Extend the labels begin .. end - 1 of a layer to the layers after it, until so many candidates are looked at.

    Return the layer that was reached, its labels, and the best that was promised to a label left out.
    """
    num_layers = arcs.first.size - 2
    level, line = np.empty(rates.size), np.empty(rates.size, np.int64)
    last_step = added.most_at.shape[1] - 1
    seen = 0
    for i in range(first_layer, num_layers):
        if seen >= work:
            return i, begin, end, best
        side, other = i % 2, (i + 1) % 2
        most = 2 * (end - begin)
        seen += most
        c_load = np.empty(most)
        c_value = np.empty(most)
        c_trace = np.empty(most, np.int32)
        c_promise = np.empty(most)
        base = arcs.first[i + 1]
        width = arcs.first[i + 2] - base
        # Labels of a node ascend in load, so what comes of them by one decision does too: a run.
        most_runs = 2 * (arcs.first[i + 1] - arcs.first[i])
        run_begin = np.empty(most_runs + 1, np.int64)
        run_target = np.empty(most_runs, np.int64)
        num_runs = 0
        count = 0
        j = 0
        while j < end - begin:
            a = node[side, j]
            until = j
            while until < end - begin and node[side, until] == a:
                until += 1
            for x in range(2):
                b = arcs.target[a, x]
                run_begin[num_runs] = count
                run_target[num_runs] = b - base
                num_runs += 1
                num_lines = _least_lines(rates, limit, after, b, level, line)
                r = 0
                for o in range(j, until):
                    new_load = load[side, o] + arcs.length[a, x]
                    if new_load > limit:
                        break
                    new_value = value[side, o] + x * layer_price[i]
                    # Loads ascend, so the rate that promises least does too.
                    can_gain = level[line[r]] - rates[line[r]] * new_load
                    while r + 1 < num_lines:
                        by_next = level[line[r + 1]] - rates[line[r + 1]] * new_load
                        if by_next > can_gain:
                            break
                        can_gain = by_next
                        r += 1
                    can_gain_at = can_gain
                    if last_step:
                        step = step_of(limit - new_load, added.first_ms[b], added.step_ms, last_step)
                        can_gain_at = min(can_gain, added.most_at[b, step])
                    promise = new_value + can_gain_at
                    if promise <= cutoff - slack:
                        continue
                    c_load[count] = new_load
                    c_value[count] = new_value
                    c_trace[count] = 2 * (begin + o) + x
                    c_promise[count] = promise
                    count += 1
            j = until
        run_begin[num_runs] = count
        room = min(beam, (trace.size - end) // (2 + (num_layers - i) // LAYERS_AT_ONCE))
        if count > room:
            least = np.partition(c_promise[:count], count - room)[count - room] if room else np.inf
            kept = 0
            for run in range(num_runs):
                first_of_run = kept
                for o in range(run_begin[run], run_begin[run + 1]):
                    if c_promise[o] >= least and kept < room:
                        c_load[kept] = c_load[o]
                        c_value[kept] = c_value[o]
                        c_trace[kept] = c_trace[o]
                        kept += 1
                    else:
                        best = max(best, c_promise[o])
                run_begin[run] = first_of_run
            count = kept
            run_begin[num_runs] = count
        per_node = np.zeros(width + 1, np.int64)
        for run in range(num_runs):
            per_node[run_target[run] + 1] += 1
        for w in range(width):
            per_node[w + 1] += per_node[w]
        runs = np.empty(num_runs, np.int64)
        place = per_node.copy()
        for run in range(num_runs):
            runs[place[run_target[run]]] = run
            place[run_target[run]] += 1
        begin = end
        for w in range(width):
            end = _merge_runs(
                runs[per_node[w] : per_node[w + 1]], run_begin, c_load, c_value, c_trace,
                base + w, load[other], value[other], node[other], trace, begin, end,
            )  # fmt: skip
    return num_layers, begin, end, best
