"""The DP of the variants: brute force agrees on every one of them, the plain kernel on the plain model."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from solvers.chain import ideals as ideal_table
from solvers.chain import stage_costs as variant_problem
from solvers.chain import stage_kernel
from solvers.chain import stage_search as variant_dp
from solvers.chain.max_load import ChainSearch
from solvers.chain.stage_search import VariantSearch
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import MAX_DEVICES, Communication, Deployment, InFlight, Replication, TrainingMemory
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import contract
from solvers.problem.solving import MethodError
from solvers.solve import solve
from tests.support import agreement
from tests.support.agreement import solve_by_ip_alone
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    random_dag,
    random_training_graph,
    small_graphs,
    training_memories,
    uneven_graphs,
)
from tests.support.reference import best_value

Instance = tuple[DnnGraph, Deployment]

replications = st.builds(Replication, st.integers(2, 3), st.sampled_from([0.5, 2.0, 8.0]))


def search_for(instance: Instance, objective: Objective) -> VariantSearch:
    graph, deployment = instance
    contraction = contract(graph, Family.CHAIN, deployment, passes_apart=objective is Objective.GPIPE)
    search = VariantSearch(graph, contraction, deployment, objective)
    search.run()
    return search


def optimum(instance: Instance, objective: Objective) -> float | None:
    """Return the DP's optimum after checking its plan, its value and its bound; None if it proves there is none."""
    graph, deployment = instance
    search = search_for(instance, objective)
    if search.stages is None:
        assert search.lower_bound_ms == math.inf
        return None
    split = search.split_of(search.stages)
    assert not check_split(graph, deployment, split, Family.CHAIN)
    value = objective_value(graph, deployment, split, objective)
    assert value == pytest.approx(search.value_ms, rel=1e-9, abs=1e-12)
    assert search.lower_bound_ms <= search.value_ms * (1 + 1e-12)
    assert search.lower_bound_ms == pytest.approx(search.value_ms, rel=1e-6, abs=1e-9)
    return search.value_ms


def assert_optimal(instance: Instance, objective: Objective) -> None:
    best = best_value(*instance, Family.CHAIN, objective)
    found = optimum(instance, objective)
    if best is None:
        assert found is None
    else:
        assert found == pytest.approx(best, rel=1e-6, abs=1e-9)


@given(small_graphs(max_nodes=5), st.sampled_from(Communication))
@examples(120)
def test_throughput_however_devices_communicate(instance: Instance, communication: Communication) -> None:
    graph, deployment = instance
    event(f"training: {graph.is_training}")
    assert_optimal((graph, replace(deployment, communication=communication)), Objective.THROUGHPUT)


@given(small_graphs(max_nodes=5, backward=True), st.sampled_from(Communication))
@examples(150)
def test_gpipe_however_devices_communicate(instance: Instance, communication: Communication) -> None:
    graph, deployment = instance
    assert_optimal((graph, replace(deployment, communication=communication)), Objective.GPIPE)


@given(small_graphs(max_nodes=4, backward=True, idle_nodes=True), st.sampled_from(Communication))
@examples(80)
def test_idle_blocks_join_without_shifting_a_pass(instance: Instance, communication: Communication) -> None:
    graph, deployment = instance[0], replace(instance[1], communication=communication)
    idle_classes = {
        node.colocation_class
        for node in graph.nodes
        if not node.is_backward and node.accelerator_ms == node.cpu_ms == 0
    }
    nodes = (
        replace(node, accelerator_ms=0.0, cpu_ms=0.0) if node.colocation_class in idle_classes else node
        for node in graph.nodes
    )
    graph = DnnGraph(tuple(nodes), graph.edges)
    joined = contract(graph, Family.CHAIN, deployment, passes_apart=True)
    apart = contract(graph, Family.CHAIN, deployment, join_idle=False)
    event(f"joined: {joined.num_blocks < apart.num_blocks}")
    assert_optimal((graph, deployment), Objective.GPIPE)
    for family in (Family.FREE, Family.CONVEX):
        best = best_value(graph, deployment, family, Objective.GPIPE)
        agreement.assert_optimal(
            solve_by_ip_alone((graph, deployment), family, Objective.GPIPE), (graph, deployment), best
        )


@given(small_graphs(max_nodes=7, max_accelerators=2, max_cpus=2, colocation=False, backward=False, unsupported=False))
@examples(20)
def test_larger_inference_graphs(instance: Instance) -> None:
    graph, deployment = instance
    for communication in Communication:
        assert_optimal((graph, replace(deployment, communication=communication)), Objective.THROUGHPUT)


@given(small_graphs(max_nodes=4, known_bytes=True), replications, st.sampled_from(Communication))
@examples(120)
def test_replicas_for_throughput(instance: Instance, replication: Replication, communication: Communication) -> None:
    graph, deployment = instance
    deployment = replace(deployment, replication=replication, communication=communication)
    assert_optimal((graph, deployment), Objective.THROUGHPUT)


@given(small_graphs(max_nodes=4, backward=True), replications, st.sampled_from(Communication))
@examples(60)
def test_replicas_for_gpipe(instance: Instance, replication: Replication, communication: Communication) -> None:
    graph, deployment = instance
    deployment = replace(deployment, replication=replication, communication=communication)
    assert_optimal((graph, deployment), Objective.GPIPE)


@given(
    small_graphs(max_nodes=4, max_cpus=2, backward=True, known_bytes=True),
    training_memories(),
    st.sampled_from([Objective.THROUGHPUT, Objective.GPIPE]),
    st.sampled_from(Communication),
    st.integers(1, 40),
)
@examples(200)
def test_memory_of_a_schedule(instance, memory, objective, communication, limit) -> None:  # type: ignore[no-untyped-def]
    graph, deployment = instance
    deployment = replace(deployment, memory_bytes=float(limit), training_memory=memory, communication=communication)
    assert_optimal((graph, deployment), objective)


@given(
    small_graphs(max_nodes=4, backward=True, known_bytes=True),
    st.none() | training_memories(),
    st.sampled_from(Communication),
)
@examples(40)
def test_methods_agree(instance: Instance, memory: TrainingMemory | None, communication: Communication) -> None:
    graph, deployment = instance
    deployment = replace(deployment, training_memory=memory, communication=communication)
    for objective in (Objective.THROUGHPUT, Objective.GPIPE):
        by_dp = solve(graph, deployment, method="dp", objective=objective)
        by_ip = solve_by_ip_alone((graph, deployment), Family.CHAIN, objective)
        agreement.assert_optimal(by_dp, (graph, deployment), by_ip.value_ms)
        if by_dp.split is not None:
            assert solve(graph, deployment, objective=objective).method == "dp"


@given(small_graphs(max_nodes=4, known_bytes=True), replications)
@examples(20)
def test_replicas_through_the_entry(instance: Instance, replication: Replication) -> None:
    graph, deployment = instance[0], replace(instance[1], replication=replication)
    for objective in (Objective.THROUGHPUT, Objective.GPIPE) if graph.is_training else (Objective.THROUGHPUT,):
        best = best_value(graph, deployment, Family.CHAIN, objective)
        agreement.assert_optimal(solve(graph, deployment, objective=objective), (graph, deployment), best)


def test_what_replicas_do_not_go_with_is_refused() -> None:
    graph, deployment = random_training_graph(1, 4), Deployment(3, replication=Replication(2, 1.0))
    with pytest.raises(MethodError, match="Only method dp replicates"):
        solve(graph, deployment, method="ip")
    with pytest.raises(MethodError, match="Only method dp replicates"):
        solve(graph, deployment, family=Family.FREE)
    nodes = tuple(replace(node, activation_bytes=0.0, parameter_bytes=0.0) for node in graph.nodes)
    scheduled = replace(deployment, training_memory=TrainingMemory(InFlight.GPIPE, 2))
    with pytest.raises(MethodError, match="under a schedule's memory"):
        solve(DnnGraph(nodes, graph.edges), scheduled)


@given(uneven_graphs(), st.sampled_from(Communication))
@examples(100)
def test_numbers_far_apart(instance: Instance, communication: Communication) -> None:
    graph, deployment = instance
    assert_optimal((graph, replace(deployment, communication=communication)), Objective.THROUGHPUT)


@given(uneven_graphs(), st.sampled_from(Communication), st.lists(st.booleans(), min_size=4, max_size=4))
@examples(100)
def test_numbers_far_apart_for_gpipe(instance: Instance, communication: Communication, backward: list[bool]) -> None:
    """Nodes behind the first that is backward are backward too, since no data flows back to a forward node."""
    graph, deployment = instance
    order = {v: i for i, v in enumerate(graph.topological_order)}
    first = backward.index(True) if True in backward else 0
    nodes = tuple(replace(node, is_backward=order[node.id] >= first) for node in graph.nodes)
    graph = DnnGraph(nodes, graph.edges)
    assert_optimal((graph, replace(deployment, communication=communication)), Objective.GPIPE)


@pytest.mark.parametrize("seed", range(6))
def test_both_kernels_find_the_same_on_the_plain_model(seed: int) -> None:
    graph = random_dag(seed, num_nodes=16, edge_probability=0.2) if seed % 2 else random_training_graph(seed, 12)
    memory = 0.5 * sum(node.memory_bytes for node in graph.nodes)
    deployment = Deployment(3, seed % 3, memory)
    contraction = contract(graph, Family.CHAIN, deployment)
    plain = ChainSearch(graph, contraction, deployment)
    plain.run()
    general = search_for((graph, deployment), Objective.THROUGHPUT)
    assert general.value_ms == pytest.approx(plain.value_ms)
    assert general.lower_bound_ms == pytest.approx(plain.lower_bound_ms)


@pytest.mark.parametrize("objective", [Objective.THROUGHPUT, Objective.GPIPE])
@pytest.mark.parametrize("communication", Communication)
def test_more_memory_or_bandwidth_never_hurts(objective: Objective, communication: Communication) -> None:
    for seed in range(3):
        graph = random_training_graph(seed, num_forward=9, irregular=bool(seed))
        memory = sum(node.memory_bytes for node in graph.nodes)
        plain = Deployment(3, 1, communication=communication)
        by_memory = [optimum((graph, replace(plain, memory_bytes=s * memory)), objective) for s in (0.2, 0.4, 0.6, 1)]
        by_bandwidth = [optimum((graph.with_bandwidth_factor(f), plain), objective) for f in (0.5, 1, 2, 4)]
        for values in (by_memory, by_bandwidth):
            known = [value or 0.0 for value in values]
            assert all(b <= a * (1 + 1e-7) for a, b in itertools.pairwise(known))


def test_replicas_take_turns() -> None:
    """6 ms of compute and 1 ms of sending on two of three accelerators, 1 ms and 2.5 ms on the third: 3.5 ms each."""
    graph = chain((6.0, 2.5), transfer_ms=1.0)
    search = search_for((graph, Deployment(3, replication=Replication(2))), Objective.THROUGHPUT)
    assert search.value_ms == 3.5
    assert search.stages is not None
    assert search.split_of(search.stages) == Split((frozenset({1}), frozenset({2})), (), (2, 1))


def test_more_replicas_than_accelerators_cost_nothing() -> None:
    graph = random_dag(5, num_nodes=10)
    few, many = (
        search_for((graph, Deployment(3, 1, replication=Replication(most))), Objective.THROUGHPUT)
        for most in (3, MAX_DEVICES)
    )
    assert (few.value_ms, few.stages) == (many.value_ms, many.stages)


def test_a_stopped_search_keeps_a_valid_bound() -> None:
    graph, deployment = random_training_graph(2, num_forward=14, edge_probability=0.15), Deployment(3, 1)
    contraction = contract(graph, Family.CHAIN, deployment, passes_apart=True)
    full = search_for((graph, deployment), Objective.GPIPE)
    cramped = VariantSearch(graph, contraction, deployment, Objective.GPIPE, max_bytes=40 * 200)
    cramped.run()
    assert 0 < cramped.lower_bound_ms <= full.value_ms <= cramped.value_ms
    stopped = VariantSearch(graph, contraction, deployment, Objective.GPIPE)
    stopped.stop()
    stopped.run()
    assert stopped.stages is None
    assert 0 < stopped.lower_bound_ms <= full.value_ms


def test_tables_grow_without_losing_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = random_training_graph(8, num_forward=12, edge_probability=0.2), Deployment(3, 1)
    roomy = search_for(instance, Objective.GPIPE)
    monkeypatch.setattr(variant_dp, "FIRST_ROWS", 2)
    cramped = search_for(instance, Objective.GPIPE)
    assert (cramped.value_ms, cramped.stages) == (roomy.value_ms, roomy.stages)


def test_kernel_is_the_same_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled kernel and the Python it was written in find the same chain."""
    graph = random_training_graph(4, num_forward=6, irregular=True)
    deployment = Deployment(2, 1, 12.0, communication=Communication.FULL_DUPLEX, replication=Replication(2, 4.0))
    compiled = search_for((graph, deployment), Objective.GPIPE)
    for module in (ideal_table, stage_kernel, variant_dp, variant_problem):
        for name, function in vars(module).items():
            if hasattr(function, "py_func"):
                monkeypatch.setattr(module, name, function.py_func)
    with np.errstate(over="ignore"):
        interpreted = search_for((graph, deployment), Objective.GPIPE)
    assert interpreted.stages == compiled.stages
    assert interpreted.value_ms == compiled.value_ms
