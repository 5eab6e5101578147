"""Prices of devices, and what to buy: the Pareto front, the cheapest for a throughput, the fastest for a budget."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.costs import Objective
from solvers.deployment import Deployment, DeviceClass
from solvers.errors import PlacementError
from solvers.prices import DeviceCounts, PriceBasis, Prices
from solvers.result import SolveResult, SolveStatus
from solvers.samples import read_sample
from solvers.split import Family
from solvers.sweep_analysis import Measure, measured, throughput
from solvers.sweep_axes import Axis, Quantity
from solvers.sweep_front import best_per_cost, cheapest, fastest, front_of, front_text, wish_text
from solvers.sweep_plan import Index, SweepSpec
from tests.graphs import chain

CLASSES = (DeviceClass("A100", 1), DeviceClass("T4", 1, speed=0.25))


def mix() -> SweepSpec:
    axes = (Axis(Quantity.COUNT, (0, 1, 2), "A100"), Axis(Quantity.COUNT, (0, 2, 4), "T4"))
    return SweepSpec(chain([1.0] * 4), Deployment.of_classes(CLASSES, 1), axes)


def result(value_ms: float | None) -> SolveResult:
    status = SolveStatus.INFEASIBLE if value_ms is None else SolveStatus.OPTIMAL
    return SolveResult(status, "dp", Objective.THROUGHPUT, Family.CHAIN, None, value_ms, value_ms, 0.0)


def test_a_point_costs_what_its_devices_cost_by_their_types() -> None:
    spec = mix()
    prices = Prices(accelerator=9.0, cpu=0.5, of=(("A100", 4.0), ("T4", 0.25)))
    assert spec.device_types == ("A100", "T4")
    assert [prices.cost(spec.devices_at(index)) for index in ((0, 0), (1, 1), (2, 2))] == [0.5, 5.0, 9.5]
    assert Prices(accelerator=2.0, of=(("A100", 4.0),)).cost(spec.devices_at((1, 2))) == 12.0
    with pytest.raises(PlacementError, match="a price of L4 and no such device; there are A100, T4"):
        Prices(of=(("L4", 1.0),)).checked(spec.device_types)
    with pytest.raises(PlacementError, match="price of -1 for T4"):
        Prices(of=(("T4", -1.0),))


def test_types_are_named_by_lists_by_classes_and_by_what_times_are_for() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    one = (Axis(Quantity.ACCELERATORS, (1, 2)),)
    assert SweepSpec(graph, deployment, one).device_types == ("T4",)
    assert SweepSpec(replace(graph, times=None), deployment, one).device_types == ("accelerator",)
    lists = SweepSpec(graph, deployment, (Axis(Quantity.DEVICES, ("h100-sxm", "4xL4", "2xA100-80+4xT4")),))
    assert lists.device_types == ("H100-SXM", "L4", "A100-80", "T4")
    assert lists.devices_at((0,)) == DeviceCounts((("H100-SXM", 8),), 1)
    assert lists.devices_at((1,)) == DeviceCounts((("L4", 4),), 1)
    assert lists.devices_at((2,)) == DeviceCounts((("A100-80", 2), ("T4", 4)), 1)


def test_per_cost_is_samples_for_the_money_or_throughput_of_what_was_bought() -> None:
    counts = DeviceCounts((("A100", 2),))
    hourly, bought = Prices(5.0), Prices(10_000.0, basis=PriceBasis.TO_BUY)
    assert measured(Measure.PER_COST, counts, result(2.0), hourly) == pytest.approx(500 * 3600 / 10)
    assert measured(Measure.PER_COST, counts, result(2.0), bought) == pytest.approx(500 / 20_000)


@given(
    st.lists(st.one_of(st.none(), st.integers(1, 40)), min_size=9, max_size=9),
    st.integers(0, 5),
    st.integers(0, 5),
    st.floats(1, 2000),
    st.floats(0, 20),
)
def test_what_to_buy_is_found_among_all_points(
    times: list[int | None], a100: int, t4: int, at_least: float, budget: float
) -> None:
    spec, prices = mix(), Prices(of=(("A100", float(a100)), ("T4", float(t4))), cpu=0.25)
    found: dict[Index, SolveResult] = {
        index: result(None if ms is None else float(ms)) for index, ms in zip(sorted(spec.points()), times, strict=True)
    }
    front = front_of(spec, found, prices)
    all_points = [
        (prices.cost(spec.devices_at(index)), rate)
        for index, answer in found.items()
        if (rate := throughput(answer)) is not None
    ]
    costs = [cost for cost, rate in all_points if rate >= at_least]
    chosen = cheapest(front, at_least)
    assert (None if chosen is None else chosen.cost) == min(costs, default=None)
    rates = [rate for cost, rate in all_points if cost <= budget]
    quickest = fastest(front, budget)
    assert (None if quickest is None else quickest.rate) == max(rates, default=None)
    best = best_per_cost(front)
    per_cost = max((rate * 3600 / cost for cost, rate in all_points), default=None)
    assert (None if best is None else best.per_cost) == (per_cost and pytest.approx(per_cost))
    sentences = wish_text(spec, front, prices.basis, at_least=at_least, budget=budget)
    assert len(sentences) == 2
    assert sentences[0].startswith("Cheapest" if costs else "No point")
    assert front_text(spec, front, prices.basis).count("\n") == len(front)
