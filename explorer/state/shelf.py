"""Files with what the server keeps of its visitors, so that it is there again when the server is started again.

A record is a file of its own, a graph another one that records share: a plan that changes while it is solved is a few
kilobytes. All lie in a folder that only this user may enter, and are read only by the program that wrote them: by
another one they might be misread, so they go when its sources have changed.
"""

import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from explorer.server.packed_graph import packed_graph, unpacked_graph
from explorer.server.private_folder import make_private
from explorer.state.frozen import frozen_at_work, thawed_at_work
from solvers.model.graph import DnnGraph

MAX_BYTES = 300 * 2**20
"""Of all files; beyond, the records written longest ago go."""
MAX_BYTES_OF_VISITOR = 60 * 2**20
"""Of one browser's records with their graphs: about twenty graphs of 60,000 nodes."""
MAX_RECORDS_OF_VISITOR = 20
HOURS_KEPT = 24.0
_RECORD, _GRAPH, _NEW = ".kept", ".graph", ".new"
_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Record:
    """What is known of a record without reading it: whose it is, its graphs, its size and when it was written.

    `owner` stands for the cookie of a browser, which is nowhere in the files.
    """

    owner: str
    number: int
    graphs: tuple[str, ...]
    size_bytes: int
    written_s: float

    @property
    def name(self) -> str:
        """The file without its ending."""
        return f"{self.owner}-{self.number}"


class Shelf:
    """The files of one server in a folder, which is made if need be; safe to use from any thread.

    Raises what `explorer.server.private_folder.make_private` does.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = MAX_BYTES,
        max_bytes_of_visitor: int = MAX_BYTES_OF_VISITOR,
        max_records_of_visitor: int = MAX_RECORDS_OF_VISITOR,
        hours_kept: float = HOURS_KEPT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._max_bytes, self._max_bytes_of_visitor = max_bytes, max_bytes_of_visitor
        self._max_records_of_visitor, self._seconds_kept = max_records_of_visitor, hours_kept * 3600
        self._clock = clock
        self._lock = threading.Lock()
        make_private(folder)
        self._records: dict[str, _Record] = {}
        self._graph_bytes: dict[str, int] = {}
        self._look_around()

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(record.size_bytes for record in self._records.values()) + sum(self._graph_bytes.values())

    def numbers_of(self, visitor: str) -> set[int]:
        """Return the numbers of a browser's records."""
        owner = _owner(visitor)
        with self._lock:
            return {record.number for record in self._records.values() if record.owner == owner}

    def write(self, visitor: str, number: int, values: dict[str, Any]) -> bool:
        """Write values of a session in place of those before; return whether a solve or a sweep among them goes on.

        What does not fit goes with the records written longest ago, of the same browser first. Raises OSError where
        nothing can be written, as on a full disk, RuntimeError where values changed meanwhile.
        """
        now = frozen_at_work(values)
        owner = _owner(visitor)
        head = (
            json.dumps({"of": program(), "owner": owner, "number": number, "graphs": list(now.graphs)}).encode() + b"\n"
        )
        with self._lock:
            for key, graph in now.graphs.items():
                if key not in self._graph_bytes:
                    self._graph_bytes[key] = self._write_graph(key, graph)
            record = _Record(owner, number, tuple(now.graphs), len(head) + len(now.data), self._clock())
            _write(self._folder / f"{record.name}{_RECORD}", head + now.data)
            self._records[record.name] = record
            self._make_room(owner)
        return now.is_at_work

    def read(self, visitor: str, number: int) -> dict[str, Any] | None:
        """Return the values of a session; None where there are none, or where they cannot be read any more."""
        with self._lock:
            self._remove_old()
            name = f"{_owner(visitor)}-{number}"
            if name not in self._records:
                return None
            try:
                _, _, data = (self._folder / f"{name}{_RECORD}").read_bytes().partition(b"\n")
                return dict(thawed_at_work(data, self._read_graph))
            except Exception:  # a file that was damaged may fail in any way
                logging.getLogger(__name__).exception("A record of an earlier server could not be read")
                self._remove(self._records[name])
                return None

    def tidy(self) -> None:
        """Remove what is too old."""
        with self._lock:
            self._remove_old()

    def _look_around(self) -> None:
        """Find what another server has left here; remove what no server of this program could read."""
        for path in self._folder.iterdir():
            if path.suffix == _GRAPH:
                self._graph_bytes[path.stem] = path.stat().st_size
                continue
            record = _found(path) if path.suffix == _RECORD else None
            if record is not None and record.name == path.stem:
                self._records[record.name] = record
            elif path.suffix in (_RECORD, _NEW):
                path.unlink()
        for record in list(self._records.values()):
            if not set(record.graphs) <= self._graph_bytes.keys():
                self._remove(record)
        self._remove_old()
        self._remove_graphs_of_nobody()

    def _make_room(self, owner: str) -> None:
        """Remove the records written longest ago until the others are within the limits."""
        oldest_first = sorted(self._records.values(), key=lambda record: record.written_s)
        own = [record for record in oldest_first if record.owner == owner]
        while own and (len(own) > self._max_records_of_visitor or self._bytes_of(own) > self._max_bytes_of_visitor):
            self._remove(own.pop(0))
        for record in oldest_first:
            if self.size_bytes > self._max_bytes and record.name in self._records:
                self._remove(record)

    def _bytes_of(self, records: list[_Record]) -> int:
        graphs = {key for record in records for key in record.graphs}
        return sum(record.size_bytes for record in records) + sum(self._graph_bytes[key] for key in graphs)

    def _remove_old(self) -> None:
        for record in list(self._records.values()):
            if self._clock() - record.written_s > self._seconds_kept:
                self._remove(record)

    def _remove(self, record: _Record) -> None:
        del self._records[record.name]
        (self._folder / f"{record.name}{_RECORD}").unlink(missing_ok=True)
        self._remove_graphs_of_nobody()

    def _remove_graphs_of_nobody(self) -> None:
        used = {key for record in self._records.values() for key in record.graphs}
        for key in self._graph_bytes.keys() - used:
            del self._graph_bytes[key]
            (self._folder / f"{key}{_GRAPH}").unlink(missing_ok=True)

    def _write_graph(self, key: str, graph: DnnGraph) -> int:
        parts = packed_graph(graph)
        data = b"".join(len(part).to_bytes(_LENGTH_BYTES, "big") + part for part in parts)
        _write(self._folder / f"{key}{_GRAPH}", data)
        return len(data)

    def _read_graph(self, key: str) -> DnnGraph:
        return unpacked_graph(_parts((self._folder / f"{key}{_GRAPH}").read_bytes()))


@cache
def program() -> str:
    """Return what tells this program from one with other sources: records of the two may not mean the same."""
    root = Path(__file__).parents[2]
    known = hashlib.sha256()
    for package in ("explorer", "solvers"):
        for path in sorted((root / package).rglob("*.py")):
            known.update(f"{path.relative_to(root)} {path.stat().st_size} {path.stat().st_mtime_ns}\n".encode())
    return known.hexdigest()


def _owner(visitor: str) -> str:
    """Return what stands for a browser in the files: from it nobody can tell the cookie."""
    return hashlib.sha256(visitor.encode()).hexdigest()[:32]


def _found(path: Path) -> _Record | None:
    """Return what is known of the record in a file; None where it is of another program or damaged."""
    try:
        status = path.stat()
        with path.open("rb") as file:
            head = json.loads(file.readline())
        if head["of"] != program():
            return None
        graphs = tuple(str(key) for key in head["graphs"])
        return _Record(str(head["owner"]), int(head["number"]), graphs, status.st_size, status.st_mtime)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parts(content: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at : at + _LENGTH_BYTES], "big")
        at += _LENGTH_BYTES
        yield content[at : at + size]
        at += size


def _write(path: Path, content: bytes) -> None:
    """Write a file that only this user may read, whole or not at all."""
    new = path.with_suffix(_NEW)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)
