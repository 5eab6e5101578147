"""Graphs that lessons make: chains, branches side by side, and a training chain; small enough to reckon by hand."""

from collections.abc import Sequence
from itertools import pairwise

from explorer.state.records import LoadedGraph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node

CPU_SLOWDOWN = 3.0
BYTES_PER_MS = 16e6
"""16 GB/s, the link of the sample graphs: only so that sizes agree with times."""


def small_graph(
    name: str,
    times_ms: Sequence[float],
    edges: Sequence[tuple[int, int]],
    transfers_ms: Sequence[float] | float = 0.0,
    memory_bytes: float = 0.0,
    cpu_ms: Sequence[float] | None = None,
) -> DnnGraph:
    """Return nodes 1, 2, ... with these times; a single transfer time holds for every node that is read."""
    read = {u for u, _ in edges}
    given = [transfers_ms] * len(times_ms) if isinstance(transfers_ms, int | float) else list(transfers_ms)
    nodes = tuple(
        Node(
            v,
            float(ms),
            float(ms * CPU_SLOWDOWN if cpu_ms is None else cpu_ms[v - 1]),
            memory_bytes,
            float(given[v - 1]) if v in read else 0.0,
        )
        for v, ms in enumerate(times_ms, start=1)
    )
    sized = tuple(Edge(u, v, round(nodes[u - 1].transfer_ms * BYTES_PER_MS)) for u, v in edges)
    return DnnGraph(nodes, sized, name)


def chain_graph(
    name: str,
    times_ms: Sequence[float],
    transfers_ms: Sequence[float] | float = 0.0,
    memory_bytes: float = 0.0,
    cpu_ms: Sequence[float] | None = None,
) -> DnnGraph:
    """Return a chain of nodes with these times."""
    edges = [(v, v + 1) for v in range(1, len(times_ms))]
    return small_graph(name, times_ms, edges, transfers_ms, memory_bytes, cpu_ms)


def branches(width: int, length: int = 1) -> DnnGraph:
    """Return a first node, `width` branches of `length` nodes side by side, and a last node that joins them."""
    last = 2 + width * length
    edges: list[tuple[int, int]] = []
    for branch in range(width):
        nodes = [2 + branch * length + i for i in range(length)]
        edges += [(1, nodes[0]), *pairwise(nodes), (nodes[-1], last)]
    return small_graph(f"{width} branches", [1.0] * last, edges, 0.5)


def loaded(graph: DnnGraph, deployment: Deployment) -> LoadedGraph:
    """Return a graph of a lesson as the app opens it."""
    return LoadedGraph(graph, deployment, graph.name)
