"""The program `placement`: little of it is loaded when it begins, so that Ctrl-C is heard while the rest is.

SIGTERM is as Ctrl-C all the way, so that whoever stops a program that has no plan yet, be it loading or compiling, gets
one sentence and one exit code.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

INTERRUPTED = 4
"""As for a solve that found nothing in time."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run the command line and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 -- for as long as this runs
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        # Nothing is begun. An exception in the middle of loading would come out of whatever loads just then, or vanish.
        _handle(lambda *_: _leave(INTERRUPTED, "placement: interrupted.\n"))
    from solvers.cli.main import main as run

    try:
        if is_ours:
            _handle(signal.default_int_handler)
        code = run()
    except KeyboardInterrupt:
        _leave(INTERRUPTED, "placement: interrupted.\n")
    if is_ours:
        _handle(lambda *_: _leave(code))  # everything is written
    return code


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in SIGNALS:
        signal.signal(number, handler)


def _leave(code: int, sentence: str = "") -> NoReturn:
    try:
        os.write(2, sentence.encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
