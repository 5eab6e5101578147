"""Whether the browser asks for another run of the page while one goes on."""

from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType


def asked_meanwhile() -> bool:
    """Return whether a run of the whole page is asked for, or the end of this one; polls of fragments do not count.

    With `runner.fastReruns` off a run goes on to its end before the next begins, so that one that only waits for an
    answer had better end. Streamlit 1.67 has no public call for it.
    """
    context = get_script_run_ctx()
    requests = None if context is None else context.script_requests
    if requests is None or requests._state is ScriptRequestType.CONTINUE:
        return False
    return requests._state is ScriptRequestType.STOP or not requests._rerun_data.fragment_id_queue
