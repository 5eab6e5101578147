"""Several questions asked one after the other beside the page, a few at a time, so that a live solve finds room.

Whoever polls the page drives it: `advance` begins the next questions when earlier ones have ended, and never waits.
Jobs end with their session like all others; nothing runs on when nobody polls.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.jobs.pool import Job, Question, Snapshot, WorkerPool
from solvers.model.graph import DnnGraph
from solvers.model.split import Split

AT_ONCE = 2
"""Questions at work at a time; a pool takes four or more."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question under a key of its own, and the graph it is about."""

    key: str
    question: Question
    graph: DnnGraph


StartOf = Callable[[Ask, Mapping[str, Snapshot]], Split | None]
"""Returns the plan an ask may start from, given the answers so far; None for none."""


@dataclass(eq=False)
class Batch:
    """Asks in their order, their jobs as far as begun, and whether the user has had enough.

    `start_of` is called when an ask begins.
    """

    pool: WorkerPool
    session: str
    asks: Sequence[Ask]
    start_of: StartOf = lambda _ask, _answers: None
    at_once: int = AT_ONCE
    is_cancelled: bool = False
    _jobs: dict[str, Job] = field(default_factory=dict)

    def advance(self) -> None:
        """Begin what can begin now."""
        for ask in self.asks:
            answers = self.answers()
            running = len(self._jobs) - len(answers)
            if self.is_cancelled or running >= self.at_once:
                return
            if ask.key not in self._jobs:
                start = self.start_of(ask, answers)
                self._jobs[ask.key] = self.pool.start(self.session, ask.question, ask.graph, start, is_aside=True)

    def answers(self) -> dict[str, Snapshot]:
        """Return the questions that are over, by key."""
        return {key: snapshot for key, snapshot in self.snapshots().items() if snapshot.state.is_over}

    def snapshots(self) -> dict[str, Snapshot]:
        """Return the questions that have begun as they are now, by key."""
        return {key: job.snapshot() for key, job in self._jobs.items()}

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return len(self.answers()) == (len(self._jobs) if self.is_cancelled else len(self.asks))

    def cancel(self, spare: Callable[[Question], bool] = lambda _question: False) -> None:
        """End what runs and begin nothing more; answers stay, and what ran keeps its best plan.

        What runs is left to its end where `spare` says so: ending a solver costs a process, more than a quick solve.
        """
        self.is_cancelled = True
        for job in self._jobs.values():
            if not spare(job.question):
                job.cancel()
