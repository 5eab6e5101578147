"""Plans made of the cuts of the latency bound: complete, without circles, and those of the cuts."""

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from solvers.latency import bound as latency_bound_module
from solvers.latency.annealing import latency_search
from solvers.latency.bound import latency_bounds
from solvers.latency.cut_plans import plan_of_cut
from solvers.latency.greedy import greedy_latency_splits
from solvers.model.costs import single_sample_latency
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split, check_split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import contract
from tests.support.examples import examples
from tests.support.graphs import class_deployments, dag, random_dag, small_graphs

Drawn = tuple[DnnGraph, Deployment]


@st.composite
def problems(draw: st.DrawFn) -> Drawn:
    """A small inference graph; accelerators of one or two kinds, with up to two subgraphs each."""
    graph, deployment = draw(small_graphs(max_nodes=7, max_accelerators=3, backward=False))
    if draw(st.booleans()):
        deployment = draw(class_deployments())
    return graph, replace(deployment, max_subgraphs=draw(st.integers(1, 2)))


def plans_of(graph: DnnGraph, deployment: Deployment, most_ideals: int) -> tuple[list[Split], float]:
    plans: list[Split] = []
    with pytest.MonkeyPatch.context() as patch:
        # Few ideals leave nodes out of the part that is cut.
        patch.setattr(latency_bound_module, "IDEAL_LIMITS", (most_ideals,))
        bound = max(latency_bounds(graph, deployment, on_plan=plans.append))
    return plans, bound


@given(problems(), st.sampled_from([4, 6, 200]))
@examples(150)
def test_they_are_complete_and_no_tasks_wait_for_each_other(instance: Drawn, most_ideals: int) -> None:
    graph, deployment = instance
    plans, bound = plans_of(graph, deployment, most_ideals)
    event(f"plans: {bool(plans)}")
    for split in plans:
        assert sorted(v for members in split.devices for v in members) == sorted(graph.node_by_id)
        value = single_sample_latency(graph, deployment, split)
        divides = any(len({split.device_of()[v] for v in members}) > 1 for members in graph.colocation_members.values())
        if not divides:
            assert value is not None
            if not check_split(graph, deployment, split):
                assert value >= bound * (1 - 1e-9)


@given(st.integers(0, 10**6))
@examples(80)
def test_tasks_of_a_cut_are_subgraphs_of_the_plan(seed: int) -> None:
    """Whatever is left out, the nodes of a task on an accelerator stay together, as long as there are accelerators."""
    graph, deployment = random_dag(seed, 9, 0.3), Deployment(3, 1)
    order = list(graph.topological_order)
    first, second, third = frozenset(order[:2]), frozenset(order[4:5]), frozenset(order[6:7])
    tasks = [(first, 0), (second, None), (third, 0)]
    plan = plan_of_cut(graph, deployment, accelerator_kinds(graph, deployment), tasks)
    assert plan is not None
    device_of = plan.device_of()
    assert {device_of[v] for v in first} == {0}
    assert {device_of[v] for v in second} == {3}
    assert {device_of[v] for v in third} == {1}
    assert single_sample_latency(graph, deployment, plan) is not None


def test_without_a_cpu_no_plan_has_one() -> None:
    graph = dag([1.0, 1.0], [(1, 2)])
    deployment = Deployment(1)
    kinds = accelerator_kinds(graph, deployment)
    assert plan_of_cut(graph, deployment, kinds, [(frozenset({1}), 0), (frozenset({2}), 0)]) is None


def test_annealing_begins_from_what_comes_later() -> None:
    """A start so much better than all others is the best plan at once."""
    graph, deployment = random_dag(4, 30, 0.1), Deployment(3, 1)
    contraction = contract(graph, Family.FREE, deployment, join_idle=False)
    best: Split | None = None
    for better in latency_search(graph, deployment, contraction, greedy_latency_splits(graph, deployment)):
        best = better or best
    assert best is not None
    all_on_cpu = Split((frozenset(),) * 3, (frozenset(graph.node_by_id),))
    later = deque([best])
    search = latency_search(graph, deployment, contraction, [all_on_cpu], later)
    found = [split for split in search if split is not None]
    assert not later
    best_ms = single_sample_latency(graph, deployment, best)
    assert best_ms is not None
    assert min(single_sample_latency(graph, deployment, split) or 0 for split in found) <= best_ms * (1 + 1e-9)
