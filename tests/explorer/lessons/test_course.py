"""The lessons of the course: what they take for right is what the solvers say, and their figures can be drawn."""

import re
from dataclasses import replace
from html import unescape
from itertools import pairwise
from math import ceil
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.elements.load_bars import load_bars
from explorer.lessons import named_figures
from explorer.lessons.board import Placement, judged, judged_so_far
from explorer.lessons.catalogue import COURSE, lesson_named
from explorer.lessons.course import (
    beat_the_solver,
    cuts,
    dynamic_program,
    hardware,
    ideals,
    integer_program,
    pipelining,
    training,
)
from explorer.lessons.desk import Desk, SettingError, subject_of
from explorer.lessons.dp_table import arrow_id, dp_scene, state_id
from explorer.lessons.example_graphs import branches, chain_graph, loaded, small_graph
from explorer.lessons.graphs import BOX_H, BOX_W, colours, graph_scene
from explorer.lessons.grid import grid_scene
from explorer.lessons.kept import kept_on, kept_text
from explorer.lessons.label_film import label_scene
from explorer.lessons.lattice import MOST_DRAWN, ideal_id, lattice_scene
from explorer.lessons.named_figures import VALUES
from explorer.lessons.records import AskChoice, AskNumber, Lesson, said
from explorer.lessons.scene import Mark, Scene, static_svg
from explorer.lessons.sheet import sheet_html
from explorer.state.records import LoadedGraph, Subject
from explorer.words.wording import plain
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.result import SolveResult
from solvers.model.split import Family, Split
from solvers.quantities import number
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from solvers.solve import solve
from solvers.teaching.dynamic_program import State, filled_cells, solved_table, traced_back
from solvers.teaching.ideals import ideals_of
from solvers.teaching.integer_program import IntegerProgram
from solvers.teaching.labels import Fate, label_steps
from solvers.teaching.small import SmallProblem

ALL = pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)


def answered(subject: Subject) -> SolveResult:
    """Answer as the solver processes of the app do."""
    question = subject.question
    return solve(
        subject.graph,
        question.deployment,
        objective=question.objective,
        method=question.method,
        family=question.family,
    )


def lesson_called(name: str) -> Lesson:
    lesson = lesson_named(name, None)
    assert lesson is not None
    return lesson


def desk(lesson: Lesson) -> Desk:
    return Desk(answered, own=lesson.own, is_live=False)


@ALL
def test_every_step_can_be_told_and_every_answer_is_there(lesson: Lesson) -> None:
    here = desk(lesson)
    assert 3 <= len(lesson.steps) <= 8
    assert lesson.title
    assert lesson.question.endswith("?") or lesson.question.endswith(".")
    assert lesson.notes
    assert lesson.closing.question.endswith("?")
    for step in lesson.steps:
        asked = () if step.ask is None else (step.ask.prompt, step.ask.right, step.ask.wrong)
        for told in (step.text, step.reveal, *asked):
            assert isinstance(said(told, here), str)
        if step.ask is None:
            continue
        answer = step.ask.answer(here) if callable(step.ask.answer) else step.ask.answer
        assert answer is not None
        if isinstance(step.ask, AskChoice):
            assert 0 <= answer < len(step.ask.options)
        else:
            assert isinstance(step.ask, AskNumber)
            assert answer >= 0


@ALL
def test_the_sheet_has_all_exercises_and_their_answers_behind_them(lesson: Lesson) -> None:
    page = sheet_html(lesson, desk(lesson))
    questions, answers = page.split('<section class="answers">')
    assert questions.count("<li>") == answers.count("<li>") == len(lesson.exercises) + 1
    assert "still at work" not in page
    assert lesson.exercises
    assert questions.count("<svg") == sum(one.given is not None for one in lesson.exercises)
    assert answers.count("<svg") == sum(one.drawn is not None for one in lesson.exercises)
    assert ElementTree.fromstring(re.sub(r"<(!doctype html|meta [^>]*)>", "", page)).tag == "html"  # noqa: S314 -- our own


@ALL
def test_no_line_of_a_sheet_ends_between_a_number_and_its_unit(lesson: Lesson) -> None:
    assert re.findall(r".{9}\d (?:ms|GiB|GB|%)\b", re.sub("<svg.*?</svg>", "", sheet_html(lesson, desk(lesson)))) == []


@ALL
def test_a_sheet_writes_arrows_as_arrows(lesson: Lesson) -> None:
    assert re.findall(r".{9}(?:->|<-|=>).{9}", unescape(sheet_html(lesson, desk(lesson)))) == []


def test_names_are_unique_and_found() -> None:
    assert len({lesson.name for lesson in COURSE}) == len(COURSE)
    for lesson in COURSE:
        assert lesson_named(lesson.name, None) is lesson
    assert lesson_named("own", None) is None


def replayed(scene: Scene) -> dict[str, dict[str, str | None]]:
    shown: dict[str, dict[str, str | None]] = {mark.id: {"text": mark.text, "look": mark.look} for mark in scene.marks}
    for frame in scene.frames:
        for mark, change in frame.set.items():
            assert mark in shown, "a frame changes a mark that is not there"
            shown[mark].update(change)
    return shown


@pytest.mark.parametrize(
    "problem",
    [
        dynamic_program.ON_CHAIN,
        dynamic_program.ON_LATTICE,
        dynamic_program.WITH_CPU,
        dynamic_program.WITH_MEMORY,
    ],
)
def test_the_film_of_the_table_ends_with_every_cell_and_the_plan(problem: dynamic_program.SmallProblem) -> None:
    scene = dp_scene(problem, film="film")
    cells = list(filled_cells(problem))
    assert len(scene.frames) > len(cells)
    shown = replayed(scene)
    for cell in cells:
        text = shown[state_id(cell.state)]["text"]
        assert text == "–" if cell.value_ms is None else float(str(text)) == pytest.approx(cell.value_ms, rel=1e-3)
    last = max(solved_table(problem), key=lambda state: (len(state.ideal), state.accelerators, state.cpus))
    assert shown[state_id(last)]["look"] == "path"
    assert all(shown[f"n{v}"].get("fill") for v in problem.order)
    for frame in scene.frames[1:]:
        assert frame.say


def test_the_film_on_ideals_marks_the_ideal_of_the_cell_and_no_other() -> None:
    problem = dynamic_program.ON_LATTICE
    scene = dp_scene(problem, film="film")
    names = {ideal_id(ideal) for ideal in ideals_of(problem)}
    looks = dict.fromkeys(names, "")
    cells = list(filled_cells(problem))
    for frame, cell in zip(scene.frames[1:], cells, strict=False):
        looks |= {name: str(change["look"]) for name, change in frame.set.items() if name in names}
        assert {name for name, look in looks.items() if look} == {ideal_id(cell.state.ideal)}
    for frame in scene.frames[1 + len(cells) :]:
        looks |= {name: str(change["look"]) for name, change in frame.set.items() if name in names}
    path = {ideal_id(cell.state.ideal) for cell in traced_back(problem, solved_table(problem))}
    assert {name for name, look in looks.items() if look == "path"} == path
    assert {name for name, look in looks.items() if look} == path


def test_the_winners_arrows_stay_and_those_of_the_plan_are_followed_back() -> None:
    problem = dynamic_program.ON_CHAIN
    scene = dp_scene(problem, film="film")
    cells = list(filled_cells(problem))
    shown = replayed(scene)
    with_winner = {cell.state: cell for cell in cells if cell.winner is not None}
    assert {mark.id for mark in scene.marks if mark.id.startswith("wd")} == set(map(arrow_id, with_winner))
    looks = {state: shown[arrow_id(state)]["look"] for state in with_winner}
    assert set(looks.values()) == {"", "path"}, "none is hidden at the end"
    path = [cell.state for cell in traced_back(problem, solved_table(problem)) if cell.winner is not None]
    assert [state for state, look in looks.items() if look == "path"] == sorted(path, key=list(looks).index)
    early = replayed(replace(scene, frames=scene.frames[:3]))
    assert early[arrow_id(cells[-1].state)]["look"] == "hidden"


@pytest.mark.parametrize("problem", [dynamic_program.FOR_LABELS, dynamic_program.ON_CHAIN, dynamic_program.WITH_CPU])
def test_the_film_of_labels_ends_with_an_optimal_plan_and_gives_every_reason(
    problem: dynamic_program.SmallProblem,
) -> None:
    scene = label_scene(problem, film="film")
    shown = replayed(scene)
    fills = {v: shown[f"n{v}"].get("fill") for v in problem.order}
    colour_of = {colours(d, problem.deployment)["fill"]: d for d in range(problem.deployment.num_devices)}
    split = Split.from_device_of({v: colour_of[fill] for v, fill in fills.items()}, problem.deployment)
    best = solve(problem.graph, problem.deployment, method="dp").value_ms
    assert split_costs(problem.graph, problem.deployment, split).max_load_ms == pytest.approx(best)
    steps = list(label_steps(problem, from_line=False))
    assert len(scene.frames) == len(steps) + 2
    for step, frame in zip(steps, scene.frames[1:], strict=False):
        assert str(frame.say[-1]).startswith("Kept" if step.fate is Fate.KEPT else "Dropped")


def test_what_lesson_four_says_of_labels_is_so() -> None:
    fates = {step.fate for step in label_steps(dynamic_program.FOR_LABELS, from_line=False)}
    assert fates == set(Fate), "the film shows each of the reasons"
    shares = [dynamic_program.counts_of(width).kept_share for width in dynamic_program.WIDTHS]
    assert shares == sorted(shares, reverse=True), "the share that is kept falls as networks grow"


def test_what_the_solver_keeps_is_counted_and_falls_far_below_the_table() -> None:
    here = desk(dynamic_program.LESSON)
    own = here.own
    found = [kept_on(here, network) for network in dynamic_program.COUNTED]
    assert here.own is own
    known = [one for one in found if one is not None]
    assert len(known) == len(found)
    for one, network in zip(known, dynamic_program.COUNTED, strict=True):
        assert one.kept > network.accelerators, "at least the plan's own stages and where they begin"
        if network.graph is not None:
            table = solved_table(SmallProblem(network.graph, Deployment(3))) if one.cells < 1000 else None
            assert table is None or len(table) == one.cells
    last = known[-1]
    assert last.kept * 100 < last.cells, "less than a hundredth of a large one"
    text = kept_text(known)
    assert f"{last.kept} where the table has {last.cells:,}" in text
    assert known[0].kept > known[0].cells, "as the text says of the smallest: nothing is gained"


def test_every_cell_says_the_recurrence_with_its_numbers() -> None:
    frames = dp_scene(dynamic_program.ON_CHAIN, film="film").frames
    said = [" ".join(line if isinstance(line, str) else line[0] for line in frame.say) for frame in frames]
    assert any("D({1–3}, 2 acc.) = the least of 4 candidates = 6" in text for text in said)
    assert any("max( D({1}, 1 acc.) = 4.5, load of {2, 3} = 6 ) = 6" in " ".join(text.split()) for text in said)


@pytest.mark.parametrize("contiguous", [False, True])
def test_the_tree_shows_every_problem_and_its_lines_meet(contiguous: bool) -> None:
    scene = integer_program.tree_scene(contiguous)
    shown = replayed(scene)
    steps = integer_program.tree(contiguous)
    assert all(shown[f"t{step.number}"]["text"] for step in steps)
    gaps = [(step.incumbent_ms or 1e9) - step.bound_ms for step in steps]
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(gaps))
    assert gaps[-1] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("contiguous", [False, True])
def test_rows_and_nodes_of_the_integer_program_light_each_other(contiguous: bool) -> None:
    rows = IntegerProgram(integer_program.PROBLEM, contiguous).rows
    scene = integer_program.rows_scene(rows)
    texts = {mark.id: mark.text for mark in scene.marks}
    assert {texts[f"r{i}"] for i in range(len(rows))} == {row.text for row in rows}, "every row is there"
    for i, row in enumerate(rows):
        named = {f"n{v}" for v in integer_program.PROBLEM.order if f"x[{v}," in row.text}
        assert set(scene.links[f"r{i}"]) == named
        assert all(f"r{i}" in scene.links[node] for node in named)
    sources = [tensor.source for tensor in integer_program.GRAPH.tensors]
    assert sources == [1, 2, 3, 4], "the text says that tensor t is the output of node t"


@pytest.mark.parametrize("width", range(1, ideals.MOST_BRANCHES + 1))
@pytest.mark.parametrize("length", range(1, ideals.MOST_LENGTH + 1))
def test_the_ideals_of_branches_fit_a_phone_and_no_two_stand_in_one_place(width: int, length: int) -> None:
    problem = SmallProblem(branches(width, length), Deployment(2))
    if ideals.num_ideals(width, length) > ideals.MOST_COUNTED:
        return
    narrow = lattice_scene(problem, ideals_of(problem)).narrow
    assert narrow is not None
    assert narrow.width <= PHONE_W
    boxes = [mark for mark in narrow.marks if mark.shape == "box"]
    assert all(mark.x >= 0 and mark.x + mark.w <= narrow.width for mark in boxes)
    assert all(mark.y >= 0 and mark.y + mark.h <= narrow.height for mark in boxes)
    lines: dict[float, list[Mark]] = {}
    for mark in boxes:
        if mark.id.startswith(("i", "s")):
            lines.setdefault(mark.y, []).append(mark)
    for line in lines.values():
        line.sort(key=lambda mark: mark.x)
        assert all(a.x + a.w <= b.x for a, b in pairwise(line))
    assert all(y + 22 <= below for y, below in pairwise(sorted(lines)))


@pytest.mark.parametrize("contiguous", [False, True])
def test_the_rows_of_the_integer_program_are_hardly_higher_than_their_graph_and_in_order(contiguous: bool) -> None:
    rows = IntegerProgram(integer_program.PROBLEM, contiguous).rows
    scene = integer_program.rows_scene(rows)
    assert scene.height <= 0.55 * scene.width, "on a projector, seen together"
    assert scene.narrow is not None
    for marks in (scene.marks, scene.narrow.marks):
        at = {mark.id: (mark.x, mark.y) for mark in marks}
        for family in {row.family for row in rows}:
            places = [at[f"r{i}"] for i, row in enumerate(rows) if row.family == family]
            assert places == sorted(places), "down the first column, then down the second"


def test_ideals_up_to_two_hundred_are_drawn_and_more_are_folded() -> None:
    drawn = lattice_scene(ideals.PROBLEM, ideals.IDEALS)
    assert sum(mark.id.startswith("i") for mark in drawn.marks) == len(ideals.IDEALS)
    assert set(drawn.links) <= {mark.id for mark in drawn.marks}
    wide = ideals.SmallProblem(ideals.branches(8), ideals.PROBLEM.deployment)
    many = ideals_of(wide)
    assert len(many) == ideals.num_ideals(8, 1) > MOST_DRAWN
    folded = lattice_scene(wide, many)
    assert sum(mark.id.startswith("s") for mark in folded.marks) == len(wide.order) + 1


GRAPHS = [one.own for one in beat_the_solver.ROUNDS] + [lesson.own for lesson in COURSE if lesson.own is not None]


@pytest.mark.parametrize("own", GRAPHS, ids=lambda own: own.graph.name)
def test_no_arrow_passes_a_box_and_all_of_it_is_within_its_figure(own: LoadedGraph) -> None:
    scene = graph_scene(own.graph, own.deployment)
    boxes = {mark.id: mark for mark in scene.marks if mark.shape == "box"}
    for arrow in (mark for mark in scene.marks if mark.shape == "arrow"):
        assert arrow.cx is not None
        assert arrow.cy is not None
        for t in (i / 50 for i in range(1, 50)):
            x = (1 - t) ** 2 * arrow.x + 2 * t * (1 - t) * arrow.cx + t**2 * arrow.x2
            y = (1 - t) ** 2 * arrow.y + 2 * t * (1 - t) * arrow.cy + t**2 * arrow.y2
            assert 0 <= y <= scene.height
            inside = [name for name, b in boxes.items() if b.x < x < b.x + b.w and b.y < y < b.y + b.h]
            assert inside == [], f"{arrow.id} at {t}"


WITH_NARROW = {
    "cuts": cuts.cut_scene(cuts.FIRST),
    **{f"table {i}": dp_scene(problem, film="film") for i, problem in enumerate(
        (dynamic_program.ON_CHAIN, dynamic_program.ON_LATTICE, dynamic_program.WITH_CPU), start=1)},
    "labels": label_scene(dynamic_program.FOR_LABELS, film="film"),
    "rows": integer_program.rows_scene(IntegerProgram(integer_program.PROBLEM, True).rows),
    "tree": integer_program.tree_scene(False),
    "tree of pipelines": integer_program.tree_scene(True),
    **{f"round {i}": graph_scene(beat_the_solver.ROUNDS[i - 1].own.graph, Deployment(3)) for i in (5, 8)},
}  # fmt: skip
"""Figures with a layout of their own for a phone."""


@pytest.mark.parametrize("scene", WITH_NARROW.values(), ids=WITH_NARROW)
def test_a_figure_on_a_phone_has_all_marks_of_the_wide_one_and_none_over_another(scene: Scene) -> None:
    narrow = scene.narrow
    assert narrow is not None
    wide, marks = {mark.id for mark in scene.marks}, {mark.id: mark for mark in narrow.marks}
    assert len(marks) == len(narrow.marks)
    assert {name for name in marks if not re.fullmatch(r"r\d+_\d+", name)} == wide, "but for the further lines of rows"
    for links in (scene.links if narrow.links is None else narrow.links).items():
        assert {links[0], *links[1]} <= marks.keys()
    assert narrow.width <= PHONE_W or narrow.fold is not None, "where it is folded it is half as wide, about"
    parts = {"slice", *cuts.PARTS}
    boxes = [mark for mark in narrow.marks if mark.shape == "box" and not parts & set(mark.look.split())]
    for i, one in enumerate(boxes):
        assert 0 <= one.x <= one.x + one.w <= narrow.width
        assert 0 <= one.y <= one.y + one.h <= narrow.height
        for other in boxes[:i]:
            apart = one.x >= other.x + other.w or other.x >= one.x + one.w
            assert apart or one.y >= other.y + other.h or other.y >= one.y + one.h, (one.id, other.id)


PHONE_W = 358 / 0.8
"""What a figure may be wide on a phone of 390 pixels, drawn as small as letters are read."""


def test_bars_on_a_phone_are_those_of_the_wide_figure_on_a_smaller_scale() -> None:
    scene = cuts.cut_scene(cuts.FIRST)
    assert scene.narrow is not None
    assert scene.narrow.drags is not None
    wide, narrow = ({mark.id: mark for mark in marks} for marks in (scene.marks, scene.narrow.marks))
    for handle, drag in scene.drags.items():
        for place, frame in drag.over.items():
            small = scene.narrow.drags[handle].over[place]
            assert small.say == frame.say
            for name in (f"{part}{d}" for part in cuts.PARTS for d in range(3)):
                large, less = wide[name].changed(frame.set[name]), narrow[name].changed(small.set[name])
                for one, other in ((wide[name], narrow[name]), (large, less)):
                    assert other.w == pytest.approx(one.w * cuts.NARROW_W / cuts.BARS_W)
                    assert other.x - cuts.BARS_X == pytest.approx((one.x - cuts.BARS_X) * cuts.NARROW_W / cuts.BARS_W)


def test_the_time_that_a_cut_costs_stands_above_its_line() -> None:
    marks = [mark.id for mark in cuts.cut_scene((2, 4)).marks]
    assert marks.index("line2") < marks.index("nt2")


def test_the_parts_of_a_load_stand_in_one_order_wherever_they_are_bars() -> None:
    in_table = load_bars(split_costs(cuts.GRAPH, cuts.DEPLOYMENT, cuts.split_at(cuts.FIRST)), cuts.DEPLOYMENT, None)
    assert re.findall(r'<i class="(\w+)" role', in_table)[2:5] == list(cuts.PARTS), "of a device between two others"
    assert re.findall(r'<i class="(\w+)"></i>', in_table) == list(cuts.PARTS), "in the legend"
    shown = {mark.id: mark.x for mark in cuts.cut_scene(cuts.FIRST).marks}
    assert sorted(cuts.PARTS, key=lambda part: shown[f"{part}1"]) == list(cuts.PARTS) == ["receive", "compute", "send"]


def test_a_click_or_a_drag_moves_one_cut() -> None:
    assert cuts.moved((2, 4), []) == (2, 4)
    assert cuts.moved((2, 4), [2, 3]) == (3, 4)
    assert cuts.moved((2, 4), [2, 3, 4]) == (2, 4), "two cuts cannot stand at one place"
    assert cuts.moved((2, 4), [5]) == (2, 5)


@pytest.mark.parametrize("at", cuts.ALL_CUTS)
def test_what_is_shown_while_a_cut_is_dragged_is_what_the_evaluator_says(at: tuple[int, ...]) -> None:
    scene = cuts.cut_scene(at)
    assert set(scene.drags) == {f"cut{cut}" for cut in at}
    for handle, drag in scene.drags.items():
        origin = int(handle[3:])
        assert len(drag.over) == len(cuts.ORDER) - 1 - len(at), "every place without a cut"
        for place, frame in drag.over.items():
            new = tuple(sorted({*at, int(place[3:])} - {origin}))
            after = {mark.id: mark for mark in cuts.cut_scene(new).marks}
            meanwhile = {mark.id: mark.changed(frame.set.get(mark.id, {})) for mark in scene.marks}
            lines = {f"line{cut}" for cut in {*at, *new}}
            assert {k: v for k, v in after.items() if k not in lines} == {
                k: v for k, v in meanwhile.items() if k not in lines
            }
            costs = split_costs(cuts.GRAPH, cuts.DEPLOYMENT, cuts.split_at(new)).devices
            for device in costs:
                bar = sum(meanwhile[f"{part}{device.device}"].w for part in cuts.PARTS)
                assert bar == pytest.approx(cuts.BARS_W * device.load_ms / cuts.LARGEST_MS)
                assert meanwhile[f"load{device.device}"].text == f"{device.load_ms:g} ms"


def test_what_lesson_two_says_of_equal_bars_is_so() -> None:
    equal, fast = (cuts.loads_at(one, cuts.EQUAL_GRAPH) for one in (cuts.EQUAL, cuts.FASTER))
    assert len(set(equal)) == 1
    assert max(fast) < equal[0]
    assert sorted(fast)[1] < max(fast), "two devices wait"


@pytest.mark.parametrize(("p", "m"), [(1, 1), (3, 7), (8, 25)])
def test_the_law_of_lesson_one_holds_in_the_simulation(p: int, m: int) -> None:
    assert pipelining.bubble(pipelining.even_pipeline(p, m)[1]) == pytest.approx((p - 1) / (m + p - 1))


def test_what_lesson_one_says_in_numbers_is_so() -> None:
    here = desk(pipelining.LESSON)
    subject = here.subject(pipelining.SETTING)
    graph, deployment = subject.graph, subject.question.deployment
    texts = [str(step.text) for step in pipelining.LESSON.steps]
    asked = pipelining.LESSON.steps[0].ask
    assert isinstance(asked, AskNumber)
    sizes = [node.memory_bytes for node in graph.nodes]
    assert f"{number(sizes[0] / 1e9)} GB for its weights" in texts[0]
    assert set(sizes) == {sizes[0]}
    assert f"{number(sum(sizes) / 1e9)} GB in all" in texts[0]
    assert deployment.memory_bytes is not None
    assert f"has {number(deployment.memory_bytes / 1e9)} GB" in texts[0]
    assert asked.answer == ceil(len(sizes) / (deployment.memory_bytes // sizes[0]))
    costs = here.costs(pipelining.SETTING)
    assert costs is not None
    first, second, third = (number(device.load_ms) for device in costs.devices)
    assert f"{first}, {second} and {third} ms" in texts[2]
    period = pipelining.LESSON.steps[2].ask
    assert isinstance(period, AskNumber)
    assert f"device needs {number(costs.max_load_ms)} ms" in str(period.right)
    assert f"takes {number(costs.max_load_ms)} ms for each" in str(period.wrong)
    latency_ms = sum(device.load_ms for device in costs.devices)
    exercise = str(pipelining.LESSON.exercises[2].answer)
    assert exercise.startswith(f"Latency {number(latency_ms)} ms, period {number(costs.max_load_ms)} ms.")
    slower_ms = latency_ms - costs.devices[2].load_ms + 6
    assert f"is {number(slower_ms)} ms and the period is still {number(costs.max_load_ms)} ms" in exercise
    needed = next(m for m in range(1, 99) if pipelining.bubble(pipelining.even_pipeline(8, m)[1]) <= 0.1 + 1e-9)
    assert f"m ≥ {needed}" in str(pipelining.LESSON.exercises[1].answer)
    schedule = pipelining.even_pipeline(4, 4)[1]
    intervals = round(schedule.makespan_ms / pipelining.STAGE_MS)
    counted = pipelining.LESSON.steps[3].ask
    assert counted is not None
    assert f"4 of the {intervals} intervals, so it idles for {intervals - 4} of {intervals}" in str(counted.right)


def test_what_lesson_eight_says_in_numbers_is_so() -> None:
    lesson = lesson_named("proof", None)
    assert lesson is not None
    here = desk(lesson)
    subject = here.subject(lesson.setting)
    graph = subject.graph
    work_ms = sum(node.accelerator_ms for node in graph.nodes)
    cut_ms = {node.transfer_ms for node in graph.nodes} - {0.0}
    assert cut_ms == {0.5}, "each cut costs the same on both sides"
    better, gap = lesson.steps[2].ask, lesson.steps[3].ask
    assert isinstance(better, AskNumber)
    assert isinstance(gap, AskNumber)
    assert better.answer == pytest.approx((work_ms + 4 * 0.5) / 3)
    assert f"{number(work_ms + 4 * 0.5)} ms of work and transfers" in str(better.right)
    told = (said(lesson.steps[2].reveal, here) or "").replace("\xa0", " ")
    assert f"only two devices have {number(work_ms + 2 * 0.5)} ms" in told
    assert f"at least {number((work_ms + 2 * 0.5) / 2)} ms" in told
    value_ms = here.answer(lesson.setting)
    assert value_ms is not None
    assert value_ms.value_ms is not None
    assert gap.answer == pytest.approx(100 * (1 - work_ms / 3 / value_ms.value_ms))
    chain = SmallProblem(chain_graph("by hand", (7, 2, 2, 2, 1)), Deployment(2))
    assert max(cell.value_ms or 0.0 for cell in traced_back(chain, solved_table(chain))) == 7.0
    gap_exercise, memory_exercise = lesson.exercises[2], lesson.exercises[3]
    value, bound = (float(one) for one in re.findall(r"[\d.]+(?= ms)", gap_exercise.question))
    stopped = replace(value_ms, value_ms=value, lower_bound_ms=bound)
    assert stopped.gap is not None
    assert gap_exercise.answer == f"At most {number(value - bound)} ms: the gap is {number(100 * stopped.gap)} %."
    layers, layer_gb, device_gb = (int(one) for one in re.findall(r"\d+", memory_exercise.question))
    needs = [
        SmallProblem(chain_graph("memory", (1.0,) * layers, 0.0, layer_gb * 1e9), Deployment(k, 0, device_gb * 1e9))
        for k in range(1, layers + 1)
    ]
    fits = [
        solved_table(one)[State(one.nodes, one.deployment.num_accelerators, 0)].value_ms is not None for one in needs
    ]
    assert str(memory_exercise.answer).endswith(f"at least {1 + fits.index(True)}.")
    diamond = small_graph("diamond", (2, 5, 1, 3), ((1, 2), (1, 3), (2, 4), (3, 4)))
    of_diamond = Desk(answered, own=loaded(diamond, Deployment(2)), is_live=False)
    setting = {"accelerators": "2", "cpus": "0", "memory": "none"}
    bounds = [VALUES[name]({})(of_diamond, setting) for name in ("longest", "work", "share", "largest")]
    assert bounds == [10.0, 11.0, 5.5, 5.0]


def test_what_lesson_seven_says_of_schedules_is_so() -> None:
    gpipe, one = training.schedule(ScheduleKind.GPIPE, 8), training.schedule(ScheduleKind.ONE_F_ONE_B, 8)
    interleaved, zero = training.schedule(ScheduleKind.INTERLEAVED, 8), training.schedule(ScheduleKind.ZB_H1, 8)
    assert gpipe.makespan_ms == one.makespan_ms > interleaved.makespan_ms
    assert one.makespan_ms > zero.makespan_ms
    assert one.peak_in_flight == (4, 3, 2, 1)
    assert training.bubble(interleaved) == pytest.approx(1.5 / 9.5)
    again = training.schedule(ScheduleKind.ONE_F_ONE_B, 8, True)
    assert again.peak_memory_bytes[0] < one.peak_memory_bytes[0]
    reached = [
        schedule
        for kind in training.KINDS
        for m in (4, 8, 12, 16)
        if (schedule := training.schedule(kind, m, True)).peak_memory_bytes[0] < 3 * 2**30
        and training.bubble(schedule) < 0.1
    ]
    assert reached, "what the last step asks for can be reached"


def test_what_lesson_nine_says_of_six_devices_is_so() -> None:
    here = desk(lesson_called("hardware"))
    costs, result = here.costs(hardware.MIXED), here.answer(hardware.MIXED)
    assert costs is not None
    assert result is not None
    loads = [device.load_ms for device in costs.devices]
    assert len(loads) == 6, "two A100 and four T4, and nothing else"
    assert min(loads) > 0.9 * max(loads), "nearly equal"
    nodes = len(here.subject(hardware.MIXED).graph.nodes)
    assert max(map(len, result.split.devices)) > nodes / 6 * 2
    values = {offer: here.answer({**hardware.MIXED, "devices": offer}) for offer in hardware.OFFERS}
    times = {offer: one.value_ms or 0.0 for offer, one in values.items() if one is not None}
    fastest = min(times, key=lambda offer: times[offer])
    least = min(times, key=hardware.price)
    enough = hardware.cheapest(times, hardware.TARGET, hardware.PRICES["T4"])
    assert len({fastest, least, enough}) == 3, "three different answers"


def test_what_lesson_one_says_of_memory_is_so() -> None:
    subject = desk(lesson_called("pipelining")).subject(pipelining.SETTING)
    assert {node.memory_bytes for node in subject.graph.nodes} == {pipelining.LAYER_BYTES}
    result = answered(subject)
    assert result.split is not None
    assert {len(nodes) for nodes in result.split.accelerators} == {2}, "two layers on each device"
    alone = simulate(subject.graph, subject.question.deployment, result.split, ScheduleKind.UNPIPELINED, 6)
    assert pipelining.bubble(alone) == pytest.approx(2 / 3)


@pytest.mark.parametrize("one", beat_the_solver.ROUNDS, ids=lambda one: one.title)
def test_every_round_has_an_optimum_that_the_board_judges_as_the_solver_does(one: beat_the_solver.Round) -> None:
    subject = subject_of(one.setting, one.own)
    result = answered(subject)
    assert result.split is not None
    assert result.value_ms is not None
    on_board = judged(subject, Placement(result.split.on(subject.question.deployment).device_of()))
    assert on_board is not None
    assert on_board.violations == ()
    assert on_board.value_ms == pytest.approx(result.value_ms)
    assert beat_the_solver.score(result.value_ms, on_board.value_ms, 0) == 100
    assert judged(subject, Placement({})) is None


@pytest.mark.parametrize("number", range(1, 9))
@given(data=st.data())
def test_what_a_board_says_of_a_part_holds_for_every_placement_of_the_rest(number: int, data: st.DataObject) -> None:
    one = beat_the_solver.ROUNDS[number - 1]
    subject = subject_of(one.setting, one.own)
    ids = subject.graph.topological_order
    devices = st.integers(0, subject.question.deployment.num_devices - 1)
    full = {v: data.draw(devices) for v in ids}
    part = {v: full[v] for v in data.draw(st.sets(st.sampled_from(ids), min_size=1))}
    found = judged_so_far(subject, Placement(part))
    whole = judged(subject, Placement(full))
    assert found is not None
    assert whole is not None
    _, so_far = found
    assert so_far.value_ms <= whole.value_ms + 1e-9, "loads only grow"
    assert not so_far.violations or whole.violations, "what is said to be violated cannot be mended by the rest"
    if len(part) == len(full):
        assert so_far == whole


def test_a_second_submission_changes_nothing() -> None:
    first = Placement({1: 0, 2: 0}).after_submitting(9.0, "other")
    better = replace(first, device_of={1: 0, 2: 1}).after_submitting(5.0)
    assert better.submitted == {1: 0, 2: 0}
    assert better.submitted_ms == 9.0
    assert better.awaits == "other"


def test_what_counts_is_said_in_the_sheet() -> None:
    lesson = beat_the_solver.LESSON
    assert "first plan that you submit" in sheet_html(lesson, desk(lesson))
    assert "the first plan counts" in beat_the_solver.HOW_TO


def test_a_board_says_at_once_that_data_would_flow_back() -> None:
    one = beat_the_solver.ROUNDS[0]
    subject = subject_of(one.setting, one.own)
    found = judged_so_far(subject, Placement({1: 0, 3: 1, 6: 0}))
    assert found is not None
    assert found[1].violations
    assert judged_so_far(subject, Placement({})) is None


def test_rounds_are_what_their_texts_say() -> None:
    families = [subject_of(one.setting, one.own).question.family for one in beat_the_solver.ROUNDS]
    assert [i for i, family in enumerate(families, start=1) if family is Family.FREE] == [3, 8]
    assert len(beat_the_solver.ROUNDS) == 8


def test_a_setting_that_explore_does_not_know_is_refused() -> None:
    with pytest.raises(SettingError, match="acelerators"):
        subject_of({"sample": "teaching_chain", "acelerators": "2"}, None)


def test_whatever_is_paid_for_says_in_which_currency(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(hardware.st, "html", shown.append)
    monkeypatch.setattr(hardware.st, "slider", lambda label, *numbers, **_: shown.append(label) or numbers[2])
    lesson = hardware.LESSON
    hardware._offers(desk(lesson))
    table = re.findall(r"<th[^>]*>([^<]*(?:hour|million)[^<]*)<", shown[2])
    costs = [said(lesson.steps[3].text, desk(lesson)) or "", shown[1], *table]
    assert len(costs) == 4
    assert all("EUR" in one for one in costs)


@pytest.mark.parametrize(("p", "m"), [(1, 1), (3, 3), (4, 7)])
def test_a_timeline_on_paper_has_as_many_boxes_as_the_pipeline_has_passes(p: int, m: int) -> None:
    deployment, schedule = pipelining.even_pipeline(p, m)
    empty, full = (grid_scene(schedule, deployment, pipelining.STAGE_MS, filled=filled) for filled in (False, True))
    boxes = {mark.id for mark in full.marks if mark.shape == "box"} - {mark.id for mark in empty.marks}
    assert len(boxes) == p * m
    assert {mark.text for mark in full.marks if mark.id in boxes} == set(map(str, range(m))), (
        "as in the app's timelines"
    )
    assert sum(mark.shape == "box" for mark in empty.marks) == p * (m + p - 1)
    assert all(mark.x + mark.w <= full.width and mark.y + mark.h <= full.height for mark in full.marks)


def test_divided_nodes_on_paper_are_not_striped_and_long_names_fit_their_boxes() -> None:
    drawn = ElementTree.fromstring(static_svg(integer_program.tree_scene(False)))  # noqa: S314 -- our own
    slices = [e for e in drawn.iter() if e.get("height") == f"{BOX_H:g}"]
    assert len(slices) == integer_program.SLICES * len(integer_program.PROBLEM.order)
    assert {(e.get("stroke"), e.get("rx")) for e in slices} == {("none", "0")}
    chain = chain_graph("names", (1.0, 1.0))
    named = replace(chain, nodes=tuple(replace(node, name="mmmmmmmmmmm") for node in chain.nodes))
    texts = [e for e in ElementTree.fromstring(static_svg(graph_scene(named, Deployment(1)))).iter() if e.text]  # noqa: S314
    sizes = [float(e.get("font-size", "0")) for e in texts if e.text == "mmmmmmmmmmm"]
    assert len(sizes) == 2
    assert max(sizes) * 0.62 * 11 <= BOX_W, "as wide as the letters of a wide font are on average"


def test_a_figure_on_paper_has_its_last_colours() -> None:
    svg = static_svg(integer_program.tree_scene(False))
    assert svg.startswith("<svg")
    assert "#0072B2" in svg
    assert static_svg(integer_program.tree_scene(False), 0).count("<rect") < svg.count("<rect")


def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take down what named figures write, and leave out what they draw."""
    texts: list[str] = []
    monkeypatch.setattr(named_figures.st, "markdown", texts.append)
    for name in ("show_graph", "show_loads"):
        monkeypatch.setattr(named_figures, name, lambda *_: None)
    return texts


@pytest.mark.parametrize(
    ("objective", "what"), [("latency", "from start to end of one micro-batch"), ("throughput", "per micro-batch")]
)
def test_a_plan_of_a_lesson_says_which_time_it_is_the_best_in(
    monkeypatch: pytest.MonkeyPatch, objective: str, what: str
) -> None:
    texts = written(monkeypatch)
    setting = {"sample": "teaching_convex_beats_chain", "accelerators": "2", "objective": objective}
    named_figures.FIGURES["plan"]({"place": "here"})(Desk(answered), setting)
    assert [text.partition("ms ")[2].partition(", ")[0] for text in texts] == [plain(what)]


@pytest.mark.parametrize(("said_of_it", "texts"), [("", []), ("Valid.", ["Valid."])])
def test_a_board_writes_nothing_where_nothing_is_to_be_said(
    monkeypatch: pytest.MonkeyPatch, said_of_it: str, texts: list[str]
) -> None:
    found = written(monkeypatch)
    monkeypatch.setattr(named_figures, "show_board", lambda *_: (None, said_of_it))
    named_figures.FIGURES["board"]({"place": "here"})(Desk(answered), {"sample": "teaching_chain"})
    assert found == texts
