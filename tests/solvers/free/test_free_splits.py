"""Free and convex solves at any time: bounds hold, plans are valid and no worse, and Cancel ends all of it."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.chain.label_kernel import FULL
from solvers.chain.label_search import ThresholdSearch
from solvers.formats.graph_json import read_graph
from solvers.free import bounds as free_bounds
from solvers.free import column_generation
from solvers.free.anytime import PlansAndBounds
from solvers.free.bounds import FreeBounds
from solvers.free.column_generation import DeviceContents
from solvers.free.patterns import Paths
from solvers.methods.throughput import FEW_ROWS, SECONDS_PER_ROW
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import Progress, SolveCancelled, SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import contract
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    class_deployments,
    convex_witness,
    dag,
    random_dag,
    small_graphs,
    with_class_times,
)
from tests.support.reference import all_splits, best_value


def raised(graph: DnnGraph, deployment: Deployment, value_ms: float, family: Family = Family.FREE) -> float:
    """Return the bound after all means of raising it; where prices do not come to an end they get 100 rounds."""
    contraction = contract(graph, family, deployment)
    convex_in = graph if family is Family.CONVEX else None
    bounds = FreeBounds(contraction, deployment, work_bound(contraction, deployment), convex_in)
    bounds.raise_by_cuts(value_ms, lambda: True)
    bounds.raise_by_work(value_ms, lambda: True)
    with patch.object(column_generation, "ASCENT_ROUNDS", 100):
        bounds.raise_by_prices(lambda: value_ms, 0.0, lambda: True, lambda: 0.2)
    return bounds.lower_bound_ms


@given(small_graphs(max_nodes=5, max_cpus=2))
@examples(20, deadline=None)
def test_bounds_are_below_the_optimum(instance: tuple[DnnGraph, Deployment]) -> None:
    for communication in Communication:
        graph, deployment = instance
        deployment = Deployment(
            deployment.num_accelerators, deployment.num_cpus, deployment.memory_bytes, communication
        )
        best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
        if best is not None:
            assert raised(graph, deployment, best) <= best
            assert raised(graph, deployment, 1.3 * best) <= best


@pytest.mark.parametrize("seed", range(30))
def test_merged_blocks_that_are_kept_divide_no_split_below_the_threshold(seed: int) -> None:
    """Whatever thresholds come one after the other, those of a lower one must not be taken for a higher one."""
    deployment = Deployment(2, seed % 2)
    drawn = random_dag(seed, 7)  # with transfers so dear that blocks must be together
    graph = replace(drawn, nodes=tuple(replace(node, transfer_ms=4 * node.transfer_ms) for node in drawn.nodes))
    contraction = contract(graph, Family.FREE, deployment)
    bounds = FreeBounds(contraction, deployment, 0.0)
    rng = np.random.default_rng(seed)
    splits = [
        (value, split) for split in all_splits(graph, deployment) if (value := load_of_split(graph, deployment, split))
    ]
    value_ms = 2.0 * min(value for value, _ in splits)
    for i, threshold_ms in enumerate((value_ms * rng.uniform(0.4, 1, 8)).tolist()):
        with patch.object(free_bounds, "FEW_MORE", 100.0 if i % 2 else 0.0):
            blocks = bounds._blocks_below(threshold_ms, value_ms)
            below = [split.device_of() for value, split in splits if value < threshold_ms * (1 - 1e-6)]
            if blocks is None:
                assert not below
                continue
            for device_of in below:
                device = np.array([device_of[ids[0]] for ids in contraction.members])
                assert all(len(set(device[blocks.parts == part].tolist())) == 1 for part in set(blocks.parts.tolist()))


def load_of_split(graph: DnnGraph, deployment: Deployment, split: Split) -> float | None:
    """Return the max-load of a split that is valid."""
    if check_split(graph, deployment, split, Family.FREE):
        return None
    return objective_value(graph, deployment, split, Objective.THROUGHPUT)


@given(small_graphs(max_nodes=5, max_cpus=2, backward=True), st.sampled_from(Communication))
@examples(30, deadline=None)
def test_bounds_of_convex_splits_are_below_their_optimum(
    instance: tuple[DnnGraph, Deployment], communication: Communication
) -> None:
    graph, deployment = instance[0], replace(instance[1], communication=communication)
    best = best_value(graph, deployment, Family.CONVEX, Objective.THROUGHPUT)
    if best is not None:
        assert raised(graph, deployment, best, Family.CONVEX) <= best
        assert raised(graph, deployment, 1.3 * best, Family.CONVEX) <= best


def test_graphs_too_wide_for_convex_sets_get_the_bounds_of_free_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.free.patterns.MAX_WHOLE_WITH_PATHS", 2)
    monkeypatch.setattr("solvers.free.patterns.MAX_NODES", (2,))
    for seed in range(3):
        graph, deployment = random_dag(seed, num_nodes=6, edge_probability=0.5), Deployment(2, seed % 2)
        best = best_value(graph, deployment, Family.CONVEX, Objective.THROUGHPUT)
        contraction = contract(graph, Family.CONVEX, deployment)
        assert DeviceContents(contraction, deployment, paths=Paths.of(contraction, graph)).forgets_paths
        assert best is not None
        assert 0 < raised(graph, deployment, best, Family.CONVEX) <= best


def test_prices_of_convex_sets_prove_what_those_of_free_sets_cannot() -> None:
    """Long and short nodes in turn: both long ones of a device are together only if what is between them is too."""
    graph = chain([6.0, 1.0, 6.0, 1.0, 6.0, 1.0], transfer_ms=0.0)
    assert best_value(graph, Deployment(2), Family.FREE, Objective.THROUGHPUT) == pytest.approx(12.0)
    assert best_value(graph, Deployment(2), Family.CONVEX, Objective.THROUGHPUT) == pytest.approx(13.0)
    assert raised(graph, Deployment(2), 13.0, Family.CONVEX) == pytest.approx(13.0, rel=1e-4)


@given(small_graphs(max_nodes=4), class_deployments(), st.sampled_from(Communication), st.sampled_from((1.0, 1.3)))
@examples(15, deadline=None)
def test_bounds_with_classes_are_below_the_optimum(
    drawn: tuple[DnnGraph, Deployment], deployment: Deployment, communication: Communication, factor: float
) -> None:
    graph, deployment = with_class_times(drawn[0], 1), replace(deployment, communication=communication)
    best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
    if best is not None:
        assert raised(graph, deployment, factor * best) <= best


def test_the_bound_knows_how_many_devices_are_slow() -> None:
    """Taken for fast ones all six would need 12 / 6 = 2 ms; one holds 8 of the 12 blocks within 4 ms."""
    graph = dag([4.0] * 12, [], transfer_ms=0.0)
    deployment = Deployment.of_classes((DeviceClass("fast", 1, 8.0), DeviceClass("slow", 4)))
    result = solve(graph, deployment, family=Family.FREE, time_limit_s=20.0)
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(4.0)
    assert raised(graph, deployment, 4.0) == pytest.approx(4.0, rel=1e-4)


@given(small_graphs(max_nodes=4, backward=True))
@examples(20, deadline=None)
def test_bounds_are_below_the_best_gpipe_time_of_chains(instance: tuple[DnnGraph, Deployment]) -> None:
    for communication in Communication:
        graph, deployment = instance[0], replace(instance[1], communication=communication)
        best = best_value(graph, deployment, Family.CHAIN, Objective.GPIPE)
        if best is not None:
            assert raised(graph, deployment, best) <= best


def test_nothing_to_prove_is_seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that takes no time leaves a bound of zero; halving thresholds towards it would go on to the last digit."""
    nodes = tuple(Node(v, 0.0, 9.0, memory_bytes=1.0, transfer_ms=1.5) for v in range(6))
    graph = DnnGraph(nodes, ((Edge(0, 1)), Edge(2, 3), Edge(4, 5)))
    deployment = Deployment(2, 0, 3.0, Communication.OVERLAPPED)
    bounds = FreeBounds(contract(graph, Family.FREE, deployment), deployment, 0.0)
    thresholds: list[float] = []

    def prove(threshold_ms: float, *_: object) -> bool:
        thresholds.append(threshold_ms)
        return False

    monkeypatch.setattr(bounds, "_prove", prove)
    bounds.raise_by_prices(lambda: 1.5, 0.0, lambda: True, lambda: 1.0)
    assert 0 < len(thresholds) < 20
    assert bounds.lower_bound_ms == 0


@pytest.mark.parametrize("family", [Family.FREE, Family.CONVEX])
@pytest.mark.parametrize("num_cpus", [0, 1])
def test_prices_go_on_after_they_were_told_to_stop(family: Family, num_cpus: int) -> None:
    """What is kept of an earlier call must not go on asking the watch of that call, which has said stop for good."""
    graph, deployment = chain([6.0, 1.0, 6.0, 1.0, 6.0, 1.0], transfer_ms=0.0), Deployment(2, num_cpus)
    best = best_value(graph, deployment, family, Objective.THROUGHPUT)
    assert best is not None
    convex_in = graph if family is Family.CONVEX else None
    bounds = FreeBounds(contract(graph, family, deployment), deployment, 0.0, convex_in)
    is_over = False
    assert bounds.num_nodes(lambda: not is_over)
    assert bounds.lower_bound_ms == 0.0
    is_over = True
    bounds.raise_by_prices(lambda: 1.5 * best, 0.0, lambda: not is_over, lambda: 10.0)
    bounds.raise_by_prices(lambda: best, 0.0, lambda: True, lambda: 10.0)
    assert bounds.lower_bound_ms == pytest.approx(best, rel=1e-5)


class OnLinesOnly(ThresholdSearch):
    """Finds chains on one line of blocks; elsewhere it soon has too many ideals."""

    def run(self, max_bytes: int, max_steps: int | None = None) -> int:
        is_line = self._problem.predecessor_idx.size == self._problem.work.size - 1
        return super().run(max_bytes, max_steps) if is_line else FULL


def test_a_chain_problem_of_too_many_ideals_gets_the_bound_of_free_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(3, 14, 0.1), Deployment(3, 1)
    optimum = solve(graph, deployment).value_ms
    monkeypatch.setattr("solvers.chain.max_load.ThresholdSearch", OnLinesOnly)
    monkeypatch.setattr("solvers.methods.throughput._is_buildable", lambda *_: False)
    phases: list[Progress] = []
    result = solve(graph, deployment, time_limit_s=4.0, on_progress=phases.append)
    assert result.method == "dp, then ip"
    assert "The DP did not end" in result.message
    assert any(progress.phase == "improving plan and bound" for progress in phases)
    assert result.lower_bound_ms is not None
    assert result.lower_bound_ms > 1.01 * (phases[0].lower_bound_ms or 0.0)  # that of all work
    assert optimum is not None
    assert result.value_ms is not None
    assert result.lower_bound_ms <= optimum <= result.value_ms * (1 + 1e-6)


@pytest.fixture
def shares_waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The shares of its time for which an integer program waits; none of them passes."""
    shares: list[float] = []
    monkeypatch.setattr(PlansAndBounds, "wait", lambda _, share: shares.append(share))
    return shares


@pytest.mark.parametrize(("seconds_per_row", "takes_all"), [(SECONDS_PER_ROW, False), (1.0, True)])
def test_a_program_that_cannot_be_built_leaves_its_time(
    seconds_per_row: float, takes_all: bool, shares_waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solvers.methods.throughput.SECONDS_PER_ROW", seconds_per_row)
    graph = random_dag(7, num_nodes=60, edge_probability=0.1)
    result = solve(graph, Deployment(4), family=Family.FREE, time_limit_s=30.0, gap=0.3)
    assert result.split is not None
    assert (shares_waited[0] == 1) is takes_all


def test_nothing_is_begun_that_there_is_no_time_for(shares_waited: list[float]) -> None:
    graph = random_dag(7, num_nodes=60, edge_probability=0.1)
    result = solve(graph, Deployment(4), family=Family.FREE, time_limit_s=1e-4)
    assert result.split is not None
    assert shares_waited == []


@pytest.mark.parametrize(("few_rows", "begins_at_once"), [(0, False), (1_000, True)])
def test_a_program_of_few_rows_waits_for_nothing(
    few_rows: int, begins_at_once: bool, shares_waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solvers.methods.throughput.FEW_ROWS", few_rows)
    solve(random_dag(4, num_nodes=12), Deployment(3), family=Family.FREE, time_limit_s=30.0)
    assert (shares_waited[0] == 0) == begins_at_once


@pytest.mark.parametrize("few_rows", [0, FEW_ROWS])
@pytest.mark.parametrize("family", [Family.FREE, Family.CONVEX])
@pytest.mark.parametrize("communication", list(Communication))
def test_solves_to_the_optimum(
    family: Family, communication: Communication, few_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an integer program that begins at once, and with one that waits for plans and bounds."""
    monkeypatch.setattr("solvers.methods.throughput.FEW_ROWS", few_rows)
    for seed in range(4):
        graph = random_dag(seed, num_nodes=7)
        deployment = Deployment(2, seed % 2, None, communication)
        result = solve(graph, deployment, family=family)
        assert result.status is SolveStatus.OPTIMAL
        assert result.value_ms == pytest.approx(best_value(graph, deployment, family, Objective.THROUGHPUT))


def test_convex_splits_beat_chains_where_they_can() -> None:
    assert solve(convex_witness(), Deployment(2), family=Family.CONVEX).value_ms == 4.0


@pytest.mark.slow
def test_a_larger_convex_plan_is_valid_and_no_worse_than_a_chain() -> None:
    graph = random_dag(11, num_nodes=60, edge_probability=0.08)
    deployment = Deployment(4)
    pipeline = solve(graph, deployment, time_limit_s=5)
    result = solve(graph, deployment, family=Family.CONVEX, time_limit_s=3)
    assert result.split is not None
    assert result.value_ms is not None
    assert result.lower_bound_ms is not None
    assert pipeline.value_ms is not None
    assert not check_split(graph, deployment, result.split, Family.CONVEX)
    assert result.lower_bound_ms <= result.value_ms <= pipeline.value_ms


def test_cancel_leaves_no_thread() -> None:
    graph = random_dag(7, num_nodes=80, edge_probability=0.1)
    seen: list[Progress] = []

    def cancel(progress: Progress) -> None:
        seen.append(progress)
        if progress.phase == "better plans and bounds" and len(seen) > 3:
            raise SolveCancelled

    before = threading.active_count()
    result = solve(graph, Deployment(3, 1), family=Family.FREE, on_progress=cancel)
    assert result.message.startswith("Cancelled")
    assert result.split is not None
    assert threading.active_count() == before


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bert24_layer_inference", marks=pytest.mark.slow),
        pytest.param("bert24_layer_training", marks=pytest.mark.slow),
        "bert_l-3_operator_inference",
        "bert_l-3_operator_training",
    ],
)
def test_the_paper_s_free_splits_are_proven(paper_workloads: Path, name: str) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["throughput"][name]
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    result = solve(graph, deployment, family=Family.FREE, gap=0.005)
    assert result.value_ms is not None
    assert result.lower_bound_ms is not None
    assert result.value_ms <= known["free_best_known_ms"] * (1 + 1e-3)
    assert result.lower_bound_ms >= result.value_ms * (1 - 0.00501)
    assert result.lower_bound_ms <= known["free_best_known_ms"] * (1 + 1e-6)
