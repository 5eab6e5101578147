"""Stages: every node once, one stage per device where data flows in no circle, times that add up to the load."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import split_costs
from solvers.model.deployment import Communication, Deployment, Replication
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.schedule.records import Pass, PipelineStage, ScheduleError, ScheduleKind
from solvers.schedule.stages import pipeline_stages
from tests.support.graphs import (
    chain,
    convex_witness,
    diamond,
    one_node_per_device,
    random_chain_split,
    random_split,
    small_graphs,
    training_chain,
    with_backward,
)

seeds = st.integers(0, 999)
anything = small_graphs(memory_limit=False)


def kinds_for(graph: DnnGraph) -> tuple[ScheduleKind, ...]:
    """Return the schedules a graph allows."""
    if graph.is_training:
        return ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B
    return (ScheduleKind.INFERENCE,)


def device_graph(graph: DnnGraph, device_of: dict[int, int], is_backward: bool) -> "nx.DiGraph[int]":
    """Return the graph of devices with an edge where data of one pass moves."""
    quotient: nx.DiGraph[int] = nx.DiGraph()
    for node in graph.nodes:
        if node.is_backward is is_backward:
            quotient.add_node(device_of[node.id])
    for edge in graph.edges:
        ends = graph.node_by_id[edge.source], graph.node_by_id[edge.target]
        u, v = (device_of[end.id] for end in ends)
        if u != v and all(end.is_backward is is_backward for end in ends):
            quotient.add_edge(u, v)
    return quotient


@given(anything, seeds, st.booleans())
def test_stages_hold_every_node_once_on_its_device_and_in_its_pass(
    case: tuple[DnnGraph, Deployment], seed: int, free: bool
) -> None:
    graph, deployment = case
    split = (random_split if free else random_chain_split)(graph, deployment, seed)
    for kind in kinds_for(graph):
        stages = pipeline_stages(graph, deployment, split, kind)
        assert [stage.index for stage in stages] == list(range(len(stages)))
        assert sorted(v for stage in stages for v in stage.nodes) == sorted(graph.node_by_id)
        for stage in stages:
            assert set(stage.nodes) <= split.devices[stage.device]
            assert {graph.node_by_id[v].is_backward for v in stage.nodes} == {stage.direction is Pass.BACKWARD}


@given(anything, seeds, st.booleans())
def test_times_add_up_to_the_costs_of_each_device_and_pass(
    case: tuple[DnnGraph, Deployment], seed: int, free: bool
) -> None:
    graph, deployment = case
    split = (random_split if free else random_chain_split)(graph, deployment, seed)
    for kind in kinds_for(graph):
        stages = pipeline_stages(graph, deployment, split, kind)
        for device in split_costs(graph, deployment, split).devices:
            for direction, costs in ((Pass.FORWARD, device.forward), (Pass.BACKWARD, device.backward)):
                own = [s for s in stages if s.device == device.device and s.direction is direction]
                assert sum(s.receive_ms for s in own) == costs.receive_ms
                assert sum(s.compute_ms for s in own) == costs.compute_ms
                assert sum(s.send_ms for s in own) == costs.send_ms
            assert sum(s.total_ms for s in stages if s.device == device.device) == device.load_ms


@given(anything, seeds, st.booleans())
def test_a_pass_without_a_circle_of_devices_has_one_stage_per_device(
    case: tuple[DnnGraph, Deployment], seed: int, free: bool
) -> None:
    graph, deployment = case
    split = (random_split if free else random_chain_split)(graph, deployment, seed)
    for kind in kinds_for(graph):
        stages = pipeline_stages(graph, deployment, split, kind)
        for direction in (Pass.FORWARD, Pass.BACKWARD):
            quotient = device_graph(graph, split.device_of(), direction is Pass.BACKWARD)
            devices = [s.device for s in stages if s.direction is direction]
            if nx.is_directed_acyclic_graph(quotient):
                assert sorted(devices) == sorted(quotient)
            else:
                assert len(devices) > len(set(devices))


@given(anything, seeds)
def test_depths_let_every_stage_find_its_inputs_done(case: tuple[DnnGraph, Deployment], seed: int) -> None:
    """An input comes from an earlier round, or from an earlier stage of the same round."""
    graph, deployment = case
    for split in (random_split(graph, deployment, seed), random_chain_split(graph, deployment, seed)):
        for kind in kinds_for(graph):
            stages = pipeline_stages(graph, deployment, split, kind)
            stage_of = {v: stage for stage in stages for v in stage.nodes}
            for edge in graph.edges:
                u, v = stage_of[edge.source], stage_of[edge.target]
                if kind is not ScheduleKind.GPIPE or u.direction is v.direction:
                    assert (u.depth, u.index) <= (v.depth, v.index)
                    is_linear_backward_step = kind is ScheduleKind.ONE_F_ONE_B and v.direction is Pass.BACKWARD
                    if u.device != v.device and not is_linear_backward_step:
                        assert u.depth < v.depth


def test_a_chain_has_a_stage_per_device_and_a_backward_stage_shares_its_number() -> None:
    graph = training_chain((1, 2, 3), (2, 4, 6), transfer_ms=0.5)
    stages = pipeline_stages(graph, Deployment(3), one_node_per_device(graph), ScheduleKind.ONE_F_ONE_B)
    assert [(s.notation, s.device, s.depth, s.receive_ms, s.compute_ms, s.send_ms) for s in stages] == [
        ("0F", 0, 0, 0.0, 1.0, 0.5),
        ("1F", 1, 1, 0.5, 2.0, 0.5),
        ("2F", 2, 2, 0.5, 3.0, 0.0),
        ("2B", 2, 2, 0.0, 6.0, 0.5),
        ("1B", 1, 2, 0.5, 4.0, 0.5),
        ("0B", 0, 2, 0.5, 2.0, 0.0),
    ]
    assert [s.receives_from for s in stages] == [(), (0,), (1,), (), (3,), (4,)]


def test_a_circle_of_devices_is_cut_where_it_must_be() -> None:
    """Accelerator 1 holds nodes 1 and 4 of 1 -> 2 and 3 -> 4: node 4 has to wait for accelerator 2."""
    split = Split((frozenset({1, 4}), frozenset({2, 3})))
    stages = pipeline_stages(convex_witness(), Deployment(2), split, ScheduleKind.INFERENCE)
    assert [(s.notation, s.device, s.nodes, s.depth) for s in stages] == [
        ("0F", 0, (1,), 0),
        ("1F", 1, (2, 3), 1),
        ("2F", 0, (4,), 2),
    ]


def test_the_largest_runnable_share_goes_first_when_no_device_can_finish() -> None:
    """Of 1 -> 2 and 3 -> 4 crosswise, accelerator 2 can run 9 of 10 ms at once, accelerator 1 only 1 of 10."""
    graph = DnnGraph(
        (Node(1, 1.0, 1.0), Node(2, 1.0, 1.0), Node(3, 9.0, 9.0), Node(4, 9.0, 9.0)), (Edge(1, 2), Edge(3, 4))
    )
    split = Split((frozenset({1, 4}), frozenset({2, 3})))
    stages = pipeline_stages(graph, Deployment(2), split, ScheduleKind.INFERENCE)
    assert [(s.device, s.nodes) for s in stages] == [(1, (3,)), (0, (1, 4)), (1, (2,))]


def test_only_the_pass_with_a_circle_is_cut() -> None:
    """The forward pass goes from accelerator 1 to 2, the backward pass there and back."""
    forward = [Node(1, 1.0, 1.0), Node(2, 1.0, 1.0)]
    backward = [Node(v, 1.0, 1.0, is_backward=True) for v in (3, 4, 5)]
    graph = DnnGraph((*forward, *backward), (Edge(1, 2), Edge(2, 3), Edge(3, 4), Edge(4, 5)))
    split = Split((frozenset({1, 3, 5}), frozenset({2, 4})))
    stages = pipeline_stages(graph, Deployment(2), split, ScheduleKind.ONE_F_ONE_B)
    assert [(s.notation, s.nodes, s.depth) for s in stages] == [
        ("0F", (1,), 0),
        ("1F", (2,), 1),
        ("0B", (3,), 2),
        ("1B", (4,), 3),
        ("2B", (5,), 4),
    ]


def test_a_tensor_is_received_once_by_the_first_stage_that_needs_it() -> None:
    """Accelerator 2 runs 2 and, after accelerator 1 ran 3, 4; both read node 1, which is sent once."""
    graph = DnnGraph(
        (Node(1, 1.0, 1.0, transfer_ms=8.0), *(Node(v, 1.0, 1.0, transfer_ms=1.0) for v in (2, 3, 4))),
        (Edge(1, 2), Edge(2, 3), Edge(3, 4), Edge(1, 4)),
    )
    split = Split((frozenset({1, 3}), frozenset({2, 4})))
    stages = pipeline_stages(graph, Deployment(2), split, ScheduleKind.INFERENCE)
    assert [(s.nodes, s.receive_ms, s.send_ms, s.receives_from) for s in stages] == [
        ((1,), 0.0, 8.0, ()),
        ((2,), 8.0, 1.0, (0,)),
        ((3,), 1.0, 1.0, (1,)),
        ((4,), 1.0, 0.0, (2,)),
    ]


def test_cpus_transfer_for_free_and_use_their_own_times() -> None:
    split = Split((frozenset({1, 2}),), (frozenset({3, 4}),))
    stages = pipeline_stages(diamond(), Deployment(1, 1), split, ScheduleKind.INFERENCE)
    assert [(s.device, s.receive_ms, s.compute_ms, s.send_ms) for s in stages] == [
        (0, 0.0, 3.0, 2.0),
        (1, 0.0, 28.0, 0.0),
    ]


def test_a_cpu_has_its_number_in_the_deployment_even_when_the_split_lists_fewer_accelerators() -> None:
    split = Split((), (frozenset({1, 2, 3, 4}),))
    stages: tuple[PipelineStage, ...] = pipeline_stages(diamond(), Deployment(3, 1), split, ScheduleKind.INFERENCE)
    assert [s.device for s in stages] == [3]


@pytest.mark.parametrize("kind", [ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B])
def test_an_inference_graph_has_no_training_schedule(kind: ScheduleKind) -> None:
    with pytest.raises(ScheduleError, match=r"no backward nodes .* choose inference"):
        pipeline_stages(chain((1, 2)), Deployment(1), Split((frozenset({1, 2}),)), kind)


def test_a_training_graph_has_no_inference_schedule() -> None:
    graph = with_backward(chain((1, 2)))
    with pytest.raises(ScheduleError, match="choose 1f1b, gpipe"):
        pipeline_stages(graph, Deployment(2), one_node_per_device(graph), ScheduleKind.INFERENCE)


def test_a_forward_node_cannot_read_a_backward_one() -> None:
    graph = DnnGraph((Node(1, 1.0, 1.0, is_backward=True), Node(2, 1.0, 1.0)), (Edge(1, 2),))
    with pytest.raises(ScheduleError, match="edge 1 -> 2: the forward node 2 reads the backward node 1"):
        pipeline_stages(graph, Deployment(1), Split((frozenset({1, 2}),)), ScheduleKind.GPIPE)


def test_the_split_must_fit_the_graph_and_the_devices() -> None:
    graph = chain((1, 2))
    with pytest.raises(ScheduleError, match="accelerators up to number 2, but there are 1"):
        pipeline_stages(graph, Deployment(1), one_node_per_device(graph), ScheduleKind.INFERENCE)
    with pytest.raises(PlacementError, match="leaves out node 2"):
        pipeline_stages(graph, Deployment(1), Split((frozenset({1}),)), ScheduleKind.INFERENCE)
    training = with_backward(graph)
    with pytest.raises(ScheduleError, match="complete it first"):
        pipeline_stages(training, Deployment(1), Split((frozenset({1, 2}),)), ScheduleKind.GPIPE)


def test_overlapping_transfers_and_replicas_have_no_schedule_here() -> None:
    graph, split = chain((1, 2)), Split((frozenset({1}), frozenset({2})))
    for communication in (Communication.OVERLAPPED, Communication.FULL_DUPLEX):
        with pytest.raises(ScheduleError, match="set communication to sum"):
            pipeline_stages(graph, Deployment(2, communication=communication), split, ScheduleKind.INFERENCE)
    replicated = Split(split.accelerators, (), (1, 2))
    with pytest.raises(ScheduleError, match="choose a split without replicas"):
        pipeline_stages(graph, Deployment(3, replication=Replication(2)), replicated, ScheduleKind.INFERENCE)
