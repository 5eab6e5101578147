"""Local processes as a `concurrent.futures` executor: any of them may be lost, and only its own call with it.

Unlike `ProcessPoolExecutor`, which is broken for good when one process dies, a lost process fails the call it was at
work on with `WorkerLostError` and is replaced at the next one. Shutting down without waiting kills the processes with
all they have started, in the middle of whatever they do; so does the end of this process, however it ends.
"""

import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

HEADER = struct.Struct("<Q")
"""Before each pickled message: its length in bytes."""


class WorkerLostError(Exception):
    """The process that was at work on a call has ended. The executor goes on, so this is no BrokenExecutor."""


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
                succeeded, outcome = worker.ask(message)
            except (OSError, EOFError, pickle.UnpicklingError):
                future.set_exception(WorkerLostError(f"The worker process was lost ({worker.bury()})."))
                continue
            if succeeded:
                future.set_result(outcome)
            else:
                future.set_exception(outcome)
        worker.kill_for_good()
        worker.bury()


class _Worker:
    """One process and its pipes; started again when it is asked after it was lost."""

    def __init__(self, niceness: int) -> None:
        self._niceness = niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._lock = threading.Lock()

    @property
    def process_id(self) -> int | None:
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def start(self) -> subprocess.Popen[bytes]:
        """Return the running process, a new one if there is none; OSError when all is over."""
        with self._lock:
            if self._is_over:
                raise BrokenPipeError
            if self._process is None or self._process.poll() is not None:
                root = str(Path(__file__).resolve().parents[1])
                inherited = os.environ.get("PYTHONPATH")
                # -P keeps the current folder off the import path, where a file could hide a library.
                self._process = subprocess.Popen(  # noqa: S603 -- our own module
                    [sys.executable, "-P", "-m", "solvers.worker_processes", str(self._niceness)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C is for whoever started it
                    env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root},
                )
            return self._process

    def ask(self, message: bytes) -> tuple[bool, Any]:
        """Return whether a call succeeded, and its value or exception; OSError or EOFError if the process is lost."""
        process = self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        _write(process.stdin, message)
        succeeded, outcome = pickle.loads(_read(process.stdout))  # noqa: S301 -- from our own process
        return succeeded, outcome

    def bury(self) -> str:
        """End what is left of a process that was lost; say how it ended."""
        with self._lock:
            process = self._process
            if process is None:
                return "it did not start"
            self._kill(process)
            code = process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # unsent bytes of a call
                        pipe.close()
            self._process = None
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def kill_for_good(self) -> None:
        """End the process with all it has started; it will not be started again."""
        with self._lock:
            self._is_over = True
            if self._process is not None:
                self._kill(self._process)
                self._process.wait()

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        # Its group too when it has ended by itself: what it has started may go on.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _write(pipe: BinaryIO | Any, message: bytes) -> None:
    pipe.write(HEADER.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def _read(pipe: BinaryIO | Any) -> bytes:
    header = pipe.read(HEADER.size)
    if len(header) < HEADER.size:
        raise EOFError
    (length,) = HEADER.unpack(header)
    message: bytes = pipe.read(length)
    if len(message) < length:
        raise EOFError
    return message


def main(niceness: int) -> None:
    """Answer calls on stdin until it ends; the owner is gone then, and this process and all it has started go too."""
    os.nice(niceness)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not end up among the replies
    calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        with os.fdopen(os.dup(0), "rb") as requests, contextlib.suppress(EOFError):
            while True:
                calls.put(_read(requests))
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=read, name="calls", daemon=True).start()
    while True:
        _write(replies, _answer(calls.get()))


def _answer(message: bytes) -> bytes:
    try:
        fn, args, kwargs = pickle.loads(message)  # noqa: S301 -- from the process that started this one
        return pickle.dumps((True, fn(*args, **kwargs)))
    except Exception as error:  # the caller's to judge
        try:
            reply = pickle.dumps((False, error))
            pickle.loads(reply)  # noqa: S301 -- some exceptions can be pickled but not read
        except Exception:
            reply = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return reply


if __name__ == "__main__":
    main(int(sys.argv[1]))
