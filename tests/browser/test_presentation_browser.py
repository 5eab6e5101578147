"""The picture for a room, in a real browser: it fills the screen, hides nothing it describes, stands in the address."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.picture import BUSY_MS, Picture

pytestmark = pytest.mark.browser

SIZES = ((1920, 1080), (1024, 768))
AREAS = """root => [...root.querySelectorAll("header.talk, .legend-row, .keys-row, canvas, .timeline-head, .replay")]
    .map(e => e.getBoundingClientRect()).filter(r => r.width > 0 && r.height > 0)
    .map(r => [r.left, r.top, r.right, r.bottom])"""
PAINTED = """root => [...root.querySelectorAll("canvas")].map(e => e.getBoundingClientRect())
    .reduce((sum, r) => sum + r.width * r.height, 0)"""
ON_TOP = """(root, [x, y]) => {
    let e = document.elementFromPoint(x, y);
    while (e?.shadowRoot?.elementFromPoint(x, y)) e = e.shadowRoot.elementFromPoint(x, y);
    return root.contains(e);
}"""


def opened(page: Any, address: str, width: int = 1280, height: int = 800) -> Picture:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    page.locator("canvas.gantt").first.wait_for(timeout=2 * BUSY_MS)
    picture = Picture(page, None)
    picture.wait_for("p.bars > 0")
    return picture


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_presentation_fills_the_screen_and_cuts_nothing_off(
    app: str, chromium_page: Any, width: int, height: int
) -> None:
    picture = opened(chromium_page, f"{app}/?sample=gpt2_xl_layer_training&present=yes", width, height)
    picture.wait_for("p.presenting")
    assert picture.root.bounding_box() == {"x": 0, "y": 0, "width": width, "height": height}
    for left, top, right, bottom in picture.root.evaluate(AREAS):
        assert left >= 0
        assert top >= 0
        assert right <= width
        assert bottom <= height
    assert picture.root.evaluate(PAINTED) > 0.65 * width * height
    for point in ((5, 5), (width - 5, 5), (5, height - 5), (width // 2, height // 2)):
        assert picture.root.evaluate(ON_TOP, point)
    assert picture.get("p.zoom") == pytest.approx(max(1, min(width / 1240, height / 720)))
    assert picture.get("p.view.fitted")


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_lanes_of_twenty_two_devices_are_all_on_the_screen(
    app: str, chromium_page: Any, width: int, height: int
) -> None:
    query = "sample=gpt2_xl_layer_training&accelerators=22&cpus=0&present=yes"
    picture = opened(chromium_page, f"{app}/?{query}", width, height)
    picture.wait_for("p.presenting")
    lanes = picture.get("p.lanes()")
    assert lanes["seen"] >= lanes["all"] == 21
    for one in picture.root.locator(".legend button.device").all():
        expect(one).to_be_in_viewport(ratio=1)
    # Where there are too many for the screen, none is seen by half.
    picture = opened(chromium_page, f"{app}/?{query}", width, height // 2)
    picture.wait_for("p.presenting")
    lanes = picture.get("p.lanes()")
    assert lanes["seen"] < lanes["all"]
    assert lanes["seen"] == pytest.approx(round(lanes["seen"]))


def test_key_begins_and_ends_it_and_the_address_tells(app: str, chromium_page: Any) -> None:
    picture = opened(chromium_page, f"{app}/?sample=teaching_chain")
    before = picture.root.bounding_box()
    chromium_page.keyboard.press("p")
    picture.wait_for("p.presenting")
    chromium_page.wait_for_url("**present=yes*")
    chromium_page.reload()
    picture = Picture(chromium_page, None)
    picture.wait_for("p.presenting")
    chromium_page.keyboard.press("Escape")
    picture.wait_for("!p.presenting")
    chromium_page.wait_for_function("() => !location.href.includes('present')")
    after = picture.root.bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] == before["width"]


def test_keys_are_letters_where_one_types(app: str, chromium_page: Any) -> None:
    picture = opened(chromium_page, f"{app}/?sample=teaching_chain")
    for box in (picture.root.get_by_role("searchbox"), chromium_page.get_by_label("Accelerators", exact=True)):
        box.click()
        chromium_page.keyboard.press("p")
        chromium_page.keyboard.press("n")
        chromium_page.wait_for_timeout(100)
        assert not picture.get("p.presenting")
    expect(picture.root.get_by_role("searchbox")).to_have_value("pn")


def place_note(page: Any, picture: Picture, node: int, text: str) -> None:
    picture.root.get_by_role("button", name="Put a note on the graph").click()
    x, y = picture.point(f"p.screenPositionOf({node})")
    page.mouse.move(x + 60, y - 90)
    page.mouse.down()
    page.mouse.move(x, y, steps=4)
    page.mouse.up()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_notes_travel_with_the_link_as_plain_text(app: str, chromium_page: Any) -> None:
    text = "<img src=x onerror=alert(1)> p & n"
    picture = opened(chromium_page, f"{app}/?sample=teaching_chain&present=yes")
    picture.wait_for("p.presenting")
    place_note(chromium_page, picture, 3, text)
    picture.wait_for("p.notes.length === 1")
    chromium_page.wait_for_url("**notes=*")
    link = chromium_page.url
    assert "img" not in link
    other = opened(chromium_page.context.new_page(), link)
    other.wait_for("p.notes.length === 1")
    (note,) = other.get("p.notes")
    assert (note["node"], note["text"]) == (3, text)
    assert other.root.locator("img").count() == 0
    # On the canvas, within it, and gone with another graph.
    width, height = other.root.locator("canvas.graph").evaluate("e => [e.clientWidth, e.clientHeight]")
    assert 0 <= note["area"][0] < note["area"][2] <= width
    assert 0 <= note["area"][1] < note["area"][3] <= height
    elsewhere = opened(other.page, link.replace("teaching_chain", "unet_operator_inference"))
    assert elsewhere.get("p.notes") == []
    other.page.close()


def test_notes_are_changed_and_taken_off(app: str, chromium_page: Any) -> None:
    picture = opened(chromium_page, f"{app}/?sample=teaching_chain&present=yes")
    picture.wait_for("p.presenting")
    place_note(chromium_page, picture, 2, "first")
    picture.wait_for("p.notes.length === 1")
    place_note(chromium_page, picture, 5, "second")
    picture.wait_for("p.notes.length === 2")
    picture.root.get_by_role("button", name="Take all notes off").click()
    picture.wait_for("p.notes.length === 0")
    chromium_page.wait_for_function("() => !location.href.includes('notes')")


def test_details_end_the_note_at_the_pointer(app: str, chromium_page: Any) -> None:
    picture = opened(chromium_page, f"{app}/?sample=unet_operator_inference&level=operators&present=yes")
    note = picture.root.get_by_role("tooltip")
    chromium_page.mouse.move(*picture.point("p.screenPositionOf(9)"))
    note.wait_for()
    chromium_page.mouse.down()
    chromium_page.mouse.up()
    picture.root.locator(".details").wait_for()
    expect(note).to_be_hidden()


@pytest.mark.parametrize("presents", [False, True])
def test_details_do_not_cover_what_they_describe(app: str, chromium_page: Any, presents: bool) -> None:
    query = "sample=unet_operator_inference&level=operators" + ("&present=yes" if presents else "")
    picture = opened(chromium_page, f"{app}/?{query}")
    picture.wait_for(f"p.presenting === {str(presents).lower()}")
    for chip in picture.root.locator(".legend button.device").all():
        chip.click()
        picture.wait_for("p.selection?.kind === 'device'")
        chromium_page.wait_for_timeout(300)
        device = picture.get("p.selection.device")
        panel = picture.root.locator(".details").bounding_box()
        assert panel is not None
        ids = picture.get("p.search('')") or []
        ids = [i for i in range(1, picture.get("p.nodes")) if i not in ids]
        for node in ids:
            if picture.get(f"p.deviceOf({node})") != device:
                continue
            area = picture.get(f"p.boxArea({node})")
            assert (
                area["x"] + area["width"] <= panel["x"]
                or panel["x"] + panel["width"] <= area["x"]
                or area["y"] + area["height"] <= panel["y"]
                or panel["y"] + panel["height"] <= area["y"]
            )


@pytest.mark.parametrize(("node", "others"), [(1, (2, 5)), (5, (1, 4))])
def test_details_of_a_tied_node_cover_neither_its_neighbours_nor_what_it_is_tied_to(
    app: str, chromium_page: Any, node: int, others: tuple[int, ...]
) -> None:
    picture = opened(chromium_page, f"{app}/?sample=teaching_tied_embedding")
    chromium_page.mouse.click(*picture.point(f"p.screenPositionOf({node})"))
    picture.wait_for("p.selection?.kind === 'node'")
    chromium_page.wait_for_timeout(300)
    details = picture.root.locator(".details")
    panel = details.bounding_box()
    assert panel is not None
    for other in (node, *others):
        area = picture.get(f"p.boxArea({other})")
        assert area["x"] + area["width"] <= panel["x"] or panel["x"] + panel["width"] <= area["x"]
    # Why the nodes stay together is said where it is seen at once.
    told = details.get_by_text("which must share its device").bounding_box()
    assert told is not None
    assert told["y"] + told["height"] <= panel["y"] + panel["height"]


def test_details_are_whole_below_the_graph_of_a_phone(app: str, chromium_page: Any) -> None:
    picture = opened(chromium_page, f"{app}/?sample=teaching_tied_embedding", 390, 844)
    picture.root.scroll_into_view_if_needed()
    chromium_page.mouse.click(*picture.point("p.screenPositionOf(1)"))
    picture.wait_for("p.selection?.kind === 'node'")
    chromium_page.wait_for_timeout(300)
    details = picture.root.locator(".details")
    assert details.evaluate("e => e.scrollHeight <= e.clientHeight + 1")


def test_memory_is_marked_in_round_numbers_of_its_unit(app: str, chromium_page: Any) -> None:
    picture = opened(chromium_page, f"{app}/?sample=unet_operator_inference")
    picture.wait_for("p.memory.showsBytes && p.memory.ticks.length > 1")
    marks = picture.get("p.memory.ticks")
    assert all(len(mark.split()[0].replace(".", "").strip("0")) <= 1 for mark in marks), marks


@pytest.mark.parametrize("width", [1024, 390])
def test_tables_fit_a_window_that_is_opened_small(app: str, chromium_page: Any, width: int) -> None:
    opened(chromium_page, f"{app}/?sample=gpt2_xl_layer_training", width, 800)
    place = chromium_page.locator(".table-scroll:not([hidden])").first
    place.scroll_into_view_if_needed()
    chromium_page.evaluate("document.fonts.ready")
    expect(place).to_have_js_property("scrollWidth", place.evaluate("e => e.clientWidth"))


def test_what_memory_says_fits_beside_it(app: str, chromium_page: Any) -> None:
    query = "sample=gpt2_xl_layer_training&schedule=gpipe"
    picture = opened(chromium_page, f"{app}/?{query}", 1024, 768)
    picture.wait_for("p.memory.showsBytes && p.memory.warning?.length > 0")
    assert picture.get("p.memory.warningWidth") <= picture.get("p.memory.plotWidth")
    assert picture.get("p.memory.heading") == "memory"
    picture = opened(chromium_page, f"{app}/?{query}", 390, 844)
    picture.wait_for("p.memory.showsBytes && p.memory.ticks?.length > 1")
    assert picture.get("p.memory.heading") == "GiB"
    assert all("GiB" not in tick for tick in picture.get("p.memory.ticks"))


def test_limits_far_above_are_whole_on_a_small_phone(app: str, chromium_page: Any) -> None:
    query = "sample=gnmt_layer_inference&cpus=0&devices=2xH100-SXM%2B2xL40S%2B2xT4"
    picture = opened(chromium_page, f"{app}/?{query}", 320, 640)
    picture.wait_for("p.memory?.limitsAbove?.length > 0")
    assert picture.get("p.memory.limitsWidth") <= picture.get("p.memory.plotWidth")
    assert picture.get("p.memory.limitsAbove").startswith("↑ limits ")


def test_the_note_at_the_pointer_leaves_its_box_free(app: str, chromium_page: Any) -> None:
    picture = opened(chromium_page, f"{app}/?sample=teaching_chain&present=yes")
    picture.wait_for("p.presenting")
    for node in (1, 3, 6):
        chromium_page.mouse.move(*picture.point(f"p.screenPositionOf({node})"))
        tip = picture.root.locator(".tooltip:not([hidden])").bounding_box()
        area = picture.get(f"p.boxArea({node})")
        assert tip is not None
        assert tip["y"] >= area["y"] + area["height"] or tip["y"] + tip["height"] <= area["y"]


def test_banners_do_not_move_the_picture(app: str, chromium_page: Any) -> None:
    plain = opened(chromium_page, f"{app}/?sample=teaching_chain").root.bounding_box()
    told = opened(chromium_page, f"{app}/?sample=teaching_chain&nonsense=3").root.bounding_box()
    banner = chromium_page.get_by_text("nonsense")
    expect(banner).to_be_in_viewport(ratio=1)
    assert plain is not None
    assert told is not None
    assert told["y"] == plain["y"]


def test_banners_leave_most_of_the_page_in_sight(app: str, chromium_page: Any) -> None:
    page = chromium_page
    opened(page, f"{app}/?sample=gpt2_xl_layer_training&cpus=0", 1024, 600)
    box = page.get_by_role("spinbutton", name="Memory (GiB)")
    box.fill("1")
    box.press("Enter")
    page.get_by_role("button", name="What would make a plan possible?").click(timeout=BUSY_MS)
    page.get_by_role("table", name="What would make a plan possible").wait_for(timeout=BUSY_MS)
    notices = page.locator(".st-key-notices")
    page.wait_for_function("e => e.scrollHeight > 0.5 * innerHeight", arg=notices.element_handle())
    assert notices.evaluate("e => e.offsetHeight") <= 0.45 * 600 + 1
    notices.get_by_role("button").last.scroll_into_view_if_needed()
    expect(notices.get_by_role("button").last).to_be_in_viewport(ratio=1)


def test_buttons_of_picture_and_tables_take_one_row_each_on_a_projector(app: str, chromium_page: Any) -> None:
    root = opened(chromium_page, f"{app}/?sample=unet_operator_inference", 1024, 768).root
    for row in (".toolbar button, .toolbar select, .toolbar input", ".tables header button"):
        parts = root.evaluate("(root, row) => [...root.querySelectorAll(row)].map(e => e.getBoundingClientRect())", row)
        shown = [part for part in parts if part["width"]]
        assert len(shown) > 3
        assert max(part["top"] for part in shown) < min(part["bottom"] for part in shown)


@pytest.mark.parametrize("width", [1280, 1024, 390])
def test_nothing_is_cut_off_at_the_sides(app: str, chromium_page: Any, width: int) -> None:
    picture = opened(chromium_page, f"{app}/?sample=gpt2_xl_layer_training", width, 844)
    box = picture.root.get_by_role("searchbox")
    box.fill("op[")
    said = picture.root.locator(".count.wrong").bounding_box()
    field = box.bounding_box()
    assert said is not None
    assert field is not None
    assert said["y"] >= field["y"] + field["height"]
    parts = ".toolbar *, .legend-row *, .keys-row *, .timeline-head *, .replay *, canvas"
    wide = f"""root => [...root.querySelectorAll("{parts}")]
        .map(e => e.getBoundingClientRect()).filter(r => r.width > 0).map(r => [r.left, r.right])"""
    assert all(left >= -1 and right <= width + 1 for left, right in picture.root.evaluate(wide))
    cut = """() => [...document.querySelectorAll(".stMainBlockContainer h3, [data-testid=stMetricValue]")]
        .filter(e => e.scrollWidth > e.clientWidth + 1).length"""
    assert chromium_page.evaluate(cut) == 0


# A question of its own for each width: one that has been answered has no strip again.
@pytest.mark.parametrize(("width", "accelerators"), [(1280, 6), (1024, 7), (390, 8)])
def test_the_strip_of_a_solve_says_all_it_has_to_say(
    app: str, chromium_page: Any, width: int, accelerators: int
) -> None:
    chromium_page.set_viewport_size({"width": width, "height": 800})
    chromium_page.goto(f"{app}/?sample=unet_operator_training&splits=free&limit=60&accelerators={accelerators}")
    chromium_page.get_by_role("button", name="Solve now").click(timeout=BUSY_MS)
    strip = chromium_page.locator(".solve-strip")
    strip.filter(has_text="lan").first.wait_for(timeout=BUSY_MS)
    cut = strip.evaluate("e => [...e.children].filter(line => line.scrollWidth > line.clientWidth + 1).length")
    assert cut == 0


def test_headline_numbers_of_two_rows_stand_below_each_other(app: str, chromium_page: Any) -> None:
    opened(chromium_page, f"{app}/?sample=teaching_chain", 1024, 768)
    places = chromium_page.locator(".st-key-headline [data-testid=stMetric]").evaluate_all(
        "all => all.map(e => Math.round(e.getBoundingClientRect().left))"
    )
    assert len(places) == 5
    assert places[3:] == places[:2]
