"""Improving chains: valid, never worse, and optimal where every block is free."""

import random
import time

import pytest

from solvers.chain_improvement import ChainImprovement
from solvers.chain_search import ThresholdSearch
from solvers.contraction import Contraction, contract
from solvers.costs import Objective, split_costs
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.result import LOADING, SolveStatus
from solvers.solve import solve
from solvers.split import Family, Split, check_split
from solvers.throughput_dp import ChainSearch
from solvers.variant_dp import VariantSearch
from tests.graphs import random_chain_split, random_dag, random_training_graph


def start_of(graph: DnnGraph, contraction: Contraction, deployment: Deployment, seed: int) -> dict[int, int]:
    """Return a random chain by block."""
    device_of = random_chain_split(graph, deployment, seed).device_of()
    return {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)}


@pytest.mark.parametrize("seed", range(6))
def test_sweeps_give_better_and_better_chains(seed: int) -> None:
    graph = random_training_graph(seed, 12) if seed % 2 else random_dag(seed, 20, 0.15)
    deployment = Deployment(3, seed % 3)
    contraction = contract(graph, Family.CHAIN, deployment)
    improvement = ChainImprovement(contraction, deployment, start_of(graph, contraction, deployment, seed), seed)
    for _ in range(8):
        before = improvement.value_ms
        is_better = improvement.sweep()
        assert (improvement.value_ms < before) is is_better
        split = Split.from_device_of(contraction.device_of(improvement.device_of_block), deployment)
        assert not check_split(graph, deployment, split, Family.CHAIN)
        assert split_costs(graph, deployment, split).max_load_ms == pytest.approx(improvement.value_ms)


@pytest.mark.parametrize("seed", range(6))
def test_with_every_block_free_the_optimum_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(seed, 12, 0.3), Deployment(3, seed % 2)
    monkeypatch.setattr("solvers.chain_improvement.FIRST_FREE", 12)
    monkeypatch.setattr("solvers.chain_improvement.SLOW_SECONDS", float("inf"))
    monkeypatch.setattr("solvers.chain_improvement.PATIENCE", 1)
    monkeypatch.setattr(ChainImprovement, "_free_blocks", lambda self, count: set(range(count)))
    contraction = contract(graph, Family.CHAIN, deployment)
    improvement = ChainImprovement(contraction, deployment, start_of(graph, contraction, deployment, seed), seed)
    improvement.run()
    optimum = ChainSearch(contraction, deployment).run().value_ms
    assert improvement.value_ms == pytest.approx(optimum, rel=2e-6)


@pytest.mark.parametrize("seed", range(30))
def test_two_dynamic_programs_agree(seed: int) -> None:
    """The one made for the plain model and the one for its variants share no code that looks for chains."""
    rng = random.Random(seed)  # noqa: S311
    size, density = rng.randrange(8, 20), rng.choice((0.1, 0.2, 0.4))
    graph = random_training_graph(seed, size // 2, density, irregular=True)
    if seed % 3:
        graph = random_dag(seed, size, density)
    total_bytes = sum(node.memory_bytes for node in graph.nodes)
    memory = rng.choice((None, total_bytes * rng.uniform(0.2, 1.0)))
    deployment = Deployment(rng.randrange(1, 6), rng.randrange(3), memory)
    contraction = contract(graph, Family.CHAIN, deployment)
    plain = ChainSearch(contraction, deployment).run()
    general = VariantSearch(graph, contraction, deployment, Objective.THROUGHPUT)
    general.run()
    assert plain.value_ms == pytest.approx(general.value_ms, rel=1e-6)
    assert plain.lower_bound_ms == pytest.approx(plain.value_ms, rel=1e-6)


def test_too_many_ideals_still_give_a_plan_and_a_bound() -> None:
    graph, deployment = random_dag(3, 80, 0.04), Deployment(4, 1)
    result = solve(graph, deployment, time_limit_s=3)
    assert result.status is SolveStatus.FEASIBLE
    assert result.split is not None
    assert not check_split(graph, deployment, result.split, Family.CHAIN)
    assert result.lower_bound_ms is not None
    assert result.value_ms is not None
    assert 0 < result.lower_bound_ms < result.value_ms


def test_loading_is_a_phase_of_its_own() -> None:
    graph, deployment = random_dag(1, 8), Deployment(2)
    search = ChainSearch(contract(graph, Family.CHAIN, deployment), deployment)
    assert search.phase == LOADING
    phases: list[str] = []
    solve(graph, deployment, method="dp", on_progress=lambda progress: phases.append(progress.phase))
    assert phases[0] == LOADING
    search.run()
    assert search.phase.startswith("DP over ideals")


def test_a_search_ends_when_ideals_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(3, 18, 0.15), Deployment(3)
    contraction = contract(graph, Family.CHAIN, deployment)
    full = ChainSearch(contraction, deployment).run()
    assert full.num_ideals > 100
    monkeypatch.setattr("solvers.chain_search.FIRST_ROWS", 4)
    monkeypatch.setattr("solvers.chain_search.MAX_IDEALS", 50)
    answer = ChainSearch(contraction, deployment).run()
    assert answer.num_ideals <= 100
    assert answer.lower_bound_ms < full.value_ms <= answer.value_ms


def test_the_first_plan_outlasts_the_share_of_the_dp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is compiled first takes seconds; the plan must come all the same."""
    run = ThresholdSearch.run

    def slow_run(self: ThresholdSearch, max_bytes: int) -> int:
        if not is_delayed:
            is_delayed.append(True)
            time.sleep(1.5)
        return run(self, max_bytes)

    is_delayed: list[bool] = []
    monkeypatch.setattr(ThresholdSearch, "run", slow_run)
    result = solve(random_dag(3, 80, 0.04), Deployment(4, 1), time_limit_s=2.5)
    assert result.split is not None
