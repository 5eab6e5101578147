"""Time the chain DP, the evaluator and the simulation on every graph; compilation is not counted."""

from typing import Any

import pytest

from benchmarks.workloads import read_workload, workload_names
from solvers.costs import split_costs
from solvers.result import SolveResult, SolveStatus
from solvers.schedule import ScheduleKind, simulate
from solvers.solve import solve
from solvers.warm_up import warm_up

MICRO_BATCHES = 32
ROUNDS = 3
"""Few, since the slowest graph takes seconds: look at the minimum."""

_solved: dict[str, SolveResult] = {}


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    warm_up()


@pytest.mark.parametrize("name", workload_names())
@pytest.mark.benchmark(group="chain optimum by DP")
def test_dp(benchmark: Any, name: str) -> None:
    """Time until the chain optimum is proven."""
    graph, deployment = read_workload(name)
    result = benchmark.pedantic(solve, (graph, deployment), {"method": "dp"}, rounds=ROUNDS)
    assert result.status is SolveStatus.OPTIMAL
    benchmark.extra_info.update(nodes=len(graph.nodes), optimum_ms=result.value_ms)
    _solved[name] = result


@pytest.mark.parametrize("name", workload_names())
@pytest.mark.benchmark(group="evaluation of the optimum")
def test_evaluation(benchmark: Any, name: str) -> None:
    """Time the evaluator on the optimal split."""
    graph, deployment = read_workload(name)
    split = _split(name)
    costs = benchmark.pedantic(split_costs, (graph, deployment, split), rounds=10, warmup_rounds=1)
    assert costs.max_load_ms == _solved[name].value_ms


@pytest.mark.parametrize("name", workload_names())
@pytest.mark.benchmark(group=f"simulation of {MICRO_BATCHES} micro-batches")
def test_simulation(benchmark: Any, name: str) -> None:
    """Time the schedule of the optimal split, 1F1B for training graphs."""
    graph, deployment = read_workload(name)
    kind = ScheduleKind.ONE_F_ONE_B if graph.is_training else ScheduleKind.INFERENCE
    split = _split(name)
    benchmark.pedantic(simulate, (graph, deployment, split, kind, MICRO_BATCHES), rounds=ROUNDS, warmup_rounds=1)


def _split(name: str) -> Any:
    """Return the optimal split of a graph, solving it unless `test_dp` already has."""
    if name not in _solved:
        _solved[name] = solve(*read_workload(name), method="dp")
    return _solved[name].split
