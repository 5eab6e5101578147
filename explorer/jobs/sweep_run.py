"""A sweep beside the page: started, looked at, cancelled, resumed. Nothing here calls Streamlit.

A sweep runs in a thread that hands its points to the server's solver processes, which it shares with everybody else,
or to a Dask cluster. It ends when it is cancelled, and when the sessions that show it, more than one where a tab was
doubled, are gone for longer than a reload takes.
"""

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

from explorer.jobs.point_executor import PointExecutor
from explorer.jobs.pool import WorkerPool
from solvers.model.errors import PlacementError
from solvers.model.result import SolveResult
from solvers.processes.dask_cluster import dask_executor
from solvers.sweep.run import run_sweep
from solvers.sweep.spec import Index, SweepSpec

GRACE_SECONDS = 6.0
"""What a page has to come back after a reload."""


@dataclass(frozen=True, slots=True)
class SweepState:
    """A sweep at one moment: its answers so far, whether it runs, for how long, and what ended it too early.

    `message` says what it waits for while none of its points is being solved.
    """

    answers: Mapping[Index, SolveResult]
    num_failed: int
    is_running: bool
    seconds: float
    error: str = ""
    details: str = ""
    message: str = ""


@dataclass(eq=False)
class SweepRun:
    """One sweep, on the solver processes of `pool`; `is_open` tells whether a browser shows a session."""

    spec: SweepSpec
    session: str
    is_open: Callable[[str], bool]
    pool: WorkerPool
    dask_address: str = ""
    _answers: dict[Index, SolveResult] = field(default_factory=dict)
    _failed: set[Index] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _points: PointExecutor | None = None
    _error: tuple[str, str] = ("", "")
    _seconds_before: float = 0.0
    _began_s: float = 0.0

    def __post_init__(self) -> None:
        """Count the session that it is made for among those that show it."""
        self._sessions = {self.session}

    def shown_in(self, session: str) -> None:
        """Take note that a session shows it: after a reload that is another one, and in a doubled tab one more."""
        with self._lock:
            self._sessions = {session, *filter(self.is_open, self._sessions)}

    def leave(self, session: str) -> None:
        """Have a session that has no more use for it show it no longer; it ends unless another one does."""
        with self._lock:
            self._sessions.discard(session)
        if not self._is_shown():
            self.cancel()

    def _is_shown(self) -> bool:
        with self._lock:
            return any(map(self.is_open, self._sessions))

    def start(self) -> None:
        """Begin, or go on with what is not solved yet; does nothing while it runs."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._cancelled.clear()
            self._error = ("", "")
            for index in self._failed:
                del self._answers[index]
            self._failed.clear()
            self._began_s = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        """End it; what is solved stays."""
        self._cancelled.set()
        thread = self._thread
        if thread is not None:
            thread.join(timeout=2.0)

    def state(self) -> SweepState:
        """Return it as it is now; never waits."""
        with self._lock:
            is_running = self._thread is not None and self._thread.is_alive()
            seconds = self._seconds_before + (time.monotonic() - self._began_s if is_running else 0.0)
            message = self._points.message() if is_running and self._points is not None else ""
            return SweepState(dict(self._answers), len(self._failed), is_running, seconds, *self._error, message)

    def _run(self) -> None:
        absent_since: float | None = None

        def is_over() -> bool:
            nonlocal absent_since
            if self._is_shown():
                absent_since = None
            elif absent_since is None:
                absent_since = time.monotonic()
            is_gone = absent_since is not None and time.monotonic() - absent_since > GRACE_SECONDS
            return self._cancelled.is_set() or is_gone

        try:
            with contextlib.ExitStack() as stack:
                make_executor, num_workers = self._executor(stack)
                for answer in run_sweep(
                    self.spec, make_executor, known=self._answers, at_once=2 * num_workers, is_cancelled=is_over
                ):
                    with self._lock:
                        self._answers[answer.index] = answer.result
                        if answer.is_failed:
                            self._failed.add(answer.index)
        except PlacementError as error:
            self._error = str(error), ""
        except Exception as error:  # shown on the page, with its traceback folded away
            self._error = f"The sweep ended by a fault: {type(error).__name__}.", traceback.format_exc()
        finally:
            self._seconds_before += time.monotonic() - self._began_s

    def _executor(self, stack: contextlib.ExitStack) -> tuple[Callable[[], Executor], int]:
        if self.dask_address:
            return stack.enter_context(dask_executor(self.dask_address))
        return self._on_solver_processes, self.pool.max_asked

    def _on_solver_processes(self) -> Executor:
        self._points = PointExecutor(self.pool, self._asker)
        return self._points

    def _asker(self) -> str:
        """Return a session for which points are solved now, one that is there if any is."""
        with self._lock:
            return next(filter(self.is_open, sorted(self._sessions)), "")
