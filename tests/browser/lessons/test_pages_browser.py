"""Pages of lessons: keys, presentation, the way back, where a graph stands, and a lesson of one's own."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from explorer.lessons.lattice import ideal_id
from tests.support.app_page import SOLVE_MS
from tests.support.lesson_pages import (
    FIGURES,
    at_step,
    begin,
    box_of,
    figure,
    frame,
    lesson_called,
    open_list,
    predict,
    settled,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser


def test_keys_alone_suffice(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("dynamic_program")
    begin(page, app, lesson)
    page.locator("body").press("n")
    at_step(page, lesson, 2)
    page.locator("body").press("n")
    at_step(page, lesson, 3)
    settled(page)
    # The question: to the options with Tab, an option with an arrow key and Space, then Enter on the button.
    radio = page.get_by_role("radio").first
    radio.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Reveal", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_text(re.compile("You said")).wait_for()
    settled(page)
    # The film: its slider takes arrow keys.
    slider = figure(page).get_by_role("slider", name="Step")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert frame(page) == 3
    page.keyboard.press("End")
    count = int(figure(page).evaluate("root => root.__figure.frames.length"))
    assert frame(page) == count - 1
    expect(figure(page).locator(".say")).to_contain_text("The colours are the plan")
    page.keyboard.press("Home")
    assert frame(page) == 0
    page.locator("body").press("b")
    at_step(page, lesson, 2)
    page.locator("body").press("o")
    page.get_by_text("Each lesson answers one question").wait_for()


def test_a_lesson_is_presented_larger_and_without_notes(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1920, "height": 1080})
    lesson = lesson_called("pipelining")
    begin(page, app, lesson)
    page.locator("body").press("n")
    at_step(page, lesson, 2)
    predict(page, lesson, 2, rightly=True)
    settled(page)
    lanes, paragraph = page.locator("canvas.gantt").first, page.locator(".st-key-lesson_text p").first
    sizes = "e => [parseFloat(getComputedStyle(e).fontSize), e.clientHeight]"
    usual = [one.evaluate(sizes) for one in (lanes, paragraph)]
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    expect(page.get_by_text("Notes for the lecturer")).to_have_count(0)
    expect(page.get_by_role("link", name="Explore")).to_have_count(0)
    eventually(lambda: lanes.evaluate(sizes)[1] >= 1.4 * usual[0][1])
    assert paragraph.evaluate(sizes)[0] >= 1.4 * usual[1][0]
    assert page.get_by_test_id("stMain").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    page.locator("body").press("n")
    at_step(page, lesson, 3)
    page.wait_for_url(re.compile("present=yes"))
    predict(page, lesson, 3, rightly=True)
    settled(page)
    expect(page.locator("canvas.gantt")).to_have_count(2)
    words = page.locator("canvas.gantt").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert not any("No order ends before" in one for one in words), "what a bound is, lesson 8 tells"
    # Both runs, question and answer are on the screen of a projector at once.
    eventually(lambda: page.get_by_test_id("stMain").evaluate("e => e.scrollHeight <= e.clientHeight"))
    page.locator("body").press("p")
    page.get_by_text("Notes for the lecturer").wait_for()
    page.wait_for_url(re.compile("^(?!.*present)"))


def test_on_a_phone_the_diagram_goes_below_its_graph(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("ideals")
    begin(page, app, lesson)
    page.locator("body").press("n")
    at_step(page, lesson, 2)
    settled(page)
    node, ideal = (figure(page).locator(f"[data-mark='{name}']") for name in ("n1", ideal_id(frozenset({1, 2}))))

    def box_of(mark: Locator) -> Any:
        return eventually(mark.bounding_box)  # none while the figure is drawn again

    def is_beside() -> bool:
        of_node, of_ideal = box_of(node), box_of(ideal)
        return bool(of_ideal["x"] > of_node["x"] + of_node["width"])

    assert is_beside()
    page.set_viewport_size({"width": 390, "height": 844})
    eventually(lambda: not is_beside())
    box = box_of(ideal)
    assert box["x"] + box["width"] <= 390
    ideal.click()
    expect(page.get_by_text(re.compile("is the stage"))).to_contain_text("{1, 2}")
    page.set_viewport_size({"width": 1280, "height": 800})
    eventually(is_beside)


@pytest.mark.parametrize("name", ["ideals", "integer_program"])
def test_a_graph_stands_once_on_a_step_beside_what_is_said_of_it(app: str, chromium_page: Any, name: str) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1920, "height": 1080})
    lesson = lesson_called(name)
    begin(page, app, lesson)
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    predict(page, lesson, 1, rightly=False)
    settled(page)
    for v in range(1, 6):
        expect(page.locator(f"[data-mark='n{v}']")).to_have_count(1)
    # Nodes and what lights up with them are seen at once.
    eventually(lambda: figure(page).locator("svg").evaluate("e => e.getBoundingClientRect().height") <= 1080)


def test_back_and_forward_of_the_browser_and_a_reload_keep_the_step_and_the_prediction(
    app: str, chromium_page: Any
) -> None:
    page = chromium_page
    lesson = lesson_called("cuts")
    begin(page, app, lesson)
    predict(page, lesson, 1, rightly=True)
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, 2)
    settled(page)
    page.go_back()
    at_step(page, lesson, 1)
    page.get_by_text("and that is right").wait_for()
    page.go_forward()
    at_step(page, lesson, 2)
    page.wait_for_url(re.compile("keep="))
    other = page.context.new_page()
    other.set_default_timeout(SOLVE_MS)
    address = page.url.replace("step=2", "step=1")
    page.goto("about:blank")
    other.goto(address)
    other.get_by_text("and that is right").wait_for()


def test_a_lesson_of_ones_own_is_opened_and_a_bad_one_is_refused(app: str, chromium_page: Any) -> None:
    page = chromium_page
    open_list(page, app)
    page.get_by_text("A lesson of your own").click()
    own = {
        "format": "placement lesson",
        "version": 1,
        "title": "Mine *and* yours",
        "question": "Does it open?",
        "minutes": 1,
        "setting": {"sample": "teaching_chain"},
        "values": {"work": {"of": "work"}},
        "steps": [
            {
                "title": "Work",
                "text": "Add the times.",
                "figures": [{"show": "graph"}],
                "ask": {"prompt": "How much work is it?", "number": "work", "unit": "ms"},
                "reveal": "All together {work} ms.",
            }
        ],
        "closing": {"question": "So?", "answer": "So it is."},
    }
    bad = {**own, "title": "<b>"}
    for document, said in ((bad, "was not read"), (own, "Add the times.")):
        page.locator("input[type=file]").set_input_files(
            {"name": "lesson.json", "mimeType": "application/json", "buffer": json.dumps(document).encode()}
        )
        page.get_by_text(said).first.wait_for()
    page.get_by_role("heading", name=re.compile(re.escape("Mine *and* yours"))).wait_for()
    page.get_by_role("spinbutton", name=re.compile("^Your prediction")).fill("18")
    page.get_by_role("button", name="Reveal", exact=True).click()
    page.get_by_text("and that is right").wait_for()
    page.get_by_text("All together 18 ms.").wait_for()
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    page.get_by_role("button", name="Open in Explore").click()
    page.get_by_role("heading", name=re.compile("Teaching: a chain")).wait_for()


@pytest.mark.parametrize("name", ["ideals", "fragments", "proof"])
def test_presented_on_a_narrow_screen_the_graph_comes_before_the_answers(
    app: str, chromium_page: Any, name: str
) -> None:
    page = chromium_page
    lesson = lesson_called(name)
    begin(page, app, lesson)
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    parts = (
        page.locator(".st-key-lesson_text"),
        page.locator(FIGURES),
        page.get_by_test_id("stRadio").or_(page.get_by_test_id("stNumberInput")),
    )

    def tops() -> list[float]:
        return [eventually(part.bounding_box)["y"] for part in parts]

    eventually(lambda: tops() == sorted(tops()))
    assert eventually(parts[1].bounding_box)["width"] > 300
    predict(page, lesson, 1, rightly=True)
    settled(page)
    said, figure_after = page.get_by_text("You said"), page.locator(FIGURES)
    expect(figure_after).to_have_count(1)
    if name != "ideals":  # there the graph goes to the diagram, which is the answer
        assert eventually(figure_after.bounding_box)["y"] < eventually(said.bounding_box)["y"]
    assert page.get_by_test_id("stMain").evaluate("e => e.scrollWidth - e.clientWidth") <= 0


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1024, 768)])
def test_the_rows_of_a_presented_program_are_read_from_the_back_of_a_room(
    app: str, chromium_page: Any, width: int, height: int
) -> None:
    page = chromium_page
    lesson = lesson_called("integer_program")
    page.set_viewport_size({"width": width, "height": height})
    begin(page, app, lesson)
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    predict(page, lesson, 1, rightly=True)
    settled(page)
    row = figure(page).locator("[data-mark='r0'] text.text")
    eventually(lambda: box_of(row)["height"] >= 16)
