"""A Dask cluster as an executor: the only module that knows Dask, which is an optional extra.

The scheduler and its workers are the user's own; every worker needs this package in the same version. Nothing else of
Dask is used than `Client.get_executor`, a `concurrent.futures` executor.
"""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any

from solvers.errors import PlacementError

CONNECT_SECONDS = 5


class ClusterError(PlacementError):
    """A Dask cluster that cannot be used."""


@contextlib.contextmanager
def dask_executor(address: str) -> Iterator[tuple[Callable[[], Executor], int]]:
    """Connect to a scheduler; yield what makes an executor on its workers, and how many calls these take at a time.

    Raises ClusterError without the extra, without a scheduler at the address, or without workers.
    """
    try:
        import distributed
    except ImportError:
        raise ClusterError(
            "Dask is not installed; install the extra: pip install 'dnn-placement-explorer[dask]'."
        ) from None
    make_client: Any = distributed.Client  # what Dask says of its types is not complete
    try:
        client: Any = make_client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError):
        raise ClusterError(
            f"There is no Dask scheduler at {address!r}; give its address, such as tcp://127.0.0.1:8786."
        ) from None
    try:
        num_threads = sum(client.nthreads().values())
        if not num_threads:
            raise ClusterError(f"The Dask scheduler at {address!r} has no workers; start some: dask worker {address}.")
        # A call is a question asked once: the same one again is to be solved again, not looked up.
        yield (lambda: client.get_executor(pure=False)), num_threads
    finally:
        client.close()
