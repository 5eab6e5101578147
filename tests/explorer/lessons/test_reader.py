"""Lessons as JSON: what is read, and the one sentence that says what is wrong."""

import copy
import json
import re
from contextlib import suppress
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.lessons import reader
from explorer.lessons.catalogue import COURSE
from explorer.lessons.named_figures import FIGURES, VALUES
from explorer.lessons.reader import MAX_STEPS, MAX_TEXT, LessonError, read_lesson
from tests.support.root import ROOT

SMALL: dict[str, Any] = {
    "format": "placement lesson",
    "version": 1,
    "title": "A small lesson",
    "question": "What is it about?",
    "minutes": 5,
    "setting": {"sample": "teaching_chain", "accelerators": 2},
    "values": {"best": {"of": "time"}, "work": {"of": "work"}},
    "steps": [
        {
            "title": "Only step",
            "text": "The work is {work} ms.",
            "figures": [{"show": "graph"}, {"show": "timeline", "schedule": "inference", "micro_batches": 4}],
            "ask": {"prompt": "How long?", "number": "best", "unit": "ms"},
            "reveal": "It is {best} ms.",
        }
    ],
    "closing": {"question": "What?", "answer": "That."},
}


def text_of(document: Any) -> bytes:
    return json.dumps(document).encode()


def changed(path: tuple[Any, ...], value: Any) -> bytes:
    document = copy.deepcopy(SMALL)
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return text_of(document)


def test_a_small_lesson_is_read() -> None:
    lesson = read_lesson(text_of(SMALL), "own")
    assert (lesson.name, lesson.title, lesson.num_steps) == ("own", "A small lesson", 2)
    assert lesson.setting == {"sample": "teaching_chain", "accelerators": "2"}
    assert lesson.steps[0].draw is not None
    assert lesson.steps[0].after is None


@pytest.mark.parametrize("text", ["x[1,2] (is 0 or 1)", "ratio 3:4, `[1]`", "{1, 2}, {best} ms", "a_b * c, 5 < 6"])
def test_plain_texts_of_mathematics_are_read(text: str) -> None:
    read_lesson(changed(("steps", 0, "text"), text), "own")


def test_the_guide_shows_a_lesson_that_is_read_and_names_all_figures_and_values() -> None:
    guide = (ROOT / "docs" / "tutorials" / "a-class.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    assert read_lesson(example.encode(), "own").title == "A first lesson"
    for name in (*FIGURES, *VALUES):
        assert f"`{name}`" in guide, name
    for lesson in COURSE:
        assert f"| {lesson.title} |" in guide, lesson.title


@pytest.mark.parametrize("name", ["fragments", "proof"])
def test_two_lessons_of_the_course_are_written_in_the_format(name: str) -> None:
    text = (files("explorer") / "lessons" / "course" / f"{name}.json").read_bytes()
    assert read_lesson(text, name).num_steps > 4


NODE = {"supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 0}
GRAPH = {"maxFPGAs": 2, "maxCPUs": 0, "nodes": [{"id": 1, **NODE}, {"id": 2, **NODE}], "edges": []}


def test_a_lesson_brings_a_graph_of_its_own() -> None:
    document = {**SMALL, "graph": GRAPH, "setting": {"accelerators": 1}}
    lesson = read_lesson(text_of(document), "own")
    assert lesson.own is not None
    assert len(lesson.own.graph.nodes) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "is empty"),
        (b"[]", "must be an object"),
        (b"{", "not valid JSON"),
        (text_of({}), "must say"),
        (changed(("version",), 2), "must say"),
        (changed(("colour",), 1), "'colour'"),
        (changed(("title",), "a\nb"), "one line"),
        (changed(("minutes",), True), "'minutes'"),
        (changed(("minutes",), 0), "'minutes'"),
        (changed(("steps",), []), "'steps' must be a list of 1 to"),
        (changed(("steps",), SMALL["steps"] * (MAX_STEPS + 1)), "'steps' must be a list"),
        (changed(("steps", 0, "text"), 5), "step 1: 'text' must be a text"),
        (changed(("steps", 0, "text"), "x" * (MAX_TEXT + 1)), "step 1: 'text' has"),
        (changed(("steps", 0, "text"), "![a](http://b/c.png)"), "without images"),
        (changed(("steps", 0, "text"), "<img src=x onerror=alert(1)>"), "without images"),
        (changed(("steps", 0, "text"), "see [here](evil)"), "without images"),
        (changed(("steps", 0, "text"), "[a]: //evil.example"), "without images"),
        (changed(("steps", 0, "text"), "HTTPS://evil.example"), "without images"),
        (changed(("steps", 0, "text"), "go to www.evil.example"), "without images"),
        (changed(("steps", 0, "text"), "write to me@evil.example"), "without images"),
        (changed(("steps", 0, "text"), "h&#116;tps&colon;//evil.example"), "without images"),
        (changed(("steps", 0, "ask", "prompt"), "{nothing} ms?"), "{nothing}"),
        (changed(("steps", 0, "reveal"), "{nothing} ms"), "{nothing}"),
        (changed(("steps", 0, "figures", 0, "show"), "movie"), "'show' must be one of graph"),
        (changed(("steps", 0, "figures", 0, "setting"), {"sample": "none_such"}), "none_such"),
        (changed(("steps", 0, "figures", 1, "micro_batches"), 10**6), "'micro_batches'"),
        (changed(("steps", 0, "figures", 1, "schedule"), "magic"), "'schedule'"),
        (changed(("steps", 0, "ask", "number"), "worst"), "'worst'"),
        (changed(("steps", 0, "ask", "number"), None), "must be a number"),
        (changed(("steps", 0, "ask", "choice"), 1), "either 'number' or 'choice'"),
        (changed(("steps", 0, "ask", "tolerance"), 2), "'tolerance'"),
        (changed(("values", "best", "of"), "beauty"), "'of' must be one of time"),
        (changed(("values", "Best!"), {"of": "time"}), "small letters"),
        (changed(("setting",), {"accelerators": 2}), "there is no graph"),
        (changed(("setting",), {"sample": "teaching_chain", "speed": 2}), "'setting'"),
        (changed(("setting",), {"sample": "teaching_chain", "keep": 2345}), "graph, hardware and solver only"),
        (changed(("graph",), {"nodes": []}), "'graph'"),
        (changed(("closing",), "x"), "'closing' must be an object"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text: bytes, sentence: str) -> None:
    with pytest.raises(LessonError) as error:
        read_lesson(text, "own")
    said = str(error.value)
    assert sentence in said
    assert "\n" not in said
    assert said.endswith(".")
    assert len(said) < 400


def test_a_file_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_FILE_BYTES", 2**20)
    with pytest.raises(LessonError, match="too long"):
        read_lesson(b" " * (2**20 + 1), "own")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        ("title",), ("graph",), ("setting",), ("values",), ("values", "best"), ("steps",), ("steps", 0), ("closing",),
        ("steps", 0, "figures"), ("steps", 0, "figures", 0), ("steps", 0, "ask"), ("steps", 0, "ask", "options"),
        ("exercises",), ("notes",), ("minutes",),
    ]
)  # fmt: skip


@given(PATHS, JSON)
def test_no_file_is_more_than_refused(path: tuple[Any, ...], value: Any) -> None:
    with suppress(LessonError):
        read_lesson(changed(path, value), "own")
