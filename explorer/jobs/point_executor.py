"""The points of a sweep as work of the server's solver processes, so that sweeps and solves share one queue."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar, cast

from explorer.jobs.pool import WorkerPool
from explorer.jobs.record import CallRecord, Place
from solvers.sweep.run import PointTask, resumed

P = ParamSpec("P")
T = TypeVar("T")


class PointExecutor(Executor):
    """Hands points to a pool for a session, whose name `session` tells: it changes when the page is loaded again."""

    def __init__(self, pool: WorkerPool, session: Callable[[], str]) -> None:
        self._pool = pool
        self._session = session
        self._lock = threading.Lock()
        self._calls: set[CallRecord] = set()
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a point solved; `fn` takes it alone, and `on_progress`. Its time is at most the limit of the point."""
        (task,) = args
        assert isinstance(task, PointTask)
        with self._lock:
            if self._closed:
                raise RuntimeError("The executor is shut down.")
        name = f"{fn.__module__}:{fn.__qualname__}"
        call = self._pool.call(self._session(), name, task, task.time_limit_s, resumed)
        if not self._remember(call):  # shut down meanwhile
            self._pool.drop(call)
        call.future.add_done_callback(lambda _: self._forget(call))
        return cast("Future[T]", call.future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more points; end those that wait or are being solved, unless `wait` asks for their answers."""
        with self._lock:
            self._closed = True
            calls = tuple(self._calls)
        if wait and not cancel_futures:
            for call in calls:
                call.future.exception()
        for call in calls:
            self._pool.drop(call)

    def message(self) -> str:
        """Say at which place of the queue its first point waits; empty when one is being solved, or none is there."""
        with self._lock:
            calls = sorted(self._calls, key=lambda call: call.number)
        if any(call.place is not Place.WAITING for call in calls):
            return ""
        return self._pool.waits_for(calls[0]) if calls else ""

    def _remember(self, call: CallRecord) -> bool:
        """Keep a call, and tell whether more are taken; the pool has a lock of its own and is not asked under ours."""
        with self._lock:
            self._calls.add(call)
            return not self._closed

    def _forget(self, call: Any) -> None:
        with self._lock:
            self._calls.discard(call)
