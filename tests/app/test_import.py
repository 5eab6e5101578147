"""Published models on the page: by an address, imported in another way, and what cannot be imported."""

import pytest
from streamlit.testing.v1 import AppTest

from explorer.form import importing
from explorer.state.reading import Reading, Request
from explorer.state.records import ModelSource
from tests.support.opened_app import APP, address, metrics, number, solved
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("solver_processes")


def settled(app: AppTest) -> AppTest:
    """Run the page until no import and no solve is under way, and what came of them has been drawn."""
    app.run()
    drawn = None
    for _ in range(20):
        reading = app.session_state["reading"] if "reading" in app.session_state else None  # noqa: SIM401 -- no dict
        if reading is None or reading is drawn:  # over before the last run began
            break
        assert reading.wait(PATIENCE_S)
        drawn = reading
        app.run()
    return solved(app)


def visited(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    for name, value in query.items():
        app.query_params[name] = value
    return settled(app)


def title(app: AppTest) -> str:
    return str(app.session_state["loaded_graph"].graph.name)


@pytest.mark.parametrize(
    "query",
    [
        {"sample": "llama-3.2-1b", "mode": "training", "batch": "4", "sequence": "512", "accelerators": "3"},
        {"sample": "gpt2", "mode": "decode", "context": "900", "precision": "int4", "tied": "copy"},
        {"sample": "bert-base", "granularity": "auto", "most_nodes": "40", "device": "T4", "link": "ethernet-10"},
    ],
    ids=lambda query: query["sample"],
)
def test_an_address_gives_a_model_and_the_page_the_same_address(query: dict[str, str]) -> None:
    app = visited(**query)
    assert not app.error
    assert {name: value for name, value in address(app).items() if name != "keep"} == query
    assert metrics(app)


def test_the_model_imported_in_another_way_keeps_what_else_is_set() -> None:
    app = visited(sample="llama-3.2-1b", accelerators="3", memory="70", transfers="overlapped")
    assert any("24 billion parameters" in caption.value for caption in app.caption)
    before = app.session_state["loaded_graph"].graph.digest
    number(app, "Batch").set_value(7)
    settled(app)
    assert app.session_state["loaded_graph"].graph.digest != before
    kept = {name: value for name, value in address(app).items() if name != "keep"}
    assert kept == {
        "sample": "llama-3.2-1b",
        "batch": "7",
        "accelerators": "3",
        "memory": "70",
        "transfers": "overlapped",
    }
    assert not app.warning


def test_what_cannot_be_imported_is_a_sentence_that_names_the_field_and_leaves_the_graph() -> None:
    app = visited(sample="gpt2", accelerators="2")
    name = title(app)
    number(app, "Sequence (tokens)").set_value(4096)
    settled(app)
    (error,) = app.error
    assert "“Sequence \\(tokens\\)” is 4,096, and the model has positions for 1,024" in error.value
    assert title(app) == name
    number(app, "Sequence (tokens)").set_value(1024)
    settled(app)
    assert not app.error
    assert address(app)["accelerators"] == "2"


def test_an_import_that_takes_long_is_shown_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfinished(source: ModelSource, values: tuple[tuple[str, str], ...], *_: object) -> Reading:
        return Reading(source.key, source.origin, Request(source.key, source.origin, source.title, values))

    monkeypatch.setattr(importing, "PATIENCE_SECONDS", 0.0)
    with monkeypatch.context() as before:
        before.setattr(importing, "read_model", unfinished)
        app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
        app.query_params["sample"], app.query_params["accelerators"] = "gpt2", "3"
        app.run()
        assert not app.exception
        assert [heading.value for heading in app.main.markdown] == ["### GPT\\-2"]
        assert len(app.main.get("progress")) == 1
    app.session_state["reading"]._finish(None, "It was not to be.")
    app.run()
    assert not app.main.get("progress")
    assert any("It was not to be" in error.value for error in app.error)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"sample": "gpt2", "mode": "guess"}, "mode \\(give one of prefill, decode, training\\)"),
        ({"sample": "gpt2", "batch": "0"}, "batch 0 \\(give a whole number from 1 to"),
        ({"sample": "gpt2", "device": "Abacus"}, "device Abacus \\(give one of"),
        ({"sample": "gpt2", "batch": "1000000000000"}, "batch (give a whole number of up to nine digits)"),
        ({"sample": "gpt2", "batch": "NaN"}, "batch (give a whole number)"),
        ({"sample": "gpt2", "dim": "a=1"}, "dim a=1 \\(it has no meaning for these inputs\\)"),
        ({"sample": "gpt-2"}, "sample gpt-2 \\(no example has this name\\)"),
        ({"sample": "teaching_chain", "batch": "4"}, "batch 4 \\(it has no meaning for these inputs\\)"),
    ],
)
def test_what_an_address_asks_in_vain_is_told(query: dict[str, str], told: str) -> None:
    app = visited(**query)
    words = " ".join(warning.value for warning in app.warning).replace("\\", "")
    assert told.replace("\\", "") in words


HOSTILE = (
    "=",
    "batch",
    "batch=",
    "batch=-1",
    "batch=0",
    "batch=1e999",
    "batch=99999999999999999999",
    "batch=999999999",
    "*=*",
    "batch=8, batch=9",
    "unknown=3",
    "<img src=x onerror=alert(1)>=3",
    "batch=__import__('os').system('true')",
    "batch=8\x00",
    "\u202ebatch=8",
    "[x](javascript:alert(1))=2",
    "${batch}=1, `batch`=1, $batch$=1",
    "batch=8, " * 3000,
    "b" * 100_000,
)


def test_whatever_is_typed_for_dimensions_the_page_goes_on() -> None:
    """The one text of an import that is typed freely: refused in a sentence, shown as text, and the next one works."""
    pytest.importorskip("onnx", reason="this test needs the package onnx, which is an optional extra")
    from tests.support.onnx_models import perceptrons

    app = visited()
    app.segmented_control(key="source").set_value("Upload").run()
    app.file_uploader[0].upload("mine.onnx", perceptrons().SerializeToString(), "application/octet-stream")
    settled(app)
    for text in HOSTILE:
        (box,) = (box for box in app.text_input if box.placeholder == "batch=8, *=64")
        box.set_value(text)
        settled(app)
        assert not app.exception, text
        shown = [element.value for element in (*app.error, *app.warning)]
        assert shown, text[:50]
        assert title(app) == "mine", "the graph of before is still there"
        assert all(len(words) < 2000 and "<img" not in words.replace("\\<img", "") for words in shown), text[:50]
    (box,) = (box for box in app.text_input if box.placeholder == "batch=8, *=64")
    box.set_value("batch=8")
    settled(app)
    assert not app.error
    assert title(app) == "mine"
    assert metrics(app)
