"""A model of another program's: how it is imported, and what came of it, in one place."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer.elements.html_table import Cell, html_table
from explorer.figures.subject import file_stem
from explorer.form.widget import widget
from explorer.jobs.server_pool import is_open
from explorer.state import session
from explorer.state.address import keep_only, settled_values, want, wanted
from explorer.state.look import look_for_address
from explorer.state.query import Link
from explorer.state.reading import Reading, read_model
from explorer.state.records import ImportFacts, LoadedGraph, ModelSource
from explorer.words.known_devices import known_devices
from explorer.words.wording import plain
from solvers.formats.graph_json import graph_text
from solvers.importers.hugging_face.presets import Preset
from solvers.importers.sources import source_kind, title_of
from solvers.importers.totals_text import totals_rows
from solvers.importers.workload import SourceKind
from solvers.parameters.asked import Asking, begin
from solvers.parameters.importing import MODEL, model_wish
from solvers.parameters.spelling import in_the_form

POLL_SECONDS = 0.4
CANCEL_SECONDS = 2.0
"""How often the reading of a file is looked at, and how long its end is waited for."""
PATIENCE_SECONDS = 1.5
"""How long a page waits for an import, which mostly takes less, before it goes on with the graph before."""
MOST_NAME = 200
"""Characters of a file's name that are shown."""
PLACEHOLDERS = {"sequence": "usual", "context": "usual", "dim": "batch=8, *=64"}


class GraphIsComing(Exception):  # noqa: N818 -- no error
    """The address is about a graph that is still imported, so that there is nothing else to show."""


def source_of_preset(preset: Preset) -> ModelSource:
    """Return a published config as a model to import."""
    content = json.dumps(dict(preset.config)).encode()
    return ModelSource(_key(content), SourceKind.CONFIG, content, preset.config_source, preset.title)


def source_of_upload(file_id: str, name: str, content: bytes) -> ModelSource | None:
    """Return an uploaded file as a model to import; None for one of our own."""
    kind = source_kind(content)
    if kind is None:
        return None
    shown = "".join(c if c.isprintable() else " " for c in name[:MOST_NAME])
    return ModelSource(_key(content), kind, content, shown, title_of(Path(shown)), file_id)


def _key(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def bring_in(source: ModelSource, on_page: LoadedGraph) -> LoadedGraph | None:
    """Draw how a model is imported, and return its graph; None while there is none, or where it cannot be had.

    `on_page` is the graph that the page goes on with then.
    """
    asking = Asking(replace(begin(on_page.graph, on_page.deployment), model=model_wish(source.kind, known_devices())))
    progress = st.container()  # open options would cover it below them
    with (
        st.popover("Import options", icon=":material/tune:", width="stretch", key="import_options"),
        st.container(key="import_picker"),
    ):
        _edit(asking, source.file_id or "preset")
        summary = st.container()
    values = tuple((p.address, p.codec.write(asking.values[p.name])) for p in MODEL if p.name in asking.values)
    loaded = _imported(source, values, progress)
    if loaded is not None:
        assert loaded.facts is not None
        with summary:
            _show_facts(source, loaded, loaded.facts)
    return loaded


def _edit(asking: Asking, where: str) -> None:
    """Draw what is asked of the model, two to a row."""
    num_shown = 0
    row = st.columns(2)
    for parameter in MODEL:
        if parameter.why_not(asking.asked):
            asking.leave(parameter)
            continue
        if num_shown and num_shown % 2 == 0:
            row = st.columns(2)
        allowed = parameter.allowed(asking.asked) if parameter.allowed is not None else ()
        # A box keeps a value that is none of its options any more; so other options are another box.
        options = f"_{len(allowed)}" if isinstance(allowed, tuple) else ""
        look: Any = {"placeholder": PLACEHOLDERS[parameter.name]} if parameter.name in PLACEHOLDERS else {}
        widget(parameter, asking, f"{parameter.name}_{where}{options}", row[num_shown % 2], **look)
        num_shown += 1


def _imported(source: ModelSource, values: tuple[tuple[str, str], ...], progress: DeltaGenerator) -> LoadedGraph | None:
    """Return the graph of a model; None while it is imported, and where it cannot be, which is said."""
    for known in (session.loaded_graph(), session.uploaded_graph()):
        if (
            known is not None
            and known.facts is not None
            and (known.facts.key, known.facts.values) == (source.key, values)
        ):
            end_reading()
            return known
    reading = session.reading()
    if (
        reading is None
        or reading.request is None
        or (reading.request.key, reading.request.values) != (source.key, values)
    ):
        end_reading()
        reading = read_model(source, values, session.session_id(), is_open)
        session.remember_reading(reading)
    if not reading.wait(PATIENCE_SECONDS):
        with progress:
            show_reading()
        if wanted() is not None:
            raise GraphIsComing
        return None
    if not isinstance(reading.outcome, LoadedGraph):
        st.error(
            plain(in_the_form(f"{source.title or source.origin} was not imported. {reading.error}", MODEL)),
            icon=":material/error:",
        )
        keep_only(MODEL)
        return None
    if _is_same_model(session.loaded_graph(), reading.outcome) and wanted() is None:
        if not reading.is_next:  # what has just been changed besides is known only when the form was drawn
            reading.is_next = True
            return None
        _carry_over()
    session.remember_reading(None)
    return reading.outcome


def _is_same_model(before: LoadedGraph | None, loaded: LoadedGraph) -> bool:
    """Whether a graph is of the same model as the one before, imported in another way."""
    if before is None or before.facts is None or loaded.facts is None:
        return False
    return before.facts.key == loaded.facts.key and before.graph.digest != loaded.graph.digest


def _carry_over() -> None:
    """Have the inputs of the graph before hold for the next one; each graph has some of its own."""
    names = {parameter.name for parameter in MODEL}
    values = {name: value for name, value in settled_values().items() if name not in names}
    want(Link(values=values, **look_for_address()))


def show_next() -> None:
    """Run the page again where it has a graph to go on with; call it when all inputs have their values."""
    reading = session.reading()
    if reading is not None and reading.is_over and reading.is_next and wanted() is None:
        st.rerun()


def end_reading() -> None:
    """Stop following a file that is read, if any; it is ended if it still is."""
    if (reading := session.reading()) is not None:
        reading.cancel()
        session.remember_reading(None)


@st.fragment(run_every=POLL_SECONDS)
def show_reading() -> None:
    """Show how far the reading of a file is, refreshed by itself; the page goes on with the graph before."""
    reading = session.reading()
    if reading is None or reading.is_over:
        st.rerun()
    st.progress(reading.share, plain(reading.state))
    if st.button("Cancel", key="cancel_reading", on_click=_cancel, args=(reading,), width="stretch"):
        st.rerun()


def _cancel(reading: Reading) -> None:
    reading.cancel()
    reading.wait(CANCEL_SECONDS)


@st.fragment(run_every=POLL_SECONDS)
def show_coming() -> None:
    """Show in the middle of the page what is imported, where there is no graph yet."""
    reading = session.reading()
    if reading is None or reading.is_over:
        st.rerun()
    name = (reading.request.title if reading.request is not None else "") or reading.name
    st.markdown(f"### {plain(name)}")
    st.progress(reading.share, plain(f"Importing: {reading.state}"))


def _show_facts(source: ModelSource, loaded: LoadedGraph, facts: ImportFacts) -> None:
    """Show totals to compare with what one knows, all that was assumed, and the graph as a file."""
    rows = [[Cell(what), Cell(value, "number")] for what, value in totals_rows(facts.totals, loaded.graph)]
    header = [Cell("per micro-batch"), Cell("", "number")]
    st.html(html_table("Totals of the imported graph", header, rows))
    st.markdown("**Assumed**")
    told = "\n".join(f"- {plain(in_the_form(sentence, MODEL))}" for sentence in facts.assumptions)
    st.markdown(f":small[From {plain(source.origin)}.]\n\n{told}")
    st.download_button(
        "Graph (JSON)",
        lambda: graph_text(loaded.graph, loaded.deployment),
        f"{file_stem(loaded.graph.name)}.json",
        "application/json",
        on_click="ignore",
        key="imported_graph",
        width="stretch",
        help="For `placement` and for Upload.",
    )
