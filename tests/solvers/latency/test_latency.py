"""Latency: plans and bounds agree with brute force, for CP-SAT alone and for all together."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from solvers.formats.graph_json import read_graph
from solvers.latency import bound as latency_bound_module
from solvers.latency import parts as latency_parts_module
from solvers.latency import solve as latency_module
from solvers.latency.annealing import latency_search
from solvers.latency.bound import latency_bound, latency_bounds
from solvers.latency.cp_sat_process import CpSatProcess
from solvers.latency.greedy import greedy_latency_split, greedy_latency_splits
from solvers.latency.program import LatencyProgram
from solvers.model.costs import Objective, single_sample_latency
from solvers.model.deployment import Deployment, Replication
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import Progress, SolveCancelled, SolveResult, SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import contract
from solvers.problem.solving import MethodError, Problem, Reporter
from solvers.solve import solve
from tests.support.agreement import Instance, assert_least_latency, solve_by_cp_sat_alone
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    dag,
    diamond,
    random_dag,
    scaled,
    small_graphs,
    training_chain,
    two_branches,
)
from tests.support.reference import best_latency


def solve_latency(graph: DnnGraph, deployment: Deployment, **options: object) -> SolveResult:
    return solve(graph, deployment, objective=Objective.LATENCY, **options)  # type: ignore[arg-type]


@st.composite
def with_subgraphs(draw: st.DrawFn, max_nodes: int = 4, max_accelerators: int = 2, max_subgraphs: int = 2) -> Instance:
    """Draw a small inference graph whose accelerators run up to two subgraphs each."""
    graph, deployment = draw(small_graphs(max_nodes=max_nodes, max_accelerators=max_accelerators, backward=False))
    return graph, replace(deployment, max_subgraphs=draw(st.integers(1, max_subgraphs)))


@given(small_graphs(max_nodes=5, backward=False))
@examples(100)
def test_result_equals_brute_force(instance: Instance) -> None:
    best = best_latency(*instance)
    event(f"feasible: {best is not None}, accelerators: {instance[1].num_accelerators}")
    assert_least_latency(solve_latency(*instance), instance, best)


@given(with_subgraphs())
@examples(60)
def test_result_with_subgraphs_equals_brute_force(instance: Instance) -> None:
    best = best_latency(*instance)
    event(f"feasible: {best is not None}, subgraphs: {instance[1].max_subgraphs}")
    assert_least_latency(solve_latency(*instance), instance, best)


@given(with_subgraphs())
@examples(12)
def test_cp_sat_equals_brute_force(instance: Instance) -> None:
    if instance[1].num_accelerators:
        assert_least_latency(solve_by_cp_sat_alone(instance), instance, best_latency(*instance))


@given(small_graphs(max_nodes=6, max_accelerators=2, max_cpus=3, backward=False, colocation=False))
@examples(40)
def test_result_equals_brute_force_with_many_cpus(instance: Instance) -> None:
    assert_least_latency(solve_latency(*instance), instance, best_latency(*instance))


@given(with_subgraphs(max_nodes=5), st.sampled_from([4, 6, 200]))
@examples(200)
def test_bound_never_passes_the_optimum(instance: Instance, most_ideals: int) -> None:
    best = best_latency(*instance)
    with pytest.MonkeyPatch.context() as patch:
        # Few ideals leave nodes out of the part that is looked at.
        patch.setattr(latency_bound_module, "IDEAL_LIMITS", (most_ideals,))
        bound = latency_bound(*instance)
    event(f"tight: {best is not None and bound >= best * (1 - 1e-9)}, ideals: {most_ideals}")
    assert bound >= 0
    if best is not None:
        assert bound <= best


@given(with_subgraphs(max_nodes=5))
@examples(60)
def test_a_known_plan_does_not_make_the_bound_pass_the_optimum(instance: Instance) -> None:
    best = best_latency(*instance)
    if best is not None:
        assert max(latency_bounds(*instance, known_ms=lambda: best)) <= best
        assert max(latency_bounds(*instance, known_ms=lambda: 1.25 * best)) <= best


@pytest.mark.parametrize("memory", [1.0, 2.0, 3.0, 5.0, None])
def test_bound_of_a_path_is_its_optimum(memory: float | None) -> None:
    graph = chain((2, 1, 3, 1, 2), transfer_ms=(1, 3, 0.5, 2, 0))
    deployment = Deployment(2, 1, memory)
    assert latency_bound(graph, deployment) == pytest.approx(best_latency(graph, deployment), rel=1e-12)


def test_bound_counts_what_memory_forces() -> None:
    # Three nodes of 2 bytes in accelerators of 4: one cut, or a node on a CPU at four times the time.
    graph = dag((1, 2, 3), ((1, 2), (2, 3)), transfer_ms=0.25, memory_bytes=2)
    for deployment, best in (
        (Deployment(2, 1, 6.0), 6.0),
        (Deployment(2, 1, 4.0), 6.5),
        (Deployment(1, 1, 4.0), 5 + 4 + 0.25),
        (Deployment(2, 1, 1.0), 24.0),
    ):
        assert latency_bound(graph, deployment) == pytest.approx(best, rel=1e-12)


def test_bound_counts_memory_off_the_path() -> None:
    # Beside the path 1 -> 2 -> 3 stands 4, between 1 and 3 and as large as the one accelerator.
    graph = dag((2, 2, 2, 0), ((1, 2), (2, 3), (1, 4), (4, 3)), transfer_ms=0, memory_bytes=(1, 1, 1, 3))
    nodes = tuple(replace(node, cpu_ms=0.0) if node.id == 4 else node for node in graph.nodes)
    graph = DnnGraph(nodes, graph.edges)
    # With 4 on a CPU, 1 and 3 cannot both be with it: one of them runs on a CPU in 8 ms.
    assert latency_bound(graph, Deployment(1, 1, 5.0)) == pytest.approx(12.0, rel=1e-12)
    assert best_latency(graph, Deployment(1, 1, 5.0)) == 12.0
    assert latency_bound(graph, Deployment(1, 1, 6.0)) == pytest.approx(6.0, rel=1e-12)


def test_bound_averages_over_paths() -> None:
    # Two branches of two nodes, and an accelerator for half of them: either path alone could be all on it, in 2 ms.
    graph = dag((1, 1, 1, 1, 0), ((1, 2), (3, 4), (2, 5), (4, 5)), transfer_ms=0, memory_bytes=(1, 1, 1, 1, 0))
    deployment = Deployment(1, 1, 2.0)
    # But then the other path takes 8 ms, 5 on average; with half of each path on the accelerator both take 6.
    assert best_latency(graph, deployment) == 6.0
    assert 4.5 < latency_bound(graph, deployment) <= 5.0


def test_bound_shares_memory_among_the_subgraphs_of_an_accelerator() -> None:
    # Three nodes of 2 bytes: two subgraphs of up to 4 bytes would hold them, an accelerator of 4 does not.
    graph = dag((3, 3, 3), ((1, 2), (2, 3)), transfer_ms=0, memory_bytes=2)
    deployment = Deployment(1, 1, 4.0, max_subgraphs=2)
    assert best_latency(graph, deployment) == 3 + 3 + 12
    assert 17 < latency_bound(graph, deployment) <= 18


def test_subgraphs_of_one_accelerator_run_one_after_the_other() -> None:
    # 2 runs on CPUs only, between 1 and 3: with q = 1 an accelerator holds 1 or 3, with q = 2 both.
    graph = dag((2, 1, 2), ((1, 2), (2, 3)), transfer_ms=0.5)
    nodes = tuple(replace(node, runs_on_accelerator=node.id != 2) for node in graph.nodes)
    graph = DnnGraph(nodes, graph.edges)
    assert solve_latency(graph, Deployment(1, 1)).value_ms == 2 + 0.5 + 4 + 8
    result = solve_latency(graph, Deployment(1, 1, max_subgraphs=2))
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == 2 + 0.5 + 4 + 0.5 + 2
    assert result.split is not None
    assert result.split.subgraphs == ((frozenset({1}), frozenset({3})),)


@given(small_graphs(max_nodes=6, backward=False))
@examples(150)
def test_greedy_plans_are_complete_and_the_one_returned_is_valid(instance: Instance) -> None:
    graph, deployment = instance
    for split in greedy_latency_splits(graph, deployment):
        rules = {violation.rule for violation in check_split(graph, deployment, split)}
        assert not rules if deployment.num_cpus else rules <= {"memory", "unsupported"}
        assert single_sample_latency(graph, deployment, split) is not None
    best = greedy_latency_split(graph, deployment)
    assert best is not None or not deployment.num_cpus
    assert best is None or not check_split(graph, deployment, best)


@given(with_subgraphs(max_nodes=6, max_accelerators=3))
@examples(60)
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
    result = solve_by_cp_sat_alone((graph, Deployment(2, 0, 2.0)))
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == 0.0


def test_presolve_of_cp_sat_cuts_no_optimum_off() -> None:
    # With its presolve as it comes, CP-SAT 9.15 says that 1003 is the optimum.
    nodes = (
        Node(0, 2.0, 0.0),
        Node(1, 0.0, 0.0, 1.0, 1.0),
        Node(2, 1000.0, 4000.0, 2.0),
        Node(3, 1.0, 1.0, 1.0),
        Node(4, 1000.0, 4000.0, 2.0),
    )
    graph = DnnGraph(nodes, (Edge(1, 2), Edge(2, 3), Edge(1, 4)))
    deployment = Deployment(2, 1, 2.0)
    start = Split((frozenset({4}), frozenset({0})), (frozenset({1, 2, 3}),))
    known, optimum = single_sample_latency(graph, deployment, start), 1002.0
    assert best_latency(graph, deployment) == optimum
    program = LatencyProgram.below(graph, deployment, start, known, 0.0, 0.0)
    found, status = None, None
    with CpSatProcess("cp_sat", program.document(latency_module.NUM_WORKERS)) as child:
        while status is None:
            for answer in child.answers(1.0):
                found = program.split(answer) if "slot" in answer else found
                assert program.bound_ms(answer) <= optimum
                status = answer.get("status")
    assert status == "OPTIMAL"
    assert found is not None
    assert single_sample_latency(graph, deployment, found) == optimum


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


@pytest.mark.parametrize("phase", ["bound from ideals", "greedy", "annealing", "integer program"])
def test_cancelling_in_any_phase_keeps_what_is_known(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = hard_graph()
    monkeypatch.setattr(latency_module, "PROOF_AFTER_SECONDS", 0.0)
    last: list[Progress] = []

    def cancel(progress: Progress) -> None:
        last.append(progress)
        if progress.phase == phase:
            raise SolveCancelled

    result = solve_latency(graph, deployment, time_limit_s=60, on_progress=cancel)
    assert "ancelled" in result.message
    assert result.value_ms == last[-1].incumbent_ms
    if phase in ("annealing", "integer program"):  # bounds are looked for beside these, and may be better by now
        assert last[-1].lower_bound_ms <= result.lower_bound_ms <= result.value_ms  # type: ignore[operator]
    else:
        assert result.lower_bound_ms == last[-1].lower_bound_ms
    assert (result.split is None) == (phase == "bound from ideals")


@pytest.mark.slow
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
    monkeypatch.setattr(latency_bound_module, "IDEAL_LIMITS", (200,))
    result = solve_latency(graph, deployment)
    assert result.status is SolveStatus.FEASIBLE
    assert "too large" in result.message


def test_large_graphs_get_the_critical_path_and_long_ones_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = chain((1,) * 30, transfer_ms=0.5), Deployment(3, 1, 10.0)
    best = 30 + 4 * 0.5
    assert latency_bound(graph, deployment) == pytest.approx(best, rel=1e-12)
    monkeypatch.setattr(latency_parts_module, "MAX_PART", 20)
    assert 19 < latency_bound(graph, Deployment(1, 1, 10.0)) <= 10 + 0.5 + 4 * 20
    monkeypatch.setattr(latency_bound_module, "MAX_GRAPH", 29)
    assert latency_bound(graph, deployment) == pytest.approx(30, rel=1e-12)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_more_memory_never_hurts_and_doubled_times_double(seed: int) -> None:
    graph = random_dag(seed, num_nodes=7)
    memory = sum(node.memory_bytes for node in graph.nodes)
    values = [solve_latency(graph, Deployment(2, 1, share * memory)).value_ms for share in (0.2, 0.5, 1.0)]
    assert values == sorted(values, reverse=True)  # type: ignore[type-var]
    slower = solve_latency(scaled(graph, 2), Deployment(2, 1, 0.2 * memory)).value_ms
    assert slower == pytest.approx(2 * values[0])  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("max_subgraphs", [1, 2])
@pytest.mark.parametrize(
    "name",
    ["bert24_layer_inference", "bert_l-3_operator_inference", "gnmt_layer_inference", "resnet50_layer_inference"],
)
def test_best_latencies_of_the_paper(paper_workloads: Path, name: str, max_subgraphs: int) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["latency"][name]
    best_ms = known["latency_q1"]["best"]
    graph, deployment = read_graph(paper_workloads / "latency" / f"{name}.json")

    def end_when_met(progress: Progress) -> None:
        """End a solve that has what is asked of it below: the rest of the gap takes as long as it is given."""
        value_ms, bound_ms = progress.incumbent_ms or math.inf, progress.lower_bound_ms or 0.0
        if value_ms <= best_ms * (1 + 1e-5) and bound_ms >= best_ms * 0.99:
            raise SolveCancelled

    deployment = replace(deployment, max_subgraphs=max_subgraphs)
    result = solve_latency(graph, deployment, time_limit_s=90, gap=1e-5, on_progress=end_when_met)
    assert result.value_ms is not None
    assert result.value_ms <= best_ms * (1 + 1e-5)
    assert result.lower_bound_ms is not None
    assert best_ms * 0.99 <= result.lower_bound_ms <= best_ms * (1 + 1e-6)


def test_what_is_proven_infeasible_stays_so_whatever_bounds_come_later() -> None:
    graph, deployment = chain([1.0, 2.0]), Deployment(1)
    problem = Problem(graph, deployment, Objective.LATENCY, Family.FREE, time_limit_s=None, gap=0.0)
    run = latency_module._Run(
        problem, contract(graph, Family.FREE, deployment), Reporter(problem, None), iter([1.0, 2.0]), []
    )
    run.infeasible = True
    run._raise_bound()
    assert run.infeasible


def test_replicas_are_refused() -> None:
    with pytest.raises(MethodError, match="micro-batches round-robin"):
        solve_latency(chain([1.0, 2.0]), Deployment(2, replication=Replication(2)))
