"""Tests of nodes that produce several tensors: the evaluator, every solver, and what equals what."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import Objective, objective_value, single_sample_latency, split_costs
from solvers.model.deployment import Communication, Deployment
from solvers.model.errors import GraphError
from solvers.model.graph import DnnGraph, Edge, Node, Tensor
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from solvers.solve import solve
from tests.support.agreement import Instance, assert_least_latency, assert_optimal, solve_by_ip_alone
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    divided,
    random_chain_split,
    random_classes,
    random_dag,
    random_split,
    random_tensors,
    random_training_graph,
    scaled,
    small_graphs,
    training_memories,
    with_backward,
    with_carriers,
)
from tests.support.reference import best_latency, best_value, max_load_by_definition

SPLIT = divided()


def carried(split: Split, graph: DnnGraph) -> Split:
    """The split of `with_carriers(graph)` that has each carrier where its tensor is produced."""
    free_id = 1 + max(graph.node_by_id)
    carriers: dict[int, list[int]] = {}
    for node in graph.nodes:
        carriers[node.id] = list(range(free_id, free_id + len(node.tensor_ms)))
        free_id += len(node.tensor_ms)

    def grown(members: frozenset[int]) -> frozenset[int]:
        return members.union(*(carriers[v] for v in members))

    return Split(
        tuple(map(grown, split.accelerators)),
        tuple(map(grown, split.cpus)),
        split.replicas,
        tuple(tuple(map(grown, parts)) for parts in split.subgraphs),
    )


def test_each_tensor_is_paid_where_it_is_cut() -> None:
    together = Split((frozenset({1, 3}), frozenset({2})))
    costs = split_costs(SPLIT, Deployment(2), together)
    assert [device.load_ms for device in costs.devices] == [4 + 2 + 1, 2 + 1]
    (cut,) = costs.cut_tensors
    assert (cut.key, cut.size_bytes, cut.send_ms, cut.receive_ms) == ((1, "left"), 100.0, 1.0, (1.0,))
    apart = Split((frozenset({1}), frozenset({2}), frozenset({3})))
    assert [d.load_ms for d in split_costs(SPLIT, Deployment(3), apart).devices] == [4 + 1 + 3, 2 + 1, 2 + 3]
    assert single_sample_latency(SPLIT, Deployment(3), apart) == 8 + 5
    assert [tensor.key for tensor in split_costs(SPLIT, Deployment(3), apart).cut_tensors] == [
        (1, "right"),
        (1, "left"),
    ]


def test_the_tensors_of_a_graph_are_read_off_its_edges() -> None:
    graph = DnnGraph(
        (Node(1, 1.0, 1.0, transfer_ms=5.0, tensor_ms=(("b", 2.0), ("a", 1.0))), Node(2, 1.0, 1.0), Node(3, 1.0, 1.0)),
        (Edge(1, 2, 8.0, "a"), Edge(1, 3, 9.0), Edge(1, 3, 8.0, "a"), Edge(1, 2, None, "b")),
    )
    assert graph.tensors == (
        Tensor(1, "a", 1.0, 8.0, (2, 3)),
        Tensor(1, "", 5.0, 9.0, (3,)),
        Tensor(1, "b", 2.0, None, (2,)),
    )
    assert (graph.readers[1], graph.inputs[3], graph.output_bytes[1]) == ((2, 3), (1,), None)
    assert graph.node_by_id[1].output_ms == 8.0
    assert graph.bandwidth_bytes_per_ms is None


def test_a_bandwidth_holds_for_every_tensor() -> None:
    assert SPLIT.bandwidth_bytes_per_ms == 100.0
    assert SPLIT.with_bandwidth(50.0).node_by_id[1].tensor_ms == (("left", 2.0), ("right", 6.0))
    assert SPLIT.with_bandwidth_factor(4.0).node_by_id[1].tensor_ms == (("left", 0.25), ("right", 0.75))
    assert SPLIT.output_bytes == {1: 400.0, 2: None, 3: None}


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ((Edge(1, 2, None, "up"),), "edge 1 -> 2 of tensor 'up': node 1 has no tensor of this name"),
        ((Edge(1, 2, None, "left"),) * 2, "edge 1 -> 2 of tensor 'left' is listed twice; keep one."),
        ((Edge(1, 9, None, "left"),), "edge 1 -> 9 of tensor 'left': there is no node 9"),
    ],
)
def test_edges_that_name_no_tensor_of_their_node_are_refused(edges: tuple[Edge, ...], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        DnnGraph(SPLIT.nodes, edges)


def test_times_of_tensors_are_checked_like_others() -> None:
    with pytest.raises(GraphError, match=r"node 1: the transfer time of tensor 'a' is -1"):
        Node(1, 1.0, 1.0, tensor_ms=(("a", -1.0),))
    with pytest.raises(GraphError, match="the transfer time of tensor 'a' is inf"):
        Node(1, 1.0, 1.0, tensor_ms=(("a", math.inf),))
    with pytest.raises(GraphError, match="node 1 has two transfer times of one tensor; keep one"):
        Node(1, 1.0, 1.0, tensor_ms=(("a", 1.0), ("a", 2.0)))
    with pytest.raises(GraphError, match="empty name"):
        Node(1, 1.0, 1.0, tensor_ms=(("", 1.0),))


def test_names_and_times_of_tensors_are_in_the_digest() -> None:
    renamed = DnnGraph(
        (replace(SPLIT.nodes[0], tensor_ms=(("left", 1.0), ("up", 3.0))), *SPLIT.nodes[1:]),
        (SPLIT.edges[0], Edge(1, 3, 300.0, "up")),
    )
    dearer = SPLIT.with_bandwidth_factor(0.5)
    assert len({SPLIT.digest, renamed.digest, dearer.digest}) == 3
    # As it was before nodes could have several tensors.
    assert chain((1, 2, 3)).digest == "8a7c34c265e79550"


@given(st.integers(0, 10_000), st.sampled_from(Family))
@examples(40)
def test_a_tensor_that_all_edges_name_is_the_unnamed_one(seed: int, family: Family) -> None:
    plain = random_training_graph(seed, 3, 0.4, irregular=True)
    named = DnnGraph(
        tuple(replace(node, transfer_ms=0.0, tensor_ms=(("y", node.transfer_ms),)) for node in plain.nodes),
        tuple(replace(edge, tensor="y") for edge in plain.edges),
    )
    deployment = random_classes(seed, 1)
    split = random_split(plain, deployment, seed)
    assert split_costs(named, deployment, split).devices == split_costs(plain, deployment, split).devices
    answers = [solve(graph, deployment, family=family).value_ms for graph in (plain, named)]
    assert answers[0] == answers[1]


@given(st.integers(0, 10_000), st.sampled_from(Communication))
@examples(60)
def test_tensors_of_equal_readers_are_one_of_both_costs(seed: int, communication: Communication) -> None:
    graph = random_dag(seed, 6)
    half = DnnGraph(
        tuple(
            replace(node, transfer_ms=node.transfer_ms / 2, tensor_ms=(("b", node.transfer_ms / 2),))
            for node in graph.nodes
        ),
        tuple(replace(edge, tensor=name) for edge in graph.edges for name in ("", "b")),
    )
    deployment = Deployment(3, 1, communication=communication)
    split = random_split(graph, deployment, seed)
    assert split_costs(half, deployment, split).devices == split_costs(graph, deployment, split).devices
    assert solve(half, deployment).value_ms == solve(graph, deployment).value_ms


@given(small_graphs(several_tensors=True), st.integers(0, 10_000))
def test_loads_are_what_the_definition_says(instance: Instance, seed: int) -> None:
    graph, deployment = instance
    split = random_split(graph, deployment, seed)
    value = objective_value(graph, deployment, split, Objective.THROUGHPUT)
    assert value == max_load_by_definition(graph, deployment, split.device_of())


@given(small_graphs(several_tensors=True, known_bytes=True), st.integers(0, 10_000), st.sampled_from(Communication))
def test_costs_are_those_of_nodes_that_carry_each_tensor(
    instance: Instance, seed: int, communication: Communication
) -> None:
    graph, deployment = instance
    deployment = replace(deployment, communication=communication)
    split = random_split(graph, deployment, seed)
    carriers, same = with_carriers(graph), carried(split, graph)
    assert not carriers.has_names
    assert split_costs(carriers, deployment, same).devices == split_costs(graph, deployment, split).devices
    for objective in Objective:
        assert objective_value(carriers, deployment, same, objective) == objective_value(
            graph, deployment, split, objective
        )
    rules = [
        {violation.rule for violation in check_split(*case, family)}
        for family in Family
        for case in ((graph, deployment, split), (carriers, deployment, same))
    ]
    assert rules[::2] == rules[1::2]


@given(small_graphs(max_nodes=5, several_tensors=True), st.sampled_from(Family), st.sampled_from(("auto", "ip")))
@examples(60)
def test_max_load_is_the_optimum_by_brute_force(instance: Instance, family: Family, method: str) -> None:
    assert_optimal(
        solve(*instance, family=family, method=method), instance, best_value(*instance, family, Objective.THROUGHPUT)
    )


@given(small_graphs(max_nodes=4, several_tensors=True), st.sampled_from(Family))
@examples(40)
def test_the_integer_program_alone_finds_the_optimum(instance: Instance, family: Family) -> None:
    best = best_value(*instance, family, Objective.THROUGHPUT)
    assert_optimal(solve_by_ip_alone(instance, family, Objective.THROUGHPUT), instance, best)


@given(small_graphs(max_nodes=3, several_tensors=True, backward=True, idle_nodes=True), st.sampled_from(Communication))
@examples(40)
def test_gpipe_is_the_optimum_by_brute_force(instance: Instance, communication: Communication) -> None:
    graph, deployment = instance
    if not graph.is_training:
        return
    case = graph, replace(deployment, communication=communication)
    for family in Family:
        best = best_value(*case, family, Objective.GPIPE)
        assert_optimal(solve(*case, objective=Objective.GPIPE, family=family), case, best)


@given(
    small_graphs(max_nodes=4, several_tensors=True, idle_nodes=True),
    st.sampled_from((Communication.OVERLAPPED, Communication.FULL_DUPLEX)),
    st.sampled_from(Family),
)
@examples(40)
def test_other_communication_is_the_optimum_by_brute_force(
    instance: Instance, communication: Communication, family: Family
) -> None:
    case = instance[0], replace(instance[1], communication=communication)
    assert_optimal(solve(*case, family=family), case, best_value(*case, family, Objective.THROUGHPUT))


@given(small_graphs(max_nodes=3, several_tensors=True, backward=True, known_bytes=True), training_memories())
@examples(30)
def test_memory_of_a_schedule_is_the_optimum_by_brute_force(instance: Instance, memory: object) -> None:
    case = instance[0], replace(instance[1], training_memory=memory)  # type: ignore[arg-type]
    if instance[0].is_training:
        assert_optimal(solve(*case), case, best_value(*case, Family.CHAIN, Objective.THROUGHPUT))


@given(small_graphs(max_nodes=4, several_tensors=True, backward=False), st.sampled_from((1, 2)))
@examples(15)
def test_latency_is_the_optimum_by_brute_force(instance: Instance, max_subgraphs: int) -> None:
    graph, deployment = instance
    if max_subgraphs > 1 and deployment.num_accelerators > 2:
        return
    case = graph, replace(deployment, max_subgraphs=max_subgraphs)
    assert_least_latency(solve(*case, objective=Objective.LATENCY), case, best_latency(*case))


@given(st.integers(0, 10_000))
@examples(20)
def test_device_types_are_the_optimum_by_brute_force(seed: int) -> None:
    graph = random_tensors(random_dag(seed, 5), seed)
    deployment = random_classes(seed, 1)
    for family in Family:
        best = best_value(graph, deployment, family, Objective.THROUGHPUT)
        assert_optimal(solve(graph, deployment, family=family), (graph, deployment), best)


@pytest.mark.parametrize("method", ["local_search", "pipedream", "linearised", "single"])
def test_baselines_make_plans_for_such_graphs(method: str) -> None:
    for seed in range(4):
        graph = random_tensors(random_dag(seed, 8), seed)
        result = solve(graph, Deployment(3, 1), method=method)
        assert result.status in (SolveStatus.FEASIBLE, SolveStatus.OPTIMAL)
        assert result.split is not None
        assert result.value_ms == max_load_by_definition(graph, Deployment(3, 1), result.split.device_of())


@given(st.integers(0, 10_000), st.sampled_from((ScheduleKind.INFERENCE, ScheduleKind.ONE_F_ONE_B)))
@examples(40)
def test_the_period_of_a_schedule_is_the_largest_load(seed: int, kind: ScheduleKind) -> None:
    graph = random_tensors(random_dag(seed, 6), seed)
    if kind is ScheduleKind.ONE_F_ONE_B:
        graph = random_tensors(with_backward(random_dag(seed, 5)), seed)
    deployment = Deployment(3)
    split = random_chain_split(graph, deployment, seed)
    schedule = simulate(graph, deployment, split, kind, 24)
    load = split_costs(graph, deployment, split).max_load_ms
    for device in split_costs(graph, deployment, split).devices:
        busy = sum(slot.end_ms - slot.start_ms for slot in schedule.slots if slot.device == device.device)
        assert busy == 24 * device.load_ms
    assert schedule.makespan_ms >= 24 * load
    if kind is ScheduleKind.INFERENCE:
        assert schedule.period_ms == load


@given(st.integers(0, 10_000))
@examples(20)
def test_doubling_all_times_doubles_the_optimum(seed: int) -> None:
    graph = random_tensors(random_dag(seed, 7), seed)
    value = solve(graph, Deployment(3)).value_ms
    assert value is not None
    assert solve(scaled(graph, 2), Deployment(3)).value_ms == 2 * value
