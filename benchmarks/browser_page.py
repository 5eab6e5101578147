"""A visitor with a real Chromium: the same questions as `streamlit_client` asks, read from what is drawn."""

import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import TimeoutError as NotInTime
from playwright.async_api import async_playwright

from benchmarks.explorer_page import Answer, Seen, answer_of
from tests.support.fixtures import CHROMIUM_FLAGS, CHROMIUM_NAMES

SEEN = """
() => {
  const text = (root, id) => root.querySelector(`[data-testid="${id}"]`)?.innerText.trim() ?? '';
  return {
    query: location.search,
    isStill: document.querySelector('[data-testid="stApp"]')?.dataset.testScriptState === 'notRunning',
    metrics: [...document.querySelectorAll('[data-testid="stMetric"]')].map(
      m => [text(m, 'stMetricLabel'), text(m, 'stMetricValue'), text(m, 'stMetricDelta')]),
    alerts: [...document.querySelectorAll('[data-testid="stAlert"]')].map(a => a.innerText),
    html: [...document.querySelectorAll('.solve-strip, [data-state][data-value-ms]')].map(e => e.outerHTML),
  };
}
"""
LOOK_MS = 100
"""How often a page is looked at while an answer is awaited; what is measured is late by half of it."""


def find_chromium() -> str:
    """Return the path of the browser; ends the program if there is none."""
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        raise SystemExit("No browser found; install chromium.")
    return path


@asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """Start a headless Chromium."""
    path = find_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


async def seen_on(page: Any) -> tuple[Seen, str, bool]:
    """Return what a page shows, its address's query, and whether no run of it is under way."""
    found = await page.evaluate(SEEN)
    seen = Seen(
        tuple((m[0], m[1], m[2]) for m in found["metrics"]),
        tuple(found["alerts"]),
        tuple(found["html"]),
        time.monotonic(),
    )
    return seen, found["query"], found["isStill"]


async def set_number(page: Any, label: str, value: float) -> None:
    """Type a number and press Enter."""
    box = page.get_by_role("spinbutton", name=label, exact=True)
    await box.fill(f"{value:g}")
    await box.press("Enter")


async def settled_in_browser(page: Any, name: str, value: str, patience_s: float) -> tuple[Answer, str]:
    """Return the answer drawn for an address with `name=value`, and its query; TimeoutError if none comes."""
    wanted = f"{name}={value}"
    try:
        await page.wait_for_function(
            f"wanted => {{ const s = ({SEEN})(); return s.isStill && (s.query.slice(1).split('&').includes(wanted))"
            " && s.metrics.length && !s.alerts.some(a => a.includes('is stale'))"
            " && !s.metrics.some(m => m[2].includes('(running)')) && !s.html.some(h => h.includes('<b>Solving</b>')"
            ' || /data-state="(so-far|stale)"/.test(h)); }',
            arg=wanted,
            polling=LOOK_MS,
            timeout=1000 * patience_s,
        )
    except NotInTime as error:
        raise TimeoutError(str(error)) from error
    seen, query, _ = await seen_on(page)
    return answer_of(seen), query
