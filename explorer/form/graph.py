"""The graph: a sample, or a file of the user's, which may be a project."""

from dataclasses import replace

import streamlit as st

from explorer.jobs.server_pool import is_open
from explorer.server.byte_cache import remembered
from explorer.server.limits import MAX_UPLOAD_MB
from explorer.server.sizes import graph_bytes
from explorer.state import session, widgets
from explorer.state.address import bound, is_set_by_browser, want, wanted
from explorer.state.project import Project
from explorer.state.reading import read
from explorer.state.records import LoadedGraph
from explorer.words.wording import plain
from solvers.samples import read_sample, sample_info, sample_names, samples

DEFAULT_SAMPLE = "bert_base_operator_inference"
POLL_SECONDS = 0.4
CANCEL_SECONDS = 2.0
"""How often the reading of a large file is looked at, and how long its end is waited for."""


def pick_graph() -> LoadedGraph:
    """Draw the choice of a graph; one that cannot be read leaves the last one in place."""
    if not is_set_by_browser("source"):
        if (link := wanted()) is not None:
            widgets.show("source", "Upload" if link.graph is not None else "Sample")
        widgets.show_at_first("source", "Sample")  # a default besides a value set here is warned of
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
    reading = session.reading()
    if reading is not None and (upload is None or upload.file_id != reading.file_id):
        reading.cancel()
        session.remember_reading(None)
        reading = None
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
    if reading is None:
        reading = read(upload.getvalue(), upload.file_id, upload.name, session.session_id(), is_open)
        session.remember_reading(reading)
    if not reading.is_over:
        _show_reading()
    elif isinstance(reading.outcome, Project):
        _open_project(reading.outcome, upload.file_id)
    elif reading.outcome is not None:
        session.remember_upload(reading.outcome)
        session.remember_graph(reading.outcome)
    else:
        st.error(plain(f"{upload.name} was not read. {reading.error}"), icon=":material/error:")
        if (previous := session.loaded_graph()) is not None:
            st.caption(f"Still showing {plain(previous.origin)}.")


@st.fragment(run_every=POLL_SECONDS)
def _show_reading() -> None:
    """Show how far the reading of a large file is, refreshed by itself; the page goes on with the graph before."""
    reading = session.reading()
    if reading is None or reading.is_over:
        st.rerun()
    st.progress(reading.share, plain(reading.state))
    if st.button("Cancel", key="cancel_reading", width="stretch"):
        reading.cancel()
        reading.wait(CANCEL_SECONDS)
        st.rerun()


def _open_project(project: Project, upload_id: str) -> None:
    """Open a project file: once, for the user goes on from there while the file stays in its box."""
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


def _sample(name: str) -> LoadedGraph:
    return remembered(
        "sample",
        (name,),
        lambda: LoadedGraph(*read_sample(name), sample_info(name).title),
        lambda loaded: graph_bytes(loaded.graph),
    )
