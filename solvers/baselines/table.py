"""The baselines of the paper as methods of `solve`: what each is called, and which objectives it makes plans for.

A baseline proposes plans; the evaluator judges them like any other. Some ignore a rule, memory above all: a plan that
breaks one is no answer, but it is kept beside the result with its value and what it breaks, for comparison.
(Tarnawski et al., NeurIPS 2020, section 6 and appendix F.)
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from solvers.latency.bound import latency_bounds
from solvers.model.costs import Objective
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult
from solvers.model.split import Family, Split, family_of
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import Contraction
from solvers.problem.solving import MethodError, Problem, Reporter

BOUND_IDEALS, BOUND_SHARE = 2_000, 0.5
"""Baselines take the bound on latency from parts of so many ideals, most often within a second, and for it this share
of the time left at most."""

MAX_LOAD = frozenset({Objective.THROUGHPUT})
PIPELINED = frozenset({Objective.THROUGHPUT, Objective.GPIPE})
SINGLE_SAMPLE = frozenset({Objective.LATENCY})
ANY_OBJECTIVE = frozenset(Objective)


@dataclass(frozen=True)
class Baseline:
    """Where a baseline's plans come from; `propose` yields complete splits and imports what it needs when it runs.

    The best valid plan is the answer. `propose` looks at the time limit itself.
    """

    description: str
    objectives: frozenset[Objective]
    propose: Callable[[Problem, Reporter], Iterator[Split]]


def solve_by_baseline(name: str, problem: Problem, reporter: Reporter) -> SolveResult:
    """Return the best plan a baseline proposes; its bound holds for every split."""
    baseline = BASELINES[name]
    if problem.objective not in baseline.objectives:
        fitting = " or ".join(sorted(baseline.objectives))
        raise MethodError(f"Method {name} does not make plans for objective {problem.objective}; choose {fitting}.")
    if problem.deployment.num_accelerators == 0:
        raise MethodError(f"Method {name} places on accelerators and there are none; add one, or choose auto.")
    if problem.objective is Objective.LATENCY:
        # Below any plan: infinite, where there is none, would be no bound to compare with.
        left = reporter.seconds_left
        until = math.inf if left is None else reporter.seconds + BOUND_SHARE * left
        for bound_ms in latency_bounds(problem.graph, problem.deployment, BOUND_IDEALS):
            if bound_ms < math.inf:
                reporter.proved(bound_ms)
            reporter.report("bound from ideals")
            if reporter.seconds >= until:
                break
    proposed = False
    for split in baseline.propose(problem, reporter):
        proposed = True
        reporter.judged(split.on(problem.deployment))
        reporter.report(name)
        if reporter.seconds_left == 0:
            break
    result = reporter.result(name)
    if result.split is not None:
        return result
    if result.rejected is None and proposed:  # the one objective that is not defined for every split is latency
        message = f"The plan of method {name} has no latency: its accelerators wait for each other in a circle."
        return replace(result, message=message)
    if result.rejected is None:
        return result
    message = f"The plan of method {name} violates a constraint: {result.rejected.violations[0].message}"
    return replace(result, message=message)


def as_run(name: str) -> Callable[[Problem, Contraction, Reporter], SolveResult]:
    """Return a baseline as an entry of the table of methods."""

    def run(problem: Problem, _: Contraction, reporter: Reporter) -> SolveResult:
        return solve_by_baseline(name, problem, reporter)

    return run


def family_of_answer(graph: DnnGraph, split: Split, method: str, asked: Family) -> Family:
    """Return the family of a complete split that a method answered: its own, if the method is a baseline."""
    return family_of(graph, split) if method in BASELINES else asked


def _single(problem: Problem, _: Reporter) -> Iterator[Split]:
    from solvers.baselines.single import single_accelerator_split

    for kind in accelerator_kinds(problem.graph, problem.deployment):
        yield single_accelerator_split(problem.graph, kind.devices[0])


def _expert(problem: Problem, _: Reporter) -> Iterator[Split]:
    from solvers.baselines.expert import expert_split

    yield expert_split(problem.graph, problem.start)


def _local_search(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    from solvers.baselines.local_search import local_search_splits

    return local_search_splits(problem, reporter)


def _linearised(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    from solvers.baselines.linearised import linearised_splits

    return linearised_splits(problem.graph, problem, reporter)


def _pipedream(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    from solvers.baselines.pipedream import pipedream_splits

    return pipedream_splits(problem, reporter)


def _scotch(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    from solvers.baselines.scotch import scotch_split

    split = scotch_split(problem, reporter)
    if split is not None:
        yield split


def _greedy_latency(problem: Problem, _: Reporter) -> Iterator[Split]:
    from solvers.latency.greedy import greedy_latency_splits

    return greedy_latency_splits(problem.graph, problem.deployment)


def _max_load_latency(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    from solvers.baselines.max_load_latency import max_load_splits

    return max_load_splits(problem, reporter)


BASELINES: dict[str, Baseline] = {
    "single": Baseline("everything on one accelerator", ANY_OBJECTIVE, _single),
    "expert": Baseline("a split made by hand", ANY_OBJECTIVE, _expert),
    "local_search": Baseline("ten descents from random plans, memory ignored", MAX_LOAD, _local_search),
    "pipedream": Baseline("DP on a line of biconnected components, as PipeDream plans", PIPELINED, _pipedream),
    "scotch": Baseline("the graph partitioner Scotch, memory and CPUs ignored", ANY_OBJECTIVE, _scotch),
    "linearised": Baseline("DP on a topological order (DPL)", PIPELINED, _linearised),
    "greedy_latency": Baseline("fill accelerators in topological order", SINGLE_SAMPLE, _greedy_latency),
    "max_load_latency": Baseline("the chain of least max-load", SINGLE_SAMPLE, _max_load_latency),
}
