"""What is known of a solve: the question, the state, the best plan and bound over time, the answer.

Plain records; `explorer.jobs.pool` fills them.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from typing import Any, Protocol

from explorer.jobs.process import SolverProcess
from solvers.baselines.table import BASELINES, family_of_answer
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import Progress, SolveResult, SolveStatus, relative_gap
from solvers.model.split import Family, Split
from solvers.problem.pins import NO_PINS, Pins
from solvers.quantities import seconds

MAX_HISTORY = 4000
"""Points kept of a run's history; beyond, every second one is dropped."""

BEST_SO_FAR = "this is the best plan so far"
NO_PLAN = "no plan was found until then"
"""How the message of a run that was ended ends."""
PAGE_AWAY = "The page was away while this was solved"
"""Why a run ended whose sessions are gone."""


class JobState(StrEnum):
    """Where a job is; the last four are final. STOPPED was ended by the server, with the best plan until then."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class Place(Enum):
    """Where a piece of work is: it waits, runs in a slot for live plans, in one for what was asked for, or beside them.

    What is LONG has had its time in a slot: it goes on at the lowest priority, so that others may have the slot.
    """

    WAITING = auto()
    LIVE = auto()
    ASKED = auto()
    LONG = auto()
    OVER = auto()


class Ending(Enum):
    """What becomes of work whose process is being killed: it is over, it goes on later, or it went past a limit.

    What is over was CANCELLED by whoever asked, or LEFT by a session that is gone.
    """

    CANCELLED = auto()
    LEFT = auto()
    PAUSED = auto()
    STOPPED = auto()


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

    `seconds` is how long the run was at work, to now or its end. `progress` is the latest report, `history` has a
    point per change of value or bound, `best_split` is the best plan so far. `result` is there when the job is DONE,
    CANCELLED or STOPPED; `error` (a sentence) and `details` (a traceback) when it FAILED. `message` tells what a job
    that waits is waiting for. `from_cache` says that the answer was known before.
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


@dataclass(eq=False, slots=True, kw_only=True)
class Work:
    """A piece of work for a solver process, as the pool sees it: where it is, for how long, and why it ends.

    `limit_s` is how long it may take in all. `is_live` says that it is done while somebody changes an input, and
    `is_aside` that nobody waits for it alone: it is one of a series that fills in while a plan is read. `worked_s` is
    the time it was at work before `began_s`, the moment (by time.monotonic) at which a process began with it last; None
    while it waits, or while that process gets ready.
    """

    number: int
    limit_s: float = math.inf
    is_live: bool = False
    is_aside: bool = False
    place: Place = Place.WAITING
    worker: SolverProcess | None = None
    ending: Ending | None = None
    began_s: float | None = None
    worked_s: float = 0.0
    progress: Progress | None = None
    best_split: Split | None = None
    incumbent_ms: float | None = None
    lower_bound_ms: float | None = None

    @property
    def sessions(self) -> frozenset[str]:
        """The sessions that wait for it."""
        raise NotImplementedError

    @property
    def seconds(self) -> float:
        """For how long it was at work in all."""
        return self.worked_s + self.stretch_s

    @property
    def stretch_s(self) -> float:
        """For how long it has been at work without a pause; 0 while it waits."""
        return 0.0 if self.began_s is None else time.monotonic() - self.began_s

    @property
    def can_pause(self) -> bool:
        """Whether it may be ended and go on later from what it has found."""
        return False

    def leave(self) -> None:
        """Note that no process is at work on it any more."""
        self.worked_s, self.began_s, self.worker = self.seconds, None, None

    def pause(self) -> None:
        """Note that no process is at work on it, until one goes on with it."""
        self.leave()
        self.ending = None

    def note(self, progress: Progress) -> None:
        """Take in a report; one phase of a solver may know less than the one before it."""
        self.progress = progress
        value_ms = progress.incumbent_ms
        if value_ms is None or self.incumbent_ms is None or value_ms <= self.incumbent_ms:
            self.best_split = progress.split or self.best_split
            self.incumbent_ms = self.incumbent_ms if value_ms is None else value_ms
        if progress.lower_bound_ms is not None:
            self.lower_bound_ms = max(progress.lower_bound_ms, self.lower_bound_ms or 0.0)


Resumed = Callable[[Any, float, Split | None, float | None], Any]


@dataclass(eq=False, slots=True, kw_only=True)
class CallRecord(Work):
    """A function to be called in a solver process for a session; `function` is its name as "module:function".

    `resumed` makes the argument with which it goes on after a pause: from the one before, the seconds that are left,
    and the best plan and bound so far. Without it the call is never paused.
    """

    session: str
    function: str
    argument: Any
    future: Future[Any]
    resumed: Resumed | None = None

    @property
    def sessions(self) -> frozenset[str]:
        """The one session that asked for it."""
        return frozenset({self.session})

    @property
    def can_pause(self) -> bool:
        """Whether it knows how to go on."""
        return self.resumed is not None

    def pause(self) -> None:
        """Note that no process is at work on it, until one goes on from what was found."""
        assert self.resumed is not None
        Work.pause(self)
        left_s = self.limit_s - self.worked_s
        self.argument = self.resumed(self.argument, left_s, self.best_split, self.lower_bound_ms)


class Asker(Protocol):
    """Who waits for a run: a job of a session."""

    session: str


@dataclass(eq=False, slots=True, kw_only=True)
class RunRecord(Work):
    """The work on one question, shared by the jobs that asked it. `graph` is None when the work is over."""

    question: Question
    graph: DnnGraph | None
    start: Split | None = None
    jobs: set[Asker] = field(default_factory=set)
    state: JobState = JobState.QUEUED
    history: list[HistoryPoint] = field(default_factory=list)
    result: SolveResult | None = None
    error: str = ""
    details: str = ""

    @property
    def sessions(self) -> frozenset[str]:
        """The sessions of its jobs; nobody's when all have left it."""
        return frozenset(job.session for job in self.jobs) or frozenset({""})

    @property
    def can_pause(self) -> bool:
        """Whether the method takes up a plan and a bound that were found before."""
        return self.question.method not in BASELINES

    def note(self, progress: Progress) -> None:
        """Take in a report, whose seconds count from when the process was given the work."""
        Work.note(self, progress)
        self.add_point(HistoryPoint(self.worked_s + progress.seconds, self.incumbent_ms, self.lower_bound_ms))

    def add_point(self, point: HistoryPoint) -> None:
        """Extend the history when the point brings something new."""
        last = self.history[-1] if self.history else None
        if last is None or (last.incumbent_ms, last.lower_bound_ms) != (point.incumbent_ms, point.lower_bound_ms):
            self.history.append(point)
        if len(self.history) > MAX_HISTORY:
            del self.history[1:-1:2]

    def answered(self, result: SolveResult) -> SolveResult:
        """Return the answer of its process as that of the whole run, which may have been at work before."""
        result = replace(result, runtime_s=self.worked_s + result.runtime_s)
        self.best_split = result.split or self.best_split
        self.add_point(HistoryPoint(result.runtime_s, result.value_ms, result.lower_bound_ms))
        return result

    def result_so_far(self, how: str, message: str) -> SolveResult:
        """Return the best plan so far as an answer, its value computed afresh; UNKNOWN when there is none.

        `how` it ended is said beside the method; `message` begins the sentence that tells what is left of it.
        """
        question, split = self.question, self.best_split
        value_ms, family = None, question.family
        if split is not None and self.graph is not None:
            value_ms = objective_value(self.graph, question.deployment, split, question.objective)
            family = family_of_answer(self.graph, split, question.method, family)
        bound_ms = self.lower_bound_ms
        if value_ms is not None and bound_ms is not None:
            bound_ms = min(bound_ms, value_ms)  # they may differ in the last digit
        outcome = BEST_SO_FAR if value_ms is not None else NO_PLAN
        return SolveResult(
            status=SolveStatus.UNKNOWN if value_ms is None else SolveStatus.FEASIBLE,
            method=f"{question.method} ({how})",
            objective=question.objective,
            family=family,
            split=None if value_ms is None else split,
            value_ms=value_ms,
            lower_bound_ms=bound_ms,
            runtime_s=self.seconds,
            message=f"{message.rstrip('.')}; {outcome}.",
        )

    def cancelled_result(self) -> SolveResult:
        """Return what a cancelled run leaves."""
        if not self.seconds:
            return replace(self.result_so_far("cancelled", ""), message="Cancelled before it began.")
        return self.result_so_far("cancelled", f"Cancelled after {seconds(self.seconds)}")

    def over(self, why: Ending | None) -> tuple[JobState, SolveResult]:
        """Return the state in which a run ends that nobody waits for, and what it leaves."""
        if why is Ending.LEFT:
            return JobState.STOPPED, self.result_so_far("stopped", PAGE_AWAY)
        return JobState.CANCELLED, self.cancelled_result()
