"""Run CP-SAT in a process of its own, since OR-Tools and HiGHS cannot live in one; only the child imports OR-Tools.

The child gets one message, a problem in JSON, and answers in JSON until it writes a `status`. It is part of the solve
that started it: in its process group, so that it is ended and made to yield with it.
"""

import json
import queue
import threading
from types import TracebackType
from typing import Any

from solvers.processes.child import Child

Document = dict[str, Any]

FAILED = "FAILED"
"""The status of a child that ended without writing one; its `error` says in one line what it had to say."""


class CpSatProcess:
    """A running child; a context manager that ends it."""

    def __init__(self, program: str, problem: Document) -> None:
        """Start the module `program` of this package, such as "cp_sat", on a problem."""
        self._child = Child(f"solvers.latency.{program}", leads_group=False)
        self._answers: queue.Queue[Document] = queue.Queue()
        self._child.send(lambda: json.dumps(problem).encode())
        self._listener = threading.Thread(target=self._listen, name="CP-SAT", daemon=True)
        self._listener.start()

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
        self._listener.join()

    def _listen(self) -> None:
        status = None
        while (message := self._child.receive()) is not None:
            document = json.loads(message)
            status = document.get("status", status)
            self._answers.put(document)
        end = self._child.end()
        if status is None:
            self._answers.put({"status": FAILED, "error": end.last_line or str(end)})
