"""The pictures of the docs, taken from the real app; UPDATE_PICTURES=1 puts them into `docs/pictures`.

What each picture is to show is waited for, so a page that no longer gets there fails here.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.app_page import SOLVE_MS
from tests.support.picture import Picture, choose
from tests.support.root import ROOT

pytestmark = pytest.mark.browser

REST_MS = 1000
"""After the last change: animations are over and what follows the pointer is gone."""


def take(page: Any, name: str) -> None:
    page.wait_for_timeout(REST_MS)
    folder = ROOT / ("docs/pictures" if os.environ.get("UPDATE_PICTURES") == "1" else "test-artifacts")
    folder.mkdir(exist_ok=True)
    path: Path = folder / f"{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size > 50_000  # an empty page compresses to a fraction of this


def open_sample(page: Any, app: str, query: str) -> Picture:
    page.goto(f"{app}/?{query}")
    page.get_by_text("optimal (proven)").first.wait_for(timeout=SOLVE_MS)
    return Picture(page, None)


def test_picture_of_graph_and_timeline(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 1080})
    picture = open_sample(page, app, "sample=gpt2_xl_layer_training")
    picture.wait_for("p.bars > 0")
    take(page, "explorer")


def test_picture_of_the_replay(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 1080})
    picture = open_sample(page, app, "sample=bert_base_operator_inference")
    picture.root.get_by_label("Playhead").evaluate(
        "input => { input.value = 0.42; input.dispatchEvent(new Event('input')); }"
    )
    picture.wait_for("p.replay.timeMs > 0 && p.lit().length > 0")
    picture.root.scroll_into_view_if_needed()
    take(page, "replay")


def test_picture_of_a_comparison(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 1180})
    page.set_default_timeout(SOLVE_MS)
    open_sample(page, app, "sample=gnmt_layer_inference")
    page.get_by_role("button", name="Keep for comparison").click()
    page.get_by_role("button", name="Kept (1 of 4)").wait_for()
    box = page.get_by_label("Accelerators", exact=True)
    box.fill("4")
    box.press("Enter")
    keep = page.get_by_role("button", name="Keep for comparison")
    keep.click()  # there is such a button again as soon as there is another plan
    page.get_by_role("button", name="Kept (2 of 4)").wait_for()
    page.get_by_role("link", name="Compare (2)").click()
    page.get_by_role("heading", name="B against A").wait_for()
    page.locator(".placed-pipeline canvas.gantt").nth(1).wait_for()
    take(page, "compare")


def test_picture_of_a_sweep(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 1240})
    page.set_default_timeout(SOLVE_MS)
    devices = "2xH100-SXM%3Alink%3Dnvlink4%2B3xL40S%3Alink%3Dpcie4-x16"
    open_sample(page, app, f"sample=llama3_8b_layer_inference&cpus=0&devices={devices}")
    page.get_by_role("link", name="Sweep").click()
    choose(page, "Vary", "Number of L40S")
    fill(page, "Number of L40S", "0:10")
    choose(page, "and", "Number of H100-SXM")
    fill(page, "Number of H100-SXM", "0:3")
    page.get_by_role("button", name="Start the sweep").click()
    page.get_by_text("44 points in").wait_for()
    page.get_by_role("button", name="Set prices").click()
    fill(page, "H100-SXM", "4")
    fill(page, "L40S", "1.2")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="H100-SXM 4, L40S 1.2 per hour").wait_for()
    fill(page, "At least (sequences/s)", "40")
    page.get_by_text("Cheapest with at least 40 sequences/s: 9 × L40S (").wait_for()
    take(page, "sweep")


def fill(page: Any, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(text)
    box.press("Enter")


def test_picture_of_a_presentation(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1920, "height": 1080})
    picture = open_sample(page, app, "sample=llama3_8b_layer_training&present=yes")
    picture.wait_for("p.presenting && p.bars > 0")
    take(page, "presentation")


def test_picture_of_the_stages(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 800})
    picture = open_sample(page, app, "sample=bert_base_operator_training&level=stages")
    picture.wait_for("p.level === 'stages' && p.bars > 0")
    take(page, "stages")


def test_picture_of_the_lanes_of_devices(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 800})
    picture = open_sample(page, app, "sample=resnet50_operator_inference&lanes=yes&level=operators&colour=time")
    picture.wait_for("p.graphLook.arrangement === 'lanes' && p.graphLook.colour === 'time'")
    take(page, "lanes")


def test_picture_of_a_tie(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 800})
    picture = open_sample(page, app, "sample=teaching_tied_embedding")
    picture.wait_for("p.ties === 1")
    take(page, "tie")


def test_picture_of_a_zero_bubble_schedule(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1920, "height": 1080})
    picture = open_sample(page, app, "sample=gpt2_xl_layer_training&schedule=zb-h1&present=yes")
    picture.wait_for("p.presenting && p.bars > 0")
    take(page, "zero_bubble")


def test_picture_of_stacked_schedules(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1360, "height": 1240})
    open_sample(page, app, "sample=gpt2_xl_layer_training")
    page.get_by_role("tab", name="Schedules").click()
    page.get_by_text("ends first").wait_for()
    page.locator("canvas.gantt").nth(6).wait_for()
    page.get_by_text("Schedules on one axis of time").scroll_into_view_if_needed()
    page.locator(".stMain").evaluate("e => e.scrollBy(0, 1200)")
    take(page, "schedules")
