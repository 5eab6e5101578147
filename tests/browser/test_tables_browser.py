"""The tables under the picture, in a real browser: what they say, their order, and how they are linked to the rest."""

import csv
import io
import itertools
import re
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.picture import Picture
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser
TITLES = ("Devices", "Cut tensors", "Nodes", "Events")


def tables(page: Any) -> Any:
    return page.locator(".tables").first


def open_table(page: Any, title: str) -> Any:
    """Open a table by the title on its tab; return its element."""
    tables(page).get_by_role("tab", name=title).click()
    return tables(page).locator(".table-scroll:not([hidden]) table")


def cells(table: Any) -> list[list[str]]:
    """Return the texts of the rows that exist now."""
    rows: list[list[str]] = table.evaluate(
        "t => [...t.tBodies[0].rows].filter(r => r.dataset.at !== undefined)"
        ".map(r => [...r.cells].map(c => c.innerText.trim()))"
    )
    return rows


def heads(table: Any) -> list[str]:
    names: list[str] = table.evaluate("t => [...t.tHead.rows[0].cells].map(c => c.querySelector('span').textContent)")
    return names


def test_only_one_table_stands_there_while_the_pictures_are_drawn(chromium_page: Any, server: str) -> None:
    chromium_page.add_init_script(
        """window.seen = [];
        const look = () => {
            for (const { shadowRoot } of document.querySelectorAll("*")) {
                const tables = shadowRoot?.querySelector(".tables");
                if (tables) window.seen.push(tables.querySelectorAll(".table-scroll:not([hidden])").length);
            }
            requestAnimationFrame(look);
        };
        look();"""
    )
    Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    expect(tables(chromium_page).locator(".table-scroll:not([hidden])")).to_have_count(1)
    seen = chromium_page.evaluate("window.seen")
    assert set(seen) <= {0, 1}, seen
    assert 1 in seen


def test_devices_are_shown_first_with_what_they_do_and_hold(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    table = tables(chromium_page).locator(".table-scroll:not([hidden]) table")
    rows = [dict(zip(heads(table), row, strict=True)) for row in cells(table)]
    assert [row["Nodes"] for row in rows] == ["2", "2", "2", "0", "0"]
    # The nodes of the page take 1, 2, 3 ms in turn, and a tensor 0.25 ms each way.
    assert rows[0]["Compute (ms)"] == "5"
    assert (rows[0]["Receive (ms)"], rows[0]["Send (ms)"], rows[0]["Load (ms)"]) == ("0", "0.5", "5.5")
    assert rows[0]["Capacity (GiB)"] == "16"
    assert "100\xa0%" in [row["Of max-load"] for row in rows]
    expect(table.locator("caption")).to_have_text("Compute, transfers, load and memory of every device")


def test_tensors_of_one_node_are_told_apart(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=tensors&alternate=1")
    table = open_table(chromium_page, "Cut tensors")
    rows = [dict(zip(heads(table), row, strict=True)) for row in cells(table)]
    of_first = [(row["Tensor"], row["Time each way (ms)"]) for row in rows if row["Node"] == "1"]
    assert sorted(of_first) == [("", "0.25"), ("skip", "0.5")]
    for name, lit in (("skip", "1,1,0,1,0,0"), ("", "1,1,0,0,0,0")):
        at = next(i for i, row in enumerate(rows) if (row["Node"], row["Tensor"]) == ("1", name))
        table.locator(f"tr[data-at='{at}']").hover()
        picture.wait_for(f"String(p.focus.nodes) === '{lit}'")
    open_table(chromium_page, "Nodes").locator("tr[data-at='0']").click()
    details = chromium_page.locator(".details:not([hidden])")
    expect(details).to_contain_text("skip: 1.907 MiB")
    expect(details).to_contain_text("976.6 KiB")
    expect(details).to_contain_text("0.5 ms each way, cut")


def test_the_table_of_tensors_has_a_time_for_each_end_where_they_differ(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    table = open_table(chromium_page, "Cut tensors")
    assert {row[heads(table).index("Time each way (ms)")] for row in cells(table)} == {"0.25"}
    Picture(chromium_page, f"{server}/?graph=chain&stages=3&slow_links=1")
    table = open_table(chromium_page, "Cut tensors")
    rows = [dict(zip(heads(table), row, strict=True)) for row in cells(table)]
    times = {row["Node"]: (row["Send (ms)"], row["Receive (ms)"]) for row in rows}
    assert times == {"1": ("0.25", "1"), "2": ("0.25", "1"), "4": ("1", "1")}


def test_rows_and_pictures_point_at_each_other(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    table = open_table(chromium_page, "Cut tensors")
    table.get_by_role("row", name="<b>op 4</b>").hover()
    picture.wait_for("p.focus.kind === 'tensor'")
    assert picture.get("[...p.focus.nodes].flatMap((lit, i) => lit ? [i + 1] : [])") == [4, 5]
    kinds = "[...p.focus.bars].flatMap((lit, i) => lit ? [`${p.barFacts(i).stage} ${p.barFacts(i).kind}`] : [])"
    # Stage 1 sends it (kind 2) and stage 2 receives it (kind 0).
    assert picture.get(f"[...new Set({kinds})].sort()") == ["1 2", "2 0"]
    table = open_table(chromium_page, "Nodes")
    chromium_page.locator("canvas.graph").first.scroll_into_view_if_needed()
    chromium_page.mouse.move(*picture.point("p.screenPositionOf(2)"))
    picture.wait_for("p.focus.kind === 'node'")
    assert table.locator("tr.lit").all_inner_texts() == [table.locator("tr[data-at='1']").inner_text()]


def test_click_on_a_row_selects_and_the_selected_row_comes_into_sight(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=layers")
    table = open_table(chromium_page, "Nodes")
    table.get_by_role("row", name="<b>op 3</b>").click()
    chromium_page.get_by_text("selected: {'node': 3}").wait_for()
    expect(table.locator("tr[aria-selected='true']")).to_have_count(1)
    search = chromium_page.locator(".search input").first
    search.fill("op 177")
    search.press("Enter")
    picture.wait_for("p.selection.nodes[0] === 176")
    row = table.locator("tr[aria-selected='true']")
    expect(row).to_contain_text("op 177")
    box, area = row.bounding_box(), tables(chromium_page).locator(".table-scroll:not([hidden])").bounding_box()
    assert area["y"] <= box["y"] <= area["y"] + area["height"] - box["height"]


def test_columns_sort_and_unknown_values_stand_last(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    table = open_table(chromium_page, "Nodes")
    for order in (["3", "3", "2", "2", "1", "1"], ["1", "1", "2", "2", "3", "3"]):
        table.get_by_role("button", name="Time (ms)").click()
        column = heads(table).index("Time (ms)")
        assert [row[column] for row in cells(table)] == order
    expect(table.locator("th[aria-sort='ascending']")).to_have_text(re.compile(r"^Time \(ms\)"))
    table.get_by_role("button", name="Time (ms)").click()
    assert [row[heads(table).index("Id")] for row in cells(table)] == ["1", "2", "3", "4", "5", "6"]


def test_only_the_rows_in_sight_exist_and_all_can_be_reached(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=layers&nodes=2000")
    table = open_table(chromium_page, "Nodes")
    expect(table).to_have_attribute("aria-rowcount", "2001")
    assert len(cells(table)) < 60
    table.locator("tr[data-at='0']").focus()
    chromium_page.keyboard.press("End")
    chromium_page.keyboard.press("Enter")
    picture.wait_for("p.selection?.nodes[0] === 1999")
    expect(chromium_page.locator(".details").first).to_contain_text("op 2000")
    assert len(cells(table)) < 60
    chromium_page.keyboard.press("ArrowUp")
    picture.wait_for("p.focus.nodes[1998] === 1")


def test_rows_can_be_limited_to_what_is_selected(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    table = open_table(chromium_page, "Events")
    number = int(table.get_attribute("aria-rowcount")) - 1
    chromium_page.locator(".legend .device").nth(1).click()
    tables(chromium_page).get_by_label("only the selected").check()
    devices = {row[heads(table).index("Device")].split()[-1] for row in cells(table)}
    assert devices == {"2"}
    assert 0 < int(table.get_attribute("aria-rowcount")) - 1 < number


def test_copied_table_is_csv_of_all_rows(chromium_page: Any, server: str) -> None:
    chromium_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    Picture(chromium_page, f"{server}/?graph=layers&nodes=300")
    open_table(chromium_page, "Nodes")
    tables(chromium_page).get_by_role("button", name="Copy as CSV").click()
    tables(chromium_page).get_by_text("300 rows copied").wait_for()
    rows = list(csv.DictReader(io.StringIO(chromium_page.evaluate("navigator.clipboard.readText()"))))
    assert [row["Id"] for row in rows] == [str(v) for v in range(1, 301)]
    assert rows[4]["Node"] == "<b>op 5</b>"
    assert float(rows[4]["Transfer (ms)"]) == 0.25


def test_folded_tables_stay_folded_on_the_next_visit(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=chain")
    tables(chromium_page).get_by_role("button", name="Hide tables").click()
    for is_next_visit in (False, True):
        if is_next_visit:
            Picture(chromium_page, f"{server}/?graph=chain")
        tables(chromium_page).get_by_role("button", name="Show tables").wait_for()
        expect(tables(chromium_page).locator("table:visible")).to_have_count(0)
        expect(tables(chromium_page).get_by_role("button", name="Hide tables")).to_have_count(0)


@pytest.mark.parametrize("stages", [3, 6, 8, 11])
def test_the_legend_tells_on_few_lines_what_every_device_takes(chromium_page: Any, server: str, stages: int) -> None:
    Picture(chromium_page, f"{server}/?graph=chain&nodes=72&stages={stages}")
    legend = chromium_page.locator(".legend").first
    table = tables(chromium_page).locator(".table-scroll:not([hidden]) table")
    for width in (1280, 1024, 390):
        chromium_page.set_viewport_size({"width": width, "height": 900})
        most = 95 if width < 640 else 60 if stages > 8 or width == 1024 else 40
        expect(legend.locator("button.device")).to_have_count(stages)
        eventually(partial(lambda most: legend.evaluate("e => e.clientHeight") < most, most), 20)
        loads = [dict(zip(heads(table), row, strict=True))["Load (ms)"] for row in cells(table)][:stages]
        entries = [
            (one.inner_text(), one.get_attribute("title") or "") for one in legend.locator("button.device").all()
        ]
        entries = [(text.replace("\xa0", " "), title) for text, title in entries]
        for i, (load, (text, title)) in enumerate(zip(loads, entries, strict=False)):
            if load not in text:  # said once for several in a row
                text = next(text for text, _ in entries[i:] if "each" in text)
                assert f"{load} ms" in title
            assert load in text
        assert " ms" in legend.inner_text().replace("\xa0", " ")


def test_the_legend_names_a_long_device_type_once_and_shows_every_device(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=chain&nodes=72&stages=5&long_type=yes")
    legend = chromium_page.locator(".legend").first
    for width in (1024, 390):
        chromium_page.set_viewport_size({"width": width, "height": 900})
        expect(legend.locator("button.device")).to_have_count(5)
        expect(legend.locator(".type")).to_have_text(["Maker-of-Accelerators-Model-80GB-Liquid-Co", "T4"])
        for one in legend.locator("button.device").all():
            expect(one).to_be_in_viewport(ratio=1)


def test_times_of_sending_and_receiving_are_left_out_together(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=training&stages=3")
    seen = set()
    for width in (1280, 1150, 1024, 950, 900, 850, 800, 700, 600):
        chromium_page.set_viewport_size({"width": width, "height": 800})
        place = tables(chromium_page).locator(".table-scroll:not([hidden])")
        eventually(lambda place=place: place.evaluate("e => e.scrollWidth <= e.clientWidth"), 20)
        there = [name in heads(place.locator("table")) for name in ("Receive (ms)", "Send (ms)")]
        assert there[0] == there[1], width
        seen.add(there[0])
    assert seen == {True, False}


def test_tables_fit_their_place_and_name_the_columns_there_is_no_room_for(chromium_page: Any, server: str) -> None:
    chromium_page.set_viewport_size({"width": 1900, "height": 800})
    Picture(chromium_page, f"{server}/?graph=training&stages=3")
    every = {title: heads(open_table(chromium_page, title)) for title in TITLES}
    for width, title in itertools.product((1024, 700, 390), TITLES):
        chromium_page.set_viewport_size({"width": width, "height": 800})
        table = open_table(chromium_page, title)
        place = tables(chromium_page).locator(".table-scroll:not([hidden])")
        expect(place).to_have_js_property("clientWidth", place.evaluate("e => e.scrollWidth"))
        left_out = place.locator(".left-out")
        missing = [name for name in every[title] if name not in heads(table)]
        assert heads(table) == [name for name in every[title] if name not in missing]
        if missing:
            expect(left_out).to_have_text(f"No room here for {', '.join(missing)}; a copy as CSV has all.")
        else:
            expect(left_out).to_be_hidden()


def test_what_there_is_no_room_for_is_said_in_sight_and_covers_no_row_that_is_reached(
    chromium_page: Any, server: str
) -> None:
    chromium_page.set_viewport_size({"width": 390, "height": 844})
    Picture(chromium_page, f"{server}/?graph=layers&nodes=300")
    table = open_table(chromium_page, "Nodes")
    place = tables(chromium_page).locator(".table-scroll:not([hidden])")
    area, note = place.bounding_box(), place.locator(".left-out").bounding_box()
    assert note["y"] + note["height"] == pytest.approx(area["y"] + area["height"], abs=1)
    table.locator("tr[data-at='0']").focus()
    for _ in range(12):
        chromium_page.keyboard.press("ArrowDown")
    row, note = table.locator("tr[data-at='12']").bounding_box(), place.locator(".left-out").bounding_box()
    assert row["y"] + row["height"] <= note["y"] + 1


def test_on_a_phone_devices_are_told_by_their_chips_and_words_are_whole(chromium_page: Any, server: str) -> None:
    chromium_page.set_viewport_size({"width": 390, "height": 844})
    Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    cut = "t => [...t.tBodies[0].querySelectorAll('td')].filter(c => c.scrollWidth > c.clientWidth).length"
    for title in ("Cut tensors", "Events"):
        table = open_table(chromium_page, title)
        eventually(partial(lambda one: one.evaluate(cut) == 0, table))
        first = table.locator("tr[data-at='0']")
        expect(first.locator(".chip").first).to_be_visible()
        assert "Accelerator\u00a01" in first.text_content()


def test_headings_take_two_lines_at_most_and_end_above_the_last_digit(chromium_page: Any, server: str) -> None:
    Picture(chromium_page, f"{server}/?graph=chain&stages=3")
    for width, title in itertools.product((1024, 390), TITLES):
        chromium_page.set_viewport_size({"width": width, "height": 900})
        buttons = open_table(chromium_page, title).locator("th button")
        buttons.first.wait_for()  # until then they have no height
        heights = buttons.evaluate_all("all => all.map(b => b.querySelector('span').getBoundingClientRect().height)")
        assert 0 < max(heights) <= 2 * 16 + 4, title
        of_numbers = open_table(chromium_page, title).locator("th.number button")
        aligned = of_numbers.evaluate_all("all => all.map(b => getComputedStyle(b).textAlign)")
        assert set(aligned) <= {"right"}, title
