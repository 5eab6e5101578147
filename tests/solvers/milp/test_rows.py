"""How many rows an integer program will have is known about, before it is built."""

from dataclasses import replace

import pytest

from sample_graphs.synthetic import layered
from solvers.milp.throughput import estimated_rows, throughput_model
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.split import Family
from solvers.problem.contraction import contract


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("has_layers", [False, True])
def test_rows_are_about_as_many_as_estimated(family: Family, has_layers: bool) -> None:
    """Contiguity is asked of nodes, however few blocks they are in."""
    graph, _ = layered(12, 2, 3)
    if has_layers:
        layers = {layer: i for i, layer in enumerate(dict.fromkeys(node.layer for node in graph.nodes))}
        nodes = tuple(replace(node, colocation_class=layers[node.layer]) for node in graph.nodes)
        graph = replace(graph, nodes=nodes)
    deployment = Deployment(4, 1)
    contraction = contract(graph, family, deployment)
    model = throughput_model(
        graph, deployment, contraction, family, Objective.THROUGHPUT, scale_ms=1.0, lower_bound_ms=0.0
    )
    estimated, rows = estimated_rows(graph, contraction, deployment, family), model.problem.numConstraints()
    assert estimated / 3 < rows < 1.2 * estimated
