"""The networks that no solver was developed on are of the sizes their papers give, and graphs for every solver."""

import pytest

from benchmarks import held_out, testbeds
from solvers.importers.network import Network

PUBLISHED = {
    held_out.randomly_wired: 5.6e6,  # table 2, small
    held_out.efficientnet_b4: 19.3e6,
    held_out.unet_plus_plus: 9.04e6,  # table 2
    held_out.clip: 149.6e6,  # of the released ViT-B/16
}


@pytest.mark.parametrize(("build", "parameters"), PUBLISHED.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_they_have_as_many_parameters_as_published(build: object, parameters: float) -> None:
    assert callable(build)
    network = build(2, training=False)
    assert isinstance(network, Network)
    assert network.parameters == pytest.approx(parameters, rel=0.03)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", testbeds.HELD_OUT)
def test_each_is_a_graph_with_one_piece(name: str, training: bool) -> None:
    graph = testbeds.testbed(name, training=training, link="pcie")
    assert any(node.is_backward for node in graph.nodes) is training
    reached, waiting = {graph.nodes[0].id}, [graph.nodes[0].id]
    neighbours: dict[int, set[int]] = {node.id: set() for node in graph.nodes}
    for edge in graph.edges:
        neighbours[edge.source].add(edge.target)
        neighbours[edge.target].add(edge.source)
    while waiting:
        new = neighbours[waiting.pop()] - reached
        reached |= new
        waiting += new
    assert len(reached) == len(graph.nodes)
