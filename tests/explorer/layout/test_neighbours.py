"""Nodes without a layer: they join a neighbour's and close no circle; the ends of a graph become boxes of their own."""

import random
from dataclasses import replace

import networkx as nx
import pytest

from explorer.layout.folding import Group, fold_by_layer
from explorer.layout.names import short_names
from solvers.model.graph import DnnGraph
from solvers.samples import read_sample
from tests.support.graphs import chain, random_dag, with_backward

SAMPLES = ("bert_base_operator_training", "resnet50_operator_training", "inception_v3_operator_inference")


def groups_of(graph: DnnGraph) -> tuple[Group, ...]:
    groups = fold_by_layer(graph)
    assert groups is not None
    assert sorted(v for group in groups for v in group.nodes) == sorted(graph.node_by_id)
    assert all(len({graph.node_by_id[v].is_backward for v in group.nodes}) == 1 for group in groups)
    return groups


def quotient(graph: DnnGraph, groups: tuple[Group, ...], is_backward: bool) -> "nx.DiGraph[int]":
    """Return which groups of one pass feed which."""
    group_of = {v: i for i, group in enumerate(groups) for v in group.nodes if group.is_backward == is_backward}
    ends = ((group_of.get(edge.source), group_of.get(edge.target)) for edge in graph.edges)
    flow: nx.DiGraph[int] = nx.DiGraph()
    flow.add_nodes_from(group_of.values())
    flow.add_edges_from((u, v) for u, v in ends if u is not None and v is not None and u != v)
    return flow


def in_chunks(graph: DnnGraph, size: int, kept_share: float, seed: int) -> DnnGraph:
    """Return the graph with layers of consecutive nodes, of which only some nodes know theirs."""
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    place = {v: i for i, v in enumerate(graph.topological_order)}
    known = set(rng.sample(sorted(place), round(kept_share * len(place))))
    return graph.with_nodes(
        tuple(replace(node, layer=f"{place[node.id] // size}" if node.id in known else None) for node in graph.nodes)
    )


@pytest.mark.parametrize("seed", range(30))
def test_joining_neighbours_closes_no_circle(seed):
    graph = in_chunks(random_dag(seed, 40, 0.08), 5, 0.8, seed)
    groups = groups_of(graph)
    assert nx.is_directed_acyclic_graph(quotient(graph, groups, False))
    titles = {f"layer {node.layer}" for node in graph.nodes if node.layer}
    inputs_and_readers = nx.Graph([(edge.source, edge.target) for edge in graph.edges])
    for group in groups:
        if group.title not in titles:
            # Alone are only nodes that no path joins to a layer.
            assert not any(
                graph.node_by_id[u].layer
                for v in group.nodes
                if v in inputs_and_readers
                for u in (nx.descendants(graph_of(graph), v) | nx.ancestors(graph_of(graph), v))
            )


def graph_of(graph: DnnGraph) -> "nx.DiGraph[int]":
    flow: nx.DiGraph[int] = nx.DiGraph()
    flow.add_nodes_from(graph.node_by_id)
    flow.add_edges_from((edge.source, edge.target) for edge in graph.edges)
    return flow


def test_nodes_join_the_latest_input_and_sources_their_first_reader():
    graph = chain((1.0,) * 9)
    layers = {2: "a", 3: "a", 4: "a", 6: "b", 7: "b", 8: "b", 9: "b"}
    graph = graph.with_nodes(tuple(replace(node, layer=layers.get(node.id)) for node in graph.nodes))
    assert [(group.title, group.nodes) for group in groups_of(graph)] == [("a", (1, 2, 3, 4, 5)), ("b", (6, 7, 8, 9))]


def test_layers_that_are_numbers_get_a_name():
    graph = chain((1.0,) * 6)
    graph = graph.with_nodes(tuple(replace(node, layer=str(node.id // 3)) for node in graph.nodes))
    assert [group.title for group in groups_of(graph)] == ["layer 0", "layer 1", "layer 2"]


@pytest.mark.parametrize("name", SAMPLES)
def test_graphs_without_names_for_layers_flow_in_one_direction(name):
    graph, _ = read_sample(name)
    graph = graph.with_nodes(tuple(replace(node, layer=None, name=f"op {node.flops}") for node in graph.nodes))
    if fold_by_layer(graph) is None:
        pytest.skip("nothing repeats")
    groups = groups_of(graph)
    for is_backward in (False, True):
        assert nx.is_directed_acyclic_graph(quotient(graph, groups, is_backward))
    assert len(groups) < 0.25 * len(graph.nodes)


def test_ends_of_a_stack_are_one_box_each():
    head, block, num_blocks, tail = 20, 8, 6, 20
    costs = [1.5**i for i in range(head)]
    costs += [1e6 * 1.5**i for i in range(block)] * num_blocks
    costs += [1e9 * 1.5**i for i in range(tail)]
    kinds = ["head"] * head + ["block"] * block * num_blocks + ["tail"] * tail
    graph = chain(costs)
    named = (replace(node, name=f"{kind} op") for node, kind in zip(graph.nodes, kinds, strict=True))
    graph = with_backward(graph.with_nodes(tuple(named)))
    groups = groups_of(graph)
    for is_backward in (False, True):
        titles = [group.title for group in groups if group.is_backward == is_backward]
        titles = titles[::-1] if is_backward else titles
        assert titles == ["input", *(f"block {i + 1}" for i in range(num_blocks)), "output"]
    twins = {group.title: group.twin for group in groups}
    assert all(group.twin == twins[group.title] >= 0 for group in groups)


@pytest.mark.parametrize(
    "labels",
    [["block 1", "block 2"], ["a.b.1", "a.b.2", "c"], ["x"], ["MatMul_1", "Add_1"], ["encoder pooler", "head"], []],
)
def test_what_is_left_of_a_short_name_is_its_end(labels):
    for label, short in zip(labels, short_names(labels), strict=True):
        assert label.endswith(short)
        assert short != label
