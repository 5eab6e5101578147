"""The sidebar: pick or upload a graph, edit devices, choose solver and schedule -> Choice.

GB/s and GiB exist only here; everywhere else sizes are bytes and times milliseconds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import streamlit as st

from explorer import session
from explorer.address import bound, settle, want, wanted
from explorer.assumptions import Assumptions, edit_assumptions
from explorer.devices import pick_devices
from explorer.devices_text import links_text
from explorer.jobs import Question
from explorer.launch import MAX_UPLOAD_MB
from explorer.project import Project, is_project, parse_project
from explorer.schedule_options import (
    INFERENCE_HELP,
    TRAINING_HELP,
    USUAL_OPTIONS,
    ScheduleOptions,
    edit_schedule_options,
)
from explorer.schedule_options import NAMES as SCHEDULES
from explorer.session import LoadedGraph
from explorer.wording import plain
from solvers.baselines.methods import BASELINES, ONE_CLASS_ONLY
from solvers.baselines.scotch import scotch_program
from solvers.costs import Objective
from solvers.deployment import Deployment
from solvers.errors import GraphError, PlacementError
from solvers.graph import DnnGraph
from solvers.graph_json import parse_graph
from solvers.samples import read_sample, sample_info, sample_names, samples
from solvers.schedule import ScheduleKind
from solvers.schedule_types import INFERENCE_KINDS, TRAINING_KINDS
from solvers.split import Family

DEFAULT_SAMPLE = "bert_base_operator_inference"
MAX_ACCELERATORS = 64
MAX_MICRO_BATCHES = 512
IMPLAUSIBLE_BANDWIDTH_GB_S = 500.0
"""No link to host memory is this fast; a file that implies more most likely gives its costs in seconds."""
MAX_MEMORY_GIB = 1e6
MAX_FACTOR = 1e6
"""Largest link speed in GB/s or as a multiple, and one over the smallest; beyond lie typing errors."""
USUAL_LIMIT_S, MAX_LIMIT_S = 60, 3600
GIB = 2.0**30
BYTES_PER_MS = 1e6
"""Bytes per millisecond in one GB/s."""

OBJECTIVES = {
    Objective.THROUGHPUT: "Throughput of the pipeline",
    Objective.GPIPE: "GPipe time per micro-batch",
    Objective.LATENCY: "Latency of one sample",
}
FAMILIES = {
    Family.CHAIN: "Chain: stages in a row",
    Family.CONVEX: "Convex: no path leaves and returns",
    Family.FREE: "Free: any assignment",
}
METHODS = {
    "auto": "Automatic",
    "dp": "Dynamic programming (DP)",
    "ip": "Integer programming (IP)",
    "single": "One accelerator",
    "local_search": "Local search",
    "pipedream": "PipeDream's planner",
    "scotch": "Scotch",
    "linearised": "DP on one order (DPL)",
    "greedy_latency": "Greedy",
    "max_load_latency": "Least max-load",
}
"""What the methods are called here; an expert's split is a file and no solver."""
SCHEDULE_OF = {Objective.GPIPE: ScheduleKind.GPIPE, Objective.LATENCY: ScheduleKind.SINGLE_STREAM}
"""The schedule to show first where an objective is that of one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Everything the sidebar asks for; `graph` has the bandwidth that was asked for."""

    loaded: LoadedGraph
    graph: DnnGraph
    deployment: Deployment
    question: Question
    schedule: ScheduleKind
    num_micro_batches: int
    asks_to_solve: bool
    schedule_options: ScheduleOptions = USUAL_OPTIONS


def sidebar(feels_live: Callable[[Question], bool]) -> Choice:
    """Draw the sidebar and return what is chosen; a graph that cannot be read leaves the last one in place.

    `feels_live` tells whether the plan follows the inputs by itself; then the button to solve has less weight.
    """
    with st.sidebar:
        st.markdown("#### Graph")
        loaded = _pick_graph()
        digest = loaded.graph.digest
        st.markdown("#### Hardware")
        graph, deployment = _edit_devices(loaded)
        st.markdown("#### Plan")
        objective = _pick_objective(graph, digest)
        family = Family.CHAIN
        if objective is not Objective.LATENCY:
            bound("splits", f"family_{digest}", Family.CHAIN, FAMILIES)
            family = st.selectbox(
                "Splits allowed",
                list(FAMILIES),
                format_func=FAMILIES.__getitem__,
                help="A chain is a pipeline of contiguous stages. Convex and free splits contain all chains and may "
                "be better, but take an integer program.",
                key=f"family_{digest}",
                persist_state="session",
            )
        assumptions = edit_assumptions(graph, deployment, objective, family, digest)
        methods = _methods(objective, family, assumptions, has_classes=bool(deployment.classes))
        left, right = st.columns([3, 2])
        method_key = f"method_{digest}_{'_'.join(methods)}"
        bound("solver", method_key, methods[0], methods)
        method = left.selectbox(
            "Solver",
            methods,
            format_func=METHODS.__getitem__,
            key=method_key,
            help="Automatic proves its plan optimal, or says how far it may be. The others from One accelerator on are "
            "the baselines of the paper: a plan, and a bound that holds for every plan.",
        )
        bound("limit", "time_limit", USUAL_LIMIT_S, range(1, MAX_LIMIT_S + 1))
        time_limit_s = right.number_input(
            "Limit (s)", 1, MAX_LIMIT_S, USUAL_LIMIT_S, key="time_limit", help="Time limit of a solve."
        )
        button = st.container()
        st.markdown("#### Timeline")
        kinds = TRAINING_KINDS if graph.is_training else INFERENCE_KINDS
        left, right = st.columns([3, 2])
        first = kinds.index(SCHEDULE_OF.get(objective, kinds[0]))
        schedule_key = f"schedule_{len(kinds)}_{first}"
        bound("schedule", schedule_key, kinds[first], kinds)
        schedule = left.selectbox(
            "Schedule",
            kinds,
            index=first,
            format_func=SCHEDULES.__getitem__,
            key=schedule_key,
            help=TRAINING_HELP if graph.is_training else INFERENCE_HELP,
        )
        # A pipeline settles only after its fill; three rounds per device show some of its steady state.
        usual = min(MAX_MICRO_BATCHES, max(12, 3 * loaded.deployment.num_accelerators))
        bound("micro_batches", f"micro_batches_{digest}", usual, range(1, MAX_MICRO_BATCHES + 1))
        num_micro_batches = right.number_input(
            "Micro-batches", 1, MAX_MICRO_BATCHES, usual, key=f"micro_batches_{digest}", persist_state="session"
        )
        options = edit_schedule_options(schedule)
        settle()
        deployment = assumptions.on(deployment, schedule, int(num_micro_batches))
        question = Question(graph.digest, deployment, objective, method, family, float(time_limit_s), 0.0)
        weight: Literal["primary", "secondary"] = "secondary" if feels_live(question) else "primary"
        asks_to_solve = button.button(
            "Solve", type=weight, width="stretch", key=session.SOLVE_KEY, shortcut="Ctrl+Enter"
        )
    return Choice(loaded, graph, deployment, question, schedule, int(num_micro_batches), asks_to_solve, options)


def _methods(objective: Objective, family: Family, assumptions: Assumptions, *, has_classes: bool) -> list[str]:
    """Return the methods that fit; baselines make plans for the model as the paper has it, some for devices alike."""
    exact = ["auto"]
    if objective is not Objective.LATENCY and family is Family.CHAIN:
        exact.append("dp")
    if assumptions.max_replicas == 1:
        exact.append("ip")
    fitting = [name for name, baseline in BASELINES.items() if objective in baseline.objectives and name in METHODS]
    if assumptions != Assumptions():
        fitting = []
    if has_classes:
        fitting = [name for name in fitting if name not in ONE_CLASS_ONLY]
    return exact + [name for name in fitting if name != "scotch" or scotch_program()]


def _pick_graph() -> LoadedGraph:
    if (link := wanted()) is not None:
        st.session_state["source"] = "Upload" if link.graph is not None else "Sample"
    st.session_state.setdefault("source", "Sample")  # a default besides a value set here is warned of
    source = st.segmented_control(
        "Where from", ["Sample", "Upload"], required=True, key="source", label_visibility="collapsed"
    )
    if source == "Upload":
        _read_upload()
    else:
        names = [info.name for info in samples()]
        bound("sample", "sample", DEFAULT_SAMPLE, names)
        name = st.selectbox(
            "Sample graph",
            names,
            index=names.index(DEFAULT_SAMPLE),
            format_func=lambda name: sample_info(name).title,
            key="sample",
            persist_state="session",
            label_visibility="collapsed",
        )
        st.caption(sample_info(name).description)
        session.remember_graph(_sample(name))
    loaded = session.loaded_graph()
    if loaded is None:  # an upload was chosen before anything else was shown
        loaded = _sample(DEFAULT_SAMPLE)
        session.remember_graph(loaded)
    return loaded


def _read_upload() -> None:
    upload = st.file_uploader(
        "Graph as JSON",
        type="json",
        max_upload_size=MAX_UPLOAD_MB,
        key="upload",
        help="The format of the paper's release (Tarnawski et al., NeurIPS 2020) or this project's superset of it.",
        label_visibility="collapsed",
    )
    if upload is None:
        if (last := session.uploaded_graph()) is not None:
            st.caption(f"Showing {plain(last.origin)}, uploaded before.")
            session.remember_graph(last)
            return
        st.caption(
            "A graph as JSON in the paper's format or ours, or a project file. It is read, never run, and stays on "
            "this machine."
        )
        return
    try:
        if is_project(upload.getvalue()):
            _open_project(upload.getvalue(), upload.file_id)
            return
        loaded = _parsed(upload.getvalue(), upload.name)
        session.remember_upload(loaded)
        session.remember_graph(loaded)
    except PlacementError as error:
        st.error(plain(f"{upload.name} was not read. {error}"), icon=":material/error:")
        if (previous := session.loaded_graph()) is not None:
            st.caption(f"Still showing {plain(previous.origin)}.")


def _open_project(text: bytes, upload_id: str) -> None:
    """Open a project file: once, for the user goes on from there while the file stays in its box."""
    project = _parsed_project(text)
    if session.opened_project() != upload_id:
        session.remember_opened_project(upload_id)
        session.remember_project(project)
        link = project.link
        if link.graph is None and not _is_sample(link.sample or DEFAULT_SAMPLE, project.loaded):
            link = replace(link, sample=None, graph=project.loaded.graph.digest[:12])
        if link.graph is not None:
            session.remember_upload(project.loaded)
        want(link, project.problems)
        st.rerun()
    session.remember_graph(session.uploaded_graph() or project.loaded)


def _is_sample(name: str, loaded: LoadedGraph) -> bool:
    """Whether a graph is still the sample of this name; samples may change with the program."""
    return name in sample_names() and _sample(name).graph.digest == loaded.graph.digest


@st.cache_resource(max_entries=4, show_spinner="Reading the project")
def _parsed_project(text: bytes) -> Project:
    return parse_project(text)


@st.cache_resource(max_entries=64, show_spinner=False)
def _sample(name: str) -> LoadedGraph:
    graph, deployment = read_sample(name)
    return LoadedGraph(graph, deployment, sample_info(name).title)


@st.cache_resource(max_entries=16, show_spinner="Reading the graph")
def _parsed(text: bytes, file_name: str) -> LoadedGraph:
    graph, deployment = parse_graph(text, name=file_name.removesuffix(".json"))
    return LoadedGraph(graph, deployment, file_name)


def _edit_devices(loaded: LoadedGraph) -> tuple[DnnGraph, Deployment]:
    """Edit devices, counts, memory and bandwidth; every graph keeps edits of its own, starting from its file.

    Memory and bandwidth start anew with every choice of devices, which brings its own.
    """
    digest = loaded.graph.digest
    picked = pick_devices(loaded)
    graph, own = picked.graph, picked.deployment
    left, right = st.columns(2)
    most_accelerators, most_cpus = max(MAX_ACCELERATORS, own.num_accelerators), max(16, own.num_cpus)
    bound("cpus", f"cpus_{digest}", own.num_cpus, range(most_cpus + 1))
    if own.classes:
        num_cpus = left.number_input("CPUs", 0, most_cpus, own.num_cpus, key=f"cpus_{digest}", persist_state="session")
        return graph, replace(own, num_cpus=int(num_cpus))
    own_gib = None if own.memory_bytes is None else own.memory_bytes / GIB
    memory_key = f"memory_{graph.digest}"
    bound("accelerators", f"accelerators_{digest}", own.num_accelerators, range(most_accelerators + 1))
    bound("memory", memory_key, own_gib, lambda gib: gib is None or 0 <= gib <= MAX_MEMORY_GIB)
    # Its default is no value, or the box could not be emptied; so its first value is put there by hand.
    st.session_state.setdefault(memory_key, own_gib)
    num_accelerators = left.number_input(
        "Accelerators",
        0,
        most_accelerators,
        own.num_accelerators,
        key=f"accelerators_{digest}",
        persist_state="session",
    )
    num_cpus = right.number_input("CPUs", 0, most_cpus, own.num_cpus, key=f"cpus_{digest}", persist_state="session")
    left, right = st.columns(2)
    memory_gib = left.number_input(
        "Memory (GiB)",
        min_value=0.0,
        max_value=MAX_MEMORY_GIB,
        value=None,
        step=1.0,
        format="%.4g",
        placeholder="no limit",
        key=memory_key,
        persist_state="session",
        help="Memory of one accelerator in GiB (2^30 bytes); empty means no limit. CPUs have no limit.",
    )
    with right:
        edited = _edit_bandwidth(graph)
    if edited is graph and picked.links:
        st.caption(plain(" ".join(links_text(picked))))
    memory_bytes = None if memory_gib is None else memory_gib * GIB
    if graph.bandwidth_bytes_per_ms == loaded.graph.bandwidth_bytes_per_ms:  # of a link that was picked it is known
        _warn_of_implausible_bandwidth(graph)
    return edited, replace(
        own, num_accelerators=int(num_accelerators), num_cpus=int(num_cpus), memory_bytes=memory_bytes
    )


def _edit_bandwidth(graph: DnnGraph) -> DnnGraph:
    own = graph.bandwidth_bytes_per_ms
    if own is None:
        bound("bandwidth_factor", f"factor_{graph.digest}", 1.0, lambda times: 1 / MAX_FACTOR <= times <= MAX_FACTOR)
        factor = st.number_input(
            "Link speed (× file)",
            min_value=1 / MAX_FACTOR,
            max_value=MAX_FACTOR,
            value=1.0,
            step=0.5,
            format="%.4g",
            key=f"factor_{graph.digest}",
            persist_state="session",
            help="This file has no consistent bytes on its edges, so links are set as a multiple of its own.",
        )
        if factor is None or factor == 1:
            return graph
        return _with_links(graph, lambda: graph.with_bandwidth_factor(factor))
    least, most = min(1 / MAX_FACTOR, own / BYTES_PER_MS), max(MAX_FACTOR, own / BYTES_PER_MS)
    bound("bandwidth", _bandwidth_key(graph), own / BYTES_PER_MS, lambda gb_s: least <= gb_s <= most)
    bandwidth_gb_s = st.number_input(
        "Link (GB/s)",
        min_value=least,
        max_value=most,
        value=own / BYTES_PER_MS,
        step=1.0,
        format="%.4g",
        key=_bandwidth_key(graph),
        persist_state="session",
        help=f"Between a device and host memory, in 10^9 bytes/s. The file implies {own / BYTES_PER_MS:.4g} GB/s.",
    )
    if bandwidth_gb_s is None or bandwidth_gb_s == own / BYTES_PER_MS:
        return graph
    return _with_links(graph, lambda: graph.with_bandwidth(bandwidth_gb_s * BYTES_PER_MS))


def _with_links(graph: DnnGraph, change: Callable[[], DnnGraph]) -> DnnGraph:
    """Return the changed graph; where the change asks too much, say so and return the graph as it was."""
    try:
        return change()
    except GraphError as error:
        st.error(plain(f"The link speed was not applied. {error}"))
        return graph


def _bandwidth_key(graph: DnnGraph) -> str:
    return f"bandwidth_{graph.digest}"


def _warn_of_implausible_bandwidth(graph: DnnGraph) -> None:
    own = graph.bandwidth_bytes_per_ms
    if own is None or own / BYTES_PER_MS < IMPLAUSIBLE_BANDWIDTH_GB_S:
        return
    own_gb_s = own / BYTES_PER_MS
    key = _bandwidth_key(graph)

    def correct() -> None:
        st.session_state[key] = own_gb_s / 1000

    st.caption(
        f"The file's bytes and costs imply {own_gb_s:,.0f} GB/s, more than any link to host memory: "
        "its costs are probably in seconds, not ms."
    )
    st.button(f"Use {own_gb_s / 1000:.4g} GB/s", on_click=correct, key=f"correct_{graph.digest}", type="tertiary")


def _pick_objective(graph: DnnGraph, digest: str) -> Objective:
    objectives = [Objective.THROUGHPUT, Objective.GPIPE if graph.is_training else Objective.LATENCY]
    key = f"objective_{digest}_{len(objectives)}"
    bound("objective", key, objectives[0], objectives)
    return st.selectbox("Minimise time for", objectives, format_func=OBJECTIVES.__getitem__, key=key)
