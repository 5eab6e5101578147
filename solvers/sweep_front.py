"""What to buy: the points of a sweep that none beats by cost and throughput, and the one that fits a wish.

A wish is a throughput to be reached, for as little money as possible, or a budget, to be as fast as possible. Both are
met by a point of the Pareto front, so nothing else needs to be looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solvers.prices import PriceBasis, Prices
from solvers.result import SolveResult
from solvers.sweep_analysis import Measure, measured, pareto_front, throughput
from solvers.sweep_plan import Index, SweepSpec
from solvers.text_table import number_text, text_table


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A point that none beats: what its devices cost, its samples per second, and how much that is for the money."""

    index: Index
    cost: float
    rate: float
    per_cost: float | None


def front_of(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices) -> tuple[FrontPoint, ...]:
    """Return the Pareto front of a sweep by ascending cost, and so by ascending throughput."""
    points = []
    for index in sorted(answers):
        rate = throughput(answers[index])
        if rate is not None:
            devices = spec.devices_at(index)
            per_cost = measured(Measure.PER_COST, devices, answers[index], prices)
            points.append(FrontPoint(index, prices.cost(devices), rate, per_cost))
    return tuple(points[i] for i in pareto_front([p.cost for p in points], [p.rate for p in points]))


def cheapest(front: Sequence[FrontPoint], at_least: float) -> FrontPoint | None:
    """Return the cheapest point with so many samples per second; None where none has.

    >>> front = [FrontPoint((0,), 1.0, 10.0, None), FrontPoint((1,), 4.0, 30.0, None)]
    >>> cheapest(front, 20.0).cost, cheapest(front, 40.0)
    (4.0, None)
    """
    return next((point for point in front if point.rate >= at_least), None)


def fastest(front: Sequence[FrontPoint], budget: float) -> FrontPoint | None:
    """Return the fastest point that costs no more than a budget; None where all cost more."""
    return next((point for point in reversed(front) if point.cost <= budget), None)


def best_per_cost(front: Sequence[FrontPoint]) -> FrontPoint | None:
    """Return the point with most throughput for the money, of equal ones the fastest; None where nothing is paid."""
    paid = [point for point in front if point.per_cost is not None]
    return max(paid, key=lambda point: (point.per_cost or 0.0, point.rate), default=None)


def hardware_text(spec: SweepSpec, index: Index) -> str:
    """Name the hardware of a point by what varies."""
    return ", ".join(axis.text(i) for axis, i in zip(spec.axes, index, strict=True))


def wish_text(
    spec: SweepSpec, front: Sequence[FrontPoint], basis: PriceBasis, *, at_least: float | None, budget: float | None
) -> tuple[str, ...]:
    """Return a sentence for each wish: which point meets it, or that none does."""
    sentences = []
    if at_least is not None:
        point = cheapest(front, at_least)
        what = f"at least {number_text(at_least, 5)} samples/s"
        if point is not None:
            sentences.append(f"Cheapest with {what}: {_told(spec, point, basis)}.")
        else:
            most = f"; the fastest has {number_text(front[-1].rate, 5)}" if front else ""
            sentences.append(f"No point has {what}{most}.")
    if budget is not None:
        point = fastest(front, budget)
        what = f"at most {number_text(budget, 5)} {basis}"
        if point is not None:
            sentences.append(f"Fastest for {what}: {_told(spec, point, basis)}.")
        else:
            least = f"; the cheapest costs {number_text(front[0].cost, 5)}" if front else ""
            sentences.append(f"No point costs {what}{least}.")
    return tuple(sentences)


def _told(spec: SweepSpec, point: FrontPoint, basis: PriceBasis) -> str:
    cost = f"{number_text(point.cost, 5)} {basis}"
    return f"{hardware_text(spec, point.index)} ({number_text(point.rate, 4)} samples/s, {cost})"


def front_text(spec: SweepSpec, front: Sequence[FrontPoint], basis: PriceBasis) -> str:
    """Return the front as a table for a terminal."""
    best = best_per_cost(front)
    lines = [
        (
            hardware_text(spec, point.index),
            number_text(point.cost, 5),
            number_text(point.rate, 5),
            number_text(point.per_cost, 5),
            "most for the money" if point is best else "",
        )
        for point in front
    ]
    of_money = "samples per money" if basis is PriceBasis.PER_HOUR else "samples/s per money"
    return text_table(("Pareto front", f"cost {basis}", "samples/s", of_money, ""), lines)
