"""Blocks that a network repeats, found where its file names no layers.

Two clues, in this order. Numbered names: "encoder.layer.7.attention" belongs to block 7 of "encoder.layer". Where
too few names carry such a number, repetition itself: with the nodes s_1 ... s_n in an order in which inputs stand
right before their readers, a block of p nodes that comes k times in a row shows as s_i ~ s_(i+p) for (k - 1) p
consecutive i. Two nodes are alike (~) when their names are, less digits, as are their numbers of inputs, and when
their costs differ by at most a quarter, since profiles are noisy. The repetition that saves the most boxes is taken
first, then the next in what is left. The first and the last block often differ a little from the others, as they also
read or feed what stands outside: a neighbouring piece of nearly the same nodes is taken for a block too.
O(n^2) comparisons within arrays, about 0.05 s at 2,000 nodes.
"""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from solvers.model.graph import DnnGraph, Node

COST_TOLERANCE = 0.25
"""Times and sizes that differ by at most this share count as alike."""
LEAST_NAMED_SHARE = 0.5
"""Numbered names tell the blocks when at least this share of the nodes carries one."""
LEAST_REPEATS = 3
"""Fewer repetitions of a short block are chance."""
LONG_BLOCK = 6
"""A block of at least so many nodes counts from two repetitions on."""
NEAR_SHARE = 0.8
"""A piece beside repeated blocks that shares this much with them is a block as well."""
LIKELY_BORDERS = 40
"""So many places are tried as the border between blocks, those that fewest tensors pass over."""
MOST_NODES = 20_000
"""In larger graphs repetition is not looked for: that would take many seconds."""
FOUND_SHARE = 0.3
"""Repetition is worth showing when blocks hold at least this share of the nodes."""


def repeated_blocks(graph: DnnGraph) -> dict[int, str] | None:
    """Return the title of the block of each node that is in one, by node id; None when nothing repeats.

    Forward and backward nodes of one block share its title where colocation classes tell that they belong together.

    >>> from solvers.model.graph import Edge
    >>> nodes = tuple(Node(v, 1.0, 9.0, name=f"layers.{v // 2}.{'ab'[v % 2]}") for v in range(6))
    >>> repeated_blocks(DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(5))))[3]
    'layers 1'
    """
    return _by_names(graph) or (_by_repetition(graph) if len(graph.nodes) <= MOST_NODES else None)


def satellites(graph: DnnGraph) -> dict[int, int]:
    """Return the node that each satellite belongs to, by node id.

    Satellites are constants that one node of their pass reads (weights, biases), and outputs that nothing of their pass
    reads, of a node that others of it read (saved statistics, weight updates): operator files are full of both.
    """
    core_of: dict[int, int] = {}

    def of_pass(nodes: Sequence[int], v: int) -> list[int]:
        return [u for u in nodes if graph.node_by_id[u].is_backward == graph.node_by_id[v].is_backward]

    for v in graph.node_by_id:
        readers = of_pass(graph.readers[v], v)
        if not graph.inputs[v]:
            around = readers
        elif not readers:
            around = [u for u in graph.inputs[v] if graph.inputs[u] and of_pass(graph.readers[u], u) != [v]]
        else:
            continue
        if len(around) == 1 and graph.node_by_id[around[0]].is_backward == graph.node_by_id[v].is_backward:
            core_of[v] = around[0]
    # Two satellites of each other would have no node to belong to.
    return {v: core for v, core in core_of.items() if core not in core_of}


def without_numbers(name: str) -> str:
    """Return a name with every run of digits replaced by '#'.

    >>> without_numbers("MatMul12_Grad/Reshape_5")
    'MatMul#_Grad/Reshape_#'
    """
    return re.sub(r"\d+", "#", name)


def _by_names(graph: DnnGraph) -> dict[int, str] | None:
    """Group by the first component of the names that is a number and takes several values."""
    values: dict[str, set[str]] = {}
    indexed: dict[int, list[tuple[str, str]]] = {}
    for node in graph.nodes:
        parts = re.split(r"[./:]", node.name or "")
        indexed[node.id] = [(".".join(parts[:i]), part) for i, part in enumerate(parts) if i and part.isdigit()]
        for prefix, number in indexed[node.id]:
            values.setdefault(prefix, set()).add(number)
    block_of: dict[int, str] = {}
    for v, candidates in indexed.items():
        for prefix, number in candidates:
            if len(values[prefix]) > 1:
                block_of[v] = f"{prefix.rsplit('.', 1)[-1]} {number}"
                break
    return block_of if len(block_of) >= LEAST_NAMED_SHARE * len(graph.nodes) else None


def _by_repetition(graph: DnnGraph) -> dict[int, str] | None:
    block_of: dict[int, str] = {}
    order = inputs_first(graph)
    forward = _tandem_blocks(graph, [v for v in order if not graph.node_by_id[v].is_backward])
    for i, block in enumerate(forward):
        block_of.update(dict.fromkeys(block, f"block {i + 1}"))
    backward = _tandem_blocks(graph, [v for v in order if graph.node_by_id[v].is_backward])
    title_of_class = {graph.node_by_id[v].colocation_class: title for v, title in block_of.items()}
    for i, block in enumerate(backward):
        titles = [title_of_class.get(graph.node_by_id[v].colocation_class) for v in block]
        known = [title for title in titles if title is not None and graph.is_training]
        title = max(set(known), key=lambda t: (known.count(t), t)) if known else f"backward block {i + 1}"
        block_of.update(dict.fromkeys(block, title))
    return block_of if len(block_of) >= FOUND_SHARE * len(graph.nodes) else None


def inputs_first(graph: DnnGraph) -> tuple[int, ...]:
    """Return the node ids in a topological order in which constants and branches stand right before their readers.

    Inputs of a node come in the order of their names less numbers, so that equal blocks are listed alike.
    """
    place = {v: i for i, v in enumerate(graph.topological_order)}

    def inputs(v: int) -> list[int]:
        return sorted(graph.inputs[v], key=lambda u: (without_numbers(graph.node_by_id[u].name or ""), place[u]))

    done: set[int] = set()
    order: list[int] = []
    for sink in graph.topological_order:
        if graph.readers[sink] or sink in done:
            continue
        stack = [(sink, iter(inputs(sink)))]
        done.add(sink)
        while stack:
            v, waiting = stack[-1]
            u = next((u for u in waiting if u not in done), None)
            if u is None:
                stack.pop()
                order.append(v)
            else:
                done.add(u)
                stack.append((u, iter(inputs(u))))
    return tuple(order)


def _tandem_blocks(graph: DnnGraph, order: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the repeated blocks of a sequence of nodes, in its order."""
    n = len(order)
    alike = _Likeness(graph, order)
    free: NDArray[np.bool_] = np.ones(n, dtype=bool)
    crossing = _crossings(graph, order)
    candidates: list[tuple[int, int, int, int]] = []
    for period in range(1, n // 2 + 1):
        equal = alike.shifted(period)
        edges = np.flatnonzero(np.diff(np.concatenate(([0], equal.astype(np.int8), [0]))))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            count = (end - begin) // period + 1
            if count >= (2 if period >= LONG_BLOCK else LEAST_REPEATS):
                candidates.append((period * (count - 1) + count, -period, begin, end + period))
    # Blocks of one node are lines of a listing rather than a block: they save as many boxes as they have repetitions.
    candidates.sort(reverse=True)
    blocks: list[tuple[int, int]] = []
    for _, negative_period, begin, end in candidates:
        period = -negative_period
        taken = np.flatnonzero(~free[begin:end])
        if taken.size:
            # What is left before or after an earlier block may still repeat.
            first, last = int(taken[0]), int(taken[-1])
            begin, end = (begin, begin + first) if first >= end - begin - last - 1 else (begin + last + 1, end)
        count = (end - begin) // period
        if count < (2 if period >= LONG_BLOCK else LEAST_REPEATS):
            continue
        starts = _best_phase(alike.kind.tolist(), crossing, begin, end, period, free)
        free[starts[0] : starts[-1]] = False
        if period > 1:
            blocks.extend(pairwise(starts))
    return [tuple(order[begin:end]) for begin, end in sorted(blocks)]


def _best_phase(
    kinds: Sequence[int],
    crossing: NDArray[np.int64],
    begin: int,
    end: int,
    period: int,
    free: NDArray[np.bool_],
) -> list[int]:
    """Return where blocks begin, and the end of the last, so that they hold most; then, so that fewest lines cross."""

    def lines(first: int) -> float:
        return float(crossing[first : end + 1 : period].mean())

    short = period < LONG_BLOCK
    last = begin + (end - begin) % period + 1 if short else min(begin + 2 * period, end - period + 1)
    best: tuple[tuple[float, float], list[int]] = ((-1.0, 0.0), [])
    # The ends of few lines are the likely borders; there are many places, and each is dear to look at.
    for first in sorted(range(begin, last), key=lines)[:LIKELY_BORDERS]:
        starts = list(range(first, end + 1, period))
        if not short:
            starts.insert(0, starts[0] - _near(kinds, starts[0], -1, period, free))
            starts.append(starts[-1] + _near(kinds, starts[-1], 1, period, free))
        starts = sorted(set(starts))
        best = max(best, ((starts[-1] - starts[0], -lines(first)), starts), key=lambda found: found[0])
    return best[1]


def _near(kinds: Sequence[int], start: int, side: int, period: int, free: NDArray[np.bool_]) -> int:
    """Return the length of the piece before (`side` -1) or after a run that is nearly one more block, 0 for none."""
    block = Counter(kinds[start : start + period] if side < 0 else kinds[start - period : start])
    best = 0.0, 0
    for length in range(ceil(NEAR_SHARE * period), int(period / NEAR_SHARE) + 1):
        begin, end = (start - length, start) if side < 0 else (start, start + length)
        if begin < 0 or end > len(kinds) or not free[begin:end].all():
            break
        shared = (Counter(kinds[begin:end]) & block).total() / max(length, period)
        best = max(best, (shared, length))
    return best[1] if best[0] >= NEAR_SHARE else 0


def _crossings(graph: DnnGraph, order: Sequence[int]) -> NDArray[np.int64]:
    """Return for each place in the order, 0 to n, how many tensors pass over it."""
    place = {v: i for i, v in enumerate(order)}
    steps = np.zeros(len(order) + 2, dtype=np.int64)
    for v, i in place.items():
        last = max((place[r] for r in graph.readers[v] if r in place), default=i)
        steps[i + 1] += 1
        steps[last + 1] -= 1
    return np.cumsum(steps)[: len(order) + 1]


class _Likeness:
    """Compares every node of a sequence with the one `period` places on."""

    def __init__(self, graph: DnnGraph, order: Sequence[int]) -> None:
        nodes: list[Node] = [graph.node_by_id[v] for v in order]
        kinds: dict[tuple[str, int, bool], int] = {}
        self.kind = np.array(
            [
                kinds.setdefault(
                    (without_numbers(node.name or ""), len(graph.inputs[node.id]), node.runs_on_accelerator), len(kinds)
                )
                for node in nodes
            ],
            dtype=np.int64,
        )
        sizes = [graph.output_bytes[node.id] or 0.0 for node in nodes]
        self.costs = [
            np.array(values, dtype=float)
            for values in ([node.accelerator_ms for node in nodes], [node.memory_bytes for node in nodes], sizes)
        ]

    def shifted(self, period: int) -> NDArray[np.bool_]:
        """Return whether node i is like node i + `period`, for every i that has one."""
        equal: NDArray[np.bool_] = self.kind[:-period] == self.kind[period:]
        for cost in self.costs:
            first, second = cost[:-period], cost[period:]
            equal &= np.abs(first - second) <= COST_TOLERANCE * np.maximum(first, second)
        return equal
