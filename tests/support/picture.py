"""The linked picture on a page of its own, served for browser tests, and a handle on it.

The component's root element answers what is where through `__placement` (see `explorer/canvas/app/probe.js`).
"""

import base64
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.serving import free_port, served

BUSY_MS = 120_000
"""How long a machine that does much else may take to show a first picture."""


@contextmanager
def served_picture() -> Iterator[str]:
    """Serve `canvas_page.py`; yield the address."""
    port = free_port()
    options = {
        "server.port": port,
        "server.address": "localhost",
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    page = str(Path(__file__).with_name("canvas_page.py"))
    arguments = ["-m", "streamlit", "run", page, *(f"--{name}={value}" for name, value in options.items())]
    with served(arguments, port) as address:
        yield address


class Picture:
    """A picture on a page, the first one unless said; without an address on the page as it is."""

    def __init__(self, page: Any, address: str | None, number: int = 0) -> None:
        self.page = page
        if address is not None:
            page.goto(address)
        self.root = page.locator(".placed-pipeline").nth(number)
        self.root.wait_for(timeout=BUSY_MS)
        self.wait_for("p.view !== null && (p.ganttView !== null || p.bars === 0)")

    def get(self, expression: str) -> Any:
        """Evaluate an expression in `p`, the picture's probe."""
        return self.root.evaluate(f"root => {{ const p = root.__placement; return {expression}; }}")

    def wait_for(self, expression: str) -> None:
        end = time.monotonic() + 30
        while not self.get(expression):
            assert time.monotonic() < end, f"never came true: {expression}"
            self.page.wait_for_timeout(50)

    def point(self, expression: str) -> tuple[float, float]:
        place = self.get(expression)
        return place["x"], place["y"]

    def colour_at(self, x: float, y: float) -> str:
        """Return the colour on the screen; a PNG of one pixel, read without an image library."""
        clip = {"x": round(x), "y": round(y), "width": 1, "height": 1}
        picture = self.page.screenshot(clip=clip, animations="disabled")
        rgb = self.page.evaluate(
            """async data => {
                const image = new Image();
                image.src = `data:image/png;base64,${data}`;
                await image.decode();
                const canvas = new OffscreenCanvas(1, 1);
                canvas.getContext("2d").drawImage(image, 0, 0);
                return [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data.slice(0, 3)];
            }""",
            base64.b64encode(picture).decode(),
        )
        return "#" + "".join(f"{channel:02X}" for channel in rgb)


def choose(page: Any, label: str, option: str) -> None:
    """Pick an option by its name, or what stands before a colon in it.

    A list that a run of the page has closed again is opened anew.
    """
    from playwright.sync_api import TimeoutError as WaitedTooLong

    for _ in range(5):
        page.get_by_role("combobox", name=label).click()
        with suppress(WaitedTooLong):
            page.get_by_role("option", name=re.compile(f"^{re.escape(option)}($|:)")).first.click(timeout=10_000)
            return
    raise AssertionError(f"{label} offers no {option}")
