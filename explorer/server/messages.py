"""Messages of Streamlit's protocol that this app has no use for: they are dropped before anything is done for them.

Whoever has a page open can send every message that Streamlit knows, whatever the page shows. `load_git_info` asks about
the operator's checkout: it answers with the names of files that are not in Git, and runs Git on the thread that serves
everybody, so that a few thousand of them hold the server up for minutes. The others empty the caches of all sessions,
and have the server watch its own program.
"""

from typing import Any

CLOSED = ("load_git_info", "clear_cache", "set_run_on_save")


def close_messages(runtime: Any) -> None:
    """Have Streamlit's runtime do nothing for what is closed; there is no option for it."""
    handle = runtime.handle_backmsg

    def handle_open(session_id: str, message: Any, *args: Any, **kwargs: Any) -> None:
        if message.WhichOneof("type") not in CLOSED:
            handle(session_id, message, *args, **kwargs)

    runtime.handle_backmsg = handle_open
