"""A fragment that has nothing more to tell is not asked for again."""

from typing import Any

import pytest
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st

    from explorer.elements.polling import stop_polling

    @st.fragment(run_every=0.5)
    def one() -> None:
        st.write("goes on")

    @st.fragment(run_every=0.5)
    def other() -> None:
        st.write("is over")
        stop_polling()

    one()
    other()
    stop_polling()  # outside of a fragment it does nothing


def test_the_browser_is_told_to_ask_no_more_for_this_fragment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    stopped: list[str] = []
    enqueue = ScriptRunContext.enqueue

    def watched(context: ScriptRunContext, message: Any) -> None:
        kind = message.WhichOneof("type")
        if kind == "auto_rerun":
            asked.append(message.auto_rerun.fragment_id)
        elif kind == "stop_auto_rerun":
            assert set(message.stop_auto_rerun.fragment_ids) <= set(asked), "the browser has no timer to stop yet"
            stopped.extend(message.stop_auto_rerun.fragment_ids)
        enqueue(context, message)

    monkeypatch.setattr(ScriptRunContext, "enqueue", watched)
    page = AppTest.from_function(_page).run()
    assert not page.exception
    assert [element.value for element in page.markdown] == ["goes on", "is over"]
    assert len(asked) == 2
    assert stopped == asked[1:]
