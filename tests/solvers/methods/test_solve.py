"""Solvers agree with brute force on small graphs and with the known optima of the paper's workloads."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import event, given

from solvers.formats.graph_json import read_graph
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import Progress, SolveCancelled, SolveStatus
from solvers.model.split import Family, check_split
from solvers.problem.contraction import contract
from solvers.problem.solving import MethodError
from solvers.solve import METHODS, solve
from tests.support.agreement import Instance, assert_optimal, solve_by_ip_alone
from tests.support.examples import examples
from tests.support.graphs import chain, convex_witness, dag, random_dag, small_graphs
from tests.support.reference import best_value


@given(small_graphs(max_nodes=5))
@examples(250)
def test_dp_equals_brute_force(instance: Instance) -> None:
    event(f"training: {instance[0].is_training}")
    best = best_value(*instance, Family.CHAIN, Objective.THROUGHPUT)
    assert_optimal(solve(*instance, method="dp"), instance, best)


@given(small_graphs(max_nodes=7, max_accelerators=2, max_cpus=2, colocation=False, backward=False, unsupported=False))
@examples(60)
def test_dp_equals_brute_force_on_larger_inference_graphs(instance: Instance) -> None:
    best = best_value(*instance, Family.CHAIN, Objective.THROUGHPUT)
    assert_optimal(solve(*instance, method="dp"), instance, best)


@given(small_graphs(max_nodes=4))
@examples(60)
def test_ip_equals_brute_force_in_every_family(instance: Instance) -> None:
    previous: float | None = None
    for family in Family:
        best = best_value(*instance, family, Objective.THROUGHPUT)
        assert_optimal(solve_by_ip_alone(instance, family, Objective.THROUGHPUT), instance, best)
        assert_optimal(solve(*instance, method="ip", family=family), instance, best)
        if previous is not None:
            assert best is not None
            assert best <= previous  # chain splits are convex, convex splits are free
        previous = best


@given(small_graphs(max_nodes=4, backward=True))
@examples(40)
def test_gpipe_ip_equals_brute_force_in_every_family(instance: Instance) -> None:
    for family in Family:
        best = best_value(*instance, family, Objective.GPIPE)
        assert_optimal(solve_by_ip_alone(instance, family, Objective.GPIPE), instance, best)


@given(small_graphs(max_nodes=5))
@examples(60)
def test_preparation_keeps_the_optimum(instance: Instance) -> None:
    graph, deployment = instance
    for family in Family:
        prepared = contract(graph, family, deployment)
        assert sorted(v for members in prepared.members for v in members) == sorted(graph.node_by_id)
        if family is Family.CHAIN:
            assert all(a < b for a, b in prepared.edges)


def test_witness_where_convex_beats_chain() -> None:
    values = [solve(convex_witness(), Deployment(2), family=family).value_ms for family in Family]
    assert values == [5.0, 4.0, 4.0]


@pytest.mark.parametrize("seed", range(5))
def test_more_memory_or_bandwidth_never_hurts(seed: int) -> None:
    graph = random_dag(seed, num_nodes=10)
    memory = sum(node.memory_bytes for node in graph.nodes)
    by_memory = [solve(graph, Deployment(3, 1, share * memory)).value_ms for share in (0.2, 0.4, 0.6, 1.0)]
    assert by_memory == sorted(by_memory, reverse=True)
    by_bandwidth = [solve(graph.with_bandwidth_factor(f), Deployment(3)).value_ms for f in (0.5, 1, 2, 4)]
    assert by_bandwidth == sorted(by_bandwidth, reverse=True)


@pytest.mark.parametrize(
    ("deployment", "words"),
    [
        (Deployment(0), "no devices"),
        (Deployment(2, memory_bytes=2.5 * 2**30), r"needs 6 GiB, 2 × 2\.5 GiB available"),
        (Deployment(9, memory_bytes=1 * 2**30), r"node 1 needs 2 GiB, an accelerator has 1 GiB"),
        (Deployment(2, memory_bytes=3.5 * 2**30), "fit in total"),
    ],
)
def test_infeasible_says_why(deployment: Deployment, words: str) -> None:
    graph = dag((1, 1, 1), ((1, 2), (2, 3)), memory_bytes=2 * 2**30)
    result = solve(graph, deployment)
    assert result.status is SolveStatus.INFEASIBLE
    assert result.value_ms is None
    assert result.lower_bound_ms is None
    assert re.search(words, result.message, re.IGNORECASE), result.message


def test_unsupported_node_without_cpu_is_named() -> None:
    graph, _ = small_unsupported()
    result = solve(graph, Deployment(2))
    assert result.status is SolveStatus.INFEASIBLE
    assert "ode 2 runs on no device" in result.message


def small_unsupported() -> Instance:
    """A chain whose second node runs on CPUs only."""
    from dataclasses import replace

    graph = chain((1, 1, 1))
    nodes = tuple(replace(node, runs_on_accelerator=node.id != 2) for node in graph.nodes)
    return DnnGraph(nodes, graph.edges), Deployment(2, 1)


def test_unknown_and_unsuitable_methods_are_named() -> None:
    graph = chain((1, 1))
    with pytest.raises(MethodError, match="no method 'magic'"):
        solve(graph, Deployment(1), method="magic")
    with pytest.raises(MethodError, match="pipeline splits"):
        solve(graph, Deployment(1), method="dp", family=Family.FREE)
    with pytest.raises(MethodError, match="no backward nodes"):
        solve(graph, Deployment(1), objective=Objective.GPIPE)
    circular = DnnGraph((Node(1, 1.0, 1.0, is_backward=True, name="loss"), Node(2, 1.0, 1.0)), (Edge(1, 2),))
    for method in METHODS:
        with pytest.raises(MethodError, match=r"forward node 2 reads backward node 1 \(loss\); remove this edge"):
            solve(circular, Deployment(1), objective=Objective.GPIPE, method=method)
    with pytest.raises(MethodError, match="does not solve objective latency"):
        solve(graph, Deployment(1), method="dp", objective=Objective.LATENCY)


@pytest.mark.parametrize("method", ["dp", "ip"])
def test_progress_brackets_the_optimum_and_bounds_only_rise(method: str) -> None:
    graph, deployment = random_dag(3, num_nodes=14), Deployment(4)
    reports: list[Progress] = []
    result = solve(graph, deployment, method=method, on_progress=reports.append)
    assert reports
    assert result.value_ms is not None
    bounds = [r.lower_bound_ms for r in reports if r.lower_bound_ms is not None]
    incumbents = [r.incumbent_ms for r in reports if r.incumbent_ms is not None]
    assert bounds == sorted(bounds)
    assert incumbents == sorted(incumbents, reverse=True)
    assert all(bound <= result.value_ms * (1 + 1e-9) for bound in bounds)
    assert any(r.split is not None for r in reports)
    assert [r.seconds for r in reports] == sorted(r.seconds for r in reports)


@pytest.mark.parametrize("method", ["dp", "ip"])
def test_cancelling_keeps_what_is_known(method: str) -> None:
    graph, deployment = random_dag(5, num_nodes=30, edge_probability=0.1), Deployment(4)

    def cancel(progress: Progress) -> None:
        raise SolveCancelled

    result = solve(graph, deployment, method=method, on_progress=cancel)
    assert result.status in (SolveStatus.UNKNOWN, SolveStatus.FEASIBLE, SolveStatus.OPTIMAL)
    assert "ancelled" in result.message
    assert result.lower_bound_ms is not None


def test_time_limit_returns_the_incumbent_and_its_bound() -> None:
    graph = random_dag(1, num_nodes=60, edge_probability=0.05)
    result = solve(graph, Deployment(6), method="ip", family=Family.FREE, time_limit_s=2.0)
    assert result.value_ms is not None
    assert result.lower_bound_ms is not None
    assert 0 < result.lower_bound_ms <= result.value_ms
    assert result.gap == pytest.approx((result.value_ms - result.lower_bound_ms) / result.value_ms)


KNOWN = (
    "bert24_layer_inference",
    "bert24_layer_training",
    "bert_l-3_operator_inference",
    "bert_l-3_operator_training",
    "bert_l-6_operator_inference",
    "gnmt_layer_inference",
    "inceptionv3_layer_inference",
    "resnet50_layer_inference",
    "resnet50_layer_training",
    "resnet50_operator_inference",
)


@pytest.mark.parametrize("name", KNOWN)
def test_chain_optima_of_the_paper(paper_workloads: Path, name: str) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["throughput"][name]
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    result = solve(graph, deployment, method="dp")
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(known["chain_optimum_ms"], abs=1e-3)
    assert result.split is not None
    assert not check_split(graph, deployment, result.split, Family.CHAIN)


def test_corrected_transfer_unit_of_gnmt(paper_workloads: Path) -> None:
    graph, deployment = read_graph(paper_workloads / "throughput" / "gnmt_layer_inference.json")
    result = solve(graph.with_bandwidth_factor(1e-3), deployment)
    assert result.value_ms == pytest.approx(44.782, abs=1e-3)


@pytest.mark.parametrize("name", ["bert24_layer_inference", "resnet50_layer_inference"])
def test_chain_ip_proves_the_optima_of_the_paper(paper_workloads: Path, name: str) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["throughput"][name]
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    result = solve(graph, Deployment(deployment.num_accelerators), method="ip")
    expected = solve(graph, Deployment(deployment.num_accelerators), method="dp")
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(expected.value_ms, rel=1e-6)
    assert known["chain_optimum_ms"] <= result.value_ms * (1 + 1e-6)


def test_ip_places_blocks_that_occur_in_no_row() -> None:
    """Nodes without time, edges or memory leave their variables out of the program; they still get a device."""
    graph = dag((0, 0, 3), (), transfer_ms=0.0)
    for family in Family:
        instance = (graph, Deployment(2))
        assert_optimal(solve_by_ip_alone(instance, family, Objective.THROUGHPUT), instance, 3.0)


def test_plain_words_do_for_objective_and_family() -> None:
    words = solve(convex_witness(), Deployment(2), family="convex", objective="throughput")  # type: ignore[arg-type]
    assert words.family is Family.CONVEX
    assert words.value_ms == 4.0
    with pytest.raises(ValueError, match="zigzag"):
        solve(convex_witness(), Deployment(2), family="zigzag")  # type: ignore[arg-type]


def test_a_known_plan_is_never_lost() -> None:
    graph, deployment = random_dag(9, num_nodes=24, edge_probability=0.2), Deployment(4)
    best = solve(graph, deployment, method="dp")
    assert best.split is not None
    on_fewer = Deployment(3)
    for family in Family:
        again = solve(graph, deployment, method="ip", family=family, time_limit_s=0.01, start=best.split)
        assert again.value_ms is not None
        assert best.value_ms is not None
        assert again.value_ms <= best.value_ms
    # A plan for more devices than there are is no plan here, and does no harm.
    expected = solve(graph, on_fewer, method="dp").value_ms
    assert solve(graph, on_fewer, method="dp", start=best.split).value_ms == expected
    # A plan for fewer devices is one for more.
    three = solve(graph, on_fewer, method="dp").split
    kept = solve(graph, deployment, method="ip", family=Family.FREE, time_limit_s=0.01, start=three).value_ms
    assert kept is not None
    assert expected is not None
    assert kept <= expected


def test_the_plan_it_starts_from_is_told_at_once() -> None:
    """Whoever watches a solve has its best plan from the beginning, on the devices that are asked for."""
    graph = chain([1.0, 2.0, 3.0, 4.0])
    before = solve(graph, Deployment(2)).split
    assert before is not None
    told: list[Progress] = []
    solve(graph, Deployment(3), family=Family.FREE, method="ip", start=before, on_progress=told.append)
    assert told[0].split == before.on(Deployment(3))
    assert told[0].incumbent_ms == objective_value(graph, Deployment(3), before.on(Deployment(3)), Objective.THROUGHPUT)
