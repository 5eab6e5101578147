"""The solver processes of a pool: which stand ready, what each is at work on, and how many are kept."""

import time
from collections.abc import Callable
from typing import Any

from explorer.jobs.process import ASKED_NICENESS, LIVE_NICENESS, SolverProcess
from explorer.jobs.record import Work
from explorer.jobs.work_request import request_of
from solvers.processes.child import End


class SolverProcesses:
    """Processes that are started ahead of time and reused; safe under the lock of whoever owns it.

    `spare` idle ones are kept for live plans and what is asked for by itself, and after a rush as many more as work at
    a time, `num_live` and `num_asked`. One that has worked on what was asked for does so for good, since its priority
    was lowered for that. `functions` are the dotted names of the solve function and of functions to call once when a
    process starts. The callbacks are those of `SolverProcess`.
    """

    def __init__(
        self,
        functions: tuple[str, ...],
        spare: int,
        num_live: int,
        num_asked: int,
        on_message: Callable[[SolverProcess, dict[str, Any]], None],
        on_end: Callable[[SolverProcess, End, str], None],
    ) -> None:
        self._functions, self._spare = functions, spare
        self._num_asked, self._most_idle = num_asked, spare + num_live + num_asked
        self._on_message, self._on_end = on_message, on_end
        self._work: dict[SolverProcess, Work | None] = {}
        self._cannot_start = False
        self._busy_s = time.monotonic()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._work)

    def all(self) -> list[tuple[SolverProcess, Work | None]]:
        """Return each process with what it is at work on."""
        return list(self._work.items())

    def idle(self) -> list[SolverProcess]:
        """Return those that have nothing to do, the oldest first."""
        return [worker for worker, work in self._work.items() if work is None and not worker.is_ending]

    def work_of(self, worker: SolverProcess) -> Work | None:
        """Return what a process is at work on; None for nothing, and for one that has ended."""
        return self._work.get(worker)

    def begin(self, work: Work) -> None:
        """Have a process of its priority do a piece of work: one that stands ready, or a new one."""
        niceness = LIVE_NICENESS if work.is_live else ASKED_NICENESS
        able = [worker for worker in self.idle() if worker.niceness <= niceness]
        if work.is_aside:
            # The next change of an input would wait a second or more for another one to start.
            warm = [worker for worker in able if worker.niceness == LIVE_NICENESS and worker.is_ready]
            able = [worker for worker in able if worker not in warm[: self._spare]]
        worker = max(able, key=lambda worker: (worker.is_ready, worker.niceness), default=None) or self._start()
        worker.yield_to(niceness)
        self._work[worker] = work
        worker.has_worked = True
        work.worker = worker
        if worker.is_ready:
            work.began_s = time.monotonic()
        worker.send(request_of(work))

    def note_ready(self, worker: SolverProcess) -> None:
        """Take note that a process has got ready; what it was given meanwhile begins now."""
        worker.is_ready = True
        self._cannot_start = False
        work = self._work.get(worker)
        if work is not None:
            work.began_s = time.monotonic()

    def note_done(self, worker: SolverProcess, *, is_reusable: bool) -> None:
        """Take note that a process is done with its work; end it where it is of no more use."""
        self._work[worker] = None
        if not is_reusable or worker.niceness > ASKED_NICENESS:
            worker.kill()

    def note_end(self, worker: SolverProcess) -> Work | None:
        """Forget a process that has ended; return what it was at work on."""
        if not worker.is_ready and not worker.is_ending:
            self._cannot_start = True
        return self._work.pop(worker)

    def keep_spare(self) -> None:
        """End idle processes that are too many, and start some where they are too few."""
        for_live = [worker for worker in self.idle() if worker.niceness == LIVE_NICENESS]
        for_asked = [worker for worker in self.idle() if worker.niceness != LIVE_NICENESS]
        # Those of a rush stay. If they ended whenever all solves have just ended, others would start with the next,
        # which takes a second of the processor. When it is quiet the watchdog ends them.
        num_for_asked = min(len(for_asked), self._num_asked)
        for worker in (*for_live[self._most_idle - num_for_asked :], *for_asked[num_for_asked:]):
            worker.kill()
        # Processes that cannot start are tried again with the next question, not in a loop.
        if not self._cannot_start:
            for _ in range(self._spare - len(for_live)):
                self._start()

    def quiet_s(self) -> float:
        """Return for how many seconds nothing has been at work, as far as anybody asked."""
        now_s = time.monotonic()
        if any(work is not None for work in self._work.values()):
            self._busy_s = now_s
        return now_s - self._busy_s

    def _start(self) -> SolverProcess:
        worker = SolverProcess(self._functions, self._on_message, self._on_end)
        self._work[worker] = None
        return worker
