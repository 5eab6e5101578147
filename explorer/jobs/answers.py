"""The answers that are remembered: so many, and each for so long after it was asked for last."""

import time
from collections import OrderedDict
from collections.abc import Callable

from explorer.jobs.record import Question, RunRecord


class Answers:
    """Runs that are over, by question, the least recently asked for first; safe under the lock of whoever owns it."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._runs: OrderedDict[Question, tuple[RunRecord, float]] = OrderedDict()

    def get(self, question: Question) -> RunRecord | None:
        """Return the run that answered a question; None when it is not remembered."""
        if question not in self._runs:
            return None
        run, _ = self._runs[question]
        self.put(run)
        return run

    def put(self, run: RunRecord) -> None:
        """Remember a run, from now on for the whole time again."""
        self._runs[run.question] = run, self._clock()
        self._runs.move_to_end(run.question)
        self.forget_old()

    def forget_old(self) -> None:
        """Forget what is too old or too much."""
        while self._runs:
            question, (_, used_s) = next(iter(self._runs.items()))
            if len(self._runs) <= self._most and self._clock() - used_s <= self._seconds:
                return
            del self._runs[question]

    def forget_all(self) -> None:
        """Forget all of them."""
        self._runs.clear()
