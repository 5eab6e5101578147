"""What is said on stderr while a solve runs."""

import time
from collections.abc import Callable

from solvers.cli.output import say, tell
from solvers.compilation import COMPILING
from solvers.model.result import OnProgress, Progress, SolveCancelled
from solvers.quantities import milliseconds, seconds

PROGRESS_SECONDS = 5.0
"""A method that takes longer reports its value and bound this often."""


class Compiling:
    """Says each step while the solvers are compiled, before a solve begins."""

    def __init__(self) -> None:
        self._told = ""

    def __call__(self, progress: Progress) -> bool:
        """Say what a report of that phase brings; return whether it is one."""
        if not progress.phase.startswith(COMPILING):
            return False
        if progress.phase != self._told:
            say(f"{progress.phase} ...")
        self._told = progress.phase
        return True


def watcher(is_interrupted: Callable[[], bool]) -> OnProgress:
    """Return a callback that says now and then how a solve stands, and ends it once interrupted."""
    reported = time.monotonic()
    compiling = Compiling()

    def watch(progress: Progress) -> None:
        nonlocal reported
        if is_interrupted():
            raise SolveCancelled
        if not compiling(progress) and time.monotonic() - reported >= PROGRESS_SECONDS:
            reported = time.monotonic()
            tell(f"  {progress_text(progress)}")

    return watch


def progress_text(progress: Progress) -> str:
    """Say in one line how a solve stands."""
    value, bound = milliseconds(progress.incumbent_ms), milliseconds(progress.lower_bound_ms)
    return f"{seconds(progress.seconds)}: value {value}, bound {bound}, {progress.phase}"
