"""All that a run of the page says arrives, whoever asks for a run at the moment of its end."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import app_session
from streamlit.runtime.app_session import AppSession
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.script_data import ScriptData
from streamlit.runtime.scriptrunner import RerunData, ScriptRunnerEvent
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.runtime.scriptrunner_utils.run_descriptor import RunDescriptor
from streamlit.signal_util import Signal

from explorer.server.mends.messages import keep_last_words
from tests.support.awaiting import awaited


class Runner:
    """Stands in for Streamlit's thread of runs: says what it is told to, and declines requests once it has ended."""

    def __init__(self, initial_rerun_data: RerunData, **_: Any) -> None:
        self.first, self.further = initial_rerun_data, list[RerunData]()
        self.on_event = Signal()
        self.has_ended = self.was_stopped = False

    def start(self) -> None:
        made.append(self)

    def request_stop(self) -> None:
        self.was_stopped = True

    def request_rerun(self, data: RerunData) -> bool:
        if not self.has_ended:
            self.further.append(data)
        return not self.has_ended

    def end(self) -> None:
        """Draw something and end, as the thread of a run does: the event loop hears of all of it later."""
        drawn, run = ForwardMsg(), RunDescriptor.create(None)
        drawn.delta.new_element.markdown.body = "the last line"
        drawn.metadata.delta_path.extend([0, 0])
        for event, more in (
            (ScriptRunnerEvent.ENQUEUE_FORWARD_MSG, {"forward_msg": drawn}),
            (ScriptRunnerEvent.SCRIPT_STOPPED_WITH_SUCCESS, {"run_descriptor": run}),
        ):
            self.on_event.send(self, event=event, **more)
        self.has_ended = True
        self.on_event.send(self, event=ScriptRunnerEvent.SHUTDOWN, client_state=ClientState())


made: list[Runner] = []


@pytest.fixture(autouse=True)
def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AppSession, "_create_scriptrunner", AppSession._create_scriptrunner)  # given back afterwards
    monkeypatch.setattr(app_session, "ScriptRunner", Runner)
    made.clear()
    keep_last_words()
    keep_last_words()  # twice is once


def session_does(act: Callable[[AppSession], None], tmp_path: Path) -> list[ForwardMsg]:
    """Have a session with a fragment run its page, and do something on the event loop; return what goes out then."""

    async def do() -> list[ForwardMsg]:
        session = AppSession(
            ScriptData(str(tmp_path / "page.py"), is_hello=False),
            MemoryUploadedFileManager("/upload"),
            ScriptCache(),
            None,
            {},
        )
        session._fragment_storage.register("part", lambda: None, parent_fragment_id=None)
        session.request_rerun(ClientState())
        session._browser_queue.flush()
        act(session)
        for _ in range(5):
            await asyncio.sleep(0)
        found = session._browser_queue.flush()
        session._scriptrunner = None
        session.shutdown()
        return found

    return awaited(do())


def kinds(messages: list[ForwardMsg]) -> list[str | None]:
    return [message.WhichOneof("type") for message in messages]


def test_the_end_of_a_run_arrives_when_a_fragment_asks_at_that_moment(tmp_path: Path) -> None:
    def act(session: AppSession) -> None:
        made[0].end()
        session.request_rerun(ClientState(fragment_id="part", is_auto_rerun=True))

    messages = session_does(act, tmp_path)
    assert kinds(messages) == ["delta", "script_finished"]
    assert messages[1].script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
    assert [runner.first.fragment_id for runner in made] == [None, "part"]  # and the fragment gets its turn


def test_several_requests_at_that_moment_share_one_thread_in_their_order(tmp_path: Path) -> None:
    def act(session: AppSession) -> None:
        made[0].end()
        for timezone in ("first", "second"):
            asked = ClientState(fragment_id="part", is_auto_rerun=True)
            asked.context_info.timezone = timezone
            session.request_rerun(asked)

    assert kinds(session_does(act, tmp_path)) == ["delta", "script_finished"]
    assert len(made) == 2
    assert made[1].first.context_info is not None
    assert made[1].first.context_info.timezone == "first"
    assert [data.context_info and data.context_info.timezone for data in made[1].further] == ["second"]


def test_a_change_of_an_input_waits_for_nothing(tmp_path: Path) -> None:
    def act(session: AppSession) -> None:
        session.request_rerun(ClientState(query_string="accelerators=4"))
        assert len(made) == 2  # at once

    session_does(act, tmp_path)
    assert made[0].was_stopped
    assert made[1].first.query_string == "accelerators=4"


def test_a_session_that_ends_at_that_moment_runs_nothing_more(tmp_path: Path) -> None:
    def act(session: AppSession) -> None:
        made[0].end()
        session.request_rerun(ClientState(fragment_id="part", is_auto_rerun=True))
        session._state = app_session.AppSessionState.SHUTDOWN_REQUESTED

    session_does(act, tmp_path)
    assert len(made) == 1
