"""Figures: well-formed, complete, safe whatever things are called, and the same as pixels."""

import io
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFont

from explorer.figures.figure import PAGE_HEIGHT, FigureOptions, Part, figure_svg, level_of
from explorer.figures.font import fitted, font_paths, is_covered, text_width
from explorer.figures.graph_figure import ColourBy, box_values
from explorer.figures.look import LOOKS, LogScale
from explorer.figures.png import PRINT_DPI, png_bytes
from explorer.layout.levels import LAYERS, OPERATORS, STAGES
from explorer.picture.palette import MIN_CONTRAST, contrast
from solvers.model.deployment import Deployment
from solvers.model.split import Split
from solvers.quantities import moving_time
from solvers.schedule.simulate import ScheduleKind, SlotKind
from tests.support.examples import examples
from tests.support.graphs import chain
from tests.support.subjects import HOSTILE, named, sample_subject, subject_of, without_schedule

SVG = "{http://www.w3.org/2000/svg}"
BERT = "bert_base_operator_inference"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 -- our own


def test_says_what_is_shown_and_what_is_proven() -> None:
    subject = sample_subject(BERT)
    words = " ".join(texts(figure_svg(subject)))
    value = f"{subject.result.value_ms:.4g} ms"
    assert subject.graph.name in words
    assert f"Time per micro-batch  {value} Proven lower bound  {value}" in words
    assert "Proof  optimal (proven)" in words
    assert "323 nodes" in words
    assert "4 accelerators and 1 CPU" in words
    assert subject.schedule is not None
    assert subject.schedule.assumptions
    assert "Assumptions: " + " ".join(subject.schedule.assumptions) in words


def test_a_gap_is_told_and_nothing_is_called_optimal() -> None:
    words = " ".join(texts(figure_svg(named("a", "b", "c"))))
    assert "Proof  at most 11.2 % above the optimum" in words
    assert "proven)" not in words


def test_every_node_is_drawn_once_with_its_device() -> None:
    subject = sample_subject(BERT)
    root = ET.fromstring(figure_svg(subject, FigureOptions(Part.GRAPH, OPERATORS)))  # noqa: S314
    boxes = root.find(f"{SVG}g[@stroke-opacity]")
    assert boxes is not None
    own = [rect for rect in boxes if not str(rect.get("fill")).startswith("url")]
    assert len(own) == len(subject.graph.nodes)
    labels = [element.text for element in root.iter(f"{SVG}text") if element.get("font-weight") == "bold"]
    for device in subject.dag.devices:
        # Once on each of its boxes, and once in the legend.
        label = {"Accelerator": "", "CPU": "C"}[device.name.split()[0]] + device.name.split()[1]
        assert labels.count(label) == device.num_nodes + 1, label


def test_cuts_inside_boxes_and_ties_are_drawn_and_counted_as_in_the_app() -> None:
    mixtral = sample_subject("mixtral_8x7b_layer_inference")
    level = next(level for level in mixtral.dag.levels if level.name == mixtral.dag.opening_level)
    seams = [box.seam for box in level.boxes if box.seam is not None]
    assert seams
    words = texts(figure_svg(mixtral, FigureOptions(Part.GRAPH, level.name)))
    assert f"{len(seams)} boxes cut inside" in words
    assert all(moving_time(seam.send_ms, [seam.receive_ms]) in words for seam in seams)
    tied = sample_subject("teaching_tied_embedding")
    svg = figure_svg(tied, FigureOptions(Part.GRAPH, OPERATORS))
    assert "1 tie: must share a device" in texts(svg)
    shapes = list(ET.fromstring(svg).iter())  # noqa: S314
    (curve,) = [str(path.get("d")) for path in shapes if path.get("stroke-dasharray") and "Q" in str(path.get("d"))]
    _, begin, _, corner, _, end = map(float, re.findall(r"[\d.]+", curve))
    chips = [float(str(rect.get("y"))) + 14 for rect in shapes if rect.get("height") == "14"]
    assert (begin + 2 * corner + end) / 4 > max(chips), "the line stays below the legend"
    plain = texts(figure_svg(sample_subject("teaching_chain")))
    assert not any("share a device" in word or "cut inside" in word for word in plain)


@pytest.mark.parametrize("part", Part)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_part_is_well_formed_in_both_themes(part: Part, theme: str) -> None:
    svg = figure_svg(sample_subject("gpt2_xl_layer_training"), FigureOptions(part, theme=theme))  # type: ignore[arg-type]
    root = ET.fromstring(svg)  # noqa: S314
    assert root.get("width") == "297mm"
    assert root.find(f"{SVG}title") is not None
    assert "nan" not in svg.lower().replace("nano", "")
    used = set(re.findall(r"url\(#([^)]+)\)", svg))
    assert used <= {pattern.get("id") for pattern in root.iter(f"{SVG}pattern")}
    is_timeline = "Lower bounds" in texts(svg)
    assert is_timeline == (part is not Part.GRAPH)


def test_levels_are_the_graph_s_and_the_default_can_be_read() -> None:
    assert level_of(named("a", "b", "c", layer="d").dag, None, 200).name == OPERATORS
    dag = sample_subject(BERT).dag
    # The height of a page shows 323 names too small for print; 12 layers are read well.
    assert level_of(dag, None, PAGE_HEIGHT).name == LAYERS
    assert level_of(dag, None, 60).name in (LAYERS, STAGES)
    with pytest.raises(ValueError, match="no level 'atoms'"):
        level_of(dag, "atoms", 200)


def test_without_a_schedule_the_figure_says_so() -> None:
    subject = without_schedule(named("a", "b"))
    assert "There is no timeline: no schedule of this plan can be shown." in texts(figure_svg(subject))
    with pytest.raises(ValueError, match="no timeline"):
        figure_svg(subject, FigureOptions(Part.TIMELINE))


def test_bars_stand_where_the_schedule_says() -> None:
    subject = named("a", "b")
    schedule = subject.schedule
    assert schedule is not None
    assert schedule.kind is ScheduleKind.INFERENCE
    svg = figure_svg(subject, FigureOptions(Part.TIMELINE))
    shapes = re.findall(r"M([\d.]+) [\d.]+h([\d.]+)v[\d.]+H\1z", svg)
    starts = sorted(float(x) for x, _ in shapes)
    per_ms = (starts[-1] - starts[0]) / (schedule.slots[-1].start_ms - schedule.slots[0].start_ms)
    wanted = sorted(starts[0] + slot.start_ms * per_ms for slot in schedule.slots)
    assert starts == pytest.approx(wanted, abs=0.02)
    numbers = [text for text in texts(svg) if re.fullmatch(r"\d", text)]
    compute = [str(slot.micro_batch) for slot in schedule.slots if slot.kind is SlotKind.COMPUTE]
    for micro_batch in set(compute):
        assert numbers.count(micro_batch) >= compute.count(micro_batch)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5), st.text(max_size=80), st.text(max_size=40))
@examples(40, deadline=None)
def test_no_name_breaks_out_of_its_text(names: list[str], graph_name: str, layer: str) -> None:
    try:
        subject = named(*names, layer=layer or None, graph_name=graph_name)
    except ValueError:
        return
    root = ET.fromstring(figure_svg(subject))  # noqa: S314
    allowed = {"svg", "title", "desc", "defs", "pattern", "g", "rect", "path", "text", "circle"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= allowed
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)


def test_a_hostile_name_is_text() -> None:
    svg = figure_svg(named(HOSTILE, "b", graph_name=HOSTILE))
    assert "<img" not in svg
    assert HOSTILE in texts(svg)


def test_a_large_plan_makes_a_file_of_reasonable_size() -> None:
    graph = chain([1.0] * 2000)
    split = Split(tuple(frozenset(range(250 * d + 1, 250 * (d + 1) + 1)) for d in range(8)))
    subject = subject_of(graph, Deployment(8), split, num_micro_batches=1000)
    assert subject.schedule is not None
    assert len(subject.schedule.slots) >= 20_000
    assert len(figure_svg(subject, FigureOptions(level=OPERATORS))) < 3_000_000


def test_fills_by_value_grow_darker_on_a_log_scale() -> None:
    subject = sample_subject(BERT)
    level = subject.dag.levels[0]
    for mode in (ColourBy.TIME, ColourBy.MEMORY, ColourBy.COMMUNICATION):
        values = box_values(level, mode)
        assert max(values) > 0
        svg = figure_svg(subject, FigureOptions(Part.GRAPH, OPERATORS, mode))
        assert "Fill: " in " ".join(texts(svg))
    assert sum(box_values(level, ColourBy.TIME)) == pytest.approx(
        sum(device.compute_ms for device in subject.costs.devices)
    )
    scale = LogScale([0.0, 1.0, 10.0, 100.0])
    assert [scale.share(value) for value in (1.0, 10.0, 100.0)] == pytest.approx([0.0, 0.5, 1.0])
    ramp = LOOKS["light"].ramp
    assert [scale.fill(value, ramp) for value in (0.0, 1.0, 100.0)] == [None, ramp[0], ramp[-1]]
    assert LogScale([5.0]).fill(5.0, ramp) == ramp[-1]


@pytest.mark.parametrize("theme", LOOKS)
def test_text_on_the_ground_can_be_read(theme: str) -> None:
    look = LOOKS[theme]  # type: ignore[index]
    for ground in (look.background, look.surface, look.shade):
        for text in (look.ink, look.muted):
            assert contrast(text, ground) >= MIN_CONTRAST
    assert contrast(look.transfer, look.background) >= MIN_CONTRAST


def test_text_widths_are_those_of_the_font() -> None:
    for bold, path in zip((False, True), font_paths(), strict=True):
        font = ImageFont.truetype(str(path), 1000)
        for letter in "AMil.1×…–ÄΣЖ":
            assert text_width(letter, 1000, bold) == pytest.approx(font.getlength(letter), abs=1.0)
    assert is_covered("Größe → 3×")
    assert not is_covered("层")
    assert text_width("层", 10) == 10


@given(st.text(max_size=60), st.floats(5, 200))
def test_fitted_text_fits(text: str, width: float) -> None:
    assert text_width(fitted(text, width, 10), 10) <= max(width, 0.0) + 1e-9


def test_a_text_is_as_wide_in_a_font_that_stands_in() -> None:
    root = ET.fromstring(figure_svg(sample_subject(BERT)))  # noqa: S314 -- our own
    (title,) = [text for text in root.iter(f"{SVG}text") if text.text == "BERT-base, inference, by operators"]
    size = float(title.get("font-size") or 0)
    assert float(title.get("textLength") or 0) == pytest.approx(text_width(title.text or "", size, True), abs=0.01)
    assert title.get("lengthAdjust") == "spacingAndGlyphs"


def test_png_has_300_dots_per_inch_of_a4() -> None:
    image = Image.open(io.BytesIO(png_bytes(figure_svg(named("a", "层", HOSTILE)))))
    assert image.format == "PNG"
    assert image.width == pytest.approx(297 / 25.4 * PRINT_DPI, abs=2)
    # Something is drawn, and on white.
    assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)
    assert len(image.convert("RGB").getcolors(2**24) or []) > 20
