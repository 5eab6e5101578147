"""Prices of devices, and what to buy: the Pareto front, the cheapest for a throughput, the fastest for a budget."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.hardware.prices import DeviceCounts, PriceBasis, Prices
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.errors import PlacementError
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.samples import read_sample
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.front import (
    best_per_cost,
    cheapest,
    cost_of_all,
    fastest,
    front_of,
    front_text,
    hardware_text,
    least_demanding,
    meets,
    same_cost_text,
    wish_text,
)
from solvers.sweep.measures import Measure, measured, measured_at, throughput
from solvers.sweep.spec import Index, SweepSpec
from solvers.sweep.table import sweep_text
from tests.support.graphs import chain

GIB = 2.0**30
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
    assert Prices(of=(("A100", 4.0),)).cost(spec.devices_at((1, 2))) is None
    assert front_of(spec, {(1, 0): result(1.0)}, Prices(of=(("A100", 4.0),))) == ()
    with pytest.raises(PlacementError, match="no price of T4;"):
        Prices(of=(("A100", 4.0),)).checked(spec.device_types)
    with pytest.raises(PlacementError, match="a price of L4 and no such device; there are A100, T4"):
        Prices(of=(("L4", 1.0),)).checked(spec.device_types)
    with pytest.raises(PlacementError, match="price of −1 for T4"):
        Prices(of=(("T4", -1.0),))


def test_a_price_is_of_its_name_in_any_case_and_of_all_classes_of_its_device() -> None:
    names = ("A100-80", "A100-80 pcie4-x16", "T4")
    found = Prices(of=(("a100-80", 4.0), ("T4", 0.5), ("t4", 9.0))).checked(names)
    assert [found.price_of(name) for name in names] == [4.0, 4.0, 0.5]
    found = Prices(of=(("A100-80", 4.0), ("A100-80 PCIe4-x16", 3.0), ("T4", 0.5))).checked(names)
    assert [found.price_of(name) for name in names] == [4.0, 3.0, 0.5]
    assert Prices(of=(("T4", 0.5), ("t4", 9.0))).checked(("t4", "T4")).of == (("t4", 9.0), ("T4", 0.5))
    assert Prices(of=(("T4", 0.5),)).among(("t4", "T4")).lacking(("t4", "T4")) == ("t4",)
    assert Prices(of=(("big", 4.0),)).among(("big gpu",)).count_alike  # of which nothing says that it is a big


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 40)), min_size=1, max_size=6),
    st.integers(0, 10**5),
    st.integers(0, 4),
)
def test_costs_are_the_exact_sums_of_the_prices_as_written(
    of: list[tuple[int, int]], cpu_cents: int, num_cpus: int
) -> None:
    """As in whole hundredths: so a budget of 3.3 buys three at 1.1, and equal costs are equal however they come."""
    prices = Prices(of=tuple((str(i), cents / 100) for i, (cents, _) in enumerate(of)), cpu=cpu_cents / 100)
    counts = DeviceCounts(tuple((str(i), count) for i, (_, count) in enumerate(of)), num_cpus)
    assert prices.cost(counts) == (sum(cents * count for cents, count in of) + cpu_cents * num_cpus) / 100


def test_of_points_that_cost_the_same_only_the_fastest_is_on_the_front() -> None:
    classes = (DeviceClass("big", 1), DeviceClass("small", 1, speed=0.2))
    axes = (Axis(Quantity.COUNT, (0, 3), "big"), Axis(Quantity.COUNT, (0, 11), "small"))
    spec = SweepSpec(chain([1.0] * 4), Deployment.of_classes(classes, 1), axes)
    found = {(0, 1): result(2.0), (1, 0): result(1.0), (1, 1): result(0.5)}
    front = front_of(spec, found, Prices(of=(("big", 1.1), ("small", 0.3))))
    assert [(point.index, point.cost) for point in front] == [((1, 0), 3.3), ((1, 1), 6.6)]
    reached = fastest(front, 3.3)
    assert reached is not None
    assert reached.index == (1, 0)


def links(*, of_memory: bool = True) -> SweepSpec:
    memory = (Axis(Quantity.MEMORY, (4.0, 8.0, 16.0)),) if of_memory else ()
    axes = (Axis(Quantity.BANDWIDTH_FACTOR, (1.0, 2.0, 4.0)), *memory)
    return SweepSpec(chain([1.0] * 4), Deployment(2), axes)


@given(st.lists(st.one_of(st.none(), st.integers(1, 12)), min_size=9, max_size=9), st.floats(80, 1000))
def test_where_all_cost_the_same_a_wish_is_met_by_what_asks_least(times: list[int | None], at_least: float) -> None:
    spec, prices = links(), Prices(2.0)
    found = {
        index: result(None if ms is None else float(ms)) for index, ms in zip(sorted(spec.points()), times, strict=True)
    }
    enough = [index for index, answer in found.items() if meets(throughput(answer) or 0.0, at_least)]
    least = [
        index
        for index in enough
        if not any(other != index and other[0] <= index[0] and other[1] <= index[1] for other in enough)
    ]
    assert list(least_demanding(spec, found, at_least)) == sorted(least)
    (sentence,) = wish_text(spec, found, prices, at_least=at_least, budget=None)
    assert sentence.startswith("Least demanding with at least" if enough else "No point has at least")
    assert all(hardware_text(spec, index) in sentence for index in least)


def test_links_and_memory_have_no_price_which_is_said() -> None:
    spec = links(of_memory=False)
    found: dict[Index, SolveResult] = {(i,): result(ms) for i, ms in enumerate((5.0, 4.0, 3.0))}
    assert cost_of_all(spec, Prices(2.0)) == 4.0
    assert same_cost_text(spec, 4.0, Prices(2.0)) == (
        "Links and memory have no price, so every point costs 4 per hour."
    )
    assert same_cost_text(spec, 2.0, Prices()).endswith("every point costs the same.")
    told = wish_text(spec, found, Prices(2.0), at_least=220, budget=None)
    assert told == ("Least demanding with at least 220 micro-batches/s: 2 x bandwidth (250 micro-batches/s).",)
    assert cost_of_all(mix(), Prices()) is None
    cpus = SweepSpec(chain([1.0] * 4), Deployment(2), (Axis(Quantity.CPUS, (0, 1)),))
    assert same_cost_text(cpus, 4.0, Prices(2.0)) == "Every point costs the same, 4 per hour."


@pytest.mark.parametrize("of_class", ["", "T4"])
def test_memory_and_links_that_are_varied_have_prices(of_class: str) -> None:
    classes = (DeviceClass("A100", 1, memory_bytes=8 * GIB), DeviceClass("T4", 3, memory_bytes=8 * GIB))
    deployment = Deployment.of_classes(classes, 0) if of_class else Deployment(4)
    memory = Axis(Quantity.MEMORY, (4.0 * GIB, 16.0 * GIB), of_class)
    spec = SweepSpec(chain([1.0] * 4), deployment, (memory, Axis(Quantity.BANDWIDTH_FACTOR, (1.0, 2.0))))
    prices = Prices(1.375, of=(("A100", 4.0), ("T4", 0.5)) * bool(of_class), memory=0.1, link=0.25, currency="EUR")
    with_memory = 3 if of_class else 4
    for index in spec.points():
        gib, factor = (4, 16)[index[0]], (1, 2)[index[1]]
        wanted = 5.5 + 0.1 * gib * with_memory + 0.25 * factor * 4
        assert prices.cost(spec.devices_at(index)) == pytest.approx(wanted, abs=1e-12)
    assert cost_of_all(spec, prices) is None
    assert cost_of_all(spec, replace(prices, memory=0.0, link=0.0)) == 5.5
    found = {index: result(10.0 / (1 + sum(index))) for index in spec.points()}
    front = front_of(spec, found, prices)
    assert [point.cost for point in front] == sorted(point.cost for point in front)
    assert front[0].index == (0, 0)
    assert "cost (EUR per hour)" in front_text(spec, front, prices).splitlines()[0]
    assert "EUR per hour" in wish_text(spec, found, prices, at_least=150, budget=None)[0]


def test_a_price_of_memory_alone_is_said_for_links() -> None:
    spec = links(of_memory=False)
    assert "Links and memory have no price" in same_cost_text(spec, 4.0, Prices(2.0, memory=1.0))
    assert cost_of_all(spec, Prices(2.0, link=1.0)) is None


@pytest.mark.parametrize("text", ["EUR1", "EURODOLLAR", "<b>", "1", " ", "$$"])
def test_a_currency_is_letters_or_a_sign(text: str) -> None:
    with pytest.raises(PlacementError, match="currency"):
        Prices(currency=text)


def test_what_is_not_proven_is_marked_on_the_front_and_in_wishes() -> None:
    spec, prices = mix(), Prices(of=(("A100", 4.0), ("T4", 1.0)))
    found = {index: result(10.0 - sum(index)) for index in spec.points()}
    proven = wish_text(spec, found, prices, at_least=100, budget=20)
    assert not any("*" in sentence or "not proven" in sentence for sentence in proven)
    assert "*" not in front_text(spec, front_of(spec, found, prices), prices)
    found[(0, 1)] = replace(found[(0, 1)], status=SolveStatus.FEASIBLE)
    wishes = wish_text(spec, found, prices, at_least=111, budget=20)
    assert "(111.1* micro-batches/s" in wishes[0]
    assert "*" not in wishes[1]
    assert wishes[2] == "1 point is not proven optimal (*); with a better plan another may fit."
    front = front_text(spec, front_of(spec, found, prices), prices)
    assert "111.1*" in front
    assert front.endswith("* not proven optimal: a better plan may exist")


def test_the_latency_of_one_sample_is_no_throughput_beside_that_of_pipelines() -> None:
    axes = (Axis(Quantity.ACCELERATORS, (1, 2)), Axis(Quantity.OBJECTIVE, ("throughput", "latency")))
    spec = SweepSpec(chain([1.0] * 4), Deployment(2), axes)
    found = {(i, 0): result(4.0 / (i + 1)) for i in range(2)}
    found |= {(i, 1): replace(result(0.5), objective=Objective.LATENCY) for i in range(2)}
    assert {point.index for point in front_of(spec, found, Prices(1.0))} == {(0, 0), (1, 0)}
    assert measured_at(Measure.TIME, spec, (0, 1), found[(0, 1)], Prices()) == 0.5
    for measure in (Measure.THROUGHPUT, Measure.PER_DEVICE, Measure.PER_COST):
        assert measured_at(measure, spec, (0, 1), found[(0, 1)], Prices()) is None
    assert "one micro-batch alone" in sweep_text(spec, found, Prices())
    alone = replace(spec, axes=axes[:1], objective=Objective.LATENCY)
    latencies = {(i,): found[(i, 1)] for i in range(2)}
    assert front_of(alone, latencies, Prices(1.0))[0].rate == 2000
    assert "one micro-batch after the other" in sweep_text(alone, latencies, Prices())


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
    assert measured(Measure.PER_COST, counts, result(2.0), bought) == pytest.approx(500 / 20)  # for 1,000 of money


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
    costs = [cost for cost, rate in all_points if meets(rate, at_least)]
    chosen = cheapest(front, at_least)
    assert (None if chosen is None else chosen.cost) == min(costs, default=None)
    rates = [rate for cost, rate in all_points if cost <= budget]
    quickest = fastest(front, budget)
    assert (None if quickest is None else quickest.rate) == max(rates, default=None)
    best = best_per_cost(front)
    per_cost = max((rate * 3600 / cost for cost, rate in all_points), default=None)
    assert (None if best is None else best.per_cost) == (per_cost and pytest.approx(per_cost))
    sentences = wish_text(spec, found, prices, at_least=at_least, budget=budget)
    assert len(sentences) == 2
    is_any_cheaper = a100 or t4
    assert sentences[0].startswith(("Cheapest" if is_any_cheaper else "Least demanding") if costs else "No point")
    assert front_text(spec, front, prices).count("\n") == len(front)


def test_devices_without_prices_do_not_cost_the_same() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    spec = SweepSpec(graph, deployment, (Axis(Quantity.DEVICES, ("T4", "A100-80")),))
    found: dict[Index, SolveResult] = {(0,): result(8.0), (1,): result(2.0)}
    assert cost_of_all(spec, Prices()) is None
    assert cost_of_all(spec, Prices(2.0)) == 2.0 * deployment.num_accelerators
    num = deployment.num_accelerators
    (said,) = wish_text(spec, found, Prices(), at_least=100, budget=None)
    assert said == f"Cheapest with at least 100 sequences/s: A100-80 (1,000 sequences/s, {num} accelerators)."
    assert "accelerators" in front_text(spec, front_of(spec, found, Prices()), Prices()).splitlines()[0]


def test_a_wish_that_nothing_meets_and_points_that_nobody_solved() -> None:
    spec, prices = mix(), Prices(of=(("A100", 4.0), ("T4", 1.0)))
    found: dict[Index, SolveResult] = {(0, 0): result(None), (1, 1): result(10.0), (2, 2): result(5.0)}
    said = wish_text(spec, found, prices, at_least=None, budget=3)
    assert said == (
        "No point with a plan costs at most 3 per hour; the cheapest costs 6.",
        "6 of 9 points are not solved; another may fit.",
    )
    assert wish_text(spec, {(0, 0): result(None)}, prices, at_least=None, budget=3)[0] == "No point has a plan."


def test_a_wish_for_the_throughput_that_is_shown_is_met_by_it() -> None:
    spec = links(of_memory=False)
    found: dict[Index, SolveResult] = {(i,): result(ms) for i, ms in enumerate((90.0, 85.0, 81.921))}  # 12.20688 /s
    (said,) = wish_text(spec, found, Prices(), at_least=12.21, budget=None)
    assert said.startswith("Least demanding with at least 12.21 micro-batches/s: 4 x bandwidth")
