"""What the timeline of a schedule shows."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from explorer.picture.gantt_message import gantt_message
from explorer.picture.gantt_view import GanttInfo, gantt_info
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.schedule.simulate import Pass, ScheduleKind, SlotKind, simulate
from tests.support.graphs import chain, one_node_per_device, training_chain


def two_stages(num_micro_batches: int = 6, deployment: Deployment | None = None) -> GanttInfo:
    """Return the timeline of 2 ms and 3 ms on two devices, 0.5 ms to pass data on."""
    graph = chain((2.0, 3.0), transfer_ms=0.5)
    deployment = deployment or Deployment(2)
    split = one_node_per_device(graph)
    return gantt_info(simulate(graph, deployment, split, ScheduleKind.INFERENCE, num_micro_batches), deployment)


def test_lanes_and_bars():
    info = two_stages()
    assert [lane.name for lane in info.lanes] == ["Accelerator 1", "Accelerator 2"]
    assert list(info.bars) == sorted(info.bars, key=lambda bar: (bar.lane, bar.start_ms))
    compute = [bar for bar in info.bars if bar.kind is SlotKind.COMPUTE and bar.lane == 0]
    assert [(bar.micro_batch, bar.end_ms - bar.start_ms) for bar in compute] == [(m, 2.0) for m in range(6)]
    assert {bar.kind for bar in info.bars if bar.lane == 1} == {SlotKind.RECEIVE, SlotKind.COMPUTE}


def test_period_is_marked_between_two_like_slots_of_the_busiest_device():
    info = two_stages()
    assert info.period_ms == 3.5
    assert info.period_mark is not None
    assert info.period_mark.lane == 1
    assert info.period_mark.end_ms - info.period_mark.start_ms == pytest.approx(3.5)
    starts = {bar.start_ms for bar in info.bars if bar.lane == 1 and bar.kind is SlotKind.COMPUTE}
    assert {info.period_mark.start_ms, info.period_mark.end_ms} <= starts


def test_no_steady_state_no_mark():
    info = two_stages(num_micro_batches=1)
    assert info.period_ms is None
    assert info.period_mark is None
    assert "no steady period: more micro-batches needed" in info.notes[0]
    assert "no steady period: more micro-batches needed" in info.summary
    assert info.notes[0].startswith("1 micro-batch,")


def test_a_lane_is_over_the_memory_of_its_own_class():
    deployment = Deployment.of_classes(
        (DeviceClass("big", 1, memory_bytes=9.0), DeviceClass("small", 1, memory_bytes=0.5))
    )
    lanes = two_stages(deployment=deployment).lanes
    assert [(lane.name, lane.capacity_bytes, lane.is_over_memory) for lane in lanes] == [
        ("big 1", 9.0, False),
        ("small 1", 0.5, True),
    ]


def test_idle_devices_are_listed_apart():
    info = two_stages(deployment=Deployment(3, 1))
    assert info.idle_devices == (2, 3)
    assert len(info.lanes) == 2


def test_bubble_and_utilisation_add_up():
    for lane in two_stages().lanes:
        assert lane.bubble_fraction is not None
        assert lane.utilisation == pytest.approx(1 - lane.bubble_fraction)


def test_drain_begins_when_the_first_device_is_done():
    info = two_stages()
    assert info.drain_start_ms == max(bar.end_ms for bar in info.bars if bar.lane == 0)
    assert info.warm_up_ms < info.drain_start_ms < info.makespan_ms


def test_warm_up_lasts_until_the_last_device_computes():
    info = two_stages()
    assert info.warm_up_ms == min(bar.start_ms for bar in info.bars if bar.lane == 1 and bar.kind is SlotKind.COMPUTE)


def test_gpipe_has_one_period_for_each_pass_and_no_mark():
    graph = training_chain((1.0, 2.0), (2.0, 4.0))
    deployment = Deployment(2)
    info = gantt_info(simulate(graph, deployment, one_node_per_device(graph), ScheduleKind.GPIPE, 8), deployment)
    assert info.period_mark is None
    assert "forward + backward period 6 ms" in info.summary
    assert "forward + backward period 6 ms" in info.notes[0]
    assert "steady" not in " ".join(info.notes)


def test_without_bounds_nothing_tells_of_them():
    graph = chain((2.0, 3.0))
    schedule = simulate(graph, Deployment(2), one_node_per_device(graph), ScheduleKind.INFERENCE, 4)
    usual = gantt_info(schedule, Deployment(2))
    info = gantt_info(schedule, Deployment(2), title="Two layers", has_bounds=False)
    words = " ".join((info.summary, *info.notes))
    assert "Two layers" in info.summary
    assert not re.search("bound|No order", words)
    assert re.search("bound", " ".join(usual.notes))
    assert re.search("No order ends before", usual.summary)
    assert set(info.notes) < set(usual.notes)
    message = gantt_message(info, None, lambda *_: None)
    assert message["hasBounds"] is False


def test_one_device_neither_warms_up_nor_drains():
    graph = chain((2.0,))
    deployment = Deployment(1)
    info = gantt_info(simulate(graph, deployment, one_node_per_device(graph), ScheduleKind.INFERENCE, 3), deployment)
    assert (info.warm_up_ms, info.drain_start_ms) == (0.0, None)


@pytest.mark.parametrize("kind", [ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B])
def test_training_has_both_passes(kind):
    graph = training_chain((1.0, 2.0), (2.0, 4.0))
    deployment = Deployment(2)
    split = one_node_per_device(graph)
    info = gantt_info(simulate(graph, deployment, split, kind, 5), deployment)
    assert {bar.direction for bar in info.bars} == {Pass.FORWARD, Pass.BACKWARD}
    # A forward stage and the backward stage of the same nodes are one stage to the reader.
    numbers = {(bar.lane, info.stages[bar.stage].number) for bar in info.bars}
    assert len(numbers) == 2


def test_summary_and_notes_name_the_numbers():
    info = two_stages()
    assert "6 micro-batches on 2 devices" in info.summary
    assert info.notes[0] == f"6 micro-batches, makespan {info.makespan_ms:.4g} ms, steady period 3.5 ms."
    for bound in (info.load_bound_ms, info.critical_path_bound_ms):
        assert f"{bound:.4g} ms" in info.summary
        assert f"{bound:.4g} ms" in info.notes[1]


def test_all_assumptions_of_the_schedule_stand_under_the_picture():
    graph = chain((2.0, 3.0), transfer_ms=0.5)
    schedule = simulate(graph, Deployment(2), one_node_per_device(graph), ScheduleKind.INFERENCE, 4)
    assert schedule.assumptions
    assert set(schedule.assumptions) <= set(gantt_info(schedule, Deployment(2)).notes)


@pytest.mark.parametrize("kind", [ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B])
@pytest.mark.parametrize("num_micro_batches", [1, 3, 9])
def test_bounds_lie_within_the_run(kind, num_micro_batches):
    graph = training_chain((1.0, 2.5, 1.5), (2.0, 4.0, 3.0))
    info = gantt_info(
        simulate(graph, Deployment(3), one_node_per_device(graph), kind, num_micro_batches), Deployment(3)
    )
    assert info.load_bound_ms == pytest.approx(num_micro_batches * 6.5)
    assert info.critical_path_bound_ms == pytest.approx(14.0)
    assert max(info.load_bound_ms, info.critical_path_bound_ms) <= info.makespan_ms + 1e-9


def test_critical_bars_cover_the_run_without_a_gap():
    graph = training_chain((1.0, 2.5, 1.5), (2.0, 4.0, 3.0))
    info = gantt_info(
        simulate(graph, Deployment(3), one_node_per_device(graph), ScheduleKind.ONE_F_ONE_B, 5), Deployment(3)
    )
    critical = sorted((bar.start_ms, bar.end_ms) for bar in info.bars if bar.is_critical)
    assert critical[0][0] == 0.0
    assert critical[-1][1] == pytest.approx(info.makespan_ms)
    assert all(end == pytest.approx(start) for (_, end), (start, _) in pairwise(critical))


def test_pieces_of_a_device_are_numbered_along_the_pipeline():
    graph = chain((1.0, 1.0, 1.0, 1.0))
    split = Split.from_device_of({1: 0, 2: 1, 3: 0, 4: 1}, Deployment(2))
    info = gantt_info(simulate(graph, Deployment(2), split, ScheduleKind.INFERENCE, 4), Deployment(2))
    by_number = sorted(zip(info.stages, info.pieces, strict=True), key=lambda pair: pair[0].number)
    assert [(stage.device, piece.piece, piece.num_pieces) for stage, piece in by_number] == [
        (0, 0, 2), (1, 0, 2), (0, 1, 2), (1, 1, 2),
    ]  # fmt: skip


def test_stages_of_a_pipeline_are_the_only_pieces_of_their_devices():
    graph = training_chain((1.0, 2.0), (2.0, 4.0))
    info = gantt_info(
        simulate(graph, Deployment(2), one_node_per_device(graph), ScheduleKind.ONE_F_ONE_B, 4), Deployment(2)
    )
    assert {(piece.piece, piece.num_pieces) for piece in info.pieces} == {(0, 1)}


def test_memory_is_told_only_where_activations_are_known():
    graph = training_chain((1.0, 2.0), (2.0, 4.0))
    split = one_node_per_device(graph)
    known = DnnGraph(tuple(replace(node, memory_bytes=10.0, activation_bytes=4.0) for node in graph.nodes), graph.edges)
    for case, tells in ((graph, False), (known, True)):
        info = gantt_info(simulate(case, Deployment(2), split, ScheduleKind.GPIPE, 5), Deployment(2))
        assert info.tells_memory is tells
        assert [lane.peak_in_flight for lane in info.lanes] == [5, 5]
    # All five micro-batches are in flight: 4 bytes each, and the rest of both nodes once.
    assert [lane.peak_memory_bytes for lane in info.lanes] == [5 * 4.0 + 16.0] * 2


def test_lanes_over_their_memory_are_told():
    graph = training_chain((1.0, 2.0), (2.0, 4.0))
    known = DnnGraph(tuple(replace(node, memory_bytes=10.0, activation_bytes=4.0) for node in graph.nodes), graph.edges)
    deployment = Deployment(2, 0, 30.0)
    info = gantt_info(simulate(known, deployment, one_node_per_device(graph), ScheduleKind.GPIPE, 5), deployment)
    assert [lane.is_over_memory for lane in info.lanes] == [True, True]
    assert "Over memory: Accelerator 1, Accelerator 2." in info.summary


@pytest.mark.parametrize("kind", [ScheduleKind.SINGLE_STREAM, ScheduleKind.UNPIPELINED])
def test_one_micro_batch_at_a_time_neither_fills_nor_drains(kind):
    graph = chain((2.0, 3.0), transfer_ms=0.5)
    info = gantt_info(simulate(graph, Deployment(2), one_node_per_device(graph), kind, 4), Deployment(2))
    assert (info.warm_up_ms, info.drain_start_ms) == (0.0, None)
    assert info.period_ms == pytest.approx(info.critical_path_bound_ms)


def test_lanes_stand_in_the_order_of_the_pipeline_unless_asked_by_device() -> None:
    graph = chain((1.0, 1.0, 1.0))
    deployment = Deployment(2, 1)
    split = Split((frozenset({3}), frozenset({2})), (frozenset({1}),))
    schedule = simulate(graph, deployment, split, ScheduleKind.INFERENCE, 3)
    for by_device, devices in ((False, [2, 1, 0]), (True, [0, 1, 2])):
        info = gantt_info(schedule, deployment, by_device=by_device)
        assert [lane.device for lane in info.lanes] == devices
        assert all(info.stages[bar.stage].device == info.lanes[bar.lane].device for bar in info.bars)
        assert [(bar.lane, bar.start_ms) for bar in info.bars] == sorted((bar.lane, bar.start_ms) for bar in info.bars)
        if info.period_mark is not None:
            assert info.period_mark.lane in range(3)
