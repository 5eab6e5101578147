"""The networks that no solver was developed on are of the sizes their papers give, and graphs for every solver."""

import pytest

from benchmarks import held_out, testbeds
from solvers.importers.network import Network
from solvers.model.split import Family

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


def test_a_sample_has_every_graph_and_all_numbers_of_devices_in_both_passes() -> None:
    """With turns as long as the list of devices, inference would never have a CPU."""
    sampled = list(testbeds.sample())
    for family in Family:
        of_family = [case for case in sampled if case.family is family]
        on_pcie = [case for case in of_family if case.link == "pcie"]
        assert len(of_family) == len(set(of_family))
        assert len({(case.network, case.training) for case in on_pcie}) == len(on_pcie) == 38
        devices = {(case.training, case.num_accelerators, case.num_cpus) for case in on_pcie}
        assert len(devices) == 2 * 2 * len(testbeds.COUNTS)
        assert {case.link for case in of_family} == set(testbeds.LINKS)
