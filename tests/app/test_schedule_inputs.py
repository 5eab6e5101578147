"""The timeline's inputs on the page: every schedule can be chosen, and what it needs is asked for and said."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from solvers.parameters.schedule import SCHEDULE
from solvers.schedule.records import INFERENCE_KINDS, LOOPED_KINDS, TRAINING_KINDS, ScheduleKind
from tests.support.opened_app import metrics, number, opened, solved, unescaped

pytestmark = pytest.mark.usefixtures("solver_processes")


def schedule_box(app: AppTest) -> Any:
    return next(box for box in app.selectbox if box.label == "Schedule")


def labels(app: AppTest) -> set[str]:
    return {box.label for box in app.number_input}


def captions(app: AppTest) -> str:
    return unescaped(" ".join(caption.value for caption in app.caption))


def test_every_training_schedule_is_shown_and_only_looped_ones_cut_the_plan_anew() -> None:
    app = opened("gpt2_xl_layer_training")
    assert schedule_box(app).options == [SCHEDULE.names[kind] for kind in TRAINING_KINDS]
    value = metrics(app)["Time per micro-batch"]
    for kind in TRAINING_KINDS:
        schedule_box(app).set_value(kind).run()
        solved(app)
        assert not any("cannot be shown" in info.value for info in app.info), kind
        assert ("cut again" in captions(app)) is (kind in LOOPED_KINDS)
        assert ("Model chunks per device" in labels(app)) is (kind is ScheduleKind.INTERLEAVED)
        assert ("Weight gradients (% of backward)" in labels(app)) is kind.startswith("zb")
        shown = metrics(app)["Time per micro-batch"]  # of a looped schedule, the time of the split that it runs
        if kind in LOOPED_KINDS:
            assert f"{shown} per micro-batch instead of {value}" in captions(app)
        else:
            assert shown == value


def test_micro_batches_that_make_no_groups_are_said_with_a_remedy() -> None:
    app = opened("gpt2_xl_layer_training")
    schedule_box(app).set_value(ScheduleKind.INTERLEAVED).run()
    number(app, "Micro-batches").set_value(13).run()
    (info,) = [info.value for info in app.info if "cannot be shown" in info.value]
    assert "are no whole number of groups; choose" in info
    number(app, "Micro-batches").set_value(8).run()
    number(app, "Model chunks per device").set_value(3).run()
    assert "3 model chunks on each device" in captions(app)


def test_latency_opens_with_a_single_stream() -> None:
    app = opened("teaching_chain")
    assert schedule_box(app).options == [SCHEDULE.names[kind] for kind in INFERENCE_KINDS]
    next(box for box in app.selectbox if box.label == "Minimise time for").set_value("latency").run()
    assert schedule_box(app).value is ScheduleKind.SINGLE_STREAM
    solved(app)
    schedule_box(app).set_value(ScheduleKind.UNPIPELINED).run()
    assert not app.info
