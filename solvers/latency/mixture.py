"""The mixture of paths for which cutting a part of a graph into tasks costs most.

A mixture is a flow of one unit through the graph. A cut with tasks of durations d_S costs it sum_S d_S x (flow that
enters S), so the best mixture against the cuts known so far is a linear program:

    maximise t   subject to   t <= sum_S d_S (flow that enters S) + extra   for each cut,
                              flow conserved at every node, one unit in all, flow >= 0.

Its optimum is what mixtures can prove at most; every mixture proves what the cheapest cut costs it, and that cut is the
next row (cutting planes: Kelley 1960). The next mixture is between the best one and that of the program, which would
jump from corner to corner.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from solvers.latency.arrays import FloatArray, IntArray

STEP = 0.3
"""Share of the program's mixture in the next one; the rest is the best so far."""

PROGRAM_SECONDS = 1.0
"""A program that takes longer ends the search: nothing can be reported while it runs."""

UNITS = 1 << 16
"""Paths in a mixture: flows are rounded to as many."""

MAX_PATHS = 200
"""Different paths in a mixture, those of the largest flows."""

Paths = dict[tuple[int, ...], int]
"""How often each path, as rows of nodes in order, is in a mixture."""


class PathMixture:
    """Flows along the nearest successors of the nodes of a part, from a source before all to a sink after all."""

    def __init__(
        self,
        nearest: tuple[IntArray, IntArray, IntArray, IntArray],
        chain_ms: Mapping[tuple[int, int], float],
        start: Mapping[tuple[int, ...], int],
    ) -> None:
        """`nearest`: offsets and rows of each node's nearest predecessors, then of its nearest successors.

        `chain_ms`: how long a path takes between two of them, where these are in different tasks. `start`: the nodes
        that paths of the first mixture pass, in order, and how many pass them; one path at least.
        """
        from solvers.milp.highs import CuttingPlanes  # HiGHS loads here

        self._chain_ms = chain_ms
        before_start, before, after_start, after = nearest
        n = self._num_nodes = len(after_start) - 1
        following = [list(map(int, after[after_start[u] : after_start[u + 1]])) for u in range(n)]
        self._before = [list(map(int, before[before_start[v] : before_start[v + 1]])) for v in range(n)]
        # Row n is source and sink.
        self._edges = [(n, v) for v in range(n) if not self._before[v]]
        self._edges += [(u, v) for u in range(n) for v in following[u]]
        self._edges += [(u, n) for u in range(n) if not following[u]]
        self._leaving: list[list[int]] = [[] for _ in range(n + 1)]
        entering: list[list[int]] = [[] for _ in range(n + 1)]
        for e, (u, v) in enumerate(self._edges):
            self._leaving[u].append(e)
            entering[v].append(e)
        size = len(self._edges)
        self._program = CuttingPlanes(
            np.append(np.zeros(size), 1.0), np.append(np.zeros(size), -np.inf), np.append(np.ones(size), np.inf)
        )
        for v in range(n):
            columns = np.array(entering[v] + self._leaving[v], np.int32)
            signs = np.repeat([1.0, -1.0], [len(entering[v]), len(self._leaving[v])])
            self._program.add_row(0.0, 0.0, columns, signs)
        sources = np.array(self._leaving[n], np.int32)
        self._program.add_row(1.0, 1.0, sources, np.ones(len(sources)))
        self.flow = self._flow_of(start)

    def _flow_of(self, paths: Mapping[tuple[int, ...], int]) -> FloatArray:
        """Return the flow along every edge of whole paths through these nodes, one unit in all."""
        number = {edge: e for e, edge in enumerate(self._edges)}
        flow = np.zeros(len(self._edges))
        total = sum(paths.values())
        for path, count in paths.items():
            for edge in pairwise((self._num_nodes, *self._whole(path), self._num_nodes)):
                flow[number[edge]] += count / total
        return flow

    def _whole(self, path: Sequence[int]) -> list[int]:
        """Return a way through the nodes of a path, from a node without predecessors to one without successors."""
        on_path = set(path)
        met = [0] * self._num_nodes
        length = [0] * self._num_nodes
        step = [-1] * self._num_nodes
        for v in range(self._num_nodes):
            best = max(self._before[v], key=lambda u: (met[u], length[u]), default=-1)
            step[v] = best
            met[v] = (met[best] if best >= 0 else 0) + (v in on_path)
            length[v] = (length[best] if best >= 0 else 0) + 1
        way = [max(range(self._num_nodes), key=lambda u: (met[u], length[u]))]
        while step[way[-1]] >= 0:
            way.append(step[way[-1]])
        return way[::-1]

    def paths(self) -> Paths:
        """Return the mixture as paths, UNITS of them or a few less.

        Flows are taken apart one path after the other, along the largest flow that is left.
        """
        left = np.rint(self.flow * UNITS).astype(np.int64)
        found: Paths = {}
        for _ in range(MAX_PATHS):
            path: list[int] = []
            amount, at = UNITS, self._num_nodes
            edges: list[int] = []
            while at < self._num_nodes or not edges:
                e = max(self._leaving[at], key=left.__getitem__)
                edges.append(e)
                amount = min(amount, int(left[e]))
                at = self._edges[e][1]
                if at < self._num_nodes:
                    path.append(at)
            if amount <= 0:
                if found:
                    break
                amount = 1  # every flow is less than a unit
            left[edges] -= amount
            found[tuple(path)] = found.get(tuple(path), 0) + amount
        return found

    def add_cut(self, task_of: IntArray, duration_ms: Sequence[float], extra_ms: float) -> None:
        """Add a cut: the task of each node, how long each task takes, and what it costs besides."""
        n = self._num_nodes
        columns, coefficients = [], []
        for e, (u, v) in enumerate(self._edges):
            if v < n and (u == n or task_of[u] != task_of[v]):
                columns.append(e)
                coefficients.append(-duration_ms[task_of[v]] - self._chain_ms.get((u, v), 0.0))
        columns.append(len(self._edges))
        coefficients.append(1.0)
        self._program.add_row(-np.inf, extra_ms, np.array(columns, np.int32), np.array(coefficients))

    def step(self, best: FloatArray) -> float | None:
        """Move from the best flow towards that of the program; return its optimum, None where it takes too long."""
        solved = self._program.solve(PROGRAM_SECONDS)
        if solved is None:
            return None
        most_ms, values = solved
        self.flow = np.maximum(0.0, STEP * values[:-1] + (1 - STEP) * best)
        return most_ms
