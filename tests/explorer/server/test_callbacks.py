"""What a click asks for is done to its end, whatever is asked for meanwhile."""

from typing import Any

import pytest
from streamlit.runtime.scriptrunner import StopException
from streamlit.runtime.state import SafeSessionState, SessionState

from explorer.server.mends.messages import finish_callbacks


@pytest.fixture(autouse=True)
def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SafeSessionState, "on_script_will_rerun", SafeSessionState.on_script_will_rerun)
    finish_callbacks()
    finish_callbacks()  # twice is once


class Clicked(SessionState):
    """A session in which a click has a callback: it looks at the session's state and changes it in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def on_script_will_rerun(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        safe["edit"] = safe["before"] + 1
        safe["message"] = "done"


safe: SafeSessionState


def test_a_callback_is_not_ended_for_the_next_run_but_what_follows_it_is() -> None:
    global safe
    asked_to_stop = False

    def may_end() -> None:
        if asked_to_stop:
            raise StopException

    state = Clicked()
    safe = SafeSessionState(state, may_end)
    safe["before"] = 1
    asked_to_stop = True
    safe.on_script_will_rerun(None)
    assert state.calls == 1
    with pytest.raises(StopException):
        safe["before"]
    asked_to_stop = False
    assert (safe["edit"], safe["message"]) == (2, "done")


def test_a_run_may_end_again_after_a_callback_that_failed() -> None:
    class Failing(SessionState):
        def on_script_will_rerun(self, *_: Any, **__: Any) -> None:
            raise KeyError("a surprise")

    def may_end() -> None:
        raise StopException

    failing = SafeSessionState(Failing(), may_end)
    with pytest.raises(KeyError):
        failing.on_script_will_rerun(None)
    with pytest.raises(StopException):
        failing["anything"]
