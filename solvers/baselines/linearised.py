"""The linearised DP (DPL): the chain optimum once a topological order has been added to the graph as a path.

With the path b_1 -> b_2 -> ... -> b_n the ideals are the n + 1 prefixes, so that the recurrence over ideals,

    best(i, j) = min_{i' <= i} max( best(i', j - 1), load({b_{i'+1}, ..., b_i}) ),

takes time O(n^2 (k+1)(l+1)) instead of one that grows with the number of ideals. The best chain that follows the order
is found, which need not be the best chain (Tarnawski et al., NeurIPS 2020, section 5).

Which order is best is not known beforehand. Two are tried: the graph's own (among the ready blocks the one listed
first) and a depth-first one (the block made ready last), which keeps a branch together.
"""

from collections.abc import Iterator
from dataclasses import replace

from solvers.chain.run import run_dp
from solvers.model.costs import Objective
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.problem.contraction import Contraction, contract, renumbered
from solvers.problem.solving import Problem, Reporter


def linearised_splits(graph: DnnGraph, problem: Problem, reporter: Reporter) -> Iterator[Split]:
    """Yield the best chain along each order; `graph` is the problem's, or one with more nodes tied together."""
    deployment = problem.deployment
    # Joining idle blocks is exact for max-load alone.
    chain = contract(graph, Family.CHAIN, deployment, passes_apart=problem.objective is Objective.GPIPE)
    for order in (tuple(range(chain.num_blocks)), _depth_first(chain)):
        line_problem = replace(
            problem, graph=graph, family=Family.CHAIN, start=None, time_limit_s=reporter.seconds_left
        )
        best_of_line = Reporter(line_problem, lambda progress: reporter.report(progress.phase))
        path = tuple((i, i + 1) for i in range(chain.num_blocks - 1))
        line = replace(renumbered(chain, order), edges=path)
        run_dp(line, line_problem, best_of_line, reporter.seconds_left, proves=False)
        if best_of_line.split is not None:
            yield best_of_line.split


def _depth_first(chain: Contraction) -> tuple[int, ...]:
    """Return the blocks in a topological order that goes on with the block made ready last."""
    behind: list[list[int]] = [[] for _ in range(chain.num_blocks)]
    missing = [0] * chain.num_blocks
    for a, b in chain.edges:
        behind[a].append(b)
        missing[b] += 1
    ready = [b for b in range(chain.num_blocks) if missing[b] == 0]
    order: list[int] = []
    while ready:
        a = ready.pop()
        order.append(a)
        for b in behind[a]:
            missing[b] -= 1
            if missing[b] == 0:
                ready.append(b)
    return tuple(order)
