"""What every method works with: the problem, the reporter that judges and remembers plans, and running a program."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import (
    PROOF_TOLERANCE,
    OnProgress,
    Progress,
    RejectedPlan,
    SolveResult,
    SolveStatus,
    relative_gap,
)
from solvers.model.split import Family, Split, check_split
from solvers.problem.background import Background
from solvers.problem.contraction import Contraction, contract
from solvers.problem.pins import NO_PINS, Pins
from solvers.problem.table_memory import LEAST_BYTES
from solvers.quantities import binary_size

T = TypeVar("T")

LOOK_SECONDS = 0.05
"""How often the clock is looked at while something is made."""

NOTHING_IN_TIME = "No plan was found in time; allow more time, or more memory."
UNSEARCHED = (
    "No search came to a plan; this one cuts the nodes in one order so that the longest stage computes as briefly as "
    "that allows."
)


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
    start: Split | None = None
    pins: Pins = NO_PINS
    table_bytes: int = LEAST_BYTES


def contracted(problem: Problem, family: Family, *, join_idle: bool = True, passes_apart: bool = False) -> Contraction:
    """Return the contraction of a problem's graph for the splits of a family that honour its pins."""
    return contract(
        problem.graph,
        family,
        problem.deployment,
        join_idle=join_idle,
        passes_apart=passes_apart,
        together=problem.pins.groups,
        fixed=problem.pins.device_of,
    )


def watched(make: Callable[[], T], watch: Callable[[], bool]) -> T | None:
    """Return what `make` does, in a thread of its own so that `watch` is called meanwhile; None where that says stop.

    For what takes seconds on large graphs and looks at no clock; it is left to end by itself.
    """
    making = Background(make, "preparation")
    while making.is_running:
        making.wait(LOOK_SECONDS)
        if not watch():
            return None
    return making.result()


class Reporter:
    """Turns what a method finds into Progress for the caller, and remembers the best of it.

    Plans and bounds may come from any thread, reports from that of the method alone.
    """

    def __init__(self, problem: Problem, on_progress: OnProgress | None) -> None:
        """Start the clock."""
        self._problem, self._on_progress = problem, on_progress
        self._started = time.monotonic()
        self.split: Split | None = None
        self.value_ms: float | None = None
        self.lower_bound_ms: float | None = None
        self.num_kept: int | None = None
        self._rejected: RejectedPlan | None = None
        self._unsearched: Split | None = None
        self._told: Split | None = None
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds since the solve began."""
        return time.monotonic() - self._started

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time limit, at least 0; None without a limit."""
        limit = self._problem.time_limit_s
        return None if limit is None else max(0.0, limit - self.seconds)

    @contextmanager
    def uncharged(self) -> Iterator[None]:
        """Have the clock stand still: what is done here is not the solve's."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._started += time.monotonic() - began

    def found(self, split: Split) -> bool:
        """Judge a split by the evaluator and keep it if it is valid and better; say whether it was kept."""
        problem = self._problem
        value = objective_value(problem.graph, problem.deployment, split, problem.objective)
        if value is None or (self.value_ms is not None and value >= self.value_ms):
            return False
        if check_split(problem.graph, problem.deployment, split, problem.family):
            return False
        if problem.pins and problem.pins.broken_by(problem.graph, split):
            return False
        with self._lock:
            if self.value_ms is not None and value >= self.value_ms:  # another thread was quicker
                return False
            self.split, self.value_ms = split, value
        return True

    def found_without_search(self, split: Split) -> None:
        """Like `found`, for a plan that is there for want of a better one; the answer says so if it comes to it."""
        if self.found(split):
            self._unsearched = split

    def judged(self, split: Split) -> bool:
        """Like `found`, for a method that ignores rules: the best plan that breaks one is remembered as rejected."""
        problem = self._problem
        value = objective_value(problem.graph, problem.deployment, split, problem.objective)
        if value is None:
            return False
        violations = check_split(problem.graph, problem.deployment, split, problem.family)
        if not violations:
            return self.found(split)
        if self._rejected is None or value < self._rejected.value_ms:
            self._rejected = RejectedPlan(split, value, violations)
        return False

    def proved(self, lower_bound_ms: float) -> None:
        """Take over a lower bound that is better than the one known."""
        with self._lock:
            if self.lower_bound_ms is None or lower_bound_ms > self.lower_bound_ms:
                self.lower_bound_ms = lower_bound_ms

    def within(self, gap: float) -> bool:
        """Whether the best plan is proven to be within a relative gap of the optimum."""
        known = relative_gap(self.value_ms, self.lower_bound_ms)
        return known is not None and known <= max(gap, PROOF_TOLERANCE)

    def report(self, phase: str) -> None:
        """Tell the caller where things stand, and of a split not told before; SolveCancelled travels through here."""
        if self._on_progress is not None:
            with self._lock:
                split, value_ms = self.split, self.value_ms
            new_split, self._told = None if split is self._told else split, split
            self._on_progress(Progress(self.seconds, value_ms, self.lower_bound_ms, phase, new_split))

    def result(self, method: str, *, infeasible: str | None = None, message: str = "") -> SolveResult:
        """Return the best known as an answer; `infeasible` says why there is provably none."""
        problem = self._problem
        if infeasible is not None:
            status, message = SolveStatus.INFEASIBLE, infeasible
        elif self.split is None:
            status, message = SolveStatus.UNKNOWN, message or NOTHING_IN_TIME
        else:
            status = SolveStatus.OPTIMAL if self.within(0.0) else SolveStatus.FEASIBLE
            if self.split is self._unsearched and status is SolveStatus.FEASIBLE and UNSEARCHED not in message:
                message = f"{message} {UNSEARCHED}".strip()
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
            rejected=self._rejected if self.split is None else None,
            num_kept=self.num_kept,
        )


def no_split_fits(problem: Problem) -> str:
    """Say what a search that found no split has proven."""
    memory = problem.deployment.memory_bytes  # None with classes, each of which has its own
    if problem.pins:
        wider = "" if problem.family is Family.FREE else f", or allow more than {problem.family.named} splits"
        return f"No split that honours the pins keeps every device within its limits; unpin some nodes{wider}."
    size = "" if memory is None else f" of {binary_size(memory)}"
    is_free, is_latency = problem.family is Family.FREE, problem.objective is Objective.LATENCY
    how = "way to share them" if is_free or is_latency else f"{problem.family.named} split"
    wider = "" if is_free or is_latency else " A less restricted split type may fit."
    if is_latency:
        wider = " (Accelerators must not wait for each other in a circle.)"
    return (
        f"The nodes fit in total, but no {how} keeps every one of the "
        f"{problem.deployment.num_accelerators} accelerators{size} within its memory; "
        f"add memory, an accelerator or a CPU.{wider}"
    )
