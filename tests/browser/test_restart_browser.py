"""A server that ends and is started again, with a page open: nothing that was set is lost, nor what is set next."""

import os
import re
import signal
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from explorer.state.keeper import SHELVE_SECONDS
from tests.support.app_page import SOLVE_MS, wait_for_metric
from tests.support.serving import free_port, served

pytestmark = pytest.mark.browser


def number(standing: Locator, name: str) -> float:
    """Return a number of the headline."""
    return float(standing.get_attribute(name) or "nan")


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


def started_a_solve(page: Page, address: str) -> None:
    """Have a page solve something that takes long, until there is a plan and the server has written it."""
    page.goto(f"{address}/?sample=mixtral_8x7b_layer_inference&splits=free&limit=600")
    page.locator(".st-key-solve").get_by_role("button").click()
    expect(page.get_by_text("(running)").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"keep=\d+"))
    page.wait_for_timeout(1000 * (SHELVE_SECONDS + 3))


def test_a_solve_keeps_its_best_plan_and_bound_when_the_server_is_killed(chromium: Any) -> None:
    page = chromium.new_page()
    page.set_default_timeout(SOLVE_MS)
    port = free_port()
    start = ["-m", "explorer.launch", "--headless", "--port", str(port)]
    with served(start, port) as address:
        started_a_solve(page, address)
        expect(page.get_by_text("Proven lower bound").first).to_be_visible()
        os.kill(address.pid, signal.SIGKILL)
    with served(start, port):
        why = "The server was started again while this was solved; the best plan so far is kept"
        expect(page.locator(".solve-strip").get_by_text(why)).to_be_visible(timeout=SOLVE_MS)
        standing = page.locator(".plan-standing")
        expect(standing).to_have_attribute("data-state", "final")
        assert 0 < number(standing, "data-bound-ms") <= number(standing, "data-value-ms")
    page.close()


def test_what_a_restart_has_lost_is_said(chromium: Any) -> None:
    page = chromium.new_page()
    page.set_default_timeout(SOLVE_MS)
    port = free_port()
    start = ["-m", "explorer.launch", "--headless", "--keep-in-memory", "--port", str(port)]
    with served(start, port) as address:
        started_a_solve(page, address)
    with served(start, port):
        expect(page.get_by_text("The server was started again")).to_be_visible(timeout=SOLVE_MS)
        expect(page.get_by_text("This graph has no plan yet. Press Solve.")).to_be_visible()
        expect(page).to_have_url(re.compile(r"splits=free&limit=600$"))
        expect(page.get_by_text("The server was started again")).to_be_visible()
    page.close()
