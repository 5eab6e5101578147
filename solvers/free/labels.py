"""The most expensive path of a diagram within a load, by label setting with a beam.

(Desrochers and Soumis 1988; the constrained longest path.) A label of a node is (load, price) of a path to it; those
over T, dominated at their node, or unable by the bounds of passes 1 and 2 of `solvers.free.pricing` to exceed a cutoff,
are dropped. Of a layer with more labels than a beam only the most promising go on, and the best that these bounds
promise for the others enters the upper bound: a narrow beam is a heuristic with a bound, a wide one is exact.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.free.diagram import Arcs
from solvers.free.within import Within, step_of
from solvers.problem.contraction import FloatArray

MAX_LABELS = 40_000_000
"""Labels of all layers together, of four bytes each where one is reached; beams are narrower where they near it."""
LAYERS_AT_ONCE = 8
"""A layer may have the share of so many of those that are left."""

CANDIDATES_BETWEEN_CHECKS = 1_000_000
"""Labels looked at between two looks at the time limit, about a fifth of a second."""

NUM_FOUND = 16
"""Sets that label setting returns at most."""


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


def labels_within(
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
    """Return an upper bound on z, and the sets of the best complete labels above the cutoff.

    The cutoff is no less than what the table `added` looks for.
    """
    cutoff = max(cutoff, added.least)
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
                if last_step and not added.counts[b]:
                    continue
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
