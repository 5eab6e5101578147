"""Blocks that share a device in every free split of max-load below T, found by minimum cuts.

Let A(s, t) be the least load of an accelerator that holds block s and not block t,

    A(s, t) = min { sum_{b in S} p_b + sum_e w_e [ e is cut by S ] : s in S, t not in S },

a minimum cut: source s, sink t, an arc b -> t of capacity p_b for every block, and for a hyperedge e of weight w_e two
nodes with arcs b -> e' and e" -> b of no limit and e' -> e" of capacity w_e (for two ends, an edge of weight w_e
between them). Suppose a split of max-load < T keeps s and t apart. An accelerator with s has A(s, t) < T, one with t
has A(t, s) < T, a CPU with s has q_s < T. So s and t are together in every such split if

    A(s, t) >= T and (there is no CPU or q_s >= T),    or the same with s and t exchanged, or
    A(s, t) >= T and A(t, s) >= T and there is at most one CPU (two devices cannot both be the CPU).

Blocks that are together are one: its times, sizes and nets are theirs, its cuts dearer still, so rounds of merging go
on until nothing more is found. A block that alone costs T or more on every device proves that no split is below T.

A flow found so far is a lower bound on its cut, so a flow that reaches T ends the search, and one that takes too long
is given up without harm. Flows are compared with T raised by a slack for rounding.

Time O(ends of hyperedges x flow); flows stop at T, so they touch the surroundings of s only when T is small.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numba import njit

from solvers.model.deployment import Communication, Deployment
from solvers.problem.contraction import Contraction, FloatArray, Hyperedge, compressed_rows

SLACK = 1e-9
"""Relative rounding of a flow; cuts must reach T by that much more."""

MAX_ROUNDS = 20

MAX_PATHS = 2000
"""Augmenting paths after which a flow is given up."""


def colocated(
    contraction: Contraction, deployment: Deployment, threshold_ms: float, check: Callable[[], object] = object
) -> tuple[Contraction, list[int]] | None:
    """Return the contraction with blocks merged that share a device in every free split of max-load < T.

    The list says which new block each block has gone into. None: no split is below the threshold T. `check` is called
    often; what it raises ends the work.
    """
    block_of = list(range(contraction.num_blocks))
    for _ in range(MAX_ROUNDS):
        if _is_too_heavy(contraction, deployment, threshold_ms):
            return None
        groups = _merge_round(contraction, deployment, threshold_ms, check)
        if len(set(groups)) == contraction.num_blocks:
            break
        contraction, number = merged(contraction, groups, deployment.communication)
        block_of = [number[b] for b in block_of]
    return contraction, block_of


def merged(contraction: Contraction, groups: list[int], communication: Communication) -> tuple[Contraction, list[int]]:
    """Return the contraction with one block per group of blocks, and the new number of each block.

    New blocks are numbered by their first member; forward edges are not kept.
    """
    number_of_group: dict[int, int] = {}
    number = [number_of_group.setdefault(g, len(number_of_group)) for g in groups]
    parts: list[list[int]] = [[] for _ in number_of_group]
    for b, new in enumerate(number):
        parts[new].append(b)
    weights: dict[tuple[tuple[int, ...], int | None], float] = defaultdict(float)
    for hyperedge in contraction.hyperedges:
        ends = tuple(sorted({number[b] for b in hyperedge.blocks}))
        keeps = communication is Communication.FULL_DUPLEX and hyperedge.writer is not None
        writer = number[hyperedge.writer] if keeps and hyperedge.writer is not None else None
        if len(ends) > 1:
            weights[ends, writer] += hyperedge.weight_ms

    def total(values: FloatArray) -> FloatArray:
        return np.array([sum(float(values[b]) for b in part) for part in parts])

    return (
        replace(
            contraction,
            members=tuple(tuple(v for b in part for v in contraction.members[b]) for part in parts),
            accelerator_ms=total(contraction.accelerator_ms),
            class_ms=np.array([total(row) for row in contraction.class_ms]),
            cpu_ms=total(contraction.cpu_ms),
            memory_bytes=total(contraction.memory_bytes),
            edges=(),
            hyperedges=tuple(Hyperedge(ends, w, writer) for (ends, writer), w in weights.items()),
        ),
        number,
    )


def _is_too_heavy(contraction: Contraction, deployment: Deployment, threshold_ms: float) -> bool:
    """Whether some block alone takes T or more wherever it is."""
    limit = threshold_ms * (1 + SLACK)
    on_cpu = contraction.cpu_ms >= limit if deployment.num_cpus else np.full(contraction.num_blocks, True)
    too_large = contraction.memory_bytes > deployment.memory_limit_bytes * (1 + SLACK)
    on_accelerator = (
        (contraction.accelerator_ms >= limit) | too_large
        if deployment.num_accelerators
        else np.full(contraction.num_blocks, True)
    )
    return bool((on_cpu & on_accelerator).any())


def _merge_round(
    contraction: Contraction, deployment: Deployment, threshold_ms: float, check: Callable[[], object]
) -> list[int]:
    """Return a group number per block: blocks found together in one pass over the pairs of every hyperedge."""
    n = contraction.num_blocks
    group = list(range(n))

    def root(b: int) -> int:
        while group[b] != b:
            group[b] = group[group[b]]
            b = group[b]
        return b

    network = _Network(contraction)
    limit = threshold_ms * (1 + SLACK)
    at_most_one_cpu = deployment.num_cpus <= 1
    no_room_on_cpu = [deployment.num_cpus == 0 or q >= limit for q in contraction.cpu_ms.tolist()]
    pairs = sorted(
        {
            (hyperedge.blocks[i], hyperedge.blocks[j])
            for hyperedge in contraction.hyperedges
            for i in range(len(hyperedge.blocks))
            for j in ((i + 1,) if len(hyperedge.blocks) > MAX_ALL_PAIRS else range(i + 1, len(hyperedge.blocks)))
            if j < len(hyperedge.blocks)
        }
    )
    for s, t in pairs:
        check()
        if root(s) == root(t):
            continue
        if not at_most_one_cpu and not no_room_on_cpu[s] and not no_room_on_cpu[t]:
            continue
        s_needs_t = network.reaches(s, t, limit)
        if s_needs_t and no_room_on_cpu[s]:
            together = True
        elif not s_needs_t and not no_room_on_cpu[t]:
            together = False
        else:
            t_needs_s = network.reaches(t, s, limit)
            together = t_needs_s and (no_room_on_cpu[t] or (s_needs_t and at_most_one_cpu))
        if together:
            group[root(s)] = root(t)
    return [root(b) for b in range(n)]


MAX_ALL_PAIRS = 12
"""Of a hyperedge with more ends only neighbours in the order of blocks are tried."""


class _Network:
    """The flow network of a contraction; the arcs to the sink follow from p."""

    def __init__(self, contraction: Contraction) -> None:
        n = contraction.num_blocks
        heads: list[list[int]] = [[] for _ in range(n)]
        capacities: list[list[float]] = [[] for _ in range(n)]
        twins: list[tuple[int, int, int, int]] = []

        def add(a: int, b: int, forward: float, backward: float) -> None:
            while len(heads) <= max(a, b):
                heads.append([])
                capacities.append([])
            twins.append((a, len(heads[a]), b, len(heads[b])))
            heads[a].append(b)
            capacities[a].append(forward)
            heads[b].append(a)
            capacities[b].append(backward)

        node = n
        for hyperedge in contraction.hyperedges:
            weight = hyperedge.weight_ms
            if len(hyperedge.blocks) == 2:
                add(*hyperedge.blocks, weight, weight)
                continue
            add(node, node + 1, weight, 0.0)
            for b in hyperedge.blocks:
                add(b, node, math.inf, 0.0)
                add(node + 1, b, math.inf, 0.0)
            node += 2
        self._ptr, self._head = compressed_rows(heads)
        self._capacity = np.array([c for row in capacities for c in row])
        self._twin = np.zeros(len(self._capacity), np.int32)
        for a, i, b, j in twins:
            self._twin[self._ptr[a] + i] = self._ptr[b] + j
            self._twin[self._ptr[b] + j] = self._ptr[a] + i
        self._drain = np.zeros(len(heads))
        self._drain[:n] = contraction.accelerator_ms

    def reaches(self, s: int, t: int, limit: float) -> bool:
        """Whether A(s, t) is proven to be at least `limit`."""
        own = float(self._drain[s])
        return own >= limit or bool(
            _flow_reaches(
                self._ptr,
                self._head,
                self._twin,
                self._capacity.copy(),
                self._drain.copy(),
                s,
                t,
                limit - own,
                MAX_PATHS,
            )
        )


@njit(cache=True, nogil=True)
def _flow_reaches(ptr, head, twin, capacity, drain, s, t, target, max_paths):
    """Push flow from s along shortest paths to t or into drains until it reaches the target; say whether it did."""
    num_nodes = ptr.size - 1
    arc_to = np.empty(num_nodes, np.int32)
    queue = np.empty(num_nodes, np.int32)
    seen = np.full(num_nodes, -1, np.int32)
    drain[s] = 0.0
    flow = 0.0
    for path in range(max_paths):
        queue[0] = s
        seen[s] = path
        first, last = 0, 1
        end = -1
        while first < last and end < 0:
            a = queue[first]
            first += 1
            for i in range(ptr[a], ptr[a + 1]):
                b = head[i]
                if capacity[i] > 0 and seen[b] != path:
                    seen[b] = path
                    arc_to[b] = i
                    if b == t or drain[b] > 0:
                        end = b
                        break
                    queue[last] = b
                    last += 1
        if end < 0:
            return False
        amount = np.inf if end == t else drain[end]
        b = end
        while b != s:
            amount = min(amount, capacity[arc_to[b]])
            b = head[twin[arc_to[b]]]
        if np.isinf(amount):
            return True
        b = end
        while b != s:
            capacity[arc_to[b]] -= amount
            capacity[twin[arc_to[b]]] += amount
            b = head[twin[arc_to[b]]]
        if end != t:
            drain[end] -= amount
        flow += amount
        if flow >= target:
            return True
    return False
