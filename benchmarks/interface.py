"""How quick the explorer feels: the real app in headless Chromium, from the key press to the picture on the screen.

`python -m benchmarks.interface [REPEATS]` prints a markdown table: median and 95th percentile in ms, beside the target.

* first paint: from opening the address, with a new browser profile, to the first graph with a plan on the canvas; the
  server runs and has served a page before.
* new plan: from Enter in "Accelerators" to the next drawn frame that shows the plan for that number. Numbers go up and
  down between two values so that each solve is asked for the first time: the pool's memory of answers is not used.
* recolouring: the same for a new split of 2,000 nodes that needs no solve, the view zoomed in before; it counts the
  round trip through Python. The view must be the same afterwards.
* pan, zoom: the time between two frames while wheel or drag events arrive, one a frame.
* replay: the time between two frames while the playhead runs.
* details: from a click on a node to the frame that shows the panel.

The browser has no GPU. On a machine with a screen and one, frames take less.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.browser_page import find_chromium
from benchmarks.machine import machine
from sample_graphs.synthetic import layered
from solvers.formats.graph_json import graph_document
from tests.support.fixtures import CHROMIUM_FLAGS
from tests.support.serving import free_port, served

HARNESS = "tests/support/canvas_page.py"
FRAME_TARGET_MS, PLAN_TARGET_MS, RECOLOUR_TARGET_MS, DETAILS_TARGET_MS = 34, 1000, 300, 300
WAIT_MS = 120_000
NUM_FRAMES = 150

FIND = """
const find = root => {
  for (const element of root.querySelectorAll('*')) {
    if (element.classList.contains('placed-pipeline') && element.__placement) return element;
    if (element.shadowRoot) { const found = find(element.shadowRoot); if (found) return found; }
  }
  return null;
};
window.picture = () => find(document)?.__placement ?? null;
window.pictureRoot = () => find(document);
window.frameThat = test => new Promise(resolve => {
  const look = () => {
    const p = window.picture();
    if (p && test(p)) requestAnimationFrame(() => setTimeout(() => resolve(performance.now()), 0));
    else requestAnimationFrame(look);
  };
  look();
});
"""
"""Installed in every page: the probe of the linked picture, and a wait for the frame in which a test of it holds."""

REPLAY_FRAMES = """
async number => {
  const times = [];
  let last = await new Promise(requestAnimationFrame);
  while (times.length < number) {
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}
"""
"""Times between frames."""

FRAMES = """
async ([selector, kind, count]) => {
  const canvas = window.pictureRoot().querySelector(selector);
  const box = canvas.getBoundingClientRect();
  const times = [];
  const at = (type, x, y, more) => canvas.dispatchEvent(new (type === 'wheel' ? WheelEvent : PointerEvent)(type, {
    bubbles: true, cancelable: true, clientX: box.left + x, clientY: box.top + y, pointerId: 1, button: 0, ...more }));
  canvas.setPointerCapture = () => {};
  if (kind === 'pan') at('pointerdown', 500, 150);
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < count; i += 1) {
    if (kind === 'zoom') at('wheel', 500, 150, { deltaY: i % 50 < 25 ? -60 : 60 });
    else at('pointermove', 500 + 200 * Math.sin(i / 12), 150 + 60 * Math.cos(i / 9));
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  if (kind === 'pan') at('pointerup', 500, 150);
  return times;
}
"""

Measure = Callable[[], list[float]]


def main(repeats: int) -> None:
    """Print the table."""
    print(f"{machine()}, headless Chromium without a GPU, {repeats} repeats, {NUM_FRAMES} frames\n")
    print("| what | median, ms | p95, ms | target, ms |")
    print("|---|---:|---:|---:|")
    app_port, harness_port = free_port(), free_port()
    options = ["--server.headless=true", "--browser.gatherUsageStats=false", "--server.fileWatcherType=none"]
    with (
        served(["-m", "explorer.launch", "--headless", "--port", str(app_port)], app_port) as app,
        served(["-m", "streamlit", "run", HARNESS, f"--server.port={harness_port}", *options], harness_port) as harness,
        browser() as chromium,
    ):
        measure_first_paint(chromium, app, repeats)
        for name in ("gnmt_layer_inference", "bert_base_operator_inference", "bert_base_operator_training"):
            measure_new_plan(chromium, f"{app}/?sample={name}", name, repeats)
        with tempfile.TemporaryDirectory() as folder:
            graph, deployment = layered(8, 2, 49)
            path = Path(folder) / "layered.json"
            path.write_text(json.dumps(graph_document(graph, deployment)))
            measure_new_plan(chromium, app, "layered", repeats, path)
        measure_recolouring(chromium, f"{harness}/?graph=layers&nodes=2000&stages=8", repeats)
        measure_frames(chromium, f"{harness}/?graph=layers&nodes=2000&stages=8", "2,000 nodes", "canvas.graph")
        in_lanes = f"{harness}/?graph=layers&nodes=2000&stages=8"
        measure_frames(chromium, in_lanes, "2,000 nodes in lanes", "canvas.graph", lanes=True)
        measure_frames(
            chromium, f"{harness}/?graph=layers&nodes=200&stages=8&micro_batches=900", "20,000 bars", "canvas.gantt"
        )
        measure_replay(chromium, f"{harness}/?graph=layers&nodes=200&stages=8&micro_batches=900")
        measure_details(chromium, f"{harness}/?graph=layers&nodes=2000&stages=8", repeats)


@contextmanager
def browser() -> Iterator[Any]:
    """Start Chromium as the tests do."""
    path = find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield chromium
        chromium.close()


@contextmanager
def opened(chromium: Any, address: str) -> Iterator[Any]:
    """Open an address in a new profile and wait for a plan on the canvas."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.add_init_script(FIND)
    page.goto(address)
    page.evaluate("window.frameThat(p => p.nodes > 0 && p.bars > 0)")
    yield page
    context.close()


def measure_first_paint(chromium: Any, app: str, repeats: int) -> None:
    """Time from opening the app to its first plan."""
    with opened(chromium, app):
        pass  # the first visitor starts what all share
    times: list[float] = []
    for _ in range(repeats):
        context = chromium.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.add_init_script(FIND)
        page.goto(app, wait_until="commit")
        times.append(page.evaluate("window.frameThat(p => p.nodes > 0 && p.bars > 0)"))
        context.close()
    report("first paint with a plan, 323 nodes", times, None)


def measure_new_plan(chromium: Any, address: str, name: str, repeats: int, upload: Path | None = None) -> None:
    """Time from a new number of accelerators to the drawn plan."""
    with opened(chromium, address) as page:
        if upload is not None:
            page.get_by_text("Upload", exact=True).click()
            before = page.evaluate("window.picture().nodes")
            page.locator("input[type=file]").set_input_files(upload)
            page.evaluate(f"window.frameThat(p => p.nodes !== {before} && p.bars > 0)")
        page.get_by_text("optimal (proven)").wait_for()
        num_nodes = page.evaluate("window.picture().nodes")
        box = page.get_by_role("spinbutton", name="Accelerators")
        times: list[float] = []
        first = int(box.input_value())
        for k in range(repeats):
            number = first + 1 + k
            digest = page.evaluate("window.picture().digest")
            box.fill(str(number))
            page.evaluate(
                "window.pressed = null; addEventListener('keydown', e => { window.pressed ??= e.timeStamp }, true)"
            )
            box.press("Enter")
            # The plan has come when the picture is another and the page no longer calls it stale.
            drawn = page.evaluate(
                f"window.frameThat(p => p.digest !== '{digest}' && !document.body.innerText.includes('stale'))"
            )
            times.append(drawn - page.evaluate("window.pressed"))
            page.wait_for_timeout(700)  # as a user who looks at each plan
        report(f"new plan by the DP, {name}, {num_nodes} nodes", times, PLAN_TARGET_MS)


def measure_recolouring(chromium: Any, address: str, repeats: int) -> None:
    """Time from a new split to its colours, with the view kept."""
    with opened(chromium, address) as page:
        page.locator(".levels").first.get_by_role("button", name="Nodes").click()
        page.evaluate("window.frameThat(p => p.level === 'operators')")
        page.evaluate(FRAMES, ["canvas.graph", "zoom", 20])
        box = page.get_by_label("Stages").first
        times: list[float] = []
        for k in range(repeats):
            digest, view = page.evaluate("[window.picture().digest, window.picture().view]")
            box.fill(str(3 + k % 5))
            page.evaluate(
                "window.pressed = null; addEventListener('keydown', e => { window.pressed ??= e.timeStamp }, true)"
            )
            box.press("Enter")
            drawn = page.evaluate(f"window.frameThat(p => p.digest !== '{digest}')")
            times.append(drawn - page.evaluate("window.pressed"))
            if page.evaluate("window.picture().view") != view:
                sys.exit("The view moved when a new split arrived.")
        report("recolouring, 2,000 nodes, view kept", times, RECOLOUR_TARGET_MS)


def measure_frames(chromium: Any, address: str, what: str, canvas: str, lanes: bool = False) -> None:
    """Time between frames while panning and zooming, the graph in the order of the network or in lanes of devices."""
    with opened(chromium, address) as page:
        if canvas == "canvas.graph":
            page.locator(".levels").first.get_by_role("button", name="Nodes").click()
            page.evaluate("window.frameThat(p => p.level === 'operators')")
            if lanes:
                page.get_by_role("button", name="Lanes").first.click()
        else:
            what = f"{page.evaluate('window.picture().bars'):,} bars"
        page.locator(canvas).first.scroll_into_view_if_needed()
        page.wait_for_timeout(1500)
        for kind in ("zoom", "pan"):
            report(f"{kind}, {what}", page.evaluate(FRAMES, [canvas, kind, NUM_FRAMES]), FRAME_TARGET_MS)


def measure_replay(chromium: Any, address: str) -> None:
    """Time between frames while the playhead runs over the timeline and micro-batches travel through the graph."""
    with opened(chromium, address) as page:
        num_bars = page.evaluate("window.picture().bars")
        page.keyboard.press("k")
        page.wait_for_timeout(1500)
        times = page.evaluate(REPLAY_FRAMES, NUM_FRAMES)
        if not page.evaluate("window.picture().replay.playing"):
            sys.exit("The replay did not run.")
        report(f"replay, {num_bars:,} bars", times, FRAME_TARGET_MS)


def measure_details(chromium: Any, address: str, repeats: int) -> None:
    """Time from a click on a node to its details."""
    with opened(chromium, address) as page:
        times: list[float] = []
        for k in range(repeats):
            place = page.evaluate(f"window.picture().screenPositionOf({1 + 240 * (k % 8)})")
            page.evaluate(
                "window.pressed = null; addEventListener('pointerup', e => { window.pressed ??= e.timeStamp }, true)"
            )
            page.mouse.click(place["x"], place["y"])
            shown = page.evaluate(
                "window.frameThat(p => p.selection && !window.pictureRoot().querySelector('.details')?.hidden)"
            )
            times.append(shown - page.evaluate("window.pressed"))
            page.keyboard.press("Escape")
            page.evaluate("window.frameThat(p => !p.selection)")
        report("click to details, 2,000 nodes", times, DETAILS_TARGET_MS)


def report(what: str, times: list[float], target_ms: float | None) -> None:
    """Print one line of the table."""
    ranked = sorted(times)
    p95 = ranked[min(len(ranked) - 1, round(0.95 * (len(ranked) - 1)))]
    target = "" if target_ms is None else f"{target_ms:,} (p95)"
    print(f"| {what} | {ranked[len(ranked) // 2]:,.0f} | {p95:,.0f} | {target} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
