"""More hardware never gives a worse plan where the solve starts from the plan known, however early it ends."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.what_if import carried_over
from solvers.chain.ending import Ending
from solvers.chain.improvement import ChainImprovement
from solvers.chain.max_load import ChainSearch
from solvers.free.anytime import PlansAndBounds, PlanSearch
from solvers.latency.bound import latency_bound
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.problem.contraction import Contraction, contract
from solvers.problem.solving import Problem, Reporter
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import random_chain_split, random_dag
from tests.support.reference import best_latency

Question = tuple[DnnGraph, Deployment]

EASIER: dict[str, Callable[[DnnGraph, Deployment], Question]] = {
    "accelerator": lambda graph, on: (graph, replace(on, num_accelerators=on.num_accelerators + 1)),
    "CPU": lambda graph, on: (graph, replace(on, num_cpus=on.num_cpus + 1)),
    "memory": lambda graph, on: (graph, replace(on, memory_bytes=2 * (on.memory_bytes or 1.0))),
    "bandwidth": lambda graph, on: (graph.with_bandwidth_factor(2.0), on),
}


@pytest.mark.parametrize("more", EASIER)
@given(seed=st.integers(0, 10**6), num_cpus=st.integers(0, 1), family=st.sampled_from(list(Family)))
@examples(10, deadline=None)
def test_more_hardware_never_gives_a_worse_plan(more: str, seed: int, num_cpus: int, family: Family) -> None:
    """Chains are splits of every family."""
    graph, deployment = random_dag(seed, num_nodes=12, edge_probability=0.2), Deployment(2, num_cpus, 60.0)
    known = solve(graph, deployment)
    easier_graph, easier = EASIER[more](graph, deployment)
    if known.split is None:
        return
    start = carried_over(known.split, deployment, easier)
    result = solve(easier_graph, easier, family=family, time_limit_s=0.0, start=start)
    assert known.value_ms is not None
    assert result.value_ms is not None
    assert result.value_ms <= known.value_ms
    # A bound that holds for the easier question holds for the harder one.
    if family is Family.CHAIN:
        bound_ms = solve(easier_graph, easier, start=start).lower_bound_ms
        assert bound_ms is not None
        assert bound_ms <= known.value_ms * (1 + 1e-9)


@pytest.mark.parametrize("more", EASIER)
@given(seed=st.integers(0, 10**6), num_cpus=st.integers(0, 1))
@examples(8, deadline=None)
def test_more_hardware_never_makes_a_sample_slower(more: str, seed: int, num_cpus: int) -> None:
    graph, deployment = random_dag(seed, num_nodes=7, edge_probability=0.25), Deployment(2, num_cpus, 30.0)
    known = solve(graph, deployment, objective=Objective.LATENCY)
    easier_graph, easier = EASIER[more](graph, deployment)
    if known.split is None:
        return
    start = carried_over(known.split, deployment, easier)
    result = solve(easier_graph, easier, objective=Objective.LATENCY, time_limit_s=0.0, start=start)
    assert known.value_ms is not None
    assert result.value_ms is not None
    assert result.value_ms <= known.value_ms
    bound_ms = latency_bound(easier_graph, easier)
    assert bound_ms <= known.value_ms * (1 + 1e-9)


@given(seed=st.integers(0, 10**6))
@examples(5, deadline=None)
def test_a_freer_split_is_never_worse_than_the_stricter_one_it_starts_from(seed: int) -> None:
    graph, deployment = random_dag(seed, num_nodes=9, edge_probability=0.2), Deployment(2, 1)
    known = solve(graph, deployment)
    for family in (Family.CONVEX, Family.FREE):
        freer = solve(graph, deployment, family=family, time_limit_s=0.3, start=known.split)
        assert freer.value_ms is not None
        assert known.value_ms is not None
        assert freer.value_ms <= known.value_ms
        known = freer


@given(seed=st.integers(0, 10**6), k=st.integers(1, 2))
@examples(20, deadline=None)
def test_a_latency_bound_for_more_accelerators_holds_for_fewer(seed: int, k: int) -> None:
    graph = random_dag(seed, num_nodes=6)
    best_ms = best_latency(graph, Deployment(k, 1, 8.0))
    assert best_ms is not None
    assert latency_bound(graph, Deployment(2 * k, 1, 8.0)) <= best_ms * (1 + 1e-9)


@pytest.fixture
def dp_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the DP end with a poor chain, and no integer program begin."""

    def stopped(
        contraction: Contraction, problem: Problem, reporter: Reporter, seconds: float | None, **_: object
    ) -> Ending:
        reporter.found(random_chain_split(problem.graph, problem.deployment, 0))
        return Ending.STOPPED

    monkeypatch.setattr("solvers.methods.throughput.run_dp", stopped)
    monkeypatch.setattr("solvers.methods.throughput._is_buildable", lambda *_: False)


@pytest.mark.usefixtures("dp_that_does_not_end")
@pytest.mark.parametrize("family", [Family.CONVEX, Family.FREE])
@pytest.mark.parametrize("seed", range(3))
def test_a_freer_split_begins_with_a_good_chain_where_the_dp_does_not_end(
    seed: int, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every block free the improvement ends at the best chain; nothing else looks for plans here."""
    graph, deployment = random_dag(seed, 12, 0.3), Deployment(3, seed % 2)
    best_ms = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment).run().value_ms
    monkeypatch.setattr(ChainImprovement, "_free_blocks", lambda self, count: set(range(len(self._ahead))))
    monkeypatch.setattr(PlansAndBounds, "search_plans", lambda *_: None)
    result = solve(graph, deployment, family=family, time_limit_s=5.0)
    assert result.value_ms is not None
    poor_ms = split_costs(graph, deployment, random_chain_split(graph, deployment, 0)).max_load_ms
    assert result.value_ms <= best_ms * (1 + 2e-6) < poor_ms


@pytest.mark.usefixtures("dp_that_does_not_end")
@pytest.mark.parametrize("family", [Family.CONVEX, Family.FREE])
def test_with_a_cpu_the_search_begins_from_what_is_good_without_it(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[tuple[int, PlanSearch, float]] = []

    class Noted(PlanSearch):
        def __init__(self, contraction: Contraction, problem: Problem, *others: Any) -> None:
            super().__init__(contraction, problem, *others)
            searches.append((problem.deployment.num_cpus, self, self._annealing.value_ms))

    monkeypatch.setattr("solvers.free.anytime.PlanSearch", Noted)
    result = solve(random_dag(5, 60, 0.1), Deployment(3, 1), family=family, time_limit_s=2.0)
    assert [num_cpus for num_cpus, *_ in searches] == [0, 1]
    (_, without, _), (_, _, begins_at_ms) = searches
    assert result.value_ms is not None
    assert result.value_ms <= begins_at_ms <= without._annealing.value_ms * (1 + 1e-9)
