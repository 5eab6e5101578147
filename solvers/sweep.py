"""Running a sweep: its points on any executor, each from what its neighbours have shown, in whatever order they end.

A point is solved from the best plan of its harder neighbours and a bound from its easier ones (`solvers.sweep_plan`);
where an easier neighbour is infeasible it is too, and where plan and bound meet nothing is searched. What is handed to
an executor is one point, so that a worker that is lost takes one point with it, which is tried again elsewhere.

Guarantee: a sweep gives the same values, bounds, plans and states on any executor and any number of workers, in one go
or resumed, as long as no point reaches its time limit and the method is the DP (or auto where the DP proves the
optimum) or a baseline, whose seeds are fixed. Points that other engines prove agree within the tolerance of a proof,
1e-6. A point that ends at its limit has a valid plan and a valid bound, which depend on the speed of the machine.
"""

import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from functools import lru_cache

from solvers.baselines.methods import BASELINES
from solvers.costs import Objective, objective_value
from solvers.deployment import Deployment
from solvers.errors import PlacementError
from solvers.graph import DnnGraph
from solvers.result import SolveResult, SolveStatus
from solvers.solve import solve
from solvers.split import Family, Split, check_split
from solvers.sweep_axes import Asked, Quantity, Value, asked_at, in_order
from solvers.sweep_plan import Index, SweepSpec

MAX_TRIES = 3
"""A point whose workers failed so often is given up; the sweep goes on."""

POLL_SECONDS = 0.1
"""How often a sweep that waits looks whether it is cancelled."""

GRAPHS_KEPT = 8
"""Graphs, with the transfer times of a point's bandwidth, that a worker keeps."""

BY_NEIGHBOUR = "neighbour"
"""The method of a point that is infeasible because an easier one is."""


@dataclass(frozen=True, slots=True)
class PointResult:
    """The answer at one point. `is_failed` when its workers failed MAX_TRIES times: then nothing is known of it."""

    index: Index
    result: SolveResult
    is_failed: bool = False


@dataclass(frozen=True, slots=True)
class PackedGraph:
    """A graph as bytes, unpacked once by each worker."""

    digest: str
    data: bytes

    @classmethod
    def of(cls, graph: DnnGraph) -> "PackedGraph":
        """Pack a graph."""
        bare = replace(graph)  # without what has been worked out of it
        return cls(graph.digest, zlib.compress(pickle.dumps(bare), 1))


@dataclass(frozen=True, slots=True)
class PointTask:
    """A point to be solved, complete in itself: the question, plans that may be valid, and a bound that is."""

    packed: PackedGraph
    deployment: Deployment
    objective: Objective
    changes: tuple[tuple[Quantity, Value], ...]
    family: Family
    method: str
    time_limit_s: float | None
    gap: float
    starts: tuple[Split, ...] = ()
    lower_bound_ms: float | None = None


def solve_point(task: PointTask) -> SolveResult:
    """Solve one point, in whichever process this is; the same task has the same answer wherever it is solved."""
    asked = Asked(_unpacked(task.packed), task.deployment, task.objective)
    for quantity, value in in_order(task.changes):
        is_link = quantity in (Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR)
        if is_link and asked.graph is _unpacked(task.packed):
            asked = replace(asked, graph=_with_links(task.packed, quantity, value))
        else:
            asked = asked_at(asked, quantity, value)
    return solve(
        asked.graph,
        asked.deployment,
        objective=asked.objective,
        method=task.method,
        family=task.family,
        time_limit_s=task.time_limit_s,
        gap=task.gap,
        start=_best_start(asked, task),
        lower_bound_ms=task.lower_bound_ms,
    )


@lru_cache(maxsize=2)
def _unpacked(packed: PackedGraph) -> DnnGraph:
    """Return a graph, unpacked at its first use in this process."""
    # From the process that started this one, over its own pipe, or through the user's own cluster.
    graph: DnnGraph = pickle.loads(zlib.decompress(packed.data))  # noqa: S301
    return graph


@lru_cache(maxsize=GRAPHS_KEPT)
def _with_links(packed: PackedGraph, quantity: Quantity, value: Value) -> DnnGraph:
    """Return a graph with another bandwidth, worked out at its first use in this process."""
    asked = Asked(_unpacked(packed), Deployment(1), Objective.THROUGHPUT)
    return asked_at(asked, quantity, value).graph


def _best_start(asked: Asked, task: PointTask) -> Split | None:
    """Return the plan of a neighbour that is best here, None if none is valid here; baselines start from none."""
    if task.method in BASELINES:
        return None
    best: tuple[float, Split] | None = None
    for start in task.starts:
        split = start.on(asked.deployment)
        value = objective_value(asked.graph, asked.deployment, split, asked.objective)
        if value is None or (best is not None and value >= best[0]):
            continue
        family = Family.FREE if asked.objective is Objective.LATENCY else task.family
        if not check_split(asked.graph, asked.deployment, split, family):
            best = value, split
    return None if best is None else best[1]


SolvePoint = Callable[[PointTask], SolveResult]


def run_sweep(
    spec: SweepSpec,
    make_executor: Callable[[], Executor],
    *,
    known: Mapping[Index, SolveResult] | None = None,
    at_once: int = 4,
    is_cancelled: Callable[[], bool] = lambda: False,
    solve_one: SolvePoint = solve_point,
) -> Iterator[PointResult]:
    """Yield the answer of each point as it arrives, all but those in `known`, which count as solved.

    `make_executor` is called once, and again whenever its executor breaks; the executor is shut down at the end.
    `at_once` points are handed to it at a time: two per worker leave none waiting. Ends early once `is_cancelled()`,
    which is asked all the time; points at work are then dropped. Raises PlacementError where a point raises one, such
    as for a method whose program is missing; any other failure of a point or its worker is tried again, MAX_TRIES
    times in all.
    """
    run = _Run(spec, dict(known or {}), solve_one)
    executor = make_executor()
    broken = 0
    try:
        while not run.is_over and not is_cancelled():
            yield from run.answered_by_neighbours()
            try:
                run.submit(executor, at_once)
                broken = 0
            except BrokenExecutor:
                broken += 1
                if broken >= MAX_TRIES:
                    raise
                executor.shutdown(wait=False)
                executor = make_executor()
                continue
            ended, _ = wait(run.running, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                answer = run.taken_in(future)
                if answer is not None:
                    yield answer
    finally:
        for future in run.running:
            future.cancel()
        executor.shutdown(wait=False)


class _Run:
    """What is solved, what is at work, and what can begin."""

    def __init__(self, spec: SweepSpec, known: dict[Index, SolveResult], solve_one: SolvePoint) -> None:
        self._spec, self._known, self._solve_one = spec, known, solve_one
        self._packed = PackedGraph.of(spec.graph)
        self._waiting = [index for index in spec.points() if index not in known]
        self._tries: dict[Index, int] = {}
        self.running: dict[Future[SolveResult], Index] = {}

    @property
    def is_over(self) -> bool:
        return not self._waiting and not self.running

    def answered_by_neighbours(self) -> Iterator[PointResult]:
        """Yield the waiting points that are infeasible because an easier neighbour is."""
        for index in list(self._waiting):
            _, easier = self._spec.neighbours(index)
            if not self._is_ready(index):
                continue
            for other in easier:
                if self._known[other].status is SolveStatus.INFEASIBLE:
                    self._waiting.remove(index)
                    yield self._answer(index, self._infeasible_by(index, other))
                    break

    def submit(self, executor: Executor, at_once: int) -> None:
        """Hand the next points that can begin to the executor."""
        for index in [index for index in self._waiting if self._is_ready(index)][: at_once - len(self.running)]:
            future = executor.submit(self._solve_one, self._task(index))
            self._waiting.remove(index)
            self.running[future] = index

    def taken_in(self, future: Future[SolveResult]) -> PointResult | None:
        """Return the answer of a point that has ended; None when its worker failed and it will be tried again."""
        index = self.running.pop(future)
        try:
            return self._answer(index, future.result())
        except PlacementError:
            raise
        except Exception as error:  # whatever becomes of a worker: killed, out of memory, unreachable
            self._tries[index] = self._tries.get(index, 0) + 1
            if self._tries[index] < MAX_TRIES:
                self._waiting.insert(0, index)
                return None
            return self._answer(index, self._failure(index, error), is_failed=True)

    def _is_ready(self, index: Index) -> bool:
        return all(other in self._known for side in self._spec.neighbours(index) for other in side)

    def _answer(self, index: Index, result: SolveResult, *, is_failed: bool = False) -> PointResult:
        self._known[index] = result
        return PointResult(index, result, is_failed)

    def _task(self, index: Index) -> PointTask:
        spec = self._spec
        harder, easier = spec.neighbours(index)
        bounds = [self._known[other].lower_bound_ms for other in easier]
        return PointTask(
            packed=self._packed,
            deployment=spec.deployment,
            objective=spec.objective,
            changes=spec.changes(index),
            family=spec.family,
            method=spec.method,
            time_limit_s=spec.time_limit_s,
            gap=spec.gap,
            starts=tuple(split for other in harder if (split := self._known[other].split) is not None),
            lower_bound_ms=max((bound for bound in bounds if bound is not None), default=None),
        )

    def _infeasible_by(self, index: Index, other: Index) -> SolveResult:
        a = next(a for a, i in enumerate(other) if i != index[a])
        axis = self._spec.axes[a]
        easier = axis.quantity.text(axis.values[other[a]])
        return self._without_plan(
            index, SolveStatus.INFEASIBLE, BY_NEIGHBOUR, f"There is no plan with {easier} either, which is easier."
        )

    def _failure(self, index: Index, error: Exception) -> SolveResult:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        message = f"Its workers failed {MAX_TRIES} times, the last time with {what}"
        return self._without_plan(index, SolveStatus.UNKNOWN, self._spec.method, message)

    def _without_plan(self, index: Index, status: SolveStatus, method: str, message: str) -> SolveResult:
        objective = self._spec.asked(index).objective
        return SolveResult(status, method, objective, self._spec.family, None, None, None, 0.0, message)
