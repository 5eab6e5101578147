"""Values of a session as compressed bytes, and back: what it takes to keep them for a reload, and no more.

Graphs are written as columns (`explorer.server.packed_graph`) without what can be derived from them. A solve that is
over is written as what was known of it at its end; a sweep as its question and its answers. The bytes never leave the
process, nor come from elsewhere.
"""

import io
import pickle
import zlib
from typing import Any

from explorer.jobs.pool import Job
from explorer.jobs.record import Question, Snapshot
from explorer.jobs.server_pool import is_open, solver_pool
from explorer.jobs.sweep_run import SweepRun, SweepState
from explorer.server.packed_graph import packed_graph, unpacked_graph
from solvers.model.graph import DnnGraph
from solvers.sweep.spec import SweepSpec

LEVEL = 3
"""Of compression: higher ones take several times as long for a tenth less."""


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


def _sweep_run(spec: SweepSpec, dask_address: str, state: SweepState) -> SweepRun:
    """Return a sweep as it ended; whoever takes it back makes it one of its own session before it goes on."""
    before = dict(state.answers)
    return SweepRun(spec, "", is_open, solver_pool(), dask_address, _answers=before, _seconds_before=state.seconds)
