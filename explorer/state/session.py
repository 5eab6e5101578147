"""What the app remembers about one browser session; hand edits are in `edits`, what widgets show in `widgets`."""

from typing import TYPE_CHECKING, Any, cast

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.state.edits import HISTORIES
from explorer.state.known import KnownProblems
from explorer.state.query import Address, Link, to_query
from explorer.state.records import Drawing, KeptPlan, LoadedGraph, ModelSource, Notice, Plan, Run, Subject, Sweep
from solvers.hardware.prices import Prices

if TYPE_CHECKING:
    from explorer.picture.component import Look
    from explorer.state.project import Project
    from explorer.state.reading import Reading

_GRAPH, _UPLOAD, _PLAN, _RUN, _NOTICE = "loaded_graph", "uploaded_graph", "plan", "run", "notice"
_DP_SECONDS, _INCUMBENT, _SHOWN_RUN, _DRAWING = "dp_seconds", "incumbent", "shown_run", "drawing"
_ADDRESS, _KEEP, _PAGE = "address", "kept_as", "page_drawn"
_COMPARED = "kept"
_PROJECT, _OPENED, _LOOK = "project", "opened_project", "look_asked"
_TAKEN_BACK, _READING, _SOURCE = "taken_back", "reading", "model_source"
SOLVE_KEY = "solve"
"""Key of the button that asks for a solve."""
_SUBJECT, _SWEEP, _TO_EXPLORE = "subject_of_explore", "sweep", "to_explore"
_PRICES = "prices"
LESSONS = "lessons"
"""Key of what `explorer.state.lessons` remembers."""
_SHARE_PROBLEM, _NOT_OPENED, _SWEEP_IS_READ = "share_problem", "sweep_not_opened", "sweep_is_read"
_KNOWN = "known_problems"
_KEPT = (
    *(_UPLOAD, _SOURCE, _PLAN, _RUN, _SHOWN_RUN, _NOTICE, _DP_SECONDS, HISTORIES, _COMPARED, _SUBJECT, _SWEEP),
    LESSONS,
)
"""What a reload of the page must not lose."""
KEPT_SOURCE_BYTES = 2**20
"""Of an uploaded model that is kept for a reload; of a larger one only the graph is."""


def session_id() -> str:
    """Return the name of this browser session."""
    context = get_script_run_ctx()
    return context.session_id if context is not None else "no session"


def address() -> Address:
    """Return what is known of the page's address, to be changed in place."""
    return cast("Address", st.session_state.setdefault(_ADDRESS, Address()))


def keep_number() -> int | None:
    """Return the number under which the server keeps this session for a reload; None while it keeps nothing."""
    return cast("int | None", _get(_KEEP))


def remember_keep_number(value: int | None) -> None:
    """Keep the number under which the server keeps this session."""
    st.session_state[_KEEP] = value


def taken_back() -> int | None:
    """Return the number of what this session has taken back from the server; None if nothing."""
    return cast("int | None", _get(_TAKEN_BACK))


def values_to_keep() -> dict[str, Any]:
    """Return what a reload must not lose, by names that `take_back` knows."""
    values = {key: st.session_state[key] for key in _KEPT if key in st.session_state}
    if (source := model_source()) is None or len(source.content) > KEPT_SOURCE_BYTES:
        values.pop(_SOURCE, None)
    return values


def take_back(number: int, values: dict[str, Any]) -> None:
    """Make what was kept of another session, under a number, that of this one."""
    st.session_state[_TAKEN_BACK] = number
    for key in _KEPT:
        if (value := values.get(key)) is not None:
            st.session_state[key] = dict(value) if isinstance(value, dict) else value


def enter_page(name: str) -> None:
    """Note which page of the app is drawn."""
    before = st.session_state.get(_PAGE, (name, name))[1]
    st.session_state[_PAGE] = (before, name)


def has_just_come_back() -> bool:
    """Whether the page drawn before this one was another."""
    before, now = st.session_state.get(_PAGE, ("", ""))
    return bool(before != now)


def loaded_graph() -> LoadedGraph | None:
    """Return the graph last read without error."""
    return cast("LoadedGraph | None", _get(_GRAPH))


def remember_graph(loaded: LoadedGraph) -> None:
    """Make a graph the one to work on."""
    st.session_state[_GRAPH] = loaded


def uploaded_graph() -> LoadedGraph | None:
    """Return the graph last uploaded."""
    return cast("LoadedGraph | None", _get(_UPLOAD))


def look() -> "Look | None":
    """Return what an address asked the picture to show last; None if none did."""
    return cast("Look | None", _get(_LOOK))


def remember_look(value: "Look") -> None:
    """Keep what an address asks the picture to show."""
    st.session_state[_LOOK] = value


def project() -> "Project | None":
    """Return the project file whose plan is yet to be taken over."""
    return cast("Project | None", _get(_PROJECT))


def remember_project(value: "Project | None") -> None:
    """Have the plan of a project file taken over, or none."""
    st.session_state[_PROJECT] = value


def reading() -> "Reading | None":
    """Return the reading of the file in the box for uploads; None before one is read."""
    return cast("Reading | None", _get(_READING))


def remember_reading(value: "Reading | None") -> None:
    """Follow the reading of a file, or none."""
    st.session_state[_READING] = value


def model_source() -> ModelSource | None:
    """Return the model of another program's that was uploaded last; None where a graph was."""
    return cast("ModelSource | None", _get(_SOURCE))


def remember_model_source(value: ModelSource | None) -> None:
    """Keep the uploaded model, so that it can be imported in another way."""
    st.session_state[_SOURCE] = value


def opened_project() -> str | None:
    """Return which upload was opened as a project last, so that it is opened once."""
    return cast("str | None", _get(_OPENED))


def remember_opened_project(upload_id: str) -> None:
    """Note that an upload was opened as a project."""
    st.session_state[_OPENED] = upload_id


def remember_upload(loaded: LoadedGraph) -> None:
    """Keep an upload for when the user comes back to it."""
    st.session_state[_UPLOAD] = loaded


def dp_seconds(graph_digest: str) -> float | None:
    """Return how long the last DP on a loaded graph took; None if there was none."""
    seconds: dict[str, float] = st.session_state.get(_DP_SECONDS, {})
    return seconds.get(graph_digest)


def remember_dp_seconds(graph_digest: str, seconds: float) -> None:
    """Keep how long the DP on a loaded graph took."""
    st.session_state.setdefault(_DP_SECONDS, {})[graph_digest] = seconds


def plan() -> Plan | None:
    """Return the plan on the screen."""
    return cast("Plan | None", _get(_PLAN))


def plan_of(loaded: LoadedGraph) -> Plan | None:
    """Return the plan on the screen, if it is one of a loaded graph."""
    value = plan()
    return value if value is not None and value.answers_for(loaded) else None


def remember_plan(value: Plan) -> None:
    """Show a plan from now on."""
    st.session_state[_PLAN] = value


def known_problems() -> KnownProblems:
    """Return what is known of the problems that were solved in this session, to be changed in place."""
    return cast("KnownProblems", st.session_state.setdefault(_KNOWN, KnownProblems()))


def incumbent() -> Plan | None:
    """Return the best plan that was last seen of a running solve."""
    return cast("Plan | None", _get(_INCUMBENT))


def remember_incumbent(value: Plan) -> None:
    """Keep the best plan so far of a running solve."""
    st.session_state[_INCUMBENT] = value


def run() -> Run | None:
    """Return the solve that was started last, until it has been taken note of."""
    return cast("Run | None", _get(_RUN))


def remember_run(value: Run | None) -> None:
    """Follow a solve, or none."""
    st.session_state[_RUN] = value


def shown_run() -> Run | None:
    """Return the solve that was last shown at work."""
    return cast("Run | None", _get(_SHOWN_RUN))


def remember_shown_run(value: Run | None) -> None:
    """Keep the solve that is shown at work."""
    st.session_state[_SHOWN_RUN] = value


def drawing() -> Drawing | None:
    """Return what the page knew when it was drawn last."""
    return cast("Drawing | None", _get(_DRAWING))


def remember_drawing(value: Drawing) -> None:
    """Keep what the page knows now."""
    st.session_state[_DRAWING] = value


def notice() -> Notice | None:
    """Return how the last solve ended, if it brought no new plan."""
    return cast("Notice | None", _get(_NOTICE))


def remember_notice(value: Notice | None) -> None:
    """Keep how the last solve ended."""
    st.session_state[_NOTICE] = value


def _get(key: str) -> Any:
    return st.session_state.get(key)


def kept() -> tuple[KeptPlan, ...]:
    """Return the plans kept for comparison, in the order they were kept."""
    return cast("tuple[KeptPlan, ...]", _get(_COMPARED) or ())


def remember_kept(value: tuple[KeptPlan, ...]) -> None:
    """Keep these plans for comparison, and no others."""
    st.session_state[_COMPARED] = value


def batch(name: str) -> Any:
    """Return the batch of questions kept under a name, with what it was started for; None if there is none."""
    return _get(f"batch {name}")


def remember_batch(name: str, value: Any) -> None:
    """Keep a batch of questions under a name."""
    st.session_state[f"batch {name}"] = value


def subject() -> Subject | None:
    """Return what Explore asked last."""
    return cast("Subject | None", _get(_SUBJECT))


def remember_subject(value: Subject) -> None:
    """Keep what Explore asks, for the other pages."""
    st.session_state[_SUBJECT] = value


def sweep() -> Sweep | None:
    """Return the sweep that was started last."""
    return cast("Sweep | None", _get(_SWEEP))


def remember_sweep(value: Sweep) -> None:
    """Keep a sweep in the place of the one before."""
    st.session_state[_SWEEP] = value


def prices() -> Prices | None:
    """Return the prices of devices that were set; None before any was."""
    return cast("Prices | None", _get(_PRICES))


def remember_prices(value: Prices) -> None:
    """Count with these prices from now on."""
    st.session_state[_PRICES] = value


def go_to_explore(link: Link) -> None:
    """Have the app go to Explore, with what a link says."""
    st.session_state[_TO_EXPLORE] = to_query(link)


def wants_explore() -> bool:
    """Whether the app is to go to Explore."""
    return _get(_TO_EXPLORE) is not None


def take_way_to_explore() -> dict[str, str] | None:
    """Return the address of Explore to which the app is to go, and forget it; None if it is to stay."""
    return cast("dict[str, str] | None", st.session_state.pop(_TO_EXPLORE, None))


def share_problem() -> str | None:
    """Return why the last sharing of a graph failed; None when it did not."""
    return cast("str | None", _get(_SHARE_PROBLEM))


def remember_share_problem(value: str | None) -> None:
    """Keep why a graph could not be shared, or that nothing is wrong."""
    st.session_state[_SHARE_PROBLEM] = value


def remember_not_opened(why: str) -> None:
    """Keep why a point of a sweep could not be opened on Explore."""
    st.session_state[_NOT_OPENED] = why


def take_why_not_opened() -> str | None:
    """Return why a point could not be opened, and forget it; None where nothing is to be said."""
    return cast("str | None", st.session_state.pop(_NOT_OPENED, None))


def is_first_visit_to_sweep() -> bool:
    """Whether the page of sweeps was never drawn before in this session; takes note that it is now."""
    is_first = _SWEEP_IS_READ not in st.session_state
    st.session_state[_SWEEP_IS_READ] = True
    return is_first
