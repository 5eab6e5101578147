"""All kinds of schedules: rules that every run keeps, and what is known of them in closed form.

Schedules in rounds have more tests in `test_schedule.py`.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import single_sample_latency, split_costs
from solvers.model.deployment import Communication, Deployment, InFlight, TrainingMemory
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import INFERENCE_KINDS, LOOPED_KINDS, TRAINING_KINDS, LoopedSplit
from solvers.schedule.simulate import Pass, Schedule, ScheduleError, ScheduleKind, SlotKind, simulate
from tests.support.graphs import (
    chain,
    convex_witness,
    one_node_per_device,
    random_chain_split,
    random_dag,
    random_training_graph,
    scaled,
    small_graphs,
    training_chain,
    with_backward,
)
from tests.support.reference import transfer_ms
from tests.support.schedules import AnyCase, any_cases, known_bytes, slots_of, spans

WORK = {Pass.FORWARD: False, Pass.BACKWARD: True, Pass.INPUT_GRADIENT: True}
"""Passes in which a node makes its output, and whether that is a backward node."""


def run(case: AnyCase) -> Schedule:
    graph, deployment, split, kind, count = case
    return simulate(graph, deployment, split, kind, count)


@given(any_cases())
def test_every_stage_runs_every_micro_batch_once(case: AnyCase) -> None:
    graph, deployment, _, kind, count = case
    schedule = run(case)
    computed = [(slot.stage, slot.micro_batch) for slot in schedule.slots if slot.kind is SlotKind.COMPUTE]
    assert sorted(computed) == [(stage.index, n) for stage in schedule.stages for n in range(count)]
    nodes = sorted(v for stage in schedule.stages if stage.direction in WORK for v in stage.nodes)
    assert nodes == sorted(graph.node_by_id)
    for stage in schedule.stages:
        for v in stage.nodes:
            assert graph.node_by_id[v].is_backward is (stage.direction is not Pass.FORWARD)
    inputs = [stage.nodes for stage in schedule.stages if stage.direction is Pass.INPUT_GRADIENT]
    weights = [stage.nodes for stage in schedule.stages if stage.direction is Pass.WEIGHT_GRADIENT]
    assert sorted(inputs) == sorted(weights)
    for d in range(deployment.num_devices):
        if kind is not ScheduleKind.SINGLE_STREAM or not deployment.is_cpu(d):
            for slot, following in pairwise(slots_of(schedule, d)):
                assert slot.start_ms <= slot.end_ms <= following.start_ms


@given(any_cases())
def test_every_input_is_there_before_a_node_runs(case: AnyCase) -> None:
    graph, deployment, _, kind, count = case
    schedule = run(case)
    stage_of = {v: stage for stage in schedule.stages if stage.direction in WORK for v in stage.nodes}
    compute = {(s.stage, s.micro_batch): s for s in schedule.slots if s.kind is SlotKind.COMPUTE}
    whole = spans(schedule)
    for edge in graph.edges:
        u, v = stage_of[edge.source], stage_of[edge.target]
        stays = u.device == v.device and kind is not ScheduleKind.SINGLE_STREAM
        for n in range(count if u is not v else 0):
            reader = compute[v.index, n]
            if stays:
                assert compute[u.index, n].end_ms <= reader.start_ms
            else:
                price = 0.0 if deployment.is_cpu(v.device) else transfer_ms(graph, edge)
                assert whole[u.index, n][1] + price <= reader.start_ms
    inputs = {stage.nodes: stage.index for stage in schedule.stages if stage.direction is Pass.INPUT_GRADIENT}
    for stage in schedule.stages:
        if stage.direction is Pass.WEIGHT_GRADIENT:
            for n in range(count):
                assert compute[inputs[stage.nodes], n].end_ms <= compute[stage.index, n].start_ms


@given(any_cases())
def test_a_device_works_through_its_load_once_per_micro_batch(case: AnyCase) -> None:
    graph, deployment, split, kind, count = case
    schedule = run(case)
    placed = split.split if isinstance(split, LoopedSplit) else split
    for device in split_costs(graph, deployment, placed).devices:
        busy = sum(slot.end_ms - slot.start_ms for slot in slots_of(schedule, device.device))
        assert busy == pytest.approx(count * device.load_ms)
        utilisation = schedule.utilisation[device.device]
        if kind is not ScheduleKind.SINGLE_STREAM and utilisation is not None:
            assert utilisation * schedule.makespan_ms == pytest.approx(busy)


@given(any_cases())
def test_a_run_takes_at_least_its_bounds_and_its_critical_chain_explains_all_of_it(case: AnyCase) -> None:
    schedule = run(case)
    assert schedule.load_bound_ms <= schedule.lower_bound_ms + 1e-9
    assert schedule.critical_path_bound_ms <= schedule.lower_bound_ms
    assert schedule.lower_bound_ms <= schedule.makespan_ms + 1e-9
    on_chain = sorted((schedule.slots[i] for i in schedule.critical), key=lambda slot: (slot.start_ms, slot.end_ms))
    assert sum(slot.end_ms - slot.start_ms for slot in on_chain) == pytest.approx(schedule.makespan_ms)
    if schedule.makespan_ms > 0:
        assert on_chain[0].start_ms == 0
        assert on_chain[-1].end_ms == schedule.makespan_ms
        for slot, following in pairwise(on_chain):
            assert slot.end_ms == following.start_ms


@given(any_cases())
def test_memory_starts_and_ends_with_nothing_in_flight_and_never_falls_below_that(case: AnyCase) -> None:
    graph, _, split, _, count = case
    schedule = run(case)
    placed = split.split if isinstance(split, LoopedSplit) else split
    for d, points in enumerate(schedule.memory):
        assert [point.time_ms for point in points] == sorted({point.time_ms for point in points})
        assert points[-1].in_flight == 0
        assert max(point.in_flight for point in points) <= schedule.peak_in_flight[d] <= count
        assert min(point.memory_bytes for point in points) >= points[-1].memory_bytes >= 0
        assert max(point.memory_bytes for point in points) == schedule.peak_memory_bytes[d]
        members = [graph.node_by_id[v] for v in placed.on(case[1]).devices[d]]
        kept = sum(n.activation_bytes or 0.0 for n in members if not n.is_backward)
        weights = sum(n.parameter_bytes or 0.0 for n in members if not n.is_backward)
        stash = max(0, schedule.weight_versions[d] - 1) * weights
        assert points[-1].memory_bytes == sum(n.memory_bytes for n in members) - kept + stash
        # No device holds more than the activations of all its micro-batches in flight.
        assert schedule.peak_memory_bytes[d] <= points[-1].memory_bytes + schedule.peak_in_flight[d] * kept


@given(any_cases())
def test_doubling_all_times_doubles_all_times(case: AnyCase) -> None:
    graph, deployment, split, kind, count = case
    slower = scaled(graph, 2)
    once, twice = run(case), simulate(slower, deployment, split, kind, count)
    assert twice.makespan_ms == 2 * once.makespan_ms
    assert twice.peak_memory_bytes == once.peak_memory_bytes
    assert twice.critical == once.critical


def equal_pipeline(p: int, chunks: int, forward: float, backward: float, kind: ScheduleKind) -> AnyCase:
    """Return p devices of equal chunks, one node and one byte of activations each."""
    n = p * chunks
    graph = training_chain([forward] * n, [backward] * n)
    nodes = [replace(v, memory_bytes=1.0, activation_bytes=0.0 if v.is_backward else 1.0) for v in graph.nodes]
    graph = DnnGraph(tuple(nodes), graph.edges)
    deployment = Deployment(p)
    split = Split.from_device_of({v: (v - 1) % n // chunks for v in graph.node_by_id}, deployment)
    if kind in LOOPED_KINDS:
        return graph, deployment, looped_split(graph, deployment, split, chunks, kind), kind, 1
    return graph, deployment, split, kind, 1


def peak_activations(schedule: Schedule) -> list[float]:
    """Return the bytes of activations of forward nodes that each device holds at most."""
    return [
        peak - points[-1].memory_bytes for peak, points in zip(schedule.peak_memory_bytes, schedule.memory, strict=True)
    ]


@given(st.integers(1, 5), st.integers(2, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))
def test_interleaved_1f1b_in_closed_form(p: int, chunks: int, groups: int, forward: int, backward: int) -> None:
    """M (F + FB) + (p-1)(F + FB)/v, the bubble a v-th of 1F1B's, and (warm-up + 1)/v stages in flight."""
    m = p * groups
    graph, deployment, split, kind, _ = equal_pipeline(p, chunks, forward, backward, ScheduleKind.INTERLEAVED)
    schedule = simulate(graph, deployment, split, kind, m)
    load = chunks * (forward + backward)
    assert schedule.makespan_ms == m * load + (p - 1) * load / chunks
    assert schedule.bubble_fraction == pytest.approx([1 - m * load / schedule.makespan_ms] * p)
    warm_up = [min(m * chunks, 2 * (p - 1 - i) + (chunks - 1) * p) for i in range(p)]
    assert peak_activations(schedule) == [min(m * chunks, count + 1) for count in warm_up]
    assert schedule.chunks_per_device == chunks
    # No order of chunks on these devices is faster: the last device fills and drains through all others.
    assert schedule.lower_bound_ms == schedule.makespan_ms
    assert schedule.period_ms in (None, load)


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_zb_h1_in_closed_form(p: int, m: int, forward: int, inputs: int, weights: int) -> None:
    """M (F + B + W) + (p-1)(F + B - W) where W is the shortest of them, and p micro-batches in flight everywhere."""
    total = inputs + weights
    graph, deployment, split, kind, _ = equal_pipeline(p, 1, forward, total, ScheduleKind.ZB_H1)
    schedule = simulate(graph, deployment, split, kind, m, weight_gradient_share=weights / total)
    closed_form = m * (forward + total) + (p - 1) * (forward + inputs - weights)
    if weights <= min(forward, inputs) and m >= p:
        assert schedule.makespan_ms == pytest.approx(closed_form)
    else:
        assert schedule.makespan_ms >= closed_form - 1e-9
    assert peak_activations(schedule) == [min(m, p)] * p
    assert schedule.peak_in_flight == (min(m, p),) * p


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 5))
def test_zb_v_in_closed_form(p: int, beyond: int, time: int) -> None:
    """No bubble between the first and the last action of any device for F = B = W; p stages in flight everywhere."""
    m = 2 * p - 1 + beyond
    graph, deployment, split, kind, _ = equal_pipeline(p, 2, time, 2 * time, ScheduleKind.ZB_V)
    schedule = simulate(graph, deployment, split, kind, m)
    load = 2 * 3 * time
    for d in range(p):
        own = slots_of(schedule, d)
        assert own[-1].end_ms - own[0].start_ms == m * load
        assert own[0].start_ms == d * time
    assert schedule.makespan_ms == m * load + (p - 1) * time == schedule.lower_bound_ms
    assert peak_activations(schedule) == [2 * p] * p
    assert schedule.period_ms in (None, load)


def test_zb_v_goes_along_the_devices_and_back() -> None:
    _, _, looped, _, _ = equal_pipeline(3, 2, 1, 2, ScheduleKind.ZB_V)
    assert isinstance(looped, LoopedSplit)
    assert looped.devices == (0, 1, 2, 2, 1, 0)


times = st.integers(1, 12).map(lambda halves: halves / 2)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=5), st.integers(1, 9))
def test_pipedream_in_closed_form(stages: list[tuple[float, float]], m: int) -> None:
    """Period max (F_i + FB_i) and p - i micro-batches and versions of weights on device i."""
    p = len(stages)
    graph = training_chain([f for f, _ in stages], [b for _, b in stages])
    graph = known_bytes(graph)
    split = one_node_per_device(graph)
    schedule = simulate(graph, Deployment(p), split, ScheduleKind.PIPEDREAM, m)
    assert schedule.peak_in_flight == schedule.weight_versions == tuple(min(m, p - i) for i in range(p))
    long_run = simulate(graph, Deployment(p), split, ScheduleKind.PIPEDREAM, 60)
    assert long_run.period_ms == max(f + b for f, b in stages)
    memory = Deployment(p, training_memory=TrainingMemory(InFlight.PIPEDREAM, 60))
    evaluated = tuple(device.memory_bytes for device in split_costs(graph, memory, split).devices)
    assert long_run.peak_memory_bytes == evaluated
    factor = replace(memory, training_memory=TrainingMemory(InFlight.PIPEDREAM, 60, state_factor=8.0))
    evaluated = tuple(device.memory_bytes for device in split_costs(graph, factor, split).devices)
    assert simulate(graph, factor, split, ScheduleKind.PIPEDREAM, 60).peak_memory_bytes == evaluated


@pytest.mark.parametrize("kind", LOOPED_KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_the_period_of_looped_pipelines_settles_at_the_largest_load(kind: ScheduleKind, seed: int) -> None:
    p = 2 + seed % 3
    graph = random_training_graph(seed, 12, 0.2)
    deployment = Deployment(p)
    split = random_chain_split(graph, deployment, seed)
    looped = looped_split(graph, deployment, split, 2, kind)
    costs = split_costs(graph, deployment, looped.split)
    schedule = simulate(graph, deployment, looped, kind, 40 * len(looped.order))
    assert schedule.period_ms is None or schedule.period_ms >= costs.max_load_ms - 1e-9
    assert schedule.makespan_ms >= 40 * len(looped.order) * costs.max_load_ms


@given(small_graphs(memory_limit=False, backward=False), st.integers(0, 999), st.integers(1, 5), st.booleans())
def test_single_stream_takes_the_latency_of_the_evaluator(
    case: tuple[DnnGraph, Deployment], seed: int, count: int, has_subgraphs: bool
) -> None:
    graph, deployment = case
    split = random_chain_split(graph, deployment, seed)
    if has_subgraphs:
        order = {v: i for i, v in enumerate(graph.topological_order)}
        parts = []
        for members in split.accelerators:
            ranked = sorted(members, key=order.__getitem__)
            parts.append((frozenset(ranked[: len(ranked) // 2]), frozenset(ranked[len(ranked) // 2 :])))
        split = Split.from_subgraphs(tuple(tuple(filter(None, pair)) for pair in parts), split.cpus)
    latency = single_sample_latency(graph, deployment, split)
    if latency is None:
        with pytest.raises(ScheduleError, match="wait for each other in a circle"):
            simulate(graph, deployment, split, ScheduleKind.SINGLE_STREAM, count)
        return
    schedule = simulate(graph, deployment, split, ScheduleKind.SINGLE_STREAM, count)
    assert schedule.makespan_ms == count * latency
    assert schedule.critical_path_bound_ms <= latency
    assert schedule.period_ms == (latency if count >= 3 else None)
    assert max(schedule.peak_in_flight) == 1


@given(any_cases())
def test_unpipelined_runs_one_stage_at_a_time(case: AnyCase) -> None:
    graph, deployment, split, _, count = case
    placed = split.split if isinstance(split, LoopedSplit) else split
    schedule = simulate(graph, deployment, placed, ScheduleKind.UNPIPELINED, count)
    total = sum(device.load_ms for device in split_costs(graph, deployment, placed).devices)
    assert schedule.makespan_ms == pytest.approx(count * total)
    assert {i for i, slot in enumerate(schedule.slots) if slot.end_ms > slot.start_ms} <= schedule.critical
    for slot, following in pairwise(schedule.slots):
        assert slot.end_ms <= following.start_ms
        assert slot.micro_batch <= following.micro_batch


def test_one_sample_at_a_time_does_not_care_what_transfers_could_overlap() -> None:
    graph = chain((1, 2), transfer_ms=0.5)
    deployment = Deployment(2, communication=Communication.FULL_DUPLEX)
    for kind in (ScheduleKind.SINGLE_STREAM, ScheduleKind.UNPIPELINED):
        assert simulate(graph, deployment, one_node_per_device(graph), kind, 2).makespan_ms == 8.0
    with pytest.raises(ScheduleError, match="set communication to sum"):
        simulate(graph, deployment, one_node_per_device(graph), ScheduleKind.INFERENCE, 2)


def test_what_a_schedule_cannot_run_is_said_in_a_sentence() -> None:
    graph = with_backward(convex_witness())
    circle = Split((frozenset({1, 4, 5, 8}), frozenset({2, 3, 6, 7})))
    with pytest.raises(ScheduleError, match=r"zb-h1 schedule needs a pipeline .* choose 1f1b or gpipe"):
        simulate(graph, Deployment(2), circle, ScheduleKind.ZB_H1, 2)
    with pytest.raises(ScheduleError, match="runs several model chunks per device; cut the split into chunks first"):
        simulate(graph, Deployment(2), circle, ScheduleKind.INTERLEAVED, 2)
    case = equal_pipeline(3, 2, 1, 1, ScheduleKind.INTERLEAVED)
    with pytest.raises(ScheduleError, match=r"groups of 3.* and 7 are no whole number of groups; choose 6 or 9"):
        simulate(*case[:4], 7)
    with pytest.raises(ScheduleError, match="choose 3"):
        simulate(*case[:4], 2)
    with pytest.raises(ScheduleError, match="one stage per device; give the split before it was cut first"):
        simulate(*case[:3], ScheduleKind.GPIPE, 6)
    line = training_chain((1, 1), (2, 2))
    with pytest.raises(ScheduleError, match=r"weight-gradient share of 1\.5: give a number from 0 to 1"):
        simulate(line, Deployment(2), one_node_per_device(line), ScheduleKind.ZB_H1, 2, weight_gradient_share=1.5)
    with pytest.raises(ScheduleError, match="which the schedule single-stream does not run; choose 1f1b"):
        simulate(graph, Deployment(2), circle, ScheduleKind.SINGLE_STREAM, 2)


def test_assumptions_name_what_the_graph_does_not_tell() -> None:
    graph = training_chain((1, 1), (2, 2))
    split = one_node_per_device(graph)
    zero_bubble = simulate(graph, Deployment(2), split, ScheduleKind.ZB_H1, 2, weight_gradient_share=0.25).assumptions
    assert any("Weight gradients take 25 % of each backward pass" in sentence for sentence in zero_bubble)
    assert any("does not tell activations" in sentence for sentence in zero_bubble)
    stashing = simulate(graph, Deployment(2), split, ScheduleKind.PIPEDREAM, 2).assumptions
    assert any("does not tell weights" in sentence for sentence in stashing)
    known = simulate(known_bytes(graph), Deployment(2), split, ScheduleKind.PIPEDREAM, 2).assumptions
    assert not any("does not tell" in sentence for sentence in known)
    assert all(sentence.endswith(".") for sentence in (*zero_bubble, *stashing, *known))


@pytest.mark.parametrize("p", [2, 3, 4, 6])
def test_zero_bubble_beats_1f1b_on_equal_stages(p: int) -> None:
    graph, deployment, split, _, _ = equal_pipeline(p, 1, 2, 4, ScheduleKind.ZB_H1)
    ends = [
        simulate(graph, deployment, split, kind, 2 * p).makespan_ms
        for kind in (ScheduleKind.ZB_H1, ScheduleKind.ONE_F_ONE_B)
    ]
    assert ends == [2 * p * 6 + (p - 1) * 2, 2 * p * 6 + (p - 1) * 6]


@pytest.mark.parametrize("seed", range(8))
def test_larger_random_graphs_keep_to_their_bounds(seed: int) -> None:
    deployment = Deployment(2 + seed % 3, seed % 2)
    training, inference = random_training_graph(seed, 20, 0.15), random_dag(seed, 30, 0.1)
    for graph, kinds in ((training, TRAINING_KINDS), (inference, INFERENCE_KINDS)):
        split = random_chain_split(graph, deployment, seed)
        for kind in kinds:
            shown: Split | LoopedSplit = split
            if kind in LOOPED_KINDS:
                shown = looped_split(graph, deployment, split, 2, kind)
            schedule = simulate(graph, deployment, shown, kind, 12 * sum(map(bool, split.devices)))
            assert schedule.lower_bound_ms <= schedule.makespan_ms + 1e-9
