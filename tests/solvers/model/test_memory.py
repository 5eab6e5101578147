"""Tests of what training keeps in memory: by hand, against every order of the devices, and where it is not known."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment, InFlight, Replication, TrainingMemory
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.memory import is_scheduled, training_bytes, weight_bytes, why_static
from solvers.model.split import (
    Family,
    Split,
    check_split,
    complete_split,
    device_memory_bytes,
    forward_edges,
    memory_order,
)
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from tests.support.graphs import chain, random_chain_split, small_graphs, training_memories, with_backward

ONE_F_ONE_B = TrainingMemory(InFlight.ONE_F_ONE_B, 8)


def three_stages() -> tuple[DnnGraph, Split]:
    """A training chain of three stages: per forward node 10 bytes of weights, 7 of activations, 100 in all.

    A backward node holds 5 bytes, of which 2 are activations.
    """
    graph = with_backward(chain((1, 1, 1)))
    nodes = tuple(
        replace(node, memory_bytes=5.0, parameter_bytes=0.0, activation_bytes=2.0)
        if node.is_backward
        else replace(node, memory_bytes=100.0, parameter_bytes=10.0, activation_bytes=7.0)
        for node in graph.nodes
    )
    graph = DnnGraph(nodes, graph.edges)
    return graph, complete_split(graph, Split(tuple(frozenset({v}) for v in (1, 2, 3))))


@pytest.mark.parametrize("schedule", InFlight)
@pytest.mark.parametrize("factor", [None, 8.0])
def test_weights_are_those_of_forward_nodes_whether_or_not_backward_nodes_tell_any(
    schedule: InFlight, factor: float | None
) -> None:
    graph, split = three_stages()
    untold = DnnGraph(
        tuple(replace(node, parameter_bytes=None) if node.is_backward else node for node in graph.nodes), graph.edges
    )
    memory = TrainingMemory(schedule, 8, factor)
    deployment = Deployment(3, training_memory=memory)
    assert why_static(untold, memory) is None
    assert device_memory_bytes(untold, deployment, split) == device_memory_bytes(graph, deployment, split)
    # A plan made for PipeDream's memory holds what PipeDream's run of it holds.
    if schedule is InFlight.PIPEDREAM:
        run = simulate(untold, deployment, split, ScheduleKind.PIPEDREAM, 8)
        assert run.peak_memory_bytes[:3] == device_memory_bytes(untold, deployment, split)[:3]
        assert run.weight_versions == (3, 2, 1)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (None, (105, 105, 105)),
        # 98 bytes whatever the schedule: 100 + 5 without the forward activations
        (TrainingMemory(InFlight.GPIPE, 4), (126, 126, 126)),
        (TrainingMemory(InFlight.ONE_F_ONE_B, 8), (119, 112, 105)),
        (TrainingMemory(InFlight.ONE_F_ONE_B, 2), (112, 112, 105)),
        (TrainingMemory(InFlight.PIPEDREAM, 1), (139, 122, 105)),
        (TrainingMemory(InFlight.PIPEDREAM_2BW, 1), (129, 122, 115)),
        # 8 times the weights instead of 93 + 3, and still the backward node's activations
        (TrainingMemory(InFlight.ONE_F_ONE_B, 8, 8.0), (103, 96, 89)),
        (TrainingMemory(InFlight.PIPEDREAM, 8, 1.0), (53, 36, 19)),
    ],
)
def test_known_answers(memory: TrainingMemory | None, expected: tuple[float, ...]) -> None:
    graph, split = three_stages()
    deployment = Deployment(3, 1, training_memory=memory)
    assert tuple(d.memory_bytes for d in split_costs(graph, deployment, split).devices) == (*expected, 0)
    # The limit is on each device's own memory.
    for limit, rules in ((max(expected), set()), (max(expected) - 1, {"memory"})):
        limited = replace(deployment, memory_bytes=float(limit))
        assert {v.rule for v in check_split(graph, limited, split, Family.CHAIN)} == rules


def test_cpus_are_stages_without_a_limit_and_come_as_early_as_they_may() -> None:
    graph = with_backward(chain((1, 1, 1, 1)))
    nodes = tuple(
        replace(node, memory_bytes=0.0 if node.is_backward else 1.0, activation_bytes=0.0 if node.is_backward else 1.0)
        for node in graph.nodes
    )
    # 1 -> 2 and 3 -> 4 apart: accelerators hold 1 and 4, a CPU each of 2 and 3.
    edges = tuple(e for e in graph.edges if {e.source, e.target} not in ({2, 3}, {n + 4 for n in (2, 3)}))
    graph = DnnGraph(nodes, edges)
    split = complete_split(graph, Split((frozenset({1}), frozenset({4})), (frozenset({2}), frozenset({3}))))
    assert memory_order(graph, split, Deployment(2, 2)) == (3, 0, 2, 1)
    deployment = Deployment(2, 2, training_memory=ONE_F_ONE_B)
    assert device_memory_bytes(graph, deployment, split) == (3.0, 1.0, 2.0, 4.0)
    found = check_split(graph, replace(deployment, memory_bytes=2 * 2.0**30), split)
    assert not found
    (violation,) = check_split(graph, replace(deployment, memory_bytes=2.0), split)
    assert "Accelerator 1 is short by" in violation.message
    assert "with the micro-batches in flight" in violation.message


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[DnnGraph, Deployment, Split]:
    """A training graph that knows its bytes, and a pipeline of up to five devices."""
    graph, _ = draw(small_graphs(max_nodes=5, backward=True, known_bytes=True))
    deployment = Deployment(draw(st.integers(1, 3)), draw(st.integers(0, 2)), training_memory=draw(training_memories()))
    return graph, deployment, random_chain_split(graph, deployment, draw(st.integers(0, 10_000)))


@given(pipelines())
def test_no_order_serves_the_accelerators_better_but_for_their_numbers(
    case: tuple[DnnGraph, Deployment, Split],
) -> None:
    graph, deployment, split = case
    memory = deployment.training_memory
    assert memory is not None
    used = [d for d, members in enumerate(split.devices) if members]
    device_of = split.device_of()
    k = deployment.num_accelerators
    for order in itertools.permutations(used):
        place = {d: i for i, d in enumerate(order)}
        if any(place[device_of[u]] > place[device_of[v]] for u, v in forward_edges(graph)):
            continue
        held = [
            training_bytes(graph, memory, split.devices[d]).on_stage(memory, len(order) - 1 - place[d]) for d in order
        ]
        # Number the accelerators as this order has them.
        by_place = [d for d in order if d < k]
        renumbered = Split(
            tuple(split.accelerators[d] for d in by_place) + (frozenset(),) * (k - len(by_place)), split.cpus
        )
        own = device_memory_bytes(graph, deployment, renumbered)
        for number, d in enumerate(by_place):
            assert own[number] <= held[place[d]]


@given(small_graphs(max_nodes=4, backward=True, known_bytes=True), training_memories(), st.integers(0, 5))
def test_more_stages_after_never_take_less(
    case: tuple[DnnGraph, Deployment], memory: TrainingMemory, after: int
) -> None:
    graph, _ = case
    whole = training_bytes(graph, memory, graph.node_by_id)
    assert whole.on_stage(memory, after) <= whole.on_stage(memory, after + 1)
    if memory.state_factor is None and memory.in_flight(after) == memory.weight_versions(after) == 1:
        assert whole.on_stage(memory, after) == sum(node.memory_bytes for node in graph.nodes)


def test_a_split_that_is_no_pipeline_has_no_schedule() -> None:
    graph, split = three_stages()
    circle = Split((split.accelerators[0] | split.accelerators[2], split.accelerators[1]))
    deployment = Deployment(4, training_memory=ONE_F_ONE_B, replication=Replication(2))
    assert {v.rule for v in check_split(graph, deployment, circle)} == {"schedule"}
    assert [d.memory_bytes for d in split_costs(graph, deployment, circle).devices] == [210, 105, 0, 0]
    replicated = replace(split, replicas=(2, 1, 1))
    (violation,) = check_split(graph, deployment, replicated)
    assert "not defined for replicas" in violation.message


def test_bytes_that_are_not_known_leave_the_sizes() -> None:
    graph, split = three_stages()

    def without(**changes: float | None) -> DnnGraph:
        return DnnGraph((replace(graph.nodes[0], **changes), *graph.nodes[1:]), graph.edges)  # type: ignore[arg-type]

    cases = [
        (chain((1, 1)), ONE_F_ONE_B, "no backward nodes: sizes count once."),
        (without(activation_bytes=None), ONE_F_ONE_B, "Node 1 has no activationBytes, so sizes count once"),
        (without(parameter_bytes=None), ONE_F_ONE_B, None),
        (without(parameter_bytes=None), TrainingMemory(InFlight.PIPEDREAM, 8), "Node 1 has no parameterBytes"),
        (without(parameter_bytes=None), TrainingMemory(InFlight.GPIPE, 8, 4.0), "Node 1 has no parameterBytes"),
        (without(activation_bytes=101.0), ONE_F_ONE_B, "Node 1 has more activationBytes than its size"),
        (without(activation_bytes=101.0), TrainingMemory(InFlight.GPIPE, 8, 4.0), None),
    ]
    for case, memory, reason in cases:
        found = why_static(case, memory)
        assert is_scheduled(case, Deployment(1, training_memory=memory)) == (reason is None)
        if reason is None:
            assert found is None
        else:
            assert found is not None
            assert reason in found
            if case.is_training:
                deployment = Deployment(3, training_memory=memory)
                sizes = [sum(case.node_by_id[v].memory_bytes for v in ids) for ids in split.devices]
                assert [d.memory_bytes for d in split_costs(case, deployment, split).devices] == sizes
    assert not is_scheduled(graph, Deployment(1))


def test_weights_count_once_and_are_sizes_where_nothing_else_is_known() -> None:
    graph, _ = three_stages()
    assert sum(weight_bytes(graph).values()) == 30
    assert not any(weight_bytes(chain((1, 1))).values())
    only_sizes = DnnGraph((Node(1, 1, 1, 3.0), Node(2, 1, 1, 4.0, is_backward=True)), (Edge(1, 2),))
    assert weight_bytes(only_sizes) == {1: 3.0, 2: 4.0}
