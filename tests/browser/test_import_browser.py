"""Models of other programs in the browser: uploaded or by name, imported in another way, solved, and taken out."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.app_page import download, search_option, set_number, upload
from tests.support.profiles import PIPEDREAM
from tests.support.serving import Address
from tests.support.small_models import SMALL

pytestmark = pytest.mark.browser

LLAMA = json.dumps({**SMALL["llama"], "num_hidden_layers": 6}).encode()


def wait_for_title(page: Any, words: str) -> None:
    page.get_by_role("heading", level=3).filter(has_text=words).wait_for()


def close_options(page: Any) -> None:
    page.get_by_role("button", name="Import options").click()
    page.get_by_test_id("stPopoverBody").wait_for(state="hidden")


def batch(page: Any) -> Any:
    return page.get_by_role("spinbutton", name="Batch", exact=True)


def test_a_config_is_uploaded_solved_and_its_plan_taken_out(chromium_page: Any, app: Address) -> None:
    page = chromium_page
    page.goto(app)
    page.get_by_role("radio", name="Upload").click()
    upload(page, "config.json", LLAMA)
    wait_for_title(page, "llama, prefill")
    page.get_by_role("button", name="Import options").click()
    search_option(page, "Mode", "Training")
    wait_for_title(page, "llama, training")
    batch(page).fill("4")
    batch(page).press("Enter")
    page.get_by_role("table", name="Totals of the imported graph").wait_for()
    totals = page.get_by_role("table", name="Totals of the imported graph").inner_text()
    assert "parameters" in totals
    name, graph = download(page, "Graph (JSON)")
    assert name.endswith(".json")
    assert json.loads(graph)["name"] == "llama, training"
    close_options(page)
    # Inputs hold for the same model imported in another way, as far as they fit it.
    set_number(page, "Accelerators", "2")
    page.wait_for_url("**batch=4**accelerators=2**")
    search_option(page, "Expressible in", "Megatron-LM")
    page.wait_for_url("**expressible_in=megatron**")
    page.get_by_role("button", name="Import options").click()
    set_number(page, "Sequence (tokens)", "128")
    close_options(page)
    page.wait_for_url("**sequence=128**")
    expect(page.get_by_role("spinbutton", name="Accelerators")).to_have_value("2")
    page.get_by_text("optimal (proven)").wait_for()
    page.get_by_role("tab", name="Share and export").click()
    _, layout = download(page, "Megatron-LM")
    assert b"--num-layers 6 --pipeline-model-parallel-size 2" in layout
    _, script = download(page, "PyTorch pipelining")
    assert b"Schedule1F1B" in script
    compile(script, "script.py", "exec")


def test_a_link_opens_a_published_model_with_its_options(chromium_page: Any, app: Address) -> None:
    page = chromium_page
    page.goto(f"{app}/?sample=llama-3.1-70b&mode=training&batch=8&sequence=4096&micro_batches=32")
    wait_for_title(page, "Llama-3.1-70B, training")
    expect(page.get_by_role("spinbutton", name="Micro-batches")).to_have_value("32")
    page.get_by_role("button", name="Import options").click()
    expect(batch(page)).to_have_value("8")
    expect(page.get_by_role("combobox", name="Precision")).to_have_value("Automatic")
    totals = page.get_by_role("table", name="Totals of the imported graph").inner_text()
    assert "70,553,706,496" in totals
    assert "mode=training" in page.url


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("config.json", b'{"model_type": "<b>bold</b>"}', "which is not known; this imports llama"),
        ("model.pt2", b"PK\x03\x04 and no more", "The archive is damaged or incomplete, or no zip file"),
        ("model.onnx", b"\x08\x07 and no more", "not a complete ONNX model"),
    ],
)
def test_what_cannot_be_imported_leaves_the_graph(
    chromium_page: Any, app: Address, name: str, content: bytes, told: str
) -> None:
    page = chromium_page
    page.goto(app)
    wait_for_title(page, "BERT-base")
    page.get_by_role("radio", name="Upload").click()
    upload(page, name, content)
    alert = page.get_by_test_id("stAlert").filter(has_text=told)
    alert.wait_for()
    assert f"{name.removesuffix('.pt2')} was not imported" in alert.inner_text()
    assert page.locator("b", has_text="bold").count() == 0
    wait_for_title(page, "BERT-base")
    page.get_by_text("Still showing BERT-base").wait_for()


@pytest.mark.parametrize(("name", "content"), [("config.json", LLAMA), ("graph.txt", PIPEDREAM.encode())])
def test_no_answer_of_the_import_options_is_cut_off(
    chromium_page: Any, app: Address, name: str, content: bytes
) -> None:
    page = chromium_page
    page.goto(app)
    page.get_by_role("radio", name="Upload").click()
    upload(page, name, content)
    wait_for_title(page, "llama, prefill" if name == "config.json" else "PipeDream profile")
    page.get_by_role("button", name="Import options").click()
    answers = page.get_by_test_id("stPopoverBody").get_by_test_id("stSelectbox").locator("input")
    expect(answers.nth(1)).to_be_visible()
    cut = answers.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.value)")
    assert cut == []
