"""Lesson 5: the integer program, its relaxation, and branch and bound as a tree that grows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from textwrap import wrap
from typing import TYPE_CHECKING

import streamlit as st

from explorer.lessons.desk import Desk
from explorer.lessons.example_graphs import loaded, small_graph
from explorer.lessons.graphs import BOX_H, BOX_W, MARGIN, colours, graph_marks, graph_scene
from explorer.lessons.parts import show_check, show_graph_before
from explorer.lessons.records import AskChoice, AskNumber, Closing, Draw, Exercise, Lesson, Step
from explorer.lessons.scene import Change, Frame, Mark, Narrow, Scene, show_scene
from solvers.model.deployment import Deployment
from solvers.quantities import counted, milliseconds, number
from solvers.teaching.small import SmallProblem

if TYPE_CHECKING:
    from solvers.teaching.branch_and_bound import BranchStep
    from solvers.teaching.integer_program import Row

GRAPH = small_graph("Five nodes", (3, 5, 4, 5, 3), ((1, 2), (1, 3), (2, 4), (3, 5), (4, 5)), (1.0, 2.0, 0.5, 1.0, 0.0))
PROBLEM = SmallProblem(GRAPH, Deployment(2))
SLICES = 10
"""A box is drawn as so many slices, to show which share of a node is on which device."""
FAMILIES = {
    "one device": "Every node is on exactly one device",
    "cut": "A device pays for a tensor that it holds in part",
    "load": "The load of a device is at most T",
    "order": "Contiguous: a node is on no later device than those that read it",
}
LEVEL = 62.0
PROBLEM_W, NARROW_PROBLEM_W = 66.0, 46.0
NARROW_LETTERS = 62
"""Letters of a row that fit a line on a phone."""


@cache
def tree(contiguous: bool) -> "tuple[BranchStep, ...]":
    """Return the problems of the tree in the order in which they are looked at."""
    from solvers.teaching.branch_and_bound import branch_steps  # it loads PuLP and HiGHS, which nothing else here needs

    return tuple(branch_steps(PROBLEM, contiguous=contiguous))


def optimum(contiguous: bool) -> float:
    """Return the optimum in ms."""
    return tree(contiguous)[-1].incumbent_ms or 0.0


def relaxed_ms() -> float:
    """Return the optimum of the relaxation in ms."""
    root = tree(False)[0].relaxed
    return 0.0 if root is None else root.bound_ms


def rows_scene(rows: "Sequence[Row]") -> Scene:
    """Return the graph with the rows below and beside it.

    Pointing at a row lights its nodes, pointing at a node the rows that speak of it.
    """
    plain, width, height = graph_marks(GRAPH, PROBLEM.deployment)
    nodes = [replace(mark, focusable=mark.shape == "box") for mark in plain]
    left, wide, right = MARGIN, 480.0, 510.0
    at = {
        "one device": Columns(left, wide, 2),
        "load": Columns(left, wide),
        "order": Columns(left, wide, 2),
        "cut": Columns(right, 330.0, 2),
    }
    marks, links, low = _row_marks(rows, at, {left: height + 12, right: 8.0})
    alt = f"The graph of five nodes with the {len(rows)} rows of the integer program"
    below = {family: Columns(left, width - 2 * left, columns.number) for family, columns in at.items()}
    folded, links_folded, end = _row_marks(rows, below, {left: height + 12}, NARROW_LETTERS)
    narrow = Narrow(width, end, (*nodes, *folded), links=links_folded)
    return Scene(right + 340.0, low, (*nodes, *marks), alt, links=links, narrow=narrow)


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the rows of a family stand: from where, how wide in all, and in how many columns."""

    x: float
    w: float
    number: int = 1


def _row_marks(
    rows: "Sequence[Row]", at: Mapping[str, Columns], below: dict[float, float], most: int | None = None
) -> tuple[list[Mark], dict[str, list[str]], float]:
    """Return the rows by family, what lights up with what, and where they end below.

    `at` has the columns of each family, `below` where the first family at each place begins, `most` the letters of a
    line over all columns.
    """
    marks: list[Mark] = []
    links: dict[str, list[str]] = {f"n{v}": [] for v in PROBLEM.order}
    for family, columns in at.items():
        x, w = columns.x, columns.w / columns.number
        of_family = [(i, row) for i, row in enumerate(rows) if row.family == family]
        if not of_family:
            continue
        title = FAMILIES[family]
        marks.append(Mark(f"f{family}", "text", x, below[x], columns.w, 18, text=title, look="strong", anchor="left"))
        top = below[x] + 22
        ends = [top] * columns.number
        deep = math.ceil(len(of_family) / columns.number)
        for place, (i, row) in enumerate(of_family):
            column = place // deep
            tip = f"{title}: {row.text}"
            lines = [row.text] if most is None else wrap(row.text, most // columns.number)
            # The lines of a row that is too long for one light up with the first.
            names = [f"r{i}", *(f"r{i}_{j}" for j in range(1, len(lines)))]
            for name, line in zip(names, lines, strict=True):
                indent = 0 if name == names[0] else 14
                marks.append(
                    Mark(
                        name, "box", x + column * w + indent, ends[column], w - indent - 4, 18, text=line, look="plain",
                        tip=tip, anchor="left", focusable=name == names[0], size=12,
                    )
                )  # fmt: skip
                ends[column] += 19
            links[names[0]] = [*(f"n{v}" for v in row.about), *names[1:]]
            for v in PROBLEM.order:
                if f"x[{v}," in row.text:
                    links[f"n{v}"] += names
        below[x] = max(ends) + 8
    return marks, links, max(below.values())


def _rows(desk: Desk) -> None:
    from solvers.teaching.integer_program import IntegerProgram

    contiguous = st.toggle("Contiguous", key=f"{desk.key}_contiguous")
    show_scene(rows_scene(IntegerProgram(PROBLEM, contiguous).rows), f"{desk.key}_rows")


def _shares(contiguous: bool, number_of: int) -> dict[tuple[int, int], float]:
    relaxed = tree(contiguous)[number_of].relaxed
    return {} if relaxed is None else relaxed.shares


def sliced_marks() -> tuple[list[Mark], float, float]:
    """Return the graph with its boxes in slices, `p3_4` for the fifth slice of node 3."""
    plain, width, height = graph_marks(GRAPH, PROBLEM.deployment, top=14)
    marks = [mark for mark in plain if mark.shape != "box"]
    w = BOX_W / SLICES
    for box in (mark for mark in plain if mark.shape == "box"):
        v, x, y = box.id[1:], box.x, box.y
        marks += [Mark(f"p{v}_{i}", "box", x + i * w, y, w, BOX_H, look="slice", r=0) for i in range(SLICES)]
        marks.append(Mark(f"n{v}", "text", x, y - 16, BOX_W, 14, text=box.text, look="strong"))
    return marks, width, height


def slice_changes(shares: dict[tuple[int, int], float]) -> dict[str, Change]:
    """Return the colours of all slices for these shares of nodes on devices."""
    changes: dict[str, Change] = {}
    for v in PROBLEM.order:
        ends = round(SLICES * shares.get((v, 0), 0.0)) if shares else None
        for i in range(SLICES):
            device = None if ends is None else 0 if i < ends else 1
            changes[f"p{v}_{i}"] = {"fill": colours(device, PROBLEM.deployment)["fill"]}
    return changes


def _relaxed(desk: Desk) -> None:
    marks, width, height = sliced_marks()
    root = tree(False)[0]
    say = f"Every node is half on each device. T = {number(root.relaxed.bound_ms if root.relaxed else None)} ms."
    scene = Scene(width, height, tuple(marks), say, (Frame(((say, "strong"),), slice_changes(_shares(False, 0))),))
    show_scene(scene, f"{desk.key}_relaxed")


def tree_scene(contiguous: bool) -> Scene:
    """Return the graph in mixed colours above the tree, and one frame for each problem that is looked at."""
    steps = tree(contiguous)
    marks, width, top = sliced_marks()
    top += 20
    by_number = {step.number: step for step in steps}
    boxes, wide, low = _problem_marks(steps, top, PROBLEM_W)
    narrow_boxes, narrow_wide, _ = _problem_marks(steps, top, NARROW_PROBLEM_W)
    chart, wide_chart = closing_marks(steps, width + 40)
    narrow = Narrow(max(wide_chart, narrow_wide), low, (*marks, *narrow_boxes, *chart), (width + 30, top))
    marks += [*boxes, *chart]
    frames: list[Frame] = []
    before: str | None = None
    for i, step in enumerate(steps):
        changes: dict[str, Change] = slice_changes({} if step.relaxed is None else step.relaxed.shares)
        changes |= {f"{line}{i}": {"look": "thick" if line == "up" else "now"} for line in ("up", "low")}
        if before is not None:
            changes[before] = {"look": ""}
        name = f"t{step.number}"
        bound = "no plan" if step.relaxed is None else number(step.relaxed.bound_ms)
        sub = {"branched": "divide", "whole": "whole", "closed by its bound": "closed", "no solution": "closed"}
        changes[name] = {"look": "now", "text": bound, "sub": sub[step.ending]}
        if step.parent is not None:
            changes[f"b{step.number}"] = {"look": ""}
        before = name
        frames.append(Frame(_said(step, by_number), changes))
    last = steps[-1]
    if last.incumbent is not None:
        device_of = last.incumbent.device_of()
        found = {(v, d): float(device_of[v] == d) for v in PROBLEM.order for d in range(2)}
        say = f"Nothing is open any more: {number(last.incumbent_ms)} ms is the optimum, proven by the tree."
        frames.append(Frame(((say, "strong"), "The colours are the best plan."), slice_changes(found)))
    alt = f"A tree of {counted(len(steps), 'problem')}"
    film = f"tree{contiguous}"
    return Scene(max(wide_chart, wide), low, tuple(marks), alt, tuple(frames), film=film, pace=1100.0, narrow=narrow)


def _problem_marks(steps: "Sequence[BranchStep]", top: float, w: float) -> tuple[list[Mark], float, float]:
    """Return the boxes of the tree, hidden, of this width, and where it ends to the right and below."""
    children: dict[int, list[int]] = {}
    for step in steps:
        if step.parent is not None:
            children.setdefault(step.parent, []).append(step.number)
    depth, column = {0: 0}, dict[int, float]()

    def place(n: int, left: float) -> float:
        right = left
        for child in sorted(children.get(n, [])):
            depth[child] = depth[n] + 1
            right = place(child, right)
        right = max(right, left + w + 8)
        column[n] = (left + right - w - 8) / 2
        return right

    wide = place(0, 8.0)
    marks: list[Mark] = []
    for step in steps:
        x, y = column[step.number], top + depth[step.number] * LEVEL
        if step.parent is not None:
            up = column[step.parent] + w / 2
            y_up = top + depth[step.parent] * LEVEL + 34
            marks.append(Mark(f"b{step.number}", "line", up, y_up, x2=x + w / 2, y2=y, look="hidden"))
        marks.append(Mark(f"t{step.number}", "box", x, y, w, 34, look="hidden"))
    return marks, wide, top + (max(depth.values()) + 1) * LEVEL


def closing_marks(steps: "Sequence[BranchStep]", left: float) -> tuple[list[Mark], float]:
    """Return incumbent and bound as two lines over the steps, hidden until each step, and where they end."""
    top, high, wide = 26.0, 110.0, 13.0
    values = [ms for step in steps for ms in (step.bound_ms, step.incumbent_ms) if ms is not None]
    low_ms, high_ms = min(values), max(values)

    def at(ms: float) -> float:
        return top + high * (high_ms - ms) / max(high_ms - low_ms, 1e-9)

    end = left + wide * len(steps)
    marks = [
        Mark(
            "high",
            "text",
            left,
            top - 20,
            end - left,
            14,
            text=f"incumbent, from {number(high_ms)} ms",
            size=12,
            anchor="left",
        ),
        Mark(
            "least",
            "text",
            left,
            top + high + 8,
            end - left,
            14,
            text=f"bound, from {number(low_ms)} ms",
            size=12,
            anchor="left",
        ),
    ]
    for i, step in enumerate(steps):
        x, x2 = left + i * wide, left + (i + 1) * wide
        upper = high_ms if step.incumbent_ms is None else step.incumbent_ms
        marks += [
            Mark(f"{line}{i}", "line", x, at(ms), x2=x2, y2=at(ms), look="hidden")
            for line, ms in (("up", upper), ("low", step.bound_ms))
        ]
    return marks, end + 10


def _said(step: "BranchStep", by_number: "dict[int, BranchStep]") -> tuple[str | tuple[str, str], ...]:
    if step.parent is None:
        what = "The whole problem, relaxed."
    else:
        decided = by_number[step.parent].branch_on
        assert decided is not None
        v, d = decided
        what = f"Node {v} is {'' if dict(step.fixed)[decided] else 'not '}on device {d + 1}."
    if step.relaxed is None:
        found = "It need not be solved: its bound reaches the incumbent." if step.ending == "closed by its bound" else (
            "Its relaxation has no solution."
        )  # fmt: skip
    else:
        found = f"The relaxation gives {number(step.relaxed.bound_ms)} ms."
        if step.branch_on is not None:
            found += f" Node {step.branch_on[0]} is divided, so two problems follow."
        elif step.ending == "closed by its bound":
            found += " Nothing better than the incumbent can be below it."
    best = "none yet" if step.incumbent_ms is None else f"{number(step.incumbent_ms)} ms"
    new = " (new: the relaxed answer, rounded)" if step.is_new_incumbent else ""
    return (
        (what, "strong"),
        found,
        (f"Bound {number(step.bound_ms)} ms ≤ optimum ≤ incumbent {best}{new}", "strong"),
    )


def _tree(contiguous: bool) -> Draw:
    def draw(desk: Desk) -> None:
        show_scene(tree_scene(contiguous), f"{desk.key}_tree_{contiguous}")
        show_check(desk, SETTING if contiguous else {**SETTING, "splits": "free"}, optimum(contiguous))

    return draw


SETTING = {"accelerators": "2", "cpus": "0", "memory": "none"}

LESSON = Lesson(
    name="integer_program",
    title="The integer program",
    question="How does a solver that knows nothing of graphs find a placement, and prove that it is the best?",
    minutes=15,
    assumes="Lesson 2: loads. What a linear equation is.",
    setting=SETTING,
    own=loaded(GRAPH, PROBLEM.deployment),
    steps=(
        Step(
            "A placement as numbers",
            "Five nodes, two devices. For each node v and device d there is a number **x[v,d]**: 1 if v is on d, and "
            "0 if not. A number **y[t,d]** is 1 if device d pays for tensor t, the output of node t, and **T** is the "
            "time per micro-batch, to be made as small as possible.",
            show_graph_before(GRAPH, PROBLEM.deployment),
            AskNumber(
                "How many numbers x[v,d] are there?",
                10.0,
                "numbers",
                0.0,
                right="One for each of five nodes and two devices.",
                wrong="One for each node and each device: 5 · 2.",
            ),
            "What makes a placement valid, and what it costs, is written in rows: linear equations and inequalities. "
            "For example, x[1,1] − x[2,1] − y[1,1] ≤ 0 says: if node 1 is on device 1 and node 2, which reads it, is "
            "not, then y[1,1] must be 1, and device 1 pays for the output of node 1. Point at a row (or go "
            "to it with the Tab key) to see the nodes it is about, at a node to see the rows that speak of it. Turn "
            "contiguity on to see the rows that make the placement a pipeline.",
            _rows,
            is_wide=True,
        ),
        Step(
            "Relax: let nodes be divided",
            "To find the best whole numbers is hard. If x may be **any number from 0 to 1**, it is easy: this is a "
            "*linear "
            "program*. A node may then be half here and half there.",
            None,
            AskChoice(
                lambda _: (
                    f"The best relaxed answer is T = {milliseconds(relaxed_ms())}. What does it say of real placements?"
                ),
                (
                    "Some placement takes as long",
                    "No placement takes less",
                    "Every placement takes at least twice as long",
                ),
                1,
                right="Every real placement is also a relaxed one, so the best relaxed one is at least as good: a "
                "lower "
                "bound.",
                wrong=lambda _: (
                    "Every real placement is also a relaxed one, so none can be better than the best relaxed one: "
                    f"{milliseconds(relaxed_ms())} is a lower bound. But nodes cannot be divided, so it need not be "
                    "reached."
                ),
            ),
            "The colours show the shares: at the left of a box what is on device 1, at the right what is on "
            "device 2. All nodes are half and half, and no tensor is paid for: the relaxation "
            "finds the "
            "trivial bound, all work divided by the devices. A better bound needs more: the next step.",
            _relaxed,
        ),
        Step(
            "Branch and bound",
            "Take a node that is divided and make **two problems** of one: in the first the node is on device 1, in "
            "the second "
            "it is not. Every placement belongs to one of them. Solve both relaxed, and go on like this with the one "
            "whose "
            "bound is lowest. The best placement found so far is the **incumbent**.",
            None,
            AskChoice(
                "When can a problem be closed without dividing it further?",
                (
                    "When its bound reaches the incumbent",
                    "When its bound is lower than the incumbent",
                    "Only when none of its nodes is divided",
                ),
                0,
                right="Nothing below it can then be better than what is known.",
                wrong="If its bound reaches the incumbent, nothing below it can be better than what is known already.",
            ),
            "Press Play. Each box is a problem with its bound. Watch the two lines beside the graph: incumbent and "
            "bound close in on the optimum.",
            _tree(False),
        ),
        Step(
            "The same for pipelines",
            "Now with the rows for contiguity.",
            None,
            AskChoice(
                "How can the optimum change when rows are added?",
                ("It can only stay or get worse", "It can only stay or get better", "Either"),
                0,
                right="Every placement that satisfies more rows was there before.",
                wrong="More rows leave fewer placements to choose from, and never a new one.",
            ),
            lambda _: (
                f"Best placement of any kind: {number(optimum(False))} ms. Best pipeline: {number(optimum(True))} "
                f"ms. The "
                f"first tree has {len(tree(False))} problems, this one {len(tree(True))}."
            ),
            _tree(True),
        ),
    ),
    closing=Closing(
        "What do the relaxation and the incumbent tell, and when is the search over?",
        "The relaxation gives a lower bound that no placement beats, the incumbent is the best placement found; "
        "problems "
        "whose bound reaches the incumbent are closed, and when none is left the incumbent is proven optimal.",
    ),
    exercises=(
        Exercise(
            "How many x variables has a graph of 1,000 nodes on 8 devices, and how many placements are there?",
            "8,000 variables, and 8 to the power 1,000 placements.",
        ),
        Exercise(
            "Devices are identical. How many placements of the five nodes on two devices are really different?",
            "16: exchanging the two devices changes nothing, so half of 32.",
            lambda _: graph_scene(GRAPH, PROBLEM.deployment),
        ),
        Exercise(
            "Why does a better incumbent at the beginning make the tree smaller?",
            "More problems are closed at once, because their bounds reach it.",
            None,
            lambda _: tree_scene(False),
        ),
    ),
    notes="The rows are those of the formulation that the paper calls IP, with one variable for each tensor and "
    "device. The "
    "solver of the app (HiGHS) adds cuts, presolve and symmetry breaking; its tree is far smaller.",
)
