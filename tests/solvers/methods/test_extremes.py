"""Numbers far apart, tight limits and large machines: where a proof is easily lost to rounding, time or memory."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.chain import label_kernel, label_search
from solvers.chain.max_load import ChainSearch
from solvers.methods import throughput
from solvers.milp.highs import MilpOutcome, MilpRefusedError, run_highs
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, Replication
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.bounds import why_infeasible, work_bound
from solvers.problem.contraction import contract
from solvers.problem.solving import MethodError, Problem, Reporter
from solvers.solve import solve
from tests.support.agreement import assert_optimal, solve_by_ip_alone
from tests.support.examples import examples
from tests.support.graphs import chain, random_dag, small_graphs, uneven_graphs
from tests.support.reference import best_value


@given(uneven_graphs())
@examples(150)
def test_dp_is_right_whatever_the_numbers(instance: tuple[DnnGraph, Deployment]) -> None:
    best = best_value(*instance, Family.CHAIN, Objective.THROUGHPUT)
    result = solve(*instance, method="dp")
    if best is None:
        assert result.status is SolveStatus.INFEASIBLE
    else:
        assert result.status is SolveStatus.OPTIMAL
        assert result.value_ms == pytest.approx(best, rel=1e-6)


@given(uneven_graphs(), st.sampled_from(Family))
@examples(120)
def test_ip_never_claims_what_is_not_so(instance: tuple[DnnGraph, Deployment], family: Family) -> None:
    best = best_value(*instance, family, Objective.THROUGHPUT)
    result = solve(*instance, method="ip", family=family, time_limit_s=20.0)
    if best is None:
        assert result.value_ms is None
    elif result.status is SolveStatus.OPTIMAL:
        assert result.value_ms == pytest.approx(best, rel=1e-5, abs=1e-9)
    else:
        assert result.status is not SolveStatus.INFEASIBLE
    if best is not None and result.lower_bound_ms is not None:
        assert result.lower_bound_ms <= best * (1 + 1e-6) + 1e-9


@given(uneven_graphs() | small_graphs(max_nodes=4), st.sampled_from(Family), st.integers(1, 3))
@examples(150)
def test_work_bound_holds_for_every_split(
    instance: tuple[DnnGraph, Deployment], family: Family, max_replicas: int
) -> None:
    graph, deployment = instance
    deployment = replace(deployment, replication=Replication(max_replicas, 10.0))
    contraction = contract(graph, family, deployment)
    best = best_value(graph, deployment, family, Objective.THROUGHPUT)
    if why_infeasible(graph, contraction, deployment) is not None:
        assert best is None
    elif best is not None:
        assert work_bound(contraction, deployment) <= best * (1 + 1e-12)


@given(uneven_graphs() | small_graphs(max_nodes=5), st.sampled_from(Family))
@examples(150)
def test_preparation_keeps_a_best_split(instance: tuple[DnnGraph, Deployment], family: Family) -> None:
    """Of the best splits at least one keeps the prepared blocks together."""
    graph, deployment = instance
    blocks = contract(graph, family, deployment).members
    tied = DnnGraph(
        tuple(
            # one class per block ties its nodes together without changing anything else
            Node(
                **{
                    **{f: getattr(node, f) for f in Node.__dataclass_fields__},
                    "colocation_class": next(b for b, ids in enumerate(blocks) if node.id in ids),
                }
            )
            for node in graph.nodes
        ),
        graph.edges,
    )
    # A chain of the tied graph is one of the original only if classes tie no new knots, so judge by the original.
    best = best_value(graph, deployment, family, Objective.THROUGHPUT)
    kept = best_value(tied, deployment, Family.FREE, Objective.THROUGHPUT)
    if best is None:
        return
    assert kept is not None
    if family is Family.FREE:
        assert kept == pytest.approx(best)
    else:
        assert kept <= best * (1 + 1e-12)


def test_backward_only_block_is_no_forward_neighbour() -> None:
    nodes = (
        Node(1, 0, 0, colocation_class=1),
        Node(2, 0, 0, transfer_ms=1, is_backward=True, colocation_class=1),
        Node(3, 3, 3, is_backward=True),
        Node(4, 5, 5),
        Node(5, 2, 2),
    )
    graph = DnnGraph(nodes, (Edge(1, 4), Edge(4, 5), Edge(2, 3)))
    assert solve(graph, Deployment(2), family=Family.CONVEX).value_ms == 6.0


@pytest.mark.parametrize("huge", [1e6, 1e7, 1e8, 1e9, 1e12])
def test_a_time_that_means_never_does_not_spoil_the_proof(huge: float) -> None:
    nodes = (Node(1, huge, 0.1), Node(2, 0, huge, 1.0), Node(3, 0.59, 0.59, 0.2), Node(4, 0.38, 3.8, 2.0))
    result = solve(DnnGraph(nodes, (Edge(1, 2), Edge(2, 4))), Deployment(1, 1, 2.3), family=Family.FREE)
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(3.9)


def test_tables_are_limited_in_bytes_and_a_plan_comes_with_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(3, num_nodes=18, edge_probability=0.15), Deployment(3)
    contraction = contract(graph, Family.CHAIN, deployment)
    full = ChainSearch(graph, contraction, deployment).run()
    monkeypatch.setattr(label_search, "FIRST_ROWS", 2)
    answer = ChainSearch(graph, contraction, deployment, max_bytes=10_000).run()
    assert answer.num_ideals < full.num_ideals
    assert answer.device_of_block is not None
    assert answer.lower_bound_ms < full.value_ms <= answer.value_ms


def test_tables_grow_without_losing_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(8, num_nodes=16, edge_probability=0.2), Deployment(3, 1)
    contraction = contract(graph, Family.CHAIN, deployment)
    roomy = ChainSearch(graph, contraction, deployment).run()
    monkeypatch.setattr(label_search, "FIRST_ROWS", 2)
    cramped = ChainSearch(graph, contraction, deployment).run()
    assert cramped.num_ideals > 16  # so the tables have grown several times
    assert (cramped.value_ms, cramped.num_ideals) == (roomy.value_ms, roomy.num_ideals)


def test_more_devices_than_nodes_cost_nothing() -> None:
    graph = chain((1, 2, 3, 4))
    few, many = solve(graph, Deployment(4, 2), method="dp"), solve(graph, Deployment(1000, 60), method="dp")
    assert few.value_ms == many.value_ms
    assert many.split is not None
    assert not check_split(graph, Deployment(1000, 60), many.split, Family.CHAIN)


def test_gap_ends_the_search_early_and_is_checked() -> None:
    graph, deployment = random_dag(6, num_nodes=14), Deployment(3)
    for method in ("dp", "ip"):
        result = solve(graph, deployment, method=method, gap=0.5)
        assert result.gap is not None
        assert result.gap <= 0.5
    for gap in (-1.0, 1.0, float("nan")):
        with pytest.raises(MethodError, match="gap"):
            solve(graph, deployment, gap=gap)


def test_program_too_large_for_its_time_is_not_begun() -> None:
    graph = random_dag(1, num_nodes=300, edge_probability=0.02)
    result = solve(graph, Deployment(16, 1), method="ip", family=Family.CONVEX, time_limit_s=1.0)
    assert "too large" in result.message
    assert result.lower_bound_ms is not None


def test_rows_that_highs_refuses_are_noticed() -> None:
    import pulp

    model = pulp.LpProblem("wide", pulp.LpMinimize)
    x, y = model.add_variable("x", 0, 1, cat=pulp.LpBinary), model.add_variable("y", 0)
    model += y
    model += y >= 1 - 1e30 * x, "too_wide"
    with pytest.raises(MilpRefusedError):
        run_highs(model, time_limit_s=None, gap=0.0)


def test_kernel_is_the_same_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled kernel and the Python it was written in find the same chain."""
    graph, deployment = random_dag(4, num_nodes=7), Deployment(2, 1, 9.0)
    contraction = contract(graph, Family.CHAIN, deployment)
    compiled = ChainSearch(graph, contraction, deployment).run()
    for module in (label_kernel, label_search):
        for name, function in vars(module).items():
            if hasattr(function, "py_func"):
                monkeypatch.setattr(module, name, function.py_func)
    with np.errstate(over="ignore"):
        interpreted = ChainSearch(graph, contraction, deployment).run()
    assert interpreted == compiled


def test_what_is_left_of_a_sum_is_no_work() -> None:
    """0.1 + 0.2 + 0.3 less its parts is not zero; it must not count as a node for CPUs, nor as memory."""
    edges = (Edge(1, 2), Edge(2, 3), Edge(3, 4))
    on_cpu = tuple(Node(v, 1.0, v / 10, runs_on_accelerator=False) for v in (1, 2, 3))
    assert solve(DnnGraph((*on_cpu, Node(4, 0.0, 100.0)), edges), Deployment(1, 1)).value_ms == pytest.approx(0.6)
    large = tuple(Node(v, 9.0, 0.1, memory_bytes=v / 10) for v in (1, 2, 3))
    assert solve(DnnGraph((*large, Node(4, 0.5, 100.0)), edges), Deployment(1, 1, 0.0)).value_ms == 0.5


def test_work_bound_keeps_small_blocks_beside_a_huge_one() -> None:
    small = (
        Node(2, 0.07, 50.0, 0, 0.02),
        Node(3, 0.35, 50.0, 0, 0.1),
        Node(4, 0.45, 50.0),
        Node(5, 0.08, 50.0, 0, 0.1),
    )
    graph = DnnGraph((Node(1, 1e15, 1e-3), *small), (Edge(2, 3), Edge(2, 4)))
    assert solve(graph, Deployment(2, 1)).value_ms == pytest.approx(0.52)


@pytest.mark.parametrize("deployment", [Deployment(1), Deployment(2), Deployment(1, 1), Deployment(1, 2)])
@pytest.mark.parametrize("method", ["dp", "ip"])
@pytest.mark.parametrize("cpu_ms", [5e-324, 3e-308])
def test_a_ratio_of_times_too_large_for_a_number(deployment: Deployment, method: str, cpu_ms: float) -> None:
    graph = DnnGraph((Node(1, 20.0, cpu_ms), Node(2, 30.0, cpu_ms)), ())
    result = solve(graph, deployment, method=method, time_limit_s=20)
    best = best_value(graph, deployment, Family.CHAIN, Objective.THROUGHPUT)
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(best, rel=1e-6, abs=1e-300)


def test_a_program_that_highs_ends_without_proof_is_told() -> None:
    """HiGHS 1.15 ends this one with an error of its own; whatever it does, an answer without a proof says why."""
    nodes = (
        Node(1, 0.1, 2.0, 4.0, 1e9),
        Node(2, 1e-9, 7.0, 8.0, 0.1),
        Node(3, 1.0, 6.0, 3.0, 1.0),
        Node(4, 1e-9, 1.0, 1.0, 1e5),
    )
    graph = DnnGraph(nodes, (Edge(2, 3), Edge(4, 2), Edge(4, 1), Edge(3, 1)))
    result = solve(graph, Deployment(3, 1, 26.0), family=Family.CONVEX)
    assert result.value_ms == pytest.approx(1.100000002)
    assert result.status is SolveStatus.OPTIMAL or "without a proof" in result.message


@pytest.mark.parametrize("is_mended", [True, False])
def test_a_program_that_ends_with_an_error_is_run_again_without_presolve(
    is_mended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[bool] = []

    def failing(*args: Any, presolve: bool, **options: Any) -> MilpOutcome:
        runs.append(presolve)
        outcome = run_highs(*args, presolve=presolve, **options)
        return outcome if is_mended and not presolve else replace(outcome, solution=None, bound=None)

    def silent(*args: Any, on_report: object, **options: Any) -> MilpOutcome:
        return failing(*args, **options)  # what HiGHS reports while it runs would be a proof

    monkeypatch.setattr("solvers.milp.highs.run_highs", silent)
    instance = chain((3.0, 4.0, 2.0)), Deployment(2)
    result = solve_by_ip_alone(instance, Family.CHAIN, Objective.THROUGHPUT)
    assert runs == [True, False]
    if is_mended:
        assert_optimal(result, instance, best_value(*instance, Family.CHAIN, Objective.THROUGHPUT))
    else:
        assert result.status is SolveStatus.UNKNOWN
        assert "without a proof" in result.message


@pytest.mark.parametrize("family", Family)
def test_a_program_is_scaled_anew_after_a_poor_plan(family: Family) -> None:
    """At the scale of the plan it starts from, what its bound is lowered by would be more than a proof allows."""
    nodes = tuple(Node(v, 1.0, 10.0) for v in range(3))
    graph, deployment = DnnGraph(nodes, ()), Deployment(2, 1)
    problem = Problem(graph, deployment, Objective.THROUGHPUT, family, None, 0.0)
    reporter = Reporter(problem, None)
    assert reporter.found(Split((frozenset(), frozenset()), (frozenset(range(3)),)))
    result = throughput._run_ip(problem, contract(graph, family, deployment), reporter, "ip")
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == 2.0


def test_work_that_a_sum_swallows_counts_for_the_cpus() -> None:
    """The CPU takes 1 in no time, then 3, whose work is lost beside that of 1, then 4 and 5."""
    nodes = (
        Node(1, 1e12, 0.0),
        Node(3, 1e-12, 1e-300),
        Node(4, 1e15, 1.0, transfer_ms=1e15),
        Node(5, 1e15, 1e12),
        Node(6, 1e12, 1e15),
    )
    graph = DnnGraph(nodes, (Edge(3, 1), Edge(4, 5)))
    assert solve(graph, Deployment(1, 1)).value_ms == pytest.approx(1e12, rel=1e-9)
