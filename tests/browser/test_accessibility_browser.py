"""Pages by the rules of accessibility, light and dark, wide and on a phone; lessons are checked as they are done."""

import re
from typing import Any

import pytest

from tests.support.accessibility import faults
from tests.support.app_page import SOLVE_MS, wait_for_picture

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (1280, 800, "dark"), (390, 844, "dark")])
def test_pages(app: str, chromium_page: Any, width: int, height: int, scheme: str) -> None:
    page = chromium_page
    page.set_default_timeout(SOLVE_MS)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{app}/?sample=teaching_chain")
    wait_for_picture(page, "p.bars > 0")
    assert faults(page) == []
    for name, said in (("Compare", "Keep"), ("Sweep", "Start"), ("Learn", "Each lesson answers one question")):
        if width < 640 and name == "Compare":
            page.get_by_test_id("stExpandSidebarButton").click()
        page.get_by_role("link", name=name).click()
        page.get_by_text(re.compile(said)).first.wait_for()
        page.locator("[data-testid='stApp'][data-test-script-state='notRunning']").wait_for()
        assert faults(page) == [], name
