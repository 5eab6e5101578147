"""A sweep in a real browser: progress, Cancel, Resume, and a click on a cell that lands in the explorer."""

import re
from typing import Any

import pytest

pytestmark = pytest.mark.browser

SOLVE_MS = 60_000
SAMPLE = "bert_base_operator_inference"


@pytest.fixture(autouse=True)
def patient(chromium_page: Any) -> None:
    """Wait as long for a page that opens beside busy solvers as for a solve."""
    chromium_page.set_default_timeout(SOLVE_MS)


def choose(page: Any, box: str, option: str) -> None:
    page.get_by_role("combobox", name=re.compile(f"{box}$")).click()
    page.get_by_role("option", name=option).click()


def fill(page: Any, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(text)
    box.press("Enter")


def test_progress_cancel_resume_and_a_click_that_lands_in_the_explorer(app: str, chromium_page: Any) -> None:

    page = chromium_page
    page.goto(f"{app}/?sample={SAMPLE}")
    page.get_by_text("Time per sample", exact=True).first.wait_for()
    page.get_by_role("link", name="Sweep").click()
    page.get_by_text("Choose what varies at the side").wait_for()
    fill(page, "Values of Accelerators", "1:9")
    choose(page, "and", "Bandwidth (GB/s)")
    fill(page, "Values of Bandwidth (GB/s)", "2:64:x2")
    page.wait_for_url(re.compile("and_values=2%3A64%3Ax2"))
    page.get_by_role("button", name="Start the sweep").click()
    page.get_by_text(re.compile(r"^[1-9]\d? of 54 points · \d+ s")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    text = page.get_by_text(re.compile(r"^\d+ of 54 points · \d+ to go")).inner_text()
    done, left = map(int, re.findall(r"(\d+) (?:of|to)", text))
    assert done + left == 54
    assert done >= 1
    page.get_by_role("button", name="Resume").click()
    page.get_by_text(re.compile("54 points in")).wait_for()
    page.get_by_text(re.compile("all optimal, proven")).wait_for()
    page.get_by_role("button", name="Parquet").wait_for()

    plot = page.locator(".draglayer .nsewdrag").first
    plot.scroll_into_view_if_needed()
    area = plot.bounding_box()
    # The cell of 4 accelerators and 16 GB/s: column 4 of 9, row 4 of 6 from below.
    page.mouse.click(area["x"] + area["width"] * 3.5 / 9, area["y"] + area["height"] * 2.5 / 6)
    page.wait_for_url(re.compile(r"/\?.*bandwidth=16"))
    page.get_by_role("button", name="Keep for comparison").wait_for()
    assert page.get_by_label("Accelerators", exact=True).input_value() == "4"
    assert page.get_by_label("Link (GB/s)", exact=True).input_value() == "16"
    page.get_by_text("optimal, proven").first.wait_for()

    page.get_by_role("link", name="Sweep").click()
    page.get_by_text(re.compile("54 points in")).wait_for()


def test_a_reload_keeps_the_sweep_and_an_address_brings_back_what_was_asked(app: str, chromium_page: Any) -> None:
    from playwright.sync_api import expect

    page = chromium_page
    page.goto(f"{app}/?sample=teaching_chain")
    page.get_by_text("Time per sample", exact=True).first.wait_for()
    page.get_by_role("link", name="Sweep").click()
    page.get_by_text("Choose what varies at the side").wait_for()
    fill(page, "Values of Accelerators", "2:7")
    page.get_by_role("button", name="Start the sweep").click()
    page.get_by_text(re.compile("6 points in .* knee at 4 accelerators")).wait_for()
    page.wait_for_url(re.compile("values=2%3A7.*keep="))
    # A deep address first asks for the server's health beneath itself, which is not there; the browser logs that.
    other = page.context.new_page()
    other.set_default_timeout(SOLVE_MS)
    other.goto(re.sub("keep=[^&]*", "", page.url))
    other.get_by_text("Choose what varies at the side").wait_for()
    expect(other.get_by_label("Values of Accelerators", exact=True)).to_have_value("2:7", timeout=SOLVE_MS)
    reloaded = page.context.new_page()
    reloaded.set_default_timeout(SOLVE_MS)
    address = page.url
    page.goto("about:blank")
    reloaded.goto(address)
    reloaded.get_by_text(re.compile("6 points in .* knee at 4 accelerators")).wait_for()
