"""Whatever is hovered or selected in one view of the picture stands out in all of them."""

import base64
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.picture.component import pack, standalone_source
from explorer.picture.palette import MIN_CONTRAST
from tests.support.messages import views
from tests.support.picture import Picture

pytestmark = pytest.mark.browser

LIT_NODES = "[...p.focus.nodes].flatMap((lit, i) => lit === 1 ? [i + 1] : [])"
"""Ids of the nodes in focus; those of the page are the numbers from 1 in topological order."""
LIT_STAGES = "[...new Set([...p.focus.bars].flatMap((lit, i) => lit ? [p.barFacts(i).stage] : []))]"
LIT_KINDS = "[...new Set([...p.focus.bars].flatMap((lit, i) => lit ? [p.barFacts(i).kind] : []))]"


def test_pointing_at_a_device_lights_its_nodes_its_bars_and_what_it_moves(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    chromium_page.locator(".legend .device").nth(1).hover()
    picture.wait_for("p.focus.kind === 'device'")
    assert picture.get(LIT_NODES) == [3, 4]
    assert picture.get(LIT_STAGES) == [1]
    # Node 2 sends to it; it sends the output of node 4. Node 1 is read by node 4 too.
    assert picture.get("[...p.focus.tensors].map(t => p.tensorFacts(t).source).sort()") == [1, 2, 4]


def test_pointing_at_a_node_lights_the_bars_of_its_stage(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    chromium_page.mouse.move(*picture.point("p.screenPositionOf(5)"))
    picture.wait_for("p.focus.kind === 'node'")
    assert picture.get("[...p.focus.stages]") == [2]
    assert picture.get(LIT_STAGES) == [2]
    assert picture.get("[...p.focus.devices]") == [2]


def test_pointing_at_a_bar_lights_its_stage_and_its_micro_batch(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    chromium_page.mouse.move(*picture.point("p.barPosition(0)"))
    picture.wait_for("p.focus.kind === 'bar'")
    assert picture.get(LIT_NODES) == [1, 2]
    assert picture.get("[...p.focus.bars].every((lit, i) => (lit === 1) === (p.barFacts(i).microBatch === 0))")


def test_several_nodes_are_collected_with_shift(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(1)"))
    chromium_page.keyboard.down("Shift")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(2)"))
    chromium_page.get_by_text("selected: {'nodes': [1, 2]}").wait_for()
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(1)"))
    chromium_page.keyboard.up("Shift")
    chromium_page.get_by_text("selected: {'node': 2}").wait_for()


def test_pictures_of_one_group_follow_each_other(chromium_page: Any, server: str) -> None:
    left = Picture(chromium_page, f"{server}/?graph=chain&pair=1&stages=3")
    right = Picture(chromium_page, None, 1)
    expect(left.root.locator(".tables:visible")).to_have_count(0)
    chromium_page.mouse.move(*left.point("p.screenPositionOf(5)"))
    right.wait_for("p.focus.kind === 'node' && p.focus.nodes[4] === 1")
    assert (left.get("p.focus.device"), right.get("p.focus.device")) == (1, 2)
    chromium_page.mouse.click(*right.point("p.screenPositionOf(2)"))
    left.wait_for("p.selection?.nodes[0] === 1")
    chromium_page.mouse.move(*left.point("p.screenPositionOf(2)"))
    chromium_page.mouse.wheel(0, -300)
    left.wait_for("p.view.fitted === false")
    assert right.get("p.view") == left.get("p.view")
    # One scale: the shorter timeline ends before its axis does.
    assert left.get("p.ganttView.to") == right.get("p.ganttView.to") > 0
    chromium_page.mouse.move(*right.point("p.barPosition(1)"))
    chromium_page.mouse.wheel(0, -300)
    right.wait_for("p.ganttView.fitted === false")
    assert left.get("[p.ganttView.from, p.ganttView.to]") == right.get("[p.ganttView.from, p.ganttView.to]")


def test_picture_works_in_a_file_of_its_own(chromium_page: Any, tmp_path: Path) -> None:
    js, css = standalone_source()
    message = base64.b64encode(pack(*views((2.0, 3.0, 4.0)), "report")).decode()
    page = tmp_path / "report.html"
    page.write_text(
        f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Report</title><style>{css}</style>
        <div class="placement-picture" id="here"></div><script type="module">{js}
        window.shown = placementPicture.mountStandalone(document.getElementById("here"),
          placementPicture.bytesFromBase64("{message}"), "dark");
        </script></html>""",
        encoding="utf-8",
    )
    picture = Picture(chromium_page, page.as_uri())
    assert (picture.get("p.nodes"), picture.get("p.bars > 0")) == (3, True)
    background = "root => getComputedStyle(root.querySelector('.details')).backgroundColor"
    assert picture.root.evaluate(background) == "rgb(14, 17, 23)"
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(2)"))
    expect(chromium_page.locator(".details:not([hidden])")).to_contain_text("3 ms")
    chromium_page.evaluate("window.shown.setTheme('light')")
    assert picture.root.evaluate(background) == "rgb(255, 255, 255)"
    chromium_page.evaluate("window.shown.destroy()")
    expect(chromium_page.locator(".placed-pipeline")).to_have_count(0)


def test_keys_step_change_the_level_and_open_their_sheet(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=layers&stages=3")
    sheet = picture.root.locator("dialog")
    chromium_page.keyboard.press("?")
    sheet.get_by_text("undo and redo").wait_for()
    chromium_page.keyboard.press("Escape")
    sheet.wait_for(state="hidden")
    names = picture.root.locator(".levels").first.get_by_role("button").all_inner_texts()
    picture.root.focus()
    for place, name in enumerate(names, start=1):
        chromium_page.keyboard.press(str(place))
        pressed = picture.root.locator(".levels button[aria-pressed='true']").first
        expect(pressed).to_have_text(name)
    picture.wait_for("p.level === 'operators'")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(2)"))
    chromium_page.get_by_text("selected: {'node': 2}").wait_for()
    chromium_page.keyboard.press(".")
    chromium_page.get_by_text("selected: {'node': 3}").wait_for()
    chromium_page.keyboard.press(",")
    chromium_page.get_by_text("selected: {'node': 2}").wait_for()


def test_escape_takes_back_the_search_before_the_selection(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(2)"))
    chromium_page.get_by_text("selected: {'node': 2}").wait_for()
    picture.root.locator(".search input").fill("op")
    picture.root.focus()
    chromium_page.keyboard.press("Escape")
    expect(picture.root.locator(".search input")).to_have_value("")
    assert picture.get("p.selection.nodes[0]") == 1
    chromium_page.keyboard.press("Escape")
    chromium_page.get_by_text("selected: None").wait_for()


def test_two_fingers_zoom_and_one_scrolls_the_page(chromium: Any, server: str) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.set_default_timeout(20_000)
    picture = Picture(page, f"{server}/?graph=chain")
    scale = picture.get("p.view.scale")
    x, y = picture.point("p.screenPositionOf(3)")
    session = context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})

    touch("touchStart", (x - 20, y), (x + 20, y))
    for spread in (30, 45, 60):
        touch("touchMove", (x - spread, y), (x + spread, y))
    touch("touchEnd")
    picture.wait_for(f"p.view.scale > {1.5 * scale}")
    top = picture.root.bounding_box()["y"]
    view = picture.get("p.view")
    touch("touchStart", (x, y))
    for shift in range(20, 200, 20):
        touch("touchMove", (x, y - shift))
    touch("touchEnd")
    page.wait_for_timeout(300)
    assert picture.root.bounding_box()["y"] < top - 50
    assert picture.get("p.view") == view
    context.close()


def test_on_a_phone_details_stand_below_the_graph(chromium_page: Any, server: str) -> None:
    chromium_page.set_viewport_size({"width": 390, "height": 844})
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(3)"))
    details = picture.root.locator(".details")
    details.wait_for()
    graph = picture.root.locator("canvas.graph").bounding_box()
    assert details.bounding_box()["y"] >= graph["y"] + graph["height"]
    right = picture.root.evaluate("root => root.getBoundingClientRect().right")
    for part in (".toolbar", ".legend", ".timeline", ".tables"):
        box = picture.root.locator(part).first.bounding_box()
        assert box["x"] + box["width"] <= right + 1, part


CONTRASTS = """root => {
    const canvas = new OffscreenCanvas(1, 1);
    const ctx = canvas.getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        ctx.clearRect(0, 0, 1, 1);
        ctx.fillStyle = colour;
        ctx.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = ctx.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below, alpha) => below.map((c, k) => top[k] * alpha + c * (1 - alpha));
    const parentOf = (element) => element.parentElement ?? element.getRootNode().host ?? null;
    const background = (element) => {
        const layers = [];
        for (let e = element; e; e = parentOf(e)) layers.push(rgba(getComputedStyle(e).backgroundColor));
        return layers.reverse().reduce((below, layer) => over(layer, below, layer[3]), [255, 255, 255]);
    };
    const opacity = (element) => {
        let product = 1;
        for (let e = element; e; e = parentOf(e)) product *= Number(getComputedStyle(e).opacity);
        return product;
    };
    const luminance = (colour) => colour.slice(0, 3).map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, k) => sum + c * [0.2126, 0.7152, 0.0722][k], 0);
    const contrast = (a, b) => {
        const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
        return (high + 0.05) / (low + 0.05);
    };
    const found = [];
    for (const element of root.querySelectorAll("*")) {
        const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("")
            || element.placeholder || "";
        // What cannot be pressed may be faint; what only helps readers of the screen is not seen.
        if (!text || !element.checkVisibility()) continue;
        if (element.closest(":disabled, .reader-only, caption, option")) continue;
        const style = getComputedStyle(element, element.placeholder ? "::placeholder" : null);
        const behind = background(element);
        const colour = rgba(style.color);
        const alpha = colour[3] * opacity(element) * (element.placeholder ? Number(style.opacity) : 1);
        found.push([contrast(over(colour, behind, alpha), behind), element.tagName, element.className, text]);
    }
    return found.sort((a, b) => a[0] - b[0]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_around_the_canvases_can_be_read(chromium_page: Any, server: str, scheme: str) -> None:
    chromium_page.emulate_media(color_scheme=scheme)
    picture = Picture(chromium_page, f"{server}/?graph=training&stages=3")
    is_dark = "root => root.classList.contains('dark')"
    assert picture.root.evaluate(is_dark) == (scheme == "dark")
    picture.root.get_by_role("tab", name="Cut tensors").click()
    picture.root.locator(".table-scroll:not([hidden]) tr[data-at='0']").click()
    picture.root.locator(".details").wait_for()
    picture.root.locator(".search input").fill("no such node")
    texts = picture.root.evaluate(CONTRASTS)
    seen = {class_name for _, _, class_name, _ in texts}
    assert {"chip pattern-none", "count none"} <= seen
    assert len(texts) > 60
    assert [text for text in texts if text[0] < MIN_CONTRAST] == []
    picture.root.locator(".search input").fill("")
    assert picture.root.evaluate(CONTRASTS)[0][0] >= MIN_CONTRAST
