"""A graph as columns of plain values: small, quick to write and to read, and read in steps.

A graph of 60,000 nodes is a quarter of a million Python objects. Pickled as such it takes 9 MB, and what was read from
its file was checked then: here the values of each field stand in lists of some thousand, so that nobody else waits for
long while one of them is written or read, and records are made of them without being checked again.
"""

import io
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import astuple, fields
from itertools import islice
from typing import Any, TypeVar

from solvers.model.graph import DnnGraph, Edge, Node, TimesKind, TimesOrigin
from solvers.model.micro_batch import MicroBatch

CHUNK = 4_000
"""Records whose values are written in one go; as many are read in a few milliseconds."""

Parts = list[bytes]


class IncompleteError(ValueError):
    """The parts of a graph end before the graph does."""


T = TypeVar("T")


def packed_graph(graph: DnnGraph) -> Parts:
    """Return a graph as parts that `unpacked_graph` reads."""
    times = graph.times
    origin = None
    if times is not None:
        origin = times.accelerator, times.precision, times.host, str(times.kind), times.measured_on
    held = None if graph.micro_batch is None else astuple(graph.micro_batch)
    head = (graph.name, origin, graph.digest, len(graph.nodes), len(graph.edges), held)
    return [pickle.dumps(head), *_packed(Node, graph.nodes), *_packed(Edge, graph.edges)]


def unpacked_graph(parts: Iterable[bytes]) -> DnnGraph:
    """Return the graph that `packed_graph` wrote, IncompleteError where parts are missing.

    The parts must come from there: nothing is checked again.
    """
    stream = iter(parts)
    head = next(stream, None)
    if head is None:
        raise IncompleteError("There are no parts.")
    name, origin, digest, num_nodes, num_edges, held = _plain(head)
    nodes = tuple(_unpacked(Node, num_nodes, stream))
    edges = tuple(_unpacked(Edge, num_edges, stream))
    if (len(nodes), len(edges)) != (num_nodes, num_edges):
        raise IncompleteError(f"There are {len(nodes)} of {num_nodes} nodes and {len(edges)} of {num_edges} edges.")
    graph = object.__new__(DnnGraph)
    times = None
    if origin is not None:
        accelerator, precision, host, kind, measured_on = origin
        times = TimesOrigin(accelerator, precision, host, TimesKind(kind), measured_on)
    micro_batch = None if held is None else MicroBatch(*held)
    graph.__dict__.update(nodes=nodes, edges=edges, name=name, times=times, micro_batch=micro_batch, digest=digest)
    return graph


def _packed(kind: type, records: tuple[Any, ...]) -> Iterator[bytes]:
    names = [field.name for field in fields(kind)]
    for first in range(0, len(records), CHUNK):
        chunk = records[first : first + CHUNK]
        columns = [[getattr(record, name) for record in chunk] for name in names]
        # Of a column that says the same throughout one value is enough.
        yield pickle.dumps(
            [column[:1] if all(value == column[0] for value in column) else column for column in columns]
        )


def _unpacked(kind: type[T], num_records: int, stream: Iterator[bytes]) -> Iterator[T]:
    setters = [getattr(kind, field.name).__set__ for field in fields(kind)]  # type: ignore[arg-type]
    for part in islice(stream, -(-num_records // CHUNK)):
        columns = _plain(part)
        size = min(CHUNK, num_records)
        num_records -= size
        records = [object.__new__(kind) for _ in range(size)]
        for put, column in zip(setters, columns, strict=True):
            for record, value in zip(records, column if len(column) == size else column * size, strict=True):
                put(record, value)
        yield from records


class _PlainReader(pickle.Unpickler):
    """Reads numbers, texts and lists; whatever would name a class or a function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value.")


def _plain(part: bytes) -> Any:
    return _PlainReader(io.BytesIO(part)).load()
