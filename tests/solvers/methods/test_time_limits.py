"""Every phase looks at its limit often, by counting what is done between two looks and not by time."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sample_graphs.synthetic import layered
from solvers.baselines import table
from solvers.free import labels
from solvers.free.patterns import contents_diagram
from solvers.free.pricing import Pricing
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.problem.contraction import contract
from solvers.problem.solving import Reporter
from solvers.solve import solve
from tests.support.graphs import random_dag

MOST_CALLS = 400_000
"""Function calls between two looks: Python does more of them than twice this many in a second."""

TYPES = Deployment.of_classes((DeviceClass("fast", 4), DeviceClass("slow", 4, 0.6)), 1)


class Looks:
    """The most function calls of the calling thread between two looks at the clock."""

    def __init__(self) -> None:
        self.number = self.most_calls = self._calls = 0

    def looked(self) -> None:
        self.number += 1
        self.most_calls = max(self.most_calls, self._calls)
        self._calls = 0

    def called(self, *_: object) -> None:
        self._calls += 1


@contextmanager
def counted_looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    """Count the looks at a reporter's clock, and what the solving thread does between them."""
    looks = Looks()
    seconds = Reporter.seconds.fget
    assert seconds is not None

    def listen(reporter: Reporter) -> float:
        looks.looked()
        return float(seconds(reporter))

    monkeypatch.setattr(Reporter, "seconds", property(listen))
    sys.setprofile(looks.called)
    try:
        yield looks
    finally:
        sys.setprofile(None)
        looks.looked()


@pytest.mark.parametrize(
    ("deployment", "options"),
    [
        (TYPES, {"method": "dp"}),
        (TYPES, {"method": "auto"}),
        (Deployment(4, 1), {"family": Family.FREE}),
        (Deployment(4), {"family": Family.CONVEX}),
        (Deployment(4, 1, communication=Communication.OVERLAPPED), {"family": Family.FREE}),
        (Deployment(4, 1, communication=Communication.FULL_DUPLEX), {"method": "dp"}),
        (Deployment(4, 1), {"objective": Objective.LATENCY}),
        (Deployment(4, 1), {"objective": Objective.LATENCY, "method": "greedy_latency"}),
        (Deployment(4, 1), {"objective": Objective.LATENCY, "method": "max_load_latency"}),
        (Deployment(4, 1), {"method": "local_search"}),
        (Deployment(4, 1), {"method": "linearised"}),
        (Deployment(4, 1), {"method": "pipedream"}),
    ],
)
def test_the_limit_is_looked_at_often(
    monkeypatch: pytest.MonkeyPatch, deployment: Deployment, options: dict[str, Any]
) -> None:
    graph, _ = layered(120, 2, 3)
    solve(layered(2, 2, 2)[0], deployment, time_limit_s=2.0, **options)  # imports are no work of a solve
    with counted_looks(monkeypatch) as looks:
        solve(graph, deployment, time_limit_s=2.0, on_progress=lambda _: None, **options)
    assert looks.number > 3
    assert looks.most_calls < MOST_CALLS


@pytest.mark.parametrize("seed", range(8))
def test_label_setting_looks_between_slices_and_answers_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices of one label each layer is followed by a look; what is found does not depend on slices."""
    contraction = contract(random_dag(seed, num_nodes=14), Family.FREE, Deployment(2))
    arcs = contents_diagram(contraction).arcs
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    threshold = float(contraction.accelerator_ms.sum()) / 2
    looks = [0, 0]

    def look(place: int) -> None:
        looks[place] += 1

    whole = Pricing(arcs, price, threshold, lambda: look(0)).dearest(gap=0.0)
    monkeypatch.setattr(labels, "CANDIDATES_BETWEEN_CHECKS", 1)
    sliced = Pricing(arcs, price, threshold, lambda: look(1)).dearest(gap=0.0)
    assert looks[0] >= 1
    if looks[0] > 1:  # the relaxation alone did not answer
        assert looks[1] >= contraction.num_blocks
    assert whole.bound == sliced.bound
    assert np.array_equal(whole.sets, sliced.sets)
    assert np.array_equal(whole.prices, sliced.prices)


def test_the_bound_of_a_latency_baseline_takes_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that each bound moves on by a second stands for bounds that take long."""
    clock = [1000.0]
    monkeypatch.setattr("solvers.problem.solving.time.monotonic", lambda: clock[0])
    taken: list[float] = []

    def slow_bounds(*_: object) -> Iterator[float]:
        for i in range(1000):
            clock[0] += 1.0
            taken.append(float(i))
            yield 0.001

    monkeypatch.setattr(table, "latency_bounds", slow_bounds)
    result = solve(
        random_dag(1), Deployment(2, 1), objective=Objective.LATENCY, method="greedy_latency", time_limit_s=20.0
    )
    assert len(taken) == 10
    assert result.split is not None


class EndlessPlans:
    """Proposes one plan again and again, each a second later by the clock of reporters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, graph: DnnGraph, deployment: Deployment) -> None:
        self._plan = solve(graph, deployment, method="single").split
        self._seconds = 1000.0
        self.number = 0
        monkeypatch.setattr("solvers.problem.solving.time.monotonic", lambda: self._seconds)

    def __call__(self, *_: object) -> Iterator[Any]:
        while self.number < 100:  # so that a test of what never looks ends, too
            self.number += 1
            self._seconds += 1.0
            yield self._plan


def test_plans_to_start_from_end_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(1), Deployment(2, 1)
    plans = EndlessPlans(monkeypatch, graph, deployment)
    monkeypatch.setattr("solvers.latency.greedy.greedy_latency_splits", plans)
    solve(graph, deployment, objective=Objective.LATENCY, time_limit_s=8.0)
    assert 0 < plans.number <= 8


def test_a_baseline_that_proposes_without_end_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(1), Deployment(2, 1)
    plans = EndlessPlans(monkeypatch, graph, deployment)
    greedy = table.BASELINES["greedy_latency"]
    monkeypatch.setitem(table.BASELINES, "greedy_latency", replace(greedy, propose=plans))
    solve(graph, deployment, objective=Objective.LATENCY, method="greedy_latency", time_limit_s=8.0)
    assert plans.number == 8
