"""A sweep in a real browser: progress, Cancel, Resume, and a click on a cell that lands in the explorer."""

import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.support.app_page import SOLVE_MS, fill
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

SAMPLE = "bert_base_operator_inference"


@pytest.fixture(autouse=True)
def patient(chromium_page: Any) -> None:
    """Wait as long for a page that opens beside busy solvers as for a solve."""
    chromium_page.set_default_timeout(SOLVE_MS)


def choose(page: Any, box: str, option: str) -> None:
    page.get_by_role("combobox", name=re.compile(f"{box}$")).click()
    page.get_by_role("option", name=option).click()


def click_in_plot(page: Any, right: float, down: float, leads_to: re.Pattern[str]) -> None:
    """Click at a share of the plot's width and height; again where it was just being drawn anew."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

    for _ in range(6):
        plot = page.locator(".draglayer .nsewdrag").first
        plot.scroll_into_view_if_needed()
        area = plot.bounding_box()
        page.mouse.click(area["x"] + area["width"] * right, area["y"] + area["height"] * down)
        with suppress(PlaywrightTimeoutError):
            page.wait_for_url(leads_to, timeout=SOLVE_MS / 6)
            return
    raise AssertionError(f"a click in the plot led to {page.url}")


def start_sweep(page: Any, app: str, accelerators: str, bandwidths: str, sample: str = SAMPLE) -> None:
    """Come from Explore, and start a sweep over accelerators and bandwidth."""
    page.goto(f"{app}/?sample={sample}")
    page.get_by_text("Time per micro-batch", exact=True).first.wait_for()
    page.get_by_role("link", name="Sweep").click()
    page.get_by_text("Choose what varies at the side").wait_for()
    fill(page, "Values of Accelerators", accelerators)
    choose(page, "and", "Bandwidth (GB/s)")
    fill(page, "Values of Bandwidth (GB/s)", bandwidths)
    page.wait_for_url(re.compile(f"and_values={quote(bandwidths)}"))
    page.get_by_role("button", name="Start the sweep").click()


def parts_of(url: str) -> dict[str, str]:
    """Return the query of an address by its names, without where the server keeps the session."""
    parts = dict(part.split("=") for part in url.partition("?")[2].split("&"))
    return {name: value for name, value in parts.items() if name != "keep"}


def test_progress_cancel_resume_and_a_click_that_lands_in_the_explorer(app: str, chromium_page: Any) -> None:
    page = chromium_page
    # Long enough that a busy browser presses Cancel before the end.
    start_sweep(page, app, "1:9", "2:64:x2", "inception_v3_operator_inference")
    page.get_by_text(re.compile(r"^[1-9]\d? of 54 points · \d+ s")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    text = page.get_by_text(re.compile(r"^\d+ of 54 points · \d+ to go")).inner_text()
    done, left = map(int, re.findall(r"(\d+) (?:of|to)", text))
    assert done + left == 54
    assert done >= 1
    page.get_by_role("button", name="Resume").click()
    page.get_by_text(re.compile("54 points in")).wait_for()
    page.get_by_text("all optimal (proven)").first.wait_for()  # a page that runs again may still show the old
    page.get_by_role("button", name="Parquet").wait_for()

    # The cell of 4 accelerators and 16 GB/s: column 4 of 9, row 4 of 6 from below.
    click_in_plot(page, 3.5 / 9, 2.5 / 6, re.compile(r"/\?.*bandwidth=16"))
    page.get_by_role("button", name="Keep for comparison").wait_for()
    expect(page.get_by_label("Accelerators", exact=True)).to_have_value("4")
    expect(page.get_by_label("Link (GB/s)", exact=True)).to_have_value("16")
    page.get_by_text("optimal (proven)").first.wait_for()

    page.go_back()
    page.get_by_text(re.compile("54 points in")).wait_for()


WATCH_RESUME = """
    window.places = [];
    const seen = () => {
      const button = document.querySelector('.st-key-resume_sweep button');
      if (button) {
        const box = button.getBoundingClientRect();
        const under = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        window.places.push([box.x, box.y, box.width, button.contains(under)]);
      }
      requestAnimationFrame(seen);
    };
    requestAnimationFrame(seen);
"""


def test_resume_stays_where_it_first_appears_and_its_first_click_counts(app: str, chromium_page: Any) -> None:
    page = chromium_page
    start_sweep(page, app, "1:30", "1:20")
    page.get_by_text(re.compile(r"^[1-9]\d* of 600 points · \d+ s")).wait_for()
    page.evaluate(WATCH_RESUME)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text(re.compile(r"^\d+ of 600 points · \d+ to go")).wait_for()
    page.locator(".st-key-cancel_sweep").wait_for(state="detached")  # the page is drawn to its end
    places = page.evaluate("new Promise(done => requestAnimationFrame(() => done(window.places)))")
    assert len({tuple(place) for place in places}) == 1
    assert places[0][3]
    page.get_by_role("button", name="Resume").click()
    page.get_by_text(re.compile(r"^[1-9]\d* of 600 points · \d+ s")).wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Resume").wait_for()


def test_a_reload_keeps_the_sweep_and_an_address_brings_back_what_was_asked(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(f"{app}/?sample=teaching_chain")
    page.get_by_text("Time per micro-batch", exact=True).first.wait_for()
    page.get_by_role("link", name="Sweep").click()
    page.get_by_text("Choose what varies at the side").wait_for()
    fill(page, "Values of Accelerators", "2:7")
    page.get_by_role("button", name="Start the sweep").click()
    page.get_by_text(re.compile(r"6 points in .* knee\sat\s4\saccelerators")).wait_for()
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
    reloaded.get_by_text(re.compile(r"6 points in .* knee\sat\s4\saccelerators")).wait_for()


def test_on_a_phone_all_measures_are_in_sight(app: str, chromium_page: Any) -> None:
    context = chromium_page.context.browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.set_default_timeout(SOLVE_MS)
    page.goto(f"{app}/sweep?sample=teaching_chain&over=accelerators&values=1:6&and=cpus&and_values=0:4")
    page.get_by_text("Choose what varies at the side").wait_for()
    page.get_by_test_id("stExpandSidebarButton").click()
    page.get_by_role("button", name="Start the sweep").click()
    page.get_by_text("30 points in").wait_for()
    # The side bar, which lies over the page here, has gone by itself, and comes back when it is asked for.
    expect(page.get_by_test_id("stSidebar")).not_to_be_in_viewport()
    for measure in ("Throughput", "Time per micro-batch", "Per accelerator", "Per cost"):
        expect(page.get_by_role("radio", name=measure)).to_be_in_viewport(ratio=1)
    front = page.get_by_role("table", name="The points of the sweep that none beats by cost and throughput")
    widths = "all => all.map(e => e.getBoundingClientRect().width)"
    # The table is drawn some time after the words above it, and anew at the end of the sweep.
    bars = eventually(lambda: front.locator("td.bar span").evaluate_all(widths))
    assert max(bars) > 30  # wide enough to tell one from another
    assert front.evaluate("e => e.scrollWidth <= e.parentElement.clientWidth")
    context.close()


def test_a_deep_address_of_a_mixed_cluster_with_prices_opens_in_a_fresh_browser(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(f"{app}/?sample=teaching_chain")  # the server is warm; a deep address alone logs a miss of its own
    page.get_by_text("Time per micro-batch", exact=True).first.wait_for()
    fresh = page.context.browser.new_context().new_page()
    fresh.set_default_timeout(SOLVE_MS)
    asked = (
        "sample=gpt2_xl_layer_inference&cpus=0&devices=2xA100-80%3Alink%3Dnvlink3%2B1xT4&over=count%3AA100-80"
        "&values=0%3A2&and=count%3AT4&and_values=1%2C3&show=per-cost&prices=A100-80%3D3.2%2CT4%3D0.5&pay=to+buy"
        "&at_least=5&solver=dp&limit=9"
    )
    fresh.goto(f"{app}/sweep?{asked}")
    fresh.get_by_text("Choose what varies at the side").wait_for()
    fresh.get_by_role("button", name="Start the sweep").click()
    fresh.get_by_text("6 points in").wait_for()
    fresh.get_by_role("button", name="A100-80 3.2, T4 0.5 to buy").wait_for()
    cheapest = r"^Cheapest with at least 5\ssequences/s: (\d × A100-80, )?\d × T4 \(.*to buy\)\.$"
    fresh.get_by_text(re.compile(cheapest)).wait_for()
    expect(fresh.get_by_label("Limit (s)", exact=True)).to_have_value("9")
    # Runs of the page have come and gone since the prices were set: the browser has drawn none of their boxes yet.
    fresh.get_by_role("button", name="A100-80 3.2, T4 0.5 to buy").click()
    prices = fresh.get_by_test_id("stPopoverBody")
    expect(prices.get_by_label("A100-80", exact=True)).to_have_value("3.2")
    expect(prices.get_by_label("T4", exact=True)).to_have_value("0.5")
    expect(prices.get_by_role("radio", name="to buy")).to_be_checked()
    for name, price in (("T4", "0.7"), ("A100-80", "3.5"), ("A100-80", "3.2"), ("T4", "0.5")):  # all in one go
        fill(fresh, name, price)
        fresh.wait_for_url(re.compile(f"{name}%3D{price}"))
    expect(prices.get_by_label("T4", exact=True)).to_have_value("0.5")
    fresh.keyboard.press("Escape")
    fresh.get_by_role("button", name="A100-80 3.2, T4 0.5 to buy").wait_for()
    fresh.wait_for_url(re.compile("keep="))
    eventually(lambda: parts_of(fresh.url) == parts_of(f"?{asked}"))

    # Explore, which this browser has not seen yet, has the graph and the devices of the address; the way back too.
    fresh.get_by_role("link", name="Explore").click()
    fresh.get_by_role("button", name="2 × A100-80 + 1 × T4").wait_for()
    fresh.get_by_text("optimal (proven)").first.wait_for()
    expect(fresh).to_have_url(re.compile("sample=gpt2_xl_layer_inference"))
    fresh.get_by_role("link", name="Sweep").click()
    fresh.get_by_text("6 points in").wait_for()
    expect(fresh.get_by_label("Number of T4", exact=True)).to_have_value("1,3")

    click_in_plot(fresh, 5 / 6, 1 / 4, re.compile(r"/\?.*devices=2xA100-80%3Alink%3Dnvlink3%2B3xT4.*"))
    fresh.get_by_text("optimal (proven)").first.wait_for()
    expect(fresh).to_have_url(re.compile("solver=dp.*limit=9"))
    fresh.context.close()


@pytest.mark.parametrize("width", [1280, 1024])
def test_prices_are_set_above_the_heat_map_that_they_colour(app: str, chromium_page: Any, width: int) -> None:
    context = chromium_page.context.browser.new_context(viewport={"width": width, "height": 800})
    page = context.new_page()
    page.set_default_timeout(SOLVE_MS)
    asked = "devices=2xH100-SXM%2B3xL40S&over=count%3AL40S&values=0%3A2&and=count%3AH100-SXM&and_values=1%3A2"
    page.goto(f"{app}/sweep?sample=llama3_8b_layer_inference&cpus=0&{asked}")
    page.get_by_role("button", name="Start the sweep").click()
    page.get_by_text("6 points in").wait_for()
    expect(page.get_by_test_id("stSidebar")).to_be_in_viewport()  # beside the page it stays
    page.get_by_role("button", name="Set prices").click()
    prices, numbers = page.get_by_test_id("stPopoverBody"), page.locator(".textpoint")
    prices.get_by_label("Currency").wait_for()
    expect(numbers).to_have_count(6)

    def are_apart() -> bool:
        over = prices.bounding_box()
        return all(one.bounding_box()["y"] > over["y"] + over["height"] for one in numbers.all())

    eventually(are_apart)
    for box in prices.get_by_role("spinbutton").all():
        assert box.bounding_box()["width"] > 50
    context.close()
