"""The ideals of a graph as a Hasse diagram: smaller ones below, a line wherever one node is added."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.lessons.graphs import MARGIN, TIGHT, graph_marks, set_text
from explorer.lessons.scene import Mark, Narrow, Scene
from solvers.model.graph import DnnGraph
from solvers.quantities import count as written
from solvers.teaching.ideals import cover_pairs
from solvers.teaching.small import Ideal, SmallProblem

MOST_DRAWN = 200
"""Ideals that are drawn one by one; more are drawn as a box a size."""
ROW = 62.0
LINE = 36.0
"""Between the lines of ideals of one size, where they need more than one."""
LATTICE_GAP = 30.0
"""Between a graph and the diagram of its ideals."""
NARROW = 430.0
"""The width of a diagram on a narrow page: its letters are readable on a phone."""


def ideal_id(ideal: Ideal) -> str:
    """Return what the mark of an ideal is called."""
    return "i" + "_".join(map(str, sorted(ideal)))


def lattice_marks(
    problem: SmallProblem, ideals: Sequence[Ideal], left: float, top: float, room: float = math.inf
) -> tuple[list[Mark], float, float]:
    """Return the marks of the Hasse diagram, and where it ends to the right and below.

    Ideals of one size that need more than `room` beside each other stand in several lines.
    """
    if len(ideals) > MOST_DRAWN:
        return _folded(ideals, left, top, room)
    by_size: dict[int, list[Ideal]] = {}
    for ideal in ideals:
        by_size.setdefault(len(ideal), []).append(ideal)
    widest = max(map(len, by_size.values()))
    longest = max(len(set_text(ideal)) for ideal in ideals)
    w = max(34.0, min(96.0, 12 + 7.0 * longest)) if widest <= 12 else 26.0
    pitch = w + (14 if widest <= 12 else 5)
    most = max(1, int(min(room, widest * pitch) // pitch))
    width = max(min(most, widest) * pitch, 150.0)
    at: dict[Ideal, tuple[float, float]] = {}
    y = top
    for size in sorted(by_size, reverse=True):
        row = by_size[size]
        # As many in each line as in the others, or one less.
        lines = math.ceil(len(row) / most)
        starts = [round(i * len(row) / lines) for i in range(lines + 1)]
        for i in range(lines):
            line = row[starts[i] : starts[i + 1]]
            begin = left + (width - len(line) * pitch) / 2
            at |= {ideal: (begin + j * pitch, y + i * LINE) for j, ideal in enumerate(line)}
        y += (lines - 1) * LINE + ROW
    marks: list[Mark] = []
    for small, large in cover_pairs(problem, ideals):
        (x, y_small), (x2, y2) = at[small], at[large]
        (v,) = large - small
        name = f"h{ideal_id(small)}_{v}"
        marks.append(Mark(name, "line", x + w / 2, y_small, x2=x2 + w / 2, y2=y2 + 26))
    for ideal, (x, y_ideal) in at.items():
        tip = f"The ideal {set_text(ideal)}"
        text = set_text(ideal) if widest <= 12 else ""
        marks.append(Mark(ideal_id(ideal), "box", x, y_ideal, w, 26, text=text, tip=tip, r=8, focusable=True, size=12))
    return marks, left + width, y - ROW + 26.0


def _folded(ideals: Sequence[Ideal], left: float, top: float, room: float) -> tuple[list[Mark], float, float]:
    sizes = Counter(map(len, ideals))
    longest = min(300.0, room - 150) / max(sizes.values())
    marks: list[Mark] = []
    for size, count in sizes.items():
        y = top + (max(sizes) - size) * 30
        w = max(3.0, longest * count)
        tip = f"{written(count)} ideals of {size} nodes"
        marks.append(Mark(f"l{size}", "text", left, y, 70, 22, text=f"{size} nodes", anchor="left", look="quiet"))
        marks.append(Mark(f"s{size}", "box", left + 76, y, w, 22, look="soft", tip=tip))
        marks.append(Mark(f"c{size}", "text", left + 84 + w, y, 60, 22, text=written(count), anchor="left"))
    return marks, left + min(450.0, room), top + len(sizes) * 30


def lattice_scene(
    problem: SmallProblem,
    ideals: Sequence[Ideal],
    device_of: Mapping[int, int] | None = None,
    looks: Mapping[str, str] | None = None,
) -> Scene:
    """Return the graph beside its ideals; pointing at an ideal lights its nodes, at a node the ideals that hold it.

    `device_of` colours nodes, `looks` says how marks look that are special.
    """
    graph: DnnGraph = problem.graph
    nodes, width, height = graph_marks(graph, problem.deployment, device_of, transfers=False)
    marks, right, below = lattice_marks(problem, ideals, width + LATTICE_GAP, 8.0)
    links: dict[str, list[str]] = {}
    if len(ideals) <= MOST_DRAWN:
        links = {ideal_id(ideal): [f"n{v}" for v in sorted(ideal)] for ideal in ideals}
        links |= {f"n{v}": [ideal_id(ideal) for ideal in ideals if v in ideal] for v in graph.node_by_id}

    def looking(all_marks: Sequence[Mark]) -> tuple[Mark, ...]:
        return tuple(replace(mark, look=(looks or {}).get(mark.id, mark.look)) for mark in all_marks)

    # Below each other, both in the middle.
    small, short, low = graph_marks(graph, problem.deployment, device_of, transfers=False, spacing=TIGHT)
    diagram, end, end_below = lattice_marks(problem, ideals, MARGIN, low + LATTICE_GAP / 2, NARROW - 2 * MARGIN)
    wide = max(short, end + MARGIN)
    turned = (*moved(small, (wide - short) / 2), *moved(diagram, (wide - end - MARGIN) / 2))
    return Scene(
        right + 10,
        max(height, below + 8),
        (*nodes, *looking(marks)),
        f"A graph of {len(graph.nodes)} nodes beside its {len(ideals)} ideals, smaller ones below",
        links=links,
        narrow=Narrow(wide, end_below + 8, looking(turned)),
    )


def moved(marks: Sequence[Mark], right: float) -> list[Mark]:
    """Return marks further to the right."""
    return [
        replace(mark, x=mark.x + right, x2=mark.x2 + right, cx=None if mark.cx is None else mark.cx + right)
        for mark in marks
    ]
