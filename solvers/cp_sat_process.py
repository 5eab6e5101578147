"""Run CP-SAT in a process of its own, since OR-Tools and HiGHS cannot live in one; only the child imports OR-Tools.

The child gets one line of JSON and answers in lines of JSON until it writes a `status`. It ends with its standard
input, which closes when this process ends in whatever way, so nothing outlives a solve.
"""

import contextlib
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

Document = dict[str, Any]

FAILED = "FAILED"
"""The status of a child that ended without writing one; its `error` says in one line what it had to say."""


class CpSatProcess:
    """A running child; a context manager that ends it."""

    def __init__(self, program: str, problem: Document) -> None:
        """Start the module `program` of this package, such as "latency_cp_sat", on a problem."""
        # -P: the folder of the script must not hide other packages' modules from the child.
        command = [sys.executable, "-P", str(Path(__file__).with_name(f"{program}.py"))]
        self._child = subprocess.Popen(  # noqa: S603 -- our own file
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._answers: queue.Queue[Document] = queue.Queue()
        self._errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._give, args=(json.dumps(problem),), daemon=True),
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "CpSatProcess":
        """Return the child itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        self.stop()

    def answers(self, wait_s: float = 0.0) -> list[Document]:
        """Return what the child has written since the last call; waits for a first answer for so long."""
        found: list[Document] = []
        try:
            found.append(self._answers.get(timeout=wait_s) if wait_s > 0 else self._answers.get_nowait())
            while True:
                found.append(self._answers.get_nowait())
        except queue.Empty:
            return found

    def stop(self) -> None:
        """End the child at once; does nothing where it has ended."""
        self._child.kill()
        self._child.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # the problem was still on its way
                pipe.close()

    def _give(self, line: str) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the child has ended, and its status says why
            self._child.stdin.write(line + "\n")
            self._child.stdin.flush()

    def _read(self) -> None:
        assert self._child.stdout is not None
        status = None
        for line in self._child.stdout:
            document = json.loads(line) if line.endswith("\n") else {}
            status = document.get("status", status)
            self._answers.put(document)
        if status is None:
            self._child.wait()
            self._threads[2].join()
            last = self._errors[-1].strip() if self._errors else f"exit code {self._child.returncode}"
            self._answers.put({"status": FAILED, "error": last})

    def _read_errors(self) -> None:
        assert self._child.stderr is not None
        self._errors.extend(line for line in self._child.stderr if line.strip())
