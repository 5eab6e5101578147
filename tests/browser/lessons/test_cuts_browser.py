"""The cuts of lesson 2: dragged, clicked, moved by keys and by a finger, and what is drawn of them."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.app_page import SOLVE_MS
from tests.support.lesson_pages import FIGURES, at_step, begin, figure, lesson_called, middle_of, predict, settled
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser


def test_a_cut_is_dragged_to_the_row_below_on_a_phone(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("cuts"))
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson_called("cuts"), 2)
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    first, last = (page.locator(f"[data-mark='cut{i}']") for i in (2, 5))
    eventually(lambda: middle_of(last)[1] > middle_of(first)[1] + 40)
    page.mouse.move(*middle_of(page.locator("[data-mark='cut4']")))
    page.mouse.down()
    page.mouse.move(*middle_of(last), steps=4)
    page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    eventually(lambda: abs(middle_of(page.locator("[data-mark='line4']"))[0] - middle_of(last)[0]) < 4)
    page.mouse.up()
    page.locator("[data-mark='line5']").wait_for(state="attached")
    page.locator("[data-mark='cut5']").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    page.locator("[data-mark='cut4']").focus()
    page.keyboard.press("ArrowLeft")
    page.locator("[data-mark='line3']").wait_for(state="attached")
    page.get_by_text("Loads 8, 5, 11 ms.").wait_for()


def shown_bars(page: Any) -> list[str]:
    """Return the widths of all parts of the bars, the loads beside them, and the colours of the chain."""
    shown: list[str] = figure(page).evaluate(
        "root => [...root.__figure.marks].filter(([id]) => /^(receive|compute|send|load|n[0-9])/.test(id)).map("
        "([id, m]) => [id, m.shape?.getAttribute('width'), m.texts.text.textContent, m.shape?.style.fill].join(' '))"
    )
    return sorted(shown)


def test_cuts_are_moved_by_dragging_by_clicking_and_by_keys(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("cuts")
    begin(page, app, lesson)
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, 2)
    settled(page)
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    start, end = (middle_of(page.locator(f"[data-mark='cut{i}']")) for i in (4, 5))
    line = page.locator("[data-mark='line4']")
    stood, bars = middle_of(line)[0], shown_bars(page)
    half_way = (start[0] + end[0]) / 2 - 6
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(half_way, 20, steps=4)
    eventually(lambda: abs(middle_of(line)[0] - half_way) < 4)
    assert half_way > stood + 10, "the line goes with the pointer between two places"
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    page.mouse.move(*end, steps=4)
    # Before it is let go: the loads, the bars and the chain; and back again.
    page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    meanwhile = shown_bars(page)
    assert meanwhile != bars
    page.mouse.move(*start, steps=4)
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    assert shown_bars(page) == bars
    expect(page.locator("[data-mark='cut4']")).to_have_text(re.compile("✂"))
    page.mouse.move(*end, steps=4)
    page.mouse.up()
    page.locator("[data-mark='line5']").wait_for(state="attached")
    page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    assert shown_bars(page) == meanwhile, "what was shown meanwhile is what the server says"
    page.locator("[data-mark='cut1']").click()
    page.get_by_text(re.compile(r"Loads 6, 13\.5, 3\.5 ms\.")).wait_for()
    page.locator("[data-mark='cut3']").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Loads 11, 8.5, 3.5 ms.").wait_for()
    page.locator("[data-mark='cut5']").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Loads 11, 10, 7 ms.").wait_for()
    page.locator("[data-mark='line4']").wait_for(state="attached")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Loads 11, 8.5, 3.5 ms.").wait_for()
    assert page.evaluate("document.activeElement !== document.body")


def test_a_cut_follows_a_finger(app: str, chromium: Any) -> None:
    context = chromium.new_context(has_touch=True, viewport={"width": 1024, "height": 768})
    try:
        page = context.new_page()
        page.set_default_timeout(SOLVE_MS)
        begin(page, app, lesson_called("cuts"))
        page.get_by_role("button", name=re.compile("^Next")).first.click()
        at_step(page, lesson_called("cuts"), 2)
        settled(page)
        start, end = (middle_of(page.locator(f"[data-mark='cut{i}']")) for i in (4, 5))
        finger = context.new_cdp_session(page)

        def touch(kind: str, *places: tuple[float, float]) -> None:
            points = [{"x": x, "y": y} for x, y in places]
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", start)
        touch("touchMove", ((start[0] + end[0]) / 2, start[1]))
        touch("touchMove", end)
        page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
        expect(page.locator("[data-mark='line4']")).to_have_count(1)
        touch("touchCancel")
        page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
        touch("touchStart", start)
        touch("touchMove", end)
        touch("touchEnd")
        page.locator("[data-mark='line5']").wait_for(state="attached")
        page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    finally:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen_and_figures_have_names(app: str, chromium_page: Any, scheme: str) -> None:
    page = chromium_page
    page.emulate_media(color_scheme=scheme)
    begin(page, app, lesson_called("cuts"))
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson_called("cuts"), 2)
    settled(page)
    wider = "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth; }"
    for width in (1024, 390):
        page.set_viewport_size({"width": width, "height": 768})
        eventually(lambda: page.evaluate(wider) <= 1)
    for one in page.locator(FIGURES).all():
        assert one.locator("svg").get_attribute("aria-label")
        for mark in one.locator("[role=button]").all():
            assert mark.get_attribute("aria-label")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_transfers_are_hatched_alike_in_the_figure_and_in_the_load_bars(
    app: str, chromium_page: Any, scheme: str
) -> None:
    page = chromium_page
    page.emulate_media(color_scheme=scheme)
    lesson = lesson_called("cuts")
    begin(page, app, lesson)
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, 2)
    predict(page, lesson, 2, rightly=False)
    settled(page)
    for part in ("receive", "send"):
        angle, edge = page.locator(f".loads td i.{part}").first.evaluate(
            "e => [getComputedStyle(e).getPropertyValue('--angle'), getComputedStyle(e).borderTopColor]"
        )
        turn, hatch, around = page.locator(FIGURES).first.evaluate(
            """(root, part) => [root.querySelector(`pattern#${part}`).getAttribute("patternTransform"),
            getComputedStyle(root.querySelector(`pattern#${part} path`)).stroke,
            getComputedStyle(root.querySelector(`.mark.${part} .shape`)).stroke]""",
            part,
        )
        assert hatch == around == edge
        # Stripes of a gradient lie across its angle; those of the pattern are upright before they are turned.
        across = int(angle.removesuffix("deg")) + 90
        assert (across - int(re.findall(r"-?\d+", turn)[0])) % 180 == 0
