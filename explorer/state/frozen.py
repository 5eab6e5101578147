"""Values of a session as compressed bytes, and back: what it takes to keep them for a reload, and no more.

Graphs are written as columns (`explorer.server.packed_graph`) without what can be derived from them. A solve that is
over is written as what was known of it at its end; a sweep as its question and its answers. The bytes are read by this
program alone, and written nowhere but into its own folder (`explorer.state.shelf`).
"""

import hashlib
import io
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from explorer.jobs.pool import Job
from explorer.jobs.record import Question, Snapshot
from explorer.jobs.server_pool import is_open, solver_pool
from explorer.jobs.sweep_run import SweepRun, SweepState
from explorer.server.packed_graph import packed_graph, unpacked_graph
from explorer.state.records import Run
from solvers.model.graph import DnnGraph
from solvers.sweep.spec import SweepSpec

LEVEL = 3
"""Of compression: higher ones take several times as long for a tenth less."""


ENDED_WITH_SERVER = "The server was started again while this was solved"
"""Why a solve ended of which another server of this program finds what was known of it."""


class StillAtWorkError(RuntimeError):
    """A solve or a sweep among the values has not ended: it cannot be written as bytes."""


class EndedJob:
    """A solve that is over, as a session knew it; it answers like a `Job`."""

    def __init__(self, job_id: str, snapshot: Snapshot) -> None:
        self.id = job_id
        self._snapshot = snapshot

    @property
    def question(self) -> Question:
        """What was asked."""
        return self._snapshot.question

    def snapshot(self) -> Snapshot:
        """Return the job as it ended."""
        return self._snapshot

    def wait(self, timeout_s: float | None = None) -> Snapshot:
        """Return the job as it ended."""
        return self._snapshot

    def cancel(self) -> Snapshot:
        """Return the job as it ended; there is nothing left to cancel."""
        return self._snapshot


def frozen(value: Any) -> bytes:
    """Return values as bytes; StillAtWorkError while a solve or a sweep among them runs."""
    target = io.BytesIO()
    _Writer(target, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return zlib.compress(target.getbuffer(), LEVEL)


def thawed(data: bytes) -> Any:
    """Return the values that `frozen` wrote."""
    return pickle.loads(zlib.decompress(data))  # noqa: S301 -- written by this process and kept in it


@dataclass(frozen=True, slots=True)
class FrozenAtWork:
    """Values as bytes, the graphs in them by key, and whether a solve or a sweep among them goes on."""

    data: bytes
    graphs: dict[str, DnnGraph]
    is_at_work: bool


def frozen_at_work(value: Any) -> FrozenAtWork:
    """Return values as bytes beside the graphs in them by `key_of_graph`, for a server that is started again.

    A solve that runs is written as if it were stopped now, with the best plan and bound so far; one that a changed
    input started is left out, for it starts by itself. A sweep that runs is written with its answers so far.
    """
    target = io.BytesIO()
    writer = _WriterAtWork(target, protocol=pickle.HIGHEST_PROTOCOL)
    writer.dump(value)
    return FrozenAtWork(zlib.compress(target.getbuffer(), LEVEL), writer.graphs, writer.is_at_work)


def key_of_graph(graph: DnnGraph) -> str:
    """Return what tells graphs apart in all that is written of them; the digest leaves out their name."""
    return f"{graph.digest}-{hashlib.sha256(graph.name.encode()).hexdigest()[:16]}"


def thawed_at_work(data: bytes, graph_of: Callable[[str], DnnGraph]) -> Any:
    """Return the values that `frozen_at_work` wrote; `graph_of` returns the graph of a key."""
    reader = _Reader(io.BytesIO(zlib.decompress(data)))
    reader.graph_of = cache(graph_of)  # one object for all that shared it
    return reader.load()


class _Writer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Say how graphs, solves and sweeps are written; everything else is written as it is."""
        if isinstance(value, DnnGraph):
            return unpacked_graph, (packed_graph(value),)
        if isinstance(value, Job):
            snapshot = value.snapshot()
            if not snapshot.state.is_over:
                raise StillAtWorkError("The solve has not ended.")
            return EndedJob, (value.id, snapshot)
        if isinstance(value, SweepRun):
            state = value.state()
            if state.is_running:
                raise StillAtWorkError("The sweep has not ended.")
            return _sweep_run, (value.spec, value.dask_address, state)
        return NotImplemented


class _WriterAtWork(pickle.Pickler):
    """Writes what is at work as it is now, and notes which graphs belong to it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.graphs: dict[str, DnnGraph] = {}
        self.is_at_work = False

    def persistent_id(self, value: Any) -> str | None:
        """Write only the key of a graph."""
        if not isinstance(value, DnnGraph):
            return None
        key = key_of_graph(value)
        self.graphs[key] = value
        return key

    def reducer_override(self, value: Any) -> Any:
        """Say how solves and sweeps are written; everything else is written as it is."""
        if isinstance(value, Run) and value.is_live and not value.job.snapshot().state.is_over:
            return type(None), ()
        if isinstance(value, Job):
            self.is_at_work |= not value.snapshot().state.is_over
            return EndedJob, (value.id, value.as_if_stopped("stopped", ENDED_WITH_SERVER))
        if isinstance(value, SweepRun):
            state = value.state()
            self.is_at_work |= state.is_running
            return _sweep_run, (value.spec, value.dask_address, state)
        return NotImplemented


class _Reader(pickle.Unpickler):
    graph_of: Callable[[str], DnnGraph]

    def persistent_load(self, key: str) -> DnnGraph:
        """Return the graph of a key."""
        return self.graph_of(key)


def _sweep_run(spec: SweepSpec, dask_address: str, state: SweepState) -> SweepRun:
    """Return a sweep as it ended; whoever takes it back makes it one of its own session before it goes on."""
    before = dict(state.answers)
    return SweepRun(spec, "", is_open, solver_pool(), dask_address, _answers=before, _seconds_before=state.seconds)
