"""The page and its address: each gives the other, nothing goes in circles, and what cannot be used is said."""

from collections.abc import Callable
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from explorer.edits.history import begin, move
from explorer.state.query import pack_edits
from explorer.state.records import LoadedGraph
from solvers.samples import read_sample
from tests.support.opened_app import QUERIES, address, metrics, number, solved, visited

pytestmark = pytest.mark.usefixtures("solver_processes")


def back(app: AppTest) -> AppTest:
    """Run as the browser asks for it after Back or Forward: with the flag that Streamlit's test does not know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("explorer.state.address.is_back_or_forward", lambda: True)
        return solved(app.run())


def selected(app: AppTest, label: str) -> Any:
    return next(box for box in app.selectbox if box.label == label).value


def test_the_default_page_has_a_bare_address() -> None:
    assert address(visited()) == {}


def test_what_differs_from_the_defaults_is_in_the_address_and_no_more() -> None:
    app = visited(sample="teaching_chain")
    assert address(app) == {"sample": "teaching_chain"}
    solved(number(app, "Accelerators").set_value(2).run())
    assert address(app) == {"sample": "teaching_chain", "accelerators": "2"}
    solved(number(app, "Memory (GiB)").set_value(None).run())
    assert address(app) == {"sample": "teaching_chain", "accelerators": "2", "memory": "none"}
    solved(number(app, "Accelerators").set_value(3).run())
    assert address(app) == {"sample": "teaching_chain", "memory": "none"}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: "-".join(query.values()))
def test_an_address_gives_the_page_and_the_page_the_same_address(query: dict[str, str]) -> None:
    app = visited(**query)
    assert not app.warning
    assert {name: value for name, value in address(app).items() if name != "keep"} == query


def test_values_are_where_they_belong() -> None:
    app = visited(**QUERIES[0])
    assert (number(app, "Accelerators").value, number(app, "Memory (GiB)").value) == (2, None)
    assert (number(app, "Link (GB/s)").value, number(app, "Limit (s)").value) == (3.5, 7)
    app = visited(**QUERIES[1])
    assert (selected(app, "Split type"), selected(app, "Solver")) == ("convex", "ip")


def test_back_and_forward_take_the_inputs_along() -> None:
    app = visited(sample="teaching_convex_beats_chain")
    before = metrics(app)["Time per micro-batch"]
    solved(number(app, "Accelerators").set_value(1).run())
    after = metrics(app)["Time per micro-batch"]
    assert before != after
    app.query_params.pop("accelerators")
    back(app)
    assert (number(app, "Accelerators").value, metrics(app)["Time per micro-batch"]) == (2, before)
    app.query_params["accelerators"] = "1"
    back(app)
    assert (number(app, "Accelerators").value, metrics(app)["Time per micro-batch"]) == (1, after)


def test_a_sample_stays_in_the_address_while_a_file_is_asked_for() -> None:
    app = visited(sample="teaching_chain")
    solved(app.segmented_control(key="source").set_value("Upload").run())
    assert address(app) == {"sample": "teaching_chain"}
    usual = visited()
    solved(usual.segmented_control(key="source").set_value("Upload").run())
    assert address(usual) == {}


def test_inputs_changed_before_the_browser_has_heard_of_the_address_are_not_taken_for_back() -> None:
    app = visited(sample="teaching_convex_beats_chain")
    late = address(app)
    solved(number(app, "Accelerators").set_value(1).run())
    app.query_params.clear()
    app.query_params.update(late)
    solved(number(app, "CPUs").set_value(1).run())
    assert (number(app, "Accelerators").value, number(app, "CPUs").value) == (1, 1)
    assert address(app) == {**late, "accelerators": "1", "cpus": "1"}
    app.query_params.clear()
    app.query_params.update(late)
    solved(app.button(key="solve").click().run())
    assert number(app, "Accelerators").value == 1
    app.query_params.clear()
    app.query_params.update(
        late
    )  # nothing else has changed: a part of the page that looks at a solve asks for this run
    solved(app.run())
    assert (number(app, "Accelerators").value, number(app, "CPUs").value) == (1, 1)
    app.query_params.clear()
    app.query_params.update(late)
    back(app)
    assert (number(app, "Accelerators").value, number(app, "CPUs").value) == (2, 0)


def interrupted(**query: str) -> AppTest:
    """Visit an address with a first run that ends before all of it is taken over, as a click ends it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("explorer.form.sidebar.settle", st.stop)
        return visited(**query)


def test_what_is_clicked_while_the_page_loads_is_not_lost() -> None:
    app = interrupted()
    app.segmented_control(key="source").set_value("Upload")
    assert app.run().get("file_uploader")


def test_a_number_changed_while_an_address_is_taken_over_holds_beside_the_rest_of_it() -> None:
    app = interrupted(sample="teaching_chain", accelerators="3", bandwidth="2")
    number(app, "Accelerators").set_value(2)
    solved(app.run())
    assert address(app) == {"sample": "teaching_chain", "accelerators": "2", "bandwidth": "2"}


def test_what_an_address_asks_in_vain_is_named_and_the_rest_is_used() -> None:
    app = visited(
        sample="teaching_chain",
        accelerators="2",
        cpus="many",
        schedule="gpipe",
        memory="-1",
        nonsense="1",
        replicas="99",
    )
    (warning,) = app.warning
    for word in ("cpus", "whole number", "schedule", "memory", "nonsense", "replicas"):
        assert word in warning.value
    assert number(app, "Accelerators").value == 2
    assert address(app) == {"sample": "teaching_chain", "accelerators": "2"}
    # It was said once; the next address is another matter.
    solved(number(app, "Accelerators").set_value(1).run())
    assert not any("cpus" in warning.value for warning in app.warning)


def test_a_level_that_does_not_exist_is_named_with_those_that_do() -> None:
    app = visited(sample="gpt2_xl_layer_training", level="nodes")
    (warning,) = app.warning
    allowed = "devices, stages, blocks, layers, operators"
    assert warning.value.replace("\\", "") == f"Ignored from the link: level nodes (allowed: {allowed})."
    for level in allowed.split(", "):
        assert not visited(sample="gpt2_xl_layer_training", level=level).warning, level


def test_of_hundreds_of_unknown_parts_a_few_are_named() -> None:
    app = visited(sample="teaching_chain", **{f"x{i}": "1" for i in range(900)})
    (warning,) = app.warning
    assert "and 892 more" in warning.value
    assert len(warning.value) < 1000


def test_a_number_that_is_not_kept_is_told_and_the_inputs_are_used() -> None:
    app = visited(sample="teaching_chain", accelerators="2", keep="1234")
    assert ["not kept" in warning.value for warning in app.warning] == [True]
    assert number(app, "Accelerators").value == 2
    app = visited(graph="0123456789ab", accelerators="2", keep="1234")
    assert ["not shared" in warning.value for warning in app.warning] == [True]
    assert app.selectbox(key="sample").value == "bert_base_operator_inference"
    assert number(app, "Accelerators").value == 4


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Return what says which browser, by its cookie, shows the sessions to come."""

    def show_in(visitor: str | None) -> None:
        monkeypatch.setattr("explorer.plan.reload.current_visitor", lambda: visitor)

    return show_in


def test_a_plan_that_was_asked_for_outlasts_a_reload_in_the_same_browser(
    browser: Callable[[str | None], None],
) -> None:
    browser("m" * 32)
    app = visited(sample="teaching_convex_beats_chain", splits="free")
    solved(app.button(key="solve").click().run())
    value = metrics(app)["Time per micro-batch"]
    again = visited(**address(app))
    assert metrics(again)["Time per micro-batch"] == value
    assert not again.warning
    assert not any("no plan yet" in info.value for info in again.info)
    for stranger in ("s" * 32, None):
        browser(stranger)
        other = visited(**address(app))
        assert ["not kept" in warning.value for warning in other.warning] == [True]
        assert any("no plan yet" in info.value for info in other.info)
        assert other.selectbox(key="sample").value == "teaching_convex_beats_chain"


def test_for_a_browser_without_a_cookie_nothing_is_kept_and_nothing_breaks(
    browser: Callable[[str | None], None],
) -> None:
    browser(None)
    app = visited(sample="teaching_convex_beats_chain", splits="free")
    solved(app.button(key="solve").click().run())
    assert "keep" not in address(app)


def test_edits_are_in_the_address_and_back_takes_them_back() -> None:
    loaded = LoadedGraph(*read_sample("teaching_chain"), "Teaching: a chain")
    app = visited(sample="teaching_chain")
    split = app.session_state["plan"].split
    history = begin(loaded.graph, loaded.deployment, split)
    node = min(split.accelerators[0])
    history, outcome = move(history, loaded.graph, loaded.deployment, [node], 1)
    assert outcome.applied, outcome
    app.session_state["edit_histories"] = {loaded.graph.digest: history}
    app.run()
    edited = address(app)
    value = metrics(app)["Time per micro-batch"]
    again = visited(**{name: text for name, text in edited.items() if name != "keep"})
    assert metrics(again)["Time per micro-batch"] == value
    assert again.session_state["edit_histories"][loaded.graph.digest].places == history.places
    # Back to before the edit: it is taken back, and can be redone.
    again.query_params.pop("edits")
    back(again)
    kept = again.session_state["edit_histories"][loaded.graph.digest]
    assert (kept.is_edited, kept.can_redo) == (False, True)
    again.query_params["edits"] = edited["edits"]
    back(again)
    assert metrics(again)["Time per micro-batch"] == value


def test_an_address_that_comes_late_with_a_click_in_the_picture_is_no_back() -> None:
    app = visited(sample="teaching_chain")
    solved(number(app, "Accelerators").set_value(2).run())
    # The browser had not heard of the address with two accelerators when the picture was clicked.
    app.query_params.clear()
    app.query_params["sample"] = "teaching_chain"
    solved(app.run())
    assert number(app, "Accelerators").value == 2


def test_edits_of_another_graph_are_refused_in_words() -> None:
    packed = pack_edits({"version": 1, "graph": "another", "base": {}, "steps": [], "at": 0})
    app = visited(sample="teaching_chain", edits=packed)
    assert ["belong to another graph" in warning.value for warning in app.warning] == [True]


def test_bundled_graphs_are_examples_for_people_and_samples_in_addresses() -> None:
    app = visited(sample="teaching_chain")
    assert app.segmented_control(key="source").options == ["Example", "Upload"]
    box = app.selectbox(key="sample")
    assert (box.label, box.value) == ("Example graph", "teaching_chain")
    assert address(app)["sample"] == "teaching_chain"
