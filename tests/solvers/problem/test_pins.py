"""Pins: the best split that honours them is what brute force finds, whatever engine looks for it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, Replication
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.pins import PinError, Pins, united
from solvers.problem.solving import MethodError
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import chain, dag, diamond, random_split
from tests.support.pinned_plans import check_agreement, honours, pinned


@given(pinned())
@examples(120, deadline=None)
def test_the_dp_finds_the_best_chain_that_honours_the_pins(drawn: tuple[DnnGraph, Deployment, Pins]) -> None:
    check_agreement(*drawn, Family.CHAIN, "dp", Objective.THROUGHPUT)


@given(pinned(), st.sampled_from([Communication.OVERLAPPED, Communication.FULL_DUPLEX]))
@examples(40, deadline=None)
def test_so_does_the_dp_of_the_variants(drawn: tuple[DnnGraph, Deployment, Pins], communication: Communication) -> None:
    graph, deployment, pins = drawn
    deployment = replace(deployment, communication=communication)
    check_agreement(graph, deployment, pins, Family.CHAIN, "dp", Objective.THROUGHPUT)


@given(pinned(backward=True))
@examples(40, deadline=None)
def test_so_does_the_dp_for_gpipe(drawn: tuple[DnnGraph, Deployment, Pins]) -> None:
    check_agreement(*drawn, Family.CHAIN, "dp", Objective.GPIPE)


@pytest.mark.parametrize("family", list(Family))
@given(pinned())
@examples(30, deadline=None)
def test_integer_programs_find_the_best_split_that_honours_the_pins(
    family: Family, drawn: tuple[DnnGraph, Deployment, Pins]
) -> None:
    check_agreement(*drawn, family, "ip", Objective.THROUGHPUT)


@given(pinned(backward=True))
@examples(20, deadline=None)
def test_so_does_the_integer_program_for_gpipe(drawn: tuple[DnnGraph, Deployment, Pins]) -> None:
    check_agreement(*drawn, Family.FREE, "ip", Objective.GPIPE)


@given(pinned(), st.integers(0, 5))
@examples(30, deadline=None)
def test_a_start_that_breaks_pins_is_not_taken_for_an_answer(
    drawn: tuple[DnnGraph, Deployment, Pins], seed: int
) -> None:
    graph, deployment, pins = drawn
    start = random_split(graph, deployment, seed)
    result = solve(graph, deployment, family=Family.FREE, pins=pins, start=start)
    assert result.split is None or honours(pins, result.split)


def test_pinned_nodes_without_any_cost_are_placed_too() -> None:
    first = Node(2, 0.0, 0.0, transfer_ms=0.5)
    others = (Node(1, 0.0, 0.0, runs_on_accelerator=False), Node(3, 0.0, 0.0, runs_on_accelerator=False))
    graph = DnnGraph((first, *others), (Edge(2, 1), Edge(2, 3), Edge(1, 3)))
    pins = Pins(((1, 1), (2, 0)))
    result = solve(graph, Deployment(1, 1), family=Family.FREE, pins=pins)
    assert result.split == Split((frozenset({2}),), (frozenset({1, 3}),))
    assert result.value_ms == 0.5


def test_without_pins_nothing_changes() -> None:
    graph = diamond()
    assert solve(graph, Deployment(2), pins=Pins()).value_ms == solve(graph, Deployment(2)).value_ms
    assert not Pins()
    assert Pins(((1, 0),))


def test_pins_have_one_form() -> None:
    assert Pins(((2, 1), (1, 0), (2, 1)), ((3, 4), (4, 5), (7,))) == Pins(((1, 0), (2, 1)), ((5, 4, 3),))
    assert hash(Pins(((1, 0),))) == hash(Pins(((1, 0), (1, 0))))
    with pytest.raises(PinError, match="Node 1 is pinned to two devices"):
        Pins(((1, 0), (1, 1)))


def test_groups_with_a_common_member_are_one() -> None:
    assert [sorted(ids) for ids in united([(1, 2), (3, 4), (2, 3), (9,)])] == [[1, 2, 3, 4], [9]]


def test_pins_that_do_not_belong_to_the_graph_or_its_devices_are_refused() -> None:
    with pytest.raises(PinError, match="Node 77 is pinned, and the graph does not have it"):
        solve(diamond(), Deployment(2), pins=Pins(((77, 0),)))
    with pytest.raises(PinError, match="Node 1 is pinned to device 3 of 2"):
        solve(diamond(), Deployment(2), pins=Pins(((1, 2),)))


@pytest.mark.parametrize("family", list(Family))
def test_nodes_of_a_class_pinned_apart_are_named(family: Family) -> None:
    graph = chain((1, 1, 1))
    graph = DnnGraph(tuple(replace(node, colocation_class=7 if node.id != 2 else None) for node in graph.nodes), ())
    result = solve(graph, Deployment(2), family=family, pins=Pins(((1, 0), (3, 1))))
    assert result.status is SolveStatus.INFEASIBLE
    assert result.message == (
        "Node 1 is pinned to Accelerator 1 and node 3 to Accelerator 2, but they must share a device; "
        "unpin one of them."
    )


def test_pins_that_no_chain_honours_leave_free_splits() -> None:
    """Nodes 1 and 3 of a path on one device and 2 on another: data goes there and comes back."""
    graph = chain((1, 1, 1), 0.5)
    pins = Pins(((1, 0), (2, 1), (3, 0)))
    result = solve(graph, Deployment(2), pins=pins)
    assert result.status is SolveStatus.INFEASIBLE
    assert "no pipeline has them apart" in result.message
    free = solve(graph, Deployment(2), family=Family.FREE, pins=pins)
    assert free.status is SolveStatus.OPTIMAL
    # Accelerator 1 computes 2 ms, sends the output of 1 and receives that of 2.
    assert free.value_ms == pytest.approx(3.0)


def test_pinned_memory_says_by_how_much_it_is_too_much() -> None:
    graph = dag((1, 1, 1), (), memory_bytes=2.0**30)
    result = solve(graph, Deployment(2, 1, memory_bytes=1.5 * 2**30), pins=Pins(((1, 1), (3, 1))))
    assert result.status is SolveStatus.INFEASIBLE
    assert result.message == (
        "Accelerator 2 cannot hold what is pinned to it: Node 1 and node 3 need 2 GiB, its capacity is 1.5 GiB, "
        "it is short by 0.5 GiB; unpin some."
    )


def test_a_node_for_cpus_pinned_to_an_accelerator_is_named() -> None:
    graph = DnnGraph((Node(1, 1.0, 1.0, runs_on_accelerator=False, name="embedding"), Node(2, 1.0, 1.0)), (Edge(1, 2),))
    result = solve(graph, Deployment(1, 1), pins=Pins(((1, 0),)))
    assert result.message == "Node 1 (embedding) runs on CPUs only and is pinned to Accelerator 1; unpin it."
    tied = solve(graph, Deployment(1, 1), pins=Pins(((2, 0),), ((1, 2),)))
    assert tied.message == (
        "Node 1 (embedding) runs on CPUs only and is pinned to Accelerator 1 through node 2, with which it must be; "
        "unpin it."
    )


def test_where_pins_are_not_supported_a_sentence_says_so() -> None:
    pins = Pins(((1, 0),))
    with pytest.raises(MethodError, match="not for the latency of one micro-batch"):
        solve(diamond(), Deployment(2), objective=Objective.LATENCY, pins=pins)
    with pytest.raises(MethodError, match="honours no pins"):
        solve(diamond(), Deployment(2), method="local_search", pins=pins)
    with pytest.raises(MethodError, match="one replica"):
        solve(diamond(), Deployment(2, replication=Replication(2)), pins=pins)
