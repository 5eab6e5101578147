"""A large upload in Chromium: its progress is seen, it can be cancelled, and the page goes on meanwhile."""

import json
import os
import re
import signal
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.state.reading import LARGE_BYTES
from sample_graphs.synthetic import layered
from solvers.formats.graph_json import graph_document
from tests.support.app_page import SOLVE_MS, upload, wait_for_picture
from tests.support.serving import Address
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser


def test_a_large_upload_shows_its_progress_and_can_be_cancelled(app: Address, chromium_page: Any) -> None:
    graph, deployment = layered(20, 13, 15, num_accelerators=4)
    text = json.dumps(graph_document(graph, deployment)).encode()
    text += b" " * max(0, LARGE_BYTES + 1 - len(text))
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(app)
    page.get_by_text("optimal (proven)").wait_for()
    page.get_by_text("Upload", exact=True).click()

    upload(page, "large.json", text)
    os.kill(eventually(lambda: app.reader), signal.SIGSTOP)
    page.get_by_test_id("stProgress").get_by_text("Reading the file").wait_for()
    expect(page.get_by_role("heading", name="BERT")).to_be_visible()
    # The inputs of the graph before still answer.
    box = page.get_by_role("spinbutton", name="Accelerators")
    box.fill("3")
    box.press("Enter")
    page.wait_for_url(re.compile("accelerators=3"))
    page.locator(".st-key-cancel_reading").get_by_role("button").click()  # a solve may have a Cancel of its own
    page.get_by_text("The reading was cancelled").wait_for()
    eventually(lambda: not app.reader)
    expect(page.get_by_role("heading", name="BERT")).to_be_visible()

    upload(page, "again.json", text)
    page.get_by_role("heading", name="again.json").wait_for()
    wait_for_picture(page, f"p.nodes === {len(graph.nodes)}")
    page.wait_for_url(re.compile("graph=.*keep="))
    page.reload()
    page.get_by_role("heading", name="again.json").wait_for()
