"""How quick the figures of the lessons are: every step of every lesson in headless Chromium.

`python -m benchmarks.lessons` prints a markdown table, a line a lesson, times in ms:

* draw: a figure of a step from its data to the next painted frame, each drawn anew REPEATS times; the part that the
  script takes by itself beside it.
* step: the same for one step through the frames of a figure, forwards and back.
* frames: the time between two painted frames while a figure plays as fast as it can, a step with every frame.

A painted frame is awaited, so no time is below that to the next one, up to 17 ms. Not counted is what the server needs
to answer a key; timelines are the picture of the app, which `benchmarks.interface` measures.
"""

import sys
from typing import Any

from playwright.sync_api import expect

from benchmarks.interface import WAIT_MS, browser
from benchmarks.machine import machine
from explorer.lessons.catalogue import COURSE
from explorer.lessons.records import Lesson
from tests.support.serving import free_port, served

REPEATS = 5
TARGET_MS = 100

MEASURE = """
async (root, repeats) => {
  const figure = root.__figure;
  const painted = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve, 0)));
  const timed = async (action) => {
    const begin = performance.now();
    action();
    const script = performance.now() - begin;
    await painted();
    return [performance.now() - begin, script];
  };
  const draw = [], step = [], frames = [];
  await painted();
  for (let i = 0; i < repeats; i += 1) draw.push(await timed(() => figure.show(0)));
  const last = figure.frames.length - 1;
  for (let i = 1; i <= last; i += 1) step.push(await timed(() => figure.go(i)));
  for (let i = last - 1; i >= 0; i -= 1) step.push(await timed(() => figure.go(i)));
  if (last > 0) {
    figure.pace = 1;
    figure.play();
    let before = await new Promise(requestAnimationFrame);
    while (figure.playing) {
      const now = await new Promise(requestAnimationFrame);
      frames.push(now - before);
      before = now;
    }
    figure.go(0);
  }
  return { draw, step, frames };
}
"""


def main() -> None:
    """Print the table."""
    print(f"{machine()}, headless Chromium without a GPU, each figure {REPEATS} times; p50 / p95 / largest, ms\n")
    print("| lesson | figures | draw | of it script | steps | step | frames while playing |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    port = free_port()
    is_slow = False
    with served(["-m", "explorer.launch", "--headless", "--port", str(port)], port) as app, browser() as chromium:
        for number, lesson in enumerate(COURSE, start=1):
            context = chromium.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            page.set_default_timeout(WAIT_MS)
            found = [one for step in range(1, len(lesson.steps) + 1) for one in figures_of(page, app, lesson, step)]
            context.close()
            draw, step, frames = ([time for one in found for time in one[name]] for name in ("draw", "step", "frames"))
            totals, scripts, steps = [t for t, _ in draw], [s for _, s in draw], [t for t, _ in step]
            print(
                f"| {number}. {lesson.title} | {len(found)} | {spread(totals)} | {spread(scripts)} | {len(steps)} | "
                f"{spread(steps)} | {spread(frames)} |",
                flush=True,
            )
            is_slow = is_slow or max([*totals, *steps, 0.0]) > TARGET_MS
    if is_slow:
        sys.exit(f"A step takes more than {TARGET_MS} ms to draw.")


def figures_of(page: Any, app: str, lesson: Lesson, step: int) -> list[dict[str, Any]]:
    """Open a step, reveal it and measure each of its figures."""
    page.goto(f"{app}/learn?lesson={lesson.name}&step={step}")
    page.locator(".st-key-lesson_next button").wait_for()
    if lesson.steps[step - 1].ask is not None:
        settle(page)
        page.get_by_role("button", name="Reveal", exact=True).click()
        page.get_by_text("The answer is").first.wait_for()
    settle(page)
    return [one.evaluate(MEASURE, REPEATS) for one in page.locator(".lesson-figure").all()]


def settle(page: Any) -> None:
    """Wait until the step is there and no solver is at work on it."""
    expect(page.get_by_text("The solver is at work on this")).to_have_count(0, timeout=WAIT_MS)
    page.locator("[data-testid='stApp'][data-test-script-state='notRunning']").wait_for()


def spread(times: list[float]) -> str:
    """Return median, 95th percentile and maximum."""
    if not times:
        return "–"
    ranked = sorted(times)
    p95 = ranked[round(0.95 * (len(ranked) - 1))]
    return f"{ranked[len(ranked) // 2]:.0f} / {p95:.0f} / {ranked[-1]:.0f}"


if __name__ == "__main__":
    main()
