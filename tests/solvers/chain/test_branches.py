"""Training chains with nearly free links and loose memory: long branches whose stages hardly dominate each other."""

import pytest

from sample_graphs.synthetic import layered, trained
from solvers.chain.max_load import ChainSearch
from solvers.chain.stage_search import VariantSearch
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.split import Family, forward_edges
from solvers.problem.contraction import contract


def test_a_trained_graph_mirrors_every_edge_and_keeps_twins_together() -> None:
    graph = trained(layered(2, 3, 2)[0], backward_factor=3.0, transfer_factor=0.5)
    original = layered(2, 3, 2)[0]
    n = len(original.nodes)
    assert len(graph.nodes) == 2 * n
    edges = {(e.source, e.target) for e in graph.edges}
    for u, v in forward_edges(original):
        assert {(u, v), (v + n, u + n)} <= edges
    for node in original.nodes:
        forward, backward = graph.node_by_id[node.id], graph.node_by_id[node.id + n]
        assert (forward.is_backward, backward.is_backward) == (False, True)
        assert forward.colocation_class == backward.colocation_class is not None
        assert backward.accelerator_ms == 3.0 * node.accelerator_ms
        assert forward.transfer_ms == 0.5 * node.transfer_ms


@pytest.mark.parametrize("shape", [(1, 3, 5), (2, 2, 4), (2, 3, 3)])
@pytest.mark.parametrize("num_cpus", [0, 1])
def test_labels_and_pairs_of_ideals_find_the_same_optimum(shape: tuple[int, int, int], num_cpus: int) -> None:
    graph, deployment = trained(layered(*shape)[0], transfer_factor=1e-3), Deployment(4, num_cpus)
    contraction = contract(graph, Family.CHAIN, deployment)
    labels = ChainSearch(graph, contraction, deployment).run()
    pairs = VariantSearch(graph, contraction, deployment, Objective.THROUGHPUT)
    pairs.run()
    assert labels.value_ms == pytest.approx(pairs.value_ms, rel=1e-6)
    assert labels.lower_bound_ms == pytest.approx(labels.value_ms, rel=1e-6)
