"""Free and convex splits at any time: plans and bounds improve side by side until they meet or time is up.

A thread anneals (compiled, without the interpreter's lock) from the best plan known, and from plans that it makes of
the prices of the other (`solvers.free.filling`), which raises the lower bound (`solvers.free.bounds`); the calling
thread hands over plans, and reports. Both go on while it runs an integer program.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Self

import numpy as np

from solvers.free.annealing import Annealing
from solvers.free.bounds import FreeBounds
from solvers.free.filling import Prices, filled
from solvers.free.flat_problem import MOST_FORWARD_NODES, largest_load
from solvers.model.split import Family, Split
from solvers.problem.background import Background
from solvers.problem.contraction import Contraction, IntArray
from solvers.problem.solving import Problem, Reporter, contracted

POLL_SECONDS = 0.05

SWEEPS = 2
"""Sweeps from a plan made of prices."""
LEAST_FILLED = 0.93
"""Devices are filled to at least this share of the best value known."""
MOST_MADE = 40
"""Plans made of prices from the best of which a search begins: as many as can be made while it lasts, but no more."""
MOST_FUTILE = 60
"""Such searches in turn, none of which led to a better plan, after which there are no more."""
NEWS = 1e-3
"""Prices that prove so much more are worth trying again."""

HEAD_START_SHARE = 0.05
"""Share of the time for annealing alone, before prices: a threshold just below a poor plan is not worth a proof."""
WITHOUT_CPUS_SHARE = 0.25
"""Share of the time for plans on the accelerators alone, where one is known to begin from."""

SECONDS_WITHOUT_LIMIT = 120.0
"""Time for plans and bounds where there is no time limit."""


class PlanSearch:
    """Annealing in a thread of its own."""

    def __init__(
        self,
        contraction: Contraction,
        problem: Problem,
        device_of: dict[int, int],
        prices: Callable[[], Prices | None] = lambda: None,
    ) -> None:
        """Start from a plan that is valid in the problem's family; `prices` are asked for whenever they may help."""
        self._contraction = contraction
        self._problem = problem
        pins = problem.pins.blocks(contraction)
        device_of_block = {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)}
        self._annealing = Annealing(
            contraction,
            problem.deployment,
            device_of_block,
            convex_in=problem.graph if problem.family is Family.CONVEX else None,
            fixed=pins,
        )
        self._fixed = np.array([device_of_block[b] if b in pins else -1 for b in device_of_block], np.int32)
        self._prices = prices
        self._rng = np.random.default_rng(0)
        self._futile, self._last_provable_ms, self._sweep_seconds = 0, 0.0, 0.0
        self._handed_over = self._annealing.value_ms
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="plan search", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether better plans may still come."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End, within milliseconds; raises what the search failed with."""
        self._stopping.set()
        self._annealing.stop()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def take(self) -> Split | None:
        """Return the best plan if it is better than the last one that was taken."""
        value, device_of_block = self._annealing.value_ms, self._annealing.device_of_block
        if value >= self._handed_over:
            return None
        self._handed_over = value
        return Split.from_device_of(self._contraction.device_of(device_of_block), self._problem.deployment)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                has_filled = self._fill()
                if not self._annealing.is_exhausted:
                    self._annealing.sweep()
                elif not has_filled:
                    break
        except _Stopped:
            pass
        except BaseException as error:  # raised again in the thread that stops the search
            self._failure = error

    def _fill(self) -> bool:
        """Look for a better plan near one made of prices; say whether there were such as promise one."""
        prices = self._prices()
        if prices is None:
            return False
        if prices.provable_ms > self._last_provable_ms * (1 + NEWS):
            self._futile, self._last_provable_ms = 0, prices.provable_ms
        if self._futile >= MOST_FUTILE:
            return False
        began = time.thread_time()
        best: IntArray | None = None
        least = math.inf
        made = 0
        # The optimum is about between the two, and best filled to that.
        known_ms = self._annealing.value_ms
        least_ms = max(prices.provable_ms, LEAST_FILLED * known_ms)
        while made == 0 or (made < MOST_MADE and time.thread_time() - began < self._sweep_seconds):
            made += 1
            threshold_ms = known_ms - self._rng.random() * max(0.0, known_ms - least_ms)
            device = filled(prices, threshold_ms, self._annealing.problem, self._fixed, self._rng, self._check)
            value = math.inf if device is None else float(largest_load(self._annealing.problem, device))
            if value < least:
                best, least = device, value
        began = time.thread_time()
        is_better = best is not None and self._annealing.sweep_from(best, SWEEPS)
        self._sweep_seconds = time.thread_time() - began
        self._futile = 0 if is_better else self._futile + 1
        return True

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _Stopped


class _Stopped(Exception):  # noqa: N818 -- no error
    """The search was told to end."""


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
        if on_accelerators is not None:
            without = replace(problem, deployment=replace(problem.deployment, num_cpus=0))
            contraction = contracted(without, problem.family)
            device_of = on_accelerators.on(without.deployment).device_of()

            def prices() -> Prices | None:
                known = self._prices()
                return None if known is None else known.carried_over(self._contraction, contraction)

            self._search = PlanSearch(contraction, without, device_of, prices)
            self._search.start()
            self._wait(WITHOUT_CPUS_SHARE, lambda: self._search is not None and self._search.is_running)
            self._search.stop()
            self.take_over()
            split = self._reporter.split or split
        self._search = PlanSearch(self._contraction, problem, split.device_of(), self._prices)
        self._search.start()

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
        until = reporter.seconds + share_of_time * (self._deadline - reporter.seconds)
        while is_working() and reporter.seconds < until and not reporter.within(self._problem.gap):
            self.take_over()
            reporter.report("better plans and bounds")
            time.sleep(POLL_SECONDS)
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
