"""A file that takes long to read, in Chromium: its progress is seen, it can be cancelled, and the page goes on."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.state.reading import LARGE_BYTES
from sample_graphs.synthetic import layered
from solvers.formats.graph_json import graph_document
from tests.support.app_page import SOLVE_MS, rest, search_option, upload, wait_for_picture
from tests.support.serving import Address, free_port, held_reader, hold_readers, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def holding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Start the app such that each file is read when the test resumes its reader."""
    port, environment = free_port(), hold_readers(Path(tmp_path_factory.mktemp("holding")))
    with served(["-m", "explorer.launch", "--headless", "--port", str(port)], port, environment=environment) as address:
        yield address


def cancel_reading(page: Any, app: Address) -> None:
    page.locator(".st-key-cancel_reading").get_by_role("button").click()  # a solve may have a Cancel of its own
    page.get_by_test_id("stAlert").filter(has_text="The reading was cancelled").wait_for()
    eventually(lambda: not app.readers)


def test_a_large_upload_shows_its_progress_and_can_be_cancelled(holding: Address, chromium_page: Any) -> None:
    graph, deployment = layered(20, 13, 15, num_accelerators=4)
    text = json.dumps(graph_document(graph, deployment)).encode()
    text += b" " * max(0, LARGE_BYTES + 1 - len(text))
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(holding)
    page.get_by_text("optimal (proven)").wait_for()
    page.get_by_text("Upload", exact=True).click()

    upload(page, "large.json", text)
    held_reader(holding)
    page.get_by_test_id("stProgress").get_by_text("Reading the file").wait_for()
    expect(page.get_by_role("heading", name="BERT")).to_be_visible()
    # The inputs of the graph before still answer.
    box = page.get_by_role("spinbutton", name="Accelerators")
    box.fill("3")
    box.press("Enter")
    page.wait_for_url(re.compile("accelerators=3"))
    cancel_reading(page, holding)
    expect(page.get_by_role("heading", name="BERT")).to_be_visible()

    upload(page, "again.json", text)
    held_reader(holding).resume()
    page.get_by_role("heading", name="again.json").wait_for()
    wait_for_picture(page, f"p.nodes === {len(graph.nodes)}")
    page.wait_for_url(re.compile("graph=.*keep="))
    page.reload()
    page.get_by_role("heading", name="again.json").wait_for()


def test_a_long_import_shows_how_far_it_is_and_can_be_cancelled(holding: Address, chromium_page: Any) -> None:
    page = chromium_page
    title = page.get_by_role("heading", level=3)
    page.goto(f"{holding}/?sample=mistral-7b&mode=training")
    reader = held_reader(holding)
    # Nothing is known of the graph yet but its name, which stands where it will be drawn.
    title.filter(has_text="Mistral-7B-v0.1").wait_for()
    page.get_by_test_id("stProgress").get_by_text("Importing: Reading the file").wait_for()
    reader.resume()
    title.filter(has_text="Mistral-7B-v0.1, training").wait_for()
    rest(page)

    page.get_by_role("button", name="Import options").click()
    search_option(page, "Mode", "Decode")
    held_reader(holding)
    cancel_reading(page, holding)
    title.filter(has_text="Mistral-7B-v0.1, training").wait_for()
