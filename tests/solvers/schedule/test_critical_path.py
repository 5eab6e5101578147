"""Bounds on the makespan, and the chain of waits that explains it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.schedule.simulate import Pass, ScheduleKind, simulate
from tests.support.graphs import chain, diamond, one_node_per_device, training_chain
from tests.support.schedules import Case, cases, halves


@given(cases(), st.integers(1, 6))
def test_a_run_takes_at_least_its_bounds(case: Case, count: int) -> None:
    graph, deployment, split, kind = case
    schedule = simulate(graph, deployment, split, kind, count)
    assert schedule.load_bound_ms == count * split_costs(graph, deployment, split).max_load_ms
    assert schedule.critical_path_bound_ms == simulate_alone(graph, deployment, split, kind)
    assert max(schedule.load_bound_ms, schedule.critical_path_bound_ms) <= schedule.lower_bound_ms
    assert schedule.lower_bound_ms <= schedule.makespan_ms


def simulate_alone(graph: DnnGraph, deployment: Deployment, split: Split, kind: ScheduleKind) -> float:
    """Return the finish time of one micro-batch if its stages wait for nothing but tensors, stage by stage."""
    stages = simulate(graph, deployment, split, kind, 1).stages
    stage_of = {v: stage.index for stage in stages for v in stage.nodes}
    device_of = split.device_of()
    waits: dict[int, set[int]] = {stage.index: set() for stage in stages}
    for edge in graph.edges:
        u, v = stage_of[edge.source], stage_of[edge.target]
        if u != v:
            waits[v].add(u)
        # A tensor is received by the first of its readers on a device; the others wait for that one.
        readers = [stage_of[w] for w in graph.readers[edge.source] if device_of[w] == device_of[edge.target]]
        if device_of[edge.source] != device_of[edge.target] and v != min(readers):
            waits[v].add(min(readers))
    finish = [0.0] * len(stages)
    for _ in stages:  # long enough for the longest path
        finish = [max((finish[u] for u in waits[s.index]), default=0.0) + s.total_ms for s in stages]
    return max(finish, default=0.0)


@given(cases(), st.integers(1, 6))
def test_the_critical_chain_spans_the_run_without_a_gap(case: Case, count: int) -> None:
    graph, deployment, split, kind = case
    schedule = simulate(graph, deployment, split, kind, count)
    # Slots that take no time may share their start with their successors, so that ends decide.
    chain_slots = sorted((schedule.slots[i] for i in schedule.critical), key=lambda slot: (slot.start_ms, slot.end_ms))
    if schedule.makespan_ms == 0:
        return
    assert chain_slots[0].start_ms == 0
    assert chain_slots[-1].end_ms == schedule.makespan_ms
    assert sum(slot.end_ms - slot.start_ms for slot in chain_slots) == schedule.makespan_ms
    for slot, following in pairwise(chain_slots):
        assert slot.end_ms == following.start_ms


@given(st.lists(st.tuples(halves, halves), min_size=1, max_size=6), st.integers(1, 7))
def test_no_order_is_faster_than_a_pipeline_of_forward_stages(stages: list[tuple[float, float]], count: int) -> None:
    graph = chain([time for time, _ in stages], [transfer for _, transfer in stages])
    schedule = simulate(graph, Deployment(len(stages)), one_node_per_device(graph), ScheduleKind.INFERENCE, count)
    assert schedule.lower_bound_ms == schedule.makespan_ms


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 6), st.integers(1, 6))
def test_no_order_of_equal_stages_is_faster_than_gpipe_and_1f1b(p: int, m: int, forward: int, backward: int) -> None:
    graph = training_chain([forward] * p, [backward] * p)
    for kind in (ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B):
        schedule = simulate(graph, Deployment(p), one_node_per_device(graph), kind, m)
        assert schedule.lower_bound_ms == schedule.makespan_ms
        assert schedule.load_bound_ms == m * (forward + backward)
        assert schedule.critical_path_bound_ms == p * (forward + backward)


def test_the_chain_of_a_pipeline_fills_to_the_bottleneck_and_drains_from_it() -> None:
    graph = chain((1, 5, 2), transfer_ms=0.0)
    schedule = simulate(graph, Deployment(3), one_node_per_device(graph), ScheduleKind.INFERENCE, 3)
    on_chain = [(slot.stage, slot.micro_batch) for i, slot in enumerate(schedule.slots) if i in schedule.critical]
    assert on_chain == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 2)]
    assert (schedule.load_bound_ms, schedule.critical_path_bound_ms, schedule.lower_bound_ms) == (15.0, 8.0, 18.0)


def test_branches_on_devices_of_their_own_do_not_add_up_in_the_critical_path() -> None:
    split = Split((frozenset({1}), frozenset({2}), frozenset({3}), frozenset({4})))
    schedule = simulate(diamond(transfer_ms=0.0), Deployment(4), split, ScheduleKind.INFERENCE, 2)
    assert schedule.critical_path_bound_ms == 1 + 3 + 4


@pytest.mark.parametrize("kind", [ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B])
def test_utilisation_drain_and_peak_memory_agree_with_the_rest(kind: ScheduleKind) -> None:
    graph = training_chain((1, 2, 3), (2, 4, 6))
    schedule = simulate(graph, Deployment(4), one_node_per_device(graph), kind, 6)
    busy = [sum(s.end_ms - s.start_ms for s in schedule.slots if s.device == d) for d in range(4)]
    assert schedule.utilisation[:3] == pytest.approx([time / schedule.makespan_ms for time in busy[:3]])
    assert schedule.utilisation[3] is None
    ends = [max(slot.end_ms for slot in schedule.slots if slot.device == d) for d in range(3)]
    assert schedule.drain_start_ms == min(ends)
    assert {slot.direction for slot in schedule.slots if slot.start_ms >= min(ends)} == {Pass.BACKWARD}
    assert schedule.peak_memory_bytes == tuple(max(p.memory_bytes for p in points) for points in schedule.memory)
    assert schedule.weight_versions == (1, 1, 1, 0)
