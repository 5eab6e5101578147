"""One solver process: started in a group of its own, listened to, killed with all it has started."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEPT_STDERR_BYTES = 16_000


class SolverProcess:
    """One solver process with the threads that listen to it.

    `on_message(process, message)` is called from a thread for each line it writes, and in the end
    `on_end(process, why, stderr)` once: with a sentence on how it ended and the last it wrote to stderr.
    """

    def __init__(
        self,
        functions: tuple[str, ...],
        on_message: Callable[["SolverProcess", dict[str, Any]], None],
        on_end: Callable[["SolverProcess", str, str], None],
    ) -> None:
        root = str(Path(__file__).resolve().parents[1])
        inherited = os.environ.get("PYTHONPATH")
        # -P keeps the current folder off the import path, where a file could hide a library.
        process = subprocess.Popen(  # noqa: S603 -- our own module, with names from our own code
            [sys.executable, "-P", "-m", "explorer.solve_worker", *functions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{inherited}" if inherited else root},
        )
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise RuntimeError("The process has no pipes, although they were asked for.")
        self.pid = process.pid
        self.is_ready = False
        self.is_ending = False
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._on_message = on_message
        self._on_end = on_end
        self._last_words = bytearray()
        self._listening_to_stderr = self._start(self._listen_to_stderr)
        self._start(self._bury)
        self._start(self._listen)

    def send(self, message: dict[str, Any]) -> None:
        """Write one line to the process, without waiting for it to be read; lost when the process has ended."""

        def write() -> None:
            with contextlib.suppress(OSError, ValueError):  # it has ended: the listener tells
                self._stdin.write(json.dumps(message).encode() + b"\n")
                self._stdin.flush()

        self._start(write)

    def kill(self) -> None:
        """End the process and all it has started, at once; `on_end` follows."""
        self.is_ending = True
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _start(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, name=f"solver {self.pid}", daemon=True)
        thread.start()
        return thread

    def _listen(self) -> None:
        why = details = ""
        with self._stdout as stdout:
            try:
                for line in stdout:
                    if line.endswith(b"\n"):  # a killed process may leave half a line
                        self._on_message(self, json.loads(line))
            except Exception:  # a job that waits for ever would hide it
                why = "An answer of the solver process could not be taken in; this is a fault of the program."
                details = traceback.format_exc()
                self.kill()
        code = self._process.wait()
        with contextlib.suppress(OSError):  # unsent bytes of a request
            self._stdin.close()
        self._listening_to_stderr.join(timeout=1.0)
        self._on_end(self, why or _how_it_ended(code), details or self._last_words.decode(errors="replace"))

    def _listen_to_stderr(self) -> None:
        with self._stderr as stderr:
            while chunk := os.read(stderr.fileno(), 65536):
                self._last_words += chunk
                del self._last_words[:-KEPT_STDERR_BYTES]

    def _bury(self) -> None:
        """When the process has ended by itself, end what it left behind, which could also hold our pipes open."""
        self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _how_it_ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return "The solver process was killed from outside; most likely the machine ran out of memory."
    if code < 0:
        return f"The solver process crashed ({signal.Signals(-code).name}); this is a fault of the program."
    return f"The solver process ended unexpectedly (exit code {code}); this is a fault of the program."
