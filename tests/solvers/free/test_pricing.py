"""Pricing finds the dearest set within a load, and bounds it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free import labels, pricing, within
from solvers.free.column_generation import DeviceContents
from solvers.free.diagram import Arcs
from solvers.free.patterns import contents_diagram
from solvers.free.pricing import EXACT, LAGRANGIAN, Pricing
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Node
from solvers.model.split import Family
from solvers.problem.contraction import contract
from tests.support.contents import SOME_TIMES, all_contents, load_of
from tests.support.examples import examples
from tests.support.graphs import dag, random_dag, small_graphs


@given(small_graphs(max_nodes=6), st.data())
@examples(60)
def test_the_dearest_contents_are_found_and_bounded(instance: tuple[DnnGraph, Deployment], data: st.DataObject) -> None:
    contraction = contract(instance[0], Family.FREE, instance[1])
    price = np.array([data.draw(st.integers(-8, 16)) / 4 for _ in range(contraction.num_blocks)])
    threshold = data.draw(SOME_TIMES)
    within = [s for s in all_contents(contraction) if load_of(contraction, s) <= threshold]
    z = max(float(price[s].sum()) for s in within)
    arcs = contents_diagram(contraction).arcs
    for effort in (LAGRANGIAN, EXACT):
        dearest = Pricing(arcs, price, threshold).dearest(effort)
        assert dearest.bound >= z
        for contents, load, total in zip(dearest.sets, dearest.loads, dearest.prices, strict=True):
            assert load == pytest.approx(load_of(contraction, contents))
            assert load <= threshold * (1 + 1e-9)
            assert total == pytest.approx(float(price[contents].sum()))
            assert total <= z + 1e-9
    assert dearest.bound <= z + 2e-3 * abs(z) + 1e-6
    assert dearest.prices[0] >= z - 2e-3 * abs(z)
    # What is dearer than a floor is found, and the bound comes down to the floor.
    floor = data.draw(st.integers(-8, 40)) / 4
    above = Pricing(arcs, price, threshold).dearest(floor=floor)
    assert z <= above.bound <= max(z + 2e-3 * abs(z), floor) + 1e-6
    assert above.prices[0] >= z - 2e-3 * abs(z) or z <= floor + 1e-6


def completions(arcs: Arcs, layer_price: np.ndarray, layer: int, node: int) -> list[tuple[float, float]]:
    """Return load and price of every path from a node of a layer to the end."""
    if layer == len(arcs.order):
        return [(0.0, 0.0)]
    return [
        (float(arcs.length[node, x]) + load, x * float(layer_price[layer]) + total)
        for x in (0, 1)
        for load, total in completions(arcs, layer_price, layer + 1, int(arcs.target[node, x]))
    ]


def path_of(arcs: Arcs, layer_price: np.ndarray, row: np.ndarray) -> tuple[float, float]:
    """Return load and price of the path with these decisions."""
    node, load = 0, 0.0
    for x in row.astype(int).tolist():
        load += float(arcs.length[node, x])
        node = int(arcs.target[node, x])
    return load, float(layer_price[row].sum())


@pytest.mark.parametrize("steps", [2, 3, 7, 40, 1000])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_within_a_load_is_never_understated(seed: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every node and load; and a path is overstated by no more than a step of load for each of its arcs."""
    monkeypatch.setattr(within, "LEAST_STEPS", 2)
    rng = np.random.default_rng(seed)
    in_tenths = steps == 40  # as the steps are then: rounding decides in which of two a load is
    graph = dag(
        rng.integers(1, 9, 8) / (10 if in_tenths else 4),
        [(a, b) for a in range(1, 8) for b in (a + 1, a + 3) if b <= 8],
        0.1,
    )
    arcs = contents_diagram(contract(graph, Family.FREE, Deployment(2))).arcs
    layer_price = rng.uniform(-0.2, 1, len(arcs.order))
    limit = 3.9 if in_tenths else float(rng.uniform(2, 8)) if seed % 2 else float(rng.integers(2, 8))
    _, rates, after, *_ = pricing._lagrangian(arcs, layer_price, limit, pricing.MOST_RATES)
    added = within.within(arcs, layer_price, limit, rates, after, steps, 10**6)
    last = added.most_at.shape[1] - 1
    for layer in range(len(arcs.order) + 1):
        for node in range(arcs.first[layer], arcs.first[layer + 1]):
            paths = completions(arcs, layer_price, layer, node)
            slack = added.step_ms * (len(arcs.order) - layer + 2)
            for load in [*(load for load, _ in paths if load <= limit), 0.0, limit]:
                stated = added.most_at[node, within.step_of(load, added.first_ms[node], added.step_ms, last)]
                assert stated >= max([total for path, total in paths if path <= load], default=-np.inf)
                assert stated <= max([total for path, total in paths if path <= load + slack], default=-np.inf) + 1e-6
    best = max(total for path, total in completions(arcs, layer_price, 0, 0) if path <= limit)
    assert added.most >= best
    for row, load, value in zip(*within.sets_within(arcs, layer_price, limit, added), strict=True):
        assert (load, value) == pytest.approx(path_of(arcs, layer_price, row))
        assert load <= limit
        assert value <= best + 1e-9
        if steps == 1000:
            assert value >= max(t for path, t in completions(arcs, layer_price, 0, 0) if path <= 0.97 * limit) - 1e-9


def test_nodes_of_paths_that_add_what_is_asked_for_count_and_others_mostly_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(within, "LEAST_STEPS", 2)
    num_ruled_out = num_right = 0
    for seed in range(12):
        contraction = contract(random_dag(seed, num_nodes=9), Family.FREE, Deployment(2))
        arcs = contents_diagram(contraction).arcs
        layer_price = np.random.default_rng(seed).uniform(-0.2, 1, len(arcs.order))
        limit = 0.5 * float(contraction.accelerator_ms.sum())
        _, rates, after, *_ = pricing._lagrangian(arcs, layer_price, limit, pricing.MOST_RATES)
        value_along: dict[tuple[int, ...], float] = {}  # both decisions may lead to the same node
        for row in itertools.product((0, 1), repeat=len(arcs.order)):
            load, value = path_of(arcs, layer_price, np.array(row, bool))
            if load <= limit:
                nodes = [0]
                for x in row:
                    nodes.append(int(arcs.target[nodes[-1], x]))
                value_along[tuple(nodes)] = max(value, value_along.get(tuple(nodes), value))
        best = max(value_along.values())
        for least in (2 * best, best, 0.8 * best):
            added = within.within(arcs, layer_price, limit, rates, after, 50, 10**6, least - 1e-9)
            worth = {node for nodes, value in value_along.items() if value >= least for node in nodes}
            assert added.counts[list(worth)].all()
            if worth:
                num_ruled_out += int((~added.counts).sum())
                num_right += len(added.counts) - len(worth)
            assert added.most >= best or least > best
            for _, load, value in zip(*within.sets_within(arcs, layer_price, limit, added), strict=True):
                assert load <= limit
                assert value <= best + 1e-9
    assert num_ruled_out > 0.5 * num_right


@pytest.mark.parametrize("seed", range(12))
def test_the_lagrangian_bound_is_the_least_of_all_rates(seed: int) -> None:
    contraction = contract(random_dag(seed, num_nodes=9), Family.FREE, Deployment(2))
    arcs = contents_diagram(contraction).arcs
    layer_price = np.random.default_rng(seed).uniform(-0.2, 1, len(arcs.order))
    limit = (0.3 + 0.05 * seed) * float(contraction.accelerator_ms.sum())
    bound, rates, after, sets, loads, values = pricing._lagrangian(arcs, layer_price, limit, pricing.MOST_RATES)
    paths = np.array(completions(arcs, layer_price, 0, 0))
    # The maximum of lines is the least where two of them meet, or at no rate.
    load, value = paths[:, 0], paths[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = ((value[:, None] - value) / (load[:, None] - load)).ravel()
    least = min(
        rate * limit + float((value - rate * load).max())
        for rate in {0.0, *meet[(meet > 0) & np.isfinite(meet)].tolist()}
    )
    assert bound == pytest.approx(least, rel=1e-8)
    for rate, left in zip(rates.tolist(), after, strict=True):
        assert left[0] == pytest.approx(float((value - rate * load).max()))
    for row, of_set, total in zip(sets, loads, values, strict=True):
        assert (of_set, total) == pytest.approx(path_of(arcs, layer_price, row))
        assert of_set <= limit


@pytest.mark.parametrize("seed", range(12))
def test_pricing_that_is_asked_for_less_later_tells_more_apart(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(within, "LEAST_STEPS", 2)
    monkeypatch.setattr(pricing, "COARSE", 0.0)
    contraction = contract(random_dag(seed, num_nodes=11), Family.FREE, Deployment(2))
    arcs = contents_diagram(contraction).arcs
    threshold = 0.5 * float(contraction.accelerator_ms.sum())
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    values = [float(price[s].sum()) for s in all_contents(contraction) if load_of(contraction, s) <= threshold]
    one = Pricing(arcs, price, threshold, tables=((40, 10**6),))
    for floor in (1.01 * max(values), 0.9 * max(values), -np.inf):
        dearest = one.dearest(EXACT, floor=floor)
        assert max(values) <= dearest.bound <= max(max(values) * (1 + 2 * pricing.GAP), floor) + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_one_table_tells_the_most_within_every_load(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    contraction = contract(random_dag(seed, num_nodes=11), Family.FREE, Deployment(2))
    arcs = contents_diagram(contraction).arcs
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    sets = [(load_of(contraction, s), float(price[s].sum())) for s in all_contents(contraction)]
    threshold = 0.6 * float(contraction.accelerator_ms.sum())
    most = pricing.most_within(arcs, price, threshold)
    slack = threshold / (pricing.LARGE[0] - 1) * (len(arcs.order) + 2)
    for load in np.linspace(0, threshold, 40).tolist():
        assert most(load) >= max(value for of_set, value in sets if of_set <= load)
        assert most(load) <= max(value for of_set, value in sets if of_set <= load + slack) + 1e-6
    monkeypatch.setattr(pricing, "LARGE", (1024, 1))
    assert pricing.most_within(arcs, price, threshold)(threshold) == np.inf


@pytest.mark.parametrize("seed", range(12))
def test_pricing_goes_on_from_less_effort_though_others_were_priced_meanwhile(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that take turns write over each other's tables; each must come to what brute force finds."""
    monkeypatch.setattr(within, "LEAST_STEPS", 2)
    monkeypatch.setattr(pricing, "COARSE", 0.0)
    monkeypatch.setattr(pricing, "BEAMS", (1, 1, 10_000, 100_000))
    contraction = contract(random_dag(seed, num_nodes=11), Family.FREE, Deployment(2))
    arcs = contents_diagram(contraction).arcs
    threshold = 0.5 * float(contraction.accelerator_ms.sum())
    prices = np.random.default_rng(seed).uniform(-0.2, 1, (2, contraction.num_blocks))
    pricings = [Pricing(arcs, price, threshold, tables=((6, 10**6),)) for price in prices]
    best = [
        max(float(price[s].sum()) for s in all_contents(contraction) if load_of(contraction, s) <= threshold)
        for price in prices
    ]
    bounds = [np.inf, np.inf]
    for effort in range(pricing.EXACT + 1):
        for i, one in enumerate(pricings):
            found = one.dearest(effort, gap=0.0)
            assert best[i] <= found.bound <= bounds[i]
            assert np.all(found.prices <= best[i] + 1e-9)
            assert np.all(np.diff(found.prices) <= 0)
            for contents, load in zip(found.sets, found.loads, strict=True):
                assert load == pytest.approx(load_of(contraction, contents))
            bounds[i] = found.bound
    assert bounds == pytest.approx(best, abs=1e-6)


def test_a_part_of_very_many_accelerators_is_told_from_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below 1.6 ms none can hold more than is worth 1, each would have to pay 1.05, and by rates it may be 1.4."""
    monkeypatch.setattr(pricing, "LARGE", (1024, 1))
    large, small = [Node(v, 1.0, 1.0) for v in range(200)], [Node(v, 0.6, 0.6) for v in range(200, 220)]
    deployment = Deployment(200)
    contraction = contract(DnnGraph((*large, *small), ()), Family.FREE, deployment)
    contents = DeviceContents(contraction, deployment)
    price = np.where(contraction.accelerator_ms == 1.0, 1.0, 0.5)
    proven = max(contents.provable_thresholds(price, 1.1, 1.59), default=0.0)
    assert proven > 1.59 - 0.49 / 8


@pytest.mark.parametrize("is_table_too_small", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_largest_threshold_that_prices_prove_is_found(
    seed: int, is_table_too_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for a sixteenth of the interval, by all sets there are."""
    if is_table_too_small:
        monkeypatch.setattr(pricing, "LARGE", (1024, 1))
    deployment = Deployment(3)
    contraction = contract(random_dag(seed, num_nodes=10), Family.FREE, deployment)
    contents = DeviceContents(contraction, deployment)
    price = np.random.default_rng(seed).uniform(0, 1, contraction.num_blocks)
    sets = [(load_of(contraction, s), float(price[s].sum())) for s in all_contents(contraction)]
    most = float(contraction.accelerator_ms.sum())

    def is_proven(threshold_ms: float) -> bool:
        return float(price.sum()) > 3 * max(value for load, value in sets if load <= threshold_ms) * (1 + 1e-6)

    proven = list(contents.provable_thresholds(price, 0.0, most, effort=pricing.EXACT))
    assert proven == sorted(set(proven))
    assert all(map(is_proven, proven))
    assert not is_proven(proven[-1] + most / 16)


@pytest.mark.parametrize("seed", range(20))
def test_pricing_is_bounded_with_little_memory_for_labels(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where labels take more than there is the least promising are left out, and the bound accounts for them."""
    deployment = Deployment(2)
    contraction = contract(random_dag(seed, num_nodes=12), Family.FREE, deployment)
    arcs = contents_diagram(contraction).arcs
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    threshold = 0.4 * float(contraction.accelerator_ms.sum())
    z = max(float(price[s].sum()) for s in all_contents(contraction) if load_of(contraction, s) <= threshold)
    exact = Pricing(arcs, price, threshold).dearest(gap=0.0)
    assert exact.bound == pytest.approx(z, abs=1e-6)
    monkeypatch.setattr(labels, "MAX_LABELS", 40)
    scarce = Pricing(arcs, price, threshold).dearest(gap=0.0)
    assert scarce.bound >= z
    for contents, load in zip(scarce.sets, scarce.loads, strict=True):
        assert load == pytest.approx(load_of(contraction, contents))
        assert load <= threshold * (1 + 1e-9)
