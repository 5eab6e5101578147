"""A server that ends and is started again, with a page open: nothing that was set is lost, nor what is set next."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.app_page import SOLVE_MS, wait_for_metric
from tests.support.serving import free_port, served

pytestmark = pytest.mark.browser


def test_the_first_change_after_a_restart_counts(chromium: Any) -> None:
    page = chromium.new_page()  # without the fixture: a lost server is an error in the console
    page.set_default_timeout(SOLVE_MS)
    port = free_port()
    start = ["-m", "explorer.launch", "--headless", "--port", str(port)]
    with served(start, port) as address:
        page.goto(f"{address}/?sample=teaching_convex_beats_chain&accelerators=3")
        wait_for_metric(page, "Time per micro-batch", "3 ms")
    with served(start, port):
        expect(page.get_by_text("Connection error")).to_have_count(0, timeout=SOLVE_MS)
        page.wait_for_timeout(3000)  # the page has its connection again some time after that
        box = page.get_by_label("Accelerators", exact=True)
        box.fill("1")
        box.press("Enter")
        wait_for_metric(page, "Time per micro-batch", "8 ms")
        expect(page).to_have_url(re.compile(r"accelerators=1$"))  # written when the page is drawn to its end
        assert box.input_value() == "1"
    page.close()


def test_what_a_restart_has_lost_is_said(chromium: Any) -> None:
    page = chromium.new_page()
    page.set_default_timeout(SOLVE_MS)
    port = free_port()
    start = ["-m", "explorer.launch", "--headless", "--port", str(port)]
    with served(start, port) as address:
        page.goto(f"{address}/?sample=mixtral_8x7b_layer_inference&splits=free&limit=600")
        page.locator(".st-key-solve").get_by_role("button").click()
        expect(page.get_by_text("(running)").first).to_be_visible()
        expect(page).to_have_url(re.compile(r"keep=\d+"))
    with served(start, port):
        expect(page.get_by_text("The server was started again")).to_be_visible(timeout=SOLVE_MS)
        expect(page.get_by_text("This graph has no plan yet. Press Solve.")).to_be_visible()
        expect(page).to_have_url(re.compile(r"splits=free&limit=600$"))
        expect(page.get_by_text("The server was started again")).to_be_visible()
    page.close()
