"""The graph part of the picture in a real browser: levels, colours, lanes, overview, search, frames."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import expect

from explorer.picture.palette import device_colour, sequential_ramp
from solvers.model.deployment import Deployment
from tests.support.picture import Picture

pytestmark = pytest.mark.browser


def colour_by(picture: Picture, name: str) -> None:
    picture.root.get_by_label("Colour of the boxes").select_option(name)
    picture.wait_for(f"p.graphLook.colour === '{name}'")


def show_level(picture: Picture, title: str, name: str) -> None:
    picture.root.locator(".levels").get_by_role("button", name=title).click()
    picture.wait_for(f"p.level === '{name}'")


def zoom_in(page: Any, picture: Picture, node: int, times: int = 4) -> None:
    page.mouse.move(*picture.point(f"p.screenPositionOf({node})"))
    for _ in range(times):
        page.mouse.wheel(0, -400)
    picture.wait_for("p.view.fitted === false")


def test_levels_go_from_devices_to_nodes(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers&stages=4")
    titles = picture.root.locator(".levels button span").all_inner_texts()
    assert titles == ["Devices", "Stages", "Layers", "Nodes"]
    show_level(picture, "Devices", "devices")
    expect(picture.root.locator(".levels button.on small")).to_have_text("4")


def test_folding_of_repeats_can_be_switched_off_and_stays_off(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers&stages=2")
    show_level(picture, "Layers", "layers")
    fold = picture.root.get_by_role("button", name="Fold repeats")
    expect(fold).to_have_attribute("aria-pressed", "false")
    fold.click()
    picture.wait_for("p.level === 'blocks'")
    # One box for each device, one for the layer on the border between them; the first and last layer hold fewer nodes.
    expect(picture.root.locator(".levels button.on small")).to_have_text("5")
    fold.click()
    picture.wait_for("p.level === 'layers'")
    show_level(picture, "Stages", "stages")
    expect(fold).to_be_hidden()
    show_level(picture, "Layers", "layers")


def test_colour_by_time_follows_what_is_visible_and_has_a_legend(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    expect(picture.root.locator(".scale-legend")).to_be_hidden()
    colour_by(picture, "time")
    ramp = [step.fill for step in sequential_ramp("light")]
    # Times are 1, 2 and 3 ms in turn, from node 3 on.
    picture.wait_for("p.graphLook.scale !== null")
    assert picture.get("p.graphLook.scale") == {"low": 1, "high": 3}
    assert [picture.get(f"p.boxColourOf({v})") for v in (3, 5)] == [ramp[0], ramp[-1]]
    for part in ("time per micro-batch", "1 ms", "3 ms"):
        expect(picture.root.locator(".scale-legend")).to_contain_text(part)
    zoom_in(chromium_page, picture, 4, times=6)
    picture.wait_for("p.graphLook.scale.high < 3 || p.graphLook.scale.low > 1")
    colour_by(picture, "device")
    picture.wait_for(f"p.boxColourOf(1) === '{device_colour(0, Deployment(4, 1)).forward.fill}'")
    expect(picture.root.locator(".scale-legend")).to_be_hidden()


def test_what_sends_nothing_and_what_is_not_known_look_different(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=2")
    colour_by(picture, "sent")
    picture.root.locator(".scale-legend").get_by_text("no time to send").wait_for()
    assert picture.get("p.boxColourOf(2)") != picture.get("p.boxColourOf(3)")
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=0")
    colour_by(picture, "sent")
    picture.root.locator(".scale-legend").get_by_text("not placed").wait_for()


def test_lanes_gather_the_boxes_of_a_device_and_come_back(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=40&stages=4")
    show_level(picture, "Nodes", "operators")
    before = [picture.get(f"p.screenPositionOf({v})") for v in (1, 11, 25, 40)]
    lanes = picture.root.get_by_role("button", name="Lanes")
    lanes.click()
    picture.wait_for("p.graphLook.arrangement === 'lanes' && !p.graphLook.isMoving")
    expect(lanes).to_have_attribute("aria-pressed", "true")
    # Ten nodes for each of four devices: every lane lies below the one before.
    heights = [[picture.get(f"p.screenPositionOf({v}).y") for v in range(10 * d + 1, 10 * d + 11)] for d in range(4)]
    for above, below in pairwise(heights):
        assert max(above) < min(below)
    lanes.click()
    picture.wait_for("p.graphLook.arrangement === 'network' && !p.graphLook.isMoving")
    after = [picture.get(f"p.screenPositionOf({v})") for v in (1, 11, 25, 40)]
    assert after == before


def test_lanes_come_at_once_where_less_motion_is_wanted(chromium_page, server):
    chromium_page.emulate_media(reduced_motion="reduce")
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=2")
    picture.root.get_by_role("button", name="Lanes").click()
    assert picture.get("[p.graphLook.arrangement, p.graphLook.isMoving]") == ["lanes", False]


def test_view_colours_and_order_stay_when_a_new_plan_comes(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=40&stages=4")
    show_level(picture, "Nodes", "operators")
    colour_by(picture, "time")
    zoom_in(chromium_page, picture, 20)
    view, place, digest = picture.get("p.view"), picture.get("p.screenPositionOf(30)"), picture.get("p.digest")
    chromium_page.get_by_label("Stages").first.fill("3")
    chromium_page.get_by_label("Stages").first.press("Enter")
    picture.wait_for(f"p.digest !== '{digest}'")
    assert picture.get("p.view") == view
    assert picture.get("p.screenPositionOf(30)") == place
    assert picture.get("p.graphLook.colour") == "time"


def test_overview_appears_with_zoom_and_moves_the_view(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=40&stages=4")
    show_level(picture, "Nodes", "operators")
    assert not picture.get("p.graphLook.hasMinimap")
    zoom_in(chromium_page, picture, 1)
    picture.wait_for("p.graphLook.hasMinimap")
    minimap = picture.root.locator("canvas.minimap")
    box = minimap.bounding_box()
    before = picture.get("p.view.x")
    chromium_page.mouse.click(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    picture.wait_for(f"p.view.x > {before}")
    chromium_page.keyboard.press("f")
    picture.wait_for("!p.graphLook.hasMinimap")


def test_frame_drawn_with_shift_selects_the_boxes_in_it(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    first, last = picture.point("p.screenPositionOf(2)"), picture.point("p.screenPositionOf(4)")
    chromium_page.keyboard.down("Shift")
    chromium_page.mouse.move(first[0] - 5, first[1] - 60)
    chromium_page.mouse.down()
    chromium_page.mouse.move(last[0] + 5, last[1] + 60, steps=4)
    chromium_page.mouse.up()
    chromium_page.keyboard.up("Shift")
    chromium_page.get_by_text("selected: {'nodes': [2, 3, 4]}").wait_for()
    assert picture.get("p.view.fitted")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("op 3", [3]),
        ("3 op", []),
        ("3 -cut op", []),
        ("/op [34]/", [3, 4]),
        ('"<b>op 2"', [2]),
        ("2", [2]),
        ("time>2", [2, 5]),
        ("time>=2ms time<3", [1, 4]),
        ("time>0.002s cut", []),
        ("cut", [1, 3]),
        ("-cut device:1", [2]),
        ('device:"accelerator 2"', [4, 5, 6]),
        ("memory>1MB", [1, 2, 3, 4, 5, 6]),
        ("memory>1MiB", []),
        ("memory=1MiB", [1, 2, 3, 4, 5, 6]),
        ("output>1kB", [1, 2, 3, 4, 5]),
        ("backward", []),
        ("id:5", [5]),
        ("nothing", []),
        ("op(", "op( is not a regular expression"),
        ("time>fast", "time> needs a number"),
        ("time>1GB", "time has no unit GB"),
        ("colour:red", "no attribute colour"),
        ("weight>3", "weight cannot be compared"),
        ("device:", "device: needs a value"),
        ('"op', "is not closed"),
    ],
)
def test_search_language(searched, text, found):
    result = searched.get(f"p.search({text!r})")
    if isinstance(found, str):
        assert found in result
    else:
        assert result == found


@pytest.fixture(scope="module")
def searched(chromium, server) -> Iterator[Picture]:
    """Open a chain of six nodes once for all searches."""
    page = chromium.new_page()
    yield Picture(page, f"{server}/?graph=chain")
    page.close()


def test_search_says_how_many_and_what_is_wrong(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain")
    box, count = picture.root.get_by_role("searchbox"), picture.root.locator(".count")
    box.fill("time>=2")
    expect(count).to_have_text("4 found")
    box.fill("time>9")
    expect(count).to_have_text("no match")
    box.fill("op[")
    expect(count).to_contain_text("op[ is not a regular expression")
    expect(box).to_have_attribute("aria-invalid", "true")
    box.fill("")
    expect(count).to_have_text("")
    expect(box).to_have_attribute("aria-invalid", "false")


def test_two_thousand_nodes_in_lanes_zoom_with_scale_and_overview(chromium_page, server):
    # How fast frames follow each other is measured in benchmarks/interface.py.
    picture = Picture(chromium_page, f"{server}/?graph=layers&nodes=2000&stages=4")
    show_level(picture, "Nodes", "operators")
    colour_by(picture, "time")
    picture.root.get_by_role("button", name="Lanes").click()
    picture.wait_for("p.graphLook.arrangement === 'lanes' && !p.graphLook.isMoving")
    assert not picture.get("p.graphLook.hasMinimap")
    zoom_in(chromium_page, picture, 1000)
    picture.wait_for("p.graphLook.hasMinimap && p.graphLook.scale.high === 3")


PLACED = ("?graph=layers&stages=4", "?graph=layers&nodes=64&stages=4&alternate=1", "?graph=training&nodes=24&stages=4")


@pytest.mark.parametrize("query", PLACED)
def test_legend_counts_what_can_be_seen_at_every_level(chromium_page, server, query):
    picture = Picture(chromium_page, f"{server}/{query}")
    for button in picture.root.locator(".levels button").all():
        button.click()
        text = picture.root.locator(".keys-row .keys").inner_text()
        lines, seams = picture.get("p.cutLines().length"), picture.get("p.seams.length")
        said = re.search(r"(\d+) transfers?", text)
        assert (int(said[1]) if said else 0) == lines
        inside = re.search(r"(\d+) inside boxes", text)
        assert (int(inside[1]) if inside else 0) == seams


def test_a_layer_on_two_devices_has_a_seam_with_its_time(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers&stages=4")
    show_level(picture, "Layers", "layers")
    seams = picture.get("p.seams")
    assert seams
    written = {cost["box"]: cost for cost in picture.get("p.costs")}
    assert {seam["box"] for seam in seams} <= written.keys()
    for seam in seams:
        assert seam["ms"] == 0.25 * seam["tensors"]
        assert written[seam["box"]]["lines"] == [f"{seam['ms']:g} ms"]


def touches(area: list[float], points: list[list[float]]) -> bool:
    """Whether a line comes into an area: looked at point by point, the simplest way."""
    left, top, right, bottom = area
    for (x0, y0), (x1, y1) in pairwise(points):
        steps = max(2, int(abs(x1 - x0) + abs(y1 - y0)))
        for k in range(steps + 1):
            x, y = x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps
            if left < x < right and top < y < bottom:
                return True
    return False


@pytest.mark.parametrize("query", PLACED)
def test_costs_stand_on_no_other_line_and_the_most_expensive_are_written_first(chromium_page, server, query):
    picture = Picture(chromium_page, f"{server}/{query}")
    for title in picture.root.locator(".levels button").all():
        title.click()
        picture.wait_for("p.costs.length >= 0")
        chromium_page.wait_for_timeout(100)
        costs, lines = picture.get("p.costs"), picture.get("p.cutLines()")
        assert [cost["ms"] for cost in costs] == sorted((cost["ms"] for cost in costs), reverse=True)
        for cost in costs:
            for line in lines:
                # On its own line a cost may stand, and that of a seam may stand in its box.
                if cost["edge"] is not None and line["edge"] != cost["edge"]:
                    assert not touches(cost["area"], line["points"])
        for i, first in enumerate(costs):
            for second in costs[i + 1 :]:
                (a, b, c, d), (e, f, g, h) = first["area"], second["area"]
                assert a >= g or e >= c or b >= h or f >= d


def test_names_are_whole_or_lose_their_common_beginning_or_are_left_out(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers&stages=4")
    show_level(picture, "Layers", "layers")
    labels = [f"block {i}" for i in range(26)]
    for _ in range(12):
        for _, name in picture.get("p.names()"):
            assert name in ("", *labels, *(label.removeprefix("block ") for label in labels))
        chromium_page.keyboard.press("+")
        chromium_page.wait_for_timeout(60)
    assert {name for _, name in picture.get("p.names()")} & set(labels)


def test_hovering_keeps_every_name(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=layers&stages=4&nodes=64")
    show_level(picture, "Layers", "layers")
    before = picture.get("p.names()")
    assert len(before) == 9
    chromium_page.mouse.move(*picture.point("p.screenPositionOf(3)"))
    picture.wait_for("p.focus.box >= 0")
    chromium_page.wait_for_timeout(100)
    assert picture.get("p.names()") == before


def test_thousands_of_boxes_are_counted_as_everywhere(chromium_page, server):
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=1200&stages=3")
    expect(picture.root.locator(".levels button").filter(has_text="Nodes").locator("small")).to_have_text("1,200")
