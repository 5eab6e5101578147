"""Compile the solver kernels ahead of the first solve; `make install` runs `python -m solvers.warm_up`."""

from dataclasses import replace

from solvers.latency.bound import latency_bound
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family
from solvers.problem.contraction import contract
from solvers.solve import solve

GRAPH = DnnGraph(tuple(Node(v, 1.0, 1.0, 1.0, 0.5) for v in range(3)), (Edge(0, 1), Edge(1, 2)))
DEPLOYMENT = Deployment(2, 1, 3.0)


def warm_up() -> None:
    """Load what the DP needs, compiling it if numba's cache on disk does not have it."""
    solve(GRAPH, DEPLOYMENT, method="dp")


def compile_all() -> None:
    """Compile every kernel of every method, so that all are in numba's cache on disk."""
    from solvers.latency.annealing import latency_search  # numba loads here
    from solvers.latency.greedy import greedy_latency_splits

    warm_up()
    solve(GRAPH, replace(DEPLOYMENT, communication=Communication.OVERLAPPED), method="dp")
    solve(GRAPH, DEPLOYMENT, method="ip", family=Family.FREE)
    contraction = contract(GRAPH, Family.FREE, DEPLOYMENT, join_idle=False)
    next(latency_search(GRAPH, DEPLOYMENT, contraction, greedy_latency_splits(GRAPH, DEPLOYMENT)))
    latency_bound(GRAPH, DEPLOYMENT)
    solve(GRAPH, DEPLOYMENT, method="local_search")


if __name__ == "__main__":
    compile_all()
