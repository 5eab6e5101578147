"""Messages of Streamlit's protocol: those this app has no use for are dropped, and what it owes is kept.

**Dropped** before anything is done for them. Whoever has a page open can send every message that Streamlit knows,
whatever the page shows. `load_git_info` asks about the operator's checkout: it answers with the names of files that
are not in Git, and runs Git on the thread that serves everybody, so that a few thousand of them hold the server up for
minutes. The others empty the caches of all sessions, and have the server watch its own program.

**Kept**: when a run of the page begins, Streamlit empties the queue of what is on its way to the browser. Deltas of the
run before are of no use then, but an answer to what the browser has asked for went with them (Streamlit 1.67,
`ForwardMsgQueue.clear`): four in a thousand uploads to a page that was drawing never began, and waited for ever.
So did the end of a run when a fragment asked for its turn at that moment: to the browser the page went on running.
And so did a click when another message followed it by a few milliseconds, such as that of what is looked at: the run
that was asked for later stopped the one with the click before or while it was acted on.

**Held back**: what a fragment asks for by itself from a browser that has not drawn the page yet, or no longer has it.
"""

from typing import Any

from streamlit.runtime.app_session import AppSession, AppSessionState
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.state import SafeSessionState

CLOSED = ("load_git_info", "clear_cache", "set_run_on_save")


def close_messages(runtime: Any) -> None:
    """Have Streamlit's runtime do nothing for what is closed; there is no option for it."""
    handle = runtime.handle_backmsg

    def handle_open(session_id: str, message: Any, *args: Any, **kwargs: Any) -> None:
        if message.WhichOneof("type") not in CLOSED:
            handle(session_id, message, *args, **kwargs)

    runtime.handle_backmsg = handle_open


ANSWERS = ("file_urls_response", "backend_operation_response")
"""What the browser waits for: where to send a file, and a file that is made when it is asked for."""


def keep_answers() -> None:
    """Have answers stay in the queue of every session when a run begins; there is no option for it."""
    clear = ForwardMsgQueue.clear
    if getattr(clear, "keeps_answers", False):
        return

    def clear_the_rest(
        queue: Any, retain_lifecycle_msgs: bool = False, fragment_ids_this_run: list[str] | None = None
    ) -> None:
        owed = [message for message in queue._queue if message.WhichOneof("type") in ANSWERS]
        clear(queue, retain_lifecycle_msgs, fragment_ids_this_run)
        if retain_lifecycle_msgs:
            rest = [message for message in queue._queue if message.WhichOneof("type") not in ANSWERS]
            queue._queue = [*owed, *rest]

    setattr(clear_the_rest, "keeps_answers", True)  # noqa: B010
    setattr(ForwardMsgQueue, "clear", clear_the_rest)  # noqa: B010 -- a method of another library


def keep_last_words() -> None:
    """Have all that a run of the page says arrive, its end above all, also when a fragment asks for its turn just then.

    The thread of a run that has ended declines further requests while its last messages are still due on the event
    loop. A request that comes at that moment gets a thread of its own, and from then on Streamlit 1.67 ignores what the
    one before has said (`AppSession.request_rerun` tells of it): the browser never hears of the end. Here the new
    thread begins behind what is due. There is no option for it.
    """
    create = AppSession._create_scriptrunner
    if getattr(create, "keeps_last_words", False):
        return

    def create_in_turn(session: Any, rerun_data: Any) -> None:
        before = session._scriptrunner
        if before is None:
            create(session, rerun_data)
            return

        def create_behind_it() -> None:
            if session._state is AppSessionState.SHUTDOWN_REQUESTED:
                return
            if session._scriptrunner is before:
                session._scriptrunner = None
            if session._scriptrunner is None or not session._scriptrunner.request_rerun(rerun_data):
                create(session, rerun_data)

        session._event_loop.call_soon_threadsafe(create_behind_it)

    setattr(create_in_turn, "keeps_last_words", True)  # noqa: B010
    setattr(AppSession, "_create_scriptrunner", create_in_turn)  # noqa: B010 -- a method of another library


def finish_callbacks() -> None:
    """Have what a widget's callback does be done to its end, whatever else is asked for meanwhile.

    Each look at the session's state is a place where Streamlit 1.67 ends a run for the next (`SafeSessionState`), in
    callbacks too, and the next run does not know of the click any more. There is no option for it. A click that waits
    for its run is kept by `runner.fastReruns` being off: requests are joined then, and none is dropped for a later one.
    """
    apply = SafeSessionState.on_script_will_rerun
    if getattr(apply, "finishes_callbacks", False):
        return

    def apply_all(state: SafeSessionState, *args: Any, **kwargs: Any) -> None:
        may_end = state._yield_callback
        object.__setattr__(state, "_yield_callback", lambda: None)  # its own __setattr__ is that of the session's state
        try:
            apply(state, *args, **kwargs)
        finally:
            object.__setattr__(state, "_yield_callback", may_end)

    setattr(apply_all, "finishes_callbacks", True)  # noqa: B010
    setattr(SafeSessionState, "on_script_will_rerun", apply_all)  # noqa: B010 -- a method of another library


def hold_early_polls() -> None:
    """Have a fragment that asks for its turn by itself wait until the browser has drawn the page it stands in.

    A busy browser counts the seconds until it asks from when the message arrived, which may be before it has drawn
    anything. It takes the answer for that of another page then, clears its own, and ends for good where the fragment
    is to be put into what is gone ("Bad delta path index", Streamlit 1.67, `handleNewSession` of its scripts). Such a
    request names no page, or the one before. The browser asks again after the same time.
    """
    request = AppSession.request_rerun
    if getattr(request, "holds_early_polls", False):
        return

    def request_when_drawn(session: Any, client_state: Any) -> None:
        drawn = session._pages_manager.current_page_script_hash
        if client_state is None or not client_state.is_auto_rerun or client_state.page_script_hash == drawn:
            request(session, client_state)

    setattr(request_when_drawn, "holds_early_polls", True)  # noqa: B010
    setattr(AppSession, "request_rerun", request_when_drawn)  # noqa: B010 -- a method of another library


def forget_undrawn_fragments() -> None:
    """Have a run of the page that ends before its time, by an error or a stop, forget the fragments it did not draw.

    The browser takes away what such a run has not drawn, and does not ask for its fragments any more; but one that had
    asked before gets its turn after it, for Streamlit 1.67 forgets fragments only where a run came to its end. What it
    draws has no place any more, and the whole page ends for good ("Bad delta path index"), with the error that was
    shown. There is no option for it.
    """
    finish = ScriptRunner._on_script_finished
    if getattr(finish, "forgets_undrawn", False):
        return

    def finish_and_forget(runner: Any, context: Any, event: Any, premature_stop: bool, *args: Any, **more: Any) -> None:
        if premature_stop and not context.fragment_ids_this_run:
            runner._fragment_storage.clear(new_fragment_ids=context.shared.new_fragment_ids.snapshot())
        finish(runner, context, event, premature_stop, *args, **more)

    setattr(finish_and_forget, "forgets_undrawn", True)  # noqa: B010
    setattr(ScriptRunner, "_on_script_finished", finish_and_forget)  # noqa: B010 -- a method of another library
