"""Messages of Streamlit's protocol: those this app has no use for are dropped, and answers that it owes are kept.

**Dropped** before anything is done for them. Whoever has a page open can send every message that Streamlit knows,
whatever the page shows. `load_git_info` asks about the operator's checkout: it answers with the names of files that
are not in Git, and runs Git on the thread that serves everybody, so that a few thousand of them hold the server up for
minutes. The others empty the caches of all sessions, and have the server watch its own program.

**Kept**: when a run of the page begins, Streamlit empties the queue of what is on its way to the browser. Deltas of the
run before are of no use then, but an answer to what the browser has asked for went with them (Streamlit 1.67,
`ForwardMsgQueue.clear`): four in a thousand uploads to a page that was drawing never began, and waited for ever.
"""

from typing import Any

from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

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
