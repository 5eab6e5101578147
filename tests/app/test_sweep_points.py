"""A point of a sweep opened in the explorer asks the same question there and has the same value."""

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.jobs.server_pool import solver_pool
from explorer.jobs.sweep_run import SweepRun
from explorer.state.query import from_query, to_query
from explorer.state.records import Subject, Sweep
from explorer.sweep.address import axis_named, link_of, link_to_point, subject_of_link
from explorer.sweep.choice import SweepChoice, axis_of, quantities
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.errors import PlacementError
from solvers.model.split import Family
from solvers.sweep.axes import Quantity, Varied
from solvers.sweep.run import run_sweep
from tests.support.opened_app import APP, QUERIES, solved
from tests.support.sweeps import threads
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("solver_processes")

GNMT, LAYERS = "gnmt_layer_inference", "llama3_8b_layer_inference"


def explored(query: dict[str, str]) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    for name, value in query.items():
        app.query_params[name] = value
    return solved(app.run())


def chosen(query: dict[str, str], axes: dict[str, str], **plans: Any) -> SweepChoice:
    subject, said = subject_of_link(link_of(query)[0])
    assert said == ()
    read = [(axis_named(name), text) for name, text in axes.items()]
    assert all(varied is not None for varied, _ in read)
    found = tuple(axis_of(varied, text, subject) for varied, text in read if isinstance(varied, Varied))
    plans = {"family": Family.CHAIN, "method": "auto", "time_limit_s": 60.0, **plans}
    return SweepChoice(subject, found, on_cluster=False, asks_to_start=True, **plans)


def rounded(deployment: Deployment) -> Deployment:
    """Leave out digits that depend on the order in which speeds of links are divided by each other."""
    classes = (replace(one, link_speed=round(one.link_speed, 12)) for one in deployment.classes)
    return replace(deployment, classes=tuple(classes))


MIX = "2xA100-80:link=nvlink3+1xT4:link=pcie3-x16"
CASES: list[tuple[dict[str, str], dict[str, str], dict[str, Any]]] = [
    ({"sample": GNMT, "cpus": "0"}, {"accelerators": "2,5", "memory": "0.5,16"}, {"time_limit_s": 7.0}),
    ({"sample": GNMT, "transfers": "overlapped"}, {"bandwidth": "0.3,7", "accelerators": "3,4"}, {"method": "dp"}),
    ({"sample": GNMT, "devices": MIX, "efficiency": "40"}, {"count:T4": "0,3", "count:A100-80": "0,2"}, {}),
    ({"sample": GNMT, "devices": MIX}, {"memory:T4": "0.25,16", "bandwidth:T4": "0.7,24"}, {}),
    ({"sample": GNMT, "devices": MIX}, {"memory:A100-80": "0.1,30.5", "count:T4": "0,4"}, {}),
    (
        {"sample": GNMT, "devices": MIX, "efficiency": "40", "host": "EPYC-9654"},
        {"devices": "H100-SXM:link=nvlink4; 4xL4; 1xA100-80+2xT4", "cpus": "0,2"},
        {},
    ),
    (
        {"sample": "gpt2_xl_layer_training", "in_flight": "yes"},
        {"micro-batches": "2,64", "bandwidth": "5"},
        {},
    ),
    ({"sample": "teaching_chain"}, {"objective": "", "accelerators": "2"}, {}),
    ({"sample": "teaching_convex_beats_chain"}, {"accelerators per server": "2,4", "accelerators": "4"}, {}),
    (
        {"sample": "teaching_convex_beats_chain", "accelerators": "4", "per_server": "2"},
        {"server link speed": "1,2,8", "accelerators per server": "1,2"},
        {},
    ),
    (
        {"sample": "teaching_convex_beats_chain"},
        {"bandwidth factor": "0.5,3"},
        {"family": Family.CONVEX, "method": "ip"},
    ),
    ({"sample": LAYERS, "expressible_in": "vllm"}, {"devices": "2xA100-80; 3xA100-80"}, {}),
    ({"sample": LAYERS, "expressible_in": "vllm"}, {"accelerators": "2,3"}, {}),
]


@pytest.mark.parametrize(("query", "axes", "plans"), CASES)
def test_explore_asks_the_question_of_the_point_and_finds_its_value(
    query: dict[str, str], axes: dict[str, str], plans: dict[str, Any]
) -> None:
    choice = chosen(query, axes, **plans)
    spec = choice.spec()
    found = {answer.index: answer.result for answer in run_sweep(spec, threads)}
    for index in {min(found), max(found)}:
        asked = spec.asked(index)
        query = to_query(link_to_point(spec, choice.subject, index))
        app = explored(query)
        assert {name: value for name, value in app.query_params.items() if name != "keep"} == query
        assert not app.warning or "memory" in app.warning[0].value
        question = app.session_state["subject_of_explore"].question
        assert question.graph_digest == asked.graph.digest
        assert rounded(question.deployment) == rounded(asked.deployment)
        assert (question.objective, question.method) == (asked.objective, spec.method)
        assert question.time_limit_s == spec.time_limit_s
        if asked.objective != "latency":
            assert question.family is spec.family
        if spec.family is not Family.CHAIN or asked.objective != "throughput":
            solved(app.button(key="solve").click().run())
        value_ms = found[index].value_ms
        if value_ms is None:
            assert "No plan exists" in app.session_state["notice"].message
        else:
            assert app.session_state["plan"].result.value_ms == pytest.approx(value_ms, rel=1e-6)


@pytest.mark.parametrize("query", QUERIES)
def test_an_address_asks_the_same_question_of_a_sweep_as_of_explore(query: dict[str, str]) -> None:
    subject, said = subject_of_link(from_query(query)[0])
    assert said == ()
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert app.session_state["subject_of_explore"].question == subject.question


def test_cpus_vary_only_where_the_framework_runs_on_them() -> None:
    for framework, offered in (("vllm", False), ("device-map", True), ("none", True)):
        subject, _ = subject_of_link(from_query({"sample": LAYERS, "expressible_in": framework})[0])
        assert (Varied(Quantity.CPUS) in quantities(subject)) == offered
    with pytest.raises(PlacementError, match="At 1 CPU: vLLM runs no part of a network on CPUs"):
        chosen({"sample": LAYERS, "expressible_in": "vllm"}, {"cpus": "1"}).spec()


def test_what_explore_cannot_ask_is_said_in_a_sentence() -> None:
    choice = chosen({"sample": GNMT}, {"devices": "2xbig+4xsmall:speed=0.5; 3xbig+4xsmall:speed=0.5"})
    spec = choice.spec()
    with pytest.raises(PlacementError, match="relative to the file's times"):
        link_to_point(spec, choice.subject, (1,))
    assert chosen({"sample": GNMT, "transfers": "overlapped"}, {"cpus": "1"}).spec().deployment.communication is (
        Communication.OVERLAPPED
    )


def test_the_name_of_a_class_is_no_markup_in_the_label_of_its_counts() -> None:
    def page() -> None:
        from explorer.sweep.choice import quantities
        from explorer.sweep.inputs import _values
        from tests.app.test_sweep_points import subject_with_class

        subject = subject_with_class("![T4](https://example.org/a.png)")
        _values(subject, quantities(subject)[0], 1)

    label = AppTest.from_function(page, default_timeout=PATIENCE_S).run().text_input[0].label
    assert label == "Number of \\!\\[T4\\](https\\:\u2060\\/\\/example.org\\/a.png)"


def subject_with_class(name: str) -> Subject:
    subject, _ = subject_of_link(link_of({"sample": "teaching_chain"})[0])
    classes = (DeviceClass(name, 2), DeviceClass("other", 1, speed=2.0))
    return replace(subject, question=replace(subject.question, deployment=Deployment.of_classes(classes)))


@pytest.mark.parametrize(
    ("second", "said"), [("memory", "varies memory twice"), ("count:T4", "number of T4, which this graph")]
)
def test_an_address_whose_second_axis_cannot_be_says_why(second: str, said: str) -> None:
    def page() -> None:
        from explorer.sweep.inputs import sweep_sidebar

        sweep_sidebar()

    app = AppTest.from_function(page, default_timeout=PATIENCE_S)
    for name, value in {"sample": GNMT, "over": "memory", "and": second}.items():
        app.query_params[name] = value
    assert said in " ".join(warning.value for warning in app.run().warning)


def test_the_class_of_an_address_may_be_written_otherwise() -> None:
    def page() -> None:
        from explorer.sweep.inputs import sweep_sidebar

        sweep_sidebar()

    app = AppTest.from_function(page, default_timeout=PATIENCE_S)
    for name, value in {"sample": GNMT, "devices": MIX, "over": "count:t4", "values": "1,2"}.items():
        app.query_params[name] = value
    app.run()
    assert not app.warning
    assert app.session_state["sweep_quantity_1"] == Varied(Quantity.COUNT, "T4")


@pytest.mark.parametrize(
    ("axes", "change", "is_asked"),
    [
        ({"bandwidth": "5,10"}, {"bandwidth": "3"}, True),
        ({"bandwidth": "5,10"}, {"devices": "2xH100-SXM"}, False),
        ({"bandwidth": "5,10"}, {"efficiency": "30"}, False),
        ({"bandwidth": "5,10"}, {"cpus": "1"}, False),
        ({"devices": "2xH100-SXM; 4xL4"}, {"devices": "2xH100-SXM"}, True),
        ({"devices": "2xH100-SXM; 4xL4"}, {"bandwidth": "3"}, True),
        ({"devices": "2xH100-SXM; 4xL4"}, {"efficiency": "30"}, False),
        ({"devices": "2xH100-SXM; 4xL4"}, {"host": "EPYC-9654"}, False),
        ({"devices": "2xH100-SXM; 4xL4"}, {"expressible_in": "megatron"}, False),
        ({"accelerators": "2,4"}, {"efficiency": "30"}, False),
    ],
)
def test_a_sweep_answers_what_is_asked_now_or_not(axes: dict[str, str], change: dict[str, str], is_asked: bool) -> None:
    """What varies counts by its values alone, and times of other devices or by other shares of the peak are others."""
    before = {"sample": LAYERS, "devices": "2xA100-80", "cpus": "0"}
    then, now = chosen(before, axes), chosen({**before, **change}, axes)
    sweep = Sweep(SweepRun(then.spec(), "here", lambda _: True, solver_pool()), then.subject)
    assert then.asks_what(sweep)
    assert now.asks_what(sweep) is is_asked
