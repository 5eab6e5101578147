"""What the picture of a graph shows, against the evaluator."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from explorer.layout.levels import BLOCKS, DEVICES, LAYERS, OPERATORS, STAGES
from explorer.picture.component import pack
from explorer.picture.dag_view import dag_info
from sample_graphs.synthetic import layered
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.graphs import chain, diamond, divided, mixed_placements, random_split, random_training_graph


def placed(device_of: dict[int, int], deployment: Deployment) -> Split:
    return Split.from_device_of(device_of, deployment)


def test_unplaced_graph_has_no_devices_loads_or_cuts():
    info = dag_info(diamond(), Deployment(2))
    assert not info.is_placed
    assert [level.name for level in info.levels] == [OPERATORS]
    assert all(node.device is None for node in info.nodes)
    assert all(box.shares == () for box in info.levels[0].boxes)
    assert all(edge.cut_ms is None for edge in info.levels[0].edges)
    assert all(device.load_ms is None for device in info.devices)
    assert "not placed" in info.summary


def test_cut_edges_cost_their_tensor_and_say_so_once_per_device():
    deployment = Deployment(2)
    info = dag_info(diamond(transfer_ms=0.5), deployment, placed({1: 0, 2: 1, 3: 1, 4: 1}, deployment))
    edges = {(info.nodes[e.source].id, info.nodes[e.target].id): e for e in info.levels[0].edges}
    assert edges[1, 2].cut_ms == edges[1, 3].cut_ms == 0.5
    assert [edges[1, 2].shows_cost, edges[1, 3].shows_cost] == [True, False]
    assert edges[2, 4].cut_ms is None
    assert info.num_cut_tensors == 1


def test_an_edge_shows_its_own_tensor():
    deployment = Deployment(3)
    info = dag_info(divided(), deployment, placed({1: 0, 2: 1, 3: 2}, deployment))
    edges = {(info.nodes[e.source].id, info.nodes[e.target].id): e for e in info.levels[0].edges}
    assert [(edges[1, v].cut_ms, edges[1, v].cut_bytes) for v in (2, 3)] == [(1.0, 100.0), (3.0, 300.0)]
    assert all(edge.shows_cost for edge in edges.values())
    assert (info.nodes[0].output_bytes, info.nodes[0].transfer_ms, info.num_cut_tensors) == (400.0, 4.0, 2)
    together = dag_info(divided(), deployment, placed({1: 0, 2: 0, 3: 2}, deployment))
    assert together.num_cut_tensors == 1
    assert [(o.name, o.transfer_ms, o.size_bytes) for o in together.outputs] == [
        ("left", 1.0, 100.0),
        ("right", 3.0, 300.0),
    ]
    assert together.output_of_edge == (0, 1)


@settings(deadline=None)
@given(mixed_placements())
def test_times_of_edges_and_boxes_are_what_devices_pay(case):
    graph, deployment, split = case
    costs = split_costs(graph, deployment, split)
    info = dag_info(graph, deployment, split, costs)
    for level in info.levels:
        sent_ms = sum(box.sent_ms for box in level.boxes)
        assert sent_ms == sum(device.send_ms for device in costs.devices)
    devices = next(level for level in info.levels if level.name == DEVICES)
    for i, box in enumerate(devices.boxes):
        ((d, _),) = box.shares
        assert box.sent_ms == costs.devices[d].send_ms
        received = [edge.receive_ms for edge in devices.edges if edge.target == i]
        assert sum(received) == costs.devices[d].receive_ms
        assert all(edge.send_ms <= box.sent_ms for edge in devices.edges if edge.source == i)


@settings(deadline=None)
@given(mixed_placements())
def test_every_cut_tensor_is_a_line_or_a_seam_and_is_said_once(case):
    graph, deployment, split = case
    layered = graph.with_nodes(tuple(replace(node, layer=f"layer {node.id % 2}") for node in graph.nodes))
    costs = split_costs(layered, deployment, split)
    info = dag_info(layered, deployment, split, costs)
    device_of = {node.id: node.device for node in info.nodes}
    moves = {
        ((edge.source, edge.tensor), device_of[edge.target])
        for edge in layered.edges
        if device_of[edge.source] != device_of[edge.target]
    }
    for level in info.levels:
        assert all((box.seam is not None) <= (len(box.shares) > 1) for box in level.boxes)
        box_of = {info.nodes[i].id: b for b, box in enumerate(level.boxes) for i in box.nodes}
        seams = {box_of[e.source] for e in layered.edges if box_of[e.source] == box_of[e.target]
                 and device_of[e.source] != device_of[e.target]}  # fmt: skip
        assert seams == {b for b, box in enumerate(level.boxes) if box.seam is not None}
        said = sum(edge.num_cut_tensors for edge in level.edges if edge.shows_cost)
        said += sum(box.seam.num_cut_tensors for box in level.boxes if box.seam is not None)
        assert (said > 0) == bool(moves)
    tensor_of = {tensor.key: tensor for tensor in costs.cut_tensors}
    single = dag_info(
        layered.with_nodes(tuple(replace(node, layer="all") for node in graph.nodes)), deployment, split, costs
    )
    layers = next((level for level in single.levels if level.name == LAYERS), None)
    if layers is not None and len(layers.boxes) == 1 and moves:
        (box,) = layers.boxes
        assert box.seam is not None
        assert box.seam.num_cut_tensors == len(costs.cut_tensors)
        assert box.seam.send_ms == pytest.approx(sum(float(tensor_of[key].send_ms) for key, _ in moves))


def test_nodes_of_a_class_and_pass_are_tied_and_twins_are_not():
    nodes = tuple(
        Node(v, 1.0, 1.0, colocation_class=c, is_backward=b)
        for v, c, b in ((1, 7, False), (2, None, False), (3, 7, False), (4, 7, True), (5, 8, False), (6, 8, True))
    )
    info = dag_info(DnnGraph(nodes, (Edge(1, 2), Edge(2, 3), Edge(3, 4))), Deployment(1))
    assert [{info.nodes[i].id for i in tie} for tie in info.ties] == [{1, 3}]


def test_a_cut_edge_takes_what_each_end_pays_on_its_own_link():
    deployment = Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1, link_speed=0.25)), 1)
    info = dag_info(chain((1, 2, 3), transfer_ms=(1.0, 0.5, 0)), deployment, placed({1: 0, 2: 1, 3: 2}, deployment))
    assert [(edge.send_ms, edge.receive_ms) for edge in info.levels[0].edges] == [(1.0, 4.0), (2.0, 0.0)]
    assert [edge.cut_ms for edge in info.levels[0].edges] == [4.0, 2.0]
    assert [node.transfer_ms for node in info.nodes] == [4.0, 2.0, 0.0]
    assert "2 tensors are cut: 3 ms to send, 4 ms to receive." in info.summary


def test_the_output_of_an_uncut_node_takes_what_its_accelerator_would_pay():
    deployment = Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1, link_speed=0.25)), 1)
    for device, transfer_ms in ((0, 1.0), (1, 4.0), (2, 1.0)):
        info = dag_info(chain((1, 2), transfer_ms=1.0), deployment, placed({1: device, 2: device}, deployment))
        assert info.nodes[0].transfer_ms == transfer_ms


def test_folded_edges_add_up_tensors_not_edges():
    deployment = Deployment(2)
    info = dag_info(diamond(transfer_ms=0.5), deployment, placed({1: 0, 2: 1, 3: 1, 4: 1}, deployment))
    stages = next(level for level in info.levels if level.name == STAGES)
    assert [(edge.cut_ms, edge.num_cut_tensors) for edge in stages.edges] == [(0.5, 1)]


def test_transfers_between_cpus_are_free():
    deployment = Deployment(0, 2)
    info = dag_info(chain((1, 2)), deployment, Split((), (frozenset({1}), frozenset({2}))))
    assert info.levels[0].edges[0].cut_ms == 0.0


def test_bytes_are_unknown_when_one_tensor_is():
    graph = DnnGraph((Node(1, 1.0, 1.0), Node(2, 1.0, 1.0), Node(3, 1.0, 1.0)), (Edge(1, 3, 8.0), Edge(2, 3)))
    deployment = Deployment(2)
    info = dag_info(graph, deployment, placed({1: 0, 2: 0, 3: 1}, deployment))
    assert [edge.cut_bytes for edge in info.levels[0].edges] == [8.0, None]
    assert [edge.cut_bytes for edge in info.levels[1].edges] == [None]


def test_folded_box_shows_its_share_of_each_device():
    graph = chain((3, 1))
    graph = DnnGraph(tuple(replace(node, layer="block") for node in graph.nodes), graph.edges)
    deployment = Deployment(2)
    info = dag_info(graph, deployment, placed({1: 0, 2: 1}, deployment))
    layers = next(level for level in info.levels if level.name == LAYERS)
    assert layers.boxes[0].shares == ((0, 0.75), (1, 0.25))
    assert layers.boxes[0].time_ms == 4.0


def test_shares_stand_in_the_order_of_the_devices():
    graph = chain((1, 3))
    graph = DnnGraph(tuple(replace(node, layer="block") for node in graph.nodes), graph.edges)
    deployment = Deployment(2)
    info = dag_info(graph, deployment, placed({1: 0, 2: 1}, deployment))
    assert info.levels[1].boxes[0].shares == ((0, 0.25), (1, 0.75))


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("encoder.layer.3.attention.query", "attention.query"),
        ("gpu_0/res5_2_bn", "res5_2_bn"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("8x8 in/out", "8x8 in/out"),
    ],
)
def test_labels_keep_the_telling_end_of_a_path_and_whole_other_names(name, label):
    graph = DnnGraph((Node(1, 1.0, 1.0, name=name),), ())
    assert dag_info(graph, Deployment(1)).levels[0].boxes[0].label == label


def test_label_of_a_backward_box_leaves_out_what_its_hatching_says():
    graph = DnnGraph((Node(1, 1.0, 1.0, name="pool"), Node(2, 1.0, 1.0, is_backward=True, name="pool backward")), ())
    boxes = dag_info(graph, Deployment(1)).levels[0].boxes
    assert [(box.label, box.title) for box in boxes] == [("pool", "pool"), ("pool", "pool backward")]


def test_box_of_no_time_counts_its_devices_alike():
    graph = DnnGraph((Node(1, 0.0, 0.0, layer="a"), Node(2, 0.0, 0.0, layer="a")), ())
    deployment = Deployment(2)
    info = dag_info(graph, deployment, placed({1: 0, 2: 1}, deployment))
    assert info.levels[1].boxes[0].shares == ((0, 0.5), (1, 0.5))


@pytest.mark.parametrize(
    ("num_nodes", "has_layers", "is_placed", "opening"),
    [
        (40, True, True, OPERATORS),
        (100, True, True, LAYERS),
        (200, True, True, LAYERS),
        (200, False, True, BLOCKS),
        (200, True, False, LAYERS),
        (200, False, False, BLOCKS),
        (2000, False, True, BLOCKS),
    ],
)
def test_graphs_open_at_the_finest_level_that_can_be_read(num_nodes, has_layers, is_placed, opening):
    graph = chain((1,) * num_nodes)
    if has_layers:
        graph = DnnGraph(tuple(replace(node, layer=f"{node.id // 8}") for node in graph.nodes), graph.edges)
    split = Split((frozenset(graph.node_by_id),)) if is_placed else None
    assert dag_info(graph, Deployment(1), split).opening_level == opening


@pytest.mark.parametrize("seed", range(8))
def test_totals_agree_with_the_evaluator(seed):
    graph = random_training_graph(seed, irregular=True)
    deployment = Deployment(3, 1)
    split = random_split(graph, deployment, seed)
    costs = split_costs(graph, deployment, split)
    info = dag_info(graph, deployment, split, costs)
    assert info == dag_info(graph, deployment, split)
    assert info.max_load_ms == costs.max_load_ms
    assert [device.load_ms for device in info.devices] == [device.load_ms for device in costs.devices]
    assert {node.id for node in info.nodes if node.is_cut} == {tensor.source for tensor in costs.cut_tensors}
    for level in info.levels:
        assert sorted(v for box in level.boxes for v in box.nodes) == list(range(len(graph.nodes)))
        assert sum(box.time_ms for box in level.boxes) == pytest.approx(sum(d.compute_ms for d in costs.devices))
        assert all(sum(share for _, share in box.shares) == pytest.approx(1.0) for box in level.boxes)
        assert all(edge.source != edge.target for edge in level.edges)


def test_boxes_stay_where_they_are_from_solve_to_solve():
    graph = random_training_graph(5)
    deployment = Deployment(2)
    before = dag_info(graph, deployment)
    after = dag_info(graph, deployment, random_split(graph, deployment, 1))
    assert before.levels[0].layout == after.levels[0].layout


def test_split_may_name_fewer_accelerators_than_the_deployment_has():
    deployment = Deployment(3, 1)
    info = dag_info(chain((1, 2)), deployment, Split((frozenset({1}),), (frozenset({2}),)))
    assert [node.device for node in info.nodes] == [0, 3]


def test_times_are_those_of_the_class_a_node_is_on() -> None:
    graph = chain((2.0, 4.0))
    deployment = Deployment.of_classes((DeviceClass("fast", 1, 2.0), DeviceClass("slow", 1, 0.5)))
    info = dag_info(graph, deployment, Split((frozenset({1}), frozenset({2}))))
    assert [node.accelerator_ms for node in info.nodes] == [1.0, 8.0]
    assert sum(box.time_ms for box in info.levels[0].boxes) == 9.0
    assert [device.name for device in info.devices] == ["fast 1", "slow 1"]


def test_a_graph_of_too_many_nodes_is_drawn_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.layout.levels.MOST_BOXES", 100)
    for with_layers in (True, False):
        graph, deployment = layered(10, 6, 5)
        if not with_layers:
            graph = graph.with_nodes(tuple(replace(node, layer=None, name=f"op{node.id}") for node in graph.nodes))
        split = solve(graph, deployment, method="linearised").split
        assert split is not None
        for placed in (None, split):
            info = dag_info(graph, deployment, placed)
            assert len(info.nodes) == len(graph.nodes) > 100
            assert info.note
            assert f"{info.num_edges} edges" in info.summary
            for level in info.levels:
                assert len(level.boxes) <= 600
                assert sorted(i for box in level.boxes for i in box.nodes) == list(range(len(graph.nodes)))
            assert info.levels[0].name == ("layers" if with_layers else "parts")
            edges = {(info.nodes[u].id, info.nodes[v].id) for u, v in zip(*info.ends, strict=True)}
            assert edges == {(edge.source, edge.target) for edge in graph.edges}
            assert b"edge.source" in pack(info, None, "k")
    assert dag_info(*read_sample("teaching_chain")).note == ""
