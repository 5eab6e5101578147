"""Work in a thread of its own, for what cannot look at a clock itself."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_left: list[threading.Thread] = []


def is_any_left() -> bool:
    """Whether a thread of this process that was left to itself still runs, and takes time of a processor."""
    _left[:] = [thread for thread in _left if thread.is_alive()]
    return bool(_left)


class Background(Generic[T]):
    """Begins to make something at once; a failure of it is raised where the result is asked for."""

    def __init__(self, make: Callable[[], T], name: str) -> None:
        """Begin; `name` is that of the thread."""
        self._make = make
        self._made: list[T] = []
        self._failures: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._made.append(self._make())
        except BaseException as error:
            self._failures.append(error)

    @property
    def is_running(self) -> bool:
        """Whether it has neither ended nor failed."""
        return self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it is over, or for a time."""
        self._thread.join(seconds)

    def leave(self) -> None:
        """Give up waiting for what does not end; a process that has better to do is to be ended (`is_any_left`)."""
        _left.append(self._thread)

    def result(self) -> T:
        """Return what was made; raises what the function raised. To be called when it is over."""
        if self._failures:
            raise self._failures[0]
        return self._made[0]
