"""Hand edits in a real browser: move, see what is broken, undo, redo, repair, pin, re-solve; refusals say why."""

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.support.serving import Address

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

SAMPLE = "bert_base_operator_inference"
WAIT_MS = 150_000


def opened(page: "Page", app: Address, sample: str = SAMPLE) -> "Locator":
    """Open a sample and return the picture once a plan is drawn."""
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{app}/?sample={sample}")
    page.locator(".edit-bar:visible").wait_for()
    page.locator(".legend .facts").first.wait_for()
    picture = page.locator(".placed-pipeline")
    picture.locator(".toolbar").wait_for()
    return picture


def known(picture: "Locator", what: str, argument: Any = None) -> Any:
    return picture.evaluate(f"(root, argument) => root.__placement.{what}", argument)


def select(page: "Page", picture: "Locator", node: int, *, more: bool = False) -> None:
    """Click on the box of a node, with Ctrl to add it to the selection, once the picture stands still."""
    picture.locator("canvas.graph").scroll_into_view_if_needed()
    page.locator(".stApp[data-test-script-state=notRunning]").wait_for()
    place = known(picture, "screenPositionOf(argument)", node)
    while (now := still_there(picture, node)) != place:
        place = now
    if more:
        page.keyboard.down("Control")
    page.mouse.click(place["x"], place["y"])
    if more:
        page.keyboard.up("Control")
    picture.locator(".edit-what").wait_for()
    assert node in known(picture, "selectedIds")


def still_there(picture: "Locator", node: int) -> Any:
    """Return where the box of a node stands three frames from now."""
    return picture.evaluate(
        """async (root, node) => {
            for (let i = 0; i < 3; i += 1) await new Promise(requestAnimationFrame);
            return root.__placement.screenPositionOf(node);
        }""",
        node,
    )


def told(picture: "Locator", text: str) -> str:
    """Wait until the bar says something that contains a text, and return all it says with plain spaces."""
    message = picture.locator(".edit-message:not(.busy)").filter(has_text=text)
    message.wait_for()
    return str(message.inner_text()).replace("\xa0", " ")


def do(picture: "Locator", op: str, text: str) -> str:
    """Press the button of an edit and wait for the answer that contains a text."""
    picture.locator(f".edit-row [data-op={op}]").click()
    return told(picture, text)


def set_memory(page: "Page", picture: "Locator", gib: str) -> None:
    field = page.get_by_role("spinbutton", name="Memory (GiB)")
    before = known(picture, "digest")
    field.fill(gib)
    field.press("Enter")
    page.wait_for_function(
        "([root, before]) => root.__placement.digest !== before", arg=[picture.element_handle(), before]
    )


def device_of(picture: "Locator", node: int) -> int:
    """The device of a node, as the details panel names it."""
    return int(picture.evaluate("(root, id) => root.__placement.deviceOf(id)", node))


def test_a_move_that_breaks_memory_names_device_and_shortfall_and_can_be_taken_back(
    chromium_page: "Page", app: Address
) -> None:
    page = chromium_page
    picture = opened(page, app)
    set_memory(page, picture, "0.3")
    home = device_of(picture, 100)
    target = 2 if home != 2 else 1
    select(page, picture, 100)
    expect(picture.locator(".edit-bar")).to_contain_text("Move to")
    told_move = do(picture, f"move-{target}", f"26 nodes moved to Accelerator {target + 1}")
    assert "max-load" in told_move
    assert device_of(picture, 100) == target
    page.locator(".hand-edit").filter(has_text="slower than the optimal pipeline split").wait_for()
    # A second layer is too much.
    other = next(v for v in (130, 60, 200) if device_of(picture, v) not in (target,))
    select(page, picture, other, more=True)
    message = do(picture, f"move-{target}", f"Accelerator {target + 1} short by")
    assert message.startswith("✓")
    banner = page.locator(".hand-edit").filter(has_text="not valid")
    banner.filter(has_text=f"Accelerator {target + 1} short by").wait_for()
    # Undo: gone. Redo: back. By keys as by buttons.
    page.keyboard.press("Control+z")
    told(picture, "Undone: 26 nodes moved")
    banner.wait_for(state="detached")
    page.keyboard.press("Control+Shift+z")
    told(picture, "Redone: 26 nodes moved")
    banner.wait_for()
    # Repair.
    do(picture, "repair", "Repaired: moved")
    banner.wait_for(state="detached")
    assert do(picture, "reset", "All edits are dropped").startswith("✓")
    page.locator(".hand-edit").wait_for(state="detached")
    assert device_of(picture, 100) == home


def test_a_pin_stays_when_the_rest_is_solved_anew(chromium_page: "Page", app: Address) -> None:
    page = chromium_page
    picture = opened(page, app)
    target = 3 if device_of(picture, 100) != 3 else 0
    select(page, picture, 100)
    do(picture, f"move-{target}", "moved to Accelerator")
    do(picture, "pin", f"26 nodes pinned to Accelerator {target + 1}")
    assert known(picture, "pinned").count(100) == 1
    message = do(picture, "resolve", "Re-solved the rest around 26 pinned nodes")
    assert "proven" in message
    assert device_of(picture, 100) == target
    page.locator(".hand-edit").filter(has_text="with these pins, proven").wait_for()
    page.locator(".hand-edit").filter(has_text="26 pinned").wait_for()
    # Edits outlive other inputs of the page, the pins too.
    picture.locator(".levels button").filter(has_text="Nodes").click()
    set_memory(page, picture, "8")
    assert device_of(picture, 100) == target
    assert 100 in known(picture, "pinned")
    do(picture, "unpin", "unpinned")
    assert known(picture, "pinned") == []


def test_the_selection_can_be_dropped_on_a_device_and_kept_together(chromium_page: "Page", app: Address) -> None:
    page = chromium_page
    picture = opened(page, app)
    target = 2 if device_of(picture, 100) != 2 else 1
    select(page, picture, 100)
    picture.locator(".edit-what").drag_to(picture.locator(f".legend [data-device='{target}']"))
    told(picture, f"26 nodes moved to Accelerator {target + 1}")
    assert device_of(picture, 100) == target
    do(picture, "together", f"26 nodes kept together on Accelerator {target + 1}")
    # One of them goes, and all go with it.
    picture.locator(".levels button").filter(has_text="Nodes").click()
    page.wait_for_function("root => root.__placement.level === 'operators'", arg=picture.element_handle())
    page.keyboard.press("Escape")
    picture.locator(".edit-what").wait_for(state="hidden")  # what was selected, all 26 nodes, is not any more
    select(page, picture, 100)
    away = 0 if target != 0 else 1
    do(picture, f"move-{away}", "with 25 nodes that must share a device with it")
    assert device_of(picture, 100) == away


def test_edits_that_cannot_be_made_say_why(chromium_page: "Page", app: Address) -> None:
    page = chromium_page
    picture = opened(page, app)
    select(page, picture, 100)
    do(picture, "pin", "pinned to")
    page.keyboard.press("Escape")
    do(picture, "repair", "There is nothing to repair")
    expect(picture.locator(".edit-message")).to_have_text(re.compile("^Not applied:"))
    # M and a number move the selection; to where it is, it cannot go.
    select(page, picture, 100)
    here = device_of(picture, 100)
    page.keyboard.press("m")
    picture.locator(".edit-message").filter(has_text="Press its number").wait_for()
    page.keyboard.press(str(here + 1))
    message = told(picture, "already")
    assert message.startswith("Not applied:")
    assert f"on Accelerator {here + 1} already" in message
