"""The boards of lesson 10: filled, judged and scored, alone and as a duel."""

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, expect

from explorer.lessons.course.beat_the_solver import ROUNDS, board_name
from explorer.lessons.graphs import chain_device_of
from explorer.state.query import BoardResult, pack_boards
from tests.support.app_page import SOLVE_MS, download
from tests.support.lesson_pages import FIGURES, begin, box_of, cut_off, lesson_called, open_list, place, settled
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

LEAST_LETTERS = 9.5
"""Pixels of the smallest letters of a board, which are the times below the names."""
POINTS = re.compile(r"^\d+ points for")
"""How what is said of a board that was submitted begins."""


def test_a_board_that_is_folded_on_a_phone_is_filled(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("beat_the_solver"))
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    first, last = (page.locator(f"[data-mark='n{v}']") for v in (1, 6))
    eventually(lambda: box_of(last)["y"] > box_of(first)["y"] + 40)
    last.click()
    page.locator("[data-mark='n6'][aria-label$='Accelerator 1']").wait_for()


def test_a_board_is_filled_by_digits_judged_and_scored(app: str, chromium: Any, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("beat_the_solver")
    begin(page, app, lesson)
    settled(page)
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    for node, digit in zip(range(1, 7), "113322", strict=True):
        page.locator(f"[data-mark='n{node}']").focus()
        page.keyboard.press(digit)
        page.locator(f"[data-mark='n{node}'][aria-label$='Accelerator {digit}']").wait_for()
        if node == 3:
            page.get_by_text("3 of 6 nodes are still to be placed. The bars show what the others take.").wait_for()
            expect(page.get_by_text("Accelerator 3", exact=True).first).to_be_visible()
    page.get_by_text("Valid. Time per micro-batch").wait_for()
    page.locator("[data-mark='n1']").focus()
    page.keyboard.press("2")
    page.get_by_text(re.compile("Valid. Time")).wait_for(state="detached")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    page.locator("[data-mark='n1']").focus()
    page.keyboard.press("1")
    page.get_by_text("Valid. Time per micro-batch").wait_for()
    settled(page)  # while the page is drawn a button may stand there twice, at its old place and at its new one
    page.get_by_role("button", name=re.compile("^Hint")).click()
    page.get_by_text("The optimum is 8 ms.").wait_for()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_text("90 points for 8 ms, the plan that you submitted first. You have found the optimum.").wait_for()
    _, table = download(page, "Results (CSV)")
    assert table.decode().splitlines()[1].startswith("1: a chain,1,8,1,")
    page.wait_for_url(re.compile("boards="))
    context = chromium.new_context()
    try:
        other = context.new_page()
        other.goto(page.url)
        other.get_by_text(
            "90 points for 8 ms, the plan that you submitted first. You have found the optimum."
        ).wait_for(timeout=SOLVE_MS)
    finally:
        context.close()


def test_the_first_submission_counts_and_a_duel_shows_nothing_before_both(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("beat_the_solver")
    begin(page, app, lesson)
    settled(page)
    submit = page.get_by_role("button", name="Submit", exact=True)
    place(page, "111123")
    submit.click()
    page.get_by_text("55 points for 14.5 ms, the plan that you submitted first.").wait_for()
    page.wait_for_url(re.compile("boards="))
    address = page.url
    place(page, "113322")
    page.get_by_text("Time per micro-batch: 8 ms").wait_for()
    settled(page)
    expect(submit).to_be_disabled()
    page.get_by_text("55 points for 14.5 ms").wait_for()
    assert page.url == address
    _, table = download(page, "Results (CSV)")
    assert table.decode().splitlines()[0] == "round,player,first_submission_ms,hints,placement"
    assert table.decode().splitlines()[1].startswith("1: a chain,1,14.5,0,1:1 2:1 3:1 4:1 5:2 6:3")
    expect(page.get_by_role("switch", name=re.compile("^Duel"))).to_be_disabled()


def test_in_a_duel_on_a_phone_all_devices_can_be_chosen(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("beat_the_solver"))
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_test_id("stCheckbox").filter(has_text="Duel").locator("label").click()
    page.get_by_text("Player 2", exact=True).wait_for()
    settled(page)
    choices = page.get_by_test_id("stButtonGroup").get_by_role("radiogroup")
    expect(choices).to_have_count(2)
    eventually(lambda: choices.evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth)"))


def test_in_a_duel_the_optimum_waits_for_both(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("beat_the_solver"))
    settled(page)
    page.get_by_test_id("stCheckbox").filter(has_text="Duel").locator("label").click()
    page.get_by_text("Player 2", exact=True).wait_for()
    settled(page)
    expect(page.get_by_role("button", name=re.compile("^Hint"))).to_have_count(0)
    place(page, "111123", 1)
    page.get_by_role("button", name="Submit", exact=True).first.click()
    page.get_by_text("Submitted: 14.5 ms. The solver's answer is shown when both").wait_for()
    settled(page)
    assert page.get_by_text("points for").count() == 0
    assert "boards=" not in page.url, "opened elsewhere, it would tell the answer"
    assert page.get_by_role("button", name="Results (CSV)").count() == 0
    place(page, "113322", 2)
    page.get_by_role("button", name="Submit", exact=True).last.click()
    page.get_by_text("Player 2 wins: 55 to 100 points.").wait_for()
    page.get_by_text("55 points for 14.5 ms").wait_for()
    page.wait_for_url(re.compile("boards="))


def finished_duel(page: Any, app: str, number: int) -> None:
    """Open a round of which both plans came with the address: a chain's cuts at two places, in topological order."""
    one = ROUNDS[number - 1]
    order = one.own.graph.topological_order
    boards = tuple(
        BoardResult(board_name(number, player), 0, tuple(sorted(chain_device_of(order, cuts).items())))
        for player, cuts in ((1, (1, len(order) - 1)), (2, (2, 4)))
    )
    open_list(page, app)  # a deep address first asks for the server's health beneath itself, which the browser logs
    shared = quote(pack_boards(boards))
    page.evaluate(
        """address => { history.pushState({}, "", address); dispatchEvent(new PopStateEvent("popstate")); }""",
        f"{app}/learn?lesson=beat_the_solver&step={number}&boards={shared}",
    )
    page.get_by_text(re.compile("Player . wins: .* points")).wait_for()
    expect(page.get_by_text(POINTS)).to_have_count(2)  # who has won stands there before the boards do
    expect(page.locator(".loads")).to_have_count(2)
    expect(page.locator(FIGURES)).to_have_count(2)
    settled(page)


@pytest.mark.parametrize("number", [1, 5, 8])
def test_a_finished_duel_is_seen_at_once(app: str, chromium_page: Any, number: int) -> None:
    page = chromium_page
    finished_duel(page, app, number)
    parts = [
        *page.locator(FIGURES).all(),
        *page.locator(".loads").all(),
        *page.get_by_text(POINTS).all(),
        page.get_by_text(re.compile("Player . wins: .* points")),
    ]
    assert len(parts) == 7
    for width, height in ((1280, 800), (1024, 768)):
        page.set_viewport_size({"width": width, "height": height})
        eventually(lambda h=height: all(box["y"] >= 0 and box["y"] + box["height"] <= h for box in boxes_of(parts)))
        boards = boxes_of(parts[:2])
        assert boards[0]["y"] == boards[1]["y"], "beside each other"
        assert min(letters(page)) >= LEAST_LETTERS


def test_a_finished_duel_is_read_on_a_phone(app: str, chromium_page: Any) -> None:
    page = chromium_page
    finished_duel(page, app, 8)
    page.set_viewport_size({"width": 390, "height": 844})
    eventually(lambda: page.get_by_test_id("stMain").evaluate("e => e.scrollWidth <= e.clientWidth"))
    eventually(lambda: cut_off(page) == [])
    assert min(letters(page)) >= LEAST_LETTERS
    choices = page.get_by_test_id("stButtonGroup").get_by_role("radiogroup")
    heights = choices.evaluate_all("all => all.map(e => [e.clientHeight, e.firstElementChild.offsetHeight])")
    assert all(whole < 1.5 * one for whole, one in heights), "the devices stand in one row"


def test_the_bars_of_a_finished_duel_are_on_one_scale(app: str, chromium_page: Any) -> None:
    page = chromium_page
    finished_duel(page, app, 8)
    bars = page.locator(".loads").evaluate_all(
        """all => all.map((table) => Math.max(...[...table.querySelectorAll("td.bar > div")].map((bar) =>
          [...bar.querySelectorAll("i")].reduce((sum, part) => sum + part.offsetWidth, 0) / bar.clientWidth)))"""
    )
    said = page.get_by_text(POINTS).all_inner_texts()
    times = [float(re.findall(r"for ([\d.]+)\sms", one)[0]) for one in said]
    assert bars[0] / bars[1] == pytest.approx(times[0] / times[1], rel=0.02)


def boxes_of(parts: list[Locator]) -> list[Any]:
    return [eventually(part.bounding_box) for part in parts]


def letters(page: Any) -> list[float]:
    """Return the sizes in pixels of the letters in all figures, as they are on the screen."""
    sizes: list[float] = page.locator(f"{FIGURES} svg text").evaluate_all(
        "all => all.filter(e => e.textContent).map(e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)"
    )
    return sizes
