"""Better free or convex splits, in a thread of their own, until there seem to be none.

Each round searches in three ways, all of which end in annealing (`solvers.free.plans.annealing`, compiled, without the
interpreter's lock): from a plan made of the prices that prove a bound (`solvers.free.plans.filling`); from the best
plan known; and, for as long as these two took, from pairs of plans found so far (`solvers.free.plans.population`),
which are combined: what neither of two plans divides stays together.
"""

import threading
import time
from collections.abc import Callable

import numpy as np

from solvers.free.merged_blocks import Prices
from solvers.free.plans.annealing import Annealing
from solvers.free.plans.filling import filled
from solvers.free.plans.population import Islands
from solvers.model.split import Family, Split
from solvers.problem.contraction import Contraction, IntArray
from solvers.problem.solving import Problem

LEAST_FILLED = 0.93
"""Devices are filled to at least this share of the best value known."""
MOST_FUTILE = 120
"""Rounds with prices in turn, none of which led to a better plan, after which no plans are made of prices."""
NEWS = 1e-3
"""Prices that prove so much more are worth trying again."""


class PlanSearch:
    """The search, its thread, and what it has found."""

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
        self._islands = Islands(self._annealing.problem, self._annealing.best[1])
        self._futile, self._last_provable_ms = 0, 0.0
        self._handed_over = self._annealing.value_ms
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="plan search", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take_in(self, other: "PlanSearch") -> None:
        """Take in the plans of a search that has ended, of the same blocks without CPUs, before this one begins."""
        for device in other._islands.devices:
            self._islands.add(device)

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
        value, device = self._annealing.best
        if value >= self._handed_over:
            return None
        self._handed_over = value
        return self._split(device)

    def splits(self) -> list[Split]:
        """Return all plans that are kept, the best one first; to be called when it has ended."""
        return [self._split(device) for device in self._islands.devices]

    def _split(self, device: IntArray) -> Split:
        device_of = self._contraction.device_of(dict(enumerate(device.tolist())))
        return Split.from_device_of(device_of, self._problem.deployment)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and self._round():
                pass
        except _Stopped:
            pass
        except BaseException as error:  # raised again in the thread that stops the search
            self._failure = error

    def _round(self) -> bool:
        """Look for better plans once in each way; say whether another round may find some."""
        before_ms, began = self._annealing.value_ms, time.thread_time()
        prices = self._promising_prices()
        if prices is not None:
            self._search_near(prices)
        if self._annealing.is_exhausted:
            if prices is None:
                return False
        elif not self._islands.is_apart:
            self._note(self._annealing.sweep())
        self._combine(time.thread_time() - began)
        self._islands.end_round(self._annealing.best[1], may_be_apart=prices is not None)
        self._futile = 0 if self._annealing.value_ms < before_ms else self._futile + 1
        return True

    def _promising_prices(self) -> Prices | None:
        """Return prices, if there are such that plans made of them may be better than those known."""
        prices = self._prices()
        if prices is None:
            return None
        if prices.provable_ms > self._last_provable_ms * (1 + NEWS):
            self._futile, self._last_provable_ms = 0, prices.provable_ms
        return prices if self._futile < MOST_FUTILE else None

    def _search_near(self, prices: Prices) -> None:
        """Look for a better plan near one made of prices."""
        # The optimum is about between the two, and best filled to that.
        known_ms = self._annealing.value_ms
        least_ms = max(prices.provable_ms, LEAST_FILLED * known_ms)
        threshold_ms = known_ms - self._rng.random() * max(0.0, known_ms - least_ms)
        device = filled(prices, threshold_ms, self._annealing.problem, self._fixed, self._rng, self._check)
        if device is not None:
            self._note(self._annealing.sweep_from(device))

    def _combine(self, seconds: float) -> None:
        """Combine plans for so many seconds of the processor, at least once."""
        began = time.thread_time()
        while (pair := self._islands.pair(self._rng)) is not None:
            self._note(self._annealing.combine(*pair))
            self._check()
            if time.thread_time() - began >= seconds:
                break

    def _note(self, end: IntArray) -> None:
        """Keep where a sweep ended, and the best plan known unless the population is apart from it."""
        self._islands.add(end)
        if not self._islands.is_apart:
            self._islands.add(self._annealing.best[1])

    def _check(self) -> None:
        if self._stopping.is_set():
            raise _Stopped


class _Stopped(Exception):  # noqa: N818 -- no error
    """The search was told to end."""
