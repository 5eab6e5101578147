"""What the app remembers about one browser session; the only place that names session-state keys."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.jobs import Job, Question
from explorer.link import Address, Link, to_query
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.prices import Prices
from solvers.result import SolveResult
from solvers.split import Split

if TYPE_CHECKING:
    from explorer.canvas_view import Look
    from explorer.project import Project
    from explorer.sweep_run import SweepRun

_GRAPH, _UPLOAD, _PLAN, _RUN, _NOTICE = "loaded_graph", "uploaded_graph", "plan", "run", "notice"
_DP_SECONDS, _INCUMBENT, _SHOWN_RUN, _DRAWING = "dp_seconds", "incumbent", "shown_run", "drawing"
_ADDRESS, _KEEP, _PAGE = "address", "kept_as", "page_drawn"
_EDITS = "edit_histories"  # of `explorer.edited`
_COMPARED = "kept"
_PROJECT, _OPENED, _LOOK = "project", "opened_project", "look_asked"
_TAKEN_BACK = "taken_back"
_SPOKEN = "picture_has_spoken"
SOLVE_KEY = "solve"
"""Key of the button that asks for a solve."""
_SUBJECT, _SWEEP, _TO_EXPLORE = "subject_of_explore", "sweep", "to_explore"
_PRICES = "prices"
_KEPT = (_UPLOAD, _PLAN, _RUN, _SHOWN_RUN, _NOTICE, _DP_SECONDS, _EDITS, _COMPARED, _SUBJECT, _SWEEP)
"""What a reload of the page must not lose."""


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A graph with the devices its file names, as it was read; `origin` says from where, for the title."""

    graph: DnnGraph
    deployment: Deployment
    origin: str


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer with a split, and the graph (at the bandwidth asked for) and devices it answers for.

    `loaded` is what the graph was before its bandwidth was edited: a plan is shown for no other.
    """

    question: Question
    loaded: LoadedGraph
    graph: DnnGraph
    deployment: Deployment
    result: SolveResult
    split: Split

    def answers_for(self, loaded: LoadedGraph) -> bool:
        """Whether this is a plan of a loaded graph, at whatever bandwidth and on whatever devices."""
        return self.loaded.graph.digest == loaded.graph.digest


@dataclass(frozen=True, slots=True)
class Subject:
    """What Explore asked last: a question on a graph (at the bandwidth asked for), and the address that asks it."""

    loaded: LoadedGraph
    graph: DnnGraph
    question: Question
    link: Link


@dataclass(frozen=True, slots=True)
class Sweep:
    """The sweep that was started last, and what it is about."""

    run: "SweepRun"
    subject: Subject


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan kept for comparison; `number` stays its own however often it is renamed."""

    number: int
    name: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Run:
    """A solve that was started: `is_live` if a changed input started it, not a button."""

    job: Job
    loaded: LoadedGraph
    graph: DnnGraph
    is_live: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """How the last solve ended without a new plan: one sentence, and details to fold away."""

    question: Question
    message: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What was known of the running solve when the page was drawn last, and when that began and ended (monotonic)."""

    question: Question
    best_split: Split | None
    lower_bound_ms: float | None
    began_s: float
    ended_s: float


def session_id() -> str:
    """Return the name of this browser session."""
    context = get_script_run_ctx()
    return context.session_id if context is not None else "no session"


def address() -> Address:
    """Return what is known of the page's address, to be changed in place."""
    return cast("Address", st.session_state.setdefault(_ADDRESS, Address()))


def keep_id() -> str | None:
    """Return the id under which the server keeps this session for a reload; None while it keeps nothing."""
    return cast("str | None", _get(_KEEP))


def remember_keep_id(value: str | None) -> None:
    """Keep the id under which the server keeps this session."""
    st.session_state[_KEEP] = value


def taken_back() -> str | None:
    """Return the id of what this session has taken back from the server; None if nothing."""
    return cast("str | None", _get(_TAKEN_BACK))


def values_to_keep() -> dict[str, Any]:
    """Return what a reload must not lose, by names that `take_back` knows."""
    return {key: st.session_state[key] for key in _KEPT if key in st.session_state}


def take_back(keep_id: str, values: dict[str, Any]) -> None:
    """Make what was kept of another session, under an id, that of this one."""
    st.session_state[_TAKEN_BACK] = keep_id
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


def incumbent() -> Plan | None:
    """Return the best plan that was last seen of a running solve."""
    return cast("Plan | None", _get(_INCUMBENT))


def remember_incumbent(value: Plan) -> None:
    """Keep the best plan so far of a running solve."""
    st.session_state[_INCUMBENT] = value


def note_picture() -> None:
    """Note that this run of the page was asked for in the picture, by an edit or a selection."""
    st.session_state[_SPOKEN] = True


def picture_has_spoken() -> bool:
    """Return whether this run was asked for in the picture; the next one is asked anew."""
    return bool(st.session_state.pop(_SPOKEN, False))


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
