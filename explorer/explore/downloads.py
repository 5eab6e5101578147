"""The tab of exports: what leaves the app as a file, in groups, each made when it is asked for."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import streamlit as st

from explorer.exports.archive import zip_bytes
from explorer.exports.dot import device_dot, placed_dot
from explorer.exports.model_explorer import model_explorer_files
from explorer.exports.report import report_html
from explorer.figures.figure import BOX_NAMES, FigureOptions, Part, figure_svg, shown_level
from explorer.figures.graph_figure import ColourBy
from explorer.figures.png import PRINT_DPI, png_bytes
from explorer.figures.subject import Subject, planned_document
from explorer.picture.dag_view import DagInfo
from explorer.picture.gantt_view import GanttInfo
from explorer.picture.palette import ThemeName
from explorer.plan.timeline import Scheduled, plan_run
from explorer.state.choice import ScheduleOptions
from explorer.state.records import Plan
from explorer.words.wording import plain
from solvers.exporters.chrome_trace import chrome_trace
from solvers.exporters.csv_tables import csv_tables
from solvers.exporters.frameworks import FORMATS, Format, exported
from solvers.exporters.plan import Exported, ExportError
from solvers.exporters.plan import Plan as ExportedPlan
from solvers.formats.graph_json import graph_document
from solvers.model.costs import split_costs
from solvers.parameters.asked import QUESTION
from solvers.parameters.importing import MODE
from solvers.parameters.spelling import in_the_form
from solvers.schedule.records import INFERENCE_KINDS, TRAINING_KINDS

AUTOMATIC = "automatic"
PART_NAMES = {Part.BOTH: "Graph and timeline", Part.GRAPH: "Graph", Part.TIMELINE: "Timeline"}
COLOUR_NAMES = {
    ColourBy.DEVICE: "Device",
    ColourBy.TIME: "Time",
    ColourBy.MEMORY: "Memory",
    ColourBy.COMMUNICATION: "Communication",
}
LEVEL_NAMES = {
    "operators": "Nodes",
    "layers": "Layers",
    "blocks": "Layers, repeats joined",
    "stages": "Stages",
    "devices": "Devices",
}


@dataclass(frozen=True, slots=True)
class Download:
    """One file: its button, what opens it, its name and how it is made; `refusal` says why there is none."""

    label: str
    opened_by: str
    file_name: str
    mime: str
    content: Callable[[], str | bytes]
    refusal: str = ""


@st.fragment
def show_exports(subject: Subject) -> None:
    """Show everything that can be downloaded of a plan; nothing is made before its button is pressed.

    A fragment, so that choosing how a figure looks does not draw the whole page anew.
    """
    st.markdown("##### Figures")
    options = _figure_options(subject)
    *files, words = st.columns([1, 1, 2])
    for column, download in zip(files, figure_downloads(subject, options), strict=True):
        with column:
            _show(download)
    with words:
        st.caption(figure_words(subject, options))
    st.markdown("##### Data")
    _show_row(data_downloads(subject))
    st.markdown("##### Other tools")
    _show_row(tool_downloads(subject))
    st.markdown("##### Frameworks that run the plan")
    _show_frameworks(framework_downloads(subject))
    st.markdown("##### Report")
    notes, button = st.columns([3, 1], vertical_alignment="bottom")
    with notes:
        text = st.text_area(
            "Notes for the report", key="export_notes", persist_state="session", max_chars=5000, height=80,
            placeholder="They stand below the headline numbers, as plain text.",
        )  # fmt: skip
    with button:
        _show(report_download(subject, text or ""))


def subject_of(
    plan: Plan, shown: Scheduled, options: ScheduleOptions, dag: DagInfo, gantt: GanttInfo | None
) -> Subject:
    """Return what the exports are about: the plan on the page, the split its schedule runs, and what is drawn of it."""
    return Subject(
        title=plan.graph.name or plan.loaded.origin,
        question=plan.question,
        graph=plan.graph,
        deployment=plan.deployment,
        split=shown.split.on(plan.deployment),
        result=plan.result,
        costs=split_costs(plan.graph, plan.deployment, shown.split),
        dag=dag,
        gantt=gantt,
        schedule=shown.schedule,
        note=shown.note,
        planned=plan.split.on(plan.deployment) if shown.note else None,
        weight_gradient_share=options.weight_gradient_share,
        looped=shown.looped,
        result_of_chunks=plan_run(plan, shown).result if shown.looped is not None else None,
    )


def figure_words(subject: Subject, options: FigureOptions) -> str:
    """Say what the figure will be, the level included that is chosen for the reader."""
    timeline = "" if options.part is Part.GRAPH else "the timeline with bounds, memory and assumptions"
    ground = f"on a {options.theme} ground"
    if options.part is Part.TIMELINE:
        return f"A4 landscape, {ground}: {timeline}."
    level = shown_level(subject, options).name
    graph = f"the graph by {LEVEL_NAMES[level].lower()}, coloured by {options.colour_by}"
    return f"A4 landscape, {ground}: {' above '.join(filter(None, (graph, timeline)))}."


def figure_downloads(subject: Subject, options: FigureOptions) -> tuple[Download, ...]:
    """Return the figure as vectors and as pixels."""
    what = options.part.value.replace(" ", "_")
    stem = f"{subject.stem}_{what}"
    refusal = ""
    if options.part is Part.TIMELINE and subject.schedule is None:
        refusal = "There is no timeline: no schedule of this plan can be shown."
    return (
        Download(
            "Figure (SVG)",
            "For papers and slides: opens in browsers, Inkscape, Illustrator, LaTeX via svg or PDF.",
            f"{stem}.svg",
            "image/svg+xml",
            lambda: figure_svg(subject, options),
            refusal,
        ),
        Download(
            "Figure (PNG)",
            f"{PRINT_DPI} dots per inch of A4, for programs that take no SVG.",
            f"{stem}.png",
            "image/png",
            lambda: png_bytes(figure_svg(subject, options)),
            refusal,
        ),
    )


def data_downloads(subject: Subject) -> tuple[Download, ...]:
    """Return the split, the graph it is of, and tables."""
    stem = subject.stem
    return (
        Download(
            "Split (JSON)",
            "The format of the paper's release; `placement evaluate` reads it.",
            f"{stem}_split.json",
            "application/json",
            lambda: split_text(subject),
        ),
        Download(
            "Graph (JSON)",
            "The graph at the bandwidth of this plan, for `placement` and for Upload.",
            f"{stem}.json",
            "application/json",
            lambda: json.dumps(graph_document(subject.graph, subject.question.deployment), indent=1),
        ),
        Download(
            "Tables (CSV)",
            "Summary, devices, nodes, cut tensors and timeline events in one ZIP, for spreadsheets and pandas.",
            f"{stem}_tables.zip",
            "application/zip",
            lambda: zip_bytes(tables(subject)),
        ),
    )


def tool_downloads(subject: Subject) -> tuple[Download, ...]:
    """Return files for other programs."""
    stem = subject.stem
    kind = subject.schedule.kind if subject.schedule is not None else "no"
    return (
        Download(
            "Trace (Perfetto)",
            "Opens in ui.perfetto.dev and chrome://tracing: timeline events, transfers as arrows, memory as counters.",
            f"{stem}_{kind}_trace.json",
            "application/json",
            lambda: trace_text(subject),
            "" if subject.schedule is not None else "There is no trace: no schedule of this plan can be shown.",
        ),
        Download(
            "Model Explorer",
            "Graph and node data for google-ai-edge/model-explorer: device, time, memory and stage of every node.",
            f"{stem}_model_explorer.zip",
            "application/zip",
            lambda: zip_bytes(model_explorer_files(subject)),
        ),
        Download(
            "Placed graph (DOT)",
            "For Graphviz: every node in the colour of its device.",
            f"{stem}_placed.dot",
            "text/vnd.graphviz",
            lambda: placed_dot(subject.graph, subject.deployment, subject.split),
        ),
        Download(
            "Devices (DOT)",
            "For Graphviz: devices with their loads, and what passes between them.",
            f"{stem}_devices.dot",
            "text/vnd.graphviz",
            lambda: str(device_dot(subject.costs, subject.deployment, subject.split).source),
        ),
    )


def framework_downloads(subject: Subject) -> tuple[tuple[Download, Exported | None], ...]:
    """Return a file for each framework, with what is written; where one cannot express the plan, the reason."""
    graph, schedule = subject.graph, subject.schedule
    plan = ExportedPlan(
        graph,
        subject.deployment,
        subject.plan_split,
        (TRAINING_KINDS if graph.is_training else INFERENCE_KINDS)[0] if schedule is None else schedule.kind,
        1 if schedule is None else schedule.num_micro_batches,
        subject.looped,
    )
    return tuple(_framework_download(subject, plan, form) for form in FORMATS.values())


def _framework_download(subject: Subject, plan: ExportedPlan, form: Format) -> tuple[Download, Exported | None]:
    written, refusal = None, ""
    try:
        written = exported(plan, form.framework)
    except ExportError as error:
        refusal = in_the_form(str(error), (*QUESTION, MODE))
    text = "" if written is None else written.text
    name = f"{subject.stem}_{form.file_name}"
    return Download(form.title, form.reads, name, form.mime, lambda: text, refusal), written


def report_download(subject: Subject, notes: str) -> Download:
    """Return the report, with notes of the user's own."""
    return Download(
        "Report (HTML)",
        "One file for any browser, offline: the picture to explore, tables, words, and how to repeat it.",
        f"{subject.stem}_report.html",
        "text/html",
        lambda: report_html(subject, notes, f"{date.today():%d %B %Y}"),
    )


def split_text(subject: Subject) -> str:
    """Return the plan's split as JSON, with the loads of its devices."""
    return json.dumps(planned_document(subject), indent=1)


def trace_text(subject: Subject) -> str:
    """Return the schedule as a trace; ValueError without one."""
    if subject.schedule is None:
        raise ValueError("This plan has no schedule to trace.")
    return json.dumps(chrome_trace(subject.schedule, subject.deployment, subject.graph), allow_nan=False)


def tables(subject: Subject) -> dict[str, str]:
    """Return the CSV tables by file name."""
    files = csv_tables(
        subject.graph, subject.deployment, subject.split, subject.costs, subject.shown_result, subject.schedule
    )
    return dict(files)


def _figure_options(subject: Subject) -> FigureOptions:
    """Ask how the figure is drawn."""
    shows, level, colour, theme = st.columns([5, 4, 4, 4])  # the longest answer is one of the first
    with shows:
        part = st.selectbox(
            "Shows", list(PART_NAMES), format_func=PART_NAMES.__getitem__, key="export_part", persist_state="session"
        )
    is_graph = part is not Part.TIMELINE
    levels = [AUTOMATIC, *(view.name for view in subject.dag.levels)]
    with level:
        chosen = st.selectbox(
            "Graph drawn by",
            levels,
            format_func=lambda name: LEVEL_NAMES.get(name, "Automatic"),
            key="export_level",
            persist_state="session",
            disabled=not is_graph,
            help="Automatic is the finest level whose names can be read on A4 landscape. A box can be "
            + ", ".join(BOX_NAMES.values())
            + ".",
        )
    with colour:
        colour_by = st.selectbox(
            "Colour by", list(COLOUR_NAMES), format_func=COLOUR_NAMES.__getitem__, key="export_colour",
            persist_state="session", disabled=not is_graph,
        )  # fmt: skip
    with theme:
        ground: ThemeName = st.selectbox(
            "Background", ["light", "dark"], format_func=str.capitalize, key="export_theme", persist_state="session"
        )
    return FigureOptions(part, None if chosen == AUTOMATIC else chosen, colour_by, ground)


def _show_row(downloads: tuple[Download, ...]) -> None:
    """Show files side by side, four to a row, each with a line on what opens it."""
    for column, download in zip(st.columns(4), downloads, strict=False):
        with column:
            _show(download)


def _show_frameworks(found: tuple[tuple[Download, Exported | None], ...]) -> None:
    """Show the frameworks that can run the plan, what each leaves out, and the reasons of the others."""
    fitting = [(download, written) for download, written in found if written is not None]
    for start in range(0, len(fitting), 4):
        _show_row(tuple(download for download, _ in fitting[start : start + 4]))
    if fitting:
        with st.expander("What these frameworks cannot express"):
            for download, written in fitting:
                notes = "\n".join(f"- {plain(in_the_form(note, (*QUESTION, MODE)))}" for note in written.notes)
                st.markdown(f"**{download.label}**\n{notes}")
    if refused := [download for download, written in found if written is None]:
        with st.expander(f"Why not {', '.join(download.label for download in refused)}", expanded=not fitting):
            st.markdown("\n".join(f"- **{download.label}**: {plain(download.refusal)}" for download in refused))


def _show(download: Download) -> None:
    """Show the button of a file and what opens it."""
    st.download_button(
        download.label,
        download.content,
        download.file_name,
        download.mime,
        on_click="ignore",
        width="stretch",
        disabled=bool(download.refusal),
        key=f"export_{download.label.lower().replace(' ', '_')}",
    )
    st.caption(download.refusal or download.opened_by)
