"""HiGHS answers whatever ran in the same thread before, and writes nothing of its own."""

import subprocess
import sys
import threading

import highspy
import numpy as np
import pulp
import pytest

from solvers.milp.highs import THREADS, CuttingPlanes, GrowingProgram, run_highs


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
