"""Run HiGHS on a PuLP model and say what came out of it; no other module talks to HiGHS.

PuLP's own status calls a merely feasible answer at the time limit "Optimal" and hides the proven bound, so both are
read from the HiGHS model itself. The wheel of HiGHS comes with PuLP's dependencies; no licence is needed.
"""

import contextlib
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt
import pulp

from solvers.milp.linear_program import LinearProgram
from solvers.model.result import SolveCancelled
from solvers.problem.background import Background

FEASIBILITY_TOLERANCE = 1e-9
"""How far a row may be violated; models are scaled so that their numbers are near 1."""

SMALLEST_COEFFICIENT = 1e-12
"""HiGHS takes smaller coefficients for zero; this is the least it allows."""

THREADS = 1
"""Threads of one run: bounds and plans are looked for side by side, in processes of their own."""

REPORT_SECONDS = 0.2
"""Shortest time between two reports that bring no better solution."""

YIELDING_NICE = 3
"""Added to the niceness of a run that yields to other threads: beside two busy ones on two cores it gets 0.4 of one."""

PATIENCE_S = 2.0
"""So long after it should have ended a run is left to itself.

HiGHS looks at its limit and at requests often, but not everywhere: `strengthenInequalities` in the presolve of a
heuristic of HiGHS 1.16 can go round for ever (its issue 1501 has others).
"""


def _keep_banner_from_output() -> None:
    """Make the first instance of HiGHS of this process while its output leads nowhere.

    HiGHS 1.16 prints its name as the first instance is made, before an option can forbid it, to file descriptor 1,
    which is where commands write their answers.
    """
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # a program without output has no 1
        output = os.dup(1)
        try:
            os.dup2(nowhere.fileno(), 1)
            highspy.Highs()  # type: ignore[no-untyped-call]
        finally:
            os.dup2(output, 1)
            os.close(output)


_keep_banner_from_output()


class MilpRefusedError(Exception):
    """HiGHS did not take the model as it is: some of its numbers are too large or too small for it."""


Solution = Callable[[pulp.LpVariable], float]
"""The value of a variable; 0 for one that occurs in no row and no objective, since PuLP leaves it out."""


@dataclass(frozen=True, slots=True)
class MilpReport:
    """The state of a running HiGHS: bounds on the objective, and a better solution when there is one."""

    best: float | None
    bound: float | None
    solution: Solution | None


@dataclass(frozen=True, slots=True)
class MilpOutcome:
    """How HiGHS ended: the best solution there is, if any, and a proven bound on the objective.

    `ended` says that it stopped by itself: with an answer to its tolerances, or with an error, as it may where numbers
    are uneven; not by a limit or by request. `left` says that it did not stop when it should have: it still runs, and
    solution and bound are those it had reported.
    """

    solution: Solution | None
    infeasible: bool
    bound: float | None
    cancelled: bool
    ended: bool
    left: bool = False


class _WatchedHighs(pulp.HiGHS):  # type: ignore[misc]
    """PuLP's HiGHS with a start solution and reports while it runs, in a thread that can be left to itself."""

    def __init__(
        self,
        start: Mapping[pulp.LpVariable, float] | None,
        on_report: Callable[[MilpReport], None] | None,
        deadline: float | None,
        yields: bool,
        **options: Any,
    ) -> None:
        super().__init__(msg=False, **options)
        self._yields = yields
        self._start = start
        self._on_report = on_report
        self._ends = math.inf if deadline is None else deadline
        self._reports: queue.SimpleQueue[MilpReport | None] = queue.SimpleQueue()
        """What HiGHS says, from its thread to that of the caller; None in the end."""
        self.column_of: dict[str, int] = {}
        self.cancelled: SolveCancelled | None = None
        self.failed: BaseException | None = None
        self.is_left = False
        self.bound: float | None = None
        self.solution: Solution | None = None

    def callSolver(self, lp: pulp.LpProblem) -> None:  # noqa: N802 -- PuLP's name
        """Run HiGHS on the model that PuLP has built."""
        highs: highspy.Highs = lp.solverModel
        if (highs.getNumCol(), highs.getNumRow()) != (lp.numVariables(), lp.numConstraints()):
            raise MilpRefusedError  # a row that HiGHS refuses is missing without a word
        if self._ends < math.inf:  # handing the model over took its time
            highs.setOptionValue("time_limit", max(0.0, self._ends - time.monotonic()))
        self.column_of = {v.name: v.index for v in lp.variables()}
        if self._start is not None:
            # HiGHS completes a partial start by solving for the variables it does not name.
            start = {self.column_of[v.name]: x for v, x in self._start.items() if v.name in self.column_of}
            highs.setSolution(len(start), np.fromiter(start.keys(), np.int32), np.fromiter(start.values(), np.float64))
        if self._on_report is not None:
            self._subscribe(highs)

        def run() -> None:
            try:
                if self._yields:
                    _yield_to_others()
                _run(highs)
            finally:
                self._reports.put(None)

        running = Background(run, "HiGHS")
        self._follow()
        if self.is_left:
            running.leave()
        else:
            running.wait()
            running.result()

    def _subscribe(self, highs: highspy.Highs) -> None:
        """Have HiGHS report from its thread, and ask there whether to go on."""
        last_report = -math.inf

        def watch(event: Any) -> None:
            nonlocal last_report
            improving = event.callback_type == highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution
            now = time.monotonic()
            if not improving and now - last_report < REPORT_SECONDS:
                return
            last_report = now
            output = event.data_out
            solution = self.solution_from(output.mip_solution) if improving else None
            self._reports.put(MilpReport(_finite(output.mip_primal_bound), _finite(output.mip_dual_bound), solution))

        def interrupt(event: Any) -> None:
            watch(event)
            if (self.cancelled or self.failed) and event.data_in is not None:
                event.data_in.user_interrupt = True

        highs.cbMipImprovingSolution.subscribe(watch)
        highs.cbMipInterrupt.subscribe(interrupt)

    def _follow(self) -> None:
        """Pass on what HiGHS reports until it has ended, or should have ended long ago."""
        while True:
            try:
                report = self._next_report()
                if report is None:
                    return
                self.bound = self.bound if report.bound is None else report.bound
                self.solution = report.solution or self.solution
                if self._on_report is not None and not (self.cancelled or self.failed):
                    self._on_report(report)
            except SolveCancelled as request:
                self.cancelled = request
            except BaseException as error:  # Ctrl-C, too: HiGHS is asked to end first, and it is raised afterwards
                self.failed = error
            if self.cancelled or self.failed:
                self._ends = min(self._ends, time.monotonic())

    def _next_report(self) -> MilpReport | None:
        """Return the next report; None when HiGHS has ended, or is left to itself."""
        try:
            wait_s = self._ends + PATIENCE_S - time.monotonic()
            return self._reports.get(timeout=max(0.0, wait_s) if wait_s < math.inf else None)
        except queue.Empty:
            self.is_left = True
            return None

    def solution_from(self, column_values: Iterable[float]) -> Solution:
        """Return the values of all variables from those of the columns."""
        values = list(column_values)

        def value(variable: pulp.LpVariable) -> float:
            column = self.column_of.get(variable.name)
            return 0.0 if column is None else float(values[column])

        return value

    def findSolutionValues(self, lp: pulp.LpProblem) -> tuple[int, int]:  # noqa: N802 -- PuLP's name
        """Read the solution where there is one; without one PuLP would read rows that do not exist."""
        if self.is_left:
            return pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound
        if lp.solverModel.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound
        status: tuple[int, int] = super().findSolutionValues(lp)
        return status


def run_highs(
    model: pulp.LpProblem,
    *,
    time_limit_s: float | None,
    gap: float,
    start: Mapping[pulp.LpVariable, float] | None = None,
    on_report: Callable[[MilpReport], None] | None = None,
    presolve: bool = True,
    yields: bool = False,
) -> MilpOutcome:
    """Minimise `model`; return the best solution found and a proven bound.

    `start` gives values to some or all integer variables. Without `presolve` HiGHS takes another, slower course. One
    that `yields` takes what other threads leave of the processor, where the system knows threads' priorities. Stops
    at the relative `gap`, after `time_limit_s` seconds, or when `on_report` raises SolveCancelled: the best solution
    and bound so far are then the answer, at the latest `PATIENCE_S` later. `on_report` is called in the thread of the
    caller. Raises MilpRefusedError for a model with numbers out of its range.
    """
    solver = _WatchedHighs(
        start,
        on_report,
        None if time_limit_s is None else time.monotonic() + time_limit_s,
        yields,
        threads=THREADS,
        gapRel=gap,
        gapAbs=FEASIBILITY_TOLERANCE,
        mip_feasibility_tolerance=FEASIBILITY_TOLERANCE,
        primal_feasibility_tolerance=FEASIBILITY_TOLERANCE,
        small_matrix_value=SMALLEST_COEFFICIENT,
        presolve="choose" if presolve else "off",
    )
    model.solve(solver)
    if solver.failed is not None:
        raise solver.failed
    if solver.is_left:
        return MilpOutcome(solver.solution, False, solver.bound, solver.cancelled is not None, ended=False, left=True)
    highs: highspy.Highs = model.solverModel
    info = highs.getInfo()
    status = highs.getModelStatus()
    infeasible = status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,  # these models have bounded objectives
    )
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    solution = solver.solution_from(highs.getSolution().col_value) if has_solution else None
    # A model without integer variables is solved as a linear program, which has no such bound but its value.
    is_linear = not model.isMIP()
    solved = status == highspy.HighsModelStatus.kOptimal
    bound = (info.objective_function_value if solved else -math.inf) if is_linear else info.mip_dual_bound
    failed = status == highspy.HighsModelStatus.kSolveError
    ended = infeasible or solved or failed
    return MilpOutcome(solution, infeasible, None if failed else _finite(bound), solver.cancelled is not None, ended)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) and abs(value) < highspy.kHighsInf / 10 else None


def _yield_to_others() -> None:
    """Lower the priority of this thread alone, which Linux allows; elsewhere it would be that of the process."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + YIELDING_NICE)


def _run(highs: highspy.Highs) -> None:
    """Run HiGHS, whatever ran in this thread before.

    HiGHS keeps its threads from one run to the next of the same thread and refuses to start with another number, so
    a program that calls this library and HiGHS itself might get no answer. With 0 it takes those that there are.
    """
    if highs.run() == highspy.HighsStatus.kError and highs.getModelStatus() == highspy.HighsModelStatus.kNotset:
        highs.setOptionValue("threads", 0)
        highs.run()


def row_prices(program: LinearProgram, goes_on: Callable[[], bool]) -> npt.NDArray[np.float64] | None:
    """Return about the dual values of the rows of a linear program; None if HiGHS comes to none.

    An interior point does, so that there may be tiny violations. `goes_on` is asked often, in this thread, and says
    whether to go on.
    """
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    for option, value in (("solver", "ipm"), ("run_crossover", "off"), ("threads", THREADS)):
        highs.setOptionValue(option, value)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.least)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.least, np.full(len(program.least), math.inf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = program.begin, program.column
    lp.a_matrix_.value_ = program.coefficient

    def interrupt(event: Any) -> None:
        if not goes_on():
            event.data_in.user_interrupt = True

    highs.cbIpmInterrupt.subscribe(interrupt)
    highs.cbSimplexInterrupt.subscribe(interrupt)
    highs.passModel(lp)
    _run(highs)
    solution = highs.getSolution()
    return np.array(solution.row_dual) if solution.dual_valid else None


class GrowingProgram:
    """A linear program, minimised, whose rows are given and whose columns are added as they are found.

    Its dual values are what column generation prices with; HiGHS goes on from the last basis after columns were added.
    """

    def __init__(self, row_lower: npt.NDArray[np.float64], row_upper: npt.NDArray[np.float64]) -> None:
        """Start with these rows and no column."""
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.silent()
        self._highs.setOptionValue("solver", "simplex")
        self._highs.setOptionValue("simplex_strategy", 4)  # primal: the last basis stays feasible
        self._highs.setOptionValue("threads", THREADS)
        empty = np.zeros(0, np.int32)
        starts = np.zeros(len(row_lower), np.int32)
        self._highs.addRows(len(row_lower), row_lower, row_upper, 0, starts, empty, np.zeros(0))

    def add_column(
        self, cost: float, rows: npt.NDArray[np.int32], coefficients: npt.NDArray[np.float64], upper: float = math.inf
    ) -> None:
        """Add a variable from 0 to `upper`."""
        self._highs.addCol(cost, 0.0, upper, len(rows), rows, coefficients)

    def solve(self, time_limit_s: float) -> tuple[float, npt.NDArray[np.float64]] | None:
        """Return the optimum and the dual value per row; None if HiGHS does not reach it in time."""
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + time_limit_s)
        _run(self._highs)
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return float(self._highs.getInfo().objective_function_value), np.array(self._highs.getSolution().row_dual)


class CuttingPlanes:
    """A linear program, maximised, whose variables are given and whose rows are added as they are found.

    HiGHS goes on from the last basis after rows were added or bounds changed.
    """

    def __init__(
        self, gain: npt.NDArray[np.float64], lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64]
    ) -> None:
        """Start with these variables and no row."""
        self._highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        self._highs.silent()
        self._highs.setOptionValue("solver", "simplex")
        self._highs.setOptionValue("threads", THREADS)
        starts, empty = np.zeros(len(gain), np.int32), np.zeros(0, np.int32)
        self._highs.addCols(len(gain), gain, lower, upper, 0, starts, empty, np.zeros(0))
        self._highs.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add_row(
        self, lower: float, upper: float, columns: npt.NDArray[np.int32], coefficients: npt.NDArray[np.float64]
    ) -> None:
        """Add a constraint on these variables."""
        self._highs.addRow(lower, upper, len(columns), columns, coefficients)

    def set_bounds(self, lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64]) -> None:
        """Change the bounds of the first variables."""
        self._highs.changeColsBounds(len(lower), np.arange(len(lower), dtype=np.int32), lower, upper)

    def solve(self, time_limit_s: float) -> tuple[float, npt.NDArray[np.float64]] | None:
        """Return the optimum and the values of the variables; None if HiGHS does not reach it in time."""
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + time_limit_s)
        _run(self._highs)
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return float(self._highs.getInfo().objective_function_value), np.array(self._highs.getSolution().col_value)
