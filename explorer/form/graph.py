"""The graph: an example, a published model, or a file of the user's, which may be a model or a project."""

from dataclasses import replace

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from explorer.form.importing import bring_in, end_reading, show_reading, source_of_preset, source_of_upload
from explorer.jobs.server_pool import is_open
from explorer.server.byte_cache import remembered
from explorer.server.limits import MAX_UPLOAD_MB
from explorer.server.sizes import graph_bytes
from explorer.state import session, widgets
from explorer.state.address import bound, drop, is_set_by_browser, want, wanted
from explorer.state.project import Project
from explorer.state.reading import read
from explorer.state.records import LoadedGraph, ModelSource
from explorer.words.wording import plain
from solvers.importers.hugging_face.presets import Preset, preset, presets
from solvers.parameters.importing import MODEL
from solvers.quantities import in_words
from solvers.samples import read_sample, sample_info, sample_names, samples

DEFAULT_SAMPLE = "bert_base_operator_inference"
EXAMPLE = "Example"


def pick_graph() -> LoadedGraph:
    """Draw the choice of a graph; one that cannot be read leaves the last one in place."""
    if not is_set_by_browser("source"):
        if (link := wanted()) is not None:
            widgets.show("source", "Upload" if link.graph is not None else EXAMPLE)
        widgets.show_at_first("source", EXAMPLE)  # a default besides a value set here is warned of
    source = st.segmented_control(
        "Where from", [EXAMPLE, "Upload"], required=True, key="source", label_visibility="collapsed"
    )
    if source == "Upload":
        _read_upload()
    else:
        titles = {info.name: info.title for info in samples()} | {known.name: known.title for known in presets()}
        names = list(titles)
        bound("sample", "sample", DEFAULT_SAMPLE, names, "no example has this name")
        name = st.selectbox(
            "Example graph",
            names,
            index=names.index(DEFAULT_SAMPLE),
            format_func=titles.__getitem__,
            key="sample",
            persist_state="session",
            label_visibility="collapsed",
        )
        if name in sample_names():
            end_reading()
            st.caption(sample_info(name).description)
            session.remember_graph(_sample(name))
        else:
            _bring_in_preset(preset(name))
    loaded = session.loaded_graph()
    if loaded is None:  # an upload was chosen before anything else was shown
        loaded = _sample(DEFAULT_SAMPLE)
        session.remember_graph(loaded)
    for note in loaded.notes:
        st.caption(plain(note))
    return loaded


def _bring_in_preset(known: Preset) -> None:
    remark = f", {known.remark}" if known.remark else ""
    told = f"Imported from its published config: {in_words(known.published_parameters)} parameters{remark}."
    st.caption(plain(told), help="As its publisher says; the exact number is among the totals under Import options.")
    _bring_in(source_of_preset(known))


def _bring_in(source: ModelSource) -> LoadedGraph | None:
    """Draw an import; what cannot be imported leaves the last graph in place."""
    before = session.loaded_graph()
    loaded = bring_in(source, before or _sample(DEFAULT_SAMPLE))
    if loaded is not None:
        session.remember_graph(loaded)
    elif before is not None:
        st.caption(f"Still showing {plain(before.origin)}.")
    return loaded


def _read_upload() -> None:
    upload = st.file_uploader(
        "Graph or model",
        type=["json", "onnx", "pt2", "txt"],
        max_upload_size=MAX_UPLOAD_MB,
        key="upload",
        help="Graphs in the format of the paper's release (Tarnawski et al., NeurIPS 2020) or this project's superset "
        "of it, and project files. Models: a Hugging Face config.json, an archive of torch.export (.pt2), an ONNX "
        "file, PipeDream's graph.txt, Piper's JSON. Of a larger file `placement import FILE --output graph.json` makes "
        "a graph without its weights, which can be uploaded.",
        label_visibility="collapsed",
    )
    source = _model_uploaded(upload)
    session.remember_model_source(source)
    if source is not None:
        if (loaded := _bring_in(source)) is not None:
            session.remember_upload(loaded)
        return
    drop(MODEL)
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
            "A graph as JSON in the paper's format or ours, a project file, or a model: config.json, .pt2, .onnx or a "
            "profile. It is read, never run, and stays on this machine."
        )
        return
    if reading is None:
        reading = read(upload.getvalue(), upload.file_id, upload.name, session.session_id(), is_open)
        session.remember_reading(reading)
    if not reading.is_over:
        show_reading()
    elif isinstance(reading.outcome, Project):
        _open_project(reading.outcome, upload.file_id)
    elif reading.outcome is not None:
        session.remember_upload(reading.outcome)
        session.remember_graph(reading.outcome)
    else:
        st.error(plain(f"{upload.name} was not read. {reading.error}"), icon=":material/error:")
        if (previous := session.loaded_graph()) is not None:
            st.caption(f"Still showing {plain(previous.origin)}.")


def _model_uploaded(upload: UploadedFile | None) -> ModelSource | None:
    """Return the model in the box for uploads, or the last one where the box is empty; None for a graph of ours."""
    known, last, reading = session.model_source(), session.uploaded_graph(), session.reading()
    if upload is None:
        is_last = known is not None and last is not None and last.facts is not None and last.facts.key == known.key
        return known if is_last else None
    if known is not None and known.file_id == upload.file_id:
        return known
    if reading is not None and reading.file_id == upload.file_id:  # it is read as a graph
        return None
    return source_of_upload(upload.file_id, upload.name, upload.getvalue())


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
