"""Overlapping transfers and a schedule's memory: methods agree with brute force, and the laws between variants hold."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, InFlight, Replication, TrainingMemory
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.problem.solving import MethodError
from solvers.solve import solve
from tests.support.agreement import Instance, assert_optimal, solve_by_ip_alone
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    random_dag,
    random_training_graph,
    small_graphs,
    training_memories,
    with_backward,
)
from tests.support.reference import best_value

OVERLAPS = [Communication.OVERLAPPED, Communication.FULL_DUPLEX]


@pytest.mark.parametrize("communication", OVERLAPS)
@pytest.mark.parametrize("family", list(Family))
@given(instance=small_graphs(max_nodes=4))
@examples(40)
def test_ip_equals_brute_force_when_transfers_overlap(
    instance: Instance, family: Family, communication: Communication
) -> None:
    graph, deployment = instance
    instance = graph, replace(deployment, communication=communication)
    best = best_value(*instance, family, Objective.THROUGHPUT)
    assert_optimal(solve_by_ip_alone(instance, family, Objective.THROUGHPUT), instance, best)
    assert_optimal(solve(*instance, family=family), instance, best)


@pytest.mark.parametrize("communication", OVERLAPS)
@pytest.mark.parametrize("family", list(Family))
@given(instance=small_graphs(max_nodes=4, backward=True))
@examples(25)
def test_gpipe_ip_equals_brute_force_when_transfers_overlap(
    instance: Instance, family: Family, communication: Communication
) -> None:
    graph, deployment = instance
    instance = graph, replace(deployment, communication=communication)
    best = best_value(*instance, family, Objective.GPIPE)
    assert_optimal(solve_by_ip_alone(instance, family, Objective.GPIPE), instance, best)


@given(
    small_graphs(max_nodes=4, backward=True, known_bytes=True),
    training_memories(),
    st.sampled_from([Objective.THROUGHPUT, Objective.GPIPE]),
    st.sampled_from(Communication),
    st.integers(1, 40),
)
@examples(120)
def test_chain_ip_equals_brute_force_under_a_schedules_memory(
    instance: Instance, memory: TrainingMemory, objective: Objective, communication: Communication, limit: int
) -> None:
    graph, deployment = instance
    deployment = replace(deployment, memory_bytes=float(limit), training_memory=memory, communication=communication)
    best = best_value(graph, deployment, Family.CHAIN, objective)
    assert_optimal(solve_by_ip_alone((graph, deployment), Family.CHAIN, objective), (graph, deployment), best)
    assert_optimal(solve(graph, deployment, objective=objective), (graph, deployment), best)


@given(small_graphs(min_nodes=5, max_nodes=7, max_accelerators=3, backward=False, colocation=False, unsupported=False))
@examples(15)
def test_larger_inference_graphs_with_overlap(instance: Instance) -> None:
    graph, deployment = instance
    for communication in OVERLAPS:
        overlapping = graph, replace(deployment, communication=communication)
        best = best_value(*overlapping, Family.CHAIN, Objective.THROUGHPUT)
        assert_optimal(solve(*overlapping), overlapping, best)


@pytest.mark.parametrize("seed", range(3))
def test_overlap_never_hurts_and_neither_does_bandwidth(seed: int) -> None:
    graph = random_training_graph(seed, num_forward=6)
    for objective in (Objective.THROUGHPUT, Objective.GPIPE):
        by_bandwidth = []
        for factor in (0.5, 2.0):
            values = {
                c: solve(graph.with_bandwidth_factor(factor), Deployment(3, communication=c), objective=objective)
                for c in Communication
            }
            assert all(result.status is SolveStatus.OPTIMAL for result in values.values())
            plain = values[Communication.SUM].value_ms
            assert plain is not None
            assert all((result.value_ms or 0.0) <= plain * (1 + 1e-9) for result in values.values())
            by_bandwidth.append({c: result.value_ms or 0.0 for c, result in values.items()})
        slow, fast = by_bandwidth
        assert all(fast[c] <= slow[c] * (1 + 1e-9) for c in Communication)


def with_known_bytes(graph: DnnGraph) -> DnnGraph:
    """Sizes of 10 a forward node, of which 4 are activations and 1 is weights; none in the backward pass."""
    nodes = tuple(
        replace(
            node,
            memory_bytes=0.0 if node.is_backward else 10.0,
            activation_bytes=0.0 if node.is_backward else 4.0,
            parameter_bytes=0.0 if node.is_backward else 1.0,
        )
        for node in graph.nodes
    )
    return DnnGraph(nodes, graph.edges)


def test_early_stages_are_smaller_when_they_keep_more_micro_batches() -> None:
    """Six equal layers: by sizes alone 2 + 2 + 2 fit 20 bytes; under 1F1B the stages take 18 n, 14 n and 10 n."""
    graph = with_known_bytes(with_backward(chain((1,) * 6, transfer_ms=0.0), backward_factor=1.0))
    static = Deployment(3, memory_bytes=30.0)
    assert solve(graph, static).value_ms == 4.0
    scheduled = replace(static, training_memory=TrainingMemory(InFlight.ONE_F_ONE_B, 8))
    result = solve(graph, scheduled)
    assert result.value_ms == 6.0
    assert result.split is not None
    assert [len(ids) // 2 for ids in result.split.accelerators] == [1, 2, 3]
    assert result.message == ""
    few = replace(static, training_memory=TrainingMemory(InFlight.ONE_F_ONE_B, 1))
    assert solve(graph, few).value_ms == 4.0
    gpipe = replace(static, training_memory=TrainingMemory(InFlight.GPIPE, 8))
    assert solve(graph, gpipe).status is SolveStatus.INFEASIBLE
    by_memory = [solve(graph, replace(scheduled, memory_bytes=m)).value_ms for m in (30.0, 36.0, 60.0, 100.0)]
    assert by_memory == [6.0, 4.0, 4.0, 4.0]


def test_a_graph_that_does_not_know_its_bytes_says_so() -> None:
    memory = TrainingMemory(InFlight.ONE_F_ONE_B, 8)
    graph = with_backward(chain((1, 2, 3)))
    for case, reason in ((graph, "has no activationBytes"), (chain((1, 2, 3)), "no backward nodes")):
        deployment = Deployment(2, memory_bytes=100.0, training_memory=memory)
        assert not is_scheduled(case, deployment)
        for family in Family:
            result = solve(case, deployment, family=family)
            assert result.status is SolveStatus.OPTIMAL
            assert reason in result.message
        too_small = replace(deployment, memory_bytes=1.0)
        assert reason in solve(case, too_small).message


@pytest.mark.parametrize(
    ("deployment", "options", "words"),
    [
        (
            Deployment(2, communication=Communication.OVERLAPPED),
            {"objective": Objective.LATENCY},
            "one after the other",
        ),
        (
            Deployment(2, training_memory=TrainingMemory(InFlight.GPIPE, 2)),
            {"family": Family.FREE},
            "defined for pipelines, not for non-contiguous splits",
        ),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    deployment: Deployment, options: dict[str, Objective | Family], words: str
) -> None:
    training = with_known_bytes(with_backward(chain((1, 2, 3))))
    graph = chain((1, 2, 3)) if "objective" in options else training
    with pytest.raises(MethodError, match=words):
        solve(graph, deployment, **options)  # type: ignore[arg-type]


def test_one_replica_is_no_replication() -> None:
    graph = random_dag(3)
    expected = solve(graph, Deployment(3)).value_ms
    for family in Family:
        result = solve(graph, Deployment(3, replication=Replication(1)), family=family)
        assert result.status is SolveStatus.OPTIMAL
        if family is Family.CHAIN:
            assert result.value_ms == expected


def test_gradients_without_a_bandwidth_are_refused() -> None:
    graph = with_known_bytes(with_backward(chain((1, 2, 3))))
    with pytest.raises(PlacementError):
        solve(graph, Deployment(3, replication=Replication(2)))
