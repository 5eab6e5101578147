"""Diffs of plans: what moved, up to the numbers of devices, and changes that add up."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.plan_diff import Placed, match_devices, plan_diff
from solvers.analysis.plan_diff_text import diff_text
from solvers.model.costs import Objective, objective_value, split_costs
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.errors import SplitError
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from tests.support.examples import examples
from tests.support.graphs import chain, random_classes, random_split, small_graphs, training_chain

SEEDS = st.integers(0, 10_000)


def placed(graph: DnnGraph, *devices: set[int], cpus: tuple[set[int], ...] = ()) -> Placed:
    split = Split(tuple(map(frozenset, devices)), tuple(map(frozenset, cpus)))
    return Placed(graph, Deployment(len(devices), len(cpus)), split)


def renumbered(side: Placed, seed: int) -> Placed:
    """The same plan with its accelerators in another order."""
    k = side.deployment.num_accelerators
    orders = list(itertools.permutations(range(k)))
    order = orders[seed % len(orders)]
    return replace(side, split=Split(tuple(side.split.accelerators[d] for d in order), side.split.cpus))


@examples(60, deadline=None)
@given(small_graphs(), SEEDS)
def test_a_plan_differs_in_nothing_from_itself_under_other_numbers(
    case: tuple[DnnGraph, Deployment], seed: int
) -> None:
    graph, deployment = case
    side = Placed(graph, deployment, random_split(graph, deployment, seed))
    for other in (side, renumbered(side, seed)):
        diff = plan_diff(side, other)
        assert diff.moved == ()
        assert diff.change_ms == pytest.approx(0, abs=1e-9)
        assert diff.only_in_first == diff.only_in_second == ()
        assert all(change.change.load_ms == pytest.approx(0, abs=1e-9) for change in diff.devices)


@examples(100, deadline=None)
@given(small_graphs(max_accelerators=3), SEEDS, st.sampled_from(Communication))
def test_changes_add_up_and_turn_around(
    case: tuple[DnnGraph, Deployment], seed: int, communication: Communication
) -> None:
    graph, deployment = case
    deployment = replace(deployment, communication=communication)
    sides = [Placed(graph, deployment, random_split(graph, deployment, seed + i)) for i in range(2)]
    diff, back = plan_diff(*sides), plan_diff(*sides[::-1])
    assert len(diff.moved) == len(back.moved)
    assert diff.change_ms == -back.change_ms  # type: ignore[operator]
    assert (diff.only_in_first, diff.num_cut_first) == (back.only_in_second, back.num_cut_second)
    loads = [sum(d.load_ms for d in split_costs(side.graph, deployment, side.split).devices) for side in sides]
    assert sum(change.change.load_ms for change in diff.devices) == pytest.approx(loads[1] - loads[0])
    assert sum(change.num_arrived for change in diff.devices) == len(diff.moved)
    assert sum(change.num_left for change in diff.devices) == len(diff.moved)
    assert diff.first_limit is not None
    assert diff.second_limit is not None
    for limit, side in zip((diff.first_limit, diff.second_limit), sides, strict=True):
        assert limit.load_ms == pytest.approx(objective_value(graph, deployment, side.split, Objective.THROUGHPUT))


def nature(graph: DnnGraph, deployment: Deployment, accelerator: int) -> object:
    """All that costs know of an accelerator without a memory limit."""
    one = deployment.class_of(accelerator)
    return one and (one.link_speed, [one.node_ms(node) for node in graph.nodes if node.runs_on_accelerator])


@examples(60, deadline=None)
@given(small_graphs(max_nodes=5, max_cpus=2), SEEDS, st.booleans())
def test_no_other_matching_moves_fewer_nodes(case: tuple[DnnGraph, Deployment], seed: int, has_classes: bool) -> None:
    graph, deployment = case
    if has_classes:
        deployment = random_classes(seed, deployment.num_cpus, limited=False)
    first, second = (random_split(graph, deployment, seed + i) for i in range(2))
    moved = len(plan_diff(Placed(graph, deployment, first), Placed(graph, deployment, second)).moved)
    k = deployment.num_accelerators
    home = first.device_of(), second.device_of()
    fewest = min(
        sum((*accelerators, *cpus)[home[0][v]] != home[1][v] for v in home[0])
        for accelerators in itertools.permutations(range(k))
        if all(nature(graph, deployment, d) == nature(graph, deployment, e) for d, e in enumerate(accelerators))
        for cpus in itertools.permutations(range(k, deployment.num_devices))
    )
    assert moved == fewest


def test_a_moved_node_and_what_it_changes() -> None:
    graph = chain((1, 2, 3, 4), transfer_ms=(0.5, 0.25, 0.125, 0))
    diff = plan_diff(placed(graph, {1, 2}, {3, 4}), placed(graph, {1, 2, 3}, {4}))
    assert [(move.node, move.first, move.second) for move in diff.moved] == [(3, 1, 0)]
    assert (diff.first_value_ms, diff.second_value_ms) == (7.25, 6.125)
    assert (diff.only_in_first, diff.only_in_second) == (((2, ""),), ((3, ""),))
    left, right = diff.devices
    assert (left.num_arrived, left.num_left, left.change.compute_ms, left.change.send_ms) == (1, 0, 3.0, -0.125)
    assert (right.num_arrived, right.num_left, right.change.compute_ms, right.change.receive_ms) == (0, 1, -3.0, -0.125)
    text = diff_text(diff, "A", "B", first_limit="Accelerator 2", second_limit="Accelerator 1")
    assert text[0] == "B takes 6.125 ms, 1.125 ms (15.5 %) less than A."
    assert text[1] == (
        "B's slowest device, Accelerator 1, computes 1 ms less and transfers 0.125 ms less than A's, Accelerator 2."
    )
    assert text[2] == "1 node is on another device. B cuts 1 tensor, as many as A."


def test_fewer_devices_leave_their_partners_alone() -> None:
    graph = chain((1, 1, 1))
    diff = plan_diff(placed(graph, {1}, {2}, {3}), placed(graph, {1}, {2, 3}))
    assert [(change.first, change.second) for change in diff.devices] == [(0, 0), (1, 1), (2, None)]
    assert [(move.node, move.first, move.second) for move in diff.moved] == [(3, 2, 1)]
    assert diff.devices[2].second_parts.load_ms == 0


def test_an_accelerator_never_matches_a_cpu() -> None:
    graph = chain((1, 1))
    first, second = placed(graph, {1, 2}, cpus=(set(),)), placed(graph, set(), cpus=({1, 2},))
    assert match_devices(first, second) == ((0, 0), (1, 1))
    assert len(plan_diff(first, second).moved) == 2


def on_classes(side: Placed, *classes: DeviceClass) -> Placed:
    return replace(side, deployment=Deployment.of_classes(classes, len(side.split.cpus)))


def test_an_accelerator_never_matches_one_of_another_class() -> None:
    graph = chain((2, 1, 1))
    mixed = DeviceClass("big", 1, speed=2.0), DeviceClass("small", 2)
    first = on_classes(placed(graph, {1}, {2}, {3}), *mixed)
    second = on_classes(placed(graph, {2}, {1}, {3}), *mixed)
    diff = plan_diff(first, second)
    assert [(change.first, change.second) for change in diff.devices] == [(0, 0), (1, 1), (2, 2)]
    assert [(move.node, move.first, move.second) for move in diff.moved] == [(1, 0, 1), (2, 1, 0)]
    swapped = on_classes(placed(graph, {1}, {3}, {2}), *mixed)
    assert plan_diff(first, swapped).is_same_plan
    more = on_classes(placed(graph, set(), {1}, {2}, {3}), DeviceClass("big", 2, speed=2.0), mixed[1])
    assert match_devices(first, more) == ((0, 1), (1, 2), (2, 3), (None, 0))


def test_classes_that_both_sides_have_for_alike_or_that_one_side_lacks_match() -> None:
    graph = chain((2, 1, 1))
    first, second = placed(graph, {1}, {2}, {3}), placed(graph, {2}, {1}, {3})
    twins = DeviceClass("left", 1), DeviceClass("right", 2)
    assert plan_diff(on_classes(first, *twins), on_classes(second, *twins)).is_same_plan
    other = DeviceClass("left", 1), DeviceClass("right", 2, speed=2.0)
    assert len(plan_diff(on_classes(first, *twins), on_classes(second, *other)).moved) == 2
    newer = DeviceClass("new", 1, speed=4.0), DeviceClass("right", 2)
    assert match_devices(on_classes(first, *twins), on_classes(first, *newer)) == ((0, 0), (1, 1), (2, 2))
    assert plan_diff(first, on_classes(second, *other)).is_same_plan


def test_the_same_plan_on_faster_links_moved_nothing_and_gained() -> None:
    graph = chain((2, 3), transfer_ms=1.0)
    side = placed(graph, {1}, {2})
    diff = plan_diff(side, replace(side, graph=graph.with_bandwidth_factor(2)))
    assert (diff.moved, diff.change_ms) == ((), -0.5)
    assert diff_text(diff, "A", "B")[:2] == (
        "B takes 3.5 ms, 0.5 ms (12.5 %) less than A.",
        "B's slowest device transfers 0.5 ms less than A's.",
    )


def test_gpipe_limits_are_the_slowest_passes() -> None:
    graph = training_chain((1, 3), (5, 2))
    split = Split((frozenset({1, 3}), frozenset({2, 4})))
    diff = plan_diff(*(Placed(graph, Deployment(2), split),) * 2, Objective.GPIPE)
    assert diff.first_limit is not None
    assert diff.first_limit.load_ms == diff.first_value_ms == 8.0
    assert diff_text(diff, "A", "B") == (
        "B takes as long as A, 8 ms. Every node is on the same device, up to the devices' numbers.",
    )


def test_plans_of_different_graphs_are_refused() -> None:
    with pytest.raises(SplitError, match="different graphs"):
        plan_diff(placed(chain((1, 2)), {1, 2}), placed(chain((1, 2, 3)), {1, 2, 3}))
