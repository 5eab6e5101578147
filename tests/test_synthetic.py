"""The family of graphs that grows: its size, its ideals and that it is the same every time."""

import pytest

from sample_graphs.synthetic import layered
from tests.support.reference import num_ideals


@pytest.mark.parametrize(("layers", "branches", "operators"), [(1, 1, 1), (2, 3, 1), (3, 2, 2)])
def test_sizes_are_what_the_formula_says(layers: int, branches: int, operators: int) -> None:
    graph, deployment = layered(layers, branches, operators)
    assert len(graph.nodes) == layers * (branches * operators + 2)
    # Per layer: nothing of it, the fan-out with any part of each branch, and with the join: the next layer's nothing.
    assert num_ideals(graph) == layers * ((operators + 1) ** branches + 1) + 1
    assert deployment.memory_bytes is not None
    assert sum(node.memory_bytes for node in graph.nodes) < deployment.num_accelerators * deployment.memory_bytes


def test_same_seed_same_graph() -> None:
    assert layered(2, 2, 2, seed=1) == layered(2, 2, 2, seed=1)
    assert layered(2, 2, 2, seed=1)[0] != layered(2, 2, 2, seed=2)[0]
