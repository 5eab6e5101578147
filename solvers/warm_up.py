"""Compile the solver kernels ahead of the first solve; `make install` runs `python -m solvers.warm_up`."""

from dataclasses import replace

from solvers.contraction import contract
from solvers.deployment import Communication, Deployment, DeviceClass
from solvers.graph import DnnGraph, Edge, Node
from solvers.latency_bound import latency_bound
from solvers.solve import solve
from solvers.split import Family

GRAPH = DnnGraph(tuple(Node(v, 1.0, 1.0, 1.0, 0.5) for v in range(3)), (Edge(0, 1), Edge(1, 2)))
DEPLOYMENT = Deployment(2, 1, 3.0)


def warm_up() -> None:
    """Load what the DP needs, compiling it if numba's cache on disk does not have it."""
    solve(GRAPH, DEPLOYMENT, method="dp")


def compile_all() -> None:
    """Compile every kernel of every method, so that all are in numba's cache on disk."""
    from solvers.baselines.greedy_latency import greedy_latency_splits
    from solvers.latency_annealing import latency_search  # numba loads here

    warm_up()
    solve(GRAPH, replace(DEPLOYMENT, communication=Communication.OVERLAPPED), method="dp")
    mixed = Deployment.of_classes((DeviceClass("A", 1, 2.0), DeviceClass("B", 1)), 1)
    for communication in (Communication.SUM, Communication.OVERLAPPED):
        solve(GRAPH, replace(mixed, communication=communication), method="dp")
    solve(GRAPH, DEPLOYMENT, method="ip", family=Family.FREE)
    contraction = contract(GRAPH, Family.FREE, DEPLOYMENT, join_idle=False)
    next(latency_search(GRAPH, DEPLOYMENT, contraction, greedy_latency_splits(GRAPH, DEPLOYMENT)))
    latency_bound(GRAPH, DEPLOYMENT)
    solve(GRAPH, DEPLOYMENT, method="local_search")


if __name__ == "__main__":
    compile_all()
