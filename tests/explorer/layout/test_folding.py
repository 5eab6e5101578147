"""Groups of nodes: complete, ordered, also where they feed each other in a circle."""

from dataclasses import replace

from explorer.layout.folding import (
    Group,
    fold_by_device,
    fold_by_layer,
    fold_by_piece,
    fold_by_stage,
    fold_repeats,
    single_nodes,
)
from solvers.model.graph import DnnGraph, Edge, Node
from tests.support.graphs import chain, diamond, random_training_graph


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


def layered_training_graph(num_layers: int) -> DnnGraph:
    """Return two nodes per layer forward and two backward, in layers of the same kind and cost."""
    half = 2 * num_layers
    nodes = [
        Node(v, 1.0 + v % 2, 9.0, name=f"op {'ab'[v % 2]}", layer=f"block {v // 2}", colocation_class=v)
        for v in range(half)
    ]
    nodes += [
        replace(nodes[v], id=2 * half - 1 - v, is_backward=True, name=f"op {'ab'[v % 2]} backward") for v in range(half)
    ]
    return DnnGraph(tuple(nodes), tuple(Edge(v, v + 1) for v in range(2 * half - 1)))


def folded(graph: DnnGraph, device_of: dict[int, int] | None) -> tuple[Group, ...] | None:
    groups = fold_by_layer(graph)
    assert groups is not None
    return fold_repeats(graph, groups, device_of)


def test_repeats_are_joined_with_their_count_and_their_backward_twins():
    graph = layered_training_graph(16)
    groups = folded(graph, None)
    assert groups is not None
    assert [(g.title, g.count, g.is_backward) for g in groups] == [("block 0–15", 16, False), ("block 0–15", 16, True)]
    assert groups[0].twin == groups[1].twin >= 0
    assert sorted(v for g in groups for v in g.nodes) == sorted(graph.node_by_id)


def test_joined_repeats_lie_on_one_device():
    graph = layered_training_graph(16)
    # The border between the devices runs through block 5.
    device_of = {v: int(min(v, 63 - v) > 10) for v in graph.node_by_id}
    groups = folded(graph, device_of)
    assert groups is not None
    forward = [(g.title, g.count) for g in groups if not g.is_backward]
    assert forward == [("block 0–4", 5), ("block 5", 1), ("block 6–15", 10)]
    for g in groups:
        assert g.count == 1 or len({device_of[v] for v in g.nodes}) == 1
        assert [h.count for h in groups if h.twin == g.twin] == [g.count] * 2


def test_layers_of_another_kind_or_cost_are_not_joined():
    graph = layered_training_graph(16)
    slow = tuple(replace(n, accelerator_ms=50.0) if n.layer == "block 3" else n for n in graph.nodes)
    groups = folded(DnnGraph(slow, graph.edges), None)
    assert groups is not None
    assert [(g.title, g.count) for g in groups if not g.is_backward] == [
        ("block 0–2", 3), ("block 3", 1), ("block 4–15", 12),
    ]  # fmt: skip
    renamed = tuple(replace(n, layer=f"{n.layer} {'ab'[n.id % 3 > 0]}") for n in graph.nodes)
    assert folded(DnnGraph(renamed, graph.edges), None) is None


def test_few_boxes_are_not_joined():
    assert folded(layered_training_graph(4), None) is None


def test_pieces_of_a_device_are_numbered_and_single_ones_are_twins():
    graph = chain((1, 1, 1))
    names = {0: "Accelerator 1", 1: "Accelerator 2"}
    groups = fold_by_piece(graph, {1: 0, 2: 1, 3: 0}, [(0, (1,)), (1, (2,)), (0, (3,))], names)
    assert [g.title for g in groups] == ["Accelerator 1, piece 1 of 2", "Accelerator 2", "Accelerator 1, piece 2 of 2"]
    graph = layered_training_graph(4)
    pieces = [(0, tuple(range(8))), (0, tuple(range(8, 16)))]
    groups = fold_by_piece(graph, dict.fromkeys(range(16), 0), pieces, names)
    assert [(g.title, g.is_backward) for g in groups] == [("Accelerator 1", False), ("Accelerator 1", True)]
    assert groups[0].twin == groups[1].twin == 0


def test_devices_hold_both_passes_and_follow_the_forward_pass():
    graph = layered_training_graph(4)
    device_of = {v: 1 - (min(v, 15 - v) // 4) for v in graph.node_by_id}
    groups = fold_by_device(graph, device_of, {0: "Accelerator 1", 1: "Accelerator 2"})
    assert [g.title for g in groups] == ["Accelerator 2", "Accelerator 1"]
    assert sorted(v for g in groups for v in g.nodes) == sorted(graph.node_by_id)
