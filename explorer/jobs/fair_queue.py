"""Whose turn it is: waiting pieces of work, shared fairly over the sessions that asked for them.

Nobody gets a second piece of work begun before everybody who waits has one at work, and among equals those go first
that were served the longest time ago: round robin over sessions, first come first served within one. Who asks for a
hundred things (a sweep, say) holds up nobody who asks for one.

The queue knows nothing of processes or time; whoever uses it says what is at work.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

MAX_REMEMBERED = 4096
"""Sessions whose last turn is remembered; who is forgotten counts as never served."""


class Asked(Protocol):
    """A piece of work, and the sessions that wait for it: one of them pays with its turn."""

    @property
    def sessions(self) -> frozenset[str]:
        """Names of the sessions, at least one."""
        ...


W = TypeVar("W", bound=Asked)


class FairQueue(Generic[W]):
    """Work that waits, in the order of its arrival; not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._waiting: list[W] = []
        self._served: dict[str, int] = {}
        self._turn = 0

    def __len__(self) -> int:
        """Return how much waits."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[W]:
        """Return what waits, in the order of its arrival."""
        return iter(tuple(self._waiting))

    def add(self, work: W) -> None:
        """Have work wait for its turn."""
        self._waiting.append(work)

    def remove(self, work: W) -> None:
        """Take work out that shall not begin; ValueError when it does not wait."""
        self._waiting.remove(work)

    def take(self, running: Iterable[W]) -> W | None:
        """Remove and return what begins next beside what is running; None when nothing waits."""
        counts = _counts(running)
        best = min(self._waiting, key=lambda work: self._rank(work, counts, self._served), default=None)
        if best is not None:
            self._waiting.remove(best)
            self._serve(best, counts, self._served)
            while len(self._served) > MAX_REMEMBERED:
                del self._served[next(iter(self._served))]
        return best

    def order(self, running: Iterable[W]) -> list[W]:
        """Return what waits in the order in which it will begin, as far as is known now.

        What is at work is taken to go on, so each piece that begins counts for those after it.
        """
        counts, served, turn = _counts(running), dict(self._served), self._turn
        waiting, found = list(self._waiting), []
        while waiting:
            work = min(waiting, key=lambda work: self._rank(work, counts, served))
            waiting.remove(work)
            found.append(work)
            self._serve(work, counts, served)
        self._turn = turn
        return found

    def _rank(self, work: W, counts: Counter[str], served: dict[str, int]) -> tuple[int, int]:
        return min((counts[session], served.get(session, -1)) for session in work.sessions)

    def _serve(self, work: W, counts: Counter[str], served: dict[str, int]) -> None:
        """Note that the session that has waited longest for this has had its turn."""
        session = min(work.sessions, key=lambda session: (counts[session], served.get(session, -1), session))
        self._turn += 1
        served.pop(session, None)  # the latest stands last
        served[session] = self._turn
        counts.update(work.sessions)


def _counts(running: Iterable[W]) -> Counter[str]:
    """Return how much is at work for each session."""
    return Counter(session for work in running for session in work.sessions)
