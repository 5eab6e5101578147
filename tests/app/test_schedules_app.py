"""The tab that stacks the schedules of a plan on one axis of time."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from explorer.explore import page
from explorer.explore.schedules import which_ends_first
from explorer.jobs.record import Question
from explorer.state.records import LoadedGraph, Plan
from solvers.model.costs import Objective
from solvers.model.deployment import InFlight, TrainingMemory
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.samples import read_sample
from solvers.schedule.simulate import Schedule, ScheduleKind
from tests.support.messages import unpack
from tests.support.opened_app import metrics, opened, visited


@pytest.mark.parametrize("sample", ["teaching_chain", "unet_operator_training"])
def test_every_schedule_of_a_plan_is_stacked_or_says_why_not(sample: str) -> None:
    app = opened(sample)
    app.session_state["below"] = page.SCHEDULES_TAB
    app.run()
    assert not app.exception
    assert any(" each. " in caption.value and " after " in caption.value for caption in app.caption)


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({ScheduleKind.INFERENCE: 8.0}, "Pipelined inference ends after 8 ms."),
        ({ScheduleKind.ONE_F_ONE_B: 9.0, ScheduleKind.GPIPE: 8.0}, "GPipe ends first, after 8 ms."),
        ({ScheduleKind.ONE_F_ONE_B: 8.0 + 1e-9, ScheduleKind.GPIPE: 8.0}, "All end after 8 ms."),
        (
            {ScheduleKind.ONE_F_ONE_B: 8.0, ScheduleKind.GPIPE: 8.0, ScheduleKind.ZB_H1: 9.0},
            "1F1B and GPipe end first, after 8 ms.",
        ),
    ],
)
def test_the_schedules_that_end_first_are_named_and_none_where_there_is_no_other(
    ends: dict[ScheduleKind, float], said: str
) -> None:
    assert which_ends_first(ends) == said


def test_what_was_chosen_under_a_tab_is_there_again_after_a_look_at_another() -> None:
    app = opened("teaching_chain")
    app.session_state["below"] = "Share and export"
    app.run()
    app.text_area(key="export_notes").set_value("seen by the team").run()
    app.selectbox(key="export_theme").set_value("dark").run()
    app.session_state["below"] = page.SCHEDULES_TAB
    app.run()
    (pills,) = app.pills
    pills.set_value([ScheduleKind.UNPIPELINED]).run()
    app.session_state["below"] = "Explain"
    app.run()
    app.session_state["below"] = page.SCHEDULES_TAB
    app.run()
    assert app.pills[0].value == [ScheduleKind.UNPIPELINED]
    app.session_state["below"] = "Share and export"
    app.run()
    assert not app.exception
    assert app.text_area(key="export_notes").value == "seen by the team"
    assert app.selectbox(key="export_theme").value == "dark"


ONE_F_ONE_B = TrainingMemory(InFlight.ONE_F_ONE_B, 12)


@pytest.mark.parametrize(
    ("memory", "kind", "said"),
    [
        (None, ScheduleKind.GPIPE, "The plan counts one micro-batch; under Assumptions it can count all "),
        (
            ONE_F_ONE_B,
            ScheduleKind.INTERLEAVED,
            "The plan counts what 1F1B keeps in flight; the timeline runs Interleaved 1F1B. ",
        ),
        (replace(ONE_F_ONE_B, num_micro_batches=4), ScheduleKind.ONE_F_ONE_B, "The plan counts 4 micro-batches; the "),
        (ONE_F_ONE_B, ScheduleKind.ONE_F_ONE_B, ""),
    ],
)
def test_a_timeline_that_needs_too_much_memory_is_held_against_what_the_plan_counts(
    memory: TrainingMemory | None, kind: ScheduleKind, said: str
) -> None:
    graph, deployment = read_sample("gpt2_xl_layer_training")
    deployment = replace(deployment, training_memory=memory)
    split = Split.from_device_of({v: i * 2 // len(graph.nodes) for i, v in enumerate(graph.node_by_id)}, deployment)
    result = SolveResult(SolveStatus.FEASIBLE, "dp", Objective.THROUGHPUT, Family.CHAIN, split, 1.0, 1.0, 0.1)
    loaded = LoadedGraph(graph, deployment, "test")
    plan = Plan(Question(graph.digest, deployment), loaded, graph, deployment, result, split)
    schedule = cast("Schedule", SimpleNamespace(kind=kind, num_micro_batches=12))
    found = page._what_is_counted(plan, schedule)
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_a_presentation_of_a_looped_schedule_tells_of_the_plan_that_it_runs() -> None:
    """Which takes longer than the solver's, and of which nothing is proven optimal."""
    app = visited(sample="gpt2_xl_layer_training", schedule="zb-v")
    values = metrics(app)
    header, _ = unpack(app.get("bidi_component")[0].proto.bytes)
    told = header["facts"]
    assert f"Time per micro-batch {values['Time per micro-batch']}" in told
    assert f"{values['Micro-batches/s']} micro-batches/s" in told
    assert "optimal (proven)" not in told
