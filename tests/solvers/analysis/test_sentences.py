"""Every sentence of Explain holds: where it is easily wrong, and on random plans against all plans there are."""

import random
from dataclasses import replace

import pytest

from solvers.analysis.explanation import bound_of, explain
from solvers.analysis.explanation_text import explanation_text, plain_text
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, DeviceClass, InFlight, Replication, TrainingMemory
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split
from solvers.solve import solve
from tests.support.graphs import dag, random_split, training_chain, two_branches
from tests.support.random_problems import BYTES_PER_MS, random_problem
from tests.support.reference import colocated_sets
from tests.support.sentence_check import SentenceCheck
from tests.support.written import Comparison


def sentences(graph: DnnGraph, deployment: Deployment, *devices: set[int], **options: object) -> str:
    """Explain the split with these nodes on the accelerators, the last on a CPU where there are more."""
    k = deployment.num_accelerators
    split = Split(tuple(map(frozenset, devices[:k])), tuple(map(frozenset, devices[k:])))
    explanation = explain(graph, deployment, split, **options)  # type: ignore[arg-type]
    return " ".join(sentence for paragraph in explanation_text(explanation, graph) for sentence in paragraph.sentences)


def test_tensors_that_move_in_no_time_are_not_denied() -> None:
    graph = dag((4, 1, 1), ((1, 2), (2, 3)), transfer_ms=(0.0, 1.0, 0.0))
    text = sentences(graph, Deployment(2), {1}, {2, 3})
    assert "Accelerator 1 computes for 4 ms (100 %). Its transfers take no time." in text
    assert "The one tensor it moves is" in text


def test_a_plan_of_many_times_the_ideal_is_not_told_in_percent() -> None:
    graph = dag((1.0, 97.0, 1.0, 1.0), ((1, 2), (2, 3), (3, 4)), transfer_ms=0.0)
    text = sentences(graph, Deployment(4), {1}, {2}, {3}, {4})
    assert "would take 25 ms per micro-batch; the plan takes 97 ms, 3.88 × as much." in text
    assert "the plan takes 98 ms, 96 % more." in sentences(graph, Deployment(2), {1, 2}, {3, 4})


def test_of_two_passes_it_is_told_which_device_moves_tensors() -> None:
    graph = training_chain((4.0, 1.0), (1.0, 6.0), transfer_ms=0.5)
    text = sentences(graph, Deployment(2), {1, 3}, {2, 4}, objective=Objective.GPIPE)
    assert "Accelerator 1 is the bottleneck of the forward pass" in text
    assert "Accelerator 2 is the bottleneck of the backward pass" in text
    assert "Accelerator 1 moves 2 tensors: " in text
    assert "It moves" not in text


def test_names_of_device_types_stay_as_they_are() -> None:
    graph = training_chain((4.0, 1.0), (1.0, 6.0), transfer_ms=0.5)
    small = Deployment.of_classes((DeviceClass("small", 2),))
    assert " small 1 moves 2 tensors: " in sentences(graph, small, {1, 3}, {2, 4}, objective=Objective.GPIPE)


def test_a_faster_plan_may_leave_one_of_the_two_passes_as_it_is() -> None:
    """Both plans take 4 ms forward on each of two devices; the backward passes differ."""
    graph = training_chain((2.0, 2.0, 2.0, 2.0), (1.0, 1.0, 5.0, 5.0))
    slow, fast = ({1, 2, 5, 6}, {3, 4, 7, 8}), ({1, 3, 5, 7}, {2, 4, 6, 8})
    text = sentences(graph, Deployment(2), *slow, objective=Objective.GPIPE)
    assert "a faster forward pass has to reduce both loads" in text
    assert "The time per micro-batch is 10 ms" in sentences(graph, Deployment(2), *fast, objective=Objective.GPIPE)
    assert "The time per micro-batch is 14 ms" in text


def test_contiguity_is_among_what_keeps_a_contiguous_split_from_the_ideal_load() -> None:
    """The best contiguous split takes 4.5 ms and the ideal load is 4 ms, which a non-contiguous one reaches."""
    graph = dag((2, 3, 2, 1), ((1, 2), (2, 3), (3, 4)), transfer_ms=0.0)
    text = sentences(graph, Deployment(2), {1, 2}, {3, 4}, family=Family.CONVEX, lower_bound_ms=5.0)
    assert "Only that nodes cannot be divided and that the split is contiguous keep the plan" in text
    assert "It is reached" in sentences(graph, Deployment(2), {1, 3}, {2, 4})


def test_parts_of_a_graph_that_are_not_connected_move_nothing() -> None:
    """No device holds both branches, and each has one."""
    graph = two_branches(2, transfer_ms=9.0)
    text = sentences(graph, Deployment(2, 0, 2.0), {1, 3}, {2, 4})
    assert "must be moved" not in text
    connected = dag((1.0,) * 4, ((1, 2), (2, 3), (3, 4)), transfer_ms=9.0)
    assert "tensors must be moved however slow" in sentences(connected, Deployment(2, 0, 2.0), {1, 2}, {3, 4})


def test_tensors_that_move_in_no_time_are_the_smallest() -> None:
    """What the smallest of the others takes is no reason to move none."""
    graph = dag((1, 1, 1), ((1, 2), (2, 3)), transfer_ms=(20.0, 0.0, 0.0))
    assert "moving even" not in sentences(graph, Deployment(2), {1, 2, 3}, set())
    slow = dag((1, 1, 1), ((1, 2), (2, 3)), transfer_ms=(20.0, 10.0, 0.0))
    assert "moving even the smallest takes 10 ms" in sentences(slow, Deployment(2), {1, 2, 3}, set())


def test_devices_that_idle_as_long_are_not_said_to_idle_for_less() -> None:
    graph = dag((4, 1, 1, 1, 1, 1, 1), (), transfer_ms=0.0)
    nodes = [{v} for v in range(1, 8)]
    assert "; 2 more are idle for as long." in sentences(graph, Deployment(7), *nodes)
    uneven = dag((4, 1, 1, 1, 1, 1, 2), (), transfer_ms=0.0)
    assert "; 2 more are idle for as long or less." in sentences(uneven, Deployment(7), *nodes)
    last = dag((4, 1, 1, 1, 1, 2, 2), (), transfer_ms=0.0)
    assert "; 2 more are idle for less." in sentences(last, Deployment(7), *nodes)


def test_sizes_that_memory_does_not_count_force_nothing_onto_cpus() -> None:
    """With a multiplier of weights and state, memory counts weights and activations, not sizes."""
    graph = training_chain((1.0, 1.0), (1.0, 1.0))
    nodes = tuple(replace(node, memory_bytes=100.0, parameter_bytes=1.0, activation_bytes=1.0) for node in graph.nodes)
    deployment = Deployment(2, 1, 20.0, training_memory=TrainingMemory(InFlight.ONE_F_ONE_B, 4, 4.0))
    text = sentences(graph.with_nodes(nodes), deployment, {1, 3}, {2, 4}, set(), family=Family.CHAIN)
    assert "valid" not in text
    assert "forces work onto CPUs" not in text
    assert "one accelerator has" not in text


@pytest.mark.parametrize("seed", range(40))
def test_sentences_hold_against_all_plans(seed: int) -> None:
    """On the best plan of a random problem and on random ones, for graphs so small that all plans can be tried."""
    problem, rng, found = random_problem(seed), random.Random(seed), Comparison()  # noqa: S311
    query, graph = problem.query, problem.graph
    if query["objective"] == "latency" or "in_flight" in query:
        return
    deployment = replace(problem.deployment, communication=Communication(query.get("transfers", "sum")))
    if "replicas" in query:
        deployment = replace(deployment, replication=Replication(int(query["replicas"]), BYTES_PER_MS))
    if deployment.num_devices ** len(colocated_sets(graph)) > 1000:
        return
    if rng.random() < 0.4:
        graph = graph.with_bandwidth_factor(0.05)
    objective, family = Objective(query["objective"]), Family(query["splits"])
    best = solve(graph, deployment, objective=objective, family=family)
    cases = [] if best.split is None else [(best.split, bound_of(best))]
    cases += [(random_split(graph, deployment, other), None) for other in range(3)]
    for split, bound_ms in cases:
        options = {"objective": objective, "family": family, "lower_bound_ms": bound_ms}
        explanation = explain(graph, deployment, split, **options)  # type: ignore[arg-type]
        if not explanation.violations:
            told = [s for paragraph in explanation_text(explanation, graph) for s in paragraph.sentences]
            SentenceCheck(graph, deployment, split, objective, family, found).run(told)
    assert found.disagreements == []


def test_without_cpus_memory_forces_nothing_onto_them() -> None:
    nodes = tuple(Node(v, float(1 + (v == 4)), 4.0, memory_bytes=1.0) for v in range(1, 5))
    graph = DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(1, 4)))
    split = Split((frozenset({1, 2}), frozenset({3, 4})))
    text = plain_text(explanation_text(explain(graph, Deployment(2, 0, 1.0), split), graph))
    assert "No plan fits: all nodes take 4 B and the accelerators together hold 2 B." in text
    assert "CPUs" not in text
