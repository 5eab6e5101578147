"""Whatever is hovered or selected in one view of the picture stands out in all of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.explorer.picture import Picture, served_picture

pytestmark = pytest.mark.browser

LIT_NODES = "[...p.focus.nodes].flatMap((lit, i) => lit === 1 ? [i + 1] : [])"
"""Ids of the nodes in focus; those of the page are the numbers from 1 in topological order."""
LIT_STAGES = "[...new Set([...p.focus.bars].flatMap((lit, i) => lit ? [p.barFacts(i).stage] : []))]"
LIT_KINDS = "[...new Set([...p.focus.bars].flatMap((lit, i) => lit ? [p.barFacts(i).kind] : []))]"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Serve `canvas_page.py`; the address."""
    with served_picture() as address:
        yield address


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
