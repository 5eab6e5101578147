"""A solve seen live in a real browser, and a page that loses nothing: reload, closed tab, killed server, links."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from solvers.model.split import Family
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
from tests.support.serving import Address, free_port, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

SLOW = "sample=mixtral_8x7b_layer_inference&splits=free&limit=600"
"""A solve that takes minutes."""


def start_slow_solve(page: Any, app: str) -> None:
    page.goto(f"{app}/?{SLOW}")
    page.locator(".st-key-solve").get_by_role("button").click()
    page.get_by_role("button", name="Cancel").wait_for(timeout=SOLVE_MS)
    wait_for_plan_so_far(page)


def elapsed_s(page: Any) -> float:
    text = page.locator(".solve-strip").inner_text()
    found = re.search(r"([\d.]+)\ss", text)
    assert found is not None, text
    return float(found[1])


def time_ms(page: Any) -> float:
    """The time per micro-batch that is shown, in ms."""
    return float(metric(page, "Time per micro-batch").removeprefix("≤ ").removesuffix(" ms").replace(",", ""))


def standing(page: Any) -> str:
    """What the page tells programs about the numbers of the headline."""
    return str(page.locator(".plan-standing").get_attribute("data-state"))


def busy(app: Address, before: set[int]) -> set[int]:
    return app.children - before


def test_the_best_plan_so_far_is_drawn_and_stays_when_cancelled(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    start_slow_solve(page, app)
    wait_for_picture(page, "p.nodes === 419 && p.bars > 0")
    page.get_by_text("(running)").first.wait_for()
    assert metric(page, "Time per micro-batch").startswith("≤ ")
    assert metric(page, "Micro-batches/s").startswith("≥ ")
    assert standing(page) == "so-far"
    page.get_by_text("the optimum").first.wait_for()  # a gap, no proof
    expect(page.get_by_text("optimal (proven)")).to_have_count(0)
    expect(page.get_by_text("stale")).to_have_count(0)
    page.get_by_role("button", name="Fit").wait_for()
    page.mouse.move(800, 640)
    page.mouse.wheel(0, -400)
    page.wait_for_timeout(300)
    view = picture(page, "p.view")
    top = page.locator(".placed-pipeline").first.bounding_box()
    value_ms = time_ms(page)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("the best plan so far is kept").wait_for()
    expect(page.locator(".solve-strip")).to_have_text(re.compile("^Cancelled by you"))
    assert time_ms(page) <= value_ms  # a better one may have come before the click
    expect(page.get_by_test_id("stMetricValue").filter(has_text="≤")).to_have_count(0)
    assert standing(page) == "final"
    # Nothing has moved, neither the page nor what the user looks at.
    assert page.locator(".placed-pipeline").first.bounding_box() == top
    assert picture(page, "p.view") == view
    page.get_by_role("button", name="Hide", exact=True).click()
    page.locator(".solve-strip").wait_for(state="detached")


def test_a_killed_solver_and_a_cancelled_longer_solve_lose_no_plan_and_no_bound(
    app: Address, chromium_page: Any
) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    start_slow_solve(page, app)
    wait_for_picture(page, "p.nodes === 419 && p.bars > 0")
    eventually(lambda: known_bound(page) > 0)
    for pid in app.children:
        os.kill(pid, signal.SIGKILL)
    page.get_by_role("button", name="Cancel").wait_for(state="detached")
    wait_for_picture(page, "p.nodes === 419 && p.bars > 0")
    assert standing(page) == "final"
    value_ms, bound_ms = time_ms(page), known_bound(page)
    assert bound_ms > 0
    page.locator(".st-key-solve").get_by_role("button").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel").wait_for(state="detached")
    assert time_ms(page) <= value_ms
    assert known_bound(page) >= bound_ms
    expect(page.get_by_text("stale")).to_have_count(0)


def known_bound(page: Any) -> float:
    """The proven lower bound that is shown, in ms; 0 while there is none."""
    return float(page.locator(".plan-standing").first.get_attribute("data-bound-ms") or 0)


def place_of_picture(page: Any) -> tuple[float, ...]:
    """Return where the picture is; its height is left out, for it follows the plan."""
    box = page.locator(".placed-pipeline").first.bounding_box()
    return box["x"], box["y"], box["width"]


def test_the_end_of_a_proof_moves_nothing(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(f"{app}/?sample=inception_v3_operator_inference&splits=free&limit=59")
    page.locator(".st-key-solve").get_by_role("button").click()
    page.get_by_role("button", name="Cancel").wait_for(timeout=SOLVE_MS)
    page.get_by_text("(running)").first.wait_for(timeout=SOLVE_MS)
    page.wait_for_timeout(300)
    running = place_of_picture(page)
    page.get_by_role("button", name="Hide", exact=True).wait_for(timeout=SOLVE_MS)
    assert place_of_picture(page) == running
    expect(page.locator(".solve-strip")).to_have_text(re.compile(r"^(Optimal \(proven\)|Time limit of 59\ss reached)"))
    page.get_by_role("button", name="Hide", exact=True).click()
    page.locator(".solve-strip").wait_for(state="detached")
    assert place_of_picture(page) == running


def test_marks_of_runs_do_not_pile_up_in_the_browser(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{app}/?sample=gnmt_layer_inference")
    wait_for_picture(page, "p.bars > 0")
    num_changes = 12
    for count in range(num_changes):
        digest = picture(page, "p.digest")
        set_number(page, "Accelerators", str(2 + count))
        wait_for_picture(page, f"p.digest !== '{digest}'")
    recorded = page.evaluate("['mark', 'measure'].map((type) => performance.getEntriesByType(type).length)")
    assert sum(recorded) < num_changes, "a change leaves at least one measure and two marks"
    assert not errors


def test_a_reload_goes_on_with_the_same_solve(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    start_slow_solve(page, app)
    page.wait_for_url(re.compile("keep="))
    eventually(lambda: elapsed_s(page) > 3)
    before = elapsed_s(page)
    solvers = app.children
    page.reload()
    page.get_by_role("button", name="Cancel").wait_for(timeout=SOLVE_MS)
    assert elapsed_s(page) >= before
    # The page that is gone does not take the solve with it, however long one waits.
    page.wait_for_timeout(9000)
    assert elapsed_s(page) >= before + 9.0
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    assert solvers & app.children
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("the best plan so far is kept").wait_for()
    # Its plan outlasts a reload too.
    value_ms = time_ms(page)
    page.reload()
    page.get_by_test_id("stMetric").first.wait_for(timeout=SOLVE_MS)
    assert time_ms(page) <= value_ms
    expect(page.get_by_text("no plan yet")).to_have_count(0)


def test_a_closed_tab_ends_its_solve_within_ten_seconds(app: Address, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    start_slow_solve(page, app)
    eventually(lambda: elapsed_s(page) > 1)
    solvers = app.children
    context.close()
    eventually(lambda: solvers - app.children, 10.0)


def test_no_solver_outlives_a_server_that_is_killed(chromium: Any) -> None:
    port = free_port()
    with served(["-m", "explorer.launch", "--headless", "--port", str(port)], port) as app:
        context = chromium.new_context()
        page = context.new_page()
        start_slow_solve(page, app)
        solvers = app.children
        assert solvers
        os.kill(app.pid, signal.SIGKILL)
        eventually(lambda: not any(is_running(pid) for pid in solvers), 10.0)
        context.close()


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_link_opened_elsewhere_gives_the_same_page(app: Address, chromium_page: Any, chromium: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(f"{app}/?sample=unet_operator_training")
    page.get_by_text("optimal (proven)").wait_for(timeout=SOLVE_MS)
    set_number(page, "Accelerators", "2")
    page.wait_for_url(re.compile("accelerators=2"))
    choose(page, "Schedule", "GPipe")
    page.wait_for_url(re.compile("schedule=gpipe"))
    page.get_by_text("optimal (proven)").wait_for(timeout=SOLVE_MS)
    wait_for_picture(page, "p.bars > 0")
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    other = context.new_page()
    other.goto(page.url)
    other.get_by_text("optimal (proven)").wait_for(timeout=SOLVE_MS)
    wait_for_picture(other, "p.bars > 0")
    wait_for_metric(other, "Time per micro-batch", metric(page, "Time per micro-batch"))
    assert picture(other, "p.digest") == picture(page, "p.digest")
    assert other.url == page.url
    context.close()


def test_back_and_forward(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(app)
    page.get_by_text("optimal (proven)").wait_for(timeout=SOLVE_MS)
    first = metric(page, "Time per micro-batch")
    set_number(page, "Accelerators", "6")
    page.wait_for_url(re.compile("accelerators=6"))
    eventually(lambda: metric(page, "Time per micro-batch") != first and standing(page) == "final")
    second = metric(page, "Time per micro-batch")
    page.go_back()
    eventually(lambda: metric(page, "Time per micro-batch") == first)
    eventually(lambda: page.get_by_role("spinbutton", name="Accelerators").input_value() == "4")
    page.go_forward()
    eventually(lambda: metric(page, "Time per micro-batch") == second)
    eventually(lambda: page.get_by_role("spinbutton", name="Accelerators").input_value() == "6")
    page.wait_for_timeout(1500)  # and it stays: nothing goes in circles
    assert "accelerators=6" in page.url


def test_what_is_looked_at_is_in_the_address(app: Address, chromium_page: Any, chromium: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(f"{app}/?sample=unet_operator_inference")
    wait_for_picture(page, "p.bars > 0")
    assert picture(page, "p.level") != "stages"
    page.get_by_role("button", name=re.compile("^Stages")).click()
    page.wait_for_url(re.compile("level=stages"))
    page.get_by_label("Colour of the boxes").select_option("time")
    page.wait_for_url(re.compile("colour=time"))
    page.get_by_role("button", name="Lanes").click()
    page.wait_for_url(re.compile("lanes=yes"))
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    other = context.new_page()
    other.goto(page.url)
    wait_for_picture(other, "p.bars > 0 && p.level === 'stages'")
    other.wait_for_timeout(1500)
    assert other.url == page.url
    context.close()
    page.go_back()
    page.wait_for_url(lambda url: "lanes" not in url)
    page.go_back()
    page.wait_for_url(lambda url: "colour" not in url)
    eventually(lambda: page.get_by_label("Colour of the boxes").input_value() == "device")
    page.go_back()
    wait_for_picture(page, "p.level !== 'stages'")
    page.wait_for_timeout(1500)
    assert "level=" not in page.url


def test_a_project_file_brings_everything_back(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(f"{app}/?sample=teaching_convex_beats_chain&splits=free&micro_batches=7")
    page.locator(".st-key-solve").get_by_role("button").click()
    # The strip may say it is proven while the number above still is that of the plan before.
    value = f"{solve(*read_sample('teaching_convex_beats_chain'), family=Family.FREE).value_ms:.4g} ms"
    wait_for_metric(page, "Time per micro-batch", value)
    page.get_by_text("optimal (proven)").first.wait_for()
    page.get_by_role("tab", name="Share and export").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Project file").click()
    content = Path(waiting.value.path()).read_bytes()
    mine = json.loads(content)
    del mine["graph"]["sample"]  # as if it were a graph of one's own
    for what, is_sample in ((content, True), (json.dumps(mine).encode(), False)):
        page.goto(app)
        page.get_by_text("optimal (proven)").first.wait_for()
        page.get_by_text("Upload", exact=True).click()
        upload(page, "project.json", what)
        wait_for_picture(page, "p.nodes === 4 && p.bars > 0")
        page.wait_for_url(re.compile("micro_batches=7"))
        assert ("sample=" in page.url, "graph=" in page.url) == (is_sample, not is_sample)
        assert "splits=free" in page.url
        wait_for_metric(page, "Time per micro-batch", value)
        page.get_by_text("(from a file)").first.wait_for()
        page.get_by_text("optimal (proven)").first.wait_for()  # total work proves it here, not the file
        expect(page.get_by_text("stale")).to_have_count(0)


def test_an_uploaded_graph_outlasts_a_reload_and_a_strange_id_is_told(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.goto(app)
    page.get_by_text("optimal (proven)").wait_for(timeout=SOLVE_MS)
    page.get_by_text("Upload", exact=True).click()
    upload(page, "mine.json", json.dumps(tiny_graph("a")).encode())
    wait_for_picture(page, "p.nodes === 2")
    page.wait_for_url(re.compile("graph=.*keep="))
    page.get_by_text("optimal (proven)").wait_for(timeout=SOLVE_MS)
    page.reload()
    wait_for_picture(page, "p.nodes === 2")
    page.get_by_text("mine.json").first.wait_for()
    strange = re.sub("keep=[0-9]+", "keep=99999", page.url)
    page.goto(strange)
    page.get_by_text("an uploaded file that was not shared").wait_for(timeout=SOLVE_MS)
    wait_for_picture(page, "p.nodes === 323")
