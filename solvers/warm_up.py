"""Compile the solver kernels ahead of the first solve; `make install` runs `python -m solvers.warm_up`."""

from solvers.costs import Objective
from solvers.deployment import Deployment
from solvers.graph import DnnGraph, Edge, Node
from solvers.solve import solve
from solvers.split import Family

GRAPH = DnnGraph(tuple(Node(v, 1.0, 1.0, 1.0, 0.5) for v in range(3)), (Edge(0, 1), Edge(1, 2)))
DEPLOYMENT = Deployment(2, 1, 3.0)


def warm_up() -> None:
    """Load what the DP needs, compiling it if numba's cache on disk does not have it."""
    solve(GRAPH, DEPLOYMENT, method="dp")


def compile_all() -> None:
    """Compile every kernel of every method, so that all are in numba's cache on disk."""
    warm_up()
    solve(GRAPH, DEPLOYMENT, method="ip", family=Family.FREE)
    solve(GRAPH, DEPLOYMENT, objective=Objective.LATENCY)
    solve(GRAPH, DEPLOYMENT, method="local_search")


if __name__ == "__main__":
    compile_all()
