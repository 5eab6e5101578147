r"""Minimise the GPipe time, or max-load in the variants of the model, over chain splits: proven optimal.

The recurrence is that of `solvers.chain.stage_kernel`; this module chooses the limits it runs with.

Max-load. As in `solvers.chain.max_load` a run with threshold T finds the best chain of max-load <= T, or proves that
there is none.

GPipe. With F = max FW_i and B = max BW_i a *sweep* finds the best chain of F + B <= T, or proves that there is none, by
runs with falling limits f on FW_i. A run finds the least B(f) of any such chain with F <= f. No chain has B below the
bound b known on it, so the first f is T - b; a chain better than T, or than the best plan found meanwhile, then has
B >= B(f), hence F <= T - B(f), which is the next f. Every plan found has F above the f that follows, so the sweep goes
down the corners of the curve B(f) and ends at the bound on F. Stages with FW_i + BW_i > T never occur.

Either way T starts at a lower bound and grows in small steps until there is a plan: all that lie below the optimum are
cheap. The first plan comes from the same search on one topological line of the blocks.

A training schedule's memory depends on the number of stages after a stage. Then the graph is turned around: blocks are
numbered backwards and edges reversed, and a chain is found from its last stage to its first. Loads have no direction.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from solvers.chain.device_states import MAX_STATES, num_states
from solvers.chain.ending import Ending
from solvers.chain.ideals import IdealTable, bytes_per_row, grown_table, new_table
from solvers.chain.max_load import KIND_FACTOR, with_kinds
from solvers.chain.stage_costs import (
    PlannedStage,
    most_replicas,
    pass_bounds,
    stage_costs,
    stage_limits,
    stage_loads,
    threshold_that_allows_all,
    useful_counts,
    variant_problem,
)
from solvers.chain.stage_kernel import FINISHED, FULL, RELATIVE_SLACK, STOPPED, expand
from solvers.chain.stage_records import StageProblem
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled
from solvers.model.result import PROOF_TOLERANCE
from solvers.model.split import Split
from solvers.problem.bounds import ROUNDING, work_bound
from solvers.problem.contraction import Contraction, FloatArray
from solvers.quantities import milliseconds

FIRST_STEP, LARGEST_QUICK_STEP = 0.002, 0.01
"""Relative step of the first threshold above the lower bound, and the largest step after a quick sweep."""

QUICK_SECONDS = 0.05
"""A sweep that takes longer doubles the step, so that few long ones fail."""

MAX_TABLE_BYTES = 400 * 2**20
"""Most that bit sets of descendants and the table of ideals take; while it grows, half as much again is in use."""

FIRST_ROWS = 1024
"""About so many ideals a new table has room for, or up to twice as many; it doubles when it is full."""

LINE_THRESHOLDS = (1.25, 2.0, 5.0, 25.0)
"""The first plan is sought within these multiples of the lower bound before any plan will do: short stages are few."""

SAME_VALUE = 1e-8
"""A plan that is better by a smaller share is not looked for."""

RUNS_ON_THE_LINE = 8
"""The first plan is improved by at most so many runs on its line."""


class VariantSearch:
    """One optimisation that can be watched and stopped; `run` does the work, the rest reads its state."""

    def __init__(
        self,
        graph: DnnGraph,
        contraction: Contraction,
        deployment: Deployment,
        objective: Objective,
        max_bytes: int = MAX_TABLE_BYTES,
        pinned: Mapping[int, int] | None = None,
    ) -> None:
        """Prepare the search; nothing is computed yet. For GPipe the contraction must keep passes apart.

        `pinned` says of blocks no two of which may share a stage for which device they are.
        """
        self._contraction, self._deployment = contraction, deployment
        replicas = most_replicas(deployment)
        if not is_scheduled(graph, deployment):
            deployment = replace(deployment, training_memory=None)
        assert replicas == 1 or deployment.training_memory is None, "replicas are no stages"
        self._backwards = deployment.training_memory is not None
        costs = stage_costs(graph, contraction, deployment, objective)
        self.kinds = costs.kinds
        apart: Mapping[int, int] = pinned or {}
        self._num_states = num_states(useful_counts(contraction, deployment, costs.kinds))
        self.phase = "lower bound"
        self.ending = Ending.ANSWERED
        self.value_ms = np.inf
        self.stages: tuple[PlannedStage, ...] | None = None
        self._stop = np.zeros(1, np.uint8)
        self._gap = 0.0
        # Where a row came from is one int32 (`stage_kernel`): the row before times the ways to go on, and which.
        num_ways = len(costs.kinds) * replicas + 1
        self._max_bytes, self._most_rows = max_bytes, (2**31 - 1) // num_ways
        # What is told of each mix of devices, before any ideal, takes far more than what a row has of it.
        self._has_too_many_mixes = len(costs.kinds) > 1 and self._num_states > MAX_STATES
        self._has_room = self._most_rows_in(max_bytes) >= 1 and not self._has_too_many_mixes
        if not self._has_room:
            self.lower_bound_ms = work_bound(contraction, deployment)
            return
        self._ceiling = threshold_that_allows_all(costs)
        if pinned:
            for b, d in pinned.items():
                for g, kind in enumerate(costs.kinds):
                    if d not in kind.devices:
                        costs.accelerator_ms[g, b] = np.inf
                if not deployment.is_cpu(d):
                    costs.cpu_ms[b] = KIND_FACTOR * self._ceiling
            is_for_cpu = {b: deployment.is_cpu(d) for b, d in pinned.items()}
            contraction = with_kinds(contraction, is_for_cpu, KIND_FACTOR * self._ceiling)
        # Made when it is searched: for many blocks that takes a while, and `stop` must be able to come before.
        self._problem_of = partial(
            variant_problem,
            costs,
            contraction,
            deployment,
            backwards=self._backwards,
            pinned=apart,
            max_bytes=max_bytes,
            stopped=self._stop,
        )
        self._edges = contraction.edges
        self._pass_bounds = pass_bounds(contraction, deployment, costs) if objective is Objective.GPIPE else (0.0, 0.0)
        self.lower_bound_ms = max(work_bound(contraction, deployment), sum(self._pass_bounds))

    def begin_with(self, value_ms: float | None, lower_bound_ms: float | None, gap: float = 0.0) -> None:
        """Before `run`: look only for plans better than a value known, from a bound proven elsewhere, up to a gap."""
        self.value_ms = np.inf if value_ms is None else value_ms
        self.lower_bound_ms = max(self.lower_bound_ms, lower_bound_ms or 0.0)
        self._gap = max(gap, PROOF_TOLERANCE)

    def stop(self) -> None:
        """Make a running search return within milliseconds with what it has; safe from any thread."""
        self._stop[0] = 1

    def _most_rows_in(self, num_bytes: int) -> int:
        """Return how many ideals tables of so many bytes have room for."""
        return min(num_bytes // bytes_per_row(self._contraction.num_blocks, self._num_states), self._most_rows)

    def split_of(self, stages: tuple[PlannedStage, ...]) -> Split:
        """Return a plan as a split, its accelerators of each kind and its CPUs numbered along the chain."""
        left = [list(kind.devices) for kind in self.kinds]
        cpus: list[frozenset[int]] = []
        entry: dict[int, tuple[frozenset[int], int]] = {}
        for stage in stages:
            ids = frozenset(v for b in stage.blocks for v in self._contraction.members[b])
            if stage.replicas:
                entry[left[stage.kind][0]] = (ids, stage.replicas)
                del left[stage.kind][: stage.replicas]  # replicas have numbers in a row
            else:
                cpus.append(ids)
        idle = {d: (frozenset[int](), 1) for devices in left for d in devices}
        entries = [members for _, members in sorted({**idle, **entry}.items())]
        return Split(tuple(ids for ids, _ in entries), tuple(cpus), tuple(r for _, r in entries)).on(self._deployment)

    def run(self) -> None:
        """Search until the optimum is proven, the ideals are too many, or `stop` is called."""
        self.phase = "linearised DP"
        if np.isinf(self.lower_bound_ms):
            self.ending = Ending.NO_SPLIT
            return
        if not self._has_room:
            self.ending = Ending.MIXES if self._has_too_many_mixes else Ending.MEMORY
            return
        ceiling = self._ceiling
        n = self._contraction.num_blocks
        line = self._problem_of(edges=tuple((b, b + 1) for b in range(n - 1)))
        if isinstance(line, Ending):
            self.ending = line
            return
        for threshold in (*(factor * self.lower_bound_ms for factor in LINE_THRESHOLDS), ceiling):
            if self.value_ms == np.inf and 0 < threshold <= ceiling:
                self._sweep(line, threshold, RUNS_ON_THE_LINE)
        if self._stop[0]:
            self.ending = Ending.STOPPED
            return
        problem = self._problem_of(edges=self._edges)
        if isinstance(problem, Ending):
            self.ending = problem
            return
        step = FIRST_STEP
        threshold = self.lower_bound_ms or ceiling * 1e-6
        while self.lower_bound_ms < self.value_ms * (1 - self._gap):
            threshold = min(threshold * (1 + step), self.value_ms, ceiling)
            self.phase = f"DP over ideals, value up to {milliseconds(threshold)}"
            began = time.monotonic()
            proven = self._sweep(problem, threshold)
            is_quick = time.monotonic() - began < QUICK_SECONDS
            if proven is None:
                self.ending = Ending.STOPPED if self._stop[0] else Ending.MEMORY
                break
            self.lower_bound_ms = max(self.lower_bound_ms, proven)
            if self.value_ms <= threshold * (1 + SAME_VALUE):
                break
            if threshold == ceiling:
                self.lower_bound_ms = np.inf
                self.ending = Ending.NO_SPLIT
                break
            step = min(1.5 * step, LARGEST_QUICK_STEP) if is_quick else 2 * step

    def _sweep(self, problem: StageProblem, target: float, most_runs: int | None = None) -> float | None:
        """Look for the best chain of value <= `target`, and return what is then proven of chains of the problem.

        The best plan is taken over if it is better than the one known. None when the sweep did not end.
        """
        if problem.cpu_ms.shape[1] == 1:
            outcome, table = self._expand(problem, np.array([target]))
            if outcome != FINISHED:
                return None
            value = self._keep_best(problem, table)
            return target if value is None else min(target, value[0] * (1 - ROUNDING))
        least_forward, least_backward = self._pass_bounds
        runs = 0
        while most_runs is None or runs < most_runs:
            slack = RELATIVE_SLACK * target
            most_forward = target - least_backward + slack
            if most_forward < least_forward or target <= 0:
                return target
            limits = np.array([most_forward, target - least_forward + slack, target])
            outcome, table = self._expand(problem, limits)
            if outcome != FINISHED:
                return None
            value = self._keep_best(problem, table)
            if value is None:
                return target
            # What is looked for from here on is better than this plan, and keeps its backward time.
            together = value[0] + value[1]
            target = min(target, together * (1 - SAME_VALUE))
            least_backward = max(least_backward, value[1])
            runs += 1
        return None

    def _expand(self, problem: StageProblem, limits: FloatArray) -> tuple[int, IdealTable]:
        """Run the kernel, with a larger table whenever it asks for one."""
        max_rows = max(1, self._most_rows_in(self._max_bytes - problem.descendants.words.nbytes))
        # So that it has no more than half of its last size when it grows for the last time.
        doublings = max(0, max_rows.bit_length() - FIRST_ROWS.bit_length())
        first_rows = max_rows >> doublings
        max_rows = first_rows << doublings
        table = new_table(problem.sync_ms.size, self._num_states, first_rows, self._stop)
        followed = stage_limits(problem, limits)
        while True:
            if self._stop[0]:
                return STOPPED, table
            outcome = int(expand(problem, followed, table, max_rows))
            if outcome != FULL:
                return outcome, table
            table = grown_table(table, 2 * table.size.size)

    def _keep_best(self, problem: StageProblem, table: IdealTable) -> tuple[float, ...] | None:
        """Take over the table's best complete chain if it is better than the one known; return its maxima by pass."""
        full = int(table.first_of_size[problem.sync_ms.size])
        if full < 0:
            return None
        state = int(np.argmin(table.value[full]))
        stages = _trace(problem, table, full, state)
        maxima = tuple(stage_loads(problem, stages).max(axis=0).tolist())
        if sum(maxima) < self.value_ms:
            self.value_ms = sum(maxima)
            if self._backwards:
                last = problem.sync_ms.size - 1
                stages = [replace(s, blocks=tuple(last - b for b in s.blocks)) for s in reversed(stages)]
            self.stages = tuple(stages)
        return maxima


def _trace(problem: StageProblem, table: IdealTable, row: int, state: int) -> list[PlannedStage]:
    """Follow the origins of a complete chain and return its stages, those of the smallest ideals first."""
    stages: list[PlannedStage] = []
    codes = (len(problem.available) - 1) * problem.max_replicas + 1
    while row != 0:
        previous, code = divmod(int(table.origin[row, state]), codes)
        kind, replicas = divmod(code - 1, problem.max_replicas) if code else (-1, -1)
        bits = (table.blocks[row] & ~table.blocks[previous]).view(np.uint8)
        blocks = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        stages.append(PlannedStage(tuple(blocks.tolist()), replicas + 1, max(kind, 0)))
        row, state = previous, state - int(problem.stride[kind]) * (replicas + 1 if code else 1)
    return stages[::-1]
