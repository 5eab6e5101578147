"""The app as a user meets it, in a real browser: open, edit, solve, cancel, upload, download."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.app_page import (
    SOLVE_MS,
    metric,
    picture,
    set_number,
    tiny_graph,
    upload,
    wait_for_metric,
    wait_for_picture,
    wait_for_plan_so_far,
)
from tests.support.picture import choose

pytestmark = pytest.mark.browser

SAMPLE = "bert_base_operator_inference"


def time_per_sample(accelerators: int) -> str:
    graph, deployment = read_sample(SAMPLE)
    value = solve(graph, replace(deployment, num_accelerators=accelerators)).value_ms
    assert value is not None
    return f"{value:.4g} ms"


def test_opens_solved_and_follows_the_number_of_accelerators(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(app)
    wait_for_metric(page, "Time per micro-batch", time_per_sample(4))
    page.get_by_text("optimal (proven)").wait_for()
    wait_for_picture(page, "p.nodes === 323 && p.bars > 0")
    before = picture(page, "p.digest")
    colours = [picture(page, f"p.boxColourOf({v})") for v in read_sample(SAMPLE)[0].topological_order[::40]]
    bars = picture(page, "p.bars")

    set_number(page, "Accelerators", "6")
    wait_for_metric(page, "Time per micro-batch", time_per_sample(6))
    wait_for_picture(page, f"p.digest !== '{before}'")
    assert picture(page, "p.bars") > bars
    assert [picture(page, f"p.boxColourOf({v})") for v in read_sample(SAMPLE)[0].topological_order[::40]] != colours
    expect(page.get_by_text("stale")).to_have_count(0)


def test_integer_program_runs_beside_the_page_and_can_be_cancelled(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(f"{app}/?sample=inception_v3_operator_inference")
    page.get_by_test_id("stMetric").first.wait_for(timeout=SOLVE_MS)
    if page.get_by_role("button", name="Cancel").count():  # its DP may still be running
        page.get_by_role("button", name="Cancel").wait_for(state="detached", timeout=SOLVE_MS)
    choose(page, "Split type", "Non-contiguous")
    page.get_by_text("The plan shown is stale").wait_for()
    page.locator(".st-key-solve").get_by_role("button").click()
    cancel = page.get_by_role("button", name="Cancel")
    cancel.wait_for(timeout=SOLVE_MS)
    wait_for_plan_so_far(page)
    # The page stays usable: another tab of results opens while the solver works.
    page.get_by_role("tab", name="Cut tensors").click()
    page.get_by_role("tab", name="Cut tensors", selected=True).wait_for()
    expect(cancel).to_be_visible()
    cancel.click()
    cancel.wait_for(state="detached")
    page.get_by_text(re.compile("[Cc]ancelled")).first.wait_for()
    assert metric(page, "Time per micro-batch").endswith(" ms")


def test_garbage_is_refused_in_one_sentence_and_the_plan_stays(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(app)
    wait_for_metric(page, "Time per micro-batch", time_per_sample(4))
    page.get_by_text("Upload", exact=True).click()
    upload(page, "broken.json", b'{"nodes": [1, 2')
    page.get_by_text("broken.json was not read. The graph is not valid JSON").wait_for()
    assert metric(page, "Time per micro-batch") == time_per_sample(4)
    assert picture(page, "p.nodes") == 323
    expect(page.get_by_text("Traceback")).to_have_count(0)
    upload(page, ":red[RED] **B** ![i](http://localhost:9/x.png).json", json.dumps(tiny_graph("a", NASTY)).encode())
    page.get_by_text("**B**").first.wait_for()
    page.get_by_text("'cpuLatency' is").wait_for()
    expect(page.locator("img[src*='x.png']")).to_have_count(0)
    nasty = '<img src=x onerror="document.title=1"> **bold** $x$'
    upload(page, "names.json", json.dumps(tiny_graph(nasty)).encode())
    wait_for_picture(page, "p.nodes === 2")
    page.get_by_role("tab", name="Cut tensors").wait_for()
    assert page.title() == "DNN Placement Explorer"
    expect(page.locator("img[src=x]")).to_have_count(0)


def test_infeasible_says_why_and_keeps_the_plan(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(f"{app}/?sample=llama3_8b_layer_inference")
    page.get_by_text("optimal (proven)").wait_for(timeout=SOLVE_MS)
    set_number(page, "CPUs", "0")
    graph, deployment = read_sample("llama3_8b_layer_inference")
    without_cpu = solve(graph, replace(deployment, num_cpus=0)).value_ms
    assert without_cpu is not None
    value = f"{without_cpu:,.4g} ms"
    wait_for_metric(page, "Time per micro-batch", value)
    set_number(page, "Memory (GiB)", "1")
    page.get_by_text(re.compile(r"No plan exists.*needs .*\sGiB")).wait_for()
    assert metric(page, "Time per micro-batch") == value
    page.get_by_text("The plan shown is stale").wait_for()


def test_paper_file_opens_and_states_its_bandwidth(app: str, chromium_page: Any, paper_workloads: Path) -> None:
    page = chromium_page
    page.goto(app)
    page.get_by_text("Upload", exact=True).click()
    path = paper_workloads / "throughput" / "gnmt_layer_inference.json"
    upload(page, path.name, path.read_bytes())
    wait_for_metric(page, "Time per micro-batch", "32.91 ms")
    page.get_by_text("imply 2,147 GB/s").wait_for()
    page.get_by_role("button", name="Use 2.147 GB/s").click()
    wait_for_metric(page, "Time per micro-batch", "44.78 ms")


NASTY = "![i](http://localhost:9/x.png) :red[RED]"
