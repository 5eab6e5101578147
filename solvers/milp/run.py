"""Run an integer program for a question: its plans and bounds go to the reporter until gap, time or Cancel."""

import math
from collections.abc import Callable
from typing import Any, Protocol

from solvers.model.result import PROOF_TOLERANCE, SolveCancelled, SolveResult
from solvers.model.split import Split
from solvers.problem.solving import Problem, Reporter, no_split_fits

BOUND_SLACK = 2e-7
"""HiGHS works to tolerances near 1e-9 per row and 1e-7 in duals; its bounds are lowered by this, at scale 1."""


class Model(Protocol):
    """An integer program whose objective is in units of `scale_ms`, and how to read a split from its variables."""

    problem: Any
    scale_ms: float

    def read_split(self, value: Any) -> Split:
        """Return the split described by `value(variable)`."""
        ...


class _EnoughError(SolveCancelled):
    """The gap is proven, perhaps not by HiGHS, which has to be told."""


def run_model(
    model: Model,
    start: dict[Any, float] | None,
    problem: Problem,
    reporter: Reporter,
    method: str,
    take_over: Callable[[], object] | None = None,
    relaxed_s: float | None = None,
) -> SolveResult:
    """Run an integer program until the gap, the time limit or Cancel; its plans and bounds go to the reporter.

    `take_over` is called often, and gives the reporter what others have found meanwhile.
    Where there are such others the program yields to them: on large graphs they get further in the same time.
    With `relaxed_s` the program allows more than the problem does, and runs for so many seconds at most: where it ends
    a bound is proven, not the problem solved.

    Where HiGHS ends without a proof it is run once more without presolve: near its tolerances it may call its own
    answer infeasible, which depends on the course it takes.
    """
    from solvers.milp.highs import (  # HiGHS loads here, when it is needed
        MilpOutcome,
        MilpRefusedError,
        MilpReport,
        run_highs,
    )

    def seconds_left() -> float | None:
        left = reporter.seconds_left
        return left if relaxed_s is None else min(relaxed_s, math.inf if left is None else left)

    def report() -> None:
        if take_over is not None:
            take_over()
        reporter.report("integer program")

    def watch(news: MilpReport) -> None:
        if news.bound is not None:
            reporter.proved(max(0.0, news.bound - BOUND_SLACK) * model.scale_ms)
        if news.solution is not None:
            reporter.found(model.read_split(news.solution))
        report()
        if reporter.within(problem.gap):
            raise _EnoughError

    def run(presolve: bool) -> MilpOutcome:
        outcome = run_highs(
            model.problem,
            time_limit_s=seconds_left(),
            gap=problem.gap,
            start=start,
            on_report=watch,
            presolve=presolve,
            yields=take_over is not None,
        )
        if outcome.bound is not None:
            reporter.proved(max(0.0, outcome.bound - BOUND_SLACK) * model.scale_ms)
        if outcome.solution is not None:
            reporter.found(model.read_split(outcome.solution))
        return outcome

    def is_without_proof(outcome: MilpOutcome) -> bool:
        is_answer = reporter.within(problem.gap + PROOF_TOLERANCE) or (outcome.infeasible and reporter.split is None)
        return outcome.ended and not outcome.cancelled and not is_answer and relaxed_s is None

    try:
        outcome = run(presolve=True)
        if is_without_proof(outcome) and reporter.seconds_left != 0:
            outcome = run(presolve=False)
    except MilpRefusedError:
        message = "The integer program was not run: the graph's numbers lie too far apart for HiGHS."
        return reporter.result(method, message=message)
    if outcome.infeasible and reporter.split is None:
        return reporter.result(method, infeasible=no_split_fits(problem))
    report()
    if outcome.cancelled and not reporter.within(problem.gap):
        raise SolveCancelled
    message = ""
    if outcome.left:
        message = "HiGHS did not end when it should have, and was given up; what it had found and proven counts."
    elif is_without_proof(outcome):
        message = "HiGHS ended without a proof: the graph's numbers are too uneven, or too near a limit, for it."
    return reporter.result(method, message=message)
