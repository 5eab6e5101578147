"""Names from a file are text wherever the app shows them, whatever they look like."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.app_page import SOLVE_MS
from tests.support.picture import Picture

pytestmark = pytest.mark.browser

NASTY = "<img src=x onerror=alert(1)>"
IMAGES = """() => {
    const found = [];
    const search = (root) => {
        for (const element of root.querySelectorAll("*")) {
            if (element.matches("img[src=x], [onerror], script[src=x]")) found.push(element.outerHTML);
            if (element.shadowRoot) search(element.shadowRoot);
        }
    };
    search(document);
    return found;
}"""


def nasty_graph() -> bytes:
    """Three nodes in a row on two accelerators, names and layers of which are markup."""
    cost = {"supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 0, "size": 1000}
    nodes = [{"id": v, "name": f"{NASTY} {v}", "layer": f"{NASTY} layer {v}", **cost} for v in (1, 2, 3)]
    edges = [{"sourceId": v, "destId": v + 1, "cost": 0.5} for v in (1, 2)]
    return json.dumps({"name": NASTY, "maxFPGAs": 2, "maxCPUs": 0, "nodes": nodes, "edges": edges}).encode()


def test_markup_in_names_is_shown_as_text_everywhere(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_default_timeout(60_000)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(app)
    page.get_by_test_id("stMetric").first.wait_for(timeout=SOLVE_MS)
    page.get_by_text("Upload", exact=True).click()
    files = {"name": f"{NASTY}.json".replace("/", ""), "mimeType": "application/json", "buffer": nasty_graph()}
    page.locator("input[type=file]").set_input_files(files)
    picture = Picture(page, None)
    page.get_by_text("3 nodes").first.wait_for(timeout=SOLVE_MS)
    picture.wait_for("p.nodes === 3 && p.bars > 0")
    picture.root.locator(".levels").first.get_by_role("button", name="Nodes").click()
    picture.wait_for("p.level === 'operators'")

    page.mouse.move(*picture.point("p.screenPositionOf(2)"))
    picture.root.locator(".tooltip").get_by_text(f"{NASTY} 2").first.wait_for()
    page.mouse.click(*picture.point("p.screenPositionOf(2)"))
    details = picture.root.locator(".details")
    details.get_by_role("heading", name=f"{NASTY} 2").wait_for()
    expect(details).to_contain_text(f"{NASTY} layer 2")
    expect(details).to_contain_text(f"{NASTY} 1")
    for title, expected in (
        ("Devices", "Accelerator 1"),
        ("Cut tensors", NASTY),
        ("Nodes", NASTY),
        ("Events", "compute"),
    ):
        picture.root.get_by_role("tab", name=title).click()
        expect(picture.root.locator(".table-scroll:not([hidden])")).to_contain_text(expected)
    search = picture.root.locator(".search input")
    search.fill('"<img src=x"')
    search.press("Enter")
    picture.root.locator(".count").get_by_text("1 of 3").wait_for()
    search.fill("")

    # Edits speak of nodes by their names, and so may every part of the page below.
    page.mouse.click(*picture.point("p.screenPositionOf(2)"))
    digest = picture.get("p.digest")
    move = picture.root.locator(".edit-targets button:enabled").first
    move.click()
    picture.wait_for(f"p.digest !== '{digest}'")
    for tab in page.locator("[data-testid='stTabs'] [role='tab']").all():
        tab.click()
        page.wait_for_timeout(400)
    assert page.evaluate(IMAGES) == []
    assert dialogs == []
    assert page.title() == "DNN Placement Explorer"


TURNED = "safe\u202egpj.exe"
HEBREW = "\u05e9\u05d0\u05d9\u05dc\u05ea\u05d4"
STANDS_LEFT_OF = """(element, [first, second]) => {
    const rectOf = (part) => {
        const range = document.createRange();
        const { firstChild: text } = element;
        range.setStart(text, text.data.indexOf(part));
        range.setEnd(text, text.data.indexOf(part) + part.length);
        return range.getBoundingClientRect();
    };
    return rectOf(first).right <= rectOf(second).left + 1;
}"""


def turning_graph() -> bytes:
    """A node whose name turns the direction of what follows, which sends a tensor with a Hebrew name."""
    cost = {"supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 0, "size": 1000}
    nodes = [{"id": 1, "name": TURNED, **cost}, {"id": 2, "name": f"{HEBREW} 7", **cost}, {"id": 3, **cost}]
    edges = [{"sourceId": v, "destId": v + 1, "cost": 0.5, "size": 2**21, "tensor": HEBREW} for v in (1, 2)]
    return json.dumps({"maxFPGAs": 1, "maxCPUs": 0, "nodes": nodes, "edges": edges}).encode()


def test_names_from_right_to_left_turn_nothing_beside_them(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(app)
    page.get_by_test_id("stMetric").first.wait_for(timeout=SOLVE_MS)
    page.get_by_text("Upload", exact=True).click()
    files = {"name": "turning.json", "mimeType": "application/json", "buffer": turning_graph()}
    page.locator("input[type=file]").set_input_files(files)
    picture = Picture(page, None)
    picture.wait_for("p.nodes === 3 && p.bars > 0 && p.names().length === 3")
    assert dict(picture.get("p.names()"))[0] == TURNED.replace("\u202e", " ")
    page.mouse.click(*picture.point("p.screenPositionOf(2)"))
    details = picture.root.locator(".details")
    title = details.get_by_role("heading", name=HEBREW)
    assert title.evaluate(STANDS_LEFT_OF, [HEBREW, "7"])
    passing = details.locator("small").filter(has_text=HEBREW).first
    assert passing.evaluate(STANDS_LEFT_OF, [HEBREW, "2\xa0MiB"])


MARKED = (
    "**bold** [link](https://example.org) $x^2$ :rocket: :material/home: :red[red] `code` # head",
    "$$\\frac{a}{b}$$ :red-background[x] ![image](x.png) <b>bold</b> &amp; ~~gone~~ | a | b |",
    f"{HEBREW} {TURNED} " + "long name " * 30,
    "1. first\n2. second\r\n\t- third\u2028> quote",
)
RENDERED = r"""() => {
    // As a whole: where a name stands in bold letters, it stands there with all its marks.
    const words = ["bold", "link", "red", "code", "head", "gone", "x", "home", "first", "second"];
    const marks = "strong, em, del, code, blockquote, li, h1, h2, h3, [style*='color'], [data-testid='stIconMaterial']";
    const found = [];
    const search = (root) => {
        for (const element of root.querySelectorAll("*")) {
            const isRocket = !element.children.length && element.textContent.includes("\u{1F680}");
            const isMark = element.matches(marks) && words.includes(element.textContent.trim());
            const isMore = element.matches(".katex, img[src='x.png'], a[href*='example.org']");
            if (isRocket || isMark || isMore) found.push(element.outerHTML);
            if (element.shadowRoot) search(element.shadowRoot);
        }
    };
    search(document);
    return found;
}"""


def marked_graph() -> bytes:
    """Four nodes in a row, whose names, layers and tensors would be something else as Markdown."""
    cost = {"supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3, "isBackwardNode": 0, "size": 1000}
    nodes = [
        {"id": v, "name": name, "layer": f"layer {name}", "colorClass": v % 2 + 1, **cost}
        for v, name in enumerate(MARKED, 1)
    ]
    edges = [{"sourceId": v, "destId": v + 1, "cost": 0.5, "size": 2**20, "tensor": MARKED[v - 1]} for v in (1, 2, 3)]
    return json.dumps({"name": MARKED[0], "maxFPGAs": 2, "maxCPUs": 1, "nodes": nodes, "edges": edges}).encode()


def test_what_looks_like_markdown_in_names_is_shown_as_it_is_written(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(app)
    page.get_by_test_id("stMetric").first.wait_for(timeout=SOLVE_MS)
    page.get_by_text("Upload", exact=True).click()
    files = {"name": "**bold** :rocket: $x$.json", "mimeType": "application/json", "buffer": marked_graph()}
    page.locator("input[type=file]").set_input_files(files)
    picture = Picture(page, None)
    picture.wait_for("p.nodes === 4 && p.bars > 0")
    page.get_by_text("**bold**").first.wait_for()
    page.get_by_role("tab", name="Explain").click()
    page.get_by_role("button", name="What would help?").click()
    page.get_by_text("would help most").or_(page.get_by_text("Nothing of this helps")).first.wait_for()
    assert page.evaluate(RENDERED) == []
    for tab in page.locator("[data-testid='stTabs'] [role='tab']").all():
        tab.click()
        page.wait_for_timeout(400)
        assert page.evaluate(RENDERED) == []
    page.get_by_role("button", name="Keep for comparison").click()
    page.get_by_role("link", name="Compare (1)").click()
    page.get_by_role("button", name="Run all methods").click()
    page.get_by_role("button", name="Run them again").wait_for()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    assert page.evaluate(RENDERED) == []
    page.get_by_role("link", name="Sweep").click()
    page.get_by_role("button", name="Start the sweep").click()
    page.get_by_text("points in").first.wait_for()
    assert page.evaluate(RENDERED) == []
    expect(page.get_by_test_id("stException")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
