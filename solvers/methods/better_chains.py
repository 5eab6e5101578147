"""Better plans of the chain family from the one known, for as long as somebody who watches says so."""

import math
import time
from dataclasses import replace

from solvers.chain.run import POLL_SECONDS, Watch, chain_search, is_plain
from solvers.model.split import Family, Split
from solvers.problem.background import Background
from solvers.problem.bounds import why_infeasible
from solvers.problem.contraction import Contraction
from solvers.problem.solving import Problem, Reporter, contracted

DP_SHARE = 0.3
"""Of the time for a chain on the accelerators alone, that for its DP, which has a plan within a second or so."""


def watch_for(seconds: float, problem: Problem, reporter: Reporter, phase: str) -> Watch:
    """Return a watch that reports, and says to go on for so many seconds or until the gap is proven."""
    deadline, told = reporter.seconds + seconds, -math.inf

    def watch() -> bool:
        nonlocal told
        if reporter.seconds > told + POLL_SECONDS:
            reporter.report(phase)
            told = reporter.seconds
        return reporter.seconds < deadline and reporter.seconds_left != 0 and not reporter.within(problem.gap)

    return watch


def improve(contraction: Contraction, problem: Problem, reporter: Reporter, watch: Watch, seed: int = 0) -> None:
    """Improve the chain known until that becomes futile, or `watch` says to stop; a seed is a course of it."""
    from solvers.chain.improvement import chain_by_block

    if reporter.split is None or not is_plain(problem):
        return
    start = chain_by_block(contraction, reporter.split)
    if start is not None:
        _improve_from(start, contraction, problem, reporter, watch, seed)


def improve_without_cpus(problem: Problem, reporter: Reporter, watch: Watch, seconds: float) -> Split | None:
    """Look for a chain on the accelerators alone for at most so many seconds, and return the best.

    With a CPU the DP has far more labels: where it does not end, it may get less far than on less hardware.
    """
    deployment = problem.deployment
    if not deployment.num_cpus or not deployment.num_accelerators or problem.pins or not is_plain(problem):
        return None
    without = replace(problem, deployment=replace(deployment, num_cpus=0))
    chain = contracted(without, Family.CHAIN)
    if why_infeasible(problem.graph, chain, without.deployment) is not None:
        return None
    search, plan_of, split_of = chain_search(chain, without)
    search.begin_with(None, reporter.lower_bound_ms, problem.gap)
    began = time.monotonic()
    searching = Background(search.run, "chain search without CPUs")
    try:
        while searching.is_running and watch() and time.monotonic() < began + DP_SHARE * seconds:
            searching.wait(POLL_SECONDS)
    finally:
        search.stop()
        searching.wait()
    searching.result()
    best = plan_of(search)
    if best is None:
        return None
    reporter.found(split_of(best))
    return _improve_from(best, chain, without, reporter, lambda: watch() and time.monotonic() < began + seconds)


def _improve_from(
    start: dict[int, int], contraction: Contraction, problem: Problem, reporter: Reporter, watch: Watch, seed: int = 0
) -> Split:
    """Improve a chain, given by the device of each block; what is better than the plan known is reported."""
    from solvers.chain.improvement import ChainImprovement

    search, _, split_of = chain_search(contraction, problem)
    improvement = ChainImprovement(search, start, seed)

    def take_over() -> bool:
        if improvement.value_ms < (reporter.value_ms or math.inf):
            reporter.found(split_of(improvement.device_of_block))
        return watch()

    improvement.run(take_over)
    take_over()
    return split_of(improvement.device_of_block)
