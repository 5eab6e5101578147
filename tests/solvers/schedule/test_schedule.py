"""Schedules in rounds: rules that every run keeps, times of pipelines known in closed form, and reviewed orders.

`python -m tests.solvers.schedule.test_schedule` writes the golden file anew; read its difference before you commit it.
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment, InFlight, TrainingMemory
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.schedule.looped_split import looped_split
from solvers.schedule.simulate import Pass, Schedule, ScheduleError, ScheduleKind, SlotKind, schedule_text, simulate
from tests.support.graphs import (
    chain,
    convex_witness,
    diamond,
    one_node_per_device,
    random_chain_split,
    random_dag,
    random_split,
    random_training_graph,
    scaled,
    training_chain,
    with_backward,
)
from tests.support.reference import transfer_ms
from tests.support.root import ROOT
from tests.support.schedules import GPIPE, INFERENCE, ONE_F_ONE_B, Case, cases, halves, slots_of, spans

GOLDEN = ROOT / "tests" / "golden" / "schedules.txt"


@given(cases(), st.integers(1, 6))
def test_every_stage_runs_every_micro_batch_once_and_devices_do_one_thing_at_a_time(case: Case, count: int) -> None:
    graph, deployment, split, kind = case
    schedule = simulate(graph, deployment, split, kind, count)
    computed = [(slot.stage, slot.micro_batch) for slot in schedule.slots if slot.kind is SlotKind.COMPUTE]
    assert sorted(computed) == [(stage.index, n) for stage in schedule.stages for n in range(count)]
    assert list(schedule.slots) == sorted(schedule.slots, key=lambda slot: slot.start_ms)
    for d in range(deployment.num_devices):
        for slot, following in pairwise(slots_of(schedule, d)):
            assert slot.start_ms <= slot.end_ms <= following.start_ms
    for slot in schedule.slots:
        stage = schedule.stages[slot.stage]
        assert (slot.device, slot.direction) == (stage.device, stage.direction)


@given(cases(), st.integers(1, 6))
def test_every_input_is_there_before_a_node_runs(case: Case, count: int) -> None:
    """On its own device once computed; elsewhere once sent, and received at the price of the transfer."""
    graph, deployment, split, kind = case
    schedule = simulate(graph, deployment, split, kind, count)
    stage_of = {v: stage.index for stage in schedule.stages for v in stage.nodes}
    compute = {(s.stage, s.micro_batch): s for s in schedule.slots if s.kind is SlotKind.COMPUTE}
    whole = spans(schedule)
    for edge in graph.edges:
        u, v = stage_of[edge.source], stage_of[edge.target]
        for n in range(count if u != v else 0):
            reader = compute[v, n]
            if schedule.stages[u].device == schedule.stages[v].device:
                assert compute[u, n].end_ms <= reader.start_ms
            else:
                price = 0.0 if deployment.is_cpu(reader.device) else transfer_ms(graph, edge)
                assert whole[u, n][1] + price <= reader.start_ms


@given(cases(), st.integers(1, 6))
def test_a_device_works_through_its_load_once_per_micro_batch(case: Case, count: int) -> None:
    graph, deployment, split, kind = case
    schedule = simulate(graph, deployment, split, kind, count)
    for device in split_costs(graph, deployment, split).devices:
        busy = sum(slot.end_ms - slot.start_ms for slot in slots_of(schedule, device.device))
        assert busy == count * device.load_ms
        bubble = schedule.bubble_fraction[device.device]
        if device.load_ms == 0:
            assert bubble is None
        else:
            assert bubble == pytest.approx(1 - busy / schedule.makespan_ms, abs=1e-12)
    assert schedule.makespan_ms == max(slot.end_ms for slot in schedule.slots)


@given(cases(), st.integers(1, 6))
def test_nobody_waits_without_a_reason(case: Case, count: int) -> None:
    """A stage starts at once, when its device gets free, or when a sender elsewhere is done; never breaks off."""
    graph, deployment, split, kind = case
    schedule = simulate(graph, deployment, split, kind, count)
    whole = spans(schedule)
    for (stage, n), (start, end) in whole.items():
        assert end - start == schedule.stages[stage].total_ms
        reasons = {0.0} | {whole[source, n][1] for source in schedule.stages[stage].receives_from}
        reasons |= {slot.end_ms for slot in slots_of(schedule, schedule.stages[stage].device)}
        assert start in reasons


@given(cases())
def test_the_period_settles_at_the_max_load(case: Case) -> None:
    """For splits of every family; in GPipe at the sum of the largest forward and the largest backward time."""
    graph, deployment, split, kind = case
    costs = split_costs(graph, deployment, split)
    schedule = simulate(graph, deployment, split, kind, 60)
    assert schedule.period_ms == (costs.gpipe_ms if kind is GPIPE else costs.max_load_ms)


@given(cases(), st.integers(1, 12))
def test_no_run_is_faster_than_its_bottleneck(case: Case, count: int) -> None:
    graph, deployment, split, kind = case
    costs = split_costs(graph, deployment, split)
    schedule = simulate(graph, deployment, split, kind, count)
    assert schedule.makespan_ms >= count * costs.max_load_ms
    assert schedule.period_ms is None or schedule.period_ms >= costs.max_load_ms


@pytest.mark.parametrize("seed", range(12))
def test_the_period_settles_on_larger_graphs_too(seed: int) -> None:
    deployment = Deployment(2 + seed % 4, seed % 2)
    inference = random_dag(seed, 24, 0.12)
    training = random_training_graph(seed, 16, 0.15, irregular=seed % 3 == 0)
    for splitter in (random_split, random_chain_split):
        for graph, kind in ((inference, INFERENCE), (training, GPIPE), (training, ONE_F_ONE_B)):
            split = splitter(graph, deployment, seed)
            costs = split_costs(graph, deployment, split)
            schedule = simulate(graph, deployment, split, kind, 200)
            assert schedule.period_ms == (costs.gpipe_ms if kind is GPIPE else costs.max_load_ms)


def test_the_period_is_unknown_for_too_few_micro_batches() -> None:
    graph = training_chain((1, 1, 1), (2, 2, 2))
    runs = [simulate(graph, Deployment(3), one_node_per_device(graph), ONE_F_ONE_B, m) for m in range(1, 8)]
    assert [run.period_ms for run in runs] == [None, None, None, None, 3.0, 3.0, 3.0]


@given(cases(), st.integers(1, 6))
def test_twice_the_times_take_twice_as_long(case: Case, count: int) -> None:
    graph, deployment, split, kind = case
    slower = scaled(graph, 2)
    schedule = simulate(graph, deployment, split, kind, count)
    doubled = simulate(slower, deployment, split, kind, count)
    assert doubled.makespan_ms == 2 * schedule.makespan_ms
    assert doubled.peak_in_flight == schedule.peak_in_flight


@given(st.lists(st.tuples(halves, halves), min_size=1, max_size=6), st.integers(1, 7))
def test_inference_of_a_pipeline_in_closed_form(stages: list[tuple[float, float]], count: int) -> None:
    """Sum f + (m-1) max f, transfers within f."""
    graph = chain([time for time, _ in stages], [transfer for _, transfer in stages])
    split = one_node_per_device(graph)
    times = [d.load_ms for d in split_costs(graph, Deployment(len(stages)), split).devices]
    schedule = simulate(graph, Deployment(len(stages)), split, INFERENCE, count)
    assert schedule.makespan_ms == sum(times) + (count - 1) * max(times)
    assert schedule.peak_in_flight == (1,) * len(stages)
    assert schedule.period_ms == (max(times) if count >= 3 else None)


@given(st.lists(st.tuples(halves, halves, halves), min_size=1, max_size=6), st.integers(1, 7))
def test_gpipe_of_a_pipeline_in_closed_form(stages: list[tuple[float, float, float]], count: int) -> None:
    """Sum F + (m-1) max F + sum B + (m-1) max B for any stage times, transfers within F and B."""
    graph = training_chain(*(list(times) for times in zip(*stages, strict=True)))
    split = one_node_per_device(graph)
    devices = split_costs(graph, Deployment(len(stages)), split).devices
    forward = [d.forward_ms for d in devices]
    backward = [d.backward_ms for d in devices]
    schedule = simulate(graph, Deployment(len(stages)), split, GPIPE, count)
    expected = sum(forward) + (count - 1) * max(forward) + sum(backward) + (count - 1) * max(backward)
    assert schedule.makespan_ms == expected
    assert schedule.peak_in_flight == (count,) * len(stages)


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 6), st.integers(1, 6))
def test_equal_stages_in_closed_form(p: int, m: int, forward: int, backward: int) -> None:
    """Both schedules take (m+p-1)(F+B) and idle a share (p-1)/(m+p-1); 1F1B holds min(m, p-i), GPipe m."""
    graph = training_chain([forward] * p, [backward] * p)
    for kind in (GPIPE, ONE_F_ONE_B):
        schedule = simulate(graph, Deployment(p), one_node_per_device(graph), kind, m)
        assert schedule.makespan_ms == (m + p - 1) * (forward + backward)
        assert schedule.bubble_fraction == pytest.approx(((p - 1) / (m + p - 1),) * p)
        in_flight = tuple(min(m, p - i) for i in range(p)) if kind is ONE_F_ONE_B else (m,) * p
        assert schedule.peak_in_flight == in_flight


@given(st.lists(st.tuples(halves, halves), min_size=1, max_size=6), st.integers(1, 9))
def test_1f1b_of_a_pipeline_is_never_faster_than_its_devices_allow(
    stages: list[tuple[float, float]], count: int
) -> None:
    """max_i [sum of F before i + m (F_i + B_i) + sum of B before i], and the order of warm-up, pairs and rest."""
    p = len(stages)
    graph = training_chain([f for f, _ in stages], [b for _, b in stages])
    schedule = simulate(graph, Deployment(p), one_node_per_device(graph), ONE_F_ONE_B, count)
    before = [(sum(f for f, _ in stages[:i]), sum(b for _, b in stages[:i])) for i in range(p)]
    bound = max(before[i][0] + count * (f + b) + before[i][1] for i, (f, b) in enumerate(stages))
    assert schedule.makespan_ms >= bound
    for i in range(p):
        warm_up = min(count, p - 1 - i)
        expected = "F" * warm_up + "FB" * (count - warm_up) + "B" * warm_up
        ran = [slot.direction for slot in slots_of(schedule, i)]
        assert "".join("F" if direction is Pass.FORWARD else "B" for direction in ran) == expected


def test_1f1b_may_take_longer_or_shorter_than_the_formula_for_gpipe_suggests() -> None:
    """Sum + (m-1) max is exact for GPipe; for 1F1B with unequal stages it bounds nothing, hence the simulation."""
    for forward, backward, expected in (((2, 7, 1), (6, 3, 1), 41.0), ((4, 1, 1), (4, 1, 1), 24.0)):
        graph = training_chain(forward, backward)
        schedule = simulate(graph, Deployment(3), one_node_per_device(graph), ONE_F_ONE_B, 3)
        formula = sum(forward) + sum(backward) + 2 * max(f + b for f, b in zip(forward, backward, strict=True))
        assert schedule.makespan_ms == expected
        assert formula == {41.0: 40, 24.0: 28}[expected]


def test_a_device_without_a_backward_or_a_forward_pass_joins_in() -> None:
    """A frozen first layer on accelerator 1, an optimiser-like last node on accelerator 3."""
    graph = DnnGraph(
        (
            Node(1, 1.0, 1.0),
            Node(2, 2.0, 2.0),
            Node(3, 3.0, 3.0, is_backward=True),
            Node(4, 1.0, 1.0, is_backward=True),
        ),
        (Edge(1, 2), Edge(2, 3), Edge(3, 4)),
    )
    split = Split((frozenset({1}), frozenset({2, 3}), frozenset({4})))
    schedule = simulate(graph, Deployment(3), split, ONE_F_ONE_B, 9)
    assert schedule.period_ms == 5.0
    assert schedule_text(schedule).splitlines()[0] == "device 0: " + " ".join(f"0F{n}" for n in range(9))
    assert schedule.peak_in_flight[2] == 1


def test_a_backward_pass_that_runs_along_the_forward_pass_is_taken_at_its_word() -> None:
    """As in two of the paper's files: no order serves both passes, so each stage runs as deep as its inputs ask."""
    nodes = [Node(v, 1.0, 1.0) for v in (1, 2, 3)] + [Node(v, 2.0, 2.0, is_backward=True) for v in (4, 5, 6)]
    graph = DnnGraph(tuple(nodes), (Edge(1, 2), Edge(2, 3), Edge(4, 5), Edge(5, 6)))
    schedule = simulate(graph, Deployment(3), one_node_per_device(graph), ONE_F_ONE_B, 9)
    assert [(stage.notation, stage.depth) for stage in schedule.stages] == [
        *(("0F", 0), ("1F", 1), ("2F", 2)),
        *(("0B", 0), ("1B", 1), ("2B", 2)),
    ]
    assert schedule.period_ms == 3.0
    assert schedule.peak_in_flight == (1, 1, 1)


def test_warm_up_ends_when_every_device_with_work_computes() -> None:
    graph = chain((5, 1, 1), transfer_ms=0.5)
    schedule = simulate(graph, Deployment(4), one_node_per_device(graph), INFERENCE, 3)
    assert schedule.warm_up_ms == (5 + 0.5) + (0.5 + 1 + 0.5) + 0.5
    assert simulate(chain((2,)), Deployment(2), Split((frozenset({1}),)), INFERENCE, 3).warm_up_ms == 0.0


def test_idle_devices_are_listed_and_have_no_bubble() -> None:
    schedule = simulate(chain((1,)), Deployment(2, 1), Split((frozenset({1}),)), INFERENCE, 4)
    assert schedule.bubble_fraction == (0.0, None, None)
    assert schedule.peak_in_flight == (1, 0, 0)
    assert [[(p.time_ms, p.in_flight, p.memory_bytes) for p in points] for points in schedule.memory] == [
        [(0.0, 1, 1.0), (4.0, 0, 1.0)],
        [(0.0, 0, 0.0)],
        [(0.0, 0, 0.0)],
    ]


def with_activations(graph: DnnGraph, parameter_bytes: float, activation_bytes: float) -> DnnGraph:
    nodes = tuple(
        replace(node, memory_bytes=parameter_bytes + activation_bytes, activation_bytes=activation_bytes)
        for node in graph.nodes
    )
    return DnnGraph(nodes, graph.edges)


def test_memory_grows_with_the_micro_batches_in_flight() -> None:
    graph = with_activations(training_chain((1, 1), (1, 1)), parameter_bytes=100, activation_bytes=10)
    schedule = simulate(graph, Deployment(2), one_node_per_device(graph), ONE_F_ONE_B, 2)
    # Two nodes: 200 bytes of parameters and 10 for the backward node, 10 per micro-batch for the forward one.
    assert [(p.time_ms, p.in_flight, p.memory_bytes) for p in schedule.memory[0]] == [
        (0.0, 1, 220.0),
        (1.0, 2, 230.0),
        (4.0, 1, 220.0),
        (6.0, 0, 210.0),
    ]


@given(cases(), st.integers(1, 6))
def test_memory_of_one_micro_batch_is_what_the_evaluator_counts(case: Case, count: int) -> None:
    graph, deployment, split, kind = case
    graph = with_activations(graph, 3.0, 2.0)
    schedule = simulate(graph, deployment, split, kind, count)
    for device in split_costs(graph, deployment, split).devices:
        forward = sum(not graph.node_by_id[v].is_backward for v in split.devices[device.device])
        for point in schedule.memory[device.device]:
            assert point.memory_bytes == device.memory_bytes + (point.in_flight - 1) * 2.0 * forward
            assert point.in_flight <= schedule.peak_in_flight[device.device]
        assert schedule.memory[device.device][-1].in_flight == 0


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5),
    st.integers(1, 7),
)
def test_a_pipeline_peaks_at_the_memory_of_its_schedule(stages: list[tuple[int, int, int]], count: int) -> None:
    """A stage per node of a training chain; times, activations and the rest of the sizes differ."""
    plain = training_chain([time for time, _, _ in stages], [2 * time for time, _, _ in stages], transfer_ms=1.0)
    sizes = {v: (held, rest) for v, (_, held, rest) in enumerate(stages, start=1)}
    nodes = []
    for node in plain.nodes:
        held, rest = sizes.get(node.id, (1, 2))
        nodes.append(replace(node, memory_bytes=float(held + rest), activation_bytes=float(held)))
    graph = DnnGraph(tuple(nodes), plain.edges)
    split = one_node_per_device(graph)
    for kind, in_flight in ((GPIPE, InFlight.GPIPE), (ONE_F_ONE_B, InFlight.ONE_F_ONE_B)):
        deployment = Deployment(len(stages), training_memory=TrainingMemory(in_flight, count))
        schedule = simulate(graph, deployment, split, kind, count)
        peaks = [max(point.memory_bytes for point in points) for points in schedule.memory]
        assert peaks == [device.memory_bytes for device in split_costs(graph, deployment, split).devices]


@pytest.mark.parametrize("activation_bytes", [None, 7.0])
def test_memory_is_constant_where_activations_are_unknown_or_do_not_fit_the_total(
    activation_bytes: float | None,
) -> None:
    graph = with_activations(chain((1, 1)), 1.0, 2.0)
    graph = DnnGraph((replace(graph.nodes[0], activation_bytes=activation_bytes), graph.nodes[1]), graph.edges)
    schedule = simulate(graph, Deployment(1), Split((frozenset({1, 2}),)), INFERENCE, 3)
    assert {point.memory_bytes for point in schedule.memory[0]} == {6.0}


def test_at_least_one_micro_batch_is_needed() -> None:
    with pytest.raises(ScheduleError, match="0 micro-batches: give a number of at least 1"):
        simulate(chain((1,)), Deployment(1), Split((frozenset({1}),)), INFERENCE, 0)


def timeline(schedule: Schedule) -> str:
    """Write when each device does what: 'receive' as '>', 'send' as '<', as in '>1F0@2' at 2 ms."""
    sign = {SlotKind.RECEIVE: ">", SlotKind.COMPUTE: "", SlotKind.SEND: "<"}
    lines: dict[int, list[str]] = {}
    for slot in schedule.slots:
        action = f"{sign[slot.kind]}{schedule.stages[slot.stage].notation}{slot.micro_batch}@{slot.start_ms:g}"
        lines.setdefault(slot.device, []).append(action)
    return "\n".join(f"device {d}: {' '.join(lines[d])}" for d in sorted(lines))


def golden_text() -> str:
    """Return the orders of a few known schedules."""
    pipeline = training_chain((1, 1, 1, 1), (2, 2, 2, 2))
    per_device = one_node_per_device(pipeline)
    crossing = Split((frozenset({1, 4}), frozenset({2, 3})))
    witness = with_backward(convex_witness())
    twins = Split((frozenset({1, 4, 5, 8}), frozenset({2, 3, 6, 7})))
    sending = chain((2, 3, 2), transfer_ms=0.5)
    runs = {
        "inference, 3 stages, 3 micro-batches": simulate(
            sending, Deployment(3), one_node_per_device(sending), INFERENCE, 3
        ),
        "gpipe, 4 stages, 4 micro-batches": simulate(pipeline, Deployment(4), per_device, GPIPE, 4),
        "1f1b, 4 stages, 6 micro-batches": simulate(pipeline, Deployment(4), per_device, ONE_F_ONE_B, 6),
        "1f1b, 4 stages, 2 micro-batches": simulate(pipeline, Deployment(4), per_device, ONE_F_ONE_B, 2),
        "inference, data circles between 2 devices, 4 micro-batches": simulate(
            convex_witness(), Deployment(2), crossing, INFERENCE, 4
        ),
        "gpipe, data circles between 2 devices, 3 micro-batches": simulate(witness, Deployment(2), twins, GPIPE, 3),
        "1f1b, data circles between 2 devices, 6 micro-batches": simulate(
            witness, Deployment(2), twins, ONE_F_ONE_B, 6
        ),
    }
    for kind, title in ((ScheduleKind.ZB_H1, "zb-h1"), (ScheduleKind.UNPIPELINED, "unpipelined")):
        count = 8 if kind is ScheduleKind.ZB_H1 else 2
        runs[f"{title}, 4 stages, {count} micro-batches"] = simulate(pipeline, Deployment(4), per_device, kind, count)
    for kind, title in ((ScheduleKind.INTERLEAVED, "interleaved"), (ScheduleKind.ZB_V, "zb-v")):
        looped = training_chain([1] * 8, [2] * 8)
        halves_of = Split.from_device_of({v: (v - 1) % 8 // 2 for v in looped.node_by_id}, Deployment(4))
        chunks = looped_split(looped, Deployment(4), halves_of, 2, kind)
        run = simulate(looped, Deployment(4), chunks, kind, 8)
        runs[f"{title}, 4 devices of 2 chunks, 8 micro-batches"] = run
    branches = Split(
        (frozenset({1, 4}), frozenset({2, 3})), (), (), ((frozenset({1}), frozenset({4})), (frozenset({2, 3}),))
    )
    runs["single-stream, two subgraphs on device 0, 2 samples"] = simulate(
        diamond(), Deployment(2, max_subgraphs=2), branches, ScheduleKind.SINGLE_STREAM, 2
    )
    parts = [f"# {title}\n{schedule_text(run)}\n" for title, run in runs.items()]
    first = next(iter(runs))
    parts.append(f"# {first}: times in ms, > receives, < sends\n{timeline(runs[first])}\n")
    return "\n".join(parts)


def test_reviewed_orders() -> None:
    assert golden_text() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.write_text(golden_text(), encoding="utf-8")
