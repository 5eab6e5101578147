"""Compile the solver kernels ahead of the first solve; `make install` runs `python -m solvers.warm_up`."""

from solvers.deployment import Deployment
from solvers.graph import DnnGraph, Edge, Node
from solvers.solve import solve


def warm_up() -> None:
    """Solve a graph of three nodes, which compiles every kernel or loads it from numba's cache on disk."""
    nodes = tuple(Node(v, 1.0, 1.0, 1.0, 0.5) for v in range(3))
    solve(DnnGraph(nodes, (Edge(0, 1), Edge(1, 2))), Deployment(2, 1, 3.0), method="dp")


if __name__ == "__main__":
    warm_up()
