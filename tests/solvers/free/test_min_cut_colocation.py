"""Blocks are merged only if every better plan keeps them together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free.min_cuts import colocated, merged
from solvers.model.costs import split_costs
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import contract
from tests.support.examples import examples
from tests.support.graphs import chain, dag, random_dag, random_split, small_graphs
from tests.support.reference import all_splits


@given(small_graphs(max_nodes=5, max_cpus=2), st.integers(1, 48).map(lambda quarters: quarters / 4))
@examples(80)
def test_no_better_plan_divides_a_merged_block(instance: tuple[DnnGraph, Deployment], threshold: float) -> None:
    graph, deployment = instance
    contraction = contract(graph, Family.FREE, deployment)
    answer = colocated(contraction, deployment, threshold)
    of_block = None if answer is None else answer[1]
    for split in all_splits(graph, deployment):
        if check_split(graph, deployment, split) or split_costs(graph, deployment, split).max_load_ms >= threshold:
            continue
        device_of = split.device_of()
        on = [{device_of[v] for v in ids} for ids in contraction.members]
        if any(len(devices) > 1 for devices in on):
            continue  # joined idle blocks: another plan, no worse, keeps them together
        assert of_block is not None
        home: dict[int, int] = {}
        for b, devices in enumerate(on):
            (d,) = devices
            assert home.setdefault(of_block[b], d) == d


def test_a_dear_transfer_ties_its_ends() -> None:
    graph = chain([1.0, 1.0, 1.0, 1.0], transfer_ms=[0.5, 9.0, 0.5, 0.5])
    contraction = contract(graph, Family.FREE, Deployment(2))
    answer = colocated(contraction, Deployment(2), 5.0)
    assert answer is not None
    assert answer[1] == [0, 1, 1, 2]
    assert answer[0].accelerator_ms.tolist() == [1.0, 2.0, 1.0]


def test_no_plan_is_left_when_a_block_is_too_heavy() -> None:
    graph = dag([1.0, 6.0], [(1, 2)])
    contraction = contract(graph, Family.FREE, Deployment(2))
    assert colocated(contraction, Deployment(2), 6.0) is None
    assert colocated(contraction, Deployment(2, 1), 6.0) is None
    assert colocated(contraction, Deployment(2), 8.0) is not None


@pytest.mark.parametrize("communication", list(Communication))
def test_merging_keeps_the_loads_of_plans_that_do_not_divide(communication: Communication) -> None:
    graph = random_dag(5, num_nodes=10)
    deployment = Deployment(3, 1, communication=communication)
    contraction = contract(graph, Family.FREE, deployment)
    groups = [b // 2 for b in range(contraction.num_blocks)]
    small, number = merged(contraction, groups, communication)
    assert np.array_equal(number, groups)
    assert small.accelerator_ms.sum() == contraction.accelerator_ms.sum()
    assert sorted(v for ids in small.members for v in ids) == sorted(v for ids in contraction.members for v in ids)
    from solvers.free.plans.annealing import Annealing

    for seed in range(20):
        device_of = random_split(graph, deployment, seed).device_of()
        of_small = {b: device_of[ids[0]] for b, ids in enumerate(small.members)}
        split = Split.from_device_of(small.device_of(of_small), deployment)
        value = split_costs(graph, deployment, split).max_load_ms
        assert Annealing(small, deployment, of_small).value_ms == pytest.approx(value)
