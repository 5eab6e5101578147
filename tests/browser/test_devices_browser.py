"""Devices picked in a browser: the plan follows at once, the popover stays open, and the address brings all back."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.app_page import wait_until_apart
from tests.support.serving import Address, free_port, served

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    port = free_port()
    with served(["-m", "explorer.launch", "--port", str(port), "--headless"], port) as found:
        yield found


def value_ms(page: Page) -> float:
    metric = page.get_by_test_id("stMetric").filter(has_text="Time per micro-batch").get_by_test_id("stMetricValue")
    return float(metric.inner_text().split()[0].replace(",", ""))


def pick(page: Page, label: str, option: str) -> None:
    """Choose an option of a list in the popover, by typing some of its name."""
    body = page.get_by_test_id("stPopoverBody")
    box = body.get_by_test_id("stSelectbox").filter(has_text=label).first.get_by_role("combobox")
    box.click()
    box.fill(option)
    page.get_by_role("option", name=re.compile(re.escape(option))).first.click()


def test_a_cluster_is_built_and_comes_back_with_its_address(address: Address, chromium_page: Page) -> None:
    page = chromium_page
    page.goto(f"{address}?sample=gpt2_xl_layer_inference&accelerators=2&cpus=0")
    expect(page.get_by_text("Times are those of the file: computed by the roofline for T4")).to_be_visible()
    on_t4 = value_ms(page)
    page.get_by_role("button", name="Devices as in the file").click()
    pick(page, "Accelerators", "A100 SXM4 80 GB")
    expect(page.get_by_text("Times are computed, not measured")).to_be_visible()
    expect(page.get_by_test_id("stMetric").first).not_to_contain_text(f"{on_t4:,.4g} ms")
    pick(page, "Link", "NVLink 3")
    two = 23.13
    expect(page.get_by_test_id("stMetric").first).to_contain_text(f"{two} ms")
    body = page.get_by_test_id("stPopoverBody")
    body.get_by_role("button", name="Add a device type").click()
    count = body.get_by_label("Count").nth(1)
    expect(count).to_have_value("1")
    count.fill("4")
    count.press("Enter")
    expect(page.get_by_role("button", name="2 × A100-80 + 4 × T4")).to_be_visible()
    expect(page.get_by_test_id("stMetric").first).to_contain_text("16.9 ms")
    expect(body).to_be_visible()  # it has not closed under the user's hands
    expect(page).to_have_url(re.compile("devices=2xA100-80.*4xT4"))
    page.goto(page.url)
    expect(page.get_by_role("button", name="2 × A100-80 + 4 × T4")).to_be_visible()
    expect(page.get_by_test_id("stMetric").first).to_contain_text("16.9 ms")
    # Another run of the page before the picker is opened: the browser has drawn none of its boxes yet.
    page.get_by_role("button", name="Keep for comparison").click()
    page.get_by_role("button", name="Kept (1 of 4)").wait_for()
    page.get_by_role("button", name="2 × A100-80 + 4 × T4").click()
    for number, told in enumerate(("2", "4")):
        expect(page.get_by_test_id("stPopoverBody").get_by_label("Count").nth(number)).to_have_value(told)
    page.get_by_test_id("stPopoverBody").get_by_test_id("stButton").filter(has_text="close").get_by_role(
        "button"
    ).click()
    expect(page.get_by_test_id("stMetric").first).to_contain_text(f"{two} ms")


@pytest.mark.parametrize("width", [1280, 1024])
def test_the_picker_of_several_device_types_leaves_the_graph_in_sight(
    address: Address, chromium_page: Page, width: int
) -> None:
    page = chromium_page
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{address}?sample=llama3_8b_layer_inference&cpus=0&devices=2xH100-SXM%2B3xL40S")
    page.get_by_role("button", name="2 × H100-SXM + 3 × L40S").click()
    body, graph = page.get_by_test_id("stPopoverBody"), page.locator("canvas.graph").first
    expect(body.get_by_label("Count").nth(1)).to_have_value("3")
    wait_until_apart(body, graph, across=True)
