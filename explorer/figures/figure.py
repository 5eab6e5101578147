"""The figure of a plan for paper and slides: placed graph, timeline, or both, as one SVG.

Everything it says comes from the plain data of `dag_view`, the schedule and the result; no browser is needed. It is at
most as large as A4 landscape unless there are too many lanes for that, and only as high as what is on it.
"""

from dataclasses import dataclass
from enum import StrEnum

from explorer.figures.font import fitted, text_width
from explorer.figures.gantt_figure import draw_gantt, gantt_height
from explorer.figures.graph_figure import ColourBy, box_values, draw_graph, legible_level
from explorer.figures.look import LOOKS, LogScale, Look
from explorer.figures.subject import Subject, graph_facts, result_facts
from explorer.figures.svg import Drawing
from explorer.layout.levels import BLOCKS, DEVICES, LAYERS, OPERATORS, PARTS, STAGES, LevelView
from explorer.picture.dag_view import DagInfo
from explorer.picture.palette import ThemeName, device_colours
from explorer.picture.ties import tied_boxes
from solvers.quantities import binary_size, counted, milliseconds

PAGE_WIDTH, PAGE_HEIGHT = 297 / 25.4 * 96, 210 / 25.4 * 96
"""A4 landscape in CSS pixels."""
MARGIN = 24.0
WIDTH = PAGE_WIDTH - 2 * MARGIN
TITLE_HEIGHT = 58.0
MIN_GRAPH = 190.0
FOOT_SIZE = 9.0

SCALE_NAMES = {
    ColourBy.TIME: "running time",
    ColourBy.MEMORY: "memory",
    ColourBy.COMMUNICATION: "time of the tensors it sends to other devices",
}


BOX_NAMES = {
    OPERATORS: "a node",
    PARTS: "a part of consecutive nodes",
    LAYERS: "a layer",
    BLOCKS: "a layer, or several identical ones",
    STAGES: "a stage",
    DEVICES: "a device",
}
"""What a box stands for at each level."""


class Part(StrEnum):
    """What is on a figure."""

    GRAPH = "graph"
    TIMELINE = "timeline"
    BOTH = "graph and timeline"


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """How a figure is drawn; `level` is a name in `DagInfo.levels`, None for the finest that can be read in print."""

    part: Part = Part.BOTH
    level: str | None = None
    colour_by: ColourBy = ColourBy.DEVICE
    theme: ThemeName = "light"


def figure_svg(subject: Subject, options: FigureOptions = FigureOptions()) -> str:
    """Return the figure as the text of an SVG file.

    Without a schedule the timeline is left out of a figure of both, which says so. Raises ValueError for a timeline
    alone without a schedule, and for a level that the graph does not have.
    """
    look, drawing = LOOKS[options.theme], Drawing()
    shows_gantt = options.part is not Part.GRAPH and subject.schedule is not None
    if options.part is Part.TIMELINE and not shows_gantt:
        raise ValueError("This plan has no timeline to draw; choose the graph.")
    bottom = _draw_title(drawing, subject, look)
    if options.part is not Part.TIMELINE:
        room, level = graph_room(subject, options), shown_level(subject, options)
        bottom = _draw_devices(drawing, subject, look, bottom + 6)
        area = (MARGIN, bottom + 4, MARGIN + WIDTH, bottom + 4 + room)
        bottom = draw_graph(drawing, subject.dag, level, options.colour_by, look, area)
        bottom = _draw_graph_key(drawing, subject.dag, level, options.colour_by, look, bottom + 4)
    notes: list[str] = []
    if shows_gantt and subject.schedule is not None and subject.gantt is not None:
        bottom = _draw_gantt_title(drawing, subject, look, bottom + 14)
        bottom = draw_gantt(drawing, subject.schedule, subject.gantt, look, (MARGIN, bottom + 4, MARGIN + WIDTH))
        notes.append("Assumptions: " + " ".join(subject.schedule.assumptions))
    elif options.part is Part.BOTH:
        notes.append("There is no timeline: no schedule of this plan can be shown.")
    notes += filter(None, (subject.note, subject.result.message))
    for line in [line for note in notes for line in wrapped(note, WIDTH, FOOT_SIZE)]:
        bottom += FOOT_SIZE * 1.35
        drawing.text(MARGIN, bottom, line, FOOT_SIZE, look.muted)
    return drawing.document(
        PAGE_WIDTH, bottom + MARGIN, look.background, f"{subject.title}: {options.part}", description(subject)
    )


def description(subject: Subject) -> str:
    """Return what a figure shows, for a reader who does not see it."""
    facts = ", ".join(f"{name} {value}" for name, value in result_facts(subject))
    timeline = "" if subject.gantt is None else f" {subject.gantt.summary}"
    return f"{subject.title}: {facts}. {subject.dag.summary}{timeline}"


def graph_room(subject: Subject, options: FigureOptions) -> float:
    """Return the height left for the graph: a page, less the timeline if that is on it."""
    page = PAGE_HEIGHT - 2 * MARGIN - TITLE_HEIGHT
    if options.part is Part.GRAPH or subject.gantt is None:
        return page - 60
    return max(MIN_GRAPH, page - gantt_height(len(subject.gantt.lanes)) - 110)


def shown_level(subject: Subject, options: FigureOptions) -> LevelView:
    """Return the level at which the graph of a figure is drawn."""
    return level_of(subject.dag, options.level, graph_room(subject, options))


def level_of(info: DagInfo, name: str | None, room: float) -> LevelView:
    """Return a level by its name, the one that can be read in a height where no name is given."""
    wanted = legible_level(info, WIDTH, room) if name is None else name
    for level in info.levels:
        if level.name == wanted:
            return level
    raise ValueError(
        f"The graph has no level {wanted!r}; give one of {', '.join(level.name for level in info.levels)}."
    )


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Return the lines of a text that fit a width."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fitted(line, width, size) for line in lines]


def _draw_title(drawing: Drawing, subject: Subject, look: Look) -> float:
    y = MARGIN + 8
    title = fitted(subject.title, WIDTH, 17, bold=True)
    drawing.text(MARGIN, y, title, 17, look.ink, bold=True)
    facts = graph_facts(subject)
    end = MARGIN + text_width(title, 17, bold=True) + 14
    if end + text_width(facts, 10) <= MARGIN + WIDTH:
        drawing.text(end, y + 2, facts, 10, look.muted)
    else:
        y += 18
        drawing.text(MARGIN, y, fitted(facts, WIDTH, 10), 10, look.muted)
    y += 22
    x = MARGIN
    for name, value in result_facts(subject):
        width = text_width(f"{name} ", 10.5) + text_width(value, 10.5, bold=True)
        if x > MARGIN and x + width > MARGIN + WIDTH:
            x, y = MARGIN, y + 15
        x = drawing.runs(x, y, [(f"{name} ", look.muted, False), (value, look.ink, True)], 10.5) + 20
    return y + 10


def _draw_devices(drawing: Drawing, subject: Subject, look: Look, top: float) -> float:
    """Draw the legend: a chip for each device with its load, the slowest one in bold."""
    colours, y = device_colours(subject.deployment), top + 7
    x = drawing.runs(MARGIN, y, [("Load per micro-batch", look.muted, False)], 9.5) + 12
    for view in subject.dag.devices:
        colour = colours[view.device]
        load = "idle" if not view.num_nodes else milliseconds(view.load_ms)
        label = f"{view.replicas}× {load}" if view.replicas > 1 else load
        chip = max(16.0, text_width(colour.label, 9.5, bold=True) + 8)
        width = chip + 5 + text_width(label, 9.5, view.is_bottleneck)
        if x > MARGIN and x + width > MARGIN + WIDTH:
            x, y = MARGIN, y + 18
        fill = colour.forward if view.num_nodes else look.unplaced
        drawing.rect(x, y - 7, chip, 14, fill.fill, rx=3.0)
        if view.num_nodes and colour.pattern != "none":
            drawing.rect(x, y - 7, chip, 14, drawing.pattern(colour.pattern, fill.text), rx=3.0)
        drawing.text(x + chip / 2, y, colour.label, 9.5, fill.text, bold=True, anchor="middle")
        ink = look.ink if view.is_bottleneck else look.muted
        drawing.text(x + chip + 5, y, label, 9.5, ink, bold=view.is_bottleneck)
        x += width + 16
    return y + 11


def _draw_graph_key(
    drawing: Drawing, info: DagInfo, level: LevelView, colour_by: ColourBy, look: Look, top: float
) -> float:
    """Say what boxes, fills and lines mean."""
    y, x = top + 7, MARGIN
    if colour_by is not ColourBy.DEVICE:
        values = [value for value in box_values(level, colour_by) if value > 0]
        if not values:
            x = drawing.runs(x, y, [(f"No box has any {SCALE_NAMES[colour_by]}.", look.muted, False)], FOOT_SIZE) + 14
        else:
            write = binary_size if colour_by is ColourBy.MEMORY else milliseconds
            scale = LogScale(values)
            x = drawing.runs(x, y, [(f"Fill: {SCALE_NAMES[colour_by]}, ", look.muted, False)], FOOT_SIZE)
            least = write(scale.least) + (" or less" if scale.least > min(values) else "")
            x = drawing.runs(x, y, [(least, look.ink, False)], FOOT_SIZE) + 5
            pitch = 96 / len(look.ramp)
            for i, fill in enumerate(look.ramp):
                drawing.rect(x + pitch * i, y - 5, pitch + 0.2, 10, fill.fill)
            x = drawing.runs(x + 101, y, [(write(scale.most), look.ink, False)], FOOT_SIZE)
            x = drawing.runs(x, y, [(" (logarithmic), grey for 0", look.muted, False)], FOOT_SIZE) + 16
    if info.num_cut_tensors:
        drawing.line(x, y, x + 18, y, look.transfer, stroke_width=3.0)
        words = f"{counted(info.num_cut_tensors, 'tensor')} moved between devices, with the time of one way"
        x = drawing.runs(x + 23, y, [(words, look.muted, False)], FOOT_SIZE) + 16
    num_seams = sum(box.seam is not None for box in level.boxes) if colour_by is ColourBy.DEVICE else 0
    if num_seams:
        drawing.rect(x + 7, y - 6, 3.0, 12, look.transfer)
        words = f"{counted(num_seams, 'box', 'boxes')} cut inside"
        x = drawing.runs(x + 16, y, [(words, look.muted, False)], FOOT_SIZE) + 16
    if num_ties := len(tied_boxes(info, level)):
        drawing.line(x, y, x + 18, y, look.muted, stroke_width=1.1, stroke_dasharray="5 4")
        words = f"{counted(num_ties, 'tie')}: must share a device"
        x = drawing.runs(x + 23, y, [(words, look.muted, False)], FOOT_SIZE) + 16
    words = f"a box is {BOX_NAMES[level.name]}"
    if colour_by is ColourBy.DEVICE:
        words += ", the bar at its foot its running time"
    if any(box.is_backward for box in level.boxes):
        words += "; hatched: backward"
    if x + text_width(words, FOOT_SIZE) > MARGIN + WIDTH:
        x, y = MARGIN, y + 14
    drawing.text(x, y, words, FOOT_SIZE, look.muted)
    return y + 8


def _draw_gantt_title(drawing: Drawing, subject: Subject, look: Look, top: float) -> float:
    schedule, gantt = subject.schedule, subject.gantt
    if schedule is None or gantt is None:
        return top
    facts = (
        f"{counted(schedule.num_micro_batches, 'micro-batch', 'micro-batches')} in {milliseconds(schedule.makespan_ms)}"
    )
    if schedule.period_ms is not None:
        facts += f", {gantt.period_name} {milliseconds(schedule.period_ms)}"
    drawing.runs(MARGIN, top, [(f"{gantt.title}  ", look.ink, True), (facts, look.muted, False)], 11)
    return top + 10
