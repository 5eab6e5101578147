"""The replay in the graph of the real app: what moves lies on no text of a box, at any level and moment."""

from typing import Any

import pytest

from tests.support.app_page import SOLVE_MS
from tests.support.picture import Picture

pytestmark = pytest.mark.browser

MOMENTS = tuple(k / 12 for k in range(1, 12))


def overlap(one: list[float], other: list[float]) -> bool:
    return one[0] < other[2] and one[2] > other[0] and one[1] < other[3] and one[3] > other[1]


@pytest.mark.parametrize(
    "query",
    [
        "sample=bert_base_operator_inference",
        "sample=bert_base_operator_training&level=stages",
        "sample=llama3_8b_layer_training",
        "sample=gpt2_xl_layer_training&lanes=yes",
        "sample=teaching_tied_embedding&level=operators",
    ],
)
def test_marks_of_the_replay_cover_no_label(app: str, chromium_page: Any, query: str) -> None:
    page = chromium_page
    page.goto(f"{app}/?{query}")
    page.get_by_text("optimal (proven)").first.wait_for(timeout=SOLVE_MS)
    picture = Picture(page, None)
    picture.wait_for("p.bars > 0 && !p.graphLook.isMoving")
    slider = picture.root.get_by_label("Playhead")
    num_marks = 0
    for moment in MOMENTS:
        slider.evaluate("(input, at) => { input.value = at; input.dispatchEvent(new Event('input')); }", moment)
        picture.wait_for("p.replayMarks().length > 0")
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        texts, marks = picture.get("[p.writtenAreas(), p.replayMarks()]")
        assert texts
        num_marks += len(marks)
        written, at_work = picture.get("p.replayNumbers()")
        assert written == at_work, "each stage at work has its number"
        assert [(text, mark) for text in texts for mark in marks if overlap(text, mark)] == []
    assert num_marks > len(MOMENTS)


def test_a_screen_to_touch_names_no_key(app: str, chromium: Any) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{app}/?sample=teaching_chain")
    hint = page.locator(".replay .hint")
    hint.wait_for(timeout=SOLVE_MS)
    assert hint.inner_text().startswith("Play shows the run")
    context.close()
