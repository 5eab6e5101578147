"""Every view of the app photographed in every size and theme, to be looked at one by one.

`python -m tests.browser.gallery FOLDER [--size 1280x800] [--theme dark] [--view NAME]` starts the app and writes one
PNG for each screenful: `FOLDER/1280x800/light/NAME.png`, `NAME-2.png` for what is further down. On a phone the
screenfuls of a view stand beside each other. Nothing is judged here: the tests do that for what can be measured.
"""

import argparse
import io
import itertools
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Error, sync_playwright

from explorer.lessons.catalogue import COURSE
from tests.support.app_page import SOLVE_MS, fill
from tests.support.fixtures import CHROMIUM_FLAGS, CHROMIUM_NAMES
from tests.support.lesson_pages import lesson_called, predict, settled
from tests.support.picture import Picture
from tests.support.serving import free_port, served

SIZES = ((1280, 800), (1920, 1080), (1024, 768), (390, 844))
ROOM_SIZES = ((1920, 1080), (1024, 768))
THEMES = ("light", "dark")
MOST_SCREENFULS = 4
REST_MS = 1200
TYPES = "devices=2xH100-SXM:link=nvlink4%2B3xL40S:link=pcie4-x16&cpus=0"

BIG = "sample=bert_base_operator_training"
HARD = "sample=inception_v3_operator_inference&splits=convex&accelerators=7&bandwidth=2"

LIMITS = itertools.count(30)

View = Callable[[Any, str], None]
"""What brings a page to a view, given the address of the app."""


def opened(page: Any, app: str, query: str) -> Picture:
    page.goto(f"{app}/?{query}")
    picture = Picture(page, None)
    solve = page.get_by_role("button", name="Solve now")
    ended = page.get_by_text(re.compile(r"optimal \(proven\)|the optimum|No plan exists"))
    solve.or_(ended).first.wait_for()
    if solve.count():
        solve.click()
        ended.first.wait_for()
    page.locator('[data-test-script-state="notRunning"]').wait_for(timeout=SOLVE_MS)
    return picture


def press(page: Any, name: str | re.Pattern[str]) -> None:
    page.get_by_role("button", name=name).first.click()


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def go_to(page: Any, app: str, place: str, query: str = "") -> None:
    page.goto(f"{app}/{place}?{query}")
    page.locator('[data-test-script-state="notRunning"]').wait_for(timeout=SOLVE_MS)


def unfold_side(page: Any) -> None:
    """Show the form at the side, which a narrow page has folded away."""
    opener = page.get_by_test_id("stExpandSidebarButton")
    if opener.count() and opener.is_visible():
        opener.click()
        page.wait_for_timeout(600)


def scroll_to(page: Any, element: Any) -> None:
    element.evaluate("e => e.scrollIntoView({ block: 'start' })")
    page.wait_for_timeout(300)


def at(query: str) -> View:
    """Return the view of an address."""

    def look(page: Any, app: str) -> None:
        opened(page, app, query)

    return look


def under_tab(query: str, name: str, ready: str | None = None) -> View:
    def look(page: Any, app: str) -> None:
        opened(page, app, query)
        tab(page, name)
        if ready:
            page.get_by_text(re.compile(ready)).first.wait_for()
        scroll_to(page, page.get_by_role("tab", name=name, exact=True))

    return look


def helps(page: Any, app: str, query: str) -> None:
    opened(page, app, query)
    tab(page, "Explain")
    for name in ("What would help?", "Which constraint limits it?"):
        ask = page.get_by_role("button", name=name)
        with suppress(Error):
            ask.first.click(timeout=5000)
    page.get_by_text(re.compile("would help most|helps|nothing")).first.wait_for()
    page.wait_for_timeout(6000)
    scroll_to(page, page.get_by_role("tab", name="Explain", exact=True))


def needs(page: Any, app: str, query: str, wanted: str) -> None:
    opened(page, app, query)
    tab(page, "Explain")
    box = page.get_by_label(re.compile(r"^At (least|most) \("))
    box.first.fill(wanted)
    box.first.press("Enter")
    press(page, "Find the least hardware")
    table = page.get_by_role("table", name="What the wanted throughput needs")
    table.wait_for()
    cancel = page.locator("[class*='st-key-cancel-what-is-needed'] button, .st-key-cancel_needs button")
    cancel.wait_for(state="detached", timeout=3 * SOLVE_MS)
    scroll_to(page, table)


def searched(page: Any, app: str, words: str) -> None:
    picture = opened(page, app, "sample=bert_base_operator_inference")
    box = picture.root.get_by_role("searchbox")
    box.fill(words)
    box.press("Enter")


def chosen(page: Any, app: str, query: str, node: int) -> None:
    picture = opened(page, app, query)
    page.mouse.click(*picture.point(f"p.screenPositionOf({node})"))
    picture.root.locator(".details:not([hidden])").wait_for()


def edited(page: Any, app: str) -> None:
    picture = opened(page, app, "sample=teaching_chain")
    page.mouse.click(*picture.point("p.screenPositionOf(3)"))
    page.keyboard.press("2")
    page.wait_for_timeout(1500)


def tables(page: Any, app: str) -> None:
    picture = opened(page, app, "sample=bert_base_operator_training")
    picture.root.get_by_role("tab", name="Cut tensors").click()
    scroll_to(page, picture.root.locator(".tables"))


def replayed(page: Any, app: str, query: str, ms_share: float = 0.42) -> None:
    picture = opened(page, app, query)
    picture.root.get_by_label("Playhead").evaluate(
        f"input => {{ input.value = {ms_share}; input.dispatchEvent(new Event('input')); }}"
    )
    picture.wait_for("p.replay.timeMs > 0")
    if "present" not in query:
        scroll_to(page, picture.root)


def noted(page: Any, app: str) -> None:
    picture = opened(page, app, "sample=gnmt_layer_inference&present=yes")
    picture.root.get_by_role("button", name="Put a note on the graph").click()
    x, y = picture.point("p.screenPositionOf(4)")
    page.mouse.move(x + 60, y - 60)
    page.mouse.down()
    page.mouse.move(x, y, steps=4)
    page.mouse.up()
    page.keyboard.type("the slowest stage")
    page.keyboard.press("Enter")
    picture.wait_for("p.notes.length === 1")


def kept_key(page: Any) -> str:
    found = re.search(r"keep=[^&]*", page.url)
    return found[0] if found else ""


def compared(page: Any, app: str, base: str, parts: tuple[str, ...]) -> None:
    """Keep the plan of each of some questions, which are parts of an address, and compare them."""
    for number, part in enumerate(parts, start=1):
        opened(page, app, f"{base}&{part}&{kept_key(page)}")
        press(page, "Keep for comparison")
        page.get_by_role("button", name=f"Kept ({number} of 4)").wait_for()
    key = kept_key(page)
    go_to(page, app, "compare", key)
    page.get_by_role("heading", name="B against A").wait_for()
    page.locator(".placed-pipeline canvas.gantt").nth(1).wait_for()


def example_of_compare(page: Any, app: str) -> None:
    go_to(page, app, "compare", "sample=gnmt_layer_inference")
    page.locator(".placed-pipeline canvas.gantt").nth(1).wait_for()
    page.locator(".js-plotly-plot").first.wait_for()


def example_of_sweep(page: Any, app: str) -> None:
    go_to(page, app, "sweep", "sample=gnmt_layer_inference")
    page.locator(".js-plotly-plot").first.wait_for()


def methods(page: Any, app: str, query: str) -> None:
    opened(page, app, query)
    press(page, "Keep for comparison")
    page.get_by_role("button", name="Kept (1 of 4)").wait_for()
    go_to(page, app, "compare", kept_key(page))
    press(page, "Run all methods")
    page.get_by_text("Select a row to keep its plan.").wait_for()
    scroll_to(page, page.get_by_role("table", name="Value of each method, the fastest first"))


def swept(page: Any, app: str, query: str, prices: dict[str, str] | None = None, wanted: str = "") -> None:
    go_to(page, app, "sweep", query)
    unfold_side(page)
    press(page, "Start the sweep")
    page.get_by_text(re.compile(r"\d+ points in")).wait_for(timeout=3 * SOLVE_MS)
    if prices:
        press(page, "Set prices")
        for name, price in prices.items():
            fill(page, name, price)
        page.keyboard.press("Escape")
        page.wait_for_timeout(500)
        if wanted:
            box = page.get_by_label(re.compile(r"^At least \("))
            box.fill(wanted)
            box.press("Enter")
    page.wait_for_timeout(1500)


def solving(page: Any, app: str) -> None:
    # A limit of its own: the plan of a question that was asked before is there at once, without a solve.
    page.goto(f"{app}/?{HARD}&limit={next(LIMITS)}")
    press(page, "Solve now")
    page.locator(".solve-strip").filter(has_text=re.compile(r"Best plan so far \d")).wait_for(timeout=SOLVE_MS)
    page.wait_for_timeout(3000)


def cancelled(page: Any, app: str) -> None:
    solving(page, app)
    press(page, "Cancel")
    page.locator('[data-test-script-state="notRunning"]').wait_for(timeout=SOLVE_MS)
    page.wait_for_timeout(2000)


def side(page: Any, app: str, query: str, button: str | None = None) -> None:
    """The form at the side, and what one of its buttons opens."""
    opened(page, app, query)
    unfold_side(page)
    if button:
        press(page, button)
        page.wait_for_timeout(800)


def presented_when_solved(page: Any, app: str, query: str) -> None:
    """What has to be asked for first: a presentation lies over the button that solves."""
    picture = opened(page, app, query)
    page.keyboard.press("p")
    picture.wait_for("p.presenting")


def lesson_step(page: Any, app: str, name: str, number: int) -> None:
    """A step of a lesson as a room sees it, with its question answered."""
    go_to(page, app, "learn", f"lesson={name}&step={number}&present=yes")
    lesson = lesson_called(name)
    settled(page)
    if number <= len(lesson.steps) and lesson.steps[number - 1].ask is not None:
        predict(page, lesson, number, rightly=True)
        settled(page)


VIEWS: dict[str, View] = {
    "explore": at("sample=gpt2_xl_layer_training"),
    "explore-types": at(f"sample=llama3_8b_layer_inference&{TYPES}"),
    "explore-gap": at(f"{HARD}&limit=3"),
    "explore-full": at("sample=gpt2_xl_layer_training&memory=16"),
    "no-plan": at("sample=gpt2_xl_layer_training&memory=0.01&cpus=0"),
    "tie": at("sample=teaching_tied_embedding"),
    "solving": solving,
    "cancelled": cancelled,
    "folded": at("sample=llama3_8b_layer_training"),
    "level-layers": at(f"{BIG}&level=layers"),
    "level-operators": at(f"{BIG}&level=operators"),
    "level-stages": at(f"{BIG}&level=stages"),
    "cut-inside": at("sample=bert_base_operator_inference&level=layers&splits=free"),
    "lanes-time": at("sample=resnet50_operator_inference&lanes=yes&level=operators&colour=time"),
    "interleaved": at("sample=gpt2_xl_layer_training&schedule=interleaved"),
    "zb-v": at("sample=gpt2_xl_layer_training&schedule=zb-v"),
    "zb-h1": at("sample=gpt2_xl_layer_training&schedule=zb-h1"),
    "schedules": under_tab("sample=gpt2_xl_layer_training", "Schedules", "ends first"),
    "explain": under_tab("sample=gnmt_layer_training", "Explain"),
    "explain-memory": under_tab("sample=bert_base_operator_inference&accelerators=6&memory=0.02", "Explain"),
    "helps": partial(helps, query="sample=gnmt_layer_inference"),
    "helps-types": partial(helps, query=f"sample=llama3_8b_layer_inference&{TYPES}"),
    "needs": partial(needs, query="sample=llama3_8b_layer_inference", wanted="90"),
    "needs-memory": partial(needs, query="sample=gpt2_xl_layer_inference&memory=2", wanted="40"),
    "share": under_tab("sample=gpt2_xl_layer_training", "Share and export"),
    "search": partial(searched, words="attention"),
    "search-error": partial(searched, words="time>"),
    "details": partial(chosen, query="sample=bert_base_operator_inference&level=operators", node=40),
    "edited": edited,
    "tables": tables,
    "replay": partial(replayed, query="sample=bert_base_operator_inference"),
    "latency": at("sample=unet_operator_inference&objective=latency"),
    "form": partial(side, query="sample=gpt2_xl_layer_training"),
    "form-devices": partial(
        side, query=f"sample=llama3_8b_layer_inference&{TYPES}", button=re.compile("H100-SXM . |2 × H100")
    ),
    "compare-example": example_of_compare,
    "compare": partial(compared, base="sample=gnmt_layer_inference", parts=("accelerators=6", "accelerators=4")),
    "compare-big": partial(compared, base=BIG, parts=("accelerators=6", "accelerators=6&memory=8")),
    "compare-types": partial(
        compared,
        base="sample=llama3_8b_layer_inference&cpus=0",
        parts=("devices=2xH100-SXM:link=nvlink4%2B3xL40S:link=pcie4-x16", "devices=2xH100-SXM:link=nvlink4%2B1xL40S"),
    ),
    "methods": partial(methods, query="sample=inception_v3_operator_inference"),
    "sweep-example": example_of_sweep,
    "sweep-line": partial(swept, query="sample=gpt2_xl_layer_inference&over=accelerators&values=1:14"),
    "sweep-map": partial(
        swept,
        query="sample=bert_base_operator_inference&over=accelerators&values=1:8&and=bandwidth&and_values=1:64:x2",
    ),
    "sweep-prices": partial(
        swept,
        query=f"sample=llama3_8b_layer_inference&{TYPES}&over=count:L40S&values=0:8&and=count:H100-SXM&and_values=0:3",
        prices={"H100-SXM": "4", "L40S": "1.2"},
        wanted="40",
    ),
    "lessons": partial(go_to, place="learn"),
    "lesson": partial(go_to, place="learn", query="lesson=cuts&step=2"),
    "present-lesson": partial(go_to, place="learn", query="lesson=cuts&step=2&present=yes"),
    "present": at("sample=llama3_8b_layer_training&present=yes"),
    "present-big": at(f"{BIG}&present=yes"),
    "present-types": at(f"sample=llama3_8b_layer_inference&{TYPES}&present=yes"),
    "present-many": at("sample=gpt2_xl_layer_training&accelerators=22&cpus=0&present=yes"),
    "present-zb": at("sample=gpt2_xl_layer_training&schedule=zb-h1&present=yes"),
    "present-replay": partial(replayed, query="sample=bert_base_operator_inference&present=yes"),
    "present-notes": noted,
    "present-interleaved": at("sample=gpt2_xl_layer_training&schedule=interleaved&present=yes"),
    "present-zb-v": at("sample=gpt2_xl_layer_training&schedule=zb-v&present=yes"),
    "present-lanes": at("sample=llama3_8b_layer_inference&lanes=yes&level=operators&present=yes"),
    "present-time": at(f"{BIG}&level=operators&colour=time&present=yes"),
    "present-memory": at("sample=gpt2_xl_layer_training&colour=memory&level=operators&present=yes"),
    "present-stages": at(f"{BIG}&level=stages&accelerators=8&present=yes"),
    "present-latency": partial(presented_when_solved, query="sample=unet_operator_inference&objective=latency"),
    "present-tie": at("sample=teaching_tied_embedding&present=yes"),
    "present-details": partial(
        chosen, query="sample=bert_base_operator_inference&level=operators&present=yes", node=40
    ),
}

LESSON_STEPS: dict[str, View] = {
    f"present-{lesson.name}-{number}": partial(lesson_step, name=lesson.name, number=number)
    for lesson in COURSE
    for number in range(1, lesson.num_steps + 1)
}
VIEWS |= LESSON_STEPS


def shots(page: Any, width: int, height: int) -> list[Image.Image]:
    """Return what is on the screen and, screenful by screenful, what is below it."""
    here = "e => [e.scrollTop, e.scrollHeight, e.clientHeight]"
    taken = [screenshot(page)]
    main = page.locator(".stMain")
    if main.count() == 0 or ("present=yes" in page.url and "/learn" not in page.url):
        return taken
    while len(taken) < MOST_SCREENFULS:
        top, all_of_it, seen = main.evaluate(here)
        if top + seen >= all_of_it - 40:
            break
        main.evaluate("e => e.scrollBy(0, e.clientHeight - 40)")
        page.wait_for_timeout(400)
        taken.append(screenshot(page))
    return taken


def screenshot(page: Any) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot(animations="disabled")))


def beside(pictures: list[Image.Image]) -> Image.Image:
    gap = 12
    width, height = pictures[0].size
    sheet = Image.new("RGB", (len(pictures) * (width + gap) - gap, height), "magenta")
    for i, picture in enumerate(pictures):
        sheet.paste(picture, (i * (width + gap), 0))
    return sheet


def photograph(browser: Any, app: str, folder: Path, name: str, size: tuple[int, int], themes: list[str]) -> None:
    """Write the screenfuls of one view at one size in each theme."""
    width, height = size
    for theme in themes:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        page = context.new_page()
        page.set_default_timeout(SOLVE_MS)
        place = folder / f"{width}x{height}" / theme
        place.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        try:
            VIEWS[name](page, app)
            said = ""
        except (Error, AssertionError) as error:
            said = f": not reached: {str(error).splitlines()[0]}"
        page.wait_for_timeout(REST_MS)
        pictures = shots(page, width, height)
        if width < 640:
            pictures = [beside(pictures)]
        for i, picture in enumerate(pictures):
            picture.save(place / (f"{name}.png" if i == 0 else f"{name}-{i + 1}.png"))
        print(f"{width}x{height} {theme} {name} {time.monotonic() - begun:.0f} s{said}", flush=True)
        context.close()


def sizes_of(name: str) -> tuple[tuple[int, int], ...]:
    """Return the sizes that a view is shown in: a projector's is for what is presented, and the first screen."""
    if name in LESSON_STEPS:
        return ROOM_SIZES
    return tuple(size for size in SIZES if size != (1920, 1080) or name.startswith("present") or name == "explore")


def main(arguments: list[str]) -> None:
    """Photograph the views that are asked for, all unless said."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.gallery", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", action="append", choices=[f"{w}x{h}" for w, h in SIZES])
    parser.add_argument("--theme", action="append", choices=THEMES)
    parser.add_argument("--view", action="append", choices=list(VIEWS))
    parser.add_argument("--app", help="address of an app that runs already")
    asked = parser.parse_args(arguments)
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        sys.exit(f"no browser found; install one of {', '.join(CHROMIUM_NAMES)}")
    with ExitStack() as stack:
        if asked.app is None:
            port = free_port()
            asked.app = stack.enter_context(served(["-m", "explorer.launch", "--headless", "--port", str(port)], port))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        for name in asked.view or VIEWS:
            for size in sizes_of(name):
                if asked.size is None or f"{size[0]}x{size[1]}" in asked.size:
                    photograph(browser, asked.app, asked.folder, name, size, asked.theme or list(THEMES))


if __name__ == "__main__":
    main(sys.argv[1:])
