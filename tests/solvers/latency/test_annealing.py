"""The search for plans of low latency: moves that single nodes cannot make, and plans found elsewhere."""

from itertools import pairwise

import pytest

from solvers.latency import annealing
from solvers.latency.annealing import latency_search
from solvers.latency.solve import MOST_WAITING, PlansOfCuts
from solvers.model.costs import Objective, single_sample_latency
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split
from solvers.problem.contraction import contract
from solvers.problem.solving import Problem, Reporter
from tests.support.graphs import chain


def values_of(
    graph: DnnGraph, deployment: Deployment, start: Split, others: tuple[Split, ...] = ()
) -> list[float | None]:
    contraction = contract(graph, Family.FREE, deployment, join_idle=False)
    found = latency_search(graph, deployment, contraction, [start], lambda: others)
    return [single_sample_latency(graph, deployment, split) for split in found if split is not None]


def test_a_branch_moves_where_no_node_of_it_could_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four nodes after one another, with dear transfers between them and 25 places apart in the order of all nodes.
    monkeypatch.setattr(annealing, "FIRST_TEMPERATURES", (1e-5,))  # so cold that nothing gets worse on the way
    branch = (0, 25, 50, 75)
    nodes = tuple(
        Node(v, 1.0, 4.0, transfer_ms=100.0) if v in branch else Node(v, 0.0, 1.0, runs_on_accelerator=False)
        for v in range(80)
    )
    graph = DnnGraph(nodes, tuple(Edge(u, v) for u, v in pairwise(branch)))
    on_cpu = Split((frozenset(),), (frozenset(range(80)),))
    assert values_of(graph, Deployment(1, 1), on_cpu)[-1] == 4.0


def test_a_plan_found_elsewhere_is_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "STEPS_PER_BLOCK", 0)  # so that plans are judged and never changed
    graph, deployment = chain((1, 1, 1), transfer_ms=0.5), Deployment(1, 1)
    on_cpu = Split((frozenset(),), (frozenset({1, 2, 3}),))
    best = Split((frozenset({1, 2, 3}),), (frozenset(),))
    assert values_of(graph, deployment, on_cpu) == [12.0]
    assert values_of(graph, deployment, on_cpu, (on_cpu, best)) == [12.0, 3.0]


def test_the_best_plan_of_cuts_is_kept_and_the_latest_wait() -> None:
    graph, deployment = chain((1, 1, 1), transfer_ms=0.5), Deployment(1, 1)
    reporter = Reporter(Problem(graph, deployment, Objective.LATENCY, Family.FREE, None, 0.0), None)
    plans = PlansOfCuts(reporter)
    best = Split((frozenset({1, 2, 3}),), (frozenset(),))
    others = [Split((frozenset({v}),), (frozenset({1, 2, 3} - {v}),)) for v in (1, 2, 3)] * MOST_WAITING
    for split in [best, *others]:
        plans.take(split)
    assert (reporter.split, reporter.value_ms) == (best, 3.0)
    assert plans.taken() == others[-MOST_WAITING:]
    assert not plans.taken()
