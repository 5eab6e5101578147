"""The least hardware that is enough for a wanted time: one quantity at a time, found by bisection and proven.

A value of a quantity is enough if some plan with it takes no longer than is wanted, and is *refuted* if it is proven
that none does. Along a monotone quantity (`solvers.sweep.axes`) whatever is enough stays so with more of it, so that
the least one lies above the largest that is refuted and is at most the smallest known to be enough. Each solve moves
one of the two:

- a plan that is fast enough often needs less than it was given: its fullest device tells how much memory it takes, and
  its cut tensors how slow the links may be. The search goes on below that, not below the value that was tried;
- a bound above the wanted time refutes, whether or not the optimum is known.

Counts are bisected until they are neighbours. Memory and speeds of links are bisected by their ratio, and then a value
just below the least known one is tried: when that is refuted too, the least one is proven, up to `BELOW`.
"""

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from solvers.analysis.what_if import carried_over
from solvers.baselines.table import BASELINES
from solvers.model.costs import split_costs
from solvers.model.deployment import LARGEST_FACTOR, LEAST_FACTOR, MAX_DEVICES, Deployment, DeviceClass
from solvers.model.errors import PlacementError
from solvers.model.result import PROOF_TOLERANCE, SolveCancelled, SolveResult, SolveStatus
from solvers.model.split import Split
from solvers.parameters.asked import as_asked
from solvers.parameters.hardware import BYTES_PER_MS, GIB, LARGEST_MEMORY_GIB, LINK_RANGE
from solvers.parameters.parameter import Asked, Parameter
from solvers.sweep.axes import PARAMETERS, Quantity, Varied, asked_at
from solvers.sweep.starts import best_start, value_of

BELOW = 1e-6
"""How far below the least known value the last one tried is, as a share of it: far more than memory's tolerance."""

RESOLUTION = 1e-3
"""Memory and speeds are bisected until this share is left between what is enough and what is not."""

MOST_TRIES = 48
"""Values tried for one quantity; a bisection over six decades takes half of it."""

STEPS_TO_SLOWEST = 40
"""Steps in which the slowest links are found that a plan can do with: 12 decades, to less than `BELOW`."""

NO_PROOF = "method {} proves nothing, so that what it does not reach may still be possible; choose auto, dp or ip"


@dataclass(frozen=True, slots=True)
class Try:
    """A value to be tried, the question with it, the best plan known that is valid there, and a bound proven there."""

    value: float
    asked: Asked
    start: Split | None
    lower_bound_ms: float | None


@dataclass(frozen=True, slots=True)
class Need:
    """How much of a quantity is needed for plans of at most `limit_ms`; values are in the units of `Quantity`.

    `least` is the least value known to be enough and `result` a plan with it; where none is known, `least` is None and
    `result` the answer with as much of the quantity as was tried. `refuted` is the largest value that is proven not to
    be enough, None where there is none. `is_proven` says that no smaller value is enough, `is_any` that every value is;
    without `least`, `is_proven` says that no value is. `reason` says why the question says nothing here.
    """

    varied: Varied
    limit_ms: float
    least: float | None = None
    result: SolveResult | None = None
    refuted: float | None = None
    is_proven: bool = False
    is_any: bool = False
    num_tries: int = 0
    reason: str = ""


Search = Generator[Try, SolveResult, Need]
"""Yields what is to be tried next, is sent the answer, and returns what is needed.

Where SolveCancelled is thrown into it instead, it returns what is known by then.
"""


def quantities_needed(deployment: Deployment, *, has_speeds: bool) -> tuple[Varied, ...]:
    """Return what may be asked for: counts, memory and links, of each class where there are several.

    `has_speeds` says that the graph tells the bandwidth of its links; where it does not, multiples of it are asked for.
    """
    if deployment.classes:
        kinds = (
            (Quantity.COUNT, Quantity.MEMORY, Quantity.BANDWIDTH) if has_speeds else (Quantity.COUNT, Quantity.MEMORY)
        )
        return tuple(Varied(quantity, one.name) for quantity in kinds for one in deployment.classes)
    links = Quantity.BANDWIDTH if has_speeds else Quantity.BANDWIDTH_FACTOR
    return Varied(Quantity.ACCELERATORS), Varied(Quantity.MEMORY), Varied(links)


def is_decided(value_ms: float | None, lower_bound_ms: float | None, limit_ms: float) -> bool:
    """Whether a value and a bound tell if plans of at most `limit_ms` exist: a solve may then be ended."""
    return _is_enough(value_ms, limit_ms) or (lower_bound_ms is not None and lower_bound_ms > limit_ms)


def _is_enough(value_ms: float | None, limit_ms: float) -> bool:
    return value_ms is not None and value_ms <= limit_ms * (1 + PROOF_TOLERANCE)


def _is_refuted(result: SolveResult, limit_ms: float) -> bool:
    if result.status is SolveStatus.INFEASIBLE:
        return True
    bound = result.lower_bound_ms
    return bound is not None and bound > limit_ms and not _is_enough(result.value_ms, limit_ms)


def why_not_needed(asked: Asked, varied: Varied) -> str:
    """Say, as a phrase, why no amount of a quantity answers anything for a question; empty where one may."""
    if asked.method in BASELINES:
        return NO_PROOF.format(asked.method)
    if not varied.of_class and (reason := _parameter(varied).why_not(asked)):
        return reason
    if _is_whole(varied):
        return ""
    if not _count(asked.deployment, varied):
        return f"there is no {varied.of_class or 'accelerator'}"
    if _is_of_links(varied) and all(tensor.transfer_ms == 0 for tensor in asked.graph.tensors):
        return "transfers take no time"
    return ""


def search(asked: Asked, varied: Varied, limit_ms: float, base: SolveResult) -> Search:
    """Find how much of a quantity is needed for plans of at most `limit_ms`, all else as it is asked.

    `base` is the answer to the question as it is. What is yielded is to be solved and the answer sent; a solve may end
    as soon as it `is_decided`. Raises PlacementError for a time that is not positive.
    """
    if not 0 < limit_ms < math.inf:
        raise PlacementError(f"A time of {limit_ms} ms is not usable; give a number above 0.")
    if reason := why_not_needed(asked, varied):
        return Need(varied, limit_ms, reason=reason)
    # From the graph as it is asked about: what else was asked of it, such as what a framework can express, stays.
    asked = as_asked(asked.graph, asked.deployment, asked.objective, asked.family, asked.method)
    found = yield from _Bisection(asked, varied, limit_ms).run(base)
    return found


class _Bisection:
    """What is known along one quantity: `enough`, `refuted` and `open`, the largest value not known to be enough."""

    def __init__(self, asked: Asked, varied: Varied, limit_ms: float) -> None:
        self.asked, self.varied, self.limit_ms = asked, varied, limit_ms
        self.is_whole = _is_whole(varied)
        self.floor, self.most = _range(asked, varied)
        self.enough: float | None = None
        self.plan: SolveResult | None = None
        self.refuted: float | None = None
        self.open: float | None = self.floor - 1 if self.is_whole else None
        self.harder: SolveResult | None = None  # the answer at `open`
        self.num_tries = 0

    def run(self, base: SolveResult) -> Search:
        own = _own(self.asked, self.varied)
        self._take(own, base)
        try:
            if self.enough is None:
                yield from self._upwards(own)
            while (value := self._next()) is not None and self.num_tries < MOST_TRIES:
                yield from self._try(value)
        except SolveCancelled:
            pass  # what is known by now is the answer
        is_none_enough = self.enough is None and self.refuted is not None and self.refuted >= self.most
        return Need(
            self.varied,
            self.limit_ms,
            self.enough,
            self.plan or self.harder,
            self.refuted,
            self._is_proven or is_none_enough,
            self.enough is not None and self.enough <= self.floor,
            self.num_tries,
        )

    def _upwards(self, own: float) -> Generator[Try, SolveResult, None]:
        """Try more until some value is enough: counts doubled, of memory and links as much as there may be."""
        value = own
        while self.enough is None and value < self.most and self.num_tries < MOST_TRIES:
            value = min(self.most, max(1.0, 2 * value)) if self.is_whole else self.most
            yield from self._try(value)

    def _try(self, value: float) -> Generator[Try, SolveResult, None]:
        self.num_tries += 1
        asked = asked_at(self.asked, self.varied, value)
        known = [(result.split, at) for result, at in ((self.harder, self.open), (self.plan, self.enough)) if result]
        plans = [self._on(split, at, asked) for split, at in known if split is not None]
        # What is proven with more of it holds with less.
        bound = None if self.plan is None else self.plan.lower_bound_ms
        result = yield Try(value, asked, best_start(asked, [plan for plan in plans if plan is not None]), bound)
        self._take(value, result)

    def _on(self, split: Split, at: float | None, asked: Asked) -> Split | None:
        """Return a plan of another value on the devices of a question; None where these are fewer."""
        if not self.is_whole:
            return split
        assert at is not None
        before = asked_at(self.asked, self.varied, at).deployment
        return None if at > _count(asked.deployment, self.varied) else carried_over(split, before, asked.deployment)

    def _take(self, value: float, result: SolveResult) -> None:
        if _is_enough(result.value_ms, self.limit_ms):
            assert result.split is not None
            least = value if self.is_whole else self._least_for(result.split, value)
            if self.enough is None or least < self.enough:
                self.enough, self.plan = least, result
            return
        if self.open is None or value > self.open:
            self.open, self.harder = value, result
        if _is_refuted(result, self.limit_ms) and (self.refuted is None or value > self.refuted):
            self.refuted = value

    @property
    def _is_proven(self) -> bool:
        """Whether no value below the least known one is enough."""
        if self.enough is None:
            return False
        if self.enough <= self.floor:
            return True
        below = self.enough - 1 if self.is_whole else self.enough * (1 - 2 * BELOW)
        return self.refuted is not None and self.refuted >= below

    def _next(self) -> float | None:
        """Return the value to try next; None when nothing is left between what is enough and what may not be."""
        if self.enough is None or self._is_proven:
            return None
        if self.is_whole:
            assert self.open is not None
            return None if self.enough - self.open <= 1 else float((self.enough + self.open) // 2)
        below = self.enough * (1 - BELOW)
        if self.open is None:
            return max(self.floor, self.enough / 2)
        if self.open >= below:
            return None
        if self.enough <= self.open * (1 + RESOLUTION):
            return below
        return math.sqrt(self.open * self.enough) if self.open > 0 else self.enough / 2

    def _least_for(self, split: Split, value: float) -> float:
        """Return the least memory, or the slowest links, with which a plan is still valid and fast enough."""

        def is_enough(at: float) -> bool:
            return _is_enough(value_of(asked_at(self.asked, self.varied, at), split), self.limit_ms)

        if _is_of_links(self.varied):
            return _slowest(is_enough, self.floor, value)
        asked = asked_at(self.asked, self.varied, value)
        devices = split_costs(asked.graph, asked.deployment, split.on(asked.deployment)).devices
        sizes = sorted({0.0, *(device.memory_bytes for device in devices)})
        return next((size for size in sizes if size < value and is_enough(size)), value)


def _slowest(is_enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least value between two that is enough, by halving their ratio; the upper one is enough."""
    if is_enough(low):
        return low
    for _ in range(STEPS_TO_SLOWEST):
        middle = math.sqrt(low * high)
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def _parameter(varied: Varied) -> Parameter[Any]:
    return PARAMETERS[varied.quantity]


def _is_whole(varied: Varied) -> bool:
    return varied.quantity.is_whole


def _is_of_links(varied: Varied) -> bool:
    return varied.quantity in (Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR)


def _count(deployment: Deployment, varied: Varied) -> int:
    """Return how many accelerators there are whose quantity it is."""
    if not varied.of_class:
        return deployment.num_accelerators
    return _class(deployment, varied).count


def _class(deployment: Deployment, varied: Varied) -> DeviceClass:
    return next(one for one in deployment.classes if one.name == varied.of_class)


def _own(asked: Asked, varied: Varied) -> float:
    """Return how much of a quantity there is in a question; without a limit on memory the most there may be."""
    deployment = asked.deployment
    if _is_whole(varied):
        return float(_count(deployment, varied))
    if _is_of_links(varied):
        speed = _class(deployment, varied).link_speed if varied.of_class else 1.0
        return speed * _unit_of_speed(asked, varied)
    own = _class(deployment, varied).memory_bytes if varied.of_class else deployment.memory_bytes
    return LARGEST_MEMORY_GIB * GIB if own is None else own


def _unit_of_speed(asked: Asked, varied: Varied) -> float:
    """Return the graph's bandwidth in bytes/ms, or 1 where multiples of it are meant."""
    if varied.quantity is Quantity.BANDWIDTH_FACTOR:
        return 1.0
    bandwidth = asked.graph.bandwidth_bytes_per_ms
    assert bandwidth is not None
    return bandwidth


def _range(asked: Asked, varied: Varied) -> tuple[float, float]:
    """Return the least and the most of a quantity that a question may have."""
    own = _own(asked, varied)
    if varied.quantity is Quantity.MEMORY:
        return 0.0, max(own, LARGEST_MEMORY_GIB * GIB)
    if _is_of_links(varied):
        unit = _unit_of_speed(asked, varied)
        if varied.of_class:
            return min(own, LEAST_FACTOR * unit), max(own, LARGEST_FACTOR * unit)
        if varied.quantity is Quantity.BANDWIDTH:
            unit = BYTES_PER_MS
        return min(own, LINK_RANGE.least * unit), max(own, LINK_RANGE.most * unit)
    deployment = asked.deployment
    others = deployment.num_accelerators - _count(deployment, varied)
    most = MAX_DEVICES - others
    if deployment.replication is None:
        most = min(most, len(asked.graph.nodes))  # more would be idle
    return float(not others and not deployment.num_cpus), max(own, float(most))
