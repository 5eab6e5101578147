"""Explanations: facts that add up, and sentences that are right where things are at their limits."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.explanation import Explanation, bound_of, explain, explanation_document
from solvers.analysis.explanation_text import explanation_text, plain_text
from solvers.analysis.latency_path import latency_path
from solvers.analysis.load_parts import backward_parts, forward_parts, load_parts
from solvers.model.costs import Objective, objective_value, single_sample_latency, split_costs
from solvers.model.deployment import Communication, Deployment, DeviceClass, Replication
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split
from solvers.problem.bounds import balance_bound, largest_block, work_bound
from solvers.problem.contraction import contract
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    dag,
    diamond,
    mixed_placements,
    random_dag,
    random_split,
    small_graphs,
    training_chain,
)

SEEDS = st.integers(0, 10_000)


def explained(graph: DnnGraph, deployment: Deployment, **options: Any) -> tuple[Explanation, str]:
    """Explain the best plan; return the facts and all sentences in one line."""
    result = solve(graph, deployment, **options)
    assert result.split is not None
    explanation = explain(
        graph,
        deployment,
        result.split,
        objective=result.objective,
        family=result.family,
        lower_bound_ms=bound_of(result),
    )
    return explanation, text_of(explanation, graph)


def text_of(explanation: Explanation, graph: DnnGraph) -> str:
    return " ".join(plain_text(explanation_text(explanation, graph)).split())


@examples(100, deadline=None)
@given(small_graphs(), SEEDS, st.sampled_from(Communication), st.integers(1, 2))
def test_parts_add_up_to_loads_and_hide_what_is_longer_elsewhere(
    case: tuple[DnnGraph, Deployment], seed: int, communication: Communication, replicas: int
) -> None:
    graph, deployment = case
    split = random_split(graph, deployment, seed)
    extra = sum(map(bool, split.accelerators)) * (replicas - 1)
    deployment = replace(
        deployment,
        communication=communication,
        replication=Replication(replicas, 1.0),
        num_accelerators=deployment.num_accelerators + extra,
    )
    split = replace(split, replicas=tuple(replicas for _ in split.accelerators))
    for device in split_costs(graph, deployment, split).devices:
        for parts, time_ms in (
            (load_parts(device), device.load_ms),
            (forward_parts(device), device.forward_ms),
            (backward_parts(device), device.backward_ms),
        ):
            assert parts.load_ms == pytest.approx(time_ms)
            assert parts.hidden_compute_ms <= parts.transfer_ms + 1e-12
        whole = load_parts(device)
        transfers = whole.receive_ms + whole.send_ms + whole.hidden_receive_ms + whole.hidden_send_ms
        assert transfers * device.replicas == pytest.approx(device.receive_ms + device.send_ms)


@examples(100, deadline=None)
@given(small_graphs(), SEEDS, st.sampled_from((Objective.THROUGHPUT, Objective.GPIPE)), st.sampled_from(Communication))
def test_value_is_balance_plus_uneven_compute_plus_transfers(
    case: tuple[DnnGraph, Deployment], seed: int, objective: Objective, communication: Communication
) -> None:
    graph, deployment = case
    deployment = replace(deployment, communication=communication)
    split = random_split(graph, deployment, seed)
    explanation = explain(graph, deployment, split, objective=objective)
    assert explanation.value_ms == pytest.approx(objective_value(graph, deployment, split, objective))
    if math.isfinite(explanation.balance.balance_ms):
        assert explanation.value_ms == pytest.approx(
            explanation.balance.balance_ms + explanation.compute_over_balance_ms + explanation.paid_transfers_ms
        )
    for limit in explanation.limits:
        for parts in limit.bottlenecks:
            assert parts.load_ms >= limit.value_ms * (1 - 1e-3)
    assert text_of(explanation, graph)
    explanation_document(explanation)


@examples(60, deadline=None)
@given(small_graphs(backward=False), SEEDS)
def test_critical_path_takes_the_latency(case: tuple[DnnGraph, Deployment], seed: int) -> None:
    graph, deployment = case
    split = random_split(graph, deployment, seed)
    latency, path = single_sample_latency(graph, deployment, split), latency_path(graph, deployment, split)
    assert (latency is None) == (path is None)
    if path is None:
        return
    assert path.latency_ms == pytest.approx(latency)
    assert path.compute_ms + path.transfer_ms == pytest.approx(latency)
    ends = [0.0, *(step.end_ms for step in path.steps)]
    assert [step.start_ms for step in path.steps] == pytest.approx(ends[:-1])  # without a pause
    assert text_of(explain(graph, deployment, split, objective=Objective.LATENCY), graph)


@examples(60, deadline=None)
@given(small_graphs())
def test_the_two_bounds_make_the_bound_from_total_work(case: tuple[DnnGraph, Deployment]) -> None:
    graph, deployment = case
    contraction = contract(graph, Family.FREE, deployment)
    parts = largest_block(contraction, deployment)[1], balance_bound(contraction, deployment)
    assert work_bound(contraction, deployment) == max(parts)


def test_the_slowest_device_and_its_dearest_tensor() -> None:
    graph = chain((2, 3, 1), transfer_ms=(0.5, 0.25, 0))
    explanation, text = explained(graph, Deployment(3))
    (limit,) = explanation.limits
    assert [parts.device for parts in limit.bottlenecks] == [1]
    assert (limit.bottlenecks[0].compute_ms, limit.bottlenecks[0].receive_ms) == (3.0, 0.5)
    assert explanation.is_optimal
    assert "Accelerator 2 is the bottleneck with 3.75 ms per micro-batch." in text
    assert "computes for 3 ms (80 %), receives for 0.5 ms (13.3 %) and sends for 0.25 ms (6.67 %)" in text
    assert "the output of node 1 from Accelerator 1 (0.5 ms)" in text
    assert "Of the difference of 1.75 ms, 1 ms (57.1 %) is uneven compute and 0.75 ms (42.9 %) transfers." in text
    assert "no pipeline split for these devices has a smaller time per micro-batch" in text


@given(mixed_placements())
def test_tensors_of_the_slowest_device_add_up_to_its_transfers(case: tuple[DnnGraph, Deployment, Split]) -> None:
    explanation = explain(*case)
    for parts in explanation.limits[0].bottlenecks:
        told = [tensor.ms_on(parts.device) for tensor in explanation.cut_tensors.get(parts.device, ())]
        assert told == sorted(told, reverse=True)
        assert sum(told) == parts.receive_ms + parts.send_ms


def test_tensors_take_what_they_take_on_the_link_of_the_slowest_device() -> None:
    graph = chain((2, 8, 1), transfer_ms=(1.0, 0.5, 0))
    classes = (DeviceClass("fast", 1), DeviceClass("slow", 1, link_speed=0.25), DeviceClass("last", 1))
    deployment = Deployment.of_classes(classes)
    text = text_of(explain(graph, deployment, Split(tuple(frozenset({v}) for v in (1, 2, 3)))), graph)
    assert "receives for 4 ms" in text
    assert "the output of node 1 from fast 1 (4 ms) and the output of node 2 to last 1 (2 ms)" in text


def test_the_smallest_transfer_is_that_over_the_fastest_link() -> None:
    classes = (DeviceClass("slow", 1), DeviceClass("fast", 1, link_speed=8.0))
    deployment = Deployment.of_classes(classes, accelerators_per_server=2, server_link_speed=2.0)
    explanation = explain(chain((1, 2), transfer_ms=32.0), deployment, Split((frozenset({1, 2}), frozenset())))
    assert explanation.least_transfer_ms == 2.0


def test_devices_that_are_equally_slow_are_all_named() -> None:
    explanation, text = explained(chain((1, 1), transfer_ms=0.5), Deployment(2))
    assert [parts.device for parts in explanation.limits[0].bottlenecks] == [0, 1]
    assert "Accelerator 1 is the bottleneck with 1.5 ms per micro-batch, and Accelerator 2 within 0.1 % of it" in text
    assert "None: in steady state all devices are busy all the time." in text


def test_what_rounding_leaves_of_a_load_is_not_called_idle() -> None:
    _, text = explained(chain((3.0, 1.0, 2.0 - 1e-9), transfer_ms=0), Deployment(2))
    assert "Idle" in text  # the heading
    assert "None: in steady state all devices are busy all the time." in text
    assert "0 %" not in text.split("Idle time")[1]


def test_free_transfers_without_memory_limit_reach_total_work_over_devices() -> None:
    explanation, text = explained(chain((1, 1, 1, 1), transfer_ms=0), Deployment(2))
    assert explanation.balance.balance_ms == pytest.approx(2)
    assert "It is reached: all work divided as evenly as it can be over 2 accelerators takes 2 ms per micro-" in text
    assert "Transfers take no time." in text
    assert "Memory" not in text


def test_one_device_has_nothing_to_balance() -> None:
    _, text = explained(chain((1, 2)), Deployment(1))
    assert "There is one device: it does all the work, 3 ms per micro-batch, and moves nothing." in text
    assert "Idle" not in text


def test_links_without_speed_leave_one_device() -> None:
    graph = chain((1, 2, 3)).with_bandwidth_factor(1e-6)
    explanation, text = explained(graph, Deployment(3))
    assert explanation.value_ms == 6
    assert "All nodes are on one device" in text
    assert "moving even the smallest takes 1,000,000 ms" in text
    assert "have no nodes" in text


def test_a_graph_that_takes_no_time_has_nothing_to_explain() -> None:
    _, text = explained(chain((0, 0), transfer_ms=0), Deployment(2))
    assert "there is nothing to speed up" in text


def test_a_cpu_that_sets_the_pace_transfers_for_nothing() -> None:
    nodes = (Node(1, 1, 1, transfer_ms=0.25), Node(2, 1, 5, transfer_ms=0.25, runs_on_accelerator=False), Node(3, 1, 1))
    explanation, text = explained(DnnGraph(nodes, (Edge(1, 2), Edge(2, 3))), Deployment(1, 2), family=Family.FREE)
    assert explanation.devices[explanation.limits[0].bottlenecks[0].device].is_cpu
    assert " is the bottleneck with 5 ms per micro-batch." in text
    assert "Transfers take a CPU no time." in text
    assert "Nodes cannot be divided: the largest, node 2, takes 5 ms, as long as the plan" in text


def test_a_dear_node_is_the_reason() -> None:
    _, text = explained(chain((1, 9, 1), transfer_ms=0), Deployment(3))
    assert "the largest, node 2, takes 9 ms, as long as the plan, so no plan can be faster" in text


def test_memory_is_said_to_limit_nothing_only_where_everything_fits_on_one_device() -> None:
    graph = chain((1, 2, 3))
    _, text = explained(graph, Deployment(2, 0, memory_bytes=3.0))
    assert "Memory is not limiting: all nodes together take 3 B, and one accelerator has 3 B." in text
    _, text = explained(graph, Deployment(2, 0, memory_bytes=2.0))
    assert "is the fullest with 2 B of 2 B (100 %)" in text


def test_a_plan_that_breaks_rules_is_not_called_optimal() -> None:
    graph = chain((1, 2), transfer_ms=0)
    split = Split((frozenset({1, 2}), frozenset()))
    explanation = explain(graph, Deployment(2, 0, memory_bytes=1.0), split, lower_bound_ms=3.0)
    text = text_of(explanation, graph)
    assert not explanation.is_optimal
    assert text.startswith("What this plan breaks Accelerator 1 is short by")
    assert "It is no valid plan" in text


def test_what_contiguity_costs() -> None:
    graph = dag((2, 3, 1, 2), ((1, 2), (3, 4)), transfer_ms=0.0)
    deployment = Deployment(2)
    best = solve(graph, deployment)
    assert best.split is not None
    wider = solve(graph, deployment, family=Family.FREE)
    explanation = explain(
        graph, deployment, best.split, family=Family.CHAIN, lower_bound_ms=best.lower_bound_ms, wider=wider
    )
    assert "That the split is a pipeline costs 1 ms: a non-contiguous split takes 4 ms." in text_of(explanation, graph)


def test_contiguity_is_not_charged_with_what_a_better_pipeline_would_save() -> None:
    graph, deployment = dag((2, 3, 1, 2), ((1, 2), (3, 4)), transfer_ms=0.0), Deployment(2)
    best, wider = solve(graph, deployment), solve(graph, deployment, family=Family.FREE)
    everything = Split((frozenset({1, 2, 3, 4}), frozenset()))
    explanation = explain(
        graph, deployment, everything, family=Family.CHAIN, lower_bound_ms=best.lower_bound_ms, wider=wider
    )
    text = text_of(explanation, graph)
    assert "A non-contiguous split takes 4 ms." in text
    assert "That the split is a pipeline costs" not in text


def test_contiguity_that_costs_nothing() -> None:
    graph, deployment = chain((2, 3), transfer_ms=1.0), Deployment(2)
    best, wider = solve(graph, deployment), solve(graph, deployment, family=Family.FREE)
    assert best.split is not None
    explanation = explain(graph, deployment, best.split, family=Family.CHAIN, lower_bound_ms=4.0, wider=wider)
    assert "Contiguity costs nothing: no non-contiguous split is faster either." in text_of(explanation, graph)


def test_overlapped_transfers_are_said_to_run_beside() -> None:
    graph = chain((3, 4), transfer_ms=1.0)
    deployment = Deployment(2, communication=Communication.OVERLAPPED)
    explanation, text = explained(graph, deployment)
    assert explanation.value_ms == 4
    assert "Accelerator 2 computes for 4 ms (100 %). 1 ms of receiving overlaps with that and adds nothing." in text


def test_gpipe_names_the_slowest_of_each_pass() -> None:
    graph = training_chain((1, 3), (5, 2))
    split = Split((frozenset({1, 3}), frozenset({2, 4})))
    explanation = explain(graph, Deployment(2), split, objective=Objective.GPIPE)
    assert [limit.bottlenecks[0].device for limit in explanation.limits] == [1, 0]
    text = text_of(explanation, graph)
    assert (
        "The time per micro-batch is 8 ms: the slowest forward pass and the slowest backward pass, 3 ms + 5 ms." in text
    )
    assert "Accelerator 2 is the bottleneck of the forward pass with 3 ms" in text
    assert "Accelerator 1 is the bottleneck of the backward pass with 5 ms" in text


def test_latency_names_the_path_and_what_runs_beside_it() -> None:
    graph = diamond(transfer_ms=0.0)
    split = Split((frozenset({1, 3, 4}), frozenset({2})))
    explanation = explain(graph, Deployment(3), split, objective=Objective.LATENCY)
    assert explanation.value_ms is None  # each waits for the other
    split = Split((frozenset({1}), frozenset({2}), frozenset({3, 4})))
    explanation = explain(graph, Deployment(3), split, objective=Objective.LATENCY)
    text = text_of(explanation, graph)
    assert explanation.value_ms == 10  # 1, then 2 beside nothing, then 3 and 4 as one
    assert "Accelerator 1 from 0 ms to 1 ms (1 node), then Accelerator 2" in text


def test_a_training_graph_has_no_latency() -> None:
    graph = training_chain((1, 1), (1, 1))
    split = Split((frozenset({1, 3}), frozenset({2, 4})))
    explanation = explain(graph, Deployment(2), split, objective=Objective.LATENCY)
    assert "it has no latency" in text_of(explanation, graph)


def test_names_of_nodes_stay_as_they_are() -> None:
    graph = DnnGraph((Node(1, 1, 1, transfer_ms=0.5, name="<img src=x>"), Node(2, 1, 1)), (Edge(1, 2),))
    split = Split((frozenset({1}), frozenset({2})))
    assert "node 1 (<img src=x>)" in text_of(explain(graph, Deployment(2), split), graph)


@pytest.mark.parametrize("seed", range(5))
def test_proven_claims_hold(seed: int) -> None:
    """Whoever is told that a plan is optimal finds no better one; whoever is told a bound finds none below."""
    graph = random_dag(seed, 6)
    deployment = Deployment(2, 1)
    best = solve(graph, deployment, family=Family.FREE)
    assert best.value_ms is not None
    for other in range(8):
        split = random_split(graph, deployment, other)
        explanation = explain(graph, deployment, split)
        bound = explanation.proof.lower_bound_ms
        assert bound is not None
        assert bound <= best.value_ms * (1 + 1e-9)
        if explanation.is_optimal:
            assert explanation.value_ms == pytest.approx(best.value_ms)


def test_a_plan_that_is_too_good_to_be_valid_is_not_held_against_balance() -> None:
    # Node 2 takes 9 ms where it can run, and the plan has it where it would take 1 ms.
    graph = DnnGraph((Node(1, 1, 4, transfer_ms=1.0), Node(2, 1, 9, runs_on_accelerator=False)), (Edge(1, 2),))
    split = Split((frozenset({1}), frozenset({2})), (frozenset(),))
    explanation = explain(graph, Deployment(2, 1), split)
    assert explanation.value_ms == 2.0
    assert explanation.value_ms < explanation.balance.balance_ms
    text = text_of(explanation, graph)
    assert "so does the plan" not in text
    assert "as long as the plan" not in text


def test_only_what_has_time_to_spare_could_be_slower() -> None:
    edges = ((1, 2), (1, 3), (2, 4), (3, 4))
    split = Split(tuple(frozenset({v}) for v in (1, 2, 3, 4)))

    def told(third_ms: float) -> str:
        graph = dag((1, 2, third_ms, 1), edges, transfer_ms=0.0)
        return text_of(explain(graph, Deployment(4), split, objective=Objective.LATENCY), graph)

    assert "Accelerator 3 (1 ms) is off the critical path and could be slower." in told(1.0)
    equal = told(2.0)
    assert "could be slower" not in equal
    assert "Accelerator 3 is on a path that takes as long" in equal


@examples(60, deadline=None)
@given(small_graphs(backward=False), SEEDS)
def test_slack_is_how_late_a_device_may_be(case: tuple[DnnGraph, Deployment], seed: int) -> None:
    graph, deployment = case
    deployment = replace(deployment, num_cpus=0, num_accelerators=max(1, deployment.num_accelerators))
    split = random_split(graph, deployment, seed)
    path = latency_path(graph, deployment, split)
    if path is None:
        return
    for d, members in enumerate(split.on(deployment).accelerators):
        if not members:
            assert path.slack_ms[d] == math.inf
            continue
        for extra_ms in (path.slack_ms[d], path.slack_ms[d] + 1.0):
            v = min(members)
            nodes = tuple(
                replace(node, accelerator_ms=node.accelerator_ms + extra_ms) if node.id == v else node
                for node in graph.nodes
            )
            slower = single_sample_latency(DnnGraph(nodes, graph.edges), deployment, split)
            assert slower == pytest.approx(path.latency_ms + extra_ms - path.slack_ms[d])


def test_between_cpus_nothing_is_dear() -> None:
    graph = chain((1, 2, 3)).with_bandwidth_factor(1e-6)
    split = Split((frozenset({1, 2, 3}),), (frozenset(), frozenset()))
    text = text_of(explain(graph, Deployment(1, 2), split), graph)
    assert "All nodes are on one device, so that no tensor is moved." in text
    assert "moving even the smallest" not in text


def test_nodes_with_bytes_on_accelerators_without_memory_are_not_denied() -> None:
    graph = dag((1, 2), ((1, 2),), memory_bytes=5.0)
    text = text_of(explain(graph, Deployment(1, 1, 0.0), Split((frozenset({1, 2}),), (frozenset(),))), graph)
    assert "nodes without bytes" not in text
