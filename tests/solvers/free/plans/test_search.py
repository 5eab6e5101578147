"""The search for plans hands over valid ones, ends by itself, and combines what it meets."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free.column_generation import DeviceContents
from solvers.free.merged_blocks import Prices
from solvers.free.plans.annealing import Annealing
from solvers.free.plans.population import Population
from solvers.free.plans.search import PlanSearch
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, check_split
from solvers.problem.contraction import IntArray, contract
from solvers.problem.pins import Pins
from solvers.problem.solving import Problem, contracted
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import random_dag, small_graphs
from tests.support.reference import best_value

SECONDS = 60.0
"""More than any of these searches takes: one that does not end is a fault."""


def search_from_one_device(
    graph: DnnGraph, deployment: Deployment, family: Family = Family.FREE, pins: Pins | None = None
) -> PlanSearch:
    """Return a search that starts with all on device 0 but for what is pinned, with work as prices."""
    problem = Problem(graph, deployment, Objective.THROUGHPUT, family, None, 0.0, pins=pins or Pins())
    contraction = contracted(problem, family)
    n = contraction.num_blocks
    prices = Prices(DeviceContents(contraction, deployment), contraction.accelerator_ms, np.arange(n), 0.0)
    device_of = {node.id: problem.pins.device_of.get(node.id, 0) for node in graph.nodes}
    return PlanSearch(contraction, problem, device_of, lambda: prices)


@pytest.mark.parametrize("family", [Family.FREE, Family.CONVEX])
@pytest.mark.parametrize("pins", [Pins(), Pins(devices=((0, 0), (19, 2)))])
def test_plans_are_valid_and_ever_better_until_the_optimum(family: Family, pins: Pins) -> None:
    graph, deployment = random_dag(4, num_nodes=20, edge_probability=0.15), Deployment(3, 1)
    proven = solve(graph, deployment, family=family, pins=pins)
    assert proven.status is SolveStatus.OPTIMAL
    assert proven.value_ms is not None
    search = search_from_one_device(graph, deployment, family, pins)
    search.start()
    values = [np.inf]
    until = time.monotonic() + SECONDS
    while values[-1] > proven.value_ms * (1 + 1e-9) and time.monotonic() < until:
        split = search.take()
        if split is not None:
            assert not check_split(graph, deployment, split, family)
            assert all(split.device_of()[v] == d for v, d in pins.devices)
            values.append(split_costs(graph, deployment, split).max_load_ms)
            assert values[-1] < values[-2]
    search.stop()
    assert not search.is_running
    assert values[-1] == pytest.approx(proven.value_ms)


def test_a_search_of_a_small_problem_ends_at_the_optimum() -> None:
    for seed in range(3):
        graph, deployment = random_dag(seed, num_nodes=6), Deployment(2, seed % 2)
        search = search_from_one_device(graph, deployment)
        search.start()
        until = time.monotonic() + SECONDS
        while search.is_running and time.monotonic() < until:
            time.sleep(0.01)
        assert not search.is_running
        split = search.take()
        assert split is not None
        best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
        assert split_costs(graph, deployment, split).max_load_ms == pytest.approx(best)
        search.stop()


def test_a_failure_is_raised_where_the_search_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> IntArray:
        raise ZeroDivisionError

    monkeypatch.setattr(Annealing, "combine", failing)
    search = search_from_one_device(random_dag(1, num_nodes=12), Deployment(2))
    search.start()
    while search.is_running:
        time.sleep(0.01)
    with pytest.raises(ZeroDivisionError):
        search.stop()


def test_plans_that_are_combined_are_valid_and_different(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[tuple[IntArray, IntArray]] = []
    combine = Annealing.combine

    def noted(annealing: Annealing, first: IntArray, second: IntArray) -> IntArray:
        pairs.append((first, second))
        return combine(annealing, first, second)

    monkeypatch.setattr(Annealing, "combine", noted)
    search = search_from_one_device(random_dag(2, num_nodes=30, edge_probability=0.1), Deployment(3))
    search.start()
    until = time.monotonic() + SECONDS
    while len(pairs) < 5 and time.monotonic() < until:
        time.sleep(0.01)
    search.stop()
    assert len(pairs) >= 5
    assert all((first != second).any() for first, second in pairs)


@given(small_graphs(max_nodes=8), st.sampled_from((Family.FREE, Family.CONVEX)), st.integers(0, 2))
@examples(40)
def test_blocks_are_the_same_with_cpus_and_without(
    instance: tuple[DnnGraph, Deployment], family: Family, num_cpus: int
) -> None:
    """Prices and plans of one are those of the other."""
    graph, deployment = instance
    first, second = (contract(graph, family, replace(deployment, num_cpus=count)) for count in (0, num_cpus))
    assert first.members == second.members
    assert first.hyperedges == second.hyperedges
    assert (first.memory_bytes == second.memory_bytes).all()


def test_plans_found_on_the_accelerators_alone_are_combined_with_those_with_cpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = random_dag(2, num_nodes=30, edge_probability=0.1)
    without = search_from_one_device(graph, Deployment(3))
    without.start()
    until = time.monotonic() + SECONDS
    while without.take() is None and time.monotonic() < until:
        time.sleep(0.01)
    without.stop()
    without._islands._kept = [np.arange(30, dtype=np.int32) % 3]  # as while a population is apart
    search = search_from_one_device(graph, Deployment(3, 1))
    start = {tuple(device) for device in search._islands.devices}
    search.take_in(without)
    known = {tuple(device) for device in search._islands.devices} - start
    assert known == {tuple(device) for device in without._islands.devices} - start
    assert len(known) > 1
    met: list[IntArray] = []
    monkeypatch.setattr(Annealing, "combine", lambda _, first, second: met.extend((first, second)) or first)
    search.start()
    while not known & {tuple(device) for device in met} and time.monotonic() < until:
        time.sleep(0.01)
    search.stop()
    assert known & {tuple(device) for device in met}


def test_a_round_looks_near_the_best_plan_only_where_the_population_is_not_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = search_from_one_device(random_dag(2, num_nodes=20, edge_probability=0.1), Deployment(3))
    is_apart: list[bool] = []
    sweep = Annealing.sweep
    monkeypatch.setattr(Annealing, "sweep", lambda one: is_apart.append(search._islands.is_apart) or sweep(one))
    for _ in range(30):
        search._round()
    assert len(is_apart) < 30
    assert not any(is_apart)


def test_the_best_plan_is_no_part_of_a_population_apart_from_it() -> None:
    search = search_from_one_device(random_dag(2, num_nodes=20, edge_probability=0.1), Deployment(3))
    end = np.arange(20, dtype=np.int32) % 3
    kept = [np.ones(20, np.int32)]
    for is_apart, expected in ((True, {(1,) * 20, tuple(end)}), (False, {tuple(end), (0,) * 20})):
        search._islands._population = Population(search._annealing.problem)
        search._islands._kept = kept if is_apart else []
        search._note(end)
        assert {tuple(device) for device in search._islands.devices} == expected


def test_without_prices_no_population_is_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would come into it."""
    monkeypatch.setattr("solvers.free.plans.population.STALE_ROUNDS", 1)
    search = search_from_one_device(random_dag(2, num_nodes=20, edge_probability=0.1), Deployment(3))
    prices = search._prices
    while not search._islands.is_apart:
        assert search._round()
    search._prices = lambda: None
    for _ in range(3):
        assert search._round()
        assert not search._islands.is_apart
    search._prices = prices
    while not search._islands.is_apart:
        assert search._round()
