"""Small stacks of layers to test exports on: an embedding, blocks of a few operators each, an output."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise

from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from tests.support.graphs import with_backward


def random_stack(seed: int, num_blocks: int, *, training: bool = False) -> DnnGraph:
    """Return a random stack: blocks of one to three operators, the last of which may read the first one's input too."""
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    layers = ["embedding", *(f"block {i}" for i in range(1, num_blocks + 1)), "output"]
    nodes: list[Node] = []
    edges: list[Edge] = []
    last = None
    for layer in layers:
        entry = last
        for i in range(rng.randint(1, 3)):
            v = len(nodes)
            nodes.append(
                Node(
                    v,
                    float(rng.randint(0, 6)),
                    20.0,
                    float(rng.randint(0, 4)),
                    float(rng.randint(0, 3)),
                    name=f"{layer} operator {i}",
                    layer=layer,
                )
            )
            if last is not None:
                edges.append(Edge(last, v))
            last = v
        if entry is not None and last is not None and entry + 1 < last and rng.random() < 0.5:
            edges.append(Edge(entry, last))
    graph = DnnGraph(tuple(nodes), tuple(edges))
    if not training:
        return graph
    both = with_backward(graph)
    layer_of = {node.colocation_class: node.layer for node in both.nodes if not node.is_backward}
    return both.with_nodes(tuple(replace(node, layer=layer_of[node.colocation_class]) for node in both.nodes))


def plain_stack(num_blocks: int) -> DnnGraph:
    """Return a stack whose nodes 0 .. num_blocks + 1 are its layers, 1 ms each."""
    names = ("embedding", *(f"block {i}" for i in range(1, num_blocks + 1)), "output")
    nodes = tuple(Node(v, 1.0, 9.0, 1.0, 0.5, name=name, layer=name) for v, name in enumerate(names))
    return DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(len(names) - 1)))


def cut_after(graph: DnnGraph, *ends: int) -> Split:
    """Return the split whose accelerators have the nodes up to each of these ids, and the rest."""
    ids = sorted(node.id for node in graph.nodes)
    bounds = (-1, *ends, ids[-1])
    return Split(tuple(frozenset(v for v in ids if a < v <= b) for a, b in pairwise(bounds)))


def splits_of_units(units: list[frozenset[int]], deployment: Deployment) -> Iterator[Split]:
    """Yield every split that gives consecutive units to accelerators that are alike, in order."""
    for num_stages in range(1, min(len(units), deployment.num_accelerators) + 1):
        for cuts in combinations(range(1, len(units)), num_stages - 1):
            bounds = (0, *cuts, len(units))
            yield Split(tuple(frozenset[int]().union(*units[a:b]) for a, b in pairwise(bounds))).on(deployment)


def best_of(graph: DnnGraph, deployment: Deployment, splits: Iterator[Split]) -> float | None:
    """Return the least max-load of the splits that fit into memory; None where none does."""
    values = []
    for split in splits:
        costs = split_costs(graph, deployment, split)
        if all(device.memory_bytes <= deployment.memory_limit_bytes for device in costs.devices):
            values.append(costs.max_load_ms)
    return min(values, default=None)
