"""The canvas component in a real browser: what is drawn, clicked, searched and kept."""

from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.picture.palette import device_colour
from solvers.model.deployment import Deployment
from tests.support.picture import Picture

pytestmark = pytest.mark.browser


def test_nodes_are_drawn_in_the_colours_of_their_devices(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    assert (picture.get("p.nodes"), picture.get("p.level")) == (6, "operators")
    assert picture.get("p.bars") > 16
    chromium_page.mouse.move(2, 2)
    for node, device in ((1, 0), (6, 1)):
        expected = device_colour(device, Deployment(4, 1)).forward.fill
        assert picture.get(f"p.boxColourOf({node})") == expected
        x, y = picture.point(f"p.screenPositionOf({node})")
        # Above the text and right of the middle there is nothing but the fill.
        assert picture.colour_at(x + 20, y - 0.3 * 26 * picture.get("p.view.scale")) == expected


def test_click_on_a_node_tells_python_and_escape_takes_it_back(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(3)"))
    chromium_page.get_by_text("selected: {'node': 3}").wait_for()
    details = chromium_page.locator(".details:not([hidden])")
    expect(details).to_contain_text("<b>op 3</b>")
    chromium_page.keyboard.press("Escape")
    chromium_page.get_by_text("selected: None").wait_for()
    expect(chromium_page.locator(".details:not([hidden])")).to_have_count(0)


def test_bar_links_to_the_graph_and_selects_its_device(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.mouse.move(*picture.point("p.barPosition(0)"))
    picture.wait_for("p.focus.device === 0 && p.focus.microBatch === 0")
    expect(chromium_page.locator(".tooltip").first).to_contain_text("micro-batch 0")
    chromium_page.mouse.click(*picture.point("p.barPosition(0)"))
    chromium_page.get_by_text("selected: {'device': 0, 'stage': 0, 'micro_batch': 0}").wait_for()
    details = chromium_page.locator(".details").first.inner_text()
    for part in ("micro-batch 0", "start", "end", "compute", "send"):
        assert part in details


def test_new_plan_updates_in_place_and_keeps_the_view(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    x, y = picture.point("p.screenPositionOf(2)")
    chromium_page.mouse.move(x, y)
    chromium_page.mouse.wheel(0, -300)
    picture.wait_for("p.view.fitted === false")
    view, digest, colour = picture.get("p.view"), picture.get("p.digest"), picture.get("p.boxColourOf(4)")
    picture.root.evaluate("root => { root.dataset.mounted = 'once'; }")
    chromium_page.get_by_label("Stages").fill("4")
    chromium_page.get_by_label("Stages").press("Enter")
    picture.wait_for(f"p.digest !== '{digest}'")
    assert picture.get("p.view") == view
    expect(picture.root).to_have_attribute("data-mounted", "once")
    assert picture.get("p.boxColourOf(4)") != colour


def test_view_survives_a_reload_of_the_page(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.mouse.move(*picture.point("p.screenPositionOf(2)"))
    chromium_page.mouse.wheel(0, -300)
    picture.wait_for("p.view.fitted === false")
    view = picture.get("p.view")
    chromium_page.wait_for_timeout(400)
    assert Picture(chromium_page, f"{server}/?graph=chain").get("p.view") == view


def test_keys_fit_zoom_and_pan(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    x, y = picture.point("p.screenPositionOf(1)")
    chromium_page.mouse.click(x, y - 60)
    scale = picture.get("p.view.scale")
    chromium_page.keyboard.press("+")
    picture.wait_for(f"p.view.scale > {scale}")
    middle = picture.get("p.view.x")
    chromium_page.keyboard.press("d")
    picture.wait_for(f"p.view.x > {middle}")
    chromium_page.keyboard.press("f")
    picture.wait_for(f"p.view.fitted && p.view.scale === {scale}")


def test_keys_work_from_elsewhere_on_the_page_but_not_while_typing(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.mouse.move(*picture.point("p.screenPositionOf(2)"))
    chromium_page.mouse.wheel(0, -300)
    picture.wait_for("p.view.fitted === false")
    chromium_page.get_by_label("Stages").first.press("f")
    assert not picture.get("p.view.fitted")
    chromium_page.evaluate("document.activeElement.blur()")
    chromium_page.keyboard.press("f")
    picture.wait_for("p.view.fitted")
    chromium_page.keyboard.press("/")
    chromium_page.keyboard.type("op 3")
    expect(chromium_page.locator(".search input").first).to_have_value("op 3")
    expect(chromium_page.locator(".count").first).to_have_text("1 found")


def test_timeline_zooms_by_keyboard_once_it_has_the_focus(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    scale = picture.get("p.view.scale")
    chromium_page.locator("canvas.gantt").first.focus()
    chromium_page.keyboard.press("+")
    picture.wait_for("p.ganttView.fitted === false")
    assert picture.get("p.view.scale") == scale


def test_details_give_size_and_time_of_every_tensor_in_and_out(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(3)"))
    details = chromium_page.locator(".details:not([hidden])")
    details.wait_for()
    expect(details.locator("section").first).to_contain_text("976.6 KiB · 0.25 ms, not cut")
    expect(details.locator("section").nth(1)).to_contain_text("976.6 KiB · 0.25 ms, cut")
    expect(details).to_contain_text("0.25 ms each way, cut")
    expect(details).to_contain_text("sent to")


def test_details_and_notes_give_what_each_end_of_a_cut_tensor_pays(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&slow_links=1")
    chromium_page.mouse.move(*picture.point("p.screenPositionOf(3)"))
    expect(chromium_page.locator(".tooltip:not([hidden])")).to_contain_text("output is cut: send 0.25 ms, receive 1 ms")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(3)"))
    details = chromium_page.locator(".details:not([hidden])")
    expect(details).to_contain_text("send 0.25 ms, receive 1 ms, cut")
    details.get_by_role("button", name="op 4").click()
    expect(details).to_contain_text("1 ms each way, not cut")
    expect(details.locator("section").first).to_contain_text("976.6 KiB · send 0.25 ms, receive 1 ms, cut")


def test_all_lanes_of_many_devices_are_shown(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=40&stages=34")
    chromium_page.locator("canvas.gantt").first.scroll_into_view_if_needed()
    bottom = chromium_page.locator("canvas.gantt").first.bounding_box()
    last = picture.get("p.barPosition(p.bars - 1)")
    assert last["y"] < bottom["y"] + bottom["height"] - 40


def test_on_a_phone_no_box_covers_the_label_of_its_lane_and_the_scale_keeps_to_the_picture(chromium_page, server):
    chromium_page.set_viewport_size({"width": 390, "height": 844})
    picture = Picture(chromium_page, f"{server}/?graph=layers&nodes=200&stages=5")
    picture.root.get_by_role("button", name="Nodes").click()
    picture.root.get_by_label("Colour").select_option("time")
    picture.root.get_by_role("button", name="Lanes").click()
    picture.wait_for("p.view.fitted && p.laneChips().length === 5")
    chromium_page.wait_for_timeout(1000)
    canvas = chromium_page.locator("canvas.graph").first.bounding_box()
    first = min(picture.get(f"p.boxArea({node}).x") for node in range(1, 201)) - canvas["x"]
    assert max(chip["right"] for chip in picture.get("p.laneChips()")) <= first
    scale = picture.root.locator(".scale-legend").bounding_box()
    assert scale["x"] - canvas["x"] == pytest.approx(canvas["x"] + canvas["width"] - scale["x"] - scale["width"], abs=2)


def test_toolbar_wraps_on_a_narrow_screen(chromium_page, server):
    chromium_page.set_viewport_size({"width": 390, "height": 800})
    picture = Picture(chromium_page, f"{server}/?graph=layers")
    width = picture.root.evaluate("root => root.getBoundingClientRect().right")
    for part in (".levels", ".search", ".zoom"):
        box = picture.root.locator(part).bounding_box()
        assert box["width"] > 60
        assert box["x"] + box["width"] <= width + 1


def test_search_counts_goes_to_matches_and_says_when_there_is_none(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers")
    assert picture.get("p.level") == "layers"
    picture.root.focus()
    chromium_page.keyboard.press("/")
    box, count = chromium_page.locator(".search input").first, chromium_page.locator(".count").first
    box.type("op 19")
    expect(count).to_have_text("11 found")
    box.press("Enter")
    expect(count).to_have_text("1 of 11")
    field, said = box.bounding_box(), count.bounding_box()
    assert field["x"] < said["x"]
    assert said["x"] + said["width"] < field["x"] + field["width"], "hits are counted in the box"
    assert field["y"] <= said["y"] <= said["y"] + said["height"] <= field["y"] + field["height"]
    assert picture.get("p.selection.nodes[0]") == 18
    box.fill('"op ("')  # in quotes, so plain text
    expect(count).to_have_text("no match")
    box.fill("17")
    box.press("Enter")
    expect(chromium_page.locator(".details").first).to_contain_text("id 17,")


def test_levels_of_detail_unfold(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers")
    for title, level in (("Nodes", "operators"), ("Stages", "stages"), ("Layers", "layers")):
        chromium_page.locator(".levels").first.get_by_role("button", name=title).click()
        picture.wait_for(f"p.level === '{level}'")
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(20)"))
    chromium_page.get_by_text("selected: {'group': 'block 2'").wait_for()


def set_stages(page: Any, picture: Picture, number: int) -> None:
    """Place the graph anew and wait for the picture of it."""
    digest = picture.get("p.digest")
    page.get_by_label("Stages").first.fill(str(number))
    page.get_by_label("Stages").first.press("Enter")
    picture.wait_for(f"p.digest !== '{digest}'")


def test_large_graph_opens_folded_and_keeps_the_level_that_the_user_chose(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=2000&stages=0")
    assert picture.get("p.level") == "blocks"
    set_stages(chromium_page, picture, 4)
    assert picture.get("p.level") == "blocks"
    chromium_page.locator(".levels").first.get_by_role("button", name="Nodes").click()
    set_stages(chromium_page, picture, 3)
    assert picture.get("p.level") == "operators"


def test_picture_in_a_closed_tab_is_drawn_when_it_opens(chromium_page, server):
    Picture(chromium_page, f"{server}/?graph=chain")
    chromium_page.get_by_role("tab", name="Other").click()
    Picture(chromium_page, None, 1).wait_for("p.view.scale > 0.5")


def test_two_thousand_nodes_zoom_and_come_back_to_where_they_were(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers&nodes=2000")
    chromium_page.locator(".levels").first.get_by_role("button", name="Nodes").click()
    picture.wait_for("p.level === 'operators'")
    # How fast frames follow each other is measured in benchmarks/interface.py.
    place = "[p.view.x, p.view.y, p.view.scale]"
    before = picture.get(place)
    scales = picture.root.evaluate(
        """async root => {
            const canvas = root.querySelector("canvas.graph");
            const box = canvas.getBoundingClientRect();
            const scales = [];
            for (let i = 0; i < 20; i += 1) {
                canvas.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true,
                    clientX: box.left + 300, clientY: box.top + 150, deltaY: i < 10 ? -60 : 60 }));
                await new Promise(requestAnimationFrame);
                scales.push(root.__placement.view.scale);
            }
            return scales;
        }"""
    )
    assert scales[:10] == sorted(set(scales[:10]))
    assert scales[10:] == sorted(set(scales[10:]), reverse=True)
    assert picture.get(place) == pytest.approx(before)
