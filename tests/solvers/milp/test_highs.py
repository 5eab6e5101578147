"""HiGHS answers whatever ran in the same thread before, and writes nothing of its own."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import highspy
import numpy as np
import pulp
import pytest

from solvers.milp import highs
from solvers.milp.highs import THREADS, CuttingPlanes, GrowingProgram, MilpReport, run_highs
from solvers.model.deployment import Deployment
from solvers.model.result import SolveCancelled, SolveStatus
from solvers.problem.background import is_any_left
from solvers.solve import solve
from tests.support.graphs import random_dag
from tests.support.waiting import eventually


def relaxation_value() -> float | None:
    program = GrowingProgram(np.ones(1), np.ones(1))
    program.add_column(3.0, np.array([0], np.int32), np.ones(1))
    solved = program.solve(60.0)
    return None if solved is None else solved[0]


def cutting_planes_value() -> float | None:
    program = CuttingPlanes(np.ones(1), np.zeros(1), np.full(1, 10.0))
    program.add_row(0.0, 3.0, np.array([0], np.int32), np.ones(1))
    solved = program.solve(60.0)
    return None if solved is None else solved[0]


def integer_value() -> float | None:
    model = pulp.LpProblem("three", pulp.LpMinimize)
    x = model.add_variable("x", 0, 10, cat=pulp.LpInteger)
    y = model.add_variable("y", 0, 10, cat=pulp.LpInteger)
    model += x + y
    model += 2 * x + 3 * y >= 8
    return run_highs(model, time_limit_s=60.0, gap=0.0).bound


def run_with_threads(count: int) -> highspy.HighsStatus:
    """Run HiGHS as another library might, with its own number of threads."""
    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("threads", count)
    highs.addVars(2, np.zeros(2), np.ones(2))
    highs.addRow(1.0, 2.0, 2, np.arange(2, dtype=np.int32), np.ones(2))
    highs.changeColIntegrality(0, highspy.HighsVarType.kInteger)
    return highs.run()


@pytest.mark.parametrize("before", [0, 1, 2, THREADS + 2])
def test_answers_do_not_depend_on_what_ran_before(before: int) -> None:
    """A thread keeps the threads of its first run, and HiGHS refuses another number: in a thread of its own here."""
    answers: list[object] = []

    def runs() -> None:
        answers.append(run_with_threads(before))
        answers.extend((relaxation_value(), cutting_planes_value(), integer_value(), relaxation_value()))

    thread = threading.Thread(target=runs)
    thread.start()
    thread.join()
    assert answers == [highspy.HighsStatus.kOk, 3.0, 3.0, 3.0, 3.0]


def test_nothing_is_written_to_the_output_of_commands() -> None:
    """HiGHS greets as its first instance is made; commands write JSON there."""
    code = "import solvers.milp.highs as h, pulp; m = pulp.LpProblem('m'); m += m.add_variable('x', 1, 2); "
    code += "print(h.run_highs(m, time_limit_s=9.0, gap=0.0).bound)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "1.0\n"


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """HiGHS answers, and then does not come back, as where its presolve goes round for ever."""
    run, is_over = highs._run, threading.Event()

    def run_and_stay(solver: Any) -> None:
        run(solver)
        is_over.wait()

    monkeypatch.setattr(highs, "_run", run_and_stay)
    monkeypatch.setattr(highs, "PATIENCE_S", 0.1)
    yield
    is_over.set()
    eventually(lambda: not is_any_left())


def knapsack() -> pulp.LpProblem:
    model = pulp.LpProblem("knapsack", pulp.LpMaximize)
    takes = [model.add_variable(f"x{i}", cat=pulp.LpBinary) for i in range(12)]
    model += pulp.lpSum((3 + i % 5) * x for i, x in enumerate(takes))
    model += pulp.lpSum((2 + i % 7) * x for i, x in enumerate(takes)) <= 17
    return model


@pytest.mark.usefixtures("endless")
def test_a_run_that_does_not_end_at_its_limit_is_left_with_what_it_reported() -> None:
    reports: list[MilpReport] = []
    outcome = run_highs(knapsack(), time_limit_s=1.0, gap=0.0, on_report=reports.append)
    assert outcome.left
    assert not outcome.ended
    assert outcome.solution is not None
    assert outcome.solution is reports[-1].solution
    assert is_any_left()


@pytest.mark.usefixtures("endless")
def test_a_run_that_does_not_end_on_request_is_left() -> None:
    def cancel(_report: MilpReport) -> None:
        raise SolveCancelled

    outcome = run_highs(knapsack(), time_limit_s=None, gap=0.0, on_report=cancel)
    assert outcome.left
    assert outcome.cancelled


@pytest.mark.usefixtures("endless")
def test_the_plan_of_a_solve_outlasts_a_program_that_does_not_end() -> None:
    graph, deployment = random_dag(3, num_nodes=12, edge_probability=0.3), Deployment(3, 1)
    result = solve(graph, deployment, method="ip", time_limit_s=3.0)
    assert result.value_ms == pytest.approx(solve(graph, deployment, method="dp").value_ms)
    assert result.status is SolveStatus.OPTIMAL or "did not end when it should have" in result.message


def test_reports_come_in_the_thread_of_the_caller() -> None:
    threads: set[int] = set()
    run_highs(knapsack(), time_limit_s=60.0, gap=0.0, on_report=lambda _report: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
@pytest.mark.parametrize("yields", [False, True])
def test_a_run_that_yields_has_a_lower_priority_and_its_caller_has_not(
    yields: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    own = priority()
    seen: list[int] = []
    run = highs._run

    def looked_at(model: Any) -> None:
        seen.append(priority())
        run(model)

    monkeypatch.setattr(highs, "_run", looked_at)
    assert (
        run_highs(knapsack(), time_limit_s=60.0, gap=0.0, on_report=lambda _: None, yields=yields).solution is not None
    )
    assert len(seen) == 1
    assert (seen[0] > own) is yields
    assert priority() == own
