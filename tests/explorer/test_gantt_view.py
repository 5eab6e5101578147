"""What the timeline of a schedule shows."""

import pytest

from explorer.gantt_view import GanttInfo, gantt_info
from solvers.deployment import Deployment
from solvers.schedule import Pass, ScheduleKind, SlotKind, simulate
from tests.graphs import chain, one_node_per_device, training_chain


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
    assert "no steady period: more micro-batches needed" in info.assumptions
    assert "no steady period: more micro-batches needed" in info.summary
    assert "1 micro-batch " in info.assumptions


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
    assert "forward + backward period 6 ms" in info.assumptions
    assert "steady" not in info.assumptions


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


def test_summary_and_assumptions_name_the_numbers():
    info = two_stages()
    assert "6 micro-batches on 2 devices" in info.summary
    assert info.assumptions.startswith("receive, compute and send do not overlap · 6 micro-batches")
    assert "steady period 3.5 ms" in info.assumptions
