"""One entry to all solvers: `solve` picks the method, watches it, and has its answer judged by the evaluator.

method   objectives            families              proof
dp       throughput            chain                 optimal (dynamic programming over ideals)
ip       throughput, gpipe     chain, convex, free   optimal, or the bound of HiGHS at the time limit
         latency               free                  optimal, or the better of that and a bound from chains of nodes
auto     all                   all                   dp where it applies and fits in memory, else ip

Latency has one family: every split for which it is defined is a candidate, whatever `family` says, and the result says
free. Its CPUs are as many as needed as soon as there is one; a result's split puts all CPU nodes on the first.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from solvers.bounds import why_infeasible, work_bound
from solvers.contraction import Contraction, contract
from solvers.costs import Objective, objective_value
from solvers.deployment import Deployment
from solvers.errors import PlacementError
from solvers.graph import DnnGraph
from solvers.result import (
    PROOF_TOLERANCE,
    OnProgress,
    Progress,
    SolveCancelled,
    SolveResult,
    SolveStatus,
    relative_gap,
)
from solvers.split import Family, Split, check_split, complete_split

POLL_SECONDS = 0.05
"""How often a running DP is looked at."""

START_SECONDS = 5.0
START_SHARE = 0.2
"""An integer program waits at most this long, and this share of its time limit, for the DP's plan to start from.

Annealing of that plan may then take as long again.
"""

SEARCH_SECONDS = 15.0
SEARCH_SHARE = 0.5
"""Annealing for latency takes at most this long, and this share of the time limit."""

MAX_LATENCY_PROGRAM = 60_000
"""Nodes and edges times accelerators of the largest latency program that is built; larger ones would not get far."""

SECONDS_PER_ROW = 1.5e-4
"""About what PuLP takes to build a row and hand it to HiGHS."""
BUILD_SHARE = 0.5
"""An integer program is not begun if building it would take more than this share of the time left."""
BOUND_SLACK = 2e-7
"""HiGHS works to tolerances near 1e-9 per row and 1e-7 in duals; its bounds are lowered by this, at scale 1."""
COARSE_SCALE = 100.0
"""A plan better than the scale of its program by more than this factor calls for a program with a new scale."""

NOTHING_IN_TIME = "No plan was found in time; allow more time, or more memory."


class MethodError(PlacementError):
    """A method that does not exist or does not solve the problem it is asked to."""


@dataclass(frozen=True)
class Problem:
    """What is asked, the same for every method."""

    graph: DnnGraph
    deployment: Deployment
    objective: Objective
    family: Family
    time_limit_s: float | None
    gap: float


class Reporter:
    """Turns what a method finds into Progress for the caller, and remembers the best of it."""

    def __init__(self, problem: Problem, on_progress: OnProgress | None) -> None:
        """Start the clock."""
        self._problem, self._on_progress = problem, on_progress
        self._started = time.monotonic()
        self.split: Split | None = None
        self.value_ms: float | None = None
        self.lower_bound_ms: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds since the solve began."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time limit, at least 0; None without a limit."""
        limit = self._problem.time_limit_s
        return None if limit is None else max(0.0, limit - self.seconds)

    def found(self, split: Split) -> bool:
        """Judge a split by the evaluator and keep it if it is valid and better; say whether it was kept."""
        problem = self._problem
        value = objective_value(problem.graph, problem.deployment, split, problem.objective)
        if value is None or (self.value_ms is not None and value >= self.value_ms):
            return False
        if check_split(problem.graph, problem.deployment, split, problem.family):
            return False
        self.split, self.value_ms = split, value
        return True

    def proved(self, lower_bound_ms: float) -> None:
        """Take over a lower bound that is better than the one known."""
        if self.lower_bound_ms is None or lower_bound_ms > self.lower_bound_ms:
            self.lower_bound_ms = lower_bound_ms

    def within(self, gap: float) -> bool:
        """Whether the best plan is proven to be within a relative gap of the optimum."""
        known = relative_gap(self.value_ms, self.lower_bound_ms)
        return known is not None and known <= max(gap, PROOF_TOLERANCE)

    def report(self, phase: str, new_split: bool = False) -> None:
        """Tell the caller where things stand; SolveCancelled travels through here."""
        if self._on_progress is not None:
            split = self.split if new_split else None
            self._on_progress(Progress(self.seconds, self.value_ms, self.lower_bound_ms, phase, split))

    def result(self, method: str, *, infeasible: str | None = None, message: str = "") -> SolveResult:
        """Return the best known as an answer; `infeasible` says why there is provably none."""
        problem = self._problem
        if infeasible is not None:
            status, message = SolveStatus.INFEASIBLE, infeasible
        elif self.split is None:
            status = SolveStatus.UNKNOWN
        else:
            status = SolveStatus.OPTIMAL if self.within(0.0) else SolveStatus.FEASIBLE
        bound = self.lower_bound_ms
        if bound is not None and self.value_ms is not None and bound > self.value_ms:
            if bound > self.value_ms * (1 + PROOF_TOLERANCE):
                status, bound = SolveStatus.FEASIBLE, None
                message = "The bound that was found contradicts the plan, so it is withheld; please report this graph."
            else:
                bound = self.value_ms  # rounding
        return SolveResult(
            status=status,
            method=method,
            objective=problem.objective,
            family=problem.family,
            split=self.split,
            value_ms=self.value_ms,
            lower_bound_ms=None if infeasible is not None else bound,
            runtime_s=self.seconds,
            message=message,
        )


def solve(
    graph: DnnGraph,
    deployment: Deployment,
    *,
    objective: Objective = Objective.THROUGHPUT,
    method: str = "auto",
    family: Family = Family.CHAIN,
    time_limit_s: float | None = None,
    gap: float = 0.0,
    start: Split | None = None,
    on_progress: OnProgress | None = None,
) -> SolveResult:
    """Return the best split found with its proven bound, for one objective and family of splits.

    `start` is a split known already: the answer is no worse, if it is valid here. Stops at the relative `gap` or
    after `time_limit_s` seconds. `on_progress` is called while the solve runs, from the calling thread; raising
    SolveCancelled in it ends the solve with the best answer so far. Raises MethodError for an unknown method, or one
    that does not fit the objective, family or graph. For the objective latency the family is always free.

    >>> from solvers.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> solve(g, Deployment(2)).value_ms
    3.5
    """
    if not 0 <= gap < 1:
        raise MethodError(f"A gap of {gap} is not usable; give a share from 0 up to, not including, 1.")
    objective, family = Objective(objective), Family(family)  # callers may write "free" for Family.FREE
    run = _choose(graph, objective, method, family)
    if objective is Objective.LATENCY:
        family = Family.FREE
    problem = Problem(graph, deployment, objective, family, time_limit_s, gap)
    reporter = Reporter(problem, on_progress)
    contraction = contract(graph, family, deployment, join_idle=objective is Objective.THROUGHPUT)
    reason = why_infeasible(graph, contraction, deployment)
    if reason is not None:
        return reporter.result(method, infeasible=reason)
    if objective is not Objective.LATENCY or not deployment.num_cpus:
        # Not with the unlimited CPUs of latency. Without CPUs latency is at least max-load.
        reporter.proved(work_bound(contraction, deployment))
    if start is not None:
        reporter.found(complete_split(graph, start).on(deployment))
    try:
        return run(problem, contraction, reporter)
    except SolveCancelled:
        return reporter.result(method, message="Cancelled; the best plan so far is kept.")


Run = Callable[[Problem, Contraction, Reporter], SolveResult]


def _choose(graph: DnnGraph, objective: Objective, method: str, family: Family) -> Run:
    """Return the function that runs a method, or raise MethodError."""
    if method not in METHODS:
        raise MethodError(f"There is no method '{method}'; choose one of {', '.join(METHODS)}.")
    if objective is Objective.GPIPE and not graph.is_training:
        raise MethodError("GPipe is a training schedule and this graph has no backward nodes; choose throughput.")
    if objective is Objective.LATENCY:
        if graph.is_training:
            raise MethodError(
                "Latency is defined for inference graphs and this graph has backward nodes; choose throughput or gpipe."
            )
        if method in ("auto", "ip"):
            return _solve_latency
    if method == "auto":
        return _solve_by_dp_then_ip if objective is Objective.THROUGHPUT and family is Family.CHAIN else _solve_by_ip
    if method == "dp" and objective is not Objective.THROUGHPUT:
        raise MethodError(f"Method dp does not solve objective {objective}; choose ip or auto.")
    if method == "dp" and family is not Family.CHAIN:
        raise MethodError(f"Method dp finds chain splits, not {family} ones; choose ip or auto.")
    return METHODS[method]


def _run_dp(
    contraction: Contraction, problem: Problem, reporter: Reporter, seconds: float | None, *, proves: bool
) -> bool:
    """Run the DP for at most `seconds`; its plans go to the reporter, and its bounds if it `proves` the problem.

    Returns whether it proved that there is no chain split.
    """
    from solvers.throughput_dp import ChainSearch  # numba loads here, when it is needed

    search = ChainSearch(contraction, problem.deployment)
    known: dict[int, int] | None = None
    failures: list[BaseException] = []

    def run() -> None:
        try:
            search.run()
        except BaseException as error:  # raised again in the calling thread
            failures.append(error)

    def take_over() -> bool:
        nonlocal known
        if proves and search.lower_bound_ms < math.inf:
            reporter.proved(search.lower_bound_ms)
        if search.device_of_block is None or search.device_of_block is known:
            return False
        known = search.device_of_block
        return reporter.found(Split.from_device_of(contraction.device_of(known), problem.deployment))

    thread = threading.Thread(target=run, name="chain search", daemon=True)
    deadline = None if seconds is None else time.monotonic() + seconds
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            reporter.report(search.phase, take_over())
            if proves and reporter.within(problem.gap):
                search.stop()
            if deadline is not None and time.monotonic() > deadline:
                search.stop()
    finally:
        search.stop()
        thread.join()
    if failures:
        raise failures[0]
    if take_over():
        reporter.report(search.phase, new_split=True)
    return search.lower_bound_ms == math.inf


def _solve_by_dp(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    if _run_dp(contraction, problem, reporter, problem.time_limit_s, proves=True):
        return reporter.result("dp", infeasible=_no_split_fits(problem))
    result = reporter.result("dp")
    if reporter.within(problem.gap):
        return result
    return replace(result, message="Stopped before the optimum was proven; method ip may get further.")


def _solve_by_dp_then_ip(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    left = reporter.seconds_left
    if _run_dp(contraction, problem, reporter, None if left is None else left / 2, proves=True):
        return reporter.result("dp", infeasible=_no_split_fits(problem))
    result = reporter.result("dp")
    if reporter.within(problem.gap) or reporter.seconds_left == 0:
        return result
    return _run_ip(problem, contraction, reporter, "dp, then ip")


def _solve_by_ip(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    """Start the integer program from the DP's chain, which is a split of every family, improved where it may be."""
    left = reporter.seconds_left
    seconds = START_SECONDS if left is None else min(START_SECONDS, START_SHARE * left)
    chain = contract(problem.graph, Family.CHAIN, problem.deployment)
    if why_infeasible(problem.graph, chain, problem.deployment) is None:
        _run_dp(chain, problem, reporter, seconds, proves=False)
    if problem.family is Family.FREE and problem.objective is Objective.THROUGHPUT:
        _anneal(contraction, problem, reporter, seconds)
    if reporter.within(problem.gap):
        return reporter.result("ip")
    return _run_ip(problem, contraction, reporter, "ip")


def _anneal(contraction: Contraction, problem: Problem, reporter: Reporter, seconds: float) -> None:
    """Improve the plan known so far as a free split, for at most `seconds` or until sweeps find nothing better."""
    if reporter.split is None:
        return
    from solvers.annealing import PATIENCE, Annealing

    device_of = reporter.split.device_of()
    annealing = Annealing(
        contraction, problem.deployment, {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)}
    )
    deadline = reporter.seconds + seconds
    futile = 0
    while futile < PATIENCE and reporter.seconds < deadline and not reporter.within(problem.gap):
        better = annealing.sweep()
        futile = 0 if better else futile + 1
        found = better and reporter.found(
            Split.from_device_of(contraction.device_of(annealing.device_of_block), problem.deployment)
        )
        reporter.report("annealing", found)


def _run_ip(problem: Problem, contraction: Contraction, reporter: Reporter, method: str) -> SolveResult:
    from solvers.throughput_ip import estimated_rows, throughput_model  # PuLP loads here, when it is needed

    seconds = SECONDS_PER_ROW * estimated_rows(contraction, problem.deployment, problem.family)
    if reporter.seconds_left is not None and seconds > BUILD_SHARE * reporter.seconds_left:
        message = "The integer program is too large to be built in the time that is left."
        missing = f"{NOTHING_IN_TIME} " if reporter.split is None else ""
        return reporter.result(method, message=missing + message)
    while True:
        reporter.report("building the integer program")
        bound = reporter.lower_bound_ms or 0.0
        model = throughput_model(
            problem.graph,
            problem.deployment,
            contraction,
            problem.family,
            problem.objective,
            scale_ms=reporter.value_ms or bound,
            lower_bound_ms=bound,
            value_ms=reporter.value_ms,
        )
        start = None if reporter.split is None else model.start_values(problem.graph, reporter.split)
        result = _run_model(model, start, problem, reporter, method)
        is_scaled = reporter.value_ms is None or reporter.value_ms * COARSE_SCALE >= model.scale_ms
        if is_scaled or reporter.within(problem.gap) or reporter.seconds_left == 0:
            return result
        # The optimum is far below the scale, where HiGHS's tolerances are no longer small: once more, scaled anew.


class _Model(Protocol):
    """An integer program whose objective is in units of `scale_ms`, and how to read a split from its variables."""

    problem: Any
    scale_ms: float

    def read_split(self, value: Any) -> Split: ...


def _run_model(
    model: _Model, start: dict[Any, float] | None, problem: Problem, reporter: Reporter, method: str
) -> SolveResult:
    from solvers.milp import MilpRefusedError, MilpReport, run_highs  # HiGHS loads here, when it is needed

    def watch(report: MilpReport) -> None:
        if report.bound is not None:
            reporter.proved(max(0.0, report.bound - BOUND_SLACK) * model.scale_ms)
        better = report.solution is not None and reporter.found(model.read_split(report.solution))
        reporter.report("integer program", better)

    try:
        outcome = run_highs(
            model.problem, time_limit_s=reporter.seconds_left, gap=problem.gap, start=start, on_report=watch
        )
    except MilpRefusedError:
        message = "The integer program was not run: the graph's numbers lie too far apart for HiGHS."
        return reporter.result(method, message=message)
    if outcome.infeasible and reporter.split is None:
        return reporter.result(method, infeasible=_no_split_fits(problem))
    if outcome.bound is not None:
        reporter.proved(max(0.0, outcome.bound - BOUND_SLACK) * model.scale_ms)
    if outcome.solution is not None:
        reporter.found(model.read_split(outcome.solution))
    if outcome.cancelled:
        raise SolveCancelled
    message = ""
    if reporter.split is None:
        message = NOTHING_IN_TIME
    return reporter.result(method, message=message)


def _solve_latency(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    """Greedy plans, annealing from the best of them, and the integer program for what is left to prove."""
    from solvers.latency_ip import latency_bound

    graph, deployment = problem.graph, problem.deployment
    reporter.report("bound from chains of nodes")
    reporter.proved(latency_bound(graph, deployment))
    reason = _search_latency(problem, contraction, reporter)
    if reason is not None:
        return reporter.result("ip", infeasible=reason)
    if reporter.within(problem.gap):
        return reporter.result("ip")
    if reporter.seconds_left == 0:
        return reporter.result("ip", message="" if reporter.split is not None else NOTHING_IN_TIME)
    if (len(graph.nodes) + len(graph.edges)) * deployment.num_accelerators > MAX_LATENCY_PROGRAM:
        message = "The graph is too large for the latency program; the bound comes from chains of nodes alone."
        return reporter.result("ip", message=message if reporter.split is not None else f"{message} {NOTHING_IN_TIME}")
    return _run_latency_ip(problem, contraction, reporter)


def _search_latency(problem: Problem, contraction: Contraction, reporter: Reporter) -> str | None:
    """Look for plans without proof; return a sentence if it is proven that there is none."""
    from solvers.baselines.greedy_latency import greedy_latency_splits, latency_search  # numba loads here

    graph, deployment = problem.graph, problem.deployment
    starts = []
    for split in greedy_latency_splits(graph, deployment):
        starts.append(split)
        reporter.report("greedy", reporter.found(split))
    left = reporter.seconds_left
    if not deployment.num_cpus:
        # Accelerators that do not wait for each other in a circle are a chain of stages.
        chain = contract(graph, Family.CHAIN, deployment)
        reason = why_infeasible(graph, chain, deployment)
        if reason is not None:
            return reason
        seconds = START_SECONDS if left is None else min(START_SECONDS, START_SHARE * left)
        if _run_dp(chain, problem, reporter, seconds, proves=False):
            return _no_split_fits(problem)
        starts += [] if reporter.split is None else [reporter.split]
    if reporter.within(problem.gap) or reporter.seconds_left == 0:
        return None
    deadline = reporter.seconds + (SEARCH_SECONDS if left is None else min(SEARCH_SECONDS, SEARCH_SHARE * left))
    for better in latency_search(graph, deployment, contraction, starts):
        reporter.report("annealing", better is not None and reporter.found(better))
        if reporter.seconds >= deadline or reporter.within(problem.gap):
            break
    return None


def _run_latency_ip(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    from solvers.latency_ip import latency_model  # PuLP loads here, when it is needed

    reporter.report("building the integer program")
    model = latency_model(
        problem.graph,
        problem.deployment,
        contraction,
        incumbent_ms=reporter.value_ms,
        lower_bound_ms=reporter.lower_bound_ms or 0.0,
    )
    start = None if reporter.split is None else model.start_values(reporter.split)
    return _run_model(model, start, problem, reporter, "ip")


def _no_split_fits(problem: Problem) -> str:
    """Say what a search that found no split has proven."""
    memory = problem.deployment.memory_bytes
    size = "" if memory is None else f" of {memory / 2**30:.3g} GiB"
    wider = "" if problem.family is Family.FREE else f" No {problem.family} split fits, a freer family may."
    if problem.objective is Objective.LATENCY:
        wider = " (Accelerators must not wait for each other in a circle.)"
    return (
        "The nodes fit in total, but no way to share them keeps every one of the "
        f"{problem.deployment.num_accelerators} accelerators{size} within its memory; "
        f"add memory, an accelerator or a CPU.{wider}"
    )


METHODS: dict[str, Run] = {"auto": _solve_by_dp_then_ip, "dp": _solve_by_dp, "ip": _solve_by_ip}
