"""What a sweep says: measures of its points, the knee of a curve, and the Pareto front of throughput against cost."""

import math
from collections.abc import Sequence
from enum import StrEnum

from solvers.hardware.prices import DeviceCounts, PriceBasis, Prices
from solvers.model.costs import Objective
from solvers.model.micro_batch import PASSES, sample_unit, samples_per_pass
from solvers.model.result import SolveResult, SolveStatus
from solvers.quantities import count
from solvers.sweep.axes import Quantity
from solvers.sweep.spec import Index, SweepSpec

SECONDS_PER_HOUR = 3600
BOUGHT_UNIT = 1000
"""Units of money that throughput is told for where devices are bought; of one unit it would be very small."""
MS_PER_SECOND = 1000

NO_PRICES = Prices()
SENSITIVITY = 1.0
"""S of Kneedle: how far a curve must flatten behind a knee, in mean steps; 1 is what its authors suggest."""


class Measure(StrEnum):
    """What of a point is looked at; of `TIME` less is better, of the others more."""

    TIME = "time"
    THROUGHPUT = "throughput"
    PER_DEVICE = "per-accelerator"
    PER_COST = "per-cost"

    def label(self, prices: Prices = NO_PRICES, unit: str = PASSES) -> str:
        """What an axis of the measure is labelled with; `unit` is what throughput counts, see `unit_of`."""
        per = prices.currency or "unit of money"
        return {
            Measure.TIME: "Time per micro-batch (ms)",
            Measure.THROUGHPUT: f"Throughput ({unit}/s)",
            Measure.PER_DEVICE: f"Throughput per accelerator ({unit}/s)",
            Measure.PER_COST: f"{unit[0].upper()}{unit[1:]} per {per}"
            if prices.basis is PriceBasis.PER_HOUR
            else f"Throughput per {count(BOUGHT_UNIT)} {prices.currency or 'of money'} ({unit}/s)",
        }[self]


def throughput(result: SolveResult) -> float | None:
    """Return micro-batches per second; None without a plan, or for one that takes no time."""
    return MS_PER_SECOND / result.value_ms if result.value_ms else None


def measured(measure: Measure, devices: DeviceCounts, result: SolveResult, prices: Prices) -> float | None:
    """Return the measure of a point; None where there is none: no plan, no accelerator, or nothing to pay.

    Throughput counts micro-batches: per second, and per cost those per unit of money where prices are per hour, those
    per second and 1,000 units of money where devices are bought.

    >>> from solvers.solve import solve
    >>> from solvers.model.deployment import Deployment
    >>> from solvers.model.graph import DnnGraph, Node
    >>> result = solve(DnnGraph((Node(1, 2.0, 9.0), Node(2, 2.0, 9.0)), ()), Deployment(2))
    >>> measured(Measure.PER_DEVICE, DeviceCounts.of(Deployment(2)), result, Prices())
    250.0
    """
    if measure is Measure.TIME:
        return result.value_ms
    rate = throughput(result)
    if rate is None or measure is Measure.THROUGHPUT:
        return rate
    if measure is Measure.PER_DEVICE:
        return rate / devices.num_accelerators if devices.num_accelerators else None
    cost = prices.cost(devices)
    if not cost:
        return None
    return rate * (SECONDS_PER_HOUR if prices.basis is PriceBasis.PER_HOUR else BOUGHT_UNIT) / cost


def measured_at(measure: Measure, spec: SweepSpec, index: Index, result: SolveResult, prices: Prices) -> float | None:
    """Return the measure of a point of a sweep, throughput in `unit_of`; None where there is none, see `is_lone`."""
    value = measured_in_passes(measure, spec, index, result, prices)
    return value if value is None or measure is Measure.TIME else value * samples_per_pass(spec.graph.micro_batch)


def measured_in_passes(
    measure: Measure, spec: SweepSpec, index: Index, result: SolveResult, prices: Prices
) -> float | None:
    """Return the same with throughput in micro-batches, whatever they hold."""
    if measure is not Measure.TIME and is_lone(spec, result):
        return None
    return measured(measure, spec.devices_at(index), result, prices)


def unit_of(spec: SweepSpec) -> str:
    """Return what throughput is counted in: what micro-batches of the graph hold, else micro-batches."""
    return sample_unit(spec.graph.micro_batch)


def is_lone(spec: SweepSpec, result: SolveResult) -> bool:
    """Whether a point is the latency of one micro-batch alone among points of other objectives.

    Its micro-batches per second, one after the other, and those of a pipeline have no common scale.
    """
    is_mixed = any(axis.quantity is Quantity.OBJECTIVE for axis in spec.axes)
    return is_mixed and result.objective is Objective.LATENCY


def is_unproven(result: SolveResult) -> bool:
    """Whether a result has a plan of which nobody knows that it is the best."""
    return result.value_ms is not None and result.status is not SolveStatus.OPTIMAL


def knee(xs: Sequence[float], ys: Sequence[float]) -> int | None:
    """Return the index of the knee of a curve that rises ever more slowly; None where it has none.

    The knee of Kneedle (Satopaa, Albrecht, Irwin, Raghavan, "Finding a 'Kneedle' in a Haystack", ICDCS Workshops
    2011), offline and without smoothing, since the points are exact: both axes are scaled to 0 .. 1, and the knee is
    the local maximum of y - x behind which y - x falls by more than S mean steps of x before it rises again; of several
    the highest. So it hangs on the scale of x: pass logarithms for an axis that is drawn so. `xs` ascend strictly.

    >>> knee([1, 2, 3, 4, 5, 6], [10, 20, 30, 31, 32, 33])
    2
    >>> knee([1, 2, 3], [1, 2, 3]) is None
    True
    """
    if len(xs) < 3 or max(ys) <= min(ys):
        return None
    x_scaled = [(x - xs[0]) / (xs[-1] - xs[0]) for x in xs]
    y_scaled = [(y - min(ys)) / (max(ys) - min(ys)) for y in ys]
    above = [y - x for x, y in zip(x_scaled, y_scaled, strict=True)]
    mean_step = 1 / (len(xs) - 1)
    found: list[int] = []
    candidate: int | None = None
    for i in range(1, len(xs)):
        if i < len(xs) - 1 and above[i] > above[i - 1] and above[i] >= above[i + 1]:
            candidate = i
        if candidate is not None and above[i] <= above[candidate] - SENSITIVITY * mean_step * (1 - 1e-9):
            found.append(candidate)
            candidate = None
    return max((i for i in found if above[i] > 0), key=above.__getitem__, default=None)


def pareto_front(costs: Sequence[float], rates: Sequence[float]) -> tuple[int, ...]:
    """Return the indices of the points that none beats: no other costs as little and yields as much, or better.

    By ascending cost; of equal points the first.

    >>> pareto_front([1, 2, 2, 3], [5, 9, 8, 9])
    (0, 1)
    """
    front: list[int] = []
    best = -math.inf
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -rates[i], i)):
        if rates[i] > best:
            front.append(i)
            best = rates[i]
    return tuple(front)
