"""What is known of a solve: the question, the state, the best plan and bound over time, the answer.

Plain records; `explorer.jobs` fills them.
"""

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from explorer.solver_process import SolverProcess
from solvers.costs import Objective, objective_value
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.pins import NO_PINS, Pins
from solvers.result import Progress, SolveResult, SolveStatus, relative_gap
from solvers.split import Family, Split

if TYPE_CHECKING:
    from explorer.jobs import Job

MAX_HISTORY = 4000
"""Points kept of a run's history; beyond, every second one is dropped."""


class JobState(StrEnum):
    """Where a job is; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self in (JobState.DONE, JobState.CANCELLED, JobState.FAILED)


@dataclass(frozen=True, slots=True)
class Question:
    """Everything an answer depends on; equal questions are solved once. `gap` is relative, the limit in seconds.

    `pins` are what the answer must honour, by device numbers of the deployment.
    """

    graph_digest: str
    deployment: Deployment
    objective: Objective = Objective.THROUGHPUT
    method: str = "auto"
    family: Family = Family.CHAIN
    time_limit_s: float | None = None
    gap: float = 0.0
    pins: Pins = NO_PINS


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Best value and proven bound in ms at a moment in seconds since the solve began; None while there is none."""

    seconds: float
    incumbent_ms: float | None
    lower_bound_ms: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job at one moment.

    `seconds` counts from the start of the run to now or its end. `progress` is the latest report, `history` has a
    point per change of value or bound, `best_split` is the best plan so far. `result` is there when the job is DONE
    or CANCELLED; `error` (a sentence) and `details` (a traceback) when it FAILED. `message` tells what a job that
    has not begun is waiting for. `from_cache` says that the answer was known before.
    """

    job_id: str
    question: Question
    state: JobState
    seconds: float
    progress: Progress | None
    history: tuple[HistoryPoint, ...]
    best_split: Split | None
    result: SolveResult | None
    error: str
    details: str
    message: str
    from_cache: bool

    @property
    def incumbent_ms(self) -> float | None:
        """Value of the best plan so far; None while there is none."""
        return self.history[-1].incumbent_ms if self.history else None

    @property
    def lower_bound_ms(self) -> float | None:
        """The best proven bound so far; None while there is none."""
        return self.history[-1].lower_bound_ms if self.history else None

    @property
    def gap(self) -> float | None:
        """Relative gap between the two; None while either is unknown."""
        return relative_gap(self.incumbent_ms, self.lower_bound_ms)


@dataclass(eq=False, slots=True)
class RunRecord:
    """The work on one question, shared by the jobs that asked it."""

    number: int
    question: Question
    graph: DnnGraph
    start: Split | None = None
    jobs: set["Job"] = field(default_factory=set)
    state: JobState = JobState.QUEUED
    worker: SolverProcess | None = None
    is_ending: bool = False
    began_s: float | None = None
    ended_s: float | None = None
    progress: Progress | None = None
    history: list[HistoryPoint] = field(default_factory=list)
    best_split: Split | None = None
    incumbent_ms: float | None = None
    lower_bound_ms: float | None = None
    result: SolveResult | None = None
    error: str = ""
    details: str = ""

    @property
    def seconds(self) -> float:
        """From the start to now or the end; 0 before it began."""
        if self.began_s is None:
            return 0.0
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.began_s

    def note(self, progress: Progress) -> None:
        """Take in a report; one phase of a solver may know less than the one before it."""
        self.progress = progress
        value_ms = progress.incumbent_ms
        if value_ms is None or self.incumbent_ms is None or value_ms <= self.incumbent_ms:
            self.best_split = progress.split or self.best_split
            self.incumbent_ms = self.incumbent_ms if value_ms is None else value_ms
        if progress.lower_bound_ms is not None:
            self.lower_bound_ms = max(progress.lower_bound_ms, self.lower_bound_ms or 0.0)
        self.add_point(HistoryPoint(progress.seconds, self.incumbent_ms, self.lower_bound_ms))

    def add_point(self, point: HistoryPoint) -> None:
        """Extend the history when the point brings something new."""
        last = self.history[-1] if self.history else None
        if last is None or (last.incumbent_ms, last.lower_bound_ms) != (point.incumbent_ms, point.lower_bound_ms):
            self.history.append(point)
        if len(self.history) > MAX_HISTORY:
            del self.history[1:-1:2]

    def cancelled_result(self) -> SolveResult:
        """Return the best plan so far as an answer, its value computed afresh; UNKNOWN when there is none."""
        question, split = self.question, self.best_split
        value_ms = None
        if split is not None:
            value_ms = objective_value(self.graph, question.deployment, split, question.objective)
        bound_ms = self.lower_bound_ms
        if value_ms is not None and bound_ms is not None:
            bound_ms = min(bound_ms, value_ms)  # they may differ in the last digit
        outcome = "this is the best plan so far" if value_ms is not None else "no plan was found until then"
        if self.began_s is None:
            message = "Cancelled before it began."
        else:
            message = f"Cancelled after {self.seconds:.1f} s; {outcome}."
        return SolveResult(
            status=SolveStatus.UNKNOWN if value_ms is None else SolveStatus.FEASIBLE,
            method=f"{question.method} (cancelled)",
            objective=question.objective,
            family=question.family,
            split=None if value_ms is None else split,
            value_ms=value_ms,
            lower_bound_ms=bound_ms,
            runtime_s=self.seconds,
            message=message,
        )
