"""The client's page and what it sends back, fed with messages as a server sends them; no server runs."""

from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.http_door import Door
from benchmarks.streamlit_client import StreamlitClient
from tests.support.awaiting import awaited


class SentOnly:
    """A connection that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def send(self, data: bytes) -> None:
        self.messages.append(BackMsg.FromString(data).rerun_script)


class Page:
    """A client without a server."""

    def __init__(self) -> None:
        self.client = StreamlitClient(Door("http://localhost:1"))
        self.wire = SentOnly()
        self.client._socket = self.wire  # type: ignore[assignment]

    def begin(self, run: str, fragment: str = "") -> None:
        message = ForwardMsg()
        message.new_session.page_script_hash = "page"
        message.new_session.config.max_cached_message_age = 2
        message.metadata.run.script_run_id = run
        if fragment:
            message.metadata.run.fragment_ids.append(fragment)
        self.client._take(message)

    def end(self, run: str, status: Any = ForwardMsg.FINISHED_SUCCESSFULLY) -> None:
        message = ForwardMsg(script_finished=status)
        message.metadata.run.script_run_id = run
        self.client._take(message)

    def element(self, place: int, **known: Any) -> Any:
        """Return a message with an element that is still to be filled in and taken."""
        message = ForwardMsg(hash=f"hash {place}")
        message.metadata.delta_path.extend([0, place])
        message.metadata.cacheable = known.get("cacheable", False)
        return message

    def number(self, place: int, label: str, value: float, *, is_given: bool = False) -> None:
        message = self.element(place)
        box = message.delta.new_element.number_input
        box.id, box.label, box.default = f"id-{label}", label, value
        if is_given:
            box.set_value, box.value = True, value
        self.client._take(message)

    def sent(self) -> dict[str, float]:
        """Ask for a run; the values that go with it."""
        awaited(self.client.send())
        return {state.id: state.double_value for state in self.wire.messages[-1].widget_states.widgets}


def page_with(value: float) -> Page:
    page = Page()
    page.begin("first")
    page.number(0, "Accelerators", value)
    page.end("first")
    return page


def test_a_box_is_sent_with_its_default_until_the_user_changes_it() -> None:
    page = page_with(4.0)
    assert page.sent() == {"id-Accelerators": 4.0}
    awaited(page.client.send(page.client.number("Accelerators", 6)))
    assert page.sent() == {"id-Accelerators": 6.0}


def test_a_value_that_the_server_gives_replaces_that_of_the_user() -> None:
    page = page_with(4.0)
    change = page.client.number("Accelerators", 6)
    awaited(page.client.send(change))
    assert page.client.holds(change)
    page.begin("second")
    page.number(0, "Accelerators", 4.0, is_given=True)
    assert not page.client.holds(change)
    assert page.sent() == {"id-Accelerators": 4.0}


def test_a_box_that_is_gone_is_not_sent() -> None:
    page = page_with(4.0)
    page.begin("second")
    page.end("second")
    assert page.sent() == {}


def test_a_large_element_is_told_as_known_and_taken_from_memory() -> None:
    page = Page()
    page.begin("first")
    message = page.element(3, cacheable=True)
    message.delta.new_element.markdown.body = "large"
    page.client._take(message)
    page.end("first")
    page.sent()
    assert list(page.wire.messages[-1].cached_message_hashes) == ["hash 3"]
    page.begin("second")
    reference = ForwardMsg(ref_hash="hash 3")
    reference.metadata.delta_path.extend([0, 1])
    page.client._take(reference)
    page.end("second")
    assert page.client.texts("markdown") == ["large"]


def test_a_page_is_not_still_while_a_run_is_under_way_nor_after_one_that_was_overtaken() -> None:
    page = page_with(4.0)
    assert page.client.is_still
    page.begin("second")
    assert not page.client.is_still
    page.end("second", ForwardMsg.FINISHED_EARLY_FOR_RERUN)
    assert not page.client.is_still
    page.begin("third")
    page.end("third")
    page.begin("of a fragment", "fragment")
    assert page.client.is_still  # the rest of the page is whole
    assert page.client.runs_finished == 2
