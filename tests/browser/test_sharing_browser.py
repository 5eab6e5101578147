"""An uploaded graph in Chromium: it comes back to its own browser, and to others only by a link that shares it."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.app_page import SOLVE_MS, tiny_graph, upload, wait_for_picture
from tests.support.serving import Address

pytestmark = pytest.mark.browser

NOT_SHARED = "an uploaded file that was not shared"


def opened(context: Any, address: str) -> Any:
    page = context.new_page()
    page.set_default_timeout(SOLVE_MS)
    page.goto(address)
    page.get_by_test_id("stMetric").first.wait_for()
    return page


def with_upload(page: Any, app: str) -> None:
    page.set_default_timeout(SOLVE_MS)
    page.goto(app)
    page.get_by_text("optimal (proven)").wait_for()
    page.get_by_text("Upload", exact=True).click()
    upload(page, "mine.json", json.dumps(tiny_graph("a")).encode())
    wait_for_picture(page, "p.nodes === 2")
    page.wait_for_url(re.compile("graph=.*keep="))


def test_a_strangers_browser_sees_an_upload_by_a_shared_link_only_and_until_it_is_stopped(
    app: Address, chromium_page: Any
) -> None:
    page = chromium_page
    with_upload(page, app)
    (cookie,) = [one for one in page.context.cookies() if one["name"] == "placement_visitor"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert cookie["value"] not in page.url

    strangers = page.context.browser.new_context()
    stranger = opened(strangers, page.url)
    stranger.get_by_text(NOT_SHARED).wait_for()
    wait_for_picture(stranger, "p.nodes === 323")

    page.get_by_role("tab", name="Share and export").click()
    page.get_by_text("opens it in this browser only").wait_for()
    page.get_by_role("button", name="Share this graph").click()
    link = page.locator("code", has_text="shared=").inner_text()
    assert link.startswith(app)

    stranger.goto(link)
    wait_for_picture(stranger, "p.nodes === 2")
    expect(stranger).to_have_url(re.compile("graph="))
    assert "shared=" not in stranger.url
    page.reload()
    wait_for_picture(page, "p.nodes === 2")
    page.get_by_role("tab", name="Share and export").click()
    page.get_by_text("opened once").wait_for()
    page.get_by_role("button", name="Stop sharing").click()
    page.get_by_role("button", name="Share this graph").wait_for()

    # Who had opened it keeps a copy; for everybody else it is over.
    stranger.reload()
    wait_for_picture(stranger, "p.nodes === 2")
    late = opened(page.context.browser.new_context(), link)
    late.get_by_text("does not share a graph any more").wait_for()
    wait_for_picture(late, "p.nodes === 323")
    late.context.close()
    strangers.close()


def test_two_tabs_of_one_browser_keep_apart_what_they_do(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    with_upload(page, app)
    second = opened(page.context, page.url)
    wait_for_picture(second, "p.nodes === 2")
    number = re.compile(r"keep=(\d+)")
    expect(second).not_to_have_url(page.url)
    first_number, second_number = (number.findall(tab.url)[-1] for tab in (page, second))
    assert first_number != second_number
    upload(second, "other.json", json.dumps(tiny_graph("b")).encode())
    second.get_by_role("heading", name="other.json").wait_for()
    graph = re.findall(r"graph=(\w+)", page.url)[-1]
    expect(second).not_to_have_url(re.compile(graph))  # a reload brings back what the address tells
    for tab, name in ((page, "mine.json"), (second, "other.json")):
        tab.reload()
        tab.get_by_role("heading", name=name).wait_for()
