"""Three graphs small enough to solve by hand; times are chosen, not modelled."""

from sample_graphs.cost_model import LINK_BYTES_PER_MS
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node

CPU_SLOWDOWN = 10.0
"""How much slower a CPU is in these graphs."""


def teaching_chain() -> tuple[DnnGraph, Deployment]:
    """Six layers in a row, 18 ms in all, 0.5 ms per transfer, three accelerators that hold three layers each.

    The best chain is 4 + 3 | 2 + 5 | 1 + 3 with loads 7.5, 8 and 4.5 ms; a free split reaches 7.5 ms.
    """
    graph = _graph(
        "Teaching: a chain",
        times_ms=(4, 3, 2, 5, 1, 3),
        edges=((1, 2), (2, 3), (3, 4), (4, 5), (5, 6)),
        transfer_ms=0.5,
        memory_bytes=5e9,
    )
    return graph, Deployment(3, 0, 16e9)


def teaching_convex_beats_chain() -> tuple[DnnGraph, Deployment]:
    """Two chains side by side, 2 -> 3 and 1 -> 2 ms, with free transfers, on two accelerators.

    {1, 4} and {2, 3} take 4 ms each and are both convex, but data flows both ways between them (1 -> 2, 3 -> 4),
    so they are no pipeline; the best pipeline takes 5 ms.
    """
    graph = _graph("Teaching: convex beats chain", times_ms=(2, 3, 1, 2), edges=((1, 2), (3, 4)), transfer_ms=0.0)
    return graph, Deployment(2, 0, None)


def teaching_tied_embedding() -> tuple[DnnGraph, Deployment]:
    """An embedding and an output layer that share their weights, with three blocks between, on two accelerators.

    The pair must stay together. A contiguous stage that holds both holds all the blocks too: 24 ms. A free split
    gives the pair one accelerator and the blocks the other: 12 ms of work and 0.2 ms of transfers each.
    """
    graph = _graph(
        "Teaching: tied embedding",
        times_ms=(2, 4, 4, 4, 10),
        edges=((1, 2), (2, 3), (3, 4), (4, 5)),
        transfer_ms=0.1,
        names=("embedding", "block 1", "block 2", "block 3", "output"),
        colocation={1: 1, 5: 1},
    )
    return graph, Deployment(2, 0, None)


def _graph(
    name: str,
    times_ms: tuple[int, ...],
    edges: tuple[tuple[int, int], ...],
    transfer_ms: float,
    memory_bytes: float = 0.0,
    names: tuple[str, ...] | None = None,
    colocation: dict[int, int] | None = None,
) -> DnnGraph:
    """Return nodes 1 .. n with these accelerator times and one transfer time for every tensor that is read."""
    sources = {u for u, _ in edges}
    node_names = names or tuple(f"layer {v}" for v in range(1, len(times_ms) + 1))
    size_bytes = round(transfer_ms * LINK_BYTES_PER_MS)
    nodes = tuple(
        Node(
            id=v,
            accelerator_ms=float(time_ms),
            cpu_ms=time_ms * CPU_SLOWDOWN,
            memory_bytes=memory_bytes,
            transfer_ms=transfer_ms if v in sources else 0.0,
            colocation_class=(colocation or {}).get(v),
            name=node_names[v - 1],
            layer=node_names[v - 1],
        )
        for v, time_ms in enumerate(times_ms, start=1)
    )
    return DnnGraph(nodes, tuple(Edge(u, v, float(size_bytes)) for u, v in edges), name)
