"""Free and convex splits at any time: plans and bounds improve side by side until they meet or time is up.

A thread anneals (compiled, without the interpreter's lock) from the best plan known; meanwhile the calling thread
raises the lower bound (`solvers.free.bounds`), hands over plans, and reports.
"""

import math
import threading
import time
from collections.abc import Callable

from solvers.free.annealing import MOST_FORWARD_NODES, Annealing
from solvers.free.bounds import FreeBounds
from solvers.model.split import Family, Split
from solvers.problem.contraction import Contraction
from solvers.problem.solving import Problem, Reporter

POLL_SECONDS = 0.05

HEAD_START_SHARE = 0.1
"""Time of annealing alone, before column generation: a threshold just below a poor plan is not worth a proof."""

SECONDS_WITHOUT_LIMIT = 120.0
"""Time for plans and bounds where there is no time limit."""


class PlanSearch:
    """Annealing in a thread of its own."""

    def __init__(self, contraction: Contraction, problem: Problem, device_of: dict[int, int]) -> None:
        """Start from a plan that is valid in the problem's family."""
        self._contraction = contraction
        self._problem = problem
        self._annealing = Annealing(
            contraction,
            problem.deployment,
            {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)},
            convex_in=problem.graph if problem.family is Family.CONVEX else None,
            fixed=problem.pins.blocks(contraction),
        )
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
            while not (self._annealing.is_exhausted or self._stopping.is_set()):
                self._annealing.sweep()
        except BaseException as error:  # raised again in the thread that stops the search
            self._failure = error


def raise_bound(
    contraction: Contraction,
    problem: Problem,
    reporter: Reporter,
    watch: Callable[[], bool],
    seconds_left: Callable[[], float],
    before_prices: Callable[[], None] = lambda: None,
) -> None:
    """Prove better lower bounds on the plan known so far.

    The contraction is that of the graph for convex splits if the problem asks for such, and else for free ones.

    They bound the GPipe time as well, since no device's load exceeds max FW_i + max BW_i, but not replicated stages.
    `watch` is called often and says whether to go on, within `seconds_left`; `before_prices` between the cheap bounds
    and the dear ones.
    """
    convex_in = problem.graph if problem.family is Family.CONVEX else None
    bounds = FreeBounds(contraction, problem.deployment, reporter.lower_bound_ms or 0.0, convex_in)

    def hand_over() -> bool:
        reporter.proved(bounds.lower_bound_ms)
        return watch()

    bounds.raise_by_cuts(reporter.value_ms or 0.0, hand_over)
    bounds.raise_by_work(reporter.value_ms or 0.0, hand_over)
    before_prices()
    bounds.raise_by_prices(lambda: reporter.value_ms or 0.0, problem.gap, hand_over, seconds_left)
    hand_over()


def improve_and_bound(contraction: Contraction, problem: Problem, reporter: Reporter, share_of_time: float) -> None:
    """Better plans and bounds for a problem of the free or convex family, from the plan known so far.

    Ends when the gap is proven, or neither is likely to get any further, or its share of the time left is used.
    """
    if reporter.split is None:
        return
    left = reporter.seconds_left
    deadline = reporter.seconds + (SECONDS_WITHOUT_LIMIT if left is None else share_of_time * left)
    search = None
    if problem.family is Family.FREE or len(problem.graph.nodes) <= MOST_FORWARD_NODES:
        search = PlanSearch(contraction, problem, reporter.split.device_of())
    last_report = -math.inf

    def watch() -> bool:
        """Hand over, report, and say whether to go on."""
        nonlocal last_report
        now = time.monotonic()
        if now - last_report >= POLL_SECONDS:
            last_report = now
            split = None if search is None else search.take()
            better = split is not None and reporter.found(split)
            reporter.report("better plans and bounds", better)
        return reporter.seconds < deadline and not reporter.within(problem.gap)

    try:
        if search is not None:
            search.start()

        def let_plans_improve() -> None:
            until = reporter.seconds + HEAD_START_SHARE * (deadline - reporter.seconds)
            while search is not None and search.is_running and reporter.seconds < until and watch():
                time.sleep(POLL_SECONDS)

        raise_bound(contraction, problem, reporter, watch, lambda: deadline - reporter.seconds, let_plans_improve)
        while search is not None and search.is_running and watch():
            time.sleep(POLL_SECONDS)
    finally:
        if search is not None:
            search.stop()
    last_report = -math.inf
    watch()
