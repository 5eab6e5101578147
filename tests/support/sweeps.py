"""Sweeps to run, executors to run them on, and their answers made comparable."""

import os
import signal
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from solvers.model.result import SolveResult
from solvers.samples import read_sample
from solvers.sweep.axes import Axis, Quantity, Varied
from solvers.sweep.run import PointTask, run_sweep, solve_point
from solvers.sweep.spec import Index, SweepSpec


def threads(num: int = 2) -> Executor:
    return ThreadPoolExecutor(num)


def answers(spec: SweepSpec, **options: object) -> dict[Index, SolveResult]:
    return {a.index: a.result for a in run_sweep(spec, threads, **options)}  # type: ignore[arg-type]


def comparable(found: dict[Index, SolveResult]) -> dict[Index, SolveResult]:
    """All of the answers but how long they took."""
    return {index: replace(result, runtime_s=0.0) for index, result in found.items()}


@pytest.fixture(scope="module")
def bert() -> SweepSpec:
    graph, deployment = read_sample("bert_base_operator_inference")
    axes = (Axis(Quantity.ACCELERATORS, (2, 3, 4)), Axis(Quantity.BANDWIDTH_FACTOR, (0.5, 1, 2)))
    return SweepSpec(graph, deployment, axes)


def dies_once(task: PointTask) -> SolveResult:
    """Kill the process that solves the first point with three accelerators."""
    marker = Path(os.environ["SWEEP_TEST_MARKER"])
    if dict(task.changes)[Varied(Quantity.ACCELERATORS)] == 3 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return solve_point(task)
