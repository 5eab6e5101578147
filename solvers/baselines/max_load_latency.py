"""The chain of least max-load, taken as a plan for latency (Tarnawski et al., NeurIPS 2020, appendix F).

It spreads the work evenly although a single sample runs through the stages one after the other, so it pays for
transfers that a latency plan avoids.

Many chains may have the least max-load, and their latencies lie far apart: a CPU that takes work just below the largest
load does not show in max-load but holds up a sample. Of the optimal chains one with the fewest CPUs is taken, which is
what the DP of the paper's release ends with. More CPUs never raise the optimum, so their number is found by bisection.
"""

from collections.abc import Iterator
from dataclasses import replace

from solvers.chain.run import run_dp
from solvers.model.costs import Objective
from solvers.model.result import PROOF_TOLERANCE, relative_gap
from solvers.model.split import Family, Split
from solvers.problem.contraction import contract
from solvers.problem.solving import Problem, Reporter


def max_load_splits(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    """Yield a chain of least max-load with the fewest CPUs, or the best one found in time."""
    fewest, most = 0, problem.deployment.num_cpus
    found = _least_max_load(problem, most, reporter)
    if found.split is None:
        return
    split, optimum_ms = found.split, found.value_ms
    while fewest < most and reporter.seconds_left != 0:
        middle = (fewest + most) // 2
        found = _least_max_load(problem, middle, reporter)
        gap = relative_gap(found.value_ms, optimum_ms)
        if found.split is not None and gap is not None and gap <= PROOF_TOLERANCE:
            split, most = found.split, middle
        else:
            fewest = middle + 1
    yield split


def _least_max_load(problem: Problem, num_cpus: int, reporter: Reporter) -> Reporter:
    """Return the best chain that uses so many CPUs at most."""
    deployment = replace(problem.deployment, num_cpus=num_cpus)
    throughput = replace(
        problem,
        deployment=deployment,
        objective=Objective.THROUGHPUT,
        family=Family.CHAIN,
        start=None,
        time_limit_s=reporter.seconds_left,
    )
    best = Reporter(throughput, lambda progress: reporter.report(progress.phase))
    run_dp(contract(problem.graph, Family.CHAIN, deployment), throughput, best, reporter.seconds_left, proves=True)
    return best
