"""Running a sweep: its points on any executor, each from what its neighbours have shown, in whatever order they end.

A point is solved from the best plan of its harder neighbours and a bound from its easier ones (`solvers.sweep.spec`);
where an easier neighbour is infeasible it is too, and where plan and bound meet nothing is searched. What is handed to
an executor is one point, so that a worker that is lost takes one point with it, which is tried again elsewhere.

Some executors break as a whole when one worker is lost (`ProcessPoolExecutor`) and do not tell which call it was at.
All points at work are then tried again one at a time, so that none is given up for what another does to its workers.

Guarantee: a sweep gives the same values, bounds, plans and states on any executor and any number of workers, in one go
or resumed, as long as no point reaches its time limit and the method is the DP (or auto where the DP proves the
optimum) or a baseline, whose seeds are fixed. Points that other engines prove agree within the tolerance of a proof,
1e-6. A point that ends at its limit has a valid plan and a valid bound, which depend on the speed of the machine.
"""

import heapq
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from functools import lru_cache

from solvers.analysis.what_if import carried_over
from solvers.baselines.table import family_of_answer
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import OnProgress, SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.parameters.asked import as_asked
from solvers.processes.worker_processes import WorkerStoppedError
from solvers.solve import solve
from solvers.sweep.axes import OUR_DEVICES, Change, DeviceSource, Quantity, Value, Varied, asked_at, in_order
from solvers.sweep.spec import Index, SweepSpec
from solvers.sweep.starts import best_start

MAX_TRIES = 3
"""A point whose workers failed so often is given up; the sweep goes on."""

STOPPED = " (stopped)"
"""What is added to the method of a point that was ended at a limit of this machine; its message says which."""

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
    changes: tuple[Change, ...]
    family: Family
    method: str
    time_limit_s: float | None
    gap: float
    starts: tuple[Split, ...] = ()
    lower_bound_ms: float | None = None
    source: DeviceSource = OUR_DEVICES


def solve_point(
    task: PointTask, on_progress: OnProgress | None = None, *, table_bytes: int | None = None
) -> SolveResult:
    """Solve one point, in whichever process this is; the same task has the same answer wherever it is solved.

    `table_bytes` is what the tables of the DP may take, by default the usual share of that process's machine.
    """
    graph = _unpacked(task.packed)
    asked = as_asked(graph, task.deployment, task.objective, task.family, task.method)
    for varied, value in in_order(task.changes):
        is_link = not varied.of_class and varied.quantity in (Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR)
        if is_link and asked.graph is graph:
            asked = replace(asked, graph=_with_links(task.packed, varied, value))
        else:
            asked = asked_at(asked, varied, value, task.source)
    return solve(
        asked.graph,
        asked.deployment,
        objective=asked.objective,
        method=task.method,
        family=task.family,
        time_limit_s=task.time_limit_s,
        gap=task.gap,
        start=best_start(asked, task.starts),
        lower_bound_ms=task.lower_bound_ms,
        table_bytes=table_bytes,
        on_progress=on_progress,
    )


def resumed(task: PointTask, left_s: float, split: Split | None, lower_bound_ms: float | None) -> PointTask:
    """Return the task of a point that was begun before: for the rest of its time, from its best plan and bound."""
    bounds = [bound for bound in (task.lower_bound_ms, lower_bound_ms) if bound is not None]
    return replace(
        task,
        time_limit_s=None if task.time_limit_s is None else max(0.0, left_s),
        starts=task.starts if split is None else (*task.starts, split),
        lower_bound_ms=max(bounds, default=None),
    )


@lru_cache(maxsize=2)
def _unpacked(packed: PackedGraph) -> DnnGraph:
    """Return a graph, unpacked at its first use in this process."""
    # From the process that started this one, over its own pipe, or through the user's own cluster.
    graph: DnnGraph = pickle.loads(zlib.decompress(packed.data))  # noqa: S301
    return graph


@lru_cache(maxsize=GRAPHS_KEPT)
def _with_links(packed: PackedGraph, varied: Varied, value: Value) -> DnnGraph:
    """Return a graph with another bandwidth, worked out at its first use in this process."""
    asked = as_asked(_unpacked(packed), Deployment(1), Objective.THROUGHPUT)
    return asked_at(asked, varied, value).graph


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
    times in all. Raises what an executor raises that takes no call, MAX_TRIES times in a row.
    """
    run = _Run(spec, dict(known or {}), solve_one)
    executor = make_executor()
    refusals = 0
    try:
        while not run.is_over and not is_cancelled():
            yield from run.answered_by_neighbours()
            try:
                run.submit(executor, at_once)
                refusals = 0
            except RuntimeError:  # BrokenExecutor is one; a pool that breaks just now may say that it is shut down
                refusals += 1
                if refusals >= MAX_TRIES:
                    raise
                run.is_broken = True
            ended, _ = wait(run.running, timeout=0 if run.is_broken else POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                answer = run.taken_in(future)
                if answer is not None:
                    yield answer
            if run.is_broken:
                run.take_back_all()
                executor.shutdown(wait=False)
                executor = make_executor()
    finally:
        for future in run.running:
            future.cancel()
        executor.shutdown(wait=False)


class _Run:
    """What is solved, what is at work, and what can begin.

    A point can begin when all its neighbours are solved. Each point counts those it waits for, so that an answer costs
    its followers and not a look at every point: sweeps have up to 10,000.
    """

    def __init__(self, spec: SweepSpec, known: dict[Index, SolveResult], solve_one: SolvePoint) -> None:
        self._spec, self._known, self._solve_one = spec, known, solve_one
        self._packed = PackedGraph.of(spec.graph)
        self._rank = {index: i for i, index in enumerate(spec.points())}
        self._num_missing: dict[Index, int] = {}
        self._followers: dict[Index, list[Index]] = {}
        self._num_waiting = 0
        self._fresh: list[Index] = []  # ready, but their neighbours are not looked at yet
        self._ready: list[tuple[int, Index]] = []  # a heap by the order of the points
        self._tries: dict[Index, int] = {}
        self._suspected: set[Index] = set()  # at work when an executor broke, and not answered since
        self._suspects: list[tuple[int, Index]] = []  # a heap of those of them that wait
        self.running: dict[Future[SolveResult], Index] = {}
        self.is_broken = False  # the executor, and with it all that it is still at work on
        for index in self._rank:
            if index not in known:
                self._num_waiting += 1
                self._wait_for_neighbours(index)

    def _wait_for_neighbours(self, index: Index) -> None:
        missing = [other for side in self._spec.neighbours(index) for other in side if other not in self._known]
        self._num_missing[index] = len(missing)
        for other in missing:
            self._followers.setdefault(other, []).append(index)
        if not missing:
            self._fresh.append(index)

    @property
    def is_over(self) -> bool:
        return not self._num_waiting and not self.running

    def answered_by_neighbours(self) -> Iterator[PointResult]:
        """Yield the waiting points that are infeasible because an easier neighbour is."""
        while self._fresh:
            index = self._fresh.pop()
            _, easier = self._spec.neighbours(index)
            other = next((o for o in easier if self._known[o].status is SolveStatus.INFEASIBLE), None)
            if other is None:
                heapq.heappush(self._ready, (self._rank[index], index))
            else:
                self._num_waiting -= 1
                yield self._answer(index, self._infeasible_by(index, other))

    def submit(self, executor: Executor, at_once: int) -> None:
        """Hand the next points that can begin to the executor."""
        # After an executor broke: one of those it was at work on, with no other beside it.
        is_alone = bool(self._suspects) or not self._suspected.isdisjoint(self.running.values())
        ready, at_once = (self._suspects, 1) if is_alone else (self._ready, at_once)
        while ready and len(self.running) < at_once:
            _, index = ready[0]
            future = executor.submit(self._solve_one, self._task(index))  # which may fail: then the point still waits
            heapq.heappop(ready)
            self._num_waiting -= 1
            self.running[future] = index

    def taken_in(self, future: Future[SolveResult]) -> PointResult | None:
        """Return the answer of a point that has ended; None when its worker failed and it will be tried again."""
        index = self.running.pop(future)
        try:
            return self._answer(index, future.result())
        except PlacementError:
            raise
        except WorkerStoppedError as stopped:
            return self._answer(index, self._stopped(index, stopped))
        except Exception as error:  # whatever becomes of a worker: killed, out of memory, unreachable
            if isinstance(error, BrokenExecutor):
                self.is_broken = True
                if index not in self._suspected:  # any of those at work may have broken it
                    self._suspected.add(index)
                    self._wait_again(index)
                    return None
            self._tries[index] = self._tries.get(index, 0) + 1
            if self._tries[index] < MAX_TRIES:
                self._wait_again(index)
                return None
            return self._answer(index, self._failure(index, error), is_failed=True)

    def take_back_all(self) -> None:
        """Have all that is still at work tried again, on another executor."""
        # Not all executors that break end all of their futures, so none is waited for. None is cancelled either: the
        # executor may be about to end it, and the thread that does would fail on a future that has ended.
        for index in self.running.values():
            self._suspected.add(index)
            self._wait_again(index)
        self.running.clear()
        self.is_broken = False

    def _wait_again(self, index: Index) -> None:
        self._num_waiting += 1
        heapq.heappush(self._suspects if index in self._suspected else self._ready, (self._rank[index], index))

    def _answer(self, index: Index, result: SolveResult, *, is_failed: bool = False) -> PointResult:
        self._known[index] = result
        self._suspected.discard(index)
        for follower in self._followers.pop(index, ()):
            self._num_missing[follower] -= 1
            if not self._num_missing[follower]:
                self._fresh.append(follower)
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
            starts=self._starts(index, harder),
            lower_bound_ms=max((bound for bound in bounds if bound is not None), default=None),
            source=spec.source,
        )

    def _starts(self, index: Index, harder: tuple[Index, ...]) -> tuple[Split, ...]:
        """Return the plans of harder neighbours on the devices of a point: what these have more of stays idle."""
        deployment_at = self._spec.deployment_at
        return tuple(
            carried_over(split, deployment_at(other), deployment_at(index))
            for other in harder
            if (split := self._known[other].split) is not None
        )

    def _infeasible_by(self, index: Index, other: Index) -> SolveResult:
        a = next(a for a, i in enumerate(other) if i != index[a])
        easier = self._spec.axes[a].text(other[a])
        return self._without_plan(
            index, SolveStatus.INFEASIBLE, BY_NEIGHBOUR, f"There is no plan with {easier} either, which is easier."
        )

    def _failure(self, index: Index, error: Exception) -> SolveResult:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        message = f"Its workers failed {MAX_TRIES} times, the last time with {what}"
        return self._without_plan(index, SolveStatus.UNKNOWN, self._spec.method, message)

    def _stopped(self, index: Index, stopped: WorkerStoppedError) -> SolveResult:
        """Return what a point has found that was ended at a limit."""
        none = self._without_plan(index, SolveStatus.UNKNOWN, self._spec.method + STOPPED, str(stopped))
        asked, split = self._spec.asked(index), stopped.split
        value_ms = None if split is None else objective_value(asked.graph, asked.deployment, split, asked.objective)
        if value_ms is None:
            return replace(none, lower_bound_ms=stopped.lower_bound_ms)
        bound_ms = None if stopped.lower_bound_ms is None else min(stopped.lower_bound_ms, value_ms)
        assert split is not None
        found = replace(none, status=SolveStatus.FEASIBLE, split=split, value_ms=value_ms, lower_bound_ms=bound_ms)
        return replace(found, family=family_of_answer(asked.graph, split, self._spec.method, found.family))

    def _without_plan(self, index: Index, status: SolveStatus, method: str, message: str) -> SolveResult:
        objective = self._spec.asked(index).objective
        return SolveResult(status, method, objective, self._spec.family, None, None, None, 0.0, message)
