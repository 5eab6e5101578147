"""The DP over accelerators of several classes: brute force agrees, and the laws of classes hold."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.chain import ideals as ideal_table
from solvers.chain import stage_costs as variant_problem
from solvers.chain import stage_kernel
from solvers.chain import stage_search as variant_dp
from solvers.chain.stage_search import VariantSearch
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, DeviceClass, InFlight, Replication, TrainingMemory
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.problem.contraction import contract
from solvers.problem.pins import pins_of
from solvers.solve import solve
from tests.support.agreement import assert_optimal
from tests.support.examples import examples
from tests.support.graphs import (
    Drawn,
    chain,
    class_deployments,
    mixed,
    random_dag,
    random_training_graph,
    with_class_times,
)
from tests.support.pinned_plans import check_agreement
from tests.support.reference import best_value


def optimum(instance: Drawn, objective: Objective = Objective.THROUGHPUT) -> SolveResult:
    return solve(*instance, objective=objective, method="dp")


def assert_same(first: SolveResult, second: SolveResult) -> None:
    assert first.status is second.status
    if first.value_ms is not None:
        assert second.value_ms == pytest.approx(first.value_ms, rel=1e-6, abs=1e-9)


def assert_no_worse(better: SolveResult, worse: SolveResult) -> None:
    if worse.value_ms is not None:
        assert better.value_ms is not None
        assert better.value_ms <= worse.value_ms * (1 + 2e-6) + 1e-9


@given(mixed(), st.sampled_from(Communication))
@examples(80)
def test_brute_force_agrees(instance: Drawn, communication: Communication) -> None:
    instance = (instance[0], replace(instance[1], communication=communication))
    best = best_value(*instance, Family.CHAIN, Objective.THROUGHPUT)
    assert_optimal(optimum(instance), instance, best)


@given(mixed(max_nodes=3, backward=True), st.sampled_from(Communication))
@examples(40)
def test_brute_force_agrees_on_gpipe(instance: Drawn, communication: Communication) -> None:
    instance = (instance[0], replace(instance[1], communication=communication))
    best = best_value(*instance, Family.CHAIN, Objective.GPIPE)
    assert_optimal(optimum(instance, Objective.GPIPE), instance, best)


@given(st.integers(0, 10_000), st.sampled_from(InFlight), st.sampled_from([None, 2.0]), class_deployments())
@examples(40)
def test_brute_force_agrees_under_a_schedules_memory(
    seed: int, schedule: InFlight, state_factor: float | None, deployment: Deployment
) -> None:
    graph = random_training_graph(seed, 3)
    nodes = tuple(
        replace(node, memory_bytes=3.0, activation_bytes=float(seed // 7**i % 3), parameter_bytes=1.0)
        for i, node in enumerate(graph.nodes)
    )
    memory = TrainingMemory(schedule, 3, state_factor)
    instance = DnnGraph(nodes, graph.edges), replace(deployment, training_memory=memory)
    assert_optimal(optimum(instance), instance, best_value(*instance, Family.CHAIN, Objective.THROUGHPUT))


@given(mixed(max_nodes=3), st.sampled_from([0.5, 8.0]))
@examples(40)
def test_brute_force_agrees_on_replicas_within_a_class(instance: Drawn, bandwidth: float) -> None:
    graph, deployment = instance
    instance = graph, replace(deployment, replication=Replication(2, bandwidth))
    assert_optimal(optimum(instance), instance, best_value(*instance, Family.CHAIN, Objective.THROUGHPUT))


@given(mixed(max_nodes=4), st.data())
@examples(40)
def test_pins_name_a_device_and_so_a_class(instance: Drawn, data: st.DataObject) -> None:
    graph, deployment = instance
    devices = st.integers(0, deployment.num_devices - 1)
    pins = pins_of(data.draw(st.dictionaries(st.sampled_from(sorted(graph.node_by_id)), devices, max_size=3)))
    check_agreement(graph, deployment, pins, Family.CHAIN, "dp", Objective.THROUGHPUT)


@given(mixed(max_nodes=7))
@examples(40)
def test_a_class_in_two_equal_ones_changes_nothing(instance: Drawn) -> None:
    graph, deployment = instance
    first, second = deployment.classes
    half = replace(second, count=1)
    nodes = tuple(
        replace(node, class_ms=(*node.class_ms, *(("twin", ms) for name, ms in node.class_ms if name == second.name)))
        for node in graph.nodes
    )
    whole = replace(deployment, classes=(first, replace(second, count=2)), num_accelerators=first.count + 2)
    halves = Deployment.of_classes((half, first, replace(half, name="twin")), deployment.num_cpus)
    divided = solve(DnnGraph(nodes, graph.edges), halves, method="dp")
    assert_same(optimum((graph, whole)), divided)


def test_classes_that_are_alike_are_one_kind_with_a_link_of_its_own() -> None:
    graph = chain((4.0, 4.0), transfer_ms=3.0)
    deployment = Deployment.of_classes((DeviceClass("A", 1, 1.0, None, 0.5), DeviceClass("B", 1, 1.0, None, 0.5)))
    search = VariantSearch(graph, contract(graph, Family.CHAIN, deployment), deployment, Objective.THROUGHPUT)
    search.run()
    assert len(search.kinds) == 1
    assert search.value_ms == 8.0  # apart both would take 4 + 3 / 0.5
    assert search.lower_bound_ms == pytest.approx(8.0)


@given(mixed(max_nodes=7), st.booleans())
@examples(40)
def test_a_device_of_any_class_more_never_hurts(instance: Drawn, is_first: bool) -> None:
    graph, deployment = instance
    first, second = deployment.classes
    classes = (replace(first, count=first.count + is_first), replace(second, count=second.count + (not is_first)))
    assert_no_worse(optimum((graph, Deployment.of_classes(classes, deployment.num_cpus))), optimum(instance))


@given(mixed(max_nodes=7), st.sampled_from(["speed", "link_speed", "memory_bytes"]))
@examples(40)
def test_a_better_class_never_hurts(instance: Drawn, what: str) -> None:
    graph, deployment = instance
    first, second = deployment.classes
    value = getattr(second, what)
    better = replace(second, **{what: None if value is None else 2 * value})
    nodes = tuple(replace(node, class_ms=()) for node in graph.nodes)
    graph = DnnGraph(nodes, graph.edges)
    assert_no_worse(
        optimum((graph, replace(deployment, classes=(first, better)))),
        optimum((graph, deployment)),
    )


@given(st.integers(0, 10_000), class_deployments(), st.sampled_from([0.25, 0.5, 2.0, 8.0]))
@examples(30)
def test_all_speeds_and_links_times_s_is_all_times_over_s(seed: int, deployment: Deployment, factor: float) -> None:
    graph = random_dag(seed, 7)
    classes = tuple(replace(c, speed=c.speed * factor, link_speed=c.link_speed * factor) for c in deployment.classes)
    without_cpus = replace(deployment, num_cpus=0)
    before, after = optimum((graph, without_cpus)), optimum((graph, replace(without_cpus, classes=classes)))
    assert before.status is after.status
    if before.value_ms is not None and after.value_ms is not None:
        assert after.value_ms == pytest.approx(before.value_ms / factor, rel=2e-6)


@given(mixed(max_nodes=7))
@examples(30)
def test_the_order_of_the_classes_does_not_matter(instance: Drawn) -> None:
    graph, deployment = instance
    turned = Deployment.of_classes(deployment.classes[::-1], deployment.num_cpus)
    assert_same(optimum(instance), optimum((graph, turned)))


def test_the_kernel_is_the_same_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = with_class_times(random_training_graph(4, 5, irregular=True), 4)
    classes = (DeviceClass("A", 2, 2.0, 12.0, 0.5), DeviceClass("B", 1))
    deployment = Deployment.of_classes(
        classes, 1, communication=Communication.FULL_DUPLEX, replication=Replication(2, 4.0)
    )
    contraction = contract(graph, Family.CHAIN, deployment, passes_apart=True)
    compiled = VariantSearch(graph, contraction, deployment, Objective.GPIPE)
    compiled.run()
    for module in (ideal_table, stage_kernel, variant_dp, variant_problem):
        for name, function in vars(module).items():
            if hasattr(function, "py_func"):
                monkeypatch.setattr(module, name, function.py_func)
    interpreted = VariantSearch(graph, contraction, deployment, Objective.GPIPE)
    with np.errstate(over="ignore"):
        interpreted.run()
    assert interpreted.stages == compiled.stages
    assert interpreted.value_ms == compiled.value_ms


def test_a_slow_device_takes_the_small_stage_wherever_it_is() -> None:
    graph = chain((1.0, 6.0, 6.0, 6.0), transfer_ms=0.0)
    classes = (DeviceClass("fast", 3, 2.0), DeviceClass("slow", 1, 1 / 3))
    result = solve(graph, Deployment.of_classes(classes))
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(3.0)
    assert result.split is not None
    assert result.split.accelerators[3] == frozenset({1})


def test_too_many_mixes_of_devices_end_with_a_chain_that_takes_no_search_and_say_so() -> None:
    graph = chain((1.0,) * 40)
    classes = [DeviceClass(f"c{i}", 40, 1.0 + i) for i in range(8)]
    result = solve(graph, Deployment.of_classes(classes), method="dp")
    assert result.status is SolveStatus.FEASIBLE
    assert result.value_ms is not None
    assert result.lower_bound_ms is not None
    assert result.lower_bound_ms <= result.value_ms
    assert "can be mixed in more than" in result.message
