"""What tests in the browser do on the pages of the app."""

import re
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

SOLVE_MS = 120_000
"""Patience with a solve on a busy machine."""


def metric(page: Any, label: str) -> str:
    """Return the value of a headline number."""
    box = page.get_by_test_id("stMetric").filter(has=page.get_by_text(label, exact=True)).first
    return str(box.get_by_test_id("stMetricValue").inner_text())


def wait_for_metric(page: Any, label: str, value: str) -> None:
    box = page.get_by_test_id("stMetric").filter(has=page.get_by_text(label, exact=True)).first
    box.get_by_text(value, exact=True).wait_for(timeout=SOLVE_MS)


def picture(page: Any, expression: str) -> Any:
    """Evaluate an expression in `p`, what the linked picture tells about itself."""
    root = page.locator(".placed-pipeline").first
    return root.evaluate(f"root => {{ const p = root.__placement; return {expression}; }}")


def wait_for_picture(page: Any, expression: str) -> None:
    page.wait_for_function(
        "() => { const find = root => { for (const el of root.querySelectorAll('*')) {"
        " if (el.classList.contains('placed-pipeline')) return el;"
        " if (el.shadowRoot) { const found = find(el.shadowRoot); if (found) return found; } } return null; };"
        " const root = find(document); if (!root) return false; const p = root.__placement;"
        f" return {expression}; }}",  # not by Function: the page's policy runs no text as a script
        timeout=SOLVE_MS,
    )


def wait_until_apart(first: Any, second: Any, *, across: bool) -> None:
    """Wait until one element ends before another begins, beside or below it: a page that has just come still moves."""
    start, extent = ("x", "width") if across else ("y", "height")

    def are_apart() -> bool:
        one, other = first.bounding_box(), second.bounding_box()
        return None not in (one, other) and one[start] + one[extent] <= other[start]

    eventually(are_apart)


def set_number(page: Any, label: str, number: str) -> None:
    box = page.get_by_role("spinbutton", name=label)
    box.fill(number)
    box.press("Enter")


def upload(page: Any, name: str, content: bytes) -> None:
    files = {"name": name, "mimeType": "application/json", "buffer": content}
    page.locator("input[type=file]").set_input_files(files)


def tiny_graph(name: str, cpu_latency: Any = 9) -> dict[str, Any]:
    """Two nodes on two accelerators, the first with a name."""
    node = {"supportedOnFpga": 1, "cpuLatency": cpu_latency, "fpgaLatency": 3, "isBackwardNode": 0}
    return {
        "maxFPGAs": 2,
        "maxCPUs": 0,
        "nodes": [{"id": 1, "name": name, **node}, {"id": 2, **node}],
        "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}],
    }


def download(page: Any, label: str) -> tuple[str, bytes]:
    """Press a button; return the name and the content of the file that comes."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name=label, exact=True).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def fill(page: Any, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True)
    box.fill(text)
    box.press("Enter")


def wait_for_plan_so_far(page: Any) -> None:
    """Wait until the solve that runs has found a plan; cancelled before, it leaves nothing."""
    page.locator(".solve-strip").filter(has_text=re.compile(r"Best plan so far \d")).wait_for(timeout=SOLVE_MS)


def rest(page: Any) -> None:
    """Wait until a plan is proven and no run of the page is under way: a graph that has just come has new boxes."""
    page.get_by_text("optimal (proven)").first.wait_for()
    page.locator('[data-test-script-state="notRunning"]').wait_for()


def search_option(page: Any, label: str, option: str) -> None:
    """Pick an option of a box at the side by typing its name, once the page rests."""
    rest(page)
    box = page.get_by_role("combobox", name=label)
    box.click()
    box.fill(option)
    box.press("Enter")
