"""The bound from total work: below every plan, and what it is worth where branches stand side by side."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from solvers.latency import work_bound as work_bound_module
from solvers.latency.bound import critical_path, latency_bounds, node_times
from solvers.latency.work_bound import work_bound
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import class_deployments, random_dag, small_graphs
from tests.support.reference import best_value


def bound_of(graph: DnnGraph, deployment: Deployment) -> float:
    kinds = accelerator_kinds(graph, deployment)
    return work_bound(graph, kinds, [node_times(graph, deployment, kind) for kind in kinds])


def branches(count: int, length: int, cpu_ms: float, memory_bytes: float = 0.0) -> DnnGraph:
    """Return branches side by side, of nodes that take 1 ms on accelerators."""
    nodes = tuple(Node(v, 1.0, cpu_ms, memory_bytes) for v in range(count * length))
    return DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(count * length) if (v + 1) % length))


def test_without_cpus_accelerators_share_the_work() -> None:
    assert bound_of(branches(6, 5, 9.0), Deployment(3)) == pytest.approx(10.0)


def test_of_long_branches_each_has_its_part() -> None:
    """Of 100 branches of 600 ms on CPUs each must save 600 - T, at 19 ms for each 1 on the 4 accelerators."""
    assert bound_of(branches(100, 30, 20.0), Deployment(4, 1)) == pytest.approx(60_000 / 176, rel=1e-6)


def test_what_accelerators_cannot_hold_is_on_cpus() -> None:
    """Two of three nodes fit on the accelerator, and the third one takes 8 ms."""
    path = branches(1, 3, 8.0, memory_bytes=1.0)
    assert bound_of(path, Deployment(1, 1, memory_bytes=2.0)) == pytest.approx(10.0)
    assert bound_of(path, Deployment(1, 1)) == pytest.approx(3.0)


def test_without_any_memory_all_is_on_cpus() -> None:
    assert bound_of(branches(2, 3, 8.0, memory_bytes=1.0), Deployment(2, 1, memory_bytes=0.0)) == pytest.approx(24.0)


def test_of_two_kinds_the_slower_one_takes_its_part() -> None:
    classes = DeviceClass("fast", 1, 1.0), DeviceClass("slow", 1, 0.5)
    assert bound_of(branches(30, 1, 1e6), Deployment.of_classes(classes, 0)) == pytest.approx(20.0)


@given(small_graphs(backward=False), class_deployments() | st.none())
@examples(150)
def test_no_plan_takes_less(instance: tuple[DnnGraph, Deployment], classes: Deployment | None) -> None:
    graph, deployment = instance if classes is None else (instance[0], classes)
    best = best_value(graph, deployment, Family.FREE, Objective.LATENCY)
    if best is None or not deployment.num_accelerators:
        return
    bound = bound_of(graph, deployment)
    kinds = accelerator_kinds(graph, deployment)
    by_kind = [node_times(graph, deployment, kind) for kind in kinds]
    times = {v: (min(one[v][0] for one in by_kind), by_kind[0][v][1]) for v in by_kind[0]}
    event("more than the longest path" if bound > critical_path(graph, times) * (1 + 1e-6) else "no more")
    assert bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_prices_are_it_is_a_bound(seed: int) -> None:
    graph, deployment = random_dag(seed, 7), Deployment(2, 1, 12.0)
    best = solve(graph, deployment, objective=Objective.LATENCY).value_ms
    kinds = accelerator_kinds(graph, deployment)
    program = work_bound_module._Program(graph, kinds, [node_times(graph, deployment, kind) for kind in kinds])
    num_rows = len(program.linear_program().least)
    rng = np.random.default_rng(seed)
    for scale in (0.01, 0.2, 1.0):
        bound = program.bound_ms(scale * rng.uniform(-0.5, 1.0, num_rows) * (rng.random(num_rows) < 0.7))
        assert best is None or bound <= best * (1 + 1e-9)


def test_it_ends_when_it_is_told_to() -> None:
    graph, deployment = branches(30, 20, 20.0), Deployment(4, 1)
    kinds = accelerator_kinds(graph, deployment)
    by_kind = [node_times(graph, deployment, kind) for kind in kinds]
    asked = iter(range(3))
    interrupted = work_bound(graph, kinds, by_kind, lambda: next(asked, None) is not None)
    assert next(asked, None) is None
    assert interrupted <= work_bound(graph, kinds, by_kind) * (1 + 1e-6)


def test_bounds_of_latency_begin_with_it() -> None:
    graph, deployment = branches(40, 5, 20.0), Deployment(4, 1)
    bounds = latency_bounds(graph, replace(deployment, max_subgraphs=2))
    first, second = next(bounds), next(bounds)
    assert first == pytest.approx(5.0)
    assert second == pytest.approx(bound_of(graph, deployment))
    assert second > 3 * first
