"""What it takes for a method to be right: its answer is the optimum, proven, and what the evaluator says it is."""

import pytest

from solvers.latency import solve as latency_module
from solvers.methods import throughput
from solvers.model.costs import Objective, objective_value, single_sample_latency
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, check_split
from solvers.problem.bounds import why_infeasible
from solvers.problem.contraction import contract
from solvers.problem.solving import Problem, Reporter

Instance = tuple[DnnGraph, Deployment]


def assert_optimal(result: SolveResult, instance: Instance, best: float | None) -> None:
    """The result is `best`, proven, and its split is what the evaluator says it is."""
    graph, deployment = instance
    if best is None:
        assert result.status is SolveStatus.INFEASIBLE
        assert result.split is None
        assert result.message.endswith(".")
        return
    assert result.status is SolveStatus.OPTIMAL, result
    assert result.value_ms == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert result.lower_bound_ms == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert result.split is not None
    assert not check_split(graph, deployment, result.split, result.family)
    assert objective_value(graph, deployment, result.split, result.objective) == result.value_ms


def solve_by_ip_alone(instance: Instance, family: Family, objective: Objective) -> SolveResult:
    """Run the integer program without the DP's plan, so that a model that is too tight shows."""
    graph, deployment = instance
    problem = Problem(graph, deployment, objective, family, None, 0.0)
    contraction = contract(graph, family, deployment, passes_apart=objective is Objective.GPIPE)
    reporter = Reporter(problem, None)
    reason = why_infeasible(graph, contraction, deployment)
    if reason is not None:
        return reporter.result("ip", infeasible=reason)
    return throughput._run_ip(problem, contraction, reporter, "ip")


def solve_by_cp_sat_alone(instance: Instance) -> SolveResult:
    """Run CP-SAT without a start and with no bound, so that a model that is too tight or loose shows."""
    graph, deployment = instance
    problem = Problem(graph, deployment, Objective.LATENCY, Family.FREE, None, 0.0)
    contraction = contract(graph, Family.FREE, deployment, join_idle=False)
    reporter = Reporter(problem, None)
    reason = why_infeasible(graph, contraction, deployment)
    if reason is not None:
        return reporter.result("ip", infeasible=reason)
    return latency_module._Run(problem, contraction, reporter, iter(()), []).finish()


def assert_least_latency(result: SolveResult, instance: Instance, best: float | None) -> None:
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
