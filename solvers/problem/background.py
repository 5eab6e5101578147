"""Work in a thread of its own, for what cannot look at a clock itself."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


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

    def result(self) -> T:
        """Return what was made; raises what the function raised. To be called when it is over."""
        if self._failures:
            raise self._failures[0]
        return self._made[0]
