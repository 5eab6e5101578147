"""Annealing keeps its books right, breaks no rule, and never loses ground."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.formats.graph_json import read_graph
from solvers.free.plans import annealing as annealing_module
from solvers.free.plans.annealing import Annealing
from solvers.free.plans.coarsening import clusters
from solvers.free.plans.device_sets import device_sets
from solvers.free.plans.flat_problem import (
    FlatProblem,
    ForwardOrder,
    count_ends,
    fill_parts,
    flat_problem,
    largest_load,
)
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import contract
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import chain, random_dag, small_graphs
from tests.support.reference import all_splits, best_value


def annealed(instance: tuple[DnnGraph, Deployment], sweeps: int) -> tuple[float, float, Split] | None:
    """Return the chain optimum, the value after some sweeps and its split; None if no chain fits."""
    graph, deployment = instance
    start = solve(graph, deployment, method="dp")
    if start.split is None or start.value_ms is None:
        return None
    contraction = contract(graph, Family.FREE, deployment)
    device_of = start.split.device_of()
    annealing = Annealing(contraction, deployment, {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)})
    for _ in range(sweeps):
        annealing.sweep()
    split = Split.from_device_of(contraction.device_of(dict(enumerate(annealing.best[1].tolist()))), deployment)
    return start.value_ms, annealing.value_ms, split


@given(small_graphs(max_nodes=6))
@examples(25)
def test_plans_are_valid_and_worth_what_is_said(instance: tuple[DnnGraph, Deployment]) -> None:
    answer = annealed(instance, sweeps=1)
    if answer is None:
        return
    chain_ms, value_ms, split = answer
    assert not check_split(*instance, split, Family.FREE)
    assert value_ms == pytest.approx(split_costs(*instance, split).max_load_ms)
    best = best_value(*instance, Family.FREE, Objective.THROUGHPUT)
    assert best is not None
    assert best - 1e-9 <= value_ms <= chain_ms + 1e-9


def test_memory_is_kept_on_a_tight_machine() -> None:
    graph = random_dag(4, num_nodes=40, edge_probability=0.3)
    memory = 1.15 * sum(node.memory_bytes for node in graph.nodes) / 3
    answer = annealed((graph, Deployment(3, 0, memory)), sweeps=6)
    assert answer is not None
    assert not check_split(graph, Deployment(3, 0, memory), answer[2])


@given(small_graphs(max_nodes=6), st.booleans(), st.integers(0, 1000))
@examples(25)
def test_combined_plans_are_valid_and_no_better_than_the_best_one_said(
    instance: tuple[DnnGraph, Deployment], is_convex: bool, seed: int
) -> None:
    graph, deployment = instance
    family = Family.CONVEX if is_convex else Family.FREE
    contraction = contract(graph, family, deployment)
    plans = [
        np.array([device_of[ids[0]] for ids in contraction.members], np.int32)
        for split in all_splits(graph, deployment)
        for device_of in [split.device_of()]
        if all(device_of[v] == device_of[ids[0]] for ids in contraction.members for v in ids)
        and not check_split(graph, deployment, split, family)
    ]
    if not plans:
        return
    first, second = (plans[i] for i in np.random.default_rng(seed).integers(len(plans), size=2))
    pinned = [b for b in range(contraction.num_blocks) if first[b] == second[b]][:1]
    start = dict(enumerate(first.tolist()))
    annealing = Annealing(contraction, deployment, start, seed, graph if is_convex else None, pinned)
    end = annealing.combine(first, second)
    value_ms, best = annealing.best
    for device in (end, best):
        split = Split.from_device_of(contraction.device_of(dict(enumerate(device.tolist()))), deployment)
        assert not check_split(graph, deployment, split, family)
        assert (device[pinned] == first[pinned]).all()
        assert split_costs(graph, deployment, split).max_load_ms >= value_ms - 1e-9
    assert value_ms == pytest.approx(split_costs(graph, deployment, split).max_load_ms)


def test_clusters_of_two_plans_are_divided_by_neither() -> None:
    contraction = contract(random_dag(6, num_nodes=60, edge_probability=0.1), Family.FREE, Deployment(3))
    rng = np.random.default_rng(0)
    first, second = rng.integers(3, size=(2, contraction.num_blocks))
    cluster_of = clusters(contraction, 3 * first + second, 6, np.inf, rng)
    devices_of: dict[int, set[tuple[int, int]]] = {}
    for b, cluster in enumerate(cluster_of):
        devices_of.setdefault(cluster, set()).add((int(first[b]), int(second[b])))
    assert all(len(devices) == 1 for devices in devices_of.values())
    assert len(devices_of) < contraction.num_blocks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gnmt_layer_inference", "bert_l-3_operator_inference", "bert24_layer_training"])
def test_reaches_the_best_known_free_splits_of_the_paper(paper_workloads: Path, name: str) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["throughput"][name]
    answer = annealed(read_graph(paper_workloads / "throughput" / f"{name}.json"), sweeps=30)
    assert answer is not None
    assert answer[1] <= known["free_best_known_ms"] * (1 + 1e-5)
    assert answer[1] >= known["free_lower_bound_ms"] * (1 - 1e-5)


@pytest.mark.parametrize(
    ("blocks", "memory_bytes", "is_made"),
    [
        ((3, 4), None, True),
        ((1, 2), None, False),
        ((3, 4), 3.0, True),
        ((3, 4), 2.0, False),
        ((0, 1, 2, 3, 4), None, False),
    ],
)
def test_blocks_move_together_or_nothing_changes(
    blocks: tuple[int, ...], memory_bytes: float | None, is_made: bool
) -> None:
    """Of a chain of six blocks of 1 ms and 1 B: moves are made where they fit, bring relief and leave none behind."""
    graph = chain([1.0] * 6, transfer_ms=0.0)
    graph = graph.with_nodes(tuple(replace(node, memory_bytes=1.0) for node in graph.nodes))
    deployment = Deployment(2, 0, memory_bytes)
    contraction = contract(graph, Family.CONVEX, deployment)
    problem = flat_problem(contraction, deployment, ForwardOrder.of(graph), np.zeros(6, np.bool_))
    device = np.array([0, 0, 0, 0, 0, 1], np.int32)
    counts, sets, parts = count_ends(problem, device), device_sets(problem, device), np.zeros((2, 3))
    fill_parts(problem, device, counts, parts)
    loads, memory = parts.sum(axis=1), np.array([5.0, 1.0])
    energies = (loads / 5.0) ** 8
    before = [a.copy() for a in (device, counts, memory, *sets, parts, loads, energies)]
    rng = np.random.default_rng(0)
    state = problem, device, counts, memory, sets, parts, loads, energies
    made = annealing_module._move_together(*state, np.array(blocks, np.int32), 0, 1, 5.0, 3, 1e-9, rng)
    assert made == is_made
    if not made:
        assert all(
            (a == b).all() for a, b in zip(before, (device, counts, memory, *sets, parts, loads, energies), strict=True)
        )
        return
    assert device.tolist() == [0, 0, 0, 1, 1, 1]
    assert (counts == count_ends(problem, device)).all()
    assert memory.tolist() == [3.0, 3.0]
    assert (sets.nodes == device_sets(problem, device).nodes).all()
    fresh = np.zeros((2, 3))
    fill_parts(problem, device, counts, fresh)
    assert parts == pytest.approx(fresh)
    assert loads == pytest.approx(fresh.sum(axis=1))
    assert energies == pytest.approx((loads / 5.0) ** 8)


@pytest.mark.parametrize("seed", range(3))
def test_convex_plans_stay_convex_and_within_memory(seed: int) -> None:
    """On a graph of more nodes than a word has bits."""
    graph = random_dag(seed, num_nodes=90, edge_probability=0.04)
    deployment = Deployment(3, 1, 1.1 * sum(node.memory_bytes for node in graph.nodes) / 3)
    start = solve(graph, deployment, method="dp", time_limit_s=5.0)
    assert start.split is not None
    contraction = contract(graph, Family.CONVEX, deployment)
    device_of = start.split.device_of()
    of_block = {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)}
    annealing = Annealing(contraction, deployment, of_block, seed, graph)
    for _ in range(4):
        for device in (annealing.sweep(), annealing.best[1]):
            split = Split.from_device_of(contraction.device_of(dict(enumerate(device.tolist()))), deployment)
            assert not check_split(graph, deployment, split, Family.CONVEX)
    assert annealing.value_ms == pytest.approx(split_costs(graph, deployment, split).max_load_ms)
    assert annealing.value_ms < (start.value_ms or 0.0)


def test_the_same_seed_gives_the_same_plan() -> None:
    instance = (random_dag(2, num_nodes=30, edge_probability=0.3), Deployment(4, 1))
    first, second = annealed(instance, sweeps=3), annealed(instance, sweeps=3)
    assert first == second
    assert np.isfinite(first[1] if first else np.nan)


def test_a_combination_begins_at_the_first_plan() -> None:
    """Where no block may move it ends there, too."""
    contraction = contract(random_dag(6, num_nodes=40, edge_probability=0.1), Family.FREE, Deployment(3))
    n = contraction.num_blocks
    first, second = np.random.default_rng(0).integers(3, size=(2, n)).astype(np.int32)
    annealing = Annealing(contraction, Deployment(3), dict(enumerate(first.tolist())), fixed=range(n))
    for _ in range(5):
        assert (annealing.combine(first, second) == first).all()


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_that_is_worse_by_orders_of_magnitude_is_left(seed: int) -> None:
    """The energy of its devices, which all stay overfull for some moves, is beyond what a number holds."""
    graph, deployment = chain([1.0] * 8, transfer_ms=1e9), Deployment(3)
    contraction = contract(graph, Family.FREE, deployment)
    annealing = Annealing(contraction, deployment, dict.fromkeys(range(8), 0), seed)
    cuts = np.arange(8, dtype=np.int32) % 3
    assert largest_load(annealing.problem, cuts) > 1e9
    assert largest_load(annealing.problem, annealing.sweep_from(cuts)) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("meets_a_better", "ends_well", "halves"), [(False, False, 1), (False, True, 2), (True, False, 2)]
)
def test_a_sweep_goes_on_block_by_block_from_a_good_plan(
    monkeypatch: pytest.MonkeyPatch, meets_a_better: bool, ends_well: bool, halves: int
) -> None:
    contraction, start = contract(chain([1.0] * 12), Family.FREE, Deployment(3)), [0] * 7 + [1] * 5
    annealing = Annealing(contraction, Deployment(3), dict(enumerate(start)))
    begun: list[np.ndarray] = []

    def cool(problem: FlatProblem, device: np.ndarray, value: float, *_: object) -> tuple[np.ndarray, float]:
        begun.append(device.copy())
        best = device.copy()
        if meets_a_better and len(begun) == 1:
            moved = [np.where(np.arange(device.size) == b, 2, device) for b in range(device.size)]
            best = min(moved, key=lambda plan: float(largest_load(problem, plan)))
        if not ends_well:
            device[:] = 2
        return best, min(value, float(largest_load(problem, best)))

    monkeypatch.setattr(annealing_module, "_anneal", cool)
    annealing.sweep()
    assert len(begun) == halves
    assert len(begun) == 1 or (begun[1] == annealing.best[1]).all()
    assert (2 in annealing.best[1]) == meets_a_better
