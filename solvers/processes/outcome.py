"""The outcome of a call in another process: a value, or what the call raised, on its way to the future of its asker."""

import pickle
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


def outcome_of(call: Callable[[], Any]) -> tuple[bytes, Exception | None]:
    """Make a call; return whether it succeeded and its value or exception, pickled, and the exception as it is."""
    try:
        return pickle.dumps((True, call())), None
    except Exception as error:  # the asker's to judge
        try:
            pickled = pickle.dumps((False, error))
            pickle.loads(pickled)  # noqa: S301 -- our own; some exceptions can be pickled but not read
        except Exception:
            pickled = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return pickled, error


def settle(future: Future[Any], outcome: tuple[bool, Any]) -> None:
    """Give a future that is running what its call returned or raised."""
    succeeded, value = outcome
    if succeeded:
        future.set_result(value)
    else:
        future.set_exception(value)
