"""A family of graphs that grows without limit: layers x branches x operators, for scaling tests; nothing is modelled.

A layer is an operator that fans out into `num_branches` paths of `num_operators` operators each, which meet again in an
operator that joins them; a residual connection leads around them. Layers follow each other. So the graph has

    n = layers x (branches x operators + 2) nodes   and about   layers x (operators + 1)^branches ideals:

depth makes it long, branches make it hard for whoever enumerates ideals. Times, transfers and sizes are drawn from
log-normal distributions by a seeded generator, so that no two operators are alike.
"""

import random
from dataclasses import replace

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node

SPREAD = 0.8
"""Standard deviation of the logarithm of all that is drawn: most operators lie within a factor of 5 of each other."""
TYPICAL_TIME_MS = 0.05
TYPICAL_TRANSFER_MS = 0.02
TYPICAL_MEMORY_BYTES = 1e6
CPU_SLOWDOWN = 10.0
MEMORY_HEADROOM = 1.4
"""All accelerators together hold this many times the graph."""


def layered(
    num_layers: int, num_branches: int, num_operators: int, *, num_accelerators: int = 8, seed: int = 0
) -> tuple[DnnGraph, Deployment]:
    """Return the graph of a size and devices for it: accelerators, and one CPU ten times slower.

    >>> graph, _ = layered(2, 3, 4)
    >>> len(graph.nodes), len(graph.edges)
    (28, 33)
    """
    rng = random.Random(seed)  # noqa: S311 -- the same graph every time, not secrecy
    nodes: list[Node] = []
    edges: list[Edge] = []

    def add(layer: int, what: str, *sources: int) -> int:
        time_ms = TYPICAL_TIME_MS * rng.lognormvariate(0.0, SPREAD)
        node = Node(
            len(nodes),
            accelerator_ms=time_ms,
            cpu_ms=CPU_SLOWDOWN * time_ms,
            memory_bytes=TYPICAL_MEMORY_BYTES * rng.lognormvariate(0.0, SPREAD),
            transfer_ms=TYPICAL_TRANSFER_MS * rng.lognormvariate(0.0, SPREAD),
            name=f"layer {layer} {what}",
            layer=f"layer {layer}",
        )
        nodes.append(node)
        edges.extend(Edge(u, node.id) for u in sources)
        return node.id

    last: tuple[int, ...] = ()
    for layer in range(num_layers):
        fan_out = add(layer, "fan-out", *last)
        ends = []
        for branch in range(num_branches):
            end = fan_out
            for operator in range(num_operators):
                end = add(layer, f"branch {branch} operator {operator}", end)
            ends.append(end)
        last = (add(layer, "join", *dict.fromkeys((fan_out, *ends))),)
    graph = DnnGraph(tuple(nodes), tuple(edges), f"layered {num_layers} x {num_branches} x {num_operators}")
    memory = MEMORY_HEADROOM * sum(node.memory_bytes for node in nodes) / num_accelerators
    return graph, Deployment(num_accelerators, 1, memory)


def trained(graph: DnnGraph, backward_factor: float = 2.0, transfer_factor: float = 1.0) -> DnnGraph:
    """Return a graph of forward nodes with a backward one for each, so many times as long and on the same device.

    Gradients flow against the edges, and take as long to send as what they are of; all transfers are multiplied.

    >>> graph = trained(layered(2, 3, 4)[0])
    >>> len(graph.nodes), len(graph.edges)
    (56, 94)
    """
    first = max(node.id for node in graph.nodes) + 1
    forward = [
        replace(node, colocation_class=node.id, transfer_ms=transfer_factor * node.transfer_ms) for node in graph.nodes
    ]
    backward = [
        replace(
            node,
            id=first + node.id,
            accelerator_ms=backward_factor * node.accelerator_ms,
            cpu_ms=backward_factor * node.cpu_ms,
            is_backward=True,
            name=f"{node.name}, backward",
        )
        for node in forward
    ]
    edges = [Edge(v.id, first + v.id) for v in graph.nodes]
    edges += [Edge(first + e.target, first + e.source) for e in graph.edges]
    return DnnGraph((*forward, *backward), (*graph.edges, *edges), f"{graph.name}, training")
