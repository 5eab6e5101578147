"""The label DP over accelerators of several kinds: it agrees with brute force and with both other chain DPs."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.chain import label_kernel, label_search
from solvers.chain.max_load import ChainSearch
from solvers.chain.stage_search import VariantSearch
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.bounds import block_work, device_prices, work_bound
from solvers.problem.contraction import contract
from solvers.solve import solve
from tests.support.agreement import assert_optimal
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    random_classes,
    random_dag,
    random_split,
    random_training_graph,
    small_graphs,
    uneven_graphs,
    with_class_times,
)
from tests.support.reference import best_value, max_load_by_definition

Drawn = tuple[DnnGraph, Deployment]


def by_labels(graph: DnnGraph, deployment: Deployment, **others: Mapping[int, int]) -> ChainSearch:
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment, **others)
    search.run()
    return search


def by_pairs(graph: DnnGraph, deployment: Deployment) -> VariantSearch:
    search = VariantSearch(graph, contract(graph, Family.CHAIN, deployment), deployment, Objective.THROUGHPUT)
    search.run()
    return search


@st.composite
def three_classes(draw: st.DrawFn) -> Deployment:
    """One accelerator each of three classes and up to one CPU; prime factors, so that equal loads are rare."""
    factors = st.sampled_from((0.3, 0.7, 1.0, 1.9))

    def drawn(name: str) -> DeviceClass:
        return DeviceClass(name, 1, draw(factors), draw(st.sampled_from((None, 4.0, 7.0))), draw(factors))

    return Deployment.of_classes([drawn(name) for name in "ABC"], draw(st.integers(0, 1)))


@given(small_graphs(max_nodes=4), three_classes(), st.integers(0, 1000))
@examples(30)
def test_brute_force_agrees_on_three_classes(drawn: Drawn, deployment: Deployment, seed: int) -> None:
    instance = (with_class_times(drawn[0], seed), deployment)
    assert_optimal(solve(*instance, method="dp"), instance, best_value(*instance, Family.CHAIN, Objective.THROUGHPUT))


@given(st.integers(0, 10_000), st.integers(0, 2), st.booleans(), st.booleans())
@examples(30)
def test_the_dp_over_pairs_of_ideals_agrees(seed: int, num_cpus: int, training: bool, by_class: bool) -> None:
    graph = random_training_graph(seed, 6, irregular=True) if training else random_dag(seed, 11)
    graph = with_class_times(graph, seed) if by_class else graph
    deployment = random_classes(seed, num_cpus)
    labels, pairs = by_labels(graph, deployment), by_pairs(graph, deployment)
    assert labels.value_ms == pytest.approx(pairs.value_ms, rel=1e-6)
    assert labels.lower_bound_ms == pytest.approx(pairs.lower_bound_ms, rel=1e-6)
    if labels.device_of_block is None:
        assert labels.lower_bound_ms == math.inf
        return
    contraction = contract(graph, Family.CHAIN, deployment)
    device_of = contraction.device_of(labels.device_of_block)
    assert labels.value_ms == pytest.approx(max_load_by_definition(graph, deployment, device_of), rel=1e-9)
    assert labels.lower_bound_ms <= labels.value_ms


@given(small_graphs(max_nodes=7, min_nodes=2))
@examples(30)
def test_one_class_is_what_a_search_without_classes_finds(instance: Drawn) -> None:
    graph, deployment = instance
    if not deployment.num_accelerators:
        return
    one = DeviceClass("A", deployment.num_accelerators, memory_bytes=deployment.memory_bytes)
    plain = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment).run()
    labels = by_labels(graph, Deployment.of_classes((one,), deployment.num_cpus))
    assert labels.value_ms == pytest.approx(plain.value_ms, rel=1e-6, abs=1e-9)
    assert labels.lower_bound_ms == pytest.approx(plain.lower_bound_ms, rel=1e-6, abs=1e-9)


@given(uneven_graphs(), st.floats(0.05, 20.0), st.floats(0.05, 20.0))
@examples(40)
def test_times_of_all_sizes_lose_no_plan(drawn: Drawn, speed: float, link_speed: float) -> None:
    graph = drawn[0]
    classes = (DeviceClass("A", 1), DeviceClass("B", 1, speed, link_speed=link_speed))
    deployment = Deployment.of_classes(classes, 1)
    best = best_value(graph, deployment, Family.CHAIN, Objective.THROUGHPUT)
    search = by_labels(graph, deployment)
    assert best is not None
    assert search.value_ms == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert search.lower_bound_ms <= best * (1 + 1e-9)


@given(st.integers(0, 10_000), st.integers(0, 10_000))
@examples(40)
def test_no_plan_does_more_work_in_a_ms_than_is_reckoned(seed: int, split_seed: int) -> None:
    graph, deployment = with_class_times(random_dag(seed, 9), seed), random_classes(seed, limited=False)
    contraction = contract(graph, Family.CHAIN, deployment)
    count = np.array([c.count for c in deployment.classes])
    work, price = block_work(contraction.class_ms, count), device_prices(contraction.class_ms, count)
    assert count @ price == pytest.approx(1.0)  # so all accelerators together do a unit of work in a ms at most
    assert work.sum() > 0
    split = random_split(graph, deployment, split_seed)
    assert work.sum() <= max_load_by_definition(graph, deployment, split.device_of()) * (1 + 1e-9)
    assert work.sum() <= work_bound(contraction, deployment) * (1 + 1e-6)


def test_pinned_blocks_stay_on_their_kind_and_apart() -> None:
    graph = chain((2.0,) * 6, transfer_ms=0.0)
    deployment = Deployment.of_classes((DeviceClass("A", 1, 4.0), DeviceClass("B", 2)))
    contraction = contract(graph, Family.CHAIN, deployment, fixed=(1, 2))
    free, held = (ChainSearch(graph, contraction, deployment, pinned=pinned) for pinned in ({}, {0: 1, 1: 2}))
    assert free.run().value_ms == pytest.approx(2.0)
    held.run()
    assert held.device_of_block is not None
    assert held.device_of_block[0] != held.device_of_block[1]
    assert {held.device_of_block[0], held.device_of_block[1]} == {1, 2}
    assert held.value_ms == pytest.approx(2.0)


def test_the_kernel_is_the_same_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = with_class_times(random_training_graph(4, 5, irregular=True), 4)
    classes = (DeviceClass("A", 1, 2.0, 12.0, 0.5), DeviceClass("B", 2))
    deployment = Deployment.of_classes(classes, 1)
    compiled = by_labels(graph, deployment)
    for module in (label_kernel, label_search):
        for name, function in vars(module).items():
            if hasattr(function, "py_func"):
                monkeypatch.setattr(module, name, function.py_func)
    with np.errstate(over="ignore"):
        interpreted = by_labels(graph, deployment)
    assert interpreted.device_of_block == compiled.device_of_block
    assert (interpreted.value_ms, interpreted.lower_bound_ms) == (compiled.value_ms, compiled.lower_bound_ms)


def test_tables_that_are_full_end_the_search_with_what_is_proven() -> None:
    graph, deployment = random_dag(1, 16, 0.3), random_classes(1, 1, limited=False)
    contraction = contract(graph, Family.CHAIN, deployment)
    full = ChainSearch(graph, contraction, deployment).run()
    cramped = ChainSearch(graph, contraction, deployment, max_bytes=90_000).run()
    assert full.device_of_block is not None
    assert cramped.lower_bound_ms <= full.value_ms
    assert cramped.value_ms >= full.lower_bound_ms
    assert cramped.lower_bound_ms < cramped.value_ms * 0.999


def test_ten_classes_are_told_apart() -> None:
    graph = chain(tuple(float(2**i) for i in range(10)), transfer_ms=0.0)
    deployment = Deployment.of_classes([DeviceClass(f"c{i}", 1, float(2**i)) for i in range(10)])
    result = solve(graph, deployment, method="dp")
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(1.0)
    assert isinstance(result.split, Split)
    assert not check_split(graph, deployment, result.split, Family.CHAIN)
    assert objective_value(graph, deployment, result.split, Objective.THROUGHPUT) == pytest.approx(1.0)
