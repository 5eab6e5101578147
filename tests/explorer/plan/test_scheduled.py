"""The schedule of a plan in the app: which split it runs, and what is said where it runs none."""

import pytest

from explorer.picture.gantt_view import KIND_TITLES, gantt_info
from explorer.plan import timeline as scheduled
from explorer.plan.timeline import schedule_of
from explorer.state.choice import ScheduleOptions
from solvers.model.costs import split_costs
from solvers.model.deployment import Communication, Deployment
from solvers.model.split import Split
from solvers.parameters.schedule import SCHEDULE
from solvers.samples import read_sample
from solvers.schedule.records import INFERENCE_KINDS, LOOPED_KINDS, TRAINING_KINDS
from solvers.schedule.simulate import ScheduleKind
from tests.support.graphs import chain, one_node_per_device, training_chain

USUAL = ScheduleOptions()


def test_every_kind_has_a_name_and_a_title() -> None:
    assert set(SCHEDULE.names) == set(KIND_TITLES) == set(ScheduleKind) == {*INFERENCE_KINDS, *TRAINING_KINDS}


@pytest.mark.parametrize("kind", TRAINING_KINDS)
def test_every_training_schedule_of_a_pipeline_can_be_drawn(kind: ScheduleKind) -> None:
    graph = training_chain([1] * 8, [2] * 8, transfer_ms=0.25)
    deployment = Deployment(4)
    split = Split.from_device_of({v: (v - 1) % 8 // 2 for v in graph.node_by_id}, deployment)
    shown = schedule_of(graph, deployment, split, kind, 12, USUAL)
    assert shown.schedule is not None
    assert gantt_info(shown.schedule, deployment).title == KIND_TITLES[kind]
    assert (shown.split == split) is (kind not in LOOPED_KINDS) is (shown.note == "")


def test_the_note_compares_the_cut_pipeline_with_the_plan() -> None:
    graph = training_chain([1] * 8, [2] * 8, transfer_ms=0.25)
    deployment = Deployment(4)
    split = Split.from_device_of({v: (v - 1) % 8 // 2 for v in graph.node_by_id}, deployment)
    shown = schedule_of(graph, deployment, split, ScheduleKind.INTERLEAVED, 12, USUAL)
    planned, cut = (split_costs(graph, deployment, s).max_load_ms for s in (split, shown.split))
    assert (planned, cut) == (7.0, 8.0)
    assert "Interleaved 1F1B runs 2 model chunks on each device" in shown.note
    assert "8 ms per sample instead of 7 ms (+14.3 %)" in shown.note


def test_more_chunks_are_an_option() -> None:
    graph = training_chain([1] * 8, [2] * 8)
    deployment = Deployment(2)
    split = Split.from_device_of({v: (v - 1) % 8 // 4 for v in graph.node_by_id}, deployment)
    shown = schedule_of(graph, deployment, split, ScheduleKind.INTERLEAVED, 4, ScheduleOptions(chunks=4))
    assert shown.schedule is not None
    assert shown.schedule.chunks_per_device == 4
    uneven = schedule_of(graph, deployment, split, ScheduleKind.ZB_H1, 4, ScheduleOptions(weight_gradient_share=0.25))
    assert uneven.schedule is not None
    assert any("25 %" in sentence for sentence in uneven.schedule.assumptions)


def test_what_cannot_be_shown_is_a_sentence_and_the_plan_stays() -> None:
    graph = training_chain([1] * 4, [2] * 4)
    split = one_node_per_device(graph)
    for kind, count, words in (
        (ScheduleKind.INTERLEAVED, 7, "8 chunks need as many parts"),
        (ScheduleKind.SINGLE_STREAM, 4, "choose 1f1b"),
    ):
        shown = schedule_of(graph, Deployment(4), split, kind, count, USUAL)
        assert shown.schedule is None
        assert shown.split == split
        assert words in shown.error
    other = Deployment(4, communication=Communication.OVERLAPPED)
    assert "set communication to sum" in schedule_of(graph, other, split, ScheduleKind.GPIPE, 4, USUAL).error
    line = chain((1, 1))
    assert schedule_of(line, Deployment(2), one_node_per_device(line), ScheduleKind.GPIPE, 4, USUAL).error


def test_a_timeline_of_too_many_runs_is_refused_with_what_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled, "MAX_RUNS", 100)
    graph = training_chain([1] * 8, [2] * 8)
    split = Split(tuple(frozenset({v, v + 1, v + 8, v + 9}) for v in (1, 3, 5, 7)))
    for kind, most in ((ScheduleKind.GPIPE, 12), (ScheduleKind.INTERLEAVED, 6), (ScheduleKind.ZB_V, 4)):
        fitting = most // 4 * 4  # interleaved 1F1B takes rounds of four devices
        assert schedule_of(graph, Deployment(4), split, kind, fitting, USUAL).schedule is not None
        error = schedule_of(graph, Deployment(4), split, kind, 5 * fitting, USUAL).error
        assert f"up to 100 are simulated here; choose up to {most} micro-batches" in error
    monkeypatch.setattr(scheduled, "MAX_RUNS", 7)
    error = schedule_of(graph, Deployment(4), split, ScheduleKind.GPIPE, 1, USUAL).error
    assert error.endswith("choose a plan with fewer stages.")


def test_latency_is_shown_one_sample_at_a_time() -> None:
    graph, deployment = read_sample("teaching_chain")
    split = Split.from_device_of(dict.fromkeys(graph.node_by_id, 0), deployment)
    shown = schedule_of(graph, deployment, split, ScheduleKind.SINGLE_STREAM, 3, USUAL)
    assert shown.schedule is not None
    assert shown.schedule.makespan_ms == pytest.approx(3 * sum(node.accelerator_ms for node in graph.nodes))


def test_the_picture_says_how_much_another_order_could_save() -> None:
    deployment = Deployment(4)
    equal, unequal = training_chain([1] * 4, [2] * 4), training_chain([2, 7, 1, 3], [6, 3, 1, 5])
    for graph, words in ((equal, "ends at the proven lower bound"), (unequal, "could save at most")):
        shown = schedule_of(graph, deployment, one_node_per_device(graph), ScheduleKind.ONE_F_ONE_B, 8, USUAL)
        assert shown.schedule is not None
        assert any(words in sentence for sentence in gantt_info(shown.schedule, deployment).notes)
        assert (shown.schedule.lower_bound_ms == shown.schedule.makespan_ms) is (graph is equal)
