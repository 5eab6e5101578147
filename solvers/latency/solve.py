"""How single-sample latency is solved: plans by greedy and annealing, bounds from ideals, and CP-SAT for what is left.

The bound of `latency_bound` alone proves most plans optimal within a second, where parallel branches rejoin; it works
in a thread of its own beside the annealing, and the cuts it meets are plans to start from. What it leaves open is
decided by CP-SAT in a process of its own, which starts only after a while, since starting it takes longer than most
solves. The same formulation in HiGHS improved none of the bounds on the paper's files within a minute, so it is not
used here.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from solvers.chain.ending import Ending
from solvers.chain.run import START_SECONDS, START_SHARE, run_dp
from solvers.latency.bound import latency_bounds
from solvers.latency.cp_sat_process import FAILED, CpSatProcess
from solvers.latency.program import LatencyProgram
from solvers.model.result import SolveResult
from solvers.model.split import Family, Split
from solvers.problem.background import Background
from solvers.problem.bounds import why_infeasible
from solvers.problem.contraction import Contraction, contract
from solvers.problem.solving import NOTHING_IN_TIME, Problem, Reporter, no_split_fits

SEARCH_SECONDS = 45.0
SEARCH_SHARE = 0.75
"""Annealing for latency takes at most this long, and this share of the time limit."""

PROOF_AFTER_SECONDS = 1.0
"""CP-SAT starts so long after the first plans; most graphs are solved by then."""

MOST_WAITING = 8
"""So many plans of cuts, the latest, wait for annealing: each is judged, and kept, before a look at the clock."""

NUM_WORKERS = 2
"""Threads of CP-SAT: with one it has no portfolio, and more are no faster on two cores."""

RESTART_GAIN = 1e-3
"""CP-SAT starts anew when a plan by so much better than the one it started from is known and annealing is over."""

ROUND_SECONDS = 0.1
"""Longest time between two reports."""

MAX_LATENCY_PROGRAM = 60_000
"""Nodes and edges times subgraphs of the largest program that is given to CP-SAT; larger ones would not get far."""


def solve_latency(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    """Return the best plan with its bound; stops at the gap, the time limit, or when nothing is left to try."""
    of_cuts = PlansOfCuts(reporter)
    is_over = threading.Event()
    bounds = latency_bounds(
        problem.graph,
        problem.deployment,
        known_ms=lambda: reporter.value_ms,
        on_plan=of_cuts.take,
        goes_on=lambda: not is_over.is_set() and reporter.seconds_left != 0,
    )
    reporter.report("bound from ideals")
    critical_path_ms = next(bounds)
    if critical_path_ms == float("inf"):
        return reporter.result("ip", infeasible=no_split_fits(problem))
    reporter.proved(critical_path_ms)
    starts: list[Split] = []
    reason = _find_starts(problem, reporter, starts)
    if reason is not None:
        return reporter.result("ip", infeasible=reason)
    return _Run(problem, contraction, reporter, bounds, starts, of_cuts.taken, is_over).finish()


def _find_starts(problem: Problem, reporter: Reporter, starts: list[Split]) -> str | None:
    """Add plans to start from; return a sentence if it is proven that there is none."""
    from solvers.latency.branches import branch_splits
    from solvers.latency.greedy import greedy_latency_splits

    graph, deployment = problem.graph, problem.deployment
    if reporter.split is not None:
        starts.append(reporter.split)
    for split in chain(branch_splits(graph, deployment), greedy_latency_splits(graph, deployment)):
        starts.append(split)
        reporter.found(split)
        reporter.report("greedy")
        if reporter.seconds_left == 0:
            return None
    if not deployment.num_cpus and deployment.max_subgraphs == 1:
        # Accelerators that do not wait for each other in a circle are a chain of stages.
        stages = contract(graph, Family.CHAIN, deployment)
        reason = why_infeasible(graph, stages, deployment)
        if reason is not None:
            return reason
        left = reporter.seconds_left
        seconds = START_SECONDS if left is None else min(START_SECONDS, START_SHARE * left)
        if run_dp(stages, problem, reporter, seconds, proves=False) is Ending.NO_SPLIT:
            return no_split_fits(problem)
        starts += [] if reporter.split is None else [reporter.split]
    return None


class PlansOfCuts:
    """Plans that cuts of the bound stand for: those that keep the rules are answers, all are starts for annealing."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._waiting: deque[Split] = deque(maxlen=MOST_WAITING)

    def take(self, split: Split) -> None:
        """Judge a plan and keep it for the search."""
        self._reporter.found(split)
        self._waiting.append(split)

    def taken(self) -> list[Split]:
        """Return those that came since the last call."""
        waiting, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        return list(waiting)


class _Run:
    """Annealing, bounds from ideals and CP-SAT side by side."""

    def __init__(
        self,
        problem: Problem,
        contraction: Contraction,
        reporter: Reporter,
        bounds: Iterator[float],
        starts: list[Split],
        others: Callable[[], Sequence[Split]] = tuple,
        is_over: threading.Event | None = None,
    ) -> None:
        """Do nothing yet; `is_over` is set when bounds are of no more use."""
        self.problem, self.contraction, self.reporter = problem, contraction, reporter
        self.bounds = bounds
        self.starts, self.others = starts, others
        self.child: CpSatProcess | None = None
        self.program: LatencyProgram | None = None
        self.infeasible = False
        self.is_over = is_over or threading.Event()
        self.message = ""

    def finish(self) -> SolveResult:
        """Run until the answer is known or time is up."""
        bounding = Background(self._raise_bound, "bounds")
        try:
            self._run(bounding)
        finally:
            self.is_over.set()
            if self.child is not None:
                self.child.stop()
            bounding.wait()
        bounding.result()
        reporter = self.reporter
        if self.infeasible and reporter.split is None:
            return reporter.result("ip", infeasible=no_split_fits(self.problem))
        message = [self.message] if self.message and not reporter.within(self.problem.gap) else []
        return reporter.result("ip", message=" ".join(message + ([] if reporter.split else [NOTHING_IN_TIME])))

    def _run(self, bounding: Background[None]) -> None:
        problem, reporter = self.problem, self.reporter
        left = reporter.seconds_left
        began = reporter.seconds
        search_until = began + (SEARCH_SECONDS if left is None else min(SEARCH_SECONDS, SEARCH_SHARE * left))
        search: Iterator[Split | None] | None = self._search(began + (search_until - began) / 2)
        may_prove = self._is_small_enough()
        while not (reporter.within(problem.gap) or reporter.seconds_left == 0 or self.infeasible):
            if search is not None:
                better = next(search, NOTHING_MORE)
                if better is NOTHING_MORE or reporter.seconds >= search_until:
                    search = None
                else:
                    assert better is None or isinstance(better, Split)
                    if better is not None:
                        reporter.found(better)
                    reporter.report("annealing")
            working = search is not None or bounding.is_running
            if may_prove and self.child is None and (not working or reporter.seconds >= began + PROOF_AFTER_SECONDS):
                self._start_child()
            wait_s = 0.0 if search is not None else ROUND_SECONDS
            if self.child is not None:
                may_prove = self._listen(wait_s, restart=search is None)
            else:
                bounding.wait(wait_s)
                reporter.report("bound from ideals")
            if not working and not may_prove:
                return

    def _search(self, one_each_until: float) -> Iterator[Split | None]:
        """Anneal; first with one subgraph per accelerator, which finds the way in a smaller space."""
        from solvers.latency.annealing import latency_search  # numba loads here

        graph, deployment, starts = self.problem.graph, self.problem.deployment, self.starts
        if deployment.max_subgraphs > 1:
            for better in latency_search(graph, replace(deployment, max_subgraphs=1), self.contraction, starts):
                yield better
                if better is not None:
                    starts = [better, *self.starts]
                if self.reporter.seconds >= one_each_until:
                    break
        yield from latency_search(graph, deployment, self.contraction, starts, self.others)

    def _is_small_enough(self) -> bool:
        graph, deployment = self.problem.graph, self.problem.deployment
        num_subgraphs = deployment.num_accelerators * deployment.max_subgraphs
        if not num_subgraphs:
            return False
        if (len(graph.nodes) + len(graph.edges)) * num_subgraphs > MAX_LATENCY_PROGRAM:
            self.message = "The graph is too large for the latency program, which might have proven more."
            return False
        return True

    def _raise_bound(self) -> None:
        reporter = self.reporter
        for bound in self.bounds:
            if bound == float("inf"):
                self.infeasible = True
                return
            reporter.proved(bound)
            if self.is_over.is_set() or reporter.within(self.problem.gap):
                return

    def _start_child(self) -> None:
        reporter, problem = self.reporter, self.problem
        self.program = LatencyProgram.below(
            problem.graph,
            problem.deployment,
            reporter.split,
            reporter.value_ms,
            reporter.lower_bound_ms or 0.0,
            problem.gap,
        )
        self.child = CpSatProcess("cp_sat", self.program.document(NUM_WORKERS))

    def _listen(self, wait_s: float, restart: bool) -> bool:
        """Take over what CP-SAT has found; return whether it may find more."""
        reporter = self.reporter
        assert self.child is not None
        assert self.program is not None
        left = reporter.seconds_left
        answers = self.child.answers(wait_s if left is None else min(wait_s, left))
        reporter.report("integer program")
        for answer in answers:
            status = answer.get("status")
            if status == FAILED:
                self.message = f"CP-SAT ended without an answer: {answer['error']}"
                return False
            if status == "INFEASIBLE" and self.program.known is None:
                self.infeasible = True
                return False
            if status is None or status in ("OPTIMAL", "INFEASIBLE"):
                reporter.proved(self.program.bound_ms(answer))
            if "slot" in answer:
                reporter.found(self.program.split(answer))
            reporter.report("integer program")
            if status is not None:
                return self._restarts(True)
        if restart:
            self._restarts(False)
        return True

    def _restarts(self, ended: bool) -> bool:
        """Start CP-SAT anew where a plan is known that is better than the one it started from; return whether."""
        assert self.program is not None
        assert self.child is not None
        value_ms = self.reporter.value_ms
        gain = 0.0 if ended else RESTART_GAIN
        if value_ms is None or value_ms >= self.program.target_ms * (1 - gain):
            return False
        self.child.stop()
        self._start_child()
        return True


NOTHING_MORE = object()
"""What a search that has ended gives."""
