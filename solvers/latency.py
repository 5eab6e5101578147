"""How single-sample latency is solved: bound, greedy plans, annealing, and an integer program for what is left."""

from solvers.bounds import why_infeasible
from solvers.contraction import Contraction, contract
from solvers.result import SolveResult
from solvers.solving import NOTHING_IN_TIME, Problem, Reporter, no_split_fits, run_model
from solvers.split import Family
from solvers.throughput import START_SECONDS, START_SHARE, run_dp

SEARCH_SECONDS = 15.0
SEARCH_SHARE = 0.5
"""Annealing for latency takes at most this long, and this share of the time limit."""

MAX_LATENCY_PROGRAM = 60_000
"""Nodes and edges times accelerators of the largest latency program that is built; larger ones would not get far."""


def solve_latency(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    """Greedy plans, annealing from the best of them, and the integer program for what is left to prove."""
    from solvers.latency_ip import latency_bound

    graph, deployment = problem.graph, problem.deployment
    reporter.report("bound from chains of nodes")
    reporter.proved(latency_bound(graph, deployment))
    reason = _search_latency(problem, contraction, reporter)
    if reason is not None:
        return reporter.result("ip", infeasible=reason)
    if reporter.within(problem.gap):
        return reporter.result("ip")
    if reporter.seconds_left == 0:
        return reporter.result("ip", message="" if reporter.split is not None else NOTHING_IN_TIME)
    if (len(graph.nodes) + len(graph.edges)) * deployment.num_accelerators > MAX_LATENCY_PROGRAM:
        message = "The graph is too large for the latency program; the bound comes from chains of nodes alone."
        return reporter.result("ip", message=message if reporter.split is not None else f"{message} {NOTHING_IN_TIME}")
    return _run_latency_ip(problem, contraction, reporter)


def _search_latency(problem: Problem, contraction: Contraction, reporter: Reporter) -> str | None:
    """Look for plans without proof; return a sentence if it is proven that there is none."""
    from solvers.baselines.greedy_latency import greedy_latency_splits, latency_search  # numba loads here

    graph, deployment = problem.graph, problem.deployment
    starts = []
    for split in greedy_latency_splits(graph, deployment):
        starts.append(split)
        reporter.report("greedy", reporter.found(split))
    left = reporter.seconds_left
    if not deployment.num_cpus:
        # Accelerators that do not wait for each other in a circle are a chain of stages.
        chain = contract(graph, Family.CHAIN, deployment)
        reason = why_infeasible(graph, chain, deployment)
        if reason is not None:
            return reason
        seconds = START_SECONDS if left is None else min(START_SECONDS, START_SHARE * left)
        if run_dp(chain, problem, reporter, seconds, proves=False):
            return no_split_fits(problem)
        starts += [] if reporter.split is None else [reporter.split]
    if reporter.within(problem.gap) or reporter.seconds_left == 0:
        return None
    deadline = reporter.seconds + (SEARCH_SECONDS if left is None else min(SEARCH_SECONDS, SEARCH_SHARE * left))
    for better in latency_search(graph, deployment, contraction, starts):
        reporter.report("annealing", better is not None and reporter.found(better))
        if reporter.seconds >= deadline or reporter.within(problem.gap):
            break
    return None


def _run_latency_ip(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    from solvers.latency_ip import latency_model  # PuLP loads here, when it is needed

    reporter.report("building the integer program")
    model = latency_model(
        problem.graph,
        problem.deployment,
        contraction,
        incumbent_ms=reporter.value_ms,
        lower_bound_ms=reporter.lower_bound_ms or 0.0,
    )
    start = None if reporter.split is None else model.start_values(reporter.split)
    return run_model(model, start, problem, reporter, "ip")
