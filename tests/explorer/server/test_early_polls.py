"""A fragment of a page that the browser has not drawn yet waits for it."""

from typing import Any

import pytest
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.runtime.app_session import AppSession

from explorer.server.mends.messages import hold_early_polls


class Session:
    """Stands in for one of Streamlit's, of which the server has drawn a page."""

    class _pages_manager:  # noqa: N801 -- Streamlit's own name
        current_page_script_hash = "drawn"


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what goes on to Streamlit."""
    found: list[Any] = []
    monkeypatch.setattr(AppSession, "request_rerun", lambda _session, state: found.append(state))
    hold_early_polls()
    hold_early_polls()  # twice is once
    return found


def request(state: ClientState | None) -> None:
    AppSession.request_rerun(Session(), state)  # type: ignore[arg-type]


@pytest.mark.parametrize("page", ["", "the page before"])
def test_a_poll_of_a_page_that_is_not_drawn_is_held_back(page: str, passed_on: list[Any]) -> None:
    request(ClientState(fragment_id="part", is_auto_rerun=True, page_script_hash=page))
    assert passed_on == []


def test_all_else_goes_on(passed_on: list[Any]) -> None:
    asked = [
        ClientState(fragment_id="part", is_auto_rerun=True, page_script_hash="drawn"),
        ClientState(),  # the first run of a page, which names none
        ClientState(fragment_id="part", page_script_hash="the page before"),  # a click
        ClientState(page_script_hash="another page"),
        None,
    ]
    for state in asked:
        request(state)
    assert passed_on == asked
