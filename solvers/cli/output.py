"""What the commands of the command line answer with: exit codes, JSON and text, files, and how they are interrupted."""

import argparse
import errno
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from solvers.model.errors import PlacementError
from solvers.model.result import SolveStatus

EXIT_CODES = {
    SolveStatus.OPTIMAL: 0,
    SolveStatus.FEASIBLE: 0,
    SolveStatus.INFEASIBLE: 3,
    SolveStatus.UNKNOWN: 4,
}
BAD_INPUT = 2
VIOLATED = 5
"""A split breaks a rule or overflows a memory, where --strict asks for a code of its own."""

STREAM = Path("-")
"""Instead of a file: stdin where it is read, stdout where it is written."""


def print_json(document: Any) -> None:
    """Print a document as JSON on stdout."""
    print_text(json.dumps(document, indent=1, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """Print text on stdout, also when nobody reads it any more; PlacementError where it cannot be written.

    Characters that the encoding of stdout lacks become question marks.
    """
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, "replace").decode(encoding)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Go on: there may be a file to write, and the exit code
        # stands.
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        raise PlacementError(f"stdout cannot be written: {error.strerror}.") from None


def say(*sentences: str) -> None:
    """Print sentences on stderr, each as one of this program's."""
    tell(*(f"placement: {sentence}" for sentence in sentences))


def tell(*lines: str, end: str = "\n") -> None:
    """Print lines on stderr; where that cannot be written there is nobody to be told."""
    try:
        for line in lines:
            sys.stderr.write(line + end)
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def _silence(stream: IO[str]) -> None:
    """Lead a stream nowhere: Python would complain of what it cannot write when it flushes all at the end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def write_text(path: Path, text: str) -> None:
    """Write a text file, or stdout for `-`; PlacementError where that fails."""
    if path == STREAM:
        print_text(text)
    else:
        write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file; PlacementError where that fails."""
    try:
        path.write_bytes(content)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise PlacementError(_cannot_write(path, error)) from None


def output_path(text: str) -> Path:
    """Read the path of an option that names an output, and refuse at once what could not be written at the end."""
    return STREAM if text == str(STREAM) else output_file(text)


def output_file(text: str) -> Path:
    """Read the path of an output that has to be a file."""
    path = Path(text)
    if path == STREAM:
        raise argparse.ArgumentTypeError("it is read again, so - will not do; name a file")
    try:
        try:
            is_folder, opened = stat.S_ISDIR(path.stat().st_mode), path
        except FileNotFoundError:
            is_folder, opened = False, path.parent
            opened.stat()
        if is_folder or not os.access(opened, os.W_OK):
            problem = errno.EISDIR if is_folder else errno.EACCES
            raise OSError(problem, os.strerror(problem))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(_cannot_write(path, error).rstrip(".")) from None
    return path


def _cannot_write(path: Path, error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{json.dumps(str(path))} cannot be written: {reason or 'not a usable path'}."


@contextmanager
def first_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into an answer to `is_interrupted()`; the second ends the program as ever."""
    is_interrupted = False
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: False  # signals are not ours to handle here
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(*_: Any) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: is_interrupted
    finally:
        restore()
