"""The latency of one micro-batch on several classes of accelerators: brute force agrees, the laws of classes hold."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.latency.annealing import latency_search
from solvers.latency.bound import latency_bound
from solvers.latency.greedy import greedy_latency_splits
from solvers.model.costs import Objective, single_sample_latency
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, check_split
from solvers.problem.contraction import contract
from solvers.solve import solve
from tests.support.agreement import assert_least_latency, solve_by_cp_sat_alone
from tests.support.examples import examples
from tests.support.graphs import chain, class_deployments, random_classes, random_dag, small_graphs, with_class_times
from tests.support.reference import best_latency

Drawn = tuple[DnnGraph, Deployment]


@st.composite
def mixed(draw: st.DrawFn, max_nodes: int = 4) -> Drawn:
    """A small inference graph, some nodes with times on class B, and accelerators of two classes."""
    graph, _ = draw(small_graphs(max_nodes=max_nodes, backward=False))
    if draw(st.booleans()):
        graph = with_class_times(graph, draw(st.integers(0, 1000)))
    return graph, draw(class_deployments())


def optimum(graph: DnnGraph, deployment: Deployment) -> SolveResult:
    return solve(graph, deployment, objective=Objective.LATENCY)


@given(mixed())
@examples(25, deadline=None)
def test_brute_force_agrees(instance: Drawn) -> None:
    assert_least_latency(optimum(*instance), instance, best_latency(*instance))


@given(mixed(max_nodes=3))
@examples(15, deadline=None)
def test_brute_force_agrees_on_two_subgraphs_per_accelerator(instance: Drawn) -> None:
    instance = instance[0], replace(instance[1], max_subgraphs=2)
    assert_least_latency(optimum(*instance), instance, best_latency(*instance))


@pytest.mark.parametrize(
    ("seed", "max_subgraphs"),
    [pytest.param(1, 1, marks=pytest.mark.slow), (2, 1), (3, 2), pytest.param(4, 2, marks=pytest.mark.slow)],
)
def test_the_program_alone_is_exact(seed: int, max_subgraphs: int) -> None:
    instance = with_class_times(random_dag(seed, 4), seed), replace(random_classes(seed), max_subgraphs=max_subgraphs)
    assert_least_latency(solve_by_cp_sat_alone(instance), instance, best_latency(*instance))


@given(st.integers(0, 10_000), st.integers(1, 2))
@examples(5, deadline=None)
def test_annealing_and_greedy_give_plans_that_are_what_they_say(seed: int, max_subgraphs: int) -> None:
    graph, deployment = random_dag(seed, 6), replace(random_classes(seed, 1), max_subgraphs=max_subgraphs)
    contraction = contract(graph, Family.FREE, deployment, join_idle=False)
    starts = list(greedy_latency_splits(graph, deployment))
    values = [single_sample_latency(graph, deployment, split) for split in starts]
    assert all(not check_split(graph, deployment, split) for split in starts)
    best = min(value for value in values if value is not None)
    for split in latency_search(graph, deployment, contraction, starts):
        if split is not None:
            assert not check_split(graph, deployment, split)
            value = single_sample_latency(graph, deployment, split)
            assert value is not None
            best = min(best, value)
    assert best >= latency_bound(graph, deployment)


@given(mixed(), st.integers(1, 2))
@examples(40, deadline=None)
def test_the_bound_is_below_the_optimum(instance: Drawn, max_subgraphs: int) -> None:
    graph, deployment = instance[0], replace(instance[1], max_subgraphs=max_subgraphs)
    best = best_latency(graph, deployment)
    if best is not None:
        assert latency_bound(graph, deployment) <= best


def test_what_takes_no_time_is_not_bounded_by_rounding() -> None:
    nodes = (Node(1, 0.0, 0.0, runs_on_accelerator=False), Node(2, 0.0, 0.0, 0.0, 0.5, False), Node(3, 0.0, 0.0, 1.0))
    graph = DnnGraph(nodes, (Edge(1, 2), Edge(1, 3), Edge(2, 3)))
    classes = (DeviceClass("A", 1, 0.5, None, 0.5), DeviceClass("B", 2, 0.5, 3.0, 0.5))
    assert latency_bound(graph, Deployment.of_classes(classes, 1, max_subgraphs=2)) <= 0.0


def test_the_bound_knows_what_each_class_holds_and_how_many_there_are() -> None:
    """Two of four nodes fit on the one fast accelerator; were all as fast, and as large, it would take 8 ms."""
    graph = chain((8.0, 8.0, 8.0, 8.0), transfer_ms=0.0)
    slow, fast = DeviceClass("slow", 3, 1.0, 4.0), DeviceClass("fast", 1, 4.0, 2.0)
    assert latency_bound(graph, Deployment.of_classes((slow, fast))) == pytest.approx(20.0)
    assert latency_bound(graph, Deployment.of_classes((slow, replace(fast, count=2)))) == pytest.approx(8.0)


def test_the_bound_knows_the_link_of_each_class() -> None:
    """One node for each of two accelerators: both pay for the tensor between them, 1 ms and 4 ms."""
    graph = chain((2.0, 2.0), transfer_ms=1.0)
    classes = DeviceClass("near", 1, 1.0, 1.0), DeviceClass("far", 1, 1.0, 1.0, link_speed=0.25)
    assert latency_bound(graph, Deployment.of_classes(classes)) == pytest.approx(2 + 1 + 2 + 4)


def test_greedy_starts_with_each_class() -> None:
    """The slow class alone has room for the last two nodes, the fast one is worth filling first."""
    graph = chain((8.0, 8.0, 8.0, 8.0), transfer_ms=0.0)
    deployment = Deployment.of_classes((DeviceClass("slow", 1, 1.0, 4.0), DeviceClass("fast", 1, 4.0, 2.0)), 0)
    latencies = {single_sample_latency(graph, deployment, s) for s in greedy_latency_splits(graph, deployment)}
    assert 20.0 in latencies  # two nodes at 2 ms, two at 8 ms
    assert 32.0 in latencies  # all on the slow one


@given(st.integers(0, 10_000))
@examples(4, deadline=None)
def test_a_class_in_two_equal_ones_and_a_device_more(seed: int) -> None:
    graph = random_dag(seed, 4)
    first, second = random_classes(seed, 1).classes
    whole = optimum(graph, Deployment.of_classes((first, replace(second, count=2)), 1))
    halves = (replace(second, count=1), first, replace(second, name="twin", count=1))
    divided = optimum(graph, Deployment.of_classes(halves, 1))
    assert whole.status is divided.status is SolveStatus.OPTIMAL
    assert whole.value_ms is not None
    assert divided.value_ms == pytest.approx(whole.value_ms, rel=2e-6)
    fewer = optimum(graph, Deployment.of_classes((first, replace(second, count=1)), 1))
    assert fewer.value_ms is not None
    assert whole.value_ms <= fewer.value_ms * (1 + 2e-6)
