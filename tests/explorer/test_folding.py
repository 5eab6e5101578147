"""Groups of nodes: complete, ordered, also where they feed each other in a circle."""

from dataclasses import replace

from explorer.folding import fold_by_layer, fold_by_stage, single_nodes
from solvers.graph import DnnGraph, Edge, Node
from tests.graphs import chain, diamond, random_training_graph


def with_layers(graph: DnnGraph, layer_of: dict[int, str]) -> DnnGraph:
    return DnnGraph(tuple(replace(node, layer=layer_of.get(node.id)) for node in graph.nodes), graph.edges)


def test_single_nodes_keep_the_topological_order():
    graph = diamond()
    assert [group.nodes for group in single_nodes(graph)] == [(v,) for v in graph.topological_order]


def test_one_forward_and_one_backward_node_of_a_class_are_twins():
    nodes = (
        Node(1, 1.0, 1.0, colocation_class=7),
        Node(2, 3.0, 1.0, colocation_class=7),
        Node(3, 2.0, 1.0, colocation_class=7, is_backward=True),
        Node(4, 2.0, 1.0, colocation_class=8),
    )
    groups = single_nodes(DnnGraph(nodes, (Edge(1, 2), Edge(2, 3))))
    assert {group.nodes[0]: group.twin for group in groups} == {1: -1, 2: 7, 3: 7, 4: -1}


def test_graph_without_layers_does_not_fold():
    assert fold_by_layer(chain((1, 2, 3))) is None


def test_layers_that_hold_one_node_each_do_not_fold():
    assert fold_by_layer(with_layers(chain((1, 2)), {1: "a", 2: "b"})) is None


def test_layer_folds_into_one_box_per_pass():
    graph = random_training_graph(3)
    graph = with_layers(graph, {node.id: "all" for node in graph.nodes})
    groups = fold_by_layer(graph)
    assert groups is not None
    assert [(group.title, group.is_backward) for group in groups] == [("all", False), ("all", True)]
    assert groups[0].twin == groups[1].twin >= 0


def test_nodes_without_a_layer_stay_alone():
    groups = fold_by_layer(with_layers(chain((1, 2, 3, 4)), {2: "middle", 3: "middle"}))
    assert groups is not None
    assert [group.nodes for group in groups] == [(1,), (2, 3), (4,)]


def test_groups_that_feed_each_other_in_a_circle_are_all_there():
    groups = fold_by_layer(with_layers(chain((1, 2, 3, 4)), {1: "a", 2: "b", 3: "a", 4: "b"}))
    assert groups is not None
    assert [group.title for group in groups] == ["a", "b"]


def test_stages_come_in_the_order_of_the_data():
    graph = chain((1, 1, 1, 1))
    groups = fold_by_stage(graph, {1: 1, 2: 1, 3: 0, 4: 0}, {0: "Accelerator 1", 1: "Accelerator 2"})
    assert [(group.title, group.nodes) for group in groups] == [("Accelerator 2", (1, 2)), ("Accelerator 1", (3, 4))]
