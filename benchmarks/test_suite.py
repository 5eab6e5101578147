"""Time every engine, the evaluator and the simulation, with the peak memory of the solves; compilation is not counted.

`make benchmark` runs it and writes `benchmarks/RESULTS.md`.
"""

from typing import Any

import pytest

from benchmarks.peak_memory import peak_mb
from benchmarks.workloads import read_workload, workload_names
from solvers.model.costs import split_costs
from solvers.model.result import SolveResult, SolveStatus
from solvers.schedule.simulate import ScheduleKind, simulate
from solvers.solve import solve
from solvers.warm_up import compile_all

MICRO_BATCHES = 32
ROUNDS = 3
"""Few, since the slowest graph takes seconds: look at the minimum."""
TIME_LIMIT_S = 8.0
"""Of the engines that need not end; what they have proven by then is in the table."""

CHAIN_PROGRAM = (
    "bert_base_operator_inference",
    "gnmt_layer_inference",
    "unet_operator_inference",
    "paper/bert_l-3_operator_inference",
    "paper/gnmt_layer_inference",
)
FREE = (
    "teaching_tied_embedding",
    "gnmt_layer_inference",
    "bert_base_operator_inference",
    "paper/bert_l-3_operator_inference",
    "paper/gnmt_layer_inference",
    "paper/resnet50_layer_inference",
)
GPIPE = ("gpt2_xl_layer_training", "bert_base_operator_training", "paper/bert24_layer_training")
LATENCY = ("teaching_chain", "gnmt_layer_inference", "paper-latency/bert24_layer_inference")

_solved: dict[str, SolveResult] = {}


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels() -> None:
    compile_all()


def _time_solve(benchmark: Any, name: str, rounds: int, **options: Any) -> SolveResult:
    """Time a solve, and note what it found and the peak memory of the same solve in a process of its own."""
    graph, deployment = read_workload(name)
    result: SolveResult = benchmark.pedantic(solve, (graph, deployment), options, rounds=rounds)
    benchmark.extra_info.update(
        nodes=len(graph.nodes),
        status=str(result.status),
        value_ms=result.value_ms,
        gap=result.gap,
        peak_mb=round(peak_mb(name, options)),
    )
    return result


def _here(*names: str) -> list[str]:
    return [name for name in names if name in workload_names()]


@pytest.mark.parametrize("name", [name for name in workload_names() if not name.startswith("paper-latency/")])
@pytest.mark.benchmark(group="chain optimum by DP")
def test_dp(benchmark: Any, name: str) -> None:
    """Time until the chain optimum is proven."""
    result = _time_solve(benchmark, name, ROUNDS, method="dp")
    assert result.status is SolveStatus.OPTIMAL
    _solved[name] = result


@pytest.mark.parametrize("name", _here(*GPIPE))
@pytest.mark.benchmark(group="GPipe optimum of chains")
def test_gpipe(benchmark: Any, name: str) -> None:
    """Time until the GPipe time of a chain is proven."""
    _time_solve(benchmark, name, 1, objective="gpipe", time_limit_s=TIME_LIMIT_S)


@pytest.mark.parametrize("name", _here(*CHAIN_PROGRAM))
@pytest.mark.benchmark(group="chain optimum by integer program")
def test_chain_ip(benchmark: Any, name: str) -> None:
    """Time of the chain program, which starts from the plan of the DP."""
    _time_solve(benchmark, name, 1, method="ip", time_limit_s=TIME_LIMIT_S)


@pytest.mark.parametrize("name", _here(*FREE))
@pytest.mark.benchmark(group="free splits")
def test_free(benchmark: Any, name: str) -> None:
    """Time of the free family, to proof or the time limit."""
    _time_solve(benchmark, name, 1, family="free", time_limit_s=TIME_LIMIT_S)


@pytest.mark.parametrize("name", _here(*LATENCY))
@pytest.mark.benchmark(group="latency")
def test_latency(benchmark: Any, name: str) -> None:
    """Time of single-sample latency, to proof or the time limit."""
    _time_solve(benchmark, name, 1, objective="latency", time_limit_s=TIME_LIMIT_S)


@pytest.mark.parametrize("name", [name for name in workload_names() if not name.startswith("paper-latency/")])
@pytest.mark.benchmark(group="evaluation of the optimum")
def test_evaluation(benchmark: Any, name: str) -> None:
    """Time the evaluator on the optimal split."""
    graph, deployment = read_workload(name)
    split = _split(name)
    costs = benchmark.pedantic(split_costs, (graph, deployment, split), rounds=10, warmup_rounds=1)
    benchmark.extra_info.update(nodes=len(graph.nodes))
    assert costs.max_load_ms == _solved[name].value_ms


@pytest.mark.parametrize("name", [name for name in workload_names() if not name.startswith("paper-latency/")])
@pytest.mark.benchmark(group=f"simulation of {MICRO_BATCHES} micro-batches")
def test_simulation(benchmark: Any, name: str) -> None:
    """Time the schedule of the optimal split, 1F1B for training graphs."""
    graph, deployment = read_workload(name)
    kind = ScheduleKind.ONE_F_ONE_B if graph.is_training else ScheduleKind.INFERENCE
    split = _split(name)
    benchmark.extra_info.update(nodes=len(graph.nodes))
    benchmark.pedantic(simulate, (graph, deployment, split, kind, MICRO_BATCHES), rounds=ROUNDS, warmup_rounds=1)


def _split(name: str) -> Any:
    """Return the optimal split of a graph, solving it unless `test_dp` already has."""
    if name not in _solved:
        _solved[name] = solve(*read_workload(name), method="dp")
    return _solved[name].split
