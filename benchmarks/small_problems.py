"""Small problems of free and convex splits: an integer program that begins at once against one that waits.

`python -m benchmarks.small_problems` solves random graphs of a few nodes on four devices both ways, by turns, and
prints the median and the largest time of a solve. Waiting is for what looks for plans and bounds beside it
(`solvers.methods.throughput.FEW_ROWS`).
"""

import statistics
import time

from benchmarks.machine import machine
from solvers.methods import throughput
from solvers.model.deployment import Deployment
from solvers.model.split import Family
from solvers.solve import solve
from solvers.warm_up import compile_all
from tests.support.graphs import random_dag

SIZES = ((6, 0.3), (8, 0.3), (12, 0.2), (20, 0.15))
"""Nodes, and how likely there is an edge between two of them."""
DEPLOYMENTS = (Deployment(3, 1), Deployment(4))
SEEDS = range(10)


def main() -> None:
    """Solve and print."""
    compile_all()
    print(machine())
    print("\n| nodes | splits | waits: median, s | most | at once: median, s | most |\n|---:|---|---:|---:|---:|---:|")
    few_rows = throughput.FEW_ROWS
    for num_nodes, edge_probability in SIZES:
        for family in (Family.FREE, Family.CONVEX):
            seconds: dict[int, list[float]] = {0: [], few_rows: []}
            for seed in SEEDS:
                graph = random_dag(seed, num_nodes=num_nodes, edge_probability=edge_probability)
                for deployment in DEPLOYMENTS:
                    for rows, times in seconds.items():
                        throughput.FEW_ROWS = rows
                        began = time.perf_counter()
                        solve(graph, deployment, family=family, time_limit_s=60)
                        times.append(time.perf_counter() - began)
            figures = [f"{figure(times):.2f}" for times in seconds.values() for figure in (statistics.median, max)]
            print(f"| {num_nodes} | {family} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
