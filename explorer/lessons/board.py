"""A board: the learner places nodes by clicking, dragging or keys, and sees loads and violations as they change.

Placing asks the server, which judges the placement with the evaluator of the app.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import streamlit as st

from explorer.lessons.desk import Desk, Setting
from explorer.lessons.graphs import TIGHT, USUAL, fold_of, graph_marks, narrow_graph
from explorer.lessons.parts import show_loads
from explorer.lessons.scene import Scene, show_scene
from explorer.state import lessons as state
from explorer.state.query import BoardResult
from explorer.state.records import Subject
from explorer.words.wording import plain
from solvers.model.costs import split_costs
from solvers.model.graph import DnnGraph, Edge
from solvers.model.split import Split, check_split
from solvers.quantities import milliseconds


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the learner has put the nodes, with which device the next click places, and the hints taken.

    `submitted` is the placement that was submitted first, the one that counts, and `submitted_ms` its time: afterwards
    the optimum may be known, so no later one takes its place. `awaits` names the board of the other player of a duel,
    who must have submitted before anything is shown.
    """

    device_of: Mapping[int, int]
    brush: int = 0
    hints: int = 0
    submitted: Mapping[int, int] | None = None
    submitted_ms: float | None = None
    awaits: str = ""

    def after_submitting(self, value_ms: float, awaits: str = "") -> "Placement":
        """Return the board after what stands on it was submitted; the first submission stays."""
        if self.submitted is not None:
            return self
        return replace(self, submitted=dict(self.device_of), submitted_ms=value_ms, awaits=awaits)


@dataclass(frozen=True, slots=True)
class Judged:
    """A full placement with its value in ms, and the sentences on what it violates."""

    split: Split
    value_ms: float
    violations: tuple[str, ...]


def placement_on(name: str) -> Placement:
    """Return what stands on a board."""
    known = state.board(name)
    return known if isinstance(known, Placement) else Placement({})


def is_decided(placed: Placement) -> bool:
    """Whether the solver's answer may be shown: this board has submitted, and so has the other one of a duel."""
    if placed.submitted is None:
        return False
    return not placed.awaits or placement_on(placed.awaits).submitted is not None


def submitted() -> tuple[BoardResult, ...]:
    """Return what was submitted on all boards that are decided, as an address has it."""
    return tuple(
        BoardResult(name, placed.hints, tuple(sorted(placed.submitted.items())))
        for name, placed in state.learning().boards.items()
        if isinstance(placed, Placement) and placed.submitted is not None and is_decided(placed)
    )


def take_over(result: BoardResult, subject: Subject, most_hints: int) -> None:
    """Put what was submitted elsewhere on its board, judged anew, unless something stands there or it is not valid."""
    if state.board(result.name) is not None:
        return
    placed = Placement(dict(result.device_of), hints=min(result.hints, most_hints))
    outcome = judged(subject, placed)
    if outcome is not None and not outcome.violations:
        state.remember_board(result.name, placed.after_submitting(outcome.value_ms))


def _valid_places(subject: Subject, placed: Placement) -> dict[int, int]:
    graph, deployment = subject.graph, subject.question.deployment
    return {v: d for v, d in placed.device_of.items() if v in graph.node_by_id and d < deployment.num_devices}


def judged(subject: Subject, placed: Placement) -> Judged | None:
    """Return what a placement is worth by the evaluator; None while nodes are missing."""
    graph, deployment = subject.graph, subject.question.deployment
    device_of = _valid_places(subject, placed)
    if len(device_of) < len(graph.nodes):
        return None
    split = Split.from_device_of(device_of, deployment)
    broken = check_split(graph, deployment, split, subject.question.family)
    value_ms = split_costs(graph, deployment, split).max_load_ms
    return Judged(split, value_ms, tuple(str(one.message) for one in broken))


def judged_so_far(subject: Subject, placed: Placement) -> tuple[DnnGraph, Judged] | None:
    """Return the part of the graph that is placed, and what it is worth alone; None while nothing is placed.

    Its loads are those of the placed nodes and of the tensors between them, and its violations those that no placement
    of the rest can mend: nodes that depend on each other through missing ones count as if they read each other.
    """
    graph, deployment = subject.graph, subject.question.deployment
    device_of = _valid_places(subject, placed)
    if not device_of:
        return None
    nodes = tuple(node for node in graph.nodes if node.id in device_of)
    part = DnnGraph(nodes, tuple(e for e in graph.edges if {e.source, e.target} <= device_of.keys()), graph.name)
    # For each missing node, the placed ones that it needs, through missing ones.
    needs: dict[int, set[int]] = {}
    for v in graph.topological_order:
        needs[v] = {u for read in graph.inputs[v] for u in ({read} if read in device_of else needs[read])}
    read = {(e.source, e.target) for e in part.edges}
    through = tuple(Edge(u, v) for v in device_of for u in sorted(needs[v]) if (u, v) not in read)
    ordered = DnnGraph(nodes, (*part.edges, *through), graph.name)
    split = Split.from_device_of(device_of, deployment)
    broken = check_split(ordered, deployment, split, subject.question.family)
    value_ms = split_costs(part, deployment, split).max_load_ms
    return part, Judged(split, value_ms, tuple(str(one.message) for one in broken))


def show_board(
    desk: Desk, setting: Setting, name: str, player: str = "", least_scale_ms: float = 0.0
) -> tuple[Judged | None, str]:
    """Draw a board; return what stands on it when all nodes are placed, and what is to be said of it.

    One of two that stand beside each other is the board of a `player`, and smaller. The bars of its loads end at
    `least_scale_ms` or later.
    """
    subject = desk.subject(setting)
    graph, deployment = subject.graph, subject.question.deployment
    placed = placement_on(name)
    names = [deployment.device_name(d) for d in range(deployment.num_devices)]
    brush = st.segmented_control(
        f"**{player}**: click places on" if player else "Click places on (or press the device's digit on a node)",
        range(len(names)),
        default=min(placed.brush, len(names) - 1),
        format_func=lambda d: f"{d + 1}: {names[d]}",
        required=True,
        key=f"{name}_brush",
    )
    if brush != placed.brush:
        placed = replace(placed, brush=brush)
        state.remember_board(name, placed)
    spacing = TIGHT if player else USUAL
    marks, width, height = graph_marks(graph, deployment, placed.device_of, spacing=spacing)
    picks = tuple(f"n{node.id}" for node in graph.nodes)
    alt = f"A board of {len(graph.nodes)} nodes; {len(placed.device_of)} of them are placed"
    narrow = narrow_graph(graph, deployment, placed.device_of)
    fold = fold_of(graph, spacing)
    scene = Scene(width, height, tuple(marks), alt, picks=picks, film=name, fold=fold, narrow=narrow)
    show_scene(scene, f"{name}_figure", lambda: _take_pick(name, f"{name}_figure", len(names)))
    outcome = judged(subject, placed)
    if outcome is not None:
        show_loads(desk, graph, deployment, outcome.split, least_scale_ms=least_scale_ms)
        _show_violations(outcome)
        said = "" if outcome.violations else f"Valid. Time per micro-batch: **{milliseconds(outcome.value_ms)}**."
        return outcome, said
    left = len(graph.nodes) - len(placed.device_of)
    waiting = f"{left} of {len(graph.nodes)} nodes are still to be placed."
    if (so_far := judged_so_far(subject, placed)) is None:
        return None, waiting
    part, standing = so_far
    show_loads(desk, part, deployment, standing.split, least_scale_ms=least_scale_ms)
    _show_violations(standing)
    return None, f"{waiting} The bars show what the others take."


def _show_violations(standing: Judged) -> None:
    if standing.violations:
        st.warning(plain(" ".join(standing.violations[:3])), icon=":material/block:")


def _take_pick(name: str, figure: str, num_devices: int) -> None:
    """Place what was just picked: on the device of the digit that was pressed, or of the brush."""
    ids, digit = state.picked(figure)
    placed = placement_on(name)
    device = placed.brush if digit is None else digit - 1
    nodes = [int(one[1:]) for one in ids if one.startswith("n") and one[1:].lstrip("-").isdigit()]
    if device < num_devices and nodes:
        state.remember_board(name, replace(placed, device_of={**placed.device_of, **dict.fromkeys(nodes, device)}))
