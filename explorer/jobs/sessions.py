"""Whose jobs there are: by id, by session, and which sessions have been away for how long."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Held(Protocol):
    """What a session holds."""

    id: str
    session: str

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        ...


J = TypeVar("J", bound=Held)


class Sessions(Generic[J]):
    """The jobs of all sessions, the oldest first; safe under the lock of whoever owns it."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep jobs that are over as long as there are `most` in all."""
        self._most, self._clock = most, clock
        self._jobs: OrderedDict[str, J] = OrderedDict()
        self._absent_since_s: dict[str, float] = {}

    def add(self, job: J) -> None:
        """Keep a job, and forget the oldest that are over where there are too many."""
        self._jobs[job.id] = job
        over = [other.id for other in self._jobs.values() if other.is_over]
        for job_id in over[: max(0, len(self._jobs) - self._most)]:
            del self._jobs[job_id]

    def get(self, job_id: str) -> J | None:
        """Return a job by its id; None when it is unknown or forgotten."""
        return self._jobs.get(job_id)

    def jobs_of(self, session: str) -> tuple[J, ...]:
        """Return the jobs of a session."""
        return tuple(job for job in self._jobs.values() if job.session == session)

    def forget(self, session: str) -> tuple[J, ...]:
        """Forget the jobs of a session, and return them."""
        jobs = self.jobs_of(session)
        for job in jobs:
            del self._jobs[job.id]
        return jobs

    def names(self) -> set[str]:
        """Return the sessions that hold jobs."""
        return {job.session for job in self._jobs.values()}

    def gone(self, absent: set[str], grace_s: float) -> list[str]:
        """Return those of the sessions that are absent now that were so whenever asked for `grace_s` seconds."""
        now_s = self._clock()
        self._absent_since_s = {session: self._absent_since_s.get(session, now_s) for session in absent}
        return [session for session, since_s in self._absent_since_s.items() if now_s - since_s >= grace_s]
