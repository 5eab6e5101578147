"""Free and convex splits at any time: plans and bounds improve side by side until they meet or time is up.

One thread looks for plans (`solvers.free.plans.search`), another raises the lower bound (`solvers.free.bounds`), and
the first makes plans of the prices of the second. The calling thread hands plans over, and reports. Both go on while it
runs an integer program.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from solvers.free.bounds import FreeBounds
from solvers.free.merged_blocks import Prices
from solvers.free.plans.flat_problem import MOST_FORWARD_NODES
from solvers.free.plans.search import PlanSearch
from solvers.model.split import Family, Split
from solvers.problem.background import Background
from solvers.problem.contraction import Contraction
from solvers.problem.solving import Problem, Reporter

POLL_SECONDS = 0.05
"""Longest time between two looks at what the threads have found."""
SHORTEST_POLL_SECONDS, POLL_SHARE = 1e-3, 0.1
"""The next look comes so much later, and by this share of the time so far: what is quick is not waited for."""

HEAD_START_SHARE = 0.05
"""Share of the time for annealing alone, before prices: a threshold just below a poor plan is not worth a proof."""
WITHOUT_CPUS_SHARE = 0.1
"""Share of the time for plans on the accelerators alone, where one is known to begin from."""

SECONDS_WITHOUT_LIMIT = 120.0
"""Time for plans and bounds where there is no time limit."""


def raise_bound(
    contraction: Contraction,
    problem: Problem,
    reporter: Reporter,
    watch: Callable[[], bool],
    seconds_left: Callable[[], float],
    before_prices: Callable[[], None] = lambda: None,
    begun: Callable[[FreeBounds], object] = lambda bounds: None,
) -> None:
    """Prove better lower bounds on the plan known so far.

    The contraction is that of the graph for convex splits if the problem asks for such, and else for free ones.

    They bound the GPipe time as well, since no device's load exceeds max FW_i + max BW_i, but not replicated stages.
    `watch` is called often and says whether to go on, within `seconds_left`; `before_prices` between the cheap bounds
    and the dear ones, and `begun` at the beginning.
    """
    convex_in = problem.graph if problem.family is Family.CONVEX else None
    bounds = FreeBounds(contraction, problem.deployment, reporter.lower_bound_ms or 0.0, convex_in)
    begun(bounds)

    def hand_over() -> bool:
        reporter.proved(bounds.lower_bound_ms)
        bounds.lower_bound_ms = max(bounds.lower_bound_ms, reporter.lower_bound_ms or 0.0)  # of an integer program
        return watch()

    bounds.raise_by_cuts(reporter.value_ms or 0.0, hand_over)
    bounds.raise_by_work(reporter.value_ms or 0.0, hand_over)
    before_prices()
    bounds.raise_by_prices(lambda: reporter.value_ms or 0.0, problem.gap, hand_over, seconds_left)
    hand_over()


class PlansAndBounds:
    """Better plans and bounds for a problem of the free or convex family, from the plan known so far, in two threads.

    Used in a `with` statement: bounds begin there, plans where `search_plans` is called, and both end, within a second
    or so, where it is left. What is found goes to the reporter whenever `take_over` is called, and bounds at once.
    """

    def __init__(self, contraction: Contraction, problem: Problem, reporter: Reporter) -> None:
        """Do nothing yet; the reporter knows a plan."""
        self._contraction, self._problem, self._reporter = contraction, problem, reporter
        left = reporter.seconds_left
        self._deadline = reporter.seconds + (SECONDS_WITHOUT_LIMIT if left is None else left)
        self._is_over = False
        self._searches = problem.family is Family.FREE or len(problem.graph.nodes) <= MOST_FORWARD_NODES
        self._search: PlanSearch | None = None
        self._bounds: Background[None] | None = None
        self._prices_of: FreeBounds | None = None

    def __enter__(self) -> Self:
        """Begin with bounds."""
        if self._reporter.split is not None:
            self._bounds = Background(self._raise_bound, "bounds")
        return self

    def search_plans(self, on_accelerators: Split | None = None) -> None:
        """Begin to look for better plans, from the best one known by now.

        With CPUs there are more plans to look through, and what is good without them may be missed: where a plan
        `on_accelerators` alone is given, a part of the time goes to better ones of that kind first.
        """
        problem, split = self._problem, self._reporter.split
        if split is None or not self._searches:
            return
        before = None if on_accelerators is None else self._searched_without_cpus(on_accelerators)
        self._search = PlanSearch(self._contraction, problem, (self._reporter.split or split).device_of(), self._prices)
        if before is not None:
            self._search.take_in(before)
        self._search.start()

    def _searched_without_cpus(self, split: Split) -> PlanSearch:
        """Look for better plans on the accelerators alone for a part of the time; return that search, ended."""
        without = replace(self._problem, deployment=replace(self._problem.deployment, num_cpus=0))
        # The blocks are the same: they do not depend on how many CPUs there are.
        search = PlanSearch(self._contraction, without, split.on(without.deployment).device_of(), self._prices)
        self._search = search
        search.start()
        self._wait(WITHOUT_CPUS_SHARE, lambda: search.is_running)
        search.stop()
        self.take_over()
        return search

    def __exit__(self, *_: object) -> None:
        """End; raises what one of the threads failed with."""
        self._is_over = True
        if self._search is not None:
            self._search.stop()
        if self._bounds is not None:
            self._bounds.wait()
            self._bounds.result()

    def take_over(self) -> None:
        """Hand a better plan to the reporter, if there is one."""
        split = None if self._search is None else self._search.take()
        if split is not None:
            self._reporter.found(split.on(self._problem.deployment))

    def wait(self, share_of_time: float) -> None:
        """Wait until the gap is proven, or nothing is likely to get any further, or for this share of the time left."""
        self._wait(share_of_time, self._is_working)

    def _wait(self, share_of_time: float, is_working: Callable[[], bool]) -> None:
        reporter = self._reporter
        began = reporter.seconds
        until = began + share_of_time * (self._deadline - began)
        while is_working() and reporter.seconds < until and not reporter.within(self._problem.gap):
            self.take_over()
            reporter.report("better plans and bounds")
            time.sleep(min(POLL_SECONDS, SHORTEST_POLL_SECONDS + POLL_SHARE * (reporter.seconds - began)))
        self.take_over()
        reporter.report("better plans and bounds")

    def _is_working(self) -> bool:
        is_searching = self._search is not None and self._search.is_running
        return is_searching or (self._bounds is not None and self._bounds.is_running)

    def _may_plans_improve(self) -> bool:
        return self._searches and (self._search is None or self._search.is_running)

    def _prices(self) -> Prices | None:
        return None if self._prices_of is None else self._prices_of.prices

    def _raise_bound(self) -> None:
        reporter = self._reporter

        def seconds_left() -> float:
            return self._deadline - reporter.seconds

        def watch() -> bool:
            return not self._is_over and seconds_left() > 0 and not reporter.within(self._problem.gap)

        def let_plans_improve() -> None:
            until = reporter.seconds + HEAD_START_SHARE * seconds_left()
            while self._may_plans_improve() and reporter.seconds < until and watch():
                time.sleep(POLL_SECONDS)

        def begun(bounds: FreeBounds) -> None:
            self._prices_of = bounds

        raise_bound(self._contraction, self._problem, reporter, watch, seconds_left, let_plans_improve, begun)
