"""No click is lost, however soon another message of the page follows it."""

import asyncio

import pytest

from benchmarks.http_door import Door
from benchmarks.streamlit_client import StreamlitClient
from tests.support.awaiting import awaited
from tests.support.serving import Address

ASKED = "sample=teaching_chain&splits=free"
"""A problem whose plan has to be asked for."""
PATIENCE_S = 60.0


@pytest.mark.parametrize("after_s", [0.0, 0.002, 0.01, 0.05])
def test_a_click_that_another_message_follows_is_acted_on(app: Address, after_s: float) -> None:
    async def click_and_go_on() -> None:
        async with StreamlitClient(Door(app)) as page:
            await page.open(ASKED, patience_s=PATIENCE_S)
            assert not has_plan(page)
            await page.send(page.press("Solve"))
            await asyncio.sleep(after_s)
            await page.send()  # such as what the picture tells of its level
            await page.wait(lambda: has_plan(page), PATIENCE_S)

    awaited(click_and_go_on())


def has_plan(page: StreamlitClient) -> bool:
    """Whether the headline of a plan is shown."""
    return any(True for _ in page.tree.elements("metric"))
