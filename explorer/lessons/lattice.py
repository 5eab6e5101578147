"""The ideals of a graph as a Hasse diagram: smaller ones below, a line wherever one node is added."""

from collections import Counter
from collections.abc import Sequence

from explorer.lessons.graphs import graph_marks, set_text
from explorer.lessons.scene import Mark, Scene
from solvers.model.graph import DnnGraph
from solvers.quantities import count as written
from solvers.teaching.ideals import cover_pairs
from solvers.teaching.small import Ideal, SmallProblem

MOST_DRAWN = 200
"""Ideals that are drawn one by one; more are drawn as a box a size."""
ROW = 62.0
LATTICE_GAP = 30.0
"""Between a graph and the diagram of its ideals."""


def ideal_id(ideal: Ideal) -> str:
    """Return what the mark of an ideal is called."""
    return "i" + "_".join(map(str, sorted(ideal)))


def lattice_marks(
    problem: SmallProblem, ideals: Sequence[Ideal], left: float, top: float
) -> tuple[list[Mark], float, float]:
    """Return the marks of the Hasse diagram, and where it ends to the right and below."""
    if len(ideals) > MOST_DRAWN:
        return _folded(ideals, left, top)
    by_size: dict[int, list[Ideal]] = {}
    for ideal in ideals:
        by_size.setdefault(len(ideal), []).append(ideal)
    widest = max(map(len, by_size.values()))
    longest = max(len(set_text(ideal)) for ideal in ideals)
    w = max(34.0, min(96.0, 12 + 7.0 * longest)) if widest <= 12 else 26.0
    pitch = w + (14 if widest <= 12 else 5)
    width = max(widest * pitch, 150.0)
    rows = len(by_size)
    at: dict[Ideal, tuple[float, float]] = {}
    for size, row in by_size.items():
        begin = left + (width - len(row) * pitch) / 2
        for i, ideal in enumerate(row):
            at[ideal] = begin + i * pitch, top + (rows - 1 - size) * ROW
    marks: list[Mark] = []
    for small, large in cover_pairs(problem, ideals):
        (x, y), (x2, y2) = at[small], at[large]
        (v,) = large - small
        name = f"h{ideal_id(small)}_{v}"
        marks.append(Mark(name, "line", x + w / 2, y, x2=x2 + w / 2, y2=y2 + 26))
    for ideal, (x, y) in at.items():
        tip = f"The ideal {set_text(ideal)}"
        text = set_text(ideal) if widest <= 12 else ""
        marks.append(Mark(ideal_id(ideal), "box", x, y, w, 26, text=text, tip=tip, r=8, focusable=True, size=12))
    return marks, left + width, top + rows * ROW


def _folded(ideals: Sequence[Ideal], left: float, top: float) -> tuple[list[Mark], float, float]:
    sizes = Counter(map(len, ideals))
    most = max(sizes.values())
    marks: list[Mark] = []
    for size, count in sizes.items():
        y = top + (max(sizes) - size) * 30
        marks.append(Mark(f"l{size}", "text", left, y, 70, 22, text=f"{size} nodes", anchor="left", look="quiet"))
        marks.append(
            Mark(
                f"s{size}",
                "box",
                left + 76,
                y,
                max(3.0, 300 * count / most),
                22,
                look="soft",
                tip=f"{written(count)} ideals of {size} nodes",
            )
        )
        x = left + 84 + max(3.0, 300 * count / most)
        marks.append(Mark(f"c{size}", "text", x, y, 60, 22, text=written(count), anchor="left"))
    return marks, left + 450, top + len(sizes) * 30


def lattice_scene(problem: SmallProblem, ideals: Sequence[Ideal]) -> Scene:
    """Return the graph beside its ideals; pointing at an ideal lights its nodes, at a node the ideals that hold it."""
    graph: DnnGraph = problem.graph
    nodes, width, height = graph_marks(graph, problem.deployment, transfers=False)
    marks, right, below = lattice_marks(problem, ideals, width + LATTICE_GAP, 8.0)
    links: dict[str, list[str]] = {}
    if len(ideals) <= MOST_DRAWN:
        links = {ideal_id(ideal): [f"n{v}" for v in sorted(ideal)] for ideal in ideals}
        links |= {f"n{v}": [ideal_id(ideal) for ideal in ideals if v in ideal] for v in graph.node_by_id}
    return Scene(
        right + 10,
        max(height, below),
        (*nodes, *marks),
        f"A graph of {len(graph.nodes)} nodes beside its {len(ideals)} ideals, smaller ones below",
        links=links,
        fold=(width, max(height, below)),
    )
