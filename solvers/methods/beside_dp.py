"""Bounds and better plans where a DP takes long: on a second core beside it, and on both where it gave up."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from solvers.chain.run import POLL_SECONDS, Watch, is_plain
from solvers.methods.better_chains import improve, improve_without_cpus
from solvers.model.split import Family, Split
from solvers.problem.background import Background
from solvers.problem.contraction import Contraction
from solvers.problem.solving import LOOK_SECONDS, Problem, Reporter, contracted, watched

if TYPE_CHECKING:
    from solvers.free.bounds import FreeBounds  # numba loads there, when it is needed

Step = Callable[[Watch], None]

WITHOUT_CPUS_SHARE, SECONDS_WITHOUT_CPUS = 0.1, 2.5
"""Share of the time left for plans on the accelerators alone, or how many seconds where there is no limit."""

ANNEALING_SHARE, MOST_ANNEALING_SECONDS = 0.1, 3.0
"""Share of the time left for pipelines among the convex splits that annealing finds, if not so many seconds."""

PLANS_SHARE, MOST_PLANS_SECONDS, PRICES_SHARE = 0.42, 8.0, 0.7
"""Share of the time left for better plans, if not so many seconds, then for bounds by prices; the rest is for plans.

After the DP prices have all of it, in a thread of their own. What tells contents of devices apart takes a second or two
to build, eight on randomly wired networks, so that it comes after plans, too.
"""

CONVEX_NODES = 2.0
"""Bounds of convex splits are better, but come later: where their diagrams have at most so many times as many nodes,
counting those of a CPU, they are taken."""


class BesideDp:
    """Steps of work, each of which is done once; what is found goes to the reporter.

    Bounds are those of all convex splits, or, with a CPU, of all free ones where these come sooner. Chains are both.
    """

    def __init__(self, contraction: Contraction, problem: Problem, reporter: Reporter) -> None:
        """Do nothing yet."""
        self._contraction, self._problem, self._reporter = contraction, problem, reporter
        self._bounds: FreeBounds | None = None  # those by prices
        self._is_chosen = False  # whether it is those of convex splits or of free ones
        self._prices_share = PRICES_SHARE
        self._num_courses = 0  # of improvement
        self._bound_steps: list[Step] = (
            [] if problem.deployment.replication else [self._bound_by_cuts, self._bound_by_work, self._bound_by_prices]
        )
        self._plan_steps: list[Step] = (
            [self._improve_without_cpus, self._anneal, self._improve_first, self._improve] if is_plain(problem) else []
        )

    def beside(self, watch: Watch) -> None:
        """Work in this thread while `watch` says so: cheap bounds, better plans, dear bounds, and plans again."""
        _work(self._bound_steps, watch, until=2)
        _work(self._plan_steps, watch, until=1)
        _work(self._bound_steps, watch)
        _work(self._plan_steps, watch)

    def after(self, watch: Watch) -> None:
        """Do what is left to do while `watch` says so: bounds in a thread of their own, and plans as long as these.

        Bounds end where nothing more can be proven that matters for the plan known; a better one is another question.
        """
        reporter, is_over, begun_ms = self._reporter, False, self._reporter.value_ms

        def bound() -> None:
            steps = self._bound_steps
            if not steps and self._bounds is not None:
                steps.append(self._bound_by_prices)  # they had a part of the time only
            self._prices_share = 1.0
            _work(steps, lambda: not is_over)

        bounding = Background(bound, "bounds")
        try:
            _work(self._plan_steps, watch)
            while watch():
                if not bounding.is_running:
                    bounding.result()
                    if reporter.value_ms == begun_ms:
                        break
                    begun_ms = reporter.value_ms
                    bounding = Background(bound, "bounds")
                self._improve(watch)  # nothing in variants of the model
                bounding.wait(LOOK_SECONDS)
        finally:
            is_over = True
            bounding.wait()
        bounding.result()

    def _bound_by_cuts(self, watch: Watch) -> None:
        """Prove bounds that are quick to come by."""
        reporter = self._reporter
        bounds = self._new_bounds(watch, is_convex=not self._problem.deployment.num_cpus)
        if bounds is not None:
            bounds.raise_by_cuts(reporter.value_ms or 0.0, self._handing_over(bounds, watch))
            self._bounds = bounds

    def _bound_by_work(self, watch: Watch) -> None:
        """Choose the bounds, and tell apart what a device can hold, which prices need as well."""
        self._choose_bounds(watch)
        bounds = self._bounds
        if bounds is not None:
            bounds.raise_by_work(self._reporter.value_ms or 0.0, self._handing_over(bounds, watch))
            self._reporter.proved(bounds.lower_bound_ms)

    def _bound_by_prices(self, watch: Watch) -> None:
        reporter, seconds_left, bounds = self._reporter, self._seconds_left(self._prices_share), self._bounds
        if bounds is not None:
            hand_over = self._handing_over(bounds, watch)
            bounds.raise_by_prices(lambda: reporter.value_ms or 0.0, self._problem.gap, hand_over, seconds_left)
            hand_over()

    def _choose_bounds(self, watch: Watch) -> None:
        """With a CPU, take the bounds of convex splits from now on where their diagrams are no larger."""
        if self._bounds is None or self._is_chosen:
            return
        self._is_chosen = True
        if self._problem.deployment.num_cpus:
            convex = self._new_bounds(watch, is_convex=True)
            num_nodes = None if convex is None else convex.num_nodes(watch)
            num_free = self._bounds.num_nodes(watch)
            if num_nodes is not None and num_free is not None and num_nodes <= CONVEX_NODES * num_free:
                self._bounds = convex

    def _new_bounds(self, watch: Watch, *, is_convex: bool) -> "FreeBounds | None":
        """Return bounds of convex or free splits from what is known; None where `watch` says stop."""
        from solvers.free.bounds import FreeBounds

        problem, known_ms = self._problem, self._reporter.lower_bound_ms or 0.0
        convex_in = problem.graph if is_convex else None
        return watched(lambda: FreeBounds(self._contraction, problem.deployment, known_ms, convex_in), watch)

    def _handing_over(self, bounds: "FreeBounds", watch: Watch) -> Watch:
        def hand_over() -> bool:
            self._reporter.proved(bounds.lower_bound_ms)
            bounds.lower_bound_ms = max(bounds.lower_bound_ms, self._reporter.lower_bound_ms or 0.0)
            return watch()

        return hand_over

    def _improve_without_cpus(self, watch: Watch) -> None:
        left = self._reporter.seconds_left
        seconds = SECONDS_WITHOUT_CPUS if left is None else WITHOUT_CPUS_SHARE * left
        improve_without_cpus(self._problem, self._reporter, watch, seconds)

    def _anneal(self, watch: Watch) -> None:
        """Take what is a pipeline of the convex splits that annealing finds: it moves blocks that no window holds."""
        from solvers.chain.improvement import with_whole_blocks  # numba loads there, when it is needed
        from solvers.free.plans.flat_problem import MOST_FORWARD_NODES
        from solvers.free.plans.search import PlanSearch

        reporter, problem = self._reporter, replace(self._problem, family=Family.CONVEX)
        if reporter.split is None or len(problem.graph.nodes) > MOST_FORWARD_NODES:
            return
        seconds_left = self._seconds_left(ANNEALING_SHARE, MOST_ANNEALING_SECONDS)
        device_of = reporter.split.device_of()
        search = watched(lambda: PlanSearch(contracted(problem, Family.CONVEX), problem, device_of), watch)
        if search is None:
            return
        search.start()
        try:
            while search.is_running and seconds_left() > 0 and watch():
                time.sleep(POLL_SECONDS)
        finally:
            search.stop()
        for split in search.splits():
            # The DP and its improvement know blocks only, which nodes without work are joined to.
            whole = with_whole_blocks(problem.graph, self._contraction, split)
            reporter.found(Split.from_device_of(whole, problem.deployment))
            reporter.found(split)

    def _improve_first(self, watch: Watch) -> None:
        seconds_left = self._seconds_left(PLANS_SHARE, MOST_PLANS_SECONDS)
        self._improve(lambda: watch() and seconds_left() > 0)

    def _improve(self, watch: Watch) -> None:
        """Improve the chain known until that becomes futile, on another course each time."""
        improve(self._contraction, self._problem, self._reporter, watch, seed=self._num_courses)
        self._num_courses += 1

    def _seconds_left(self, share: float, most: float = math.inf) -> Callable[[], float]:
        """Return a clock that counts down from a share of the time left, or from `most` seconds if these are fewer."""
        from solvers.free.anytime import SECONDS_WITHOUT_LIMIT  # numba loads there, when it is needed

        left = self._reporter.seconds_left
        end_s = self._reporter.seconds + min(most, share * (SECONDS_WITHOUT_LIMIT if left is None else left))
        return lambda: end_s - self._reporter.seconds


def _work(steps: list[Step], watch: Watch, until: int = 0) -> None:
    """Take steps while `watch` says so and more than `until` are left; one that it ended is still to be taken."""
    while len(steps) > until and watch():
        steps[0](watch)
        if watch():
            del steps[0]
