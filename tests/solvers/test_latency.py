"""Latency: the integer program and its start agree with brute force, and the bound never passes the optimum."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import event, given, settings

from solvers import latency as latency_module
from solvers.baselines.greedy_latency import greedy_latency_split, greedy_latency_splits, latency_search
from solvers.bounds import why_infeasible
from solvers.contraction import contract
from solvers.costs import Objective, single_sample_latency
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.graph_json import read_graph
from solvers.latency_ip import latency_bound
from solvers.result import Progress, SolveCancelled, SolveResult, SolveStatus
from solvers.solve import solve
from solvers.solving import MethodError, Problem, Reporter
from solvers.split import Family, Split, check_split
from tests.graphs import chain, dag, diamond, random_dag, small_graphs, training_chain, two_branches
from tests.reference import best_value

Instance = tuple[DnnGraph, Deployment]


def solve_latency(graph: DnnGraph, deployment: Deployment, **options: object) -> SolveResult:
    return solve(graph, deployment, objective=Objective.LATENCY, **options)  # type: ignore[arg-type]


def best_latency(graph: DnnGraph, deployment: Deployment) -> float | None:
    """The optimum by brute force; CPUs are as many as needed, so one of them stands for all."""
    return best_value(graph, replace(deployment, num_cpus=min(deployment.num_cpus, 1)), Family.FREE, Objective.LATENCY)


def solve_by_ip_alone(instance: Instance) -> SolveResult:
    """Run the integer program without a start and with no bound, so that a model that is too tight or loose shows."""
    graph, deployment = instance
    problem = Problem(graph, deployment, Objective.LATENCY, Family.FREE, None, 0.0)
    contraction = contract(graph, Family.FREE, deployment, join_idle=False)
    reporter = Reporter(problem, None)
    reason = why_infeasible(graph, contraction, deployment)
    if reason is not None:
        return reporter.result("ip", infeasible=reason)
    return latency_module._run_latency_ip(problem, contraction, reporter)


def assert_optimal(result: SolveResult, instance: Instance, best: float | None) -> None:
    """The result is `best`, proven, and its split is what the evaluator says it is."""
    if best is None:
        assert result.status is SolveStatus.INFEASIBLE
        assert result.message.endswith((".", ".)"))
        return
    assert result.status is SolveStatus.OPTIMAL, result
    assert result.value_ms == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert result.family is Family.FREE
    assert result.split is not None
    assert not check_split(*instance, result.split)
    assert single_sample_latency(*instance, result.split) == result.value_ms


@given(small_graphs(max_nodes=5, backward=False))
@settings(max_examples=120)
def test_ip_equals_brute_force(instance: Instance) -> None:
    best = best_latency(*instance)
    event(f"feasible: {best is not None}, accelerators: {instance[1].num_accelerators}")
    assert_optimal(solve_latency(*instance), instance, best)
    if instance[1].num_accelerators:
        assert_optimal(solve_by_ip_alone(instance), instance, best)


@given(small_graphs(max_nodes=6, max_accelerators=2, max_cpus=3, backward=False, colocation=False))
@settings(max_examples=40)
def test_ip_equals_brute_force_with_many_cpus(instance: Instance) -> None:
    assert_optimal(solve_latency(*instance), instance, best_latency(*instance))


@given(small_graphs(max_nodes=5, backward=False))
@settings(max_examples=200)
def test_bound_never_passes_the_optimum(instance: Instance) -> None:
    best = best_latency(*instance)
    if best is not None:
        assert 0 <= latency_bound(*instance) <= best * (1 + 1e-9)


@pytest.mark.parametrize("memory", [1.0, 2.0, 3.0, 5.0, None])
def test_bound_of_a_path_is_its_optimum(memory: float | None) -> None:
    graph = chain((2, 1, 3, 1, 2), transfer_ms=(1, 3, 0.5, 2, 0))
    deployment = Deployment(2, 1, memory)
    assert latency_bound(graph, deployment) == best_latency(graph, deployment)


def test_bound_counts_what_memory_forces() -> None:
    # Three nodes of 2 bytes in accelerators of 4: one cut, or a node on a CPU at four times the time.
    graph = dag((1, 2, 3), ((1, 2), (2, 3)), transfer_ms=0.25, memory_bytes=2)
    assert latency_bound(graph, Deployment(2, 1, 6.0)) == 6.0
    assert latency_bound(graph, Deployment(2, 1, 4.0)) == 6.5
    assert latency_bound(graph, Deployment(1, 1, 4.0)) == 5 + 4 + 0.25
    assert latency_bound(graph, Deployment(2, 1, 1.0)) == 24.0


@given(small_graphs(max_nodes=6, backward=False))
@settings(max_examples=150)
def test_greedy_plans_are_complete_and_the_one_returned_is_valid(instance: Instance) -> None:
    graph, deployment = instance
    for split in greedy_latency_splits(graph, deployment):
        rules = {violation.rule for violation in check_split(graph, deployment, split)}
        assert not rules if deployment.num_cpus else rules <= {"memory", "unsupported"}
        assert single_sample_latency(graph, deployment, split) is not None
    best = greedy_latency_split(graph, deployment)
    assert best is not None or not deployment.num_cpus
    assert best is None or not check_split(graph, deployment, best)


@given(small_graphs(max_nodes=6, backward=False))
@settings(max_examples=60)
def test_annealing_finds_valid_plans_that_get_better(instance: Instance) -> None:
    graph, deployment = instance
    contraction = contract(graph, Family.FREE, deployment, join_idle=False)
    values: list[float] = []
    for split in latency_search(graph, deployment, contraction, greedy_latency_splits(graph, deployment)):
        if split is not None:
            value = single_sample_latency(graph, deployment, split)
            assert value is not None
            # Without a CPU greedy may put a node where it cannot run; the reporter refuses such a plan.
            if deployment.num_cpus:
                assert not check_split(graph, deployment, split)
            values.append(value)
    assert values == sorted(values, reverse=True)


def test_circles_of_tasks_that_take_no_time_are_no_plan() -> None:
    # 1 -> 2 -> 4 and 1 -> 3: {1, 4} would wait for 2, and 2 for {1, 4}, all in no time. Memory holds two nodes.
    graph = dag((0, 0, 0, 0), ((1, 2), (2, 4), (1, 3)), transfer_ms=0.0)
    assert single_sample_latency(graph, Deployment(2), Split((frozenset({1, 4}), frozenset({2, 3})))) is None
    result = solve_by_ip_alone((graph, Deployment(2, 0, 2.0)))
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == 0.0


def test_cpus_are_as_many_as_needed() -> None:
    graph = two_branches(3)
    nodes = tuple(replace(node, runs_on_accelerator=False) for node in graph.nodes)
    result = solve_latency(DnnGraph(nodes, graph.edges), Deployment(1, 1))
    assert (result.status, result.value_ms) == (SolveStatus.OPTIMAL, 12.0)  # both branches at once, 3 x 4 ms


def test_parallel_branches_use_two_accelerators() -> None:
    result = solve_latency(two_branches(3), Deployment(2))
    assert (result.status, result.value_ms) == (SolveStatus.OPTIMAL, 3.0)


@pytest.mark.parametrize("family", list(Family))
def test_family_is_reported_as_free_whatever_is_asked(family: Family) -> None:
    result = solve_latency(diamond(), Deployment(2, 1), family=family)
    assert result.family is Family.FREE
    assert result.value_ms == 10.0


def test_blocks_that_can_only_wait_for_each_other_are_infeasible() -> None:
    # Two classes across each other, each too large to join the other.
    graph = dag((1, 1, 1, 1), ((1, 2), (2, 3), (3, 4)))
    nodes = tuple(replace(node, colocation_class=node.id % 2) for node in graph.nodes)
    result = solve_latency(DnnGraph(nodes, graph.edges), Deployment(2, 0, 2.0))
    assert result.status is SolveStatus.INFEASIBLE
    assert result.message


def test_methods_that_do_not_fit_are_named() -> None:
    with pytest.raises(MethodError, match="dp does not solve objective latency"):
        solve_latency(chain((1, 1)), Deployment(1), method="dp")
    for method in ("auto", "ip", "dp"):
        with pytest.raises(MethodError, match="defined for inference graphs"):
            solve_latency(training_chain((1,), (1,)), Deployment(1), method=method)


def hard_graph() -> Instance:
    graph = random_dag(2, num_nodes=40, edge_probability=0.1)
    return graph, Deployment(4, 1, sum(node.memory_bytes for node in graph.nodes) / 6)


def test_time_limit_returns_incumbent_and_bound() -> None:
    graph, deployment = hard_graph()
    result = solve_latency(graph, deployment, time_limit_s=3.0)
    assert result.split is not None
    assert result.value_ms is not None
    assert result.lower_bound_ms is not None
    assert 0 < result.lower_bound_ms <= result.value_ms
    assert not check_split(graph, deployment, result.split)
    assert result.runtime_s < 15


@pytest.mark.parametrize("phase", ["bound from chains of nodes", "greedy", "annealing", "integer program"])
def test_cancelling_in_any_phase_keeps_what_is_known(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = hard_graph()
    monkeypatch.setattr(latency_module, "SEARCH_SECONDS", 0.5)
    last: list[Progress] = []

    def cancel(progress: Progress) -> None:
        last.append(progress)
        if progress.phase == phase:
            raise SolveCancelled

    result = solve_latency(graph, deployment, time_limit_s=60, on_progress=cancel)
    assert "ancelled" in result.message
    assert result.value_ms == last[-1].incumbent_ms
    assert result.lower_bound_ms == last[-1].lower_bound_ms
    assert (result.split is None) == (phase == "bound from chains of nodes")


def test_progress_brackets_the_answer() -> None:
    graph, deployment = hard_graph()
    reports: list[Progress] = []
    result = solve_latency(graph, deployment, gap=0.3, on_progress=reports.append, time_limit_s=5)
    incumbents = [r.incumbent_ms for r in reports if r.incumbent_ms is not None]
    bounds = [r.lower_bound_ms for r in reports if r.lower_bound_ms is not None]
    assert result.value_ms is not None
    assert incumbents == sorted(incumbents, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= result.value_ms * (1 + 1e-9)


def test_a_graph_too_large_for_the_program_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = hard_graph()
    monkeypatch.setattr(latency_module, "MAX_LATENCY_PROGRAM", 10)
    monkeypatch.setattr(latency_module, "SEARCH_SECONDS", 0.2)
    result = solve_latency(graph, deployment)
    assert result.status is SolveStatus.FEASIBLE
    assert "too large" in result.message


@pytest.mark.parametrize("seed", range(3))
def test_more_memory_never_hurts_and_doubled_times_double(seed: int) -> None:
    graph = random_dag(seed, num_nodes=7)
    memory = sum(node.memory_bytes for node in graph.nodes)
    values = [solve_latency(graph, Deployment(2, 1, share * memory)).value_ms for share in (0.2, 0.5, 1.0)]
    assert values == sorted(values, reverse=True)  # type: ignore[type-var]
    doubled = tuple(
        replace(n, accelerator_ms=2 * n.accelerator_ms, cpu_ms=2 * n.cpu_ms, transfer_ms=2 * n.transfer_ms)
        for n in graph.nodes
    )
    assert solve_latency(DnnGraph(doubled, graph.edges), Deployment(2, 1, 0.2 * memory)).value_ms == pytest.approx(
        2 * values[0]  # type: ignore[operator]
    )


# Reached in a fraction of the time given; lower bounds are those of `latency_bound`.
KNOWN = {
    "bert24_layer_inference": 100.2185,
    "bert_l-3_operator_inference": 401.1020,
    "gnmt_layer_inference": 219.5444,
    "resnet50_layer_inference": 997.3734,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_best_latencies_of_the_paper(paper_workloads: Path, name: str) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["latency"][name]["latency_q1"]
    graph, deployment = read_graph(paper_workloads / "latency" / f"{name}.json")
    result = solve_latency(graph, deployment, time_limit_s=10)
    assert result.value_ms == pytest.approx(known["best"], rel=1e-4)
    assert result.lower_bound_ms is not None
    assert KNOWN[name] - 1e-3 <= result.lower_bound_ms <= known["best"] * (1 + 1e-6)
