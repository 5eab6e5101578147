"""A sweep as data: what is asked, its points, and which points help which.

The points of an axis are halved again and again: both ends first, then the middle, then the middles of both halves.
A point between two others has a plan from the harder one, whose value there bounds its optimum from above, and a bound
from the easier one, whose optimum bounds it from below; where both meet there is nothing left to search. On two axes
that goes for either axis, so that a point has up to four such *neighbours*: all are nearer to the ends in the order of
halving on one axis and equal on the other, so that no point waits for itself in a circle. Adjacent points always are
neighbours, one way or the other, which keeps the values monotone to the last digit.

Which neighbours help a point follows from the sweep alone, never from what happened to be solved first: so results do
not depend on executor, number of workers, order of arrival, interruptions or lost workers.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import product

from solvers.exporters.frameworks import Framework
from solvers.hardware.device_list import parse_devices
from solvers.hardware.prices import ANY_ACCELERATOR, DeviceCounts
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.parameters.asked import as_asked
from solvers.parameters.parameter import Asked
from solvers.parameters.question import why_no_cpus_in, why_not_in
from solvers.quantities import count
from solvers.solve import require_solvable
from solvers.sweep.axes import OUR_DEVICES, Axis, Change, DeviceSource, Quantity, Value, asked_at, in_order

MAX_POINTS = 10_000
MAX_AXES = 2
MEMORIES = frozenset({Quantity.MEMORY})
COUNTS = frozenset({Quantity.ACCELERATORS, Quantity.CPUS, Quantity.COUNT})
"""Quantities that count devices."""
LINKS = frozenset({Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR})
"""Quantities that may have prices of their own."""

Index = tuple[int, ...]
"""A point: the index of its value on each axis."""


@dataclass(frozen=True)
class SweepSpec:
    """What a sweep asks: a question and the one or two axes along which it is varied.

    `time_limit_s` and `gap` are for each point, `source` for a sweep over devices; `expressible_in` is the framework
    that the graph was restricted to (`solvers.exporters.frameworks.expressible_graph`), None for all plans. Raises
    PlacementError, or one of its kind, when a point cannot be asked: all are tried when the sweep is made, none is
    solved.
    """

    graph: DnnGraph
    deployment: Deployment
    axes: tuple[Axis, ...]
    objective: Objective = Objective.THROUGHPUT
    family: Family = Family.CHAIN
    method: str = "auto"
    time_limit_s: float | None = None
    gap: float = 0.0
    source: DeviceSource = OUR_DEVICES
    expressible_in: Framework | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.axes) <= MAX_AXES:
            raise PlacementError(f"A sweep has one axis or two, not {len(self.axes)}.")
        of_all = {axis.quantity for axis in self.axes if not axis.of_class}
        of_class = {axis.quantity for axis in self.axes if axis.of_class}
        if (
            len({axis.varied for axis in self.axes}) < len(self.axes)
            or {Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR} <= of_all
        ):
            raise PlacementError("Both axes of the sweep vary the same quantity; choose two different ones.")
        if Quantity.BANDWIDTH in of_class and of_all & {Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR}:
            raise PlacementError("The axes vary the links of all accelerators and those of one class; choose one.")
        if self.num_points > MAX_POINTS:
            raise PlacementError(f"The sweep has {count(self.num_points)} points; give up to {count(MAX_POINTS)}.")
        # Axes change different things, so a value that works at one place of the other axis works at all; counts of
        # several classes add up, at most in the last point.
        for axis in self.axes:
            for i in range(len(axis.values)):
                self._require_solvable(tuple(i if other is axis else 0 for other in self.axes), axis.text(i))
        last = tuple(len(axis.values) - 1 for axis in self.axes)
        self._require_solvable(last, ", ".join(axis.text(i) for axis, i in zip(self.axes, last, strict=True)))

    def _require_solvable(self, index: Index, place: str) -> None:
        """Raise PlacementError, naming the place, where a point cannot be asked."""
        try:
            asked = self.asked(index)
            if self.expressible_in is not None and (reason := _why_not_expressible(asked, self.expressible_in)):
                raise PlacementError(reason)
            require_solvable(asked.graph, asked.deployment, asked.objective, self.method, self.family)
        except PlacementError as error:
            raise PlacementError(f"At {place}: {error}") from None

    @property
    def num_points(self) -> int:
        """Number of points."""
        count = 1
        for axis in self.axes:
            count *= len(axis.values)
        return count

    @cached_property
    def digest(self) -> str:
        """A key that is equal for equal sweeps."""
        limits = (self.time_limit_s, self.gap)
        asked = (self.deployment, self.axes, self.objective, self.family, self.method, *limits, self.source)
        return hashlib.sha256(f"{self.graph.digest} {asked!r}".encode()).hexdigest()[:16]

    def values(self, index: Index) -> tuple[Value, ...]:
        """Return the value of each axis at a point."""
        return tuple(axis.values[i] for axis, i in zip(self.axes, index, strict=True))

    def changes(self, index: Index) -> tuple[Change, ...]:
        """Return what is varied, each with its value at a point."""
        return tuple((axis.varied, value) for axis, value in zip(self.axes, self.values(index), strict=True))

    def asked(self, index: Index) -> Asked:
        """Return the question at a point."""
        asked = self._base
        for varied, value in in_order(self.changes(index)):
            asked = asked_at(asked, varied, value, self.source)
        return asked

    @property
    def _base(self) -> Asked:
        limits = self.time_limit_s, self.gap
        return as_asked(self.graph, self.deployment, self.objective, self.family, self.method, *limits)

    def deployment_at(self, index: Index) -> Deployment:
        """Return the devices at a point, without working out its graph."""
        if index not in self._deployments:
            asked = self._base
            for varied, value in in_order(self.changes(index)):
                if varied.is_of_devices:
                    asked = asked_at(asked, varied, value, self.source)
            self._deployments[index] = asked.deployment
        return self._deployments[index]

    @cached_property
    def _deployments(self) -> dict[Index, Deployment]:
        """Those that were asked for: devices of the catalogue take a while."""
        return {}

    def has_no_device(self, index: Index) -> bool:
        """Whether a point has no device because both axes are counts and are 0: nobody asks for a plan there."""
        devices = self.deployment_at(index)
        counts = all(axis.quantity in COUNTS for axis in self.axes)
        return counts and len(index) > 1 and devices.num_accelerators + devices.num_cpus == 0

    def devices_at(self, index: Index) -> DeviceCounts:
        """Return how many devices of each type there are at a point, by the names of a list, a class or of times.

        With the memory and the links of all of them where these are varied.
        """
        deployment = self.deployment_at(index)
        counts = DeviceCounts.of(deployment, "" if deployment.classes else self._name_of_alike(index))
        return replace(
            counts,
            memory_gib=self._together(index, counts, MEMORIES),
            link_speed=self._together(index, counts, LINKS),
        )

    def _together(self, index: Index, counts: DeviceCounts, quantities: frozenset[Quantity]) -> float:
        """Return what the accelerators that an axis is about have together of its quantity, in the axis's unit."""
        total = Decimal(0)
        for varied, value in self.changes(index):
            if varied.quantity in quantities:
                number = dict(counts.accelerators).get(varied.of_class) if varied.of_class else counts.num_accelerators
                total += (number or 0) * Decimal(str(varied.quantity.shown(value)))
        return float(total)

    def varies(self, quantities: frozenset[Quantity]) -> bool:
        """Whether an axis is one of these."""
        return any(axis.quantity in quantities for axis in self.axes)

    @cached_property
    def device_types(self) -> tuple[str, ...]:
        """The types of accelerators of all points, as `devices_at` names them."""
        found: dict[str, None] = {}
        for axis in self.axes:
            if axis.quantity is Quantity.DEVICES:
                for place in range(len(axis.values)):
                    index = tuple(place if other is axis else 0 for other in self.axes)
                    found.update(dict.fromkeys(name for name, _ in self.devices_at(index).accelerators))
        return tuple(found) or tuple(name for name, _ in self.devices_at((0,) * len(self.axes)).accelerators)

    def _name_of_alike(self, index: Index) -> str:
        """Return the type of accelerators that are all alike: of the list of a point, or that the times are for."""
        for varied, value in self.changes(index):
            if varied.quantity is Quantity.DEVICES:
                return self.source.catalogue.accelerator(parse_devices(str(value))[0].name).name
        times = self.graph.times
        return times.accelerator if times is not None and times.accelerator else ANY_ACCELERATOR

    def points(self) -> Iterator[Index]:
        """Yield all points so that neighbours come first: the ends, then ever finer."""
        levels = [_halving(len(axis.values)) for axis in self.axes]

        def rank(index: Index) -> tuple[int, Index]:
            return sum(level[i].level for level, i in zip(levels, index, strict=True)), index

        yield from sorted(product(*(range(len(axis.values)) for axis in self.axes)), key=rank)

    def neighbours(self, index: Index) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        """Return the points that are harder, whose plans are valid here, and those that are easier."""
        harder: list[Index] = []
        easier: list[Index] = []
        for a, axis in enumerate(self.axes):
            if not axis.quantity.is_monotone:
                continue
            place = _halving(len(axis.values))[index[a]]
            for other, is_larger in ((place.below, False), (place.above, True)):
                if other is not None:
                    side = easier if is_larger != axis.quantity.is_easier_when_less else harder
                    side.append((*index[:a], other, *index[a + 1 :]))
        return tuple(harder), tuple(easier)


@dataclass(frozen=True, slots=True)
class _Place:
    """An index in the order of halving: how late it comes, and the nearest ones below and above that come before."""

    level: int
    below: int | None
    above: int | None


@lru_cache(maxsize=64)
def _halving(num: int) -> tuple[_Place, ...]:
    """Return the place of each of `num` indices.

    >>> [place.level for place in _halving(5)]
    [0, 2, 1, 2, 0]
    """
    places: dict[int, _Place] = {0: _Place(0, None, None)}
    if num > 1:
        # The upper end is helped by the lower one, or neither would bound the other where there are only two.
        places[num - 1] = _Place(1 if num == 2 else 0, 0 if num == 2 else None, None)
    waiting = [(0, num - 1, 1)] if num > 2 else []
    while waiting:
        low, high, level = waiting.pop()
        middle = (low + high) // 2
        places[middle] = _Place(level, low, high)
        waiting.extend((a, b, level + 1) for a, b in ((low, middle), (middle, high)) if b - a > 1)
    return tuple(places[i] for i in range(num))


def _why_not_expressible(asked: Asked, framework: Framework) -> str:
    """Say why a framework can express no plan of a point, or what of the point it does not have."""
    no_cpus = why_no_cpus_in(framework) if asked.deployment.num_cpus else ""
    return no_cpus or why_not_in(asked, framework)
