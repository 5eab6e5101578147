"""Folding by layers: any split of the layers costs what it costs the operators."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.importers.folding import folded_by_layers
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError
from solvers.model.graph import DnnGraph, Edge, Node, Tensor, TimesKind, TimesOrigin
from solvers.model.split import Split
from tests.support.examples import examples
from tests.support.graphs import random_dag, random_split, random_tensors, random_training_graph


def layered(graph: DnnGraph, num_layers: int, seed: int) -> DnnGraph:
    """Return a graph whose forward nodes are cut into layers along a topological order; twins have their layers."""
    rng = random.Random(seed)  # noqa: S311
    order = [v for v in graph.topological_order if not graph.node_by_id[v].is_backward]
    cuts = sorted(rng.randrange(len(order) + 1) for _ in range(num_layers - 1))
    layer_of = {v: f"layer {sum(i >= cut for cut in cuts)}" for i, v in enumerate(order)}
    nodes = []
    for node in graph.nodes:
        twins = [v for v in graph.colocation_members.get(node.colocation_class or 0, ()) if v in layer_of]
        layer = layer_of.get(node.id, layer_of[twins[0]] if twins else None)
        nodes.append(replace(node, layer=layer))
    return graph.with_nodes(tuple(nodes))


def operators_where_layers_are(graph: DnnGraph, folded: DnnGraph, split: Split, deployment: Deployment) -> Split:
    of_part = {(node.layer, node.is_backward): node.id for node in reversed(folded.nodes)}
    device = {v: d for d, members in enumerate(split.devices) for v in members}
    return Split.from_device_of(
        {node.id: device[of_part[node.layer, node.is_backward]] for node in graph.nodes}, deployment
    )


@given(st.integers(0, 10_000), st.integers(1, 6), st.booleans())
@examples(300)
def test_every_split_of_the_layers_costs_what_it_costs_the_operators(
    seed: int, num_layers: int, training: bool
) -> None:
    graph = layered(random_training_graph(seed, 10) if training else random_dag(seed, 12), num_layers, seed)
    graph = random_tensors(graph, seed) if seed % 2 else graph
    folded = folded_by_layers(graph)
    deployment = Deployment(3, 1)
    for i in range(4):
        split = random_split(folded, deployment, seed + i)
        by_layers = split_costs(folded, deployment, split)
        by_operators = split_costs(graph, deployment, operators_where_layers_are(graph, folded, split, deployment))
        for one, other in zip(by_layers.devices, by_operators.devices, strict=True):
            for what in ("load_ms", "compute_ms", "send_ms", "receive_ms", "forward_ms", "backward_ms", "memory_bytes"):
                assert getattr(one, what) == pytest.approx(getattr(other, what)), what


def test_a_layer_with_two_outputs_has_two_tensors() -> None:
    nodes = (
        Node(0, 1.0, 1.0, transfer_ms=2.0, layer="a"),
        Node(1, 1.0, 1.0, transfer_ms=3.0, layer="a"),
        Node(2, 1.0, 1.0, transfer_ms=5.0, layer="a"),
        Node(3, 1.0, 1.0, layer="b"),
        Node(4, 1.0, 1.0, layer="c"),
    )
    edges = tuple(Edge(u, v, 1e6) for u, v in ((0, 1), (0, 3), (1, 3), (2, 3), (2, 4)))
    folded = folded_by_layers(DnnGraph(nodes, edges))
    assert [(node.name, node.accelerator_ms, node.output_ms) for node in folded.nodes] == [
        ("a", 3.0, 10.0),
        ("b", 1.0, 0.0),
        ("c", 1.0, 0.0),
    ]
    assert folded.tensors == (
        Tensor(0, "output 1", 5.0, 2e6, (1,)),
        Tensor(0, "output 2", 5.0, 1e6, (1, 2)),
    )
    assert folded.colocation_members == {}


def test_layers_that_pass_data_to_and_fro_are_refused() -> None:
    nodes = tuple(Node(i, 1.0, 1.0, layer="ab"[i % 2]) for i in range(3))
    with pytest.raises(GraphError, match="take its operators instead"):
        folded_by_layers(DnnGraph(nodes, (Edge(0, 1), Edge(1, 2))))


def test_times_of_layers_say_that_they_are_sums() -> None:
    computed = TimesOrigin("T4", "fp16", kind=TimesKind.ROOFLINE)
    graph = DnnGraph((Node(0, 1.0, 1.0, layer="a"), Node(1, 2.0, 1.0, layer="a")), (Edge(0, 1),), times=computed)
    assert folded_by_layers(graph).times == replace(computed, kind=TimesKind.SUMMED)
    assert folded_by_layers(replace(graph, times=None)).times is None
