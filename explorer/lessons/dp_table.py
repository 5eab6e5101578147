"""The dynamic program as a film: the table fills cell by cell, then the path is traced back and colours the graph."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from explorer.lessons.graphs import colours, fold_of, graph_marks, set_text
from explorer.lessons.lattice import LATTICE_GAP, ideal_id, lattice_marks
from explorer.lessons.scene import Change, Frame, Mark, Narrow, Scene
from solvers.quantities import counted, number
from solvers.teaching.dynamic_program import Candidate, Cell, On, State, filled_cells, split_of, traced_back
from solvers.teaching.ideals import ideals_of
from solvers.teaching.small import SmallProblem

CELL_H, ROW_H = 32.0, 50.0
"""A row is higher than its cells, so that the winners' arrows are seen between the rows."""
UPRIGHT_W, UPRIGHT_GAP, UPRIGHT_ROW = 440.0, 26.0, 34.0
"""The table on a narrow page: its width, the room of the arrows between its columns, and the height of a row."""
MOST_SAID = 4
"""Candidates that are written out; of more, the best ones."""
NO_PLAN = "–"


def devices_text(accelerators: int, cpus: int) -> str:
    """Write how many devices a row has.

    >>> devices_text(2, 0), devices_text(1, 1)
    ('2 acc.', '1 acc. + 1 CPU')
    """
    return f"{accelerators} acc." + (f" + {counted(cpus, 'CPU')}" if cpus else "")


def state_id(state: State) -> str:
    """Return what the mark of a cell is called."""
    return f"d{state.accelerators}_{state.cpus}_{ideal_id(state.ideal)}"


def arrow_id(state: State) -> str:
    """Return what the arrow to a cell is called, which comes from the cell that its winner continues."""
    return f"w{state_id(state)}"


def candidate_text(candidate: Candidate) -> str:
    """Write a candidate with its numbers: the larger of the cell before and the stage on one device more."""
    before = candidate.before
    stage = "holds nothing, 0" if not candidate.stage else f"load of {set_text(candidate.stage)}"
    cell = f"D({set_text(before.ideal)}, {devices_text(before.accelerators, before.cpus)})"
    cell += " has no plan" if candidate.before_ms is None else f" = {number(candidate.before_ms)}"
    if candidate.stage_ms is None:
        return f"max( {cell},  {stage} does not fit )"
    own = stage if not candidate.stage else f"{stage} = {number(candidate.stage_ms)}"
    if candidate.on is On.CPU:
        own = own.replace("load of", "CPU time of")
    return f"max( {cell},  {own} )" + ("" if candidate.value_ms is None else f" = {number(candidate.value_ms)}")


def said_of(cell: Cell) -> tuple[str | tuple[str, str], ...]:
    """Return the recurrence with the numbers of a cell, the winner marked."""
    state = cell.state
    what = f"D({set_text(state.ideal)}, {devices_text(state.accelerators, state.cpus)})"
    if not cell.candidates:
        value = (
            "0: nothing is placed, on nothing" if cell.value_ms == 0 else "impossible: there are nodes and no device"
        )
        return ((f"{what} is {value}", "strong"),)
    ranked = sorted(
        cell.candidates, key=lambda c: (c.value_ms is None, c.value_ms or 0.0, cell.candidates.index(c) != cell.best)
    )
    lines: list[str | tuple[str, str]] = [
        (f"{what} = the least of {counted(len(ranked), 'candidate')} = {number(cell.value_ms)}", "strong")
        if cell.value_ms is not None
        else (f"{what} has no plan", "strong")
    ]
    for candidate in ranked[:MOST_SAID]:
        mark = "→ " if cell.best is not None and candidate is cell.candidates[cell.best] else "   "
        lines.append((mark + candidate_text(candidate), "" if mark.strip() else "quiet"))
    if len(ranked) > MOST_SAID:
        lines.append((f"   and {len(ranked) - MOST_SAID} more, none better", "quiet"))
    return tuple(lines)


def dp_scene(problem: SmallProblem, *, film: str) -> Scene:
    """Return the graph, the table over its ideals, and one frame a cell; then the way back, stage by stage."""
    ideals = ideals_of(problem)
    cells = list(filled_cells(problem))
    by_state = {cell.state: cell for cell in cells}
    nodes, width, below = graph_marks(problem.graph, problem.deployment)
    rows = list(dict.fromkeys((cell.state.accelerators, cell.state.cpus) for cell in cells))
    is_chain = len(ideals) == len(problem.order) + 1
    marks: list[Mark] = list(nodes)
    chain_fold = fold_of(problem.graph)
    fold = None if chain_fold is None else (chain_fold[0], below + 8)
    table, wide, low = table_marks(ideals, rows, below + 16)
    upright, wide_upright, low_upright = upright_marks(ideals, rows, below + 16)
    arrows = winner_arrows({name.id: name for name in upright}, cells, across=True)
    narrow = Narrow(max(width, wide_upright), low_upright, (*nodes, *arrows, *upright), fold)
    width = max(width, wide)
    if not is_chain:
        beside, right, down = lattice_marks(problem, ideals, narrow.width + LATTICE_GAP / 2, 8.0)
        end = max(low_upright, down + 8)
        fold_at = (narrow.width, end)
        narrow = Narrow(right + 10, end, (*narrow.marks, *beside), fold_at)
        # Beside graph and table, so that all three are seen at once.
        left = width + LATTICE_GAP
        lattice, right, _ = lattice_marks(problem, ideals, left, 8.0)
        marks += lattice
        width = right + 10
        low = max(low, max(m.y + m.h for m in lattice) + 8)
        fold = (left, low)
    marks += winner_arrows({name.id: name for name in table}, cells)
    marks += table
    frames: list[Frame] = [Frame(("Every cell is empty. Press Play, or go step by step.",))]
    marked: list[str] = []
    for cell in cells:
        changes: dict[str, Change] = {mark: {"look": ""} for mark in marked}
        here = state_id(cell.state)
        best = None if cell.winner is None else state_id(cell.winner.before)
        marked = []
        for candidate in cell.candidates:
            if candidate.value_ms is not None:
                name = state_id(candidate.before)
                changes[name] = {"look": "candidate"}
                marked.append(name)
        if best is not None:
            changes[best] = {"look": "winner"}
            changes[arrow_id(cell.state)] = {"look": "now"}
            marked.append(arrow_id(cell.state))
        changes[here] = {"look": "now", "text": NO_PLAN if cell.value_ms is None else number(cell.value_ms)}
        marked.append(here)
        if not is_chain:
            changes[ideal_id(cell.state.ideal)] = {"look": "now"}
            marked.append(ideal_id(cell.state.ideal))
        stage = frozenset() if cell.winner is None else cell.winner.stage
        for v in problem.order:
            changes[f"n{v}"] = {"look": "winner" if v in stage else "" if v in cell.state.ideal else "off"}
        frames.append(Frame(said_of(cell), changes))
    frames += _way_back(problem, by_state, marked, has_diagram=not is_chain)
    return Scene(
        width,
        low,
        tuple(marks),
        f"The table of the dynamic program: {len(ideals)} ideals, {counted(len(rows), 'row')} of devices",
        tuple(frames),
        film=film,
        pace=650.0,
        fold=fold,
        narrow=narrow,
    )


def table_marks(
    ideals: Sequence[frozenset[int]], rows: Sequence[tuple[int, int]], top: float
) -> tuple[list[Mark], float, float]:
    """Return the marks of a table of ideals and devices, and where it ends to the right and below."""
    texts = [set_text(ideal) for ideal in ideals]
    widths = [max(48.0, 16 + 7.2 * len(text)) for text in texts]
    starts = [118.0, *(118.0 + total for total in accumulate(widths))]
    marks = [Mark("corner", "text", 4, top, 110, CELL_H, text="devices", anchor="left", look="quiet")]
    for i, text in enumerate(texts):
        marks.append(Mark(f"head{i}", "text", starts[i], top, widths[i], CELL_H, text=text, look="head-cell", size=12))
    for r, (j, c) in enumerate(rows):
        y = top + CELL_H + ROW_H * r
        text = devices_text(j, c)
        marks.append(Mark(f"row{r}", "text", 4, y, 110, CELL_H, text=text, anchor="left", look="head-cell"))
        for i, ideal in enumerate(ideals):
            tip = f"D({texts[i]}, {text})"
            name = state_id(State(ideal, j, c))
            marks.append(Mark(name, "box", starts[i] + 1, y + 1, widths[i] - 2, CELL_H - 2, tip=tip))
    return marks, starts[-1] + 8, top + CELL_H + ROW_H * len(rows) + 8


def upright_marks(
    ideals: Sequence[frozenset[int]], rows: Sequence[tuple[int, int]], top: float
) -> tuple[list[Mark], float, float]:
    """Return the marks of the table for a narrow page, a row an ideal, and where it ends to the right and below."""
    texts = [set_text(ideal) for ideal in ideals]
    left = 14 + 7.2 * max(map(len, texts))
    gap = UPRIGHT_GAP if len(rows) <= 4 else UPRIGHT_GAP / 2
    w = max(36.0, min(64.0, (UPRIGHT_W - left) / len(rows) - gap))
    marks = [Mark("corner", "text", 4, top, left - 4, CELL_H, text="ideal", anchor="left", look="quiet")]
    for c, (accelerators, cpus) in enumerate(rows):
        x, on_cpus = left + c * (w + gap), f"+ {counted(cpus, 'CPU')}" if cpus else ""
        text = devices_text(accelerators, 0)
        marks.append(Mark(f"row{c}", "text", x, top, w, CELL_H, text=text, sub=on_cpus, look="head-cell", size=12))
    for i, ideal in enumerate(ideals):
        y = top + CELL_H + 4 + UPRIGHT_ROW * i
        marks.append(
            Mark(f"head{i}", "text", 4, y, left - 8, CELL_H - 2, text=texts[i], anchor="left", look="head-cell")
        )
        for c, (accelerators, cpus) in enumerate(rows):
            tip = f"D({texts[i]}, {devices_text(accelerators, cpus)})"
            name = state_id(State(ideal, accelerators, cpus))
            marks.append(Mark(name, "box", left + c * (w + gap), y, w, CELL_H - 2, tip=tip))
    return marks, left + len(rows) * (w + gap), top + CELL_H + 4 + UPRIGHT_ROW * len(ideals) + 4


def winner_arrows(boxes: Mapping[str, Mark], cells: Sequence[Cell], *, across: bool = False) -> list[Mark]:
    """Return an arrow to every cell from the one that its winner continues, hidden until the cell is filled.

    They go from row to row, or `across` from column to column.
    """
    marks: list[Mark] = []
    for cell in cells:
        if cell.winner is not None:
            begin, end = boxes[state_id(cell.winner.before)], boxes[state_id(cell.state)]
            if across:
                way = (begin.x + begin.w, begin.y + begin.h / 2, end.x - 1, end.y + end.h / 2)
            else:
                way = (begin.x + begin.w / 2, begin.y + begin.h, end.x + end.w / 2, end.y - 1)
            x, y, x2, y2 = way
            marks.append(Mark(arrow_id(cell.state), "arrow", x, y, x2=x2, y2=y2, look="hidden"))
    return marks


def _way_back(
    problem: SmallProblem, cells: dict[State, Cell], marked: Sequence[str], *, has_diagram: bool
) -> list[Frame]:
    changes: dict[str, Change] = {mark: {"look": ""} for mark in marked}
    changes |= {f"n{v}": {"look": ""} for v in problem.order}
    path = list(traced_back(problem, cells))
    if not path:
        return [Frame((("No plan fits on these devices: the last cell is empty.", "strong"),), changes)]
    split = split_of(problem, cells)
    assert split is not None
    device_of = split.on(problem.deployment).device_of()
    frames: list[Frame] = []
    for cell in path:
        changes = {**changes, state_id(cell.state): {"look": "path"}}
        if has_diagram:
            changes[ideal_id(cell.state.ideal)] = {"look": "path"}
        if cell.winner is not None:
            changes[arrow_id(cell.state)] = {"look": "path"}
        winner = cell.winner
        if winner is None:
            say: tuple[str | tuple[str, str], ...] = (
                ("The way back has come to the empty ideal. The colours are the plan.", "strong"),
                f"Its largest load is {number(path[0].value_ms)} ms, the number in the last cell.",
            )
        else:
            stage = set_text(winner.stage)
            say = (
                (f"Way back from {number(cell.value_ms)}: the winner there put {stage} on one {winner.on}.", "strong")
                if winner.stage
                else (f"Way back from {number(cell.value_ms)}: one {winner.on} stays empty.", "strong"),
                f"Before it: D({set_text(winner.before.ideal)}, "
                f"{devices_text(winner.before.accelerators, winner.before.cpus)}).",
            )
            for v in winner.stage:
                changes[f"n{v}"] = {"look": "path", **colours(device_of[v], problem.deployment)}
        frames.append(Frame(say, changes))
        changes = {}
    return frames
