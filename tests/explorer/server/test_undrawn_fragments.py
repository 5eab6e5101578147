"""A run of the page that fails leaves no fragment behind whose place the browser has taken away."""

import asyncio
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.app_session import AppSession, AppSessionState
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.runtime import Runtime
from streamlit.runtime.script_data import ScriptData
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner

from explorer.server.mends.messages import forget_undrawn_fragments
from tests.support.awaiting import awaited

PAGE = """
import streamlit as st

@st.fragment(run_every=0.5)
def above():
    st.text("above")

@st.fragment(run_every=0.5)
def below():
    st.text("below")

above()
if "was_drawn" in st.session_state:
    END
st.session_state.was_drawn = True
below()
"""


@pytest.fixture(autouse=True)
def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptRunner, "_on_script_finished", ScriptRunner._on_script_finished)  # given back afterwards
    monkeypatch.setattr(Runtime, "_instance", MagicMock())  # files of a page, of which there are none
    forget_undrawn_fragments()
    forget_undrawn_fragments()  # twice is once


def texts(messages: list[ForwardMsg]) -> list[str]:
    return [message.delta.new_element.text.body for message in messages if message.delta.new_element.HasField("text")]


async def _end_of_run(session: AppSession) -> list[ForwardMsg]:
    messages: list[ForwardMsg] = []
    while session._scriptrunner is not None or session._state is AppSessionState.APP_IS_RUNNING:
        await asyncio.sleep(0.01)
        messages += session._browser_queue.flush()
    return messages + session._browser_queue.flush()


@pytest.mark.parametrize("end", ["raise RuntimeError('an error of the page')", "st.stop()"])
def test_a_fragment_that_a_failed_run_did_not_draw_gets_no_turn(end: str, tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    page.write_text(PAGE.replace("END", end), encoding="utf-8")

    async def run() -> list[list[str]]:
        files = MemoryUploadedFileManager("/upload")
        session = AppSession(ScriptData(str(page), is_hello=False), files, ScriptCache(), None, {})
        found = []
        session.request_rerun(ClientState())
        found.append(texts(await _end_of_run(session)))
        fragments = list(session._fragment_storage._fragments)
        session.request_rerun(ClientState())
        found.append(texts(await _end_of_run(session)))
        for fragment in fragments:
            session.request_rerun(ClientState(fragment_id=fragment, is_auto_rerun=True))
            found.append(texts(await _end_of_run(session)))
        session.shutdown()
        return found

    assert awaited(run()) == [["above", "below"], ["above"], ["above"], []]
