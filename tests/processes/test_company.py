"""What the page does by itself for a visitor who is alone, and leaves to a click where others would wait for it."""

from benchmarks.http_door import Door
from benchmarks.streamlit_client import StreamlitClient
from tests.support.awaiting import awaited
from tests.support.serving import Address

PATIENCE_S = 120.0
SAMPLE = "sample=teaching_chain"
ASKS = "Which constraint limits it?"
TITLE = "Which constraints limit it"


def test_constraints_are_priced_at_once_for_a_visitor_alone_and_on_request_in_company(app: Address) -> None:
    async def visit() -> None:
        async with StreamlitClient(Door(app)) as first, StreamlitClient(Door(app)) as second:
            await first.open(SAMPLE, patience_s=PATIENCE_S)
            await first.wait(lambda: says_what_limits(first), PATIENCE_S)
            assert not first.has_widget("button", ASKS)
            await second.open(SAMPLE, patience_s=PATIENCE_S)
            await second.wait(lambda: second.has_widget("button", ASKS), PATIENCE_S)
            assert not says_what_limits(second)
            await second.run(second.press(ASKS), patience_s=PATIENCE_S)
            await second.wait(lambda: says_what_limits(second), PATIENCE_S)

    awaited(visit())


def says_what_limits(page: StreamlitClient) -> bool:
    """Whether the page tells what limits the plan, or that it is being found out."""
    return any(TITLE in text for text in page.texts("html"))
