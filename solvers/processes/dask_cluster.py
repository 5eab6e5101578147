"""A Dask cluster as an executor: the only module that knows Dask, which is an optional extra.

The scheduler and its workers are the user's own, and trusted: what they answer is unpickled. Every worker needs this
package in the same version. Nothing else of Dask is used than `Client.get_executor`, a `concurrent.futures` executor.

A connection to a tls:// address takes certificates from Dask's own configuration: `distributed.comm.tls` in its files,
or environment variables such as DASK_DISTRIBUTED__COMM__TLS__CA_FILE.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

from solvers.model.errors import PlacementError

CONNECT_SECONDS = 5
"""What a scheduler has to answer in, when it is called and whenever it is called again."""
WATCH_SECONDS = 1
"""How often a scheduler is asked whether it is still there."""
TLS_HINT = (
    "Give the certificates of a tls:// address in Dask's configuration, or as DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY."
)


class ClusterError(PlacementError):
    """A Dask cluster that cannot be used."""


@contextlib.contextmanager
def dask_executor(address: str) -> Iterator[tuple[Callable[[], Executor], int]]:
    """Connect to a scheduler; yield what makes an executor on its workers, and how many calls these take at a time.

    Raises ClusterError without the extra, without a scheduler that answers at the address, or without workers.
    """
    try:
        client = _client(address)
        num_threads = _num_threads(client)
    except TimeoutError:
        raise ClusterError(
            f"Nothing at {address!r} answered as a Dask scheduler within {CONNECT_SECONDS} "
            f"second{'s' * (CONNECT_SECONDS != 1)}; check the address and that the scheduler runs."
        ) from None
    except (OSError, ValueError, TypeError) as error:
        if address.startswith("tls://"):
            reason = str(error.__cause__ or error).rstrip(".")
            raise ClusterError(f"No Dask scheduler could be reached at {address!r}: {reason}. {TLS_HINT}") from None
        raise ClusterError(
            f"There is no Dask scheduler at {address!r}; give its address, such as tcp://127.0.0.1:8786."
        ) from None
    try:
        if not num_threads:
            raise ClusterError(f"The Dask scheduler at {address!r} has no workers; start some: dask worker {address}.")
        yield (lambda: _WatchedExecutor(client, address)), num_threads
    finally:
        _close(client)


def _client(address: str) -> Any:
    """Return a client that waits `CONNECT_SECONDS` at most; TimeoutError, OSError, ValueError or TypeError without."""
    try:
        import distributed
    except ImportError:
        raise ClusterError(
            "Dask is not installed; install the extra: pip install 'dnn-placement-explorer[dask]'."
        ) from None

    base: Any = distributed.Client  # what Dask says of its types is not complete

    class PromptClient(base):  # type: ignore[misc]
        """A client whose time limit holds.

        Dask bounds the connection, but not the greeting that follows: a peer that accepts and never speaks, such as
        another program's port or a scheduler that is stopped, would be waited for without end.
        """

        def start(self, **kwargs: Any) -> None:
            try:
                super().start(**kwargs)
            except BaseException:
                _close(self)  # nobody else has it to close it, and its thread would stay
                self._loop_runner.stop()
                raise

        async def _reconnect(self) -> None:
            self._timeout = 0.0  # not tried: Dask has dropped all calls by now, and a sweep ends with the first of them
            await super()._reconnect()

        async def _ensure_connected(self, timeout: float | None = None) -> None:
            await asyncio.wait_for(super()._ensure_connected(timeout=timeout), CONNECT_SECONDS)

    return PromptClient(address, timeout=CONNECT_SECONDS, set_as_default=False)


class _WatchedExecutor(Executor):
    """Dask's executor, whose calls end with ClusterError once its scheduler is lost.

    Dask's own would have whoever waits for a call wait for ever: a scheduler that was killed leaves its calls without
    an answer, and one that is stopped gives no sign at all. So it is asked all the time whether it is there.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        # A call is a question asked once: the same one again is to be solved again, not looked up.
        self._executor: Executor = client.get_executor(pure=False)
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._is_lost = False
        self._ends = threading.Event()
        threading.Thread(target=self._watch, name="dask-watch", daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand a call to the cluster; ClusterError where it is lost."""
        outer: Future[Any] = Future()
        with self._lock:
            if self._is_lost:
                raise self._lost()
            self._waiting.add(outer)
        try:
            inner = self._executor.submit(fn, *args, **kwargs)
        except Exception:
            if self._client.status == "running":
                raise
            raise self._lost() from None
        inner.add_done_callback(lambda done: self._hand_on(done, outer))
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End it, with the calls that are under way unless they are waited for."""
        self._ends.set()
        try:
            self._executor.shutdown(wait=wait)
        except Exception:
            if self._client.status == "running":
                raise

    def _watch(self) -> None:
        while not self._ends.wait(WATCH_SECONDS):
            try:
                self._client.sync(self._client.scheduler.identity, callback_timeout=CONNECT_SECONDS)
            except Exception:  # however it fails, there is nobody to give the calls an answer
                break
        else:
            return
        with self._lock:
            self._is_lost = True
            waiting, self._waiting = self._waiting, set()
        for outer in waiting:
            if outer.set_running_or_notify_cancel():
                outer.set_exception(self._lost())

    def _hand_on(self, inner: Future[Any], outer: Future[Any]) -> None:
        with self._lock:
            if outer not in self._waiting:
                return
            self._waiting.remove(outer)
        if not outer.set_running_or_notify_cancel():
            return
        if inner.cancelled():  # by nobody here: Dask does so when the connection breaks
            outer.set_exception(self._lost())
        elif (error := inner.exception()) is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())

    def _lost(self) -> ClusterError:
        return ClusterError(
            f"The Dask scheduler at {self._address!r} was lost in the middle of the sweep; go on with the rest once it "
            "runs again."
        )


def _num_threads(client: Any) -> int:
    try:
        return sum(client.sync(client.scheduler.ncores, callback_timeout=CONNECT_SECONDS).values())
    except BaseException:
        _close(client)
        raise


def _close(client: Any) -> None:
    with contextlib.suppress(TimeoutError):  # a scheduler that has stopped says no goodbye
        client.close(timeout=CONNECT_SECONDS)
