"""Which work is done at a time: live plans in slots of their own, all else shared fairly, and what is long yields.

Work that a change of the inputs started (a live plan, a fraction of a second as a rule) has `num_live` slots that
nothing else may take. What somebody asked for by a button, a sweep's points too, has `num_asked` slots, shared over the
sessions by a fair queue. Work that has had `SLICE_S` in a slot makes room for another session's that waits: it goes on
beside the slots, at the lowest priority, in one of `num_long` places. When these are full, the longest of them is
paused after `LONG_SLICE_S`: its process ends, and it queues again with its best plan and bound, for the time it has
left.
So nobody waits for the end of somebody else's long solve, and a long solve alone on the machine never yields.

Pure rules: nothing here starts or ends anything; `WorkerPool` does what `next_step` says, under its lock.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from explorer.jobs.fair_queue import FairQueue
from explorer.jobs.record import Place, Work

SLICE_S = 10.0
"""What work that was asked for has in a slot before it yields to another session's."""
LIVE_SLICE_S = 3.0
"""The same for a live plan: a solve that takes longer does not feel live."""
LONG_SLICE_S = 30.0
"""How long a solve is at work at least before it may be paused: what a solver has in its memory is lost then."""


class Do(Enum):
    """What a step does to its work."""

    BEGIN = auto()
    YIELD = auto()
    PAUSE = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """What is to happen next; a BEGIN says in which place."""

    do: Do
    work: Work
    place: Place = Place.WAITING


class Slots:
    """The work that waits and that is being done; safe under the lock of whoever owns it."""

    def __init__(self, num_live: int, num_asked: int, num_long: int) -> None:
        self.num_live, self.num_asked, self.num_long = num_live, num_asked, num_long
        self._live: FairQueue[Work] = FairQueue()
        self._asked: FairQueue[Work] = FairQueue()
        self._running: list[Work] = []

    def __iter__(self) -> Iterator[Work]:
        """Return what is being done."""
        return iter(tuple(self._running))

    @property
    def waiting(self) -> tuple[Work, ...]:
        """What waits, live plans first."""
        return (*self._live, *self._asked)

    def add(self, work: Work) -> None:
        """Have work wait for its turn."""
        work.place = Place.WAITING
        (self._live if work.is_live else self._asked).add(work)

    def remove(self, work: Work) -> None:
        """Forget work that is over, or that is to wait again."""
        if work.place is Place.WAITING:
            (self._live if work.is_live else self._asked).remove(work)
        elif work in self._running:
            self._running.remove(work)
        work.place = Place.OVER

    def next_step(self) -> Step | None:
        """Return what is to be done now, taken as done from here on; None when nothing can be."""
        return self._step_for_live() or self._step_for_asked()

    def _step_for_live(self) -> Step | None:
        if not len(self._live):
            return None
        if len(self._at(Place.LIVE)) < self.num_live:
            return self._begin(self._live, Place.LIVE)
        slow = [work for work in self._at(Place.LIVE) if work.stretch_s >= LIVE_SLICE_S]
        if slow:
            return self._yield(max(slow, key=lambda work: work.stretch_s))
        if not len(self._asked) and len(self._at(Place.ASKED)) < self.num_asked:
            return self._begin(self._live, Place.ASKED)
        return None

    def _step_for_asked(self) -> Step | None:
        if not len(self._asked):
            return None
        if len(self._at(Place.ASKED)) < self.num_asked:
            return self._begin(self._asked, Place.ASKED)
        first = self._asked.order(self._at(Place.ASKED, Place.LONG))[0]
        counts = Counter(session for work in self._running for session in work.sessions)
        yielding = [
            work
            for work in self._at(Place.ASKED)
            if work.stretch_s >= SLICE_S and work.ending is None and not work.sessions & first.sessions
        ]
        if not yielding:
            return None
        return self._yield(max(yielding, key=lambda work: (max(counts[s] for s in work.sessions), work.stretch_s)))

    def _begin(self, queue: FairQueue[Work], place: Place) -> Step | None:
        work = queue.take(self._at(Place.LIVE) if queue is self._live else self._at(Place.ASKED, Place.LONG))
        assert work is not None
        work.place = place
        self._running.append(work)
        return Step(Do.BEGIN, work, place)

    def _yield(self, work: Work) -> Step | None:
        """Have work leave its slot, in which another may begin then; have one paused where there is no place for it."""
        if len(self._at(Place.LONG)) < self.num_long:
            work.place, work.is_live = Place.LONG, False
            return Step(Do.YIELD, work)
        pausing = [w for w in self._running if w.ending is not None]
        if pausing:  # its place is about to be free
            return None
        # What is past its limit ends by itself in a moment, and has no time left to go on with.
        victims = [
            w for w in self._at(Place.LONG) if w.can_pause and w.stretch_s >= LONG_SLICE_S and w.seconds < w.limit_s
        ]
        return Step(Do.PAUSE, max(victims, key=lambda w: w.stretch_s)) if victims else None

    def _at(self, *places: Place) -> list[Work]:
        return [work for work in self._running if work.place in places]

    def message(self, work: Work) -> str:
        """Say at which place of the queue work waits, and about how long; empty when it does not wait."""
        if work.place is not Place.WAITING:
            return ""
        is_live = work.is_live
        queue, num_slots = (self._live, self.num_live) if is_live else (self._asked, self.num_asked)
        running = self._at(Place.LIVE) if is_live else self._at(Place.ASKED, Place.LONG)
        order = queue.order(running)
        place, wait_s = order.index(work), self._wait_s(order, work, num_slots)
        position = "next in the queue" if place == 0 else f"number {place + 1} in the queue"
        busy = "All solvers are busy" if num_slots > 1 else "The solver is busy"
        return f"{busy}: {position}{f', about {_rounded(wait_s)}' if math.isfinite(wait_s) else ''}."

    def _wait_s(self, order: list[Work], work: Work, num_slots: int) -> float:
        """Return about how long work waits: others take no longer than their limits, and yield after their slice."""
        slot, slice_s = (Place.LIVE, LIVE_SLICE_S) if work.is_live else (Place.ASKED, SLICE_S)
        room_in_s = self._room_beside_in_s()
        free_in_s = [
            max(0.0, min(max(slice_s - other.stretch_s, room_in_s), other.limit_s - other.seconds))
            for other in self._at(slot)
        ]
        free_in_s += [0.0] * (num_slots - len(free_in_s))
        heapq.heapify(free_in_s)
        for other in order:
            wait_s = heapq.heappop(free_in_s)
            if other is work:
                return wait_s
            heapq.heappush(free_in_s, wait_s + min(slice_s, other.limit_s - other.seconds))
        return math.inf

    def _room_beside_in_s(self) -> float:
        """Return after how long what has had its time in a slot finds a place beside the slots."""
        long = self._at(Place.LONG)
        if len(long) < self.num_long:
            return 0.0
        left_s = [(w.limit_s - w.seconds, LONG_SLICE_S - w.stretch_s if w.can_pause else math.inf) for w in long]
        return max(0.0, min((min(both) for both in left_s), default=math.inf))


def _rounded(seconds: float) -> str:
    """Write a time that is known roughly, in words no finer than that.

    >>> _rounded(0.2), _rounded(13.1), _rounded(250)
    ('1 s', '15 s', '4 min')
    """
    if seconds >= 90:
        minutes = round(seconds / 60)
        return f"{minutes} min"
    return f"{max(1, math.ceil(seconds)) if seconds <= 5 else 5 * math.ceil(seconds / 5)} s"
