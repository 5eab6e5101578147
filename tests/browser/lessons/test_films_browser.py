"""Films of the figures: they play by themselves, on the screen as a whole."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.app_page import picture, wait_for_picture
from tests.support.drawn import RECORD, crossed
from tests.support.lesson_pages import at_step, begin, figure, frame, go_on_to, lesson_called, predict, settled
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser


def test_the_film_plays_by_itself_asks_nothing_of_the_server_and_goes_back_as_it_came(
    app: str, chromium_page: Any
) -> None:
    page = chromium_page
    lesson = lesson_called("dynamic_program")
    begin(page, app, lesson)
    for number in (2, 3):
        page.get_by_role("button", name=re.compile("^Next")).first.click()
        at_step(page, lesson, number)
    page.get_by_role("button", name="Reveal", exact=True).click()
    page.get_by_text("The solver of this app finds the same").wait_for()
    svg = "root.querySelector('svg').outerHTML.replaceAll(' style=\"\"', '')"
    shown = f"root => {svg}"
    first = figure(page).evaluate(shown)
    figure(page).evaluate("root => { root.__figure.pace = 1; }")
    figure(page).get_by_role("button", name="Play").click()
    last = int(figure(page).evaluate("root => root.__figure.frames.length")) - 1
    eventually(lambda: frame(page) == last)
    assert figure(page).evaluate(shown) != first
    # Every way through the frames shows the same at the same place.
    there = figure(page).evaluate(f"root => {{ root.__figure.go(12); return {svg}; }}")
    figure(page).evaluate("root => { root.__figure.go(0); }")
    assert figure(page).evaluate(shown) == first
    back = figure(page).evaluate(f"root => {{ const f = root.__figure; f.go(20); f.go(12); return {svg}; }}")
    assert back == there


@pytest.mark.parametrize(("name", "step"), [("dynamic_program", 4), ("integer_program", 3)])
def test_a_film_that_plays_is_on_the_screen_wholly(app: str, chromium_page: Any, name: str, step: int) -> None:
    page = chromium_page
    lesson = lesson_called(name)
    begin(page, app, lesson)
    go_on_to(page, lesson, step)
    page.get_by_role("button", name="Reveal", exact=True).click()
    page.get_by_text("The solver of this app finds the same").wait_for()

    def is_seen() -> bool:
        return bool(
            figure(page).evaluate(
                """root => [".controls", ".say", "svg"].every(name => {
                const box = root.querySelector(name).getBoundingClientRect();
                return box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth; })"""
            )
        )

    for width, height in ((1280, 800), (1024, 768), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        if width == 1920:
            page.locator("body").press("p")
            page.wait_for_url(re.compile("present=yes"))
            settled(page)
        page.get_by_test_id("stMain").evaluate("e => e.scrollTo(0, 0)")
        figure(page).get_by_role("button", name="Play").click()
        eventually(is_seen)
        figure(page).get_by_role("button", name="Pause").click()


def replay_on_a_phone(page: Any, app: str) -> None:
    lesson = lesson_called("fragments")
    begin(page, app, lesson)
    page.set_viewport_size({"width": 390, "height": 844})
    go_on_to(page, lesson, 4)
    predict(page, lesson, 4, rightly=True)
    settled(page)
    wait_for_picture(page, "p.names && p.names().length === 5")


def test_the_tie_of_a_replay_crosses_no_name_also_where_boxes_are_faded(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.add_init_script(RECORD)
    replay_on_a_phone(page, app)
    page.set_viewport_size({"width": 1280, "height": 800})
    clock = page.get_by_role("slider", name="Playhead")
    for share in (0.1, 0.35, 0.6):
        clock.evaluate(
            """(e, share) => { e.value = e.max * share; e.dispatchEvent(new Event("input", { bubbles: true })); }""",
            share,
        )
        graph = page.locator("canvas").first
        eventually(lambda g=graph: "embedding" in str(g.evaluate("e => e.__drawn?.texts")))
        eventually(lambda g=graph: not {"embedding", "output"} & set(crossed(g)))


def test_the_replay_is_named_on_a_phone_boxes_and_keys(app: str, chromium_page: Any) -> None:
    page = chromium_page
    replay_on_a_phone(page, app)
    eventually(lambda: all(name for _, name in picture(page, "p.names()")))
    assert page.locator(".timeline-head .keys").evaluate("e => e.scrollWidth <= e.clientWidth")


def test_no_line_of_a_timeline_goes_through_what_stands_above_its_lanes(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.add_init_script(RECORD)
    lesson = lesson_called("training")
    begin(page, app, lesson)
    page.set_viewport_size({"width": 390, "height": 844})
    go_on_to(page, lesson, 4)
    predict(page, lesson, 4, rightly=True)
    settled(page)
    lanes = page.locator("canvas.gantt")
    expect(lanes).to_have_count(4)
    for i in range(4):
        eventually(lambda i=i: "bubble" in str(lanes.nth(i).evaluate("e => e.__drawn?.texts")))
        assert crossed(lanes.nth(i), below=30) == []


@pytest.mark.parametrize(("name", "step", "has_graph"), [("training", 3, False), ("fragments", 4, True)])
def test_a_timeline_without_a_graph_promises_no_graph(
    app: str, chromium_page: Any, name: str, step: int, has_graph: bool
) -> None:
    page = chromium_page
    lesson = lesson_called(name)
    begin(page, app, lesson)
    go_on_to(page, lesson, step)
    predict(page, lesson, step, rightly=True)
    settled(page)
    hint = page.locator(".readout .hint").first
    expect(hint).to_be_visible()
    expect(hint).to_have_text(re.compile("^Space plays the run"))
    assert ("graph" in hint.inner_text()) == has_graph
