"""One solver process of the server: what the pool notes of it, and a thread that takes in what it says."""

import json
import threading
import traceback
from collections.abc import Callable
from typing import Any

from solvers.processes.child import Child, End

LIVE_NICENESS, ASKED_NICENESS, LONG_NICENESS = 5, 10, 19
"""Below the server, whose clicks come first: live plans, what was asked for, what goes on beside the slots."""


class SolverProcess(Child):
    """A child that runs `explorer.jobs.worker`.

    `on_message(process, message)` is called from a thread for each message, and in the end `on_end(process, end,
    fault)` once: with how it ended, and a traceback where its end is that a message could not be taken in.
    """

    def __init__(
        self,
        functions: tuple[str, ...],
        on_message: Callable[["SolverProcess", dict[str, Any]], None],
        on_end: Callable[["SolverProcess", End, str], None],
    ) -> None:
        super().__init__("explorer.jobs.worker", *functions, niceness=LIVE_NICENESS)
        self.is_ready = False
        self.has_worked = False
        self.niceness = LIVE_NICENESS
        self._on_message = on_message
        self._on_end = on_end
        threading.Thread(target=self._listen, name=f"solver {self.pid}", daemon=True).start()

    def yield_to(self, niceness: int) -> None:
        """Have it give way to what has a lower niceness, for good: it could not be raised again."""
        if niceness > self.niceness:
            self.niceness = niceness
            self.lower_priority(niceness)

    def _listen(self) -> None:
        fault = ""
        try:
            while (message := self.receive()) is not None:
                self._on_message(self, json.loads(message))
        except Exception:  # a job that waits for ever would hide it
            fault = traceback.format_exc()
            self.kill()
        self._on_end(self, self.end(), fault)
