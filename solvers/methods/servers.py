"""Splits over servers with faster links inside: plans and a bound from two problems whose links are alike.

Where a tensor moves decides how long it takes (`Deployment.transfer_speed`), which no solver here knows; the evaluator
does. With the fast link everywhere no split takes longer than it does, so every lower bound there holds. Its plan, and
the best plan where every link is slow, which takes no longer than it does there, are judged by the evaluator as they
are, and then with accelerators of a kind exchanged as long as that helps: neighbours that talk much come together.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from solvers.model.result import Progress, SolveResult, SolveStatus
from solvers.model.split import Split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.solving import Problem, Reporter

MOST_ACCELERATORS = 32
"""Beyond, exchanging two after two takes too many looks."""

NOTE = "Links within servers are faster: the plan is the best found, the bound that of fast links everywhere."


def solve_on_servers(
    problem: Problem, reporter: Reporter, method: str, solve: Callable[..., SolveResult]
) -> SolveResult:
    """Return the better plan of a method's two, with the bound of fast links; `solve` solves where links are alike."""
    deployment = problem.deployment
    alike = replace(deployment, accelerators_per_server=None, server_link_speed=1.0)
    fast = problem.graph.with_bandwidth_factor(deployment.server_link_speed)

    def watch(progress: Progress) -> None:
        reporter.report(progress.phase)

    for graph, share in ((fast, 0.5), (problem.graph, 1.0)):
        left = reporter.seconds_left
        if reporter.within(problem.gap) or left == 0:
            break
        answer = solve(
            graph,
            alike,
            objective=problem.objective,
            method=method,
            family=problem.family,
            time_limit_s=None if left is None else share * left,
            gap=problem.gap,
            start=problem.start,
            pins=problem.pins,
            table_bytes=problem.table_bytes,
            on_progress=watch,
        )
        if graph is fast:
            if answer.status is SolveStatus.INFEASIBLE:
                return reporter.result(method, infeasible=answer.message)
            if answer.lower_bound_ms is not None:
                reporter.proved(answer.lower_bound_ms)
        plan = answer.split if answer.rejected is None else answer.rejected.split
        if plan is not None:
            reporter.judged(plan.on(deployment))
        reporter.report("links within servers")
    if method != "expert":
        _exchange(problem, reporter)
    return reporter.result(method, message=NOTE)


def _exchange(problem: Problem, reporter: Reporter) -> None:
    """Exchange two accelerators of a kind as long as the plan gets faster."""
    if problem.deployment.num_accelerators > MOST_ACCELERATORS:
        return
    pairs = [
        pair for kind in accelerator_kinds(problem.graph, problem.deployment) for pair in combinations(kind.devices, 2)
    ]
    gained = True
    while gained and reporter.split is not None:
        gained = False
        for a, b in pairs:
            if reporter.seconds_left == 0 or reporter.within(problem.gap):
                return
            gained = reporter.found(_exchanged(reporter.split, a, b)) or gained
        reporter.report("links within servers")


def _exchanged(split: Split, a: int, b: int) -> Split:
    order = list(range(len(split.accelerators)))
    order[a], order[b] = b, a
    return Split(
        tuple(split.accelerators[d] for d in order),
        split.cpus,
        subgraphs=tuple(split.subgraphs_of(d) for d in order) if split.subgraphs else (),
    )
