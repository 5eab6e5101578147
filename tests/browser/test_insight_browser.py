"""Explain and Compare in a real browser: what would help, two plans side by side, all methods."""

import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import expect

from solvers.analysis.comparison import compare
from solvers.analysis.plan_diff import Placed, plan_diff
from solvers.model.result import SolveResult
from solvers.parameters.question import METHOD
from solvers.quantities import counted
from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.app_page import SOLVE_MS
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

SAMPLE = "teaching_chain"


@pytest.fixture(autouse=True)
def patient(chromium_page: Any) -> None:
    """Wait as long for a page that opens beside busy solvers as for a solve."""
    chromium_page.set_default_timeout(SOLVE_MS)


def solved(num_accelerators: int) -> SolveResult:
    graph, deployment = read_sample(SAMPLE)
    return solve(graph, replace(deployment, num_accelerators=num_accelerators))


def keep_with_accelerators(page: Any, number: int, kept: int) -> None:
    """Ask for so many accelerators, wait for their plan, and keep it."""
    box = page.get_by_label("Accelerators", exact=True)
    box.fill(str(number))
    box.press("Enter")
    value = f"{solved(number).value_ms:.4g} ms"
    metric = page.get_by_test_id("stMetric").filter(has=page.get_by_text("Time per micro-batch", exact=True)).first
    metric.get_by_text(value, exact=True).wait_for(timeout=SOLVE_MS)
    page.get_by_role("button", name="Keep for comparison").click()
    page.get_by_role("button", name=f"Kept ({kept} of 4)").wait_for()


def compare_two(page: Any, app: str) -> None:
    page.goto(f"{app}/?sample={SAMPLE}")
    keep_with_accelerators(page, 3, 1)
    keep_with_accelerators(page, 2, 2)
    page.get_by_role("link", name="Compare (2)").click()
    page.get_by_role("heading", name="B against A").wait_for(timeout=SOLVE_MS)


NOTHING_CUT_OFF = """() => {
    const tables = [...document.querySelectorAll('table.insight')].map((table) => table.getBoundingClientRect());
    return tables.length > 0 && tables.every((box) => box.width > 200 && box.right <= window.innerWidth);
}"""


def test_what_would_help_is_what_a_solve_finds(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(f"{app}/?sample={SAMPLE}")
    page.get_by_text("is the bottleneck with 8 ms per micro-batch").wait_for(timeout=SOLVE_MS)
    expect(page.get_by_role("table", name="What would help, by gain")).to_have_count(0)
    page.get_by_role("button", name="What would help?").click()
    row = page.get_by_role("row", name=re.compile("^One more accelerator"))
    value = solved(4).value_ms
    assert value is not None
    row.get_by_text(f"{value:.4g} ms", exact=True).wait_for(timeout=SOLVE_MS)
    page.get_by_text(re.compile("would help most:")).wait_for(timeout=SOLVE_MS)
    shares = page.get_by_role("table", name="What would help, by gain").locator("td.strong").all_inner_texts()
    gains = [float(text.removesuffix("%")) for text in shares]
    assert gains == sorted(gains, reverse=True)
    assert len(gains) >= 2
    for width in (1024, 390):  # nothing is cut off beside the words, or on a phone
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(NOTHING_CUT_OFF)


def test_two_plans_side_by_side_with_the_nodes_that_moved(app: str, chromium_page: Any) -> None:
    page = chromium_page
    compare_two(page, app)
    graph, deployment = read_sample(SAMPLE)
    sides = [replace(deployment, num_accelerators=k) for k in (3, 2)]
    splits = [solved(k).split for k in (3, 2)]
    assert splits[0] is not None
    assert splits[1] is not None
    diff = plan_diff(Placed(graph, sides[0], splits[0]), Placed(graph, sides[1], splits[1]))
    page.get_by_text(re.compile(rf"{counted(len(diff.moved), 'node').capitalize()} on another device")).wait_for()
    expect(page.locator(".placed-pipeline")).to_have_count(2)
    page.get_by_role("button", name="Drop").first.click()
    page.get_by_text("Keep one more plan to compare with.").wait_for()


PLACE = """element => {
    const main = element.closest('.stMain');
    const box = element.getBoundingClientRect();
    return main && [box.x, box.y + main.scrollTop];
}"""


def place(part: Any) -> list[float]:
    """Return where something is on the page, however far that is scrolled; what a poll has just replaced is nowhere."""
    found: list[float] = eventually(lambda: part.evaluate(PLACE))
    return found


def place_at_rest(part: Any) -> list[float]:
    """Return where something is once it stays there: on a slow machine what stands beside it comes later."""
    looks = [place(part)]

    def looks_alike() -> bool:
        part.page.wait_for_timeout(300)
        looks.append(place(part))
        return looks[-1] == looks[-2]

    eventually(looks_alike)
    return looks[-1]


def test_all_methods_run_beside_the_page_and_a_row_keeps_its_plan(app: str, chromium_page: Any) -> None:
    page = chromium_page
    compare_two(page, app)
    page.get_by_role("button", name="Run all methods").click()
    chart = page.get_by_role("table", name="Value of each method, the fastest first")
    chart.wait_for()
    while_running = place_at_rest(chart)
    page.get_by_text("Select a row to keep its plan.").wait_for(timeout=SOLVE_MS)
    page.get_by_role("button", name="Run them again").wait_for()
    expect(chart).to_have_count(1)  # that of the run stays until the page is drawn to its end
    assert place(chart) == while_running, "the end of the run moves nothing"
    graph, deployment = read_sample(SAMPLE)
    labels = [
        f"Best {question.family.named}" if question.is_exact else METHOD.names[question.method]
        for question, _ in compare(graph, deployment, time_limit_s=10.0)
    ]
    table = page.get_by_test_id("stDataFrame").last
    # The table is drawn some time after the words below it.
    eventually(lambda: [text for text in table.locator("td").all_inner_texts() if text in labels] == labels)
    table.scroll_into_view_if_needed()
    page.wait_for_timeout(500)  # the table is drawn on a canvas: wait until scrolling has come to rest
    box = table.bounding_box()
    header_px = row_px = 35

    def select(label: str) -> None:
        page.mouse.click(box["x"] + 16, box["y"] + header_px + row_px * (labels.index(label) + 0.5))

    keep = page.get_by_role("button", name="Keep for comparison")
    expect(keep).to_be_disabled()
    below = page.get_by_text("“Best is”: how many times")
    before = place(keep), place(below)
    select("Best pipeline")
    page.get_by_text("Best pipeline found the very split of A").wait_for()
    assert (place(keep), place(below)) == before, "a selection moves nothing"
    select("Best non-contiguous")
    expect(keep).to_be_enabled()
    assert (place(keep), place(below)) == before
    keep.click()
    page.get_by_role("link", name="Compare (3)").wait_for()
    expect(page.get_by_label("Plan C", exact=True)).to_have_value("Best non-contiguous")


def test_below_each_other_words_and_loads_stand_as_close_as_paragraphs(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app}/?sample={SAMPLE}")
    loads = page.get_by_text("Load of every device", exact=True)
    loads.wait_for(timeout=SOLVE_MS)
    columns = page.locator(".st-key-explanation").get_by_test_id("stColumn")
    between = "([words, figures]) => figures.getBoundingClientRect().top - words.getBoundingClientRect().bottom"
    eventually(lambda: 0 <= columns.evaluate_all(between) < 30)
    # Nor does a line end between a word and its number.
    beside = page.get_by_test_id("stMetric").filter(has_text="Micro-batches/s").get_by_test_id("stMetricDelta")
    assert "latency\u00a020" in beside.inner_text()


def test_on_a_phone_what_a_number_is_called_is_whole(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app}/?sample=unet_operator_inference&objective=latency")
    name = page.get_by_test_id("stMetricLabel").filter(has_text="Latency of one micro-batch").locator("p")
    solve = page.get_by_role("button", name="Solve now")
    solve.or_(name).first.wait_for(timeout=SOLVE_MS)
    if solve.count():
        solve.click()
    name.wait_for(timeout=SOLVE_MS)
    eventually(lambda: name.evaluate("e => e.scrollWidth <= e.clientWidth"))


def test_on_a_phone_the_changes_name_devices_by_their_chips(app: str, chromium_page: Any) -> None:
    page = chromium_page
    compare_two(page, app)
    table = page.get_by_role("table", name="Change of every device from A to B")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(table.get_by_role("rowheader").first).to_have_css("font-size", "0px")  # what follows it has another
    table.scroll_into_view_if_needed()
    place = page.locator(".insight-place").filter(has=table).bounding_box()
    change = table.get_by_role("columnheader", name="Compute").bounding_box()
    assert change["x"] + change["width"] <= place["x"] + place["width"]


def test_memory_that_limits_a_plan_is_named_with_its_price(app: str, chromium_page: Any) -> None:
    """Six accelerators of 0.02 GiB hold less than the model: work on the CPU is not uneven compute alone."""
    page = chromium_page
    page.goto(f"{app}/?sample=bert_base_operator_inference&accelerators=6&memory=0.02")
    page.get_by_text("Memory forces work onto CPUs: all nodes take").wait_for(timeout=SOLVE_MS)
    price = page.get_by_text("Memory limits this plan: without a memory limit the optimum is")
    ask = page.get_by_role("button", name="Which constraint limits it?")  # there while an earlier test's page is open
    price.or_(ask).first.wait_for()
    if not price.is_visible():
        ask.click()
    price.wait_for()
    page.get_by_text("Split type").first.wait_for()


def test_a_change_that_helps_is_applied_and_back_takes_it_back(app: str, chromium_page: Any) -> None:
    page = chromium_page
    graph, deployment = read_sample("gnmt_layer_inference")
    k = deployment.num_accelerators
    values = [solve(graph, replace(deployment, num_accelerators=n)).value_ms for n in (k, k + 1)]
    before, after = (f"{value:.4g} ms" for value in values)
    metric = page.get_by_test_id("stMetric").filter(has=page.get_by_text("Time per micro-batch", exact=True)).first
    accelerators = page.get_by_label("Accelerators", exact=True)
    page.goto(f"{app}/?sample=gnmt_layer_inference")
    metric.get_by_text(before, exact=True).wait_for()
    page.get_by_role("button", name="What would help?").click()
    page.get_by_role("button", name="One more accelerator", exact=True).click()
    page.wait_for_url(re.compile(f"accelerators={k + 1}"))
    metric.get_by_text(after, exact=True).wait_for()
    expect(accelerators).to_have_value(str(k + 1))
    page.go_back()
    metric.get_by_text(before, exact=True).wait_for()
    expect(accelerators).to_have_value(str(k))
