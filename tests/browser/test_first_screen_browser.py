"""What is seen without scrolling, in a real browser."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from solvers.parameters.question import FAMILY, OBJECTIVE
from solvers.samples import sample_info, sample_names
from tests.support.app_page import tiny_graph, upload, wait_until_apart
from tests.support.picture import BUSY_MS, Picture
from tests.support.serving import free_port, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
LANES_END = "e => { const c = e.getBoundingClientRect(); return c.bottom - 40; }"
"""Where the axis below the lanes begins (BOTTOM in gantt_marks.js)."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    with served(["-m", "explorer.launch", "--headless", "--port", str(port)], port) as address:
        yield address


def test_headline_graph_and_all_lanes_are_on_the_first_screen_of_a_projector(
    address: str, chromium_page: "Page"
) -> None:
    chromium_page.goto(address)
    chromium_page.get_by_test_id("stMetric").first.wait_for(timeout=3 * BUSY_MS)
    picture = Picture(chromium_page, None)
    picture.wait_for("p.bars > 0")
    graph, gantt = (picture.root.locator(name) for name in ("canvas.graph", "canvas.gantt"))
    expect(chromium_page.get_by_test_id("stMetric").first).to_be_in_viewport(ratio=1)
    assert graph.evaluate("e => e.clientHeight") == pytest.approx(0.38 * 800, abs=2)
    assert gantt.evaluate(LANES_END) <= 800

    chromium_page.set_viewport_size({"width": 1280, "height": 1400})
    expect(graph).to_have_js_property("clientHeight", 420)


ROOM_OF_SELECT = """async (e, texts) => {
    const style = getComputedStyle(e);
    await document.fonts.load(style.font);  // that of the system, shown until then, may be wider
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = style.font;
    const room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return texts.filter((text) => pen.measureText(text).width > room);
}"""


def test_no_name_that_a_list_at_the_side_offers_is_cut_off(address: str, chromium_page: "Page") -> None:
    chromium_page.goto(f"{address}/?sample=teaching_chain")
    offered = {
        "Example graph": [sample_info(name).title for name in sample_names()],
        "Split type": list(FAMILY.names.values()),
        "Minimise time for": list(OBJECTIVE.names.values()),
    }
    for label, texts in offered.items():
        box = chromium_page.get_by_role("combobox", name=label)
        box.wait_for(timeout=BUSY_MS)
        assert box.evaluate(ROOM_OF_SELECT, texts) == [], label


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1024, 768), (390, 844)])
def test_that_no_plan_exists_is_said_where_the_headline_stands(
    address: str, chromium_page: "Page", width: int, height: int
) -> None:
    chromium_page.set_viewport_size({"width": width, "height": height})
    chromium_page.goto(f"{address}/?sample=gpt2_xl_layer_training&memory=1&cpus=0")
    said = chromium_page.get_by_test_id("stAlert").filter(has_text="No plan exists")
    said.wait_for(timeout=BUSY_MS)
    picture = chromium_page.locator(".placed-pipeline").first
    offer = chromium_page.get_by_role("button", name="What would make a plan possible?")
    for one in (said, offer):
        wait_until_apart(one, picture, across=False)


@pytest.mark.parametrize(
    "query",
    [
        "sample=llama3_8b_layer_training",
        "sample=bert_base_operator_training&lanes=yes",
        "sample=unet_operator_inference&level=operators",
    ],
)
def test_every_box_of_an_example_has_a_name(address: str, chromium_page: "Page", query: str) -> None:
    chromium_page.set_viewport_size({"width": 1024, "height": 768})
    chromium_page.goto(f"{address}/?{query}")
    chromium_page.get_by_test_id("stMetric").first.wait_for(timeout=3 * BUSY_MS)
    picture = Picture(chromium_page, None)
    picture.wait_for("p.bars > 0 && p.names().length > 20 && p.names().every(([, name]) => name)")


def test_a_long_title_is_whole_and_long_names_leave_no_phone(address: str, chromium_page: "Page") -> None:
    page = chromium_page
    page.goto(address)
    page.get_by_role("radio", name="Upload").click()
    name = "transformer/encoder/layer_0/attention/self/query_key_value_projection/MatMul"
    upload(page, f"{'a_graph_with_a_long_name_' * 4}.json", json.dumps(tiny_graph(name)).encode())
    title = page.get_by_role("heading", level=3).filter(has_text="2 nodes")
    title.wait_for(timeout=BUSY_MS)
    wait_until_apart(title, page.get_by_test_id("stMetric").first, across=False)
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".insight-words").filter(has_text="attention/self").first.wait_for(timeout=BUSY_MS)
    page.wait_for_function(
        "() => { const main = document.querySelector('.stMain'); return main.scrollWidth <= main.clientWidth; }"
    )


def test_a_bottleneck_with_a_long_name_is_whole_with_its_number(address: str, chromium_page: "Page") -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1024, "height": 768})
    page.goto(address)
    page.get_by_role("radio", name="Upload").click()
    classes = [{"name": "Maker-of-Accelerators-Model-80GB-Liquid-Co", "count": 2}]
    upload(page, "long.json", json.dumps({**tiny_graph("a"), "deviceClasses": classes}).encode())
    value = page.get_by_test_id("stMetric").filter(has_text="Bottleneck").get_by_test_id("stMetricValue")
    expect(value).to_contain_text("Liquid-Co 1", timeout=BUSY_MS)
    assert value.get_by_test_id("stMarkdownContainer").evaluate("e => e.scrollWidth <= e.clientWidth")
