"""What is said where no plan exists claims no more than was proven."""

from dataclasses import replace

import pytest

from solvers.model.deployment import Deployment
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.solve import solve
from tests.support.graphs import chain


@pytest.mark.parametrize("family", [Family.CHAIN, Family.CONVEX])
def test_only_the_split_type_that_was_searched_is_said_not_to_fit(family: Family) -> None:
    """Sizes 2, 2, 1, 1 in a row fit on two accelerators of 3, but not in contiguous pieces."""
    graph = chain((1.0, 1.0, 1.0, 1.0))
    sized = (replace(node, memory_bytes=size) for node, size in zip(graph.nodes, (2.0, 2.0, 1.0, 1.0), strict=True))
    graph = graph.with_nodes(tuple(sized))
    deployment = Deployment(2, 0, 3.0)
    assert solve(graph, deployment, family=Family.FREE).status is SolveStatus.OPTIMAL
    result = solve(graph, deployment, family=family)
    assert result.status is SolveStatus.INFEASIBLE
    assert f"no {family.named} split keeps every one of the 2 accelerators" in result.message
    assert "less restricted split type" in result.message
