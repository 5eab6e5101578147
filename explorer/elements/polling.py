"""A fragment that looks again and again until there is nothing more to see."""

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState


def stop_polling() -> None:
    """Have the browser ask no more for the fragment that is drawn now, which stays as it is.

    A fragment with `run_every` is asked for until the whole page runs without it. To have the page run for that alone
    costs as much as a change of an input. Streamlit itself sends this message for fragments that are gone, and has no
    public call for it.
    """
    context, fragment_id = get_script_run_ctx(), ThreadState.get().fragment_id
    if context is None or fragment_id is None:
        return
    message = ForwardMsg()
    message.stop_auto_rerun.fragment_ids.append(fragment_id)
    context.enqueue(message)
