"""What paths of a diagram can still add within a load: dynamic programming over some hundred loads at every node.

The Lagrangian bound of `solvers.free.pricing` averages the empty set and that of all blocks, of which only small parts
are within the threshold; this does not. Loads between two of a node's count as the larger one, which would add up over
a path if the loads were the same everywhere; so they are shifted at each node, such that the arc that the Lagrangian
bound would take loses nothing. The more blocks there are, the more loads it takes: with 1,079 of them HRNet has 0.200
with 128 loads and 0.141 with 512, where 0.1405 is the most, and the Lagrangian bound 0.244.

Where only sets that come to some price matter, nodes on no path to it have no loads: one rate by which there is none is
enough. Of convex sets these are two thirds of the nodes or more.

The path that goes by these bounds from the first node on, with the load that is really left, is a set within the
threshold, and most often a very good one.
"""

import math
import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.free.diagram import Arcs
from solvers.problem.contraction import FloatArray

LEAST_STEPS = 100
"""With fewer loads of a node this is not worth its time."""
STEP_SLACK = 1e-3
"""Loads are widened by this share of a step, far above rounding."""
ROUNDING = 2.0**-23
"""What is stored in single precision is raised by this share of it, more than rounding takes off."""
HELD_BACK = (0, 1, 2, 4, 8, 16)
"""Steps of load that a path by these bounds does without: what they promise may be a little more than there is."""


class Within(NamedTuple):
    """What paths from a node to the end add at most within a load.

    `most_at[a, j]` is for a load of `first_ms[a] + j * step_ms` from node a on, `most` for T from the first node on.
    Both hold for paths from the first node that add `least` or more; a node that does not count is on none of these,
    and has no loads.
    """

    counts: npt.NDArray[np.bool_]
    most_at: npt.NDArray[np.float32]
    first_ms: FloatArray
    step_ms: float
    most: float
    least: float
    number: int
    """Which of the tables of its thread it is."""

    @property
    def holds(self) -> bool:
        """Whether the calling thread, whose table this is, has not written another one over it since."""
        return self.number == getattr(_scratch, "number", 0)


UNKNOWN = Within(np.ones(1, np.bool_), np.full((1, 1), np.inf, np.float32), np.zeros(1), 1.0, math.inf, -math.inf, -1)

_scratch = threading.local()


def within(
    arcs: Arcs,
    layer_price: FloatArray,
    limit: float,
    rates: FloatArray,
    after: FloatArray,
    most_steps: int,
    most_numbers: int,
    least: float = -math.inf,
) -> Within:
    """Return the table with so many loads of a node at most, and so many numbers; UNKNOWN where they are too few.

    `after[r, a]` is the most that price - rates[r] x load comes to from node a on. Paths that add less than `least` are
    not looked for: where there are no others, what is said of the most may be anything below. The table is that of the
    calling thread, and holds until the thread asks for another.
    """
    num_nodes = arcs.target.shape[0] + 1
    steps = min(most_steps, most_numbers // num_nodes)
    if steps < LEAST_STEPS or limit <= 0:
        return UNKNOWN
    if getattr(_scratch, "table", np.empty(0)).size < num_nodes * (steps + 1):
        _scratch.table = np.empty(num_nodes * (steps + 1), np.float32)  # pages are slow to come by anew each time
    most_at = _scratch.table[: num_nodes * (steps + 1)].reshape(num_nodes, steps + 1)
    first_ms = np.zeros(num_nodes)
    step_ms = limit / (steps - 1)
    best_first = np.argsort(rates * limit + after[:, 0], kind="stable")
    best = best_first[0]
    counts = np.ones(num_nodes, np.bool_)
    if least > -math.inf:
        _rule_out(arcs, layer_price, limit, rates, after, best_first, least, counts)
    _fill(arcs, layer_price, limit, rates[best], after[best], step_ms, counts, most_at, first_ms)
    most = float(most_at[0, step_of(limit, first_ms[0], step_ms, steps)]) if counts[0] else -math.inf
    _scratch.number = getattr(_scratch, "number", 0) + 1
    return Within(counts, most_at, first_ms, step_ms, most, least, _scratch.number)


def sets_within(
    arcs: Arcs, layer_price: FloatArray, limit: float, bounds: Within
) -> tuple[npt.NDArray[np.bool_], FloatArray, FloatArray]:
    """Return the sets of paths by these bounds, as rows of booleans over layers, with their loads and prices."""
    num_layers = arcs.first.size - 2
    sets = np.zeros((len(HELD_BACK), num_layers), np.bool_)
    loads, values = np.zeros(len(HELD_BACK)), np.zeros(len(HELD_BACK))
    found = [
        i
        for i, steps in enumerate(HELD_BACK)
        if _follow(arcs, layer_price, limit, bounds, steps * bounds.step_ms, i, sets, loads, values)
    ]
    return sets[found], loads[found], values[found]


@njit(cache=True, nogil=True)
def step_of(load, first_ms, step_ms, last):
    """Return the least of a node's steps that holds a load, a little more."""
    return min(last, max(0, math.ceil((load - first_ms) / step_ms + STEP_SLACK)))


@njit(cache=True, nogil=True)
def _follow(arcs, layer_price, limit, bounds, held_back, row, sets, loads, values):
    """Write the path, what it is long and what it adds into a row; return whether there is one within the limit."""
    last = bounds.most_at.shape[1] - 1
    a = 0
    load = 0.0
    value = 0.0
    for i in range(arcs.first.size - 2):
        best = -np.inf
        way = -1
        for x in range(2):
            b = arcs.target[a, x]
            left = limit - load - arcs.length[a, x]
            if left < 0.0 or not bounds.counts[b]:
                continue
            gain = (
                x * layer_price[i]
                + bounds.most_at[b, step_of(max(0.0, left - held_back), bounds.first_ms[b], bounds.step_ms, last)]
            )
            if gain > best:
                best = gain
                way = x
        if way < 0:
            return False
        sets[row, i] = way == 1
        load += arcs.length[a, way]
        value += way * layer_price[i]
        a = arcs.target[a, way]
    loads[row] = load
    values[row] = value
    return True


@njit(cache=True, nogil=True)
def _rule_out(arcs, layer_price, limit, rates, after, order, least, counts):
    """Take from `counts` the nodes through which no path adds `least` within the limit, by what each rate says."""
    before = np.empty(counts.size)
    for r in order:
        rate = rates[r]
        before[:] = -np.inf
        before[0] = rate * limit
        for i in range(arcs.first.size - 2):
            for a in range(arcs.first[i], arcs.first[i + 1]):
                counts[a] &= before[a] + after[r, a] >= least
                if not counts[a]:
                    continue
                for x in range(2):
                    b = arcs.target[a, x]
                    before[b] = max(before[b], before[a] + x * layer_price[i] - rate * arcs.length[a, x])


@njit(cache=True, nogil=True)
def _fill(arcs, layer_price, limit, rate, after, step_ms, counts, most_at, first_ms):
    """Fill most_at and first_ms of `Within` where nodes count, from the end to the beginning."""
    num_layers = arcs.first.size - 2
    last = most_at.shape[1] - 1
    widest = 0
    for i in range(num_layers + 1):
        widest = max(widest, arcs.first[i + 1] - arcs.first[i])
    # Sums are of double precision; what is stored of them is rounded up.
    here, behind = np.empty((widest, last + 1)), np.zeros((widest, last + 1))
    most_at[arcs.first[num_layers]] = 0.0
    tolerance = STEP_SLACK / num_layers
    for i in range(num_layers - 1, -1, -1):
        base, next_base = arcs.first[i], arcs.first[i + 1]
        for a in range(base, next_base):
            if not counts[a]:
                continue
            row = here[a - base]
            row[:] = -np.inf
            out = after[arcs.target[a, 0]] - rate * arcs.length[a, 0]
            joins = after[arcs.target[a, 1]] + layer_price[i] - rate * arcs.length[a, 1]
            exact = 1 if joins > out else 0
            first = 0.0
            if not counts[arcs.target[a, exact]]:
                exact = 1 - exact
            if arcs.length[a, exact] <= limit and counts[arcs.target[a, exact]]:
                first = first_ms[arcs.target[a, exact]] + arcs.length[a, exact]
                first -= step_ms * np.floor(first / step_ms)
            first_ms[a] = first
            for x in range(2):
                length = arcs.length[a, x]
                b = arcs.target[a, x]
                if length > limit or not counts[b]:
                    continue
                of_b = behind[b - next_base]
                gain = x * layer_price[i]
                # Step j of a, less this arc, is within step j + shift of b: but for the tolerance, which in all layers
                # together is less than what `step_of` widens loads by.
                shift = math.ceil((first - length - first_ms[b]) / step_ms - tolerance)
                begin = max(0, -shift, math.ceil((length - first) / step_ms - tolerance))
                until = max(begin, min(last, last - shift) + 1)
                _raise(row[begin:until], of_b[begin + shift : until + shift], gain)
                _raise_to(row[until:], of_b[last] + gain)
            _store(row, after[a] + rate * first, rate * step_ms, most_at[a])
        here, behind = behind, here


@njit(cache=True, nogil=True)
def _raise(row, of_next, gain):
    """Raise what a row has to what an arc adds to a part of its target's row.

    Slices have no negative places, so that the compiler turns this into vector instructions.
    """
    for j in range(row.size):
        by_arc = of_next[j] + gain
        row[j] = by_arc if by_arc > row[j] else row[j]


@njit(cache=True, nogil=True)
def _raise_to(row, least):
    for j in range(row.size):
        row[j] = least if least > row[j] else row[j]


@njit(cache=True, nogil=True)
def _store(row, line, rise, stored):
    """Lower a row to what a rate says, `line` at its first load, and store it in single precision, rounded up."""
    for j in range(row.size):
        by_rate = line + rise * j
        least = by_rate if by_rate < row[j] else row[j]
        row[j] = least
        stored[j] = least * (1 + ROUNDING if least > 0 else 1 - ROUNDING)
