"""Local processes as a `concurrent.futures` executor: any of them may be lost, and only its own call with it.

Unlike `ProcessPoolExecutor`, which is broken for good when one process dies, a lost process fails the call it was at
work on with `WorkerLostError` and is replaced at the next one. Shutting down without waiting kills the processes with
all they have started, in the middle of whatever they do; so does the end of this process, however it ends.
"""

import contextlib
import pickle
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from solvers.model.split import Split
from solvers.processes.child import Cause, Child, Owner
from solvers.processes.outcome import outcome_of, settle

P = ParamSpec("P")
T = TypeVar("T")


class WorkerLostError(Exception):
    """The process that was at work on a call has ended. The executor goes on, so this is no BrokenExecutor."""


class WorkerStoppedError(Exception):
    """A call that was ended at a limit of memory or time, as the text says; tried again it would end the same.

    `split` and `lower_bound_ms` are the best plan and bound that it had reported, None where there was none.
    """

    def __init__(self, why: str, split: Split | None = None, lower_bound_ms: float | None = None) -> None:
        super().__init__(why)
        self.split = split
        self.lower_bound_ms = lower_bound_ms


class WorkerProcesses(Executor):
    """So many processes of this Python; calls wait in one queue, functions are passed by name."""

    def __init__(self, num_workers: int, *, niceness: int = 0) -> None:
        """Start the processes, which load while the caller goes on. `niceness` lowers their priority."""
        if num_workers < 1:
            raise ValueError(f"{num_workers} worker processes: give a number from 1 on.")
        self._calls: queue.SimpleQueue[tuple[Future[Any], bytes] | None] = queue.SimpleQueue()
        self._closed = False
        self._lock = threading.Lock()
        self._workers = [_Worker(niceness) for _ in range(num_workers)]
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), name="worker process", daemon=True)
            for worker in self._workers
        ]
        for thread in self._threads:
            thread.start()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The ids of the processes that run now."""
        return tuple(worker.process_id for worker in self._workers if worker.process_id is not None)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Queue a call; its future fails with WorkerLostError when the process at work on it ends."""
        message = pickle.dumps((fn, args, kwargs))
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("The worker processes are shut down.")
            self._calls.put((future, message))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: after all calls if `wait`, else at once, which fails the calls at work."""
        with self._lock:
            if not self._closed:
                self._closed = True
                if cancel_futures or not wait:
                    self._cancel_waiting()
                for _ in self._threads:
                    self._calls.put(None)
        if not wait:
            for worker in self._workers:
                worker.kill_for_good()
        for thread in self._threads:
            thread.join()

    def _cancel_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call[0].cancel()

    def _serve(self, worker: "_Worker") -> None:
        """Hand calls to one process, for as long as there are any."""
        with contextlib.suppress(OSError):  # no process now: tried again at the first call, which then says so
            worker.start()
        while (call := self._calls.get()) is not None:
            future, message = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                outcome = worker.ask(message)
            except (OSError, EOFError, pickle.UnpicklingError):
                future.set_exception(WorkerLostError(f"The worker process was lost ({worker.bury()})."))
                continue
            settle(future, outcome)
        worker.kill_for_good()
        worker.bury()


class _Worker:
    """One process; started again when it is asked after it was lost."""

    def __init__(self, niceness: int) -> None:
        self._niceness = niceness
        self._child: Child | None = None
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def process_id(self) -> int | None:
        child = self._child
        return child.pid if child is not None and child.is_running else None

    def start(self) -> Child:
        """Return the process, a new one if there is none; OSError when all is over."""
        with self._lock:
            if self._is_over:
                raise BrokenPipeError
            if self._child is not None and not self._child.is_running:  # it has ended while it had nothing to do
                self._child.end()
                self._child = None
            if self._child is None:
                self._child = Child("solvers.processes.worker_processes", niceness=self._niceness)
            return self._child

    def ask(self, message: bytes) -> tuple[bool, Any]:
        """Return whether a call succeeded, and its value or exception; OSError or EOFError if the process is lost."""
        child = self.start()
        child.send(lambda: message)
        answer = child.receive()
        if answer is None:
            raise EOFError
        succeeded, outcome = pickle.loads(answer)  # noqa: S301 -- from our own process
        return succeeded, outcome

    def bury(self) -> str:
        """End what is left of a process that was lost; say how it ended."""
        child = self._child
        if child is None:
            return "it did not start"
        child.kill()
        end = child.end()
        with self._lock:
            self._child = None
        return f"{end}: {end.last_line}" if end.cause is Cause.EXIT and end.last_line else str(end)

    def kill_for_good(self) -> None:
        """End the process with all it has started; it will not be started again."""
        with self._lock:
            self._is_over = True
            if self._child is not None:
                self._child.kill()


def main() -> None:
    """Answer calls as long as there is an owner."""
    owner = Owner()
    while True:
        message = owner.receive()
        outcome, _ = outcome_of(partial(_call, message))
        owner.send(outcome)


def _call(message: bytes) -> Any:
    fn, args, kwargs = pickle.loads(message)  # noqa: S301 -- from the process that started this one
    return fn(*args, **kwargs)


if __name__ == "__main__":
    main()
