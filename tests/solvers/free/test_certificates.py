"""What prices prove is true."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free import price_search
from solvers.free.column_generation import DeviceContents
from solvers.free.patterns import Paths
from solvers.free.price_search import best_prices
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.problem.contraction import contract
from tests.support.contents import SOME_TIMES
from tests.support.examples import examples
from tests.support.graphs import class_deployments, dag, random_dag, small_graphs, with_class_times
from tests.support.reference import best_value

SEARCHES = (DeviceContents.prove, lambda *asked: best_prices(*asked)[:2])
"""Column generation where blocks are few, and the nearest prices that may be better."""


def assert_nothing_false_is_proven(graph: DnnGraph, deployment: Deployment, threshold: float, seed: int) -> None:
    """Check what prices drawn with a seed prove of a threshold against brute force."""
    best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
    contraction = contract(graph, Family.FREE, deployment)
    contents = DeviceContents(contraction, deployment)
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    if best is not None and best <= threshold:
        for search in SEARCHES:
            outcome, certificate = search(DeviceContents(contraction, deployment), threshold, price, lambda _: True)
            assert outcome is not True
            assert certificate.ratio <= 1
        assert all(proven < best for proven in contents.provable_thresholds(price, -1.0, threshold))


@given(small_graphs(max_nodes=5, max_cpus=2, backward=True), st.integers(0, 5))
@examples(60)
def test_prices_of_convex_contents_prove_nothing_false(instance: tuple[DnnGraph, Deployment], seed: int) -> None:
    graph, deployment = instance
    best = best_value(graph, deployment, Family.CONVEX, Objective.THROUGHPUT)
    if not deployment.num_accelerators or best is None:
        return
    contraction = contract(graph, Family.CONVEX, deployment)
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    for search in SEARCHES:
        contents = DeviceContents(contraction, deployment, paths=Paths.of(contraction, graph))
        outcome, certificate = search(contents, best, price, lambda _: True)
        assert outcome is not True
        assert certificate.ratio <= 1
        assert all(proven < best for proven in contents.provable_thresholds(price, -1.0, best))


@given(small_graphs(max_nodes=5, max_cpus=2), SOME_TIMES, st.integers(0, 5))
@examples(60)
def test_nothing_is_proven_out_of_reach_that_is_within(
    instance: tuple[DnnGraph, Deployment], threshold: float, seed: int
) -> None:
    graph, deployment = instance
    if not deployment.num_accelerators:
        return
    assert_nothing_false_is_proven(graph, deployment, threshold, seed)


@given(small_graphs(max_nodes=4), class_deployments(), SOME_TIMES, st.integers(0, 1000))
@examples(30)
def test_nothing_is_proven_of_classes_that_is_not_so(
    drawn: tuple[DnnGraph, Deployment], deployment: Deployment, threshold: float, seed: int
) -> None:
    graph = with_class_times(drawn[0], seed) if seed % 2 else drawn[0]
    assert_nothing_false_is_proven(graph, deployment, threshold, seed)


@pytest.mark.parametrize("search", SEARCHES)
def test_devices_of_each_class_are_counted(search: Any) -> None:
    """Ten equal blocks on one fast device and six slow ones: within 4 ms they hold 4 + 6, within less 3 + 6."""
    graph = dag([4.0] * 10, [], transfer_ms=0.0)
    deployment = Deployment.of_classes((DeviceClass("fast", 1, 4.0), DeviceClass("slow", 4), DeviceClass("twin", 2)))
    contents = DeviceContents(contract(graph, Family.FREE, deployment), deployment)
    outcome, certificate = search(contents, 3.99, np.ones(10), lambda _: True)
    assert outcome is True
    assert certificate.ratio == pytest.approx(10 / 3)  # slow ones hold nothing
    assert search(contents, 4.0, np.ones(10), lambda _: True)[0] is False


@pytest.mark.parametrize("search", SEARCHES)
def test_prices_prove_what_total_work_cannot(search: Any) -> None:
    """Five equal blocks on four devices: some device has two, though their work over four is less."""
    graph = dag([4.0] * 5, [], transfer_ms=0.0)
    contraction = contract(graph, Family.FREE, Deployment(4))
    contents = DeviceContents(contraction, Deployment(4))
    outcome, certificate = search(contents, 7.9, np.ones(5), lambda _: True)
    assert outcome is True
    assert certificate.ratio == pytest.approx(1.25)
    assert search(contents, 8.0, np.ones(5), lambda _: True)[0] is False


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(0, 1))
@examples(40)
def test_both_searches_find_the_same_thresholds_out_of_reach(seed: int, k: int, num_cpus: int) -> None:
    """Each ends with the optimum of the same linear program: proven by one, not found hopeless by the other."""
    deployment = Deployment(k, num_cpus)
    contraction = contract(random_dag(seed, num_nodes=12), Family.FREE, deployment)
    threshold = 1.1 * float(contraction.accelerator_ms.sum()) / (k + num_cpus)
    outcomes = {
        search(DeviceContents(contraction, deployment), threshold, contraction.accelerator_ms, lambda _: True)[0]
        for search in SEARCHES
    }
    assert outcomes != {True, False}


@pytest.mark.parametrize("seed", range(12))
def test_rows_make_room_for_others_and_nothing_false_is_said(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for a dozen rows the search may come to no end, but to none that column generation contradicts."""
    deployment = Deployment(2, seed % 2)
    contraction = contract(random_dag(seed, num_nodes=14), Family.FREE, deployment)
    work = contraction.accelerator_ms
    threshold = 0.65 * float(work.sum())
    monkeypatch.setattr(price_search, "MOST_ROWS", 12)
    dropped = 0
    make_room = price_search._Rounds._make_room

    def counted(self: price_search._Rounds) -> None:
        nonlocal dropped
        before = len(self._keys)
        make_room(self)
        dropped += before - len(self._keys)
        assert len(self._keys) <= 6
        assert self._entered == set(self._keys)

    monkeypatch.setattr(price_search._Rounds, "_make_room", counted)
    rounds = iter(range(150))
    outcome = best_prices(
        DeviceContents(contraction, deployment), threshold, work, lambda _: next(rounds, None) is not None
    ).outcome
    certain = DeviceContents(contraction, deployment).prove(threshold, work, lambda _: True)[0]
    assert {outcome, certain} != {True, False}
    assert dropped or outcome is True


@pytest.mark.parametrize("seed", range(12))
def test_the_program_promises_no_less_than_what_is_proven(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows some of the contents only, so its optimum is at least every ratio that prices prove."""
    deployment = Deployment(2, seed % 2)
    contraction = contract(random_dag(seed, num_nodes=14), Family.FREE, deployment)
    work = contraction.accelerator_ms
    asked = 0
    solve_program = price_search._Rounds._solve

    def checked(self: price_search._Rounds) -> Any:
        nonlocal asked
        asked += 1
        solved = solve_program(self)
        assert solved is not None
        assert solved[0] >= self.best.ratio - 1e-6
        return solved

    monkeypatch.setattr(price_search._Rounds, "_solve", checked)
    monkeypatch.setattr(price_search, "BEFORE_PROGRAM", 1)
    for share in (0.55, 0.65, 0.8):
        best_prices(DeviceContents(contraction, deployment), share * float(work.sum()), work, lambda _: True)
    assert asked
