"""Wait for what other processes and threads will do, without a bound that a busy machine would miss."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE_S, *, every_s: float = 0.02) -> Any:
    """Ask again and again until the answer is true, and return it; fail when it never comes."""
    end_s = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(every_s)
    return value
