"""Small problems of every kind, drawn by a seed: a graph with its devices, and the other inputs as an address has them.

Two device types, memory limits, ties, nodes for CPUs only, several tensors of a node, all split types, objectives and
ways to transfer, replicas, memory of micro-batches in flight, and what a micro-batch holds. All times are whole or half
milliseconds, so that ties between plans and devices are common.
"""

import random
from dataclasses import dataclass, replace

from solvers.formats.graph_json import graph_text, parse_graph
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge
from solvers.model.micro_batch import MicroBatch
from tests.support.graphs import random_dag, random_tensors, random_training_graph

BYTES_PER_MS = 1e6


@dataclass(frozen=True)
class RandomProblem:
    """A graph with its devices, and inputs by their names in an address."""

    graph: DnnGraph
    deployment: Deployment
    query: dict[str, str]


def random_problem(seed: int) -> RandomProblem:
    """Return the problem of a seed; it may have no plan."""
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    is_training = rng.random() < 0.5
    num_nodes, density = rng.randint(3, 7), rng.choice((0.2, 0.35, 0.6))
    graph = (
        random_training_graph(seed, max(3, num_nodes - 2), density)
        if is_training
        else random_dag(seed, num_nodes, density)
    )
    query = _rules(rng, is_training)
    graph = _varied(rng, graph, seed)
    deployment = _devices(rng, graph, may_differ="replicas" not in query)
    if "replicas" in query and is_training:
        query["sync_bandwidth"] = "0.001"
    # As a file has it, which knows no time of an output that nobody reads.
    return RandomProblem(*parse_graph(graph_text(graph, deployment).encode(), graph.name), query)


def _rules(rng: random.Random, is_training: bool) -> dict[str, str]:
    objective = rng.choice(("throughput", "throughput", "gpipe" if is_training else "latency"))
    query = {"objective": objective}
    if (transfers := rng.choice(("", "", "overlapped", "full-duplex"))) and objective != "latency":
        query["transfers"] = transfers
    if objective != "latency":
        query["splits"] = rng.choice(("chain", "convex", "free"))
    else:
        query["subgraphs"] = rng.choice(("1", "2"))
    if query.get("splits") == "chain" and objective == "throughput" and rng.random() < 0.4:
        query["replicas"] = rng.choice(("2", "3"))
    elif is_training and query.get("splits") == "chain" and rng.random() < 0.4:
        query["in_flight"] = "yes"
    if is_training:
        query["schedule"] = rng.choice(("1f1b", "gpipe", "pipedream", "zb-h1"))
    query["micro_batches"] = str(rng.randint(1, 9))
    return query


def _varied(rng: random.Random, graph: DnnGraph, seed: int) -> DnnGraph:
    """Give the nodes layers, bytes and ties, some of them only CPUs, and sizes to tensors."""
    if rng.random() < 0.3:
        graph = random_tensors(graph, seed)
    forward = [node.id for node in graph.nodes if not node.is_backward]
    tied = set(rng.sample(forward, 2)) if not graph.is_training and rng.random() < 0.4 and len(forward) > 2 else set()
    for_cpus = {rng.choice(forward)} if not graph.is_training and rng.random() < 0.15 else set()
    has_bytes = graph.is_training and rng.random() < 0.5
    nodes = tuple(
        replace(
            node,
            memory_bytes=2.0**20 * rng.randint(0, 6),
            colocation_class=1 if node.id in tied else node.colocation_class,
            runs_on_accelerator=node.id not in for_cpus,
        )
        for node in graph.nodes
    )
    if has_bytes:
        nodes = tuple(replace(node, activation_bytes=node.memory_bytes // 2) for node in nodes)
    graph = graph.with_nodes(nodes)
    sizes = {(t.source, t.name): BYTES_PER_MS * t.transfer_ms for t in graph.tensors}
    edges = tuple(Edge(e.source, e.target, sizes[e.source, e.tensor], e.tensor) for e in graph.edges)
    held = MicroBatch(rng.choice((2, 3, 8)), "images") if rng.random() < 0.7 else None
    return DnnGraph(graph.nodes, edges if rng.random() < 0.7 else graph.edges, graph.name, micro_batch=held)


def _devices(rng: random.Random, graph: DnnGraph, may_differ: bool) -> Deployment:
    total, num_cpus = sum(node.memory_bytes for node in graph.nodes), rng.randint(0, 1)
    if any(not node.runs_on_accelerator for node in graph.nodes):
        num_cpus = 1

    def memory() -> float | None:
        return None if rng.random() < 0.4 else 2.0**20 * round(total / 2.0**20 * rng.uniform(0.3, 1.1))

    if may_differ and rng.random() < 0.5:
        kinds = (
            DeviceClass("big", rng.randint(1, 2), memory_bytes=memory(), link_speed=rng.choice((1.0, 4.0))),
            DeviceClass("small", rng.randint(1, 2), speed=rng.choice((0.5, 2.0)), memory_bytes=memory()),
        )
        return Deployment.of_classes(kinds, num_cpus)
    return Deployment(rng.randint(1, 4), num_cpus, memory())
