"""What to buy: the points of a sweep that none beats by cost and throughput, and the one that fits a wish.

A wish is a throughput to be reached, for as little money as possible, or a budget, to be as fast as possible. Both are
met by a point of the Pareto front, so nothing else needs to be looked at; where all points cost the same a throughput
is met by the least demanding ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solvers.formats.text_table import text_table
from solvers.hardware.prices import PriceBasis, Prices
from solvers.model.result import SolveResult, SolveStatus
from solvers.quantities import as_given, as_written, count, money, number
from solvers.sweep.axes import Quantity
from solvers.sweep.measures import BOUGHT_UNIT, Measure, is_unproven, measured_at, pareto_front, unit_of
from solvers.sweep.spec import LINKS, MEMORIES, Index, SweepSpec

MARK = "*"
"""Behind values that are not proven optimal."""
MARK_NOTE = f"{MARK} not proven optimal: a better plan may exist"
BEST_NOTE = "best price-performance"
NO_PRICES = "No accelerator has a price here: each counts as 1."
MOST_NAMED = 4
"""Points that a sentence names."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A point that none beats: what its devices cost, its throughput in `unit_of`, and how much that is for the money.

    `per_cost` is that of `Measure.PER_COST`.
    """

    index: Index
    cost: float
    rate: float
    per_cost: float | None
    is_unproven: bool = False


def front_of(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices) -> tuple[FrontPoint, ...]:
    """Return the Pareto front of a sweep by ascending cost, and so by ascending throughput.

    Where a type of device has no price though others have one there is none.
    """
    if prices.lacking(spec.device_types):
        return ()
    points = []
    for index in sorted(answers):
        result, cost = answers[index], prices.cost(spec.devices_at(index))
        rate = measured_at(Measure.THROUGHPUT, spec, index, result, prices)
        if rate is not None and cost is not None:
            per_cost = measured_at(Measure.PER_COST, spec, index, result, prices)
            points.append(FrontPoint(index, cost, rate, per_cost, is_unproven(result)))
    return tuple(points[i] for i in pareto_front([p.cost for p in points], [p.rate for p in points]))


def cheapest(front: Sequence[FrontPoint], at_least: float) -> FrontPoint | None:
    """Return the cheapest point with so much throughput; None where none has.

    >>> front = [FrontPoint((0,), 1.0, 10.0, None), FrontPoint((1,), 4.0, 30.0, None)]
    >>> cheapest(front, 20.0).cost, cheapest(front, 40.0)
    (4.0, None)
    """
    return next((point for point in front if meets(point.rate, at_least)), None)


def meets(rate: float, at_least: float) -> bool:
    """Whether a throughput is as large as is wished, or is written as one that is: a wish may be what was read.

    >>> meets(12.20688, 12.21), meets(12.20688, 12.22)
    (True, False)
    """
    return max(rate, as_written(rate)) >= at_least


def fastest(front: Sequence[FrontPoint], budget: float) -> FrontPoint | None:
    """Return the fastest point that costs no more than a budget; None where all cost more."""
    return next((point for point in reversed(front) if point.cost <= budget), None)


def best_per_cost(front: Sequence[FrontPoint]) -> FrontPoint | None:
    """Return the point with most throughput for the money, of equal ones the fastest; None where nothing is paid."""
    paid = [point for point in front if point.per_cost is not None]
    return max(paid, key=lambda point: (point.per_cost or 0.0, point.rate), default=None)


def cost_of_all(spec: SweepSpec, prices: Prices) -> float | None:
    """Return what each point costs where all cost the same, so that there is nothing to weigh; None elsewhere.

    Accelerators of several types that have no prices do not cost the same: nobody has said what they cost.
    """
    if prices.count_alike and len(spec.device_types) > 1:
        return None
    cost = prices.cost(spec.devices_at((0,) * len(spec.axes)))
    return cost if all(prices.cost(spec.devices_at(index)) == cost for index in spec.points()) else None


def same_cost_text(spec: SweepSpec, cost: float, prices: Prices) -> str:
    """Say that every point costs the same, and why where what varies has no price."""
    amount = "the same" if prices.count_alike else f"{money(cost)} {prices.unit}"
    unpriced = (frozenset() if prices.memory else MEMORIES) | (frozenset() if prices.link else LINKS)
    if unpriced.issuperset(axis.quantity for axis in spec.axes):
        return f"Links and memory have no price, so every point costs {amount}."
    return f"Every point costs the same{'' if prices.count_alike else f', {amount}'}."


def least_demanding(spec: SweepSpec, answers: Mapping[Index, SolveResult], at_least: float) -> tuple[Index, ...]:
    """Return the points with so much throughput, without those of which another asks less along each axis.

    Values of an axis without an order, such as devices, ask neither more nor less than others.
    """
    groups: dict[Index, list[Index]] = {}
    for index in sorted(answers):
        rate = measured_at(Measure.THROUGHPUT, spec, index, answers[index], Prices())
        if rate is not None and meets(rate, at_least):
            named = tuple(i for axis, i in zip(spec.axes, index, strict=True) if not axis.quantity.is_monotone)
            groups.setdefault(named, []).append(index)

    def demands(points: Sequence[Index], a: int) -> list[int]:
        return [-index[a] if spec.axes[a].quantity.is_easier_when_less else index[a] for index in points]

    found = []
    for points in groups.values():
        found += [points[i] for i in pareto_front(demands(points, 0), [-demand for demand in demands(points, -1)])]
    return tuple(sorted(found))


def hardware_text(spec: SweepSpec, index: Index) -> str:
    """Name the hardware of a point by what varies, without the device types of which it has none beside others."""
    told = list(zip(spec.axes, index, strict=True))
    there = [(axis, i) for axis, i in told if axis.varied.quantity is not Quantity.COUNT or axis.values[i]]
    return ", ".join(axis.text(i) for axis, i in there or told)


def wish_text(
    spec: SweepSpec,
    answers: Mapping[Index, SolveResult],
    prices: Prices,
    *,
    at_least: float | None,
    budget: float | None,
) -> tuple[str, ...]:
    """Return a sentence for each wish: which point meets it, or that none does; and one on what is not proven."""
    front = front_of(spec, answers, prices)
    sentences = []
    if at_least is not None and front and cheapest(front, at_least) is None:
        wish = f"{as_given(at_least)} {unit_of(spec)}/s"
        sentences.append(f"No point has at least {wish}; the fastest has {_rate(front[-1])}.")
    elif at_least is not None:
        sentences.append(_enough_text(spec, answers, prices, front, at_least))
    if budget is not None:
        point = fastest(front, budget)
        what = f"at most {cost_text(budget, prices)}"
        if point is not None:
            sentences.append(f"Fastest for {what}: {_told(spec, point, prices)}.")
        else:
            least = f" costs {what}; the cheapest costs {money(front[0].cost)}" if front else ""
            sentences.append(f"No point with a plan{least}." if front else "No point has a plan.")
    return (*sentences, *_doubts(spec, answers)) if sentences else ()


def _doubts(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> list[str]:
    """Say how many points might meet a wish better than is known."""
    unproven = sum(map(is_unproven, answers.values()))
    proven = sum(result.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE) for result in answers.values())
    unsolved = spec.num_points - proven - unproven
    doubts = []
    if unproven:
        are = "point is" if unproven == 1 else "points are"
        doubts.append(f"{unproven} {are} not proven optimal ({MARK}); with a better plan another may fit.")
    if unsolved:
        are = "is" if unsolved == 1 else "are"
        doubts.append(f"{unsolved} of {spec.num_points} points {are} not solved; another may fit.")
    return doubts


def _enough_text(
    spec: SweepSpec,
    answers: Mapping[Index, SolveResult],
    prices: Prices,
    front: Sequence[FrontPoint],
    at_least: float,
) -> str:
    what = f"at least {as_given(at_least)} {unit_of(spec)}/s"
    point = cheapest(front, at_least)
    if point is None:
        return f"No point has {what}."
    if cost_of_all(spec, prices) is None:
        return f"Cheapest with {what}: {_told(spec, point, prices)}."
    points = least_demanding(spec, answers, at_least)
    named = "; ".join(
        f"{hardware_text(spec, index)} ({_rate_at(spec, index, answers)})" for index in points[:MOST_NAMED]
    )
    more = f"; and {len(points) - MOST_NAMED} more" if len(points) > MOST_NAMED else ""
    return f"Least demanding with {what}: {named}{more}."


def _told(spec: SweepSpec, point: FrontPoint, prices: Prices) -> str:
    return f"{hardware_text(spec, point.index)} ({_rate(point)} {unit_of(spec)}/s, {cost_text(point.cost, prices)})"


def cost_text(cost: float, prices: Prices) -> str:
    """Write a cost with its unit: accelerators where nothing has a price.

    >>> cost_text(3.0, Prices()), cost_text(3.2, Prices(accelerator=1.6))
    ('3 accelerators', '3.2 per hour')
    """
    if prices.has_none:
        return f"{money(cost)} accelerator{'s' * (cost != 1)}"
    return f"{money(cost)} {prices.unit}"


def cost_label(prices: Prices) -> str:
    """Say what a column or an axis of costs counts."""
    if prices.has_none:
        return "Accelerators"
    return f"Cost ({prices.unit})" if prices.currency else f"Cost {prices.basis}"


def _rate(point: FrontPoint) -> str:
    return number(point.rate) + MARK * point.is_unproven


def _rate_at(spec: SweepSpec, index: Index, answers: Mapping[Index, SolveResult]) -> str:
    rate = measured_at(Measure.THROUGHPUT, spec, index, answers[index], Prices())
    return f"{number(rate)}{MARK * is_unproven(answers[index])} {unit_of(spec)}/s"


def front_text(spec: SweepSpec, front: Sequence[FrontPoint], prices: Prices) -> str:
    """Return the front as a table for a terminal, with what its marks mean."""
    best = best_per_cost(front)
    lines = [
        (
            hardware_text(spec, point.index),
            money(point.cost),
            _rate(point),
            number(point.per_cost),
            BEST_NOTE if point is best else "",
        )
        for point in front
    ]
    cost = cost_label(prices)
    head = (
        "Pareto front",
        cost[:1].lower() + cost[1:],
        f"{unit_of(spec)}/s",
        per_money_text(prices, unit_of(spec)),
        "",
    )
    table = text_table(head, lines)
    return table + (f"\n{MARK_NOTE}" if any(point.is_unproven for point in front) else "")


def per_money_text(prices: Prices, unit: str) -> str:
    """Say what `Measure.PER_COST` counts."""
    if prices.has_none and prices.basis is PriceBasis.PER_HOUR:
        return f"{unit} per accelerator-hour"
    basis = prices.basis
    many = f"{count(BOUGHT_UNIT)} {prices.currency or 'of money'}"
    return f"{unit} per {prices.money}" if basis is PriceBasis.PER_HOUR else f"{unit}/s per {many}"
