"""The largest graphs that a server takes, 100,000 nodes: what a solve keeps to, its time limit and its memory.

    python -m benchmarks.large_graphs

Each row is a fresh process. Times and transfers are drawn from a seeded generator; eight accelerators, no memory limit.
Of the shapes one is narrow, one has a hundred long branches, in one a node reads any two of about a thousand before it,
and in one half of the nodes are inputs, each read by any of the others.
"""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.machine import machine
from benchmarks.peak_memory import own_peak_mb
from solvers.model.deployment import Communication, Deployment, Replication
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family
from solvers.solve import solve
from solvers.warm_up import compile_all

NUM_NODES = 100_000
TIME_LIMIT_S = 20.0
BRANCHES, REACH = 100, 1_000

Pair = tuple[int, int]


def narrow(n: int, _: random.Random) -> Iterator[Pair]:
    """Each node reads the one before it and the third before it."""
    yield from ((u, u + step) for step in (1, 3) for u in range(n - step))


def branches(n: int, _: random.Random) -> Iterator[Pair]:
    """Long branches between a first and a last node, numbered across them."""
    for v in range(1, n - 1):
        yield max(0, v - BRANCHES), v
        if v >= n - 1 - BRANCHES:
            yield v, n - 1


def wide(n: int, rng: random.Random) -> Iterator[Pair]:
    """Each node reads two of those half of REACH to REACH before it."""
    for v in range(1, n):
        yield from ((max(0, v - rng.randint(REACH // 2, REACH)), v) for _ in range(2))


def inputs(n: int, rng: random.Random) -> Iterator[Pair]:
    """Half of the nodes are inputs, each read by two of the others."""
    for u in range(n // 2):
        yield from ((u, rng.randrange(n // 2, n)) for _ in range(2))


SHAPES: dict[str, Callable[[int, random.Random], Iterator[Pair]]] = {
    "narrow": narrow,
    "branches": branches,
    "wide": wide,
    "inputs": inputs,
}
QUESTIONS: dict[str, tuple[Deployment, Family]] = {
    "pipelines": (Deployment(8), Family.CHAIN),
    "pipelines, replicated": (Deployment(8, replication=Replication(2)), Family.CHAIN),
    "pipelines, overlapped": (Deployment(8, communication=Communication.OVERLAPPED), Family.CHAIN),
    "contiguous": (Deployment(8), Family.CONVEX),
    "non-contiguous": (Deployment(8), Family.FREE),
}


def large_graph(shape: str, num_nodes: int) -> DnnGraph:
    """Return the graph of a shape; nodes take 1 to 2 ms, transfers up to 0.2."""
    rng = random.Random(0)  # noqa: S311 -- the same graph every time, not secrecy
    nodes = tuple(Node(v, 1.0 + rng.random(), 20.0, transfer_ms=0.2 * rng.random()) for v in range(num_nodes))
    return DnnGraph(nodes, tuple(Edge(u, v) for u, v in sorted(set(SHAPES[shape](num_nodes, rng)))))


def measure(shape: str, question: str) -> dict[str, Any]:
    """Solve one; return the gap, or None without a plan, seconds, and the peak in MB with and without the solve."""
    graph = large_graph(shape, NUM_NODES)
    graph_mb = own_peak_mb()
    deployment, family = QUESTIONS[question]
    result = solve(graph, deployment, family=family, time_limit_s=TIME_LIMIT_S)
    return {"gap": result.gap, "seconds": result.runtime_s, "peak_mb": own_peak_mb(), "graph_mb": graph_mb}


def main() -> None:
    """Measure each in a process of its own and print a row."""
    compile_all()
    print(machine(), "\n\n| shape | question | gap, % | seconds | peak MB | of it the graph |")
    print("|---|---|---:|---:|---:|---:|")
    for shape in SHAPES:
        for question in QUESTIONS:
            command = [sys.executable, "-m", "benchmarks.large_graphs", shape, question]
            output = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 -- our own module
            row = json.loads(output)
            gap = "no plan" if row["gap"] is None else f"{100 * row['gap']:.3f}"
            figures = f"{row['seconds']:.1f} | {row['peak_mb']:.0f} | {row['graph_mb']:.0f}"
            print(f"| {shape} | {question} | {gap} | {figures} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main()
