"""What one device can hold: the diagram knows every load, pricing finds the dearest set, certificates are true."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free import labels, patterns, price_search, pricing, within
from solvers.free.column_generation import DeviceContents
from solvers.free.diagram import Arcs
from solvers.free.patterns import Paths, contents_diagram
from solvers.free.price_search import best_prices
from solvers.free.pricing import EXACT, LAGRANGIAN, Pricing
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family
from solvers.problem.contraction import Contraction, contract
from tests.support.examples import examples
from tests.support.graphs import chain, class_deployments, dag, random_dag, small_graphs, with_class_times
from tests.support.reference import best_value

SOME_TIMES = st.integers(0, 40).map(lambda quarters: quarters / 4)


def load_of(contraction: Contraction, contents: np.ndarray) -> float:
    """Return the load of an accelerator in ms, from its definition."""
    cut = (h.weight_ms for h in contraction.hyperedges if 0 < contents[list(h.blocks)].sum() < len(h.blocks))
    return float(contraction.accelerator_ms[contents].sum()) + sum(cut)


def all_contents(contraction: Contraction) -> list[np.ndarray]:
    return [np.array(bits, bool) for bits in itertools.product((False, True), repeat=contraction.num_blocks)]


def path_length(contraction: Contraction, contents: np.ndarray, max_width: int) -> float:
    return length_in(contents_diagram(contraction, max_width).arcs, contents)


def length_in(arcs: Arcs, contents: np.ndarray) -> float:
    node, length = 0, 0.0
    for b in arcs.order:
        x = int(contents[b])
        length += arcs.length[node, x]
        node = arcs.target[node, x]
    return length


@given(small_graphs(max_nodes=6))
@examples(40)
def test_the_path_of_a_set_is_as_long_as_its_load(instance: tuple[DnnGraph, Deployment]) -> None:
    contraction = contract(instance[0], Family.FREE, instance[1])
    for contents in all_contents(contraction):
        assert path_length(contraction, contents, 4096) == load_of(contraction, contents)


@given(small_graphs(max_nodes=6), st.integers(1, 3))
@examples(20)
def test_a_narrow_diagram_never_overstates_a_load(instance: tuple[DnnGraph, Deployment], width: int) -> None:
    contraction = contract(instance[0], Family.FREE, instance[1])
    assert contents_diagram(contraction, width).arcs.width <= width
    for contents in all_contents(contraction):
        assert path_length(contraction, contents, width) <= load_of(contraction, contents)


def is_convex(graph: DnnGraph, contraction: Contraction, contents: np.ndarray) -> bool:
    """Whether no forward path leaves a set of blocks and comes back, by following paths."""
    inside = {v for b in np.flatnonzero(contents) for v in contraction.members[b]}
    left: set[int] = set()
    for v in graph.topological_order:
        if graph.node_by_id[v].is_backward:
            continue
        readers = [u for u in graph.inputs[v] if not graph.node_by_id[u].is_backward]
        has_left = any(u in left for u in readers)
        if v in inside and has_left:
            return False
        if v not in inside and (has_left or any(u in inside for u in readers)):
            left.add(v)
    return True


@given(small_graphs(max_nodes=6, backward=True), st.sampled_from([2, 3, 4096]))
@examples(60)
def test_only_convex_sets_are_paths_of_finite_length_where_it_is_asked_for(
    instance: tuple[DnnGraph, Deployment], width: int
) -> None:
    """Every convex set is one, as long as its load at most; of graphs with a node to a block no other set is."""
    graph, deployment = instance
    contraction = contract(graph, Family.CONVEX, deployment)
    paths = Paths.of(contraction, graph)
    arcs = contents_diagram(contraction, width, paths=paths).arcs
    is_exact = width == 4096 and all(len(ids) == 1 for ids in contraction.members)
    for contents in all_contents(contraction):
        length = length_in(arcs, contents)
        if is_convex(graph, contraction, contents):
            assert length <= load_of(contraction, contents)
            assert length == load_of(contraction, contents) or width < 4096
        elif is_exact:
            assert length == np.inf


def test_layers_of_a_diagram_of_convex_sets_share_its_nodes_as_they_like(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow but for one place: shares of the layers are too few there, and all nodes together are not."""
    side = chain([1.0] * 30)
    middle = tuple(Node(v, 1.0, 1.0, transfer_ms=1.0) for v in range(100, 106))
    ends = (Node(99, 1.0, 1.0, transfer_ms=1.0), Node(106, 1.0, 1.0))
    last = max(node.id for node in side.nodes)
    edges = (Edge(last, 99), *(Edge(99, v.id) for v in middle), *(Edge(v.id, 106) for v in middle))
    graph = DnnGraph((*side.nodes, ends[0], *middle, ends[1]), (*side.edges, *edges))
    contraction = contract(graph, Family.CONVEX, Deployment(2))
    paths = Paths.of(contraction, graph)
    monkeypatch.setattr(patterns, "MAX_NODES", (200,))
    for most, is_whole in ((300, False), (400, True)):
        monkeypatch.setattr(patterns, "MAX_WHOLE_WITH_PATHS", most)
        assert contents_diagram(contraction, paths=paths).is_whole == is_whole


def test_a_backward_node_of_no_class_orders_no_convex_set() -> None:
    """Its edges are mirrored to order the stages of a chain; a set that they leave and enter again is convex."""
    nodes = [Node(1, 1.0, 1.0, colocation_class=1), Node(2, 1.0, 1.0, colocation_class=2)]
    nodes += [Node(101, 1.0, 1.0, is_backward=True, colocation_class=1), Node(102, 1.0, 1.0, is_backward=True)]
    nodes += [Node(103, 1.0, 1.0, is_backward=True, colocation_class=2)]
    edges = (Edge(1, 2), Edge(2, 102), Edge(102, 103), Edge(103, 101))
    graph = DnnGraph(tuple(nodes), edges)
    contraction = contract(graph, Family.CONVEX, Deployment(2))
    arcs = contents_diagram(contraction, paths=Paths.of(contraction, graph)).arcs
    for contents in all_contents(contraction):
        assert is_convex(graph, contraction, contents)
        assert length_in(arcs, contents) == load_of(contraction, contents)


@given(small_graphs(max_nodes=5, max_cpus=2, backward=True), st.integers(0, 5))
@examples(60)
def test_prices_of_convex_contents_prove_nothing_false(instance: tuple[DnnGraph, Deployment], seed: int) -> None:
    graph, deployment = instance
    best = best_value(graph, deployment, Family.CONVEX, Objective.THROUGHPUT)
    if not deployment.num_accelerators or best is None:
        return
    contraction = contract(graph, Family.CONVEX, deployment)
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    for search in SEARCHES:
        contents = DeviceContents(contraction, deployment, paths=Paths.of(contraction, graph))
        outcome, certificate = search(contents, best, price, lambda _: True)
        assert outcome is not True
        assert certificate.ratio <= 1
        assert all(proven < best for proven in contents.provable_thresholds(price, -1.0, best))


@pytest.mark.parametrize("seed", range(6))
def test_a_diagram_begins_at_the_end_from_which_less_is_left_out(seed: int) -> None:
    contraction = contract(random_dag(seed, 24), Family.FREE, Deployment(3))
    chosen = contents_diagram(contraction, 8)
    assert chosen.dropped_ms > 0
    other = contents_diagram(contraction, 8, order=chosen.arcs.order[::-1].copy())
    assert chosen.badness <= other.badness


@pytest.mark.parametrize("seed", range(6))
def test_where_too_much_is_left_of_a_diagram_it_is_built_with_less_room(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    contraction = contract(random_dag(seed, 10), Family.FREE, Deployment(2))
    whole = contents_diagram(contraction)
    assert whole.is_whole
    monkeypatch.setattr("solvers.free.patterns.MAX_NODES", (100_000, 10))
    assert contents_diagram(contraction).num_nodes == whole.num_nodes
    monkeypatch.setattr("solvers.free.patterns.MAX_REDUCED", whole.num_nodes - 1)
    narrow = contents_diagram(contraction)
    assert narrow.num_nodes < whole.num_nodes
    assert narrow.dropped_ms > 0
    for contents in all_contents(contraction):
        assert length_in(narrow.arcs, contents) <= load_of(contraction, contents) * (1 + 1e-9)


def test_a_path_of_blocks_needs_two_nodes_per_layer() -> None:
    edges = contract(random_dag(3, num_nodes=12), Family.FREE, Deployment(2)).hyperedges
    assert edges
    from tests.support.graphs import chain

    assert contents_diagram(contract(chain([1.0] * 50), Family.FREE, Deployment(2))).arcs.width == 2


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


SEARCHES = (DeviceContents.prove, lambda *asked: best_prices(*asked)[:2])
"""Column generation where blocks are few, and the nearest prices that may be better."""


def assert_nothing_false_is_proven(graph: DnnGraph, deployment: Deployment, threshold: float, seed: int) -> None:
    """Check what prices drawn with a seed prove of a threshold against brute force."""
    best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
    contraction = contract(graph, Family.FREE, deployment)
    contents = DeviceContents(contraction, deployment)
    price = np.random.default_rng(seed).uniform(-0.2, 1, contraction.num_blocks)
    if best is not None and best <= threshold:
        for search in SEARCHES:
            outcome, certificate = search(DeviceContents(contraction, deployment), threshold, price, lambda _: True)
            assert outcome is not True
            assert certificate.ratio <= 1
        assert all(proven < best for proven in contents.provable_thresholds(price, -1.0, threshold))


@given(small_graphs(max_nodes=5, max_cpus=2), SOME_TIMES, st.integers(0, 5))
@examples(60)
def test_nothing_is_proven_out_of_reach_that_is_within(
    instance: tuple[DnnGraph, Deployment], threshold: float, seed: int
) -> None:
    graph, deployment = instance
    if not deployment.num_accelerators:
        return
    assert_nothing_false_is_proven(graph, deployment, threshold, seed)


@given(small_graphs(max_nodes=4), class_deployments(), SOME_TIMES, st.integers(0, 1000))
@examples(30)
def test_nothing_is_proven_of_classes_that_is_not_so(
    drawn: tuple[DnnGraph, Deployment], deployment: Deployment, threshold: float, seed: int
) -> None:
    graph = with_class_times(drawn[0], seed) if seed % 2 else drawn[0]
    assert_nothing_false_is_proven(graph, deployment, threshold, seed)


@pytest.mark.parametrize("search", SEARCHES)
def test_devices_of_each_class_are_counted(search: Any) -> None:
    """Ten equal blocks on one fast device and six slow ones: within 4 ms they hold 4 + 6, within less 3 + 6."""
    graph = dag([4.0] * 10, [], transfer_ms=0.0)
    deployment = Deployment.of_classes((DeviceClass("fast", 1, 4.0), DeviceClass("slow", 4), DeviceClass("twin", 2)))
    contents = DeviceContents(contract(graph, Family.FREE, deployment), deployment)
    outcome, certificate = search(contents, 3.99, np.ones(10), lambda _: True)
    assert outcome is True
    assert certificate.ratio == pytest.approx(10 / 3)  # slow ones hold nothing
    assert search(contents, 4.0, np.ones(10), lambda _: True)[0] is False


@pytest.mark.parametrize("search", SEARCHES)
def test_prices_prove_what_total_work_cannot(search: Any) -> None:
    """Five equal blocks on four devices: some device has two, though their work over four is less."""
    graph = dag([4.0] * 5, [], transfer_ms=0.0)
    contraction = contract(graph, Family.FREE, Deployment(4))
    contents = DeviceContents(contraction, Deployment(4))
    outcome, certificate = search(contents, 7.9, np.ones(5), lambda _: True)
    assert outcome is True
    assert certificate.ratio == pytest.approx(1.25)
    assert search(contents, 8.0, np.ones(5), lambda _: True)[0] is False


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(0, 1))
@examples(40)
def test_both_searches_find_the_same_thresholds_out_of_reach(seed: int, k: int, num_cpus: int) -> None:
    """Each ends with the optimum of the same linear program: proven by one, not found hopeless by the other."""
    deployment = Deployment(k, num_cpus)
    contraction = contract(random_dag(seed, num_nodes=12), Family.FREE, deployment)
    threshold = 1.1 * float(contraction.accelerator_ms.sum()) / (k + num_cpus)
    outcomes = {
        search(DeviceContents(contraction, deployment), threshold, contraction.accelerator_ms, lambda _: True)[0]
        for search in SEARCHES
    }
    assert outcomes != {True, False}


@pytest.mark.parametrize("seed", range(12))
def test_rows_make_room_for_others_and_nothing_false_is_said(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for a dozen rows the search may come to no end, but to none that column generation contradicts."""
    deployment = Deployment(2, seed % 2)
    contraction = contract(random_dag(seed, num_nodes=14), Family.FREE, deployment)
    work = contraction.accelerator_ms
    threshold = 0.65 * float(work.sum())
    monkeypatch.setattr(price_search, "MOST_ROWS", 12)
    dropped = 0
    make_room = price_search._Rounds._make_room

    def counted(self: price_search._Rounds) -> None:
        nonlocal dropped
        before = len(self._keys)
        make_room(self)
        dropped += before - len(self._keys)
        assert len(self._keys) <= 6
        assert self._entered == set(self._keys)

    monkeypatch.setattr(price_search._Rounds, "_make_room", counted)
    rounds = iter(range(150))
    outcome = best_prices(
        DeviceContents(contraction, deployment), threshold, work, lambda _: next(rounds, None) is not None
    ).outcome
    certain = DeviceContents(contraction, deployment).prove(threshold, work, lambda _: True)[0]
    assert {outcome, certain} != {True, False}
    assert dropped or outcome is True


@pytest.mark.parametrize("seed", range(12))
def test_the_program_promises_no_less_than_what_is_proven(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows some of the contents only, so its optimum is at least every ratio that prices prove."""
    deployment = Deployment(2, seed % 2)
    contraction = contract(random_dag(seed, num_nodes=14), Family.FREE, deployment)
    work = contraction.accelerator_ms
    asked = 0
    solve_program = price_search._Rounds._solve

    def checked(self: price_search._Rounds) -> Any:
        nonlocal asked
        asked += 1
        solved = solve_program(self)
        assert solved is not None
        assert solved[0] >= self.best.ratio - 1e-6
        return solved

    monkeypatch.setattr(price_search._Rounds, "_solve", checked)
    monkeypatch.setattr(price_search, "BEFORE_PROGRAM", 1)
    for share in (0.55, 0.65, 0.8):
        best_prices(DeviceContents(contraction, deployment), share * float(work.sum()), work, lambda _: True)
    assert asked
