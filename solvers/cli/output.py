"""What the commands of the command line answer with: exit codes, JSON and text, and how Ctrl-C is heard."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solvers.model.errors import PlacementError
from solvers.model.result import SolveStatus

EXIT_CODES = {
    SolveStatus.OPTIMAL: 0,
    SolveStatus.FEASIBLE: 0,
    SolveStatus.INFEASIBLE: 3,
    SolveStatus.UNKNOWN: 4,
}
BAD_INPUT = 2


def print_json(document: Any) -> None:
    """Print a document as JSON on stdout."""
    print_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Print text on stdout, also when nobody reads it any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Go on: there may be a file to write, and the exit code
        # stands. Python would complain when it flushes stdout at the end, so that goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a text file; PlacementError where that fails."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; PlacementError where that fails."""
    try:
        path.write_bytes(content)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else None
        raise PlacementError(f"{json.dumps(str(path))} cannot be written: {reason or 'not a usable path'}.") from None


@contextmanager
def first_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into an answer to `is_interrupted()`; the second interrupts as ever."""
    is_interrupted = False
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: False  # signals are not ours to handle here
        return

    def note(*_: Any) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: is_interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
