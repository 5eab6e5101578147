"""Every lesson in a real browser: from beginning to end, presented, and on a phone."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.lessons.catalogue import COURSE
from explorer.lessons.records import Lesson
from tests.support.accessibility import faults
from tests.support.app_page import download
from tests.support.lesson_pages import at_step, begin, cut_off, figure, predict, settled, smallest_letters
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_a_lesson_from_beginning_to_end(app: str, chromium_page: Any, lesson: Lesson) -> None:
    page = chromium_page
    page.emulate_media(color_scheme=("light", "dark")[COURSE.index(lesson) % 2])
    begin(page, app, lesson)
    for number, step in enumerate(lesson.steps, start=1):
        at_step(page, lesson, number)
        settled(page)
        if step.ask is not None:
            assert page.get_by_text("Predict.").count() == 1
            require_no_scrolling_on_a_phone(page)
            predict(page, lesson, number, rightly=number % 2 == 1)
            settled(page)
        if lesson.name == "dynamic_program":
            graphs = 0 if number == 8 else 1  # the last step has tables alone
            assert page.locator("[data-mark='n1']").count() == graphs, "the graph stands there once"
            if number == 8:
                page.get_by_text(
                    re.compile(r"On Inception v3.* keeps .* where the table has 142,728: one in \d+")
                ).wait_for()
        if (lesson.name, number) == ("integer_program", 1):
            figure(page).locator("[data-mark=r0]").hover()
            expect(figure(page).locator("[data-mark=n1]")).to_have_class(re.compile(r"\blit\b"))
            figure(page).locator("[data-mark=n5]").focus()
            expect(figure(page).locator("[data-mark=r4]")).to_have_class(re.compile(r"\blit\b"))
        assert page.get_by_text("was not read").count() == 0
        assert faults(page) == [], f"step {number}"
        eventually(lambda: cut_off(page) == [])
        require_no_scrolling_on_a_phone(page)
        page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, lesson.num_steps)
    page.get_by_role("textbox", name=re.compile("^In your own words")).fill("Because it is so.")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("You wrote: Because it is so.").wait_for()
    page.get_by_text("One way to say it").wait_for()
    if any(step.ask is not None for step in lesson.steps):
        page.get_by_text("Your predictions").wait_for()
    name, sheet = download(page, "Exercise sheet")
    assert name == f"{lesson.name}.html"
    assert b"<h2>Answers" in sheet
    page.get_by_role("button", name=re.compile("^All lessons")).click()
    standing = page.locator(f".st-key-lesson_{lesson.name}")
    expect(standing).to_contain_text("done")
    expect(standing.get_by_role("button", name="Look again")).to_be_visible()


def require_no_scrolling_on_a_phone(page: Any) -> None:
    """Make the window as small as a phone, see that no figure is scrolled sideways or cut off, and make it large again.

    What measures its place before it is drawn, as the figures do, takes the size that the window has then.
    """
    size = page.viewport_size
    page.set_viewport_size({"width": 390, "height": 844})
    fits = "all => all.every(e => e.scrollWidth <= e.clientWidth + 1)"
    eventually(lambda: page.locator(".lesson-figure .scroll, .insight-place").evaluate_all(fits))
    eventually(lambda: page.get_by_test_id("stMain").evaluate("e => e.scrollWidth <= e.clientWidth"))
    eventually(lambda: cut_off(page) == [])
    page.set_viewport_size(size)


BELOW_THE_SCREEN = 120
"""Pixels of a presented step that may lie below a projector's screen."""


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_question_figure_and_answer_of_a_presented_step_are_on_one_screen(
    app: str, chromium_page: Any, lesson: Lesson
) -> None:
    page = chromium_page
    sizes = ((1024, 768), (1920, 1080))
    below = "e => e.scrollHeight - e.clientHeight"
    begin(page, app, lesson)
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    for number, step in enumerate(lesson.steps, start=1):
        at_step(page, lesson, number)
        settled(page)
        if step.ask is not None:
            predict(page, lesson, number, rightly=False)
            settled(page)
        for width, height in sizes:
            page.set_viewport_size({"width": width, "height": height})
            eventually(lambda: page.get_by_test_id("stMain").evaluate(below) <= BELOW_THE_SCREEN)
            eventually(lambda: smallest_letters(page) > 10.9)
            eventually(lambda: cut_off(page) == [])
        page.locator("body").press("n")
