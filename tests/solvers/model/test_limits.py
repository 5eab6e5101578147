"""What theory says of hardware at its limits: links without end or without speed, work as fine as one likes."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solvers.analysis.explanation import bound_of, explain
from solvers.analysis.explanation_text import explanation_text, plain_text
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import chain, random_dag

TIMES = st.lists(st.integers(1, 40).map(float), min_size=1, max_size=12)
SPEEDS = st.lists(st.sampled_from((0.25, 0.5, 1.0, 2.0)), min_size=1, max_size=3)


def best_ms(graph: DnnGraph, deployment: Deployment) -> float:
    result = solve(graph, deployment)
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms is not None
    return result.value_ms


def told(graph: DnnGraph, deployment: Deployment, result: SolveResult) -> str:
    assert result.split is not None
    explanation = explain(graph, deployment, result.split, family=result.family, lower_bound_ms=bound_of(result))
    return " ".join(plain_text(explanation_text(explanation, graph)).split())


def cluster(speeds: list[float]) -> Deployment:
    return Deployment.of_classes(tuple(DeviceClass(f"C{i}", 1, speed) for i, speed in enumerate(speeds)))


# Free transfers and no memory limit: total work over all devices.


@examples(40, deadline=None)
@given(TIMES, st.integers(1, 5))
def test_with_free_transfers_a_chain_is_within_one_node_of_an_even_share(times: list[float], k: int) -> None:
    """Filling devices one after the other up to an even share exceeds it by less than a node on each."""
    share = sum(times) / k
    assert share - 1e-9 <= best_ms(chain(times, transfer_ms=0), Deployment(k)) <= share + max(times)


@examples(25, deadline=None)
@given(TIMES, SPEEDS)
def test_so_it_is_with_devices_of_several_speeds(times: list[float], speeds: list[float]) -> None:
    share = sum(times) / sum(speeds)
    value_ms = best_ms(chain(times, transfer_ms=0), cluster(speeds))
    assert share * (1 - 1e-9) <= value_ms <= share + max(times) / min(speeds)


@pytest.mark.parametrize("speeds", [[], [1.0, 0.25]])
def test_the_finer_the_work_the_nearer_to_the_even_share(speeds: list[float]) -> None:
    times = (3.0, 7.0, 2.0, 5.0, 1.0)
    deployment = cluster(speeds) if speeds else Deployment(4)
    share = sum(times) / (sum(speeds) or 4)
    over = []
    for pieces in (1, 4, 16, 64):
        fine = chain([time / pieces for time in times for _ in range(pieces)], transfer_ms=0)
        over.append(best_ms(fine, deployment) / share - 1)
    assert all(0 <= finer <= coarser + 1e-12 for coarser, finer in pairwise(over))
    assert over[-1] < 0.02


@examples(15, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_faster_and_faster_links_come_down_to_free_transfers(seed: int, has_classes: bool) -> None:
    graph = random_dag(seed, num_nodes=6)
    deployment = cluster([1.0, 0.5]) if has_classes else Deployment(3)
    free = best_ms(graph.with_nodes(tuple(replace(node, transfer_ms=0.0) for node in graph.nodes)), deployment)
    values = [best_ms(graph.with_bandwidth_factor(factor), deployment) for factor in (1, 10, 1e3, 1e9)]
    assert all(faster <= slower * (1 + 1e-9) for slower, faster in pairwise(values))
    assert values[-1] == pytest.approx(free, rel=1e-6)
    assert values[-1] >= free * (1 - 1e-9)


def test_the_explanation_says_what_is_left_when_transfers_and_memory_are_not() -> None:
    graph, deployment = chain((2, 2, 3, 2), transfer_ms=0), Deployment(2)
    text = told(graph, deployment, solve(graph, deployment))
    assert "Only that nodes cannot be divided and that a pipeline's stages are in order keep the plan from the" in text
    free = solve(graph, deployment, family=Family.FREE)
    assert "Only that nodes cannot be divided keeps the plan from the ideal (balanced) load" in told(
        graph, deployment, free
    )
    even = chain((2, 2, 2, 2), transfer_ms=0)
    assert "It is reached: all work divided" in told(even, deployment, solve(even, deployment))
    tight = Deployment(2, 0, memory_bytes=3.0)
    assert "Transfers take no time in this graph." in (text := told(graph, tight, solve(graph, tight)))
    assert "only that nodes cannot be divided" not in text


# Links without speed: one device, or what memory forces.


def is_connected(graph: DnnGraph) -> bool:
    neighbours = {node.id: {*graph.readers[node.id], *graph.inputs[node.id]} for node in graph.nodes}
    reached, waiting = set[int](), [graph.nodes[0].id]
    while waiting:
        v = waiting.pop()
        if v not in reached:
            reached.add(v)
            waiting += neighbours[v]
    return len(reached) == len(graph.nodes)


@examples(40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(0, 1), st.sampled_from((None, 4.0, 8.0, 30.0)))
def test_links_without_speed_leave_one_device_or_what_memory_forces(
    seed: int, k: int, num_cpus: int, memory_bytes: float | None
) -> None:
    graph = random_dag(seed, num_nodes=6, edge_probability=0.5)
    graph = graph.with_nodes(tuple(replace(node, transfer_ms=max(node.transfer_ms, 0.5)) for node in graph.nodes))
    assume(is_connected(graph))
    deployment = Deployment(k, num_cpus, memory_bytes)
    total = {what: sum(getattr(node, what) for node in graph.nodes) for what in ("accelerator_ms", "cpu_ms")}
    fits = sum(node.memory_bytes for node in graph.nodes) <= deployment.memory_limit_bytes
    alone = min(total["accelerator_ms"] if fits else math.inf, total["cpu_ms"] if num_cpus else math.inf)
    slow = graph.with_bandwidth_factor(1e-6)
    result = solve(slow, deployment)
    if math.isfinite(alone):
        assert result.status is SolveStatus.OPTIMAL
        assert result.value_ms == pytest.approx(alone)
        assert result.split is not None
        assert sum(map(bool, result.split.devices)) == 1
    elif result.status is SolveStatus.OPTIMAL:  # memory forces transfers, and they are all that counts
        assert result.value_ms is not None
        slower = best_ms(graph.with_bandwidth_factor(1e-7), deployment)
        assert slower / result.value_ms == pytest.approx(10, rel=1e-3)
        assert "tensors must be moved however slow the links are" in told(slow, deployment, result)
    else:
        assert result.status is SolveStatus.INFEASIBLE


def test_links_without_speed_leave_the_fastest_of_several_kinds() -> None:
    graph = chain((3, 1, 2)).with_bandwidth_factor(1e-6)
    fast_but_small = DeviceClass("small", 1, 4.0, memory_bytes=2.0)
    deployment = Deployment.of_classes((fast_but_small, DeviceClass("large", 2, 2.0, memory_bytes=3.0)))
    result = solve(graph, deployment)
    assert result.value_ms == 3
    assert result.split is not None
    used = [d for d, members in enumerate(result.split.devices) if members]
    assert [deployment.device_name(d).split()[0] for d in used] == ["large"]
    text = told(graph, deployment, result)
    assert "All nodes are on one device, so that no tensor is moved; moving even the smallest takes" in text


def test_what_memory_forces_is_not_blamed_on_links_that_are_fast_or_memory_that_is_enough() -> None:
    tight = Deployment(2, 0, memory_bytes=2.0)
    quick = chain((5, 5), transfer_ms=0.5)
    three = chain((5, 5, 5), transfer_ms=0.5)
    for graph, deployment in ((quick, tight), (three, tight), (three, Deployment(2, 1, memory_bytes=2.0))):
        assert "must be moved" not in told(graph, deployment, solve(graph, deployment))
    slow = three.with_bandwidth_factor(1e-3)
    assert "No device holds all nodes, which take 3 B" in told(slow, tight, solve(slow, tight))


def test_nodes_that_share_nothing_need_no_link() -> None:
    """Only connected graphs are bound to one device: two components run side by side whatever the links."""
    nodes = (Node(1, 4.0, 9.0, transfer_ms=1e6), Node(2, 4.0, 9.0), Node(3, 8.0, 9.0))
    assert best_ms(DnnGraph(nodes, (Edge(1, 2),)), Deployment(2)) == 8
