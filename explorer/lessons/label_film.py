"""Labels as a film, on the table of the dynamic program: which cells are ever needed, and why a label is dropped."""

from explorer.lessons.dp_table import devices_text, state_id, table_marks, upright_marks
from explorer.lessons.graphs import colours, fold_of, graph_marks, set_text
from explorer.lessons.scene import Change, Frame, Narrow, Scene
from solvers.quantities import counted, number
from solvers.teaching.dynamic_program import On, State
from solvers.teaching.ideals import ideals_of
from solvers.teaching.labels import Fate, Label, LabelStep, best_label, label_steps, least_left_ms
from solvers.teaching.small import SmallProblem

DROPPED = "✕"


def _state(label: Label) -> State:
    return State(label.ideal, label.accelerators, label.cpus)


def reason(problem: SmallProblem, step: LabelStep) -> str:
    """Return why a label was kept or dropped, with its numbers."""
    label = step.label
    known = "" if step.known_ms is None else f"{number(step.known_ms)} ms"
    if step.fate is Fate.WORSE:
        return f"Dropped: a plan of {known} is known, and this is no better already."
    if step.fate is Fate.HOPELESS:
        left_ms = least_left_ms(problem, label)
        if left_ms is None:
            return "Dropped: there are nodes left, and no device for them."
        return f"Dropped: what is left takes at least {number(left_ms)} ms on the devices left; {known} is known."
    if step.fate is Fate.DOMINATED and step.by is not None:
        other = devices_text(step.by.accelerators, step.by.cpus)
        return f"Dropped: it is dominated. The same nodes are placed on {other} with {number(step.by.value_ms)} ms."
    return "Kept: a plan, the best so far." if label.ideal == problem.nodes else "Kept."


def label_scene(problem: SmallProblem, *, film: str) -> Scene:
    """Return the graph, the table with its cells empty, and one frame a label; then the plan of the best one."""
    ideals = ideals_of(problem)
    nodes, width, below = graph_marks(problem.graph, problem.deployment)
    deployment = problem.deployment
    pairs = [(j, c) for j in range(deployment.num_accelerators + 1) for c in range(deployment.num_cpus + 1)]
    rows = sorted(pairs, key=lambda jc: (sum(jc), jc[1]))
    table, wide, low = table_marks(ideals, rows, below + 16)
    upright, wide_upright, low_upright = upright_marks(ideals, rows, below + 16)
    chain_fold = fold_of(problem.graph)
    fold = None if chain_fold is None else (chain_fold[0], below + 8)
    narrow = Narrow(max(width, wide_upright), low_upright, (*nodes, *upright), fold)
    start = state_id(State(frozenset(), 0, 0))
    frames = [
        Frame(("One label to begin with: nothing is placed, on no device, and no load.",), {start: {"text": "0"}})
    ]
    marked: list[str] = []
    kept = {start}
    steps = list(label_steps(problem, from_line=False))
    for step in steps:
        label = step.label
        here = state_id(_state(label))
        changes: dict[str, Change] = {mark: {"look": ""} for mark in marked}
        if label.before is not None:
            before = state_id(_state(label.before))
            changes[before] = {"look": "winner"}
            marked = [before, here]
        if step.fate is Fate.KEPT:
            kept.add(here)
            changes[here] = {"look": "now", "text": number(label.value_ms)}
        elif here in kept:
            changes[here] = {"look": "bad"}
        else:
            changes[here] = {"look": "bad", "text": DROPPED}
        for v in problem.order:
            changes[f"n{v}"] = {"look": "winner" if v in label.stage else "" if v in label.ideal else "off"}
        device = "an accelerator" if label.on is On.ACCELERATOR else "a CPU"
        what = f"{set_text(label.ideal)} on {devices_text(label.accelerators, label.cpus)}"
        frames.append(
            Frame(
                (
                    (f"Label: {what}, largest load {number(label.value_ms)} ms", "strong"),
                    f"From the label of {set_text(label.ideal - label.stage)}: {set_text(label.stage)} on {device}.",
                    reason(problem, step),
                ),
                changes,
            )
        )
    best = best_label(problem, iter(steps))
    last: dict[str, Change] = {mark: {"look": ""} for mark in (*marked, *(f"n{v}" for v in problem.order))}
    if best is None:
        frames.append(Frame((("No plan fits on these devices.", "strong"),), last))
    else:
        touched = len({state_id(_state(step.label)) for step in steps} | {start})
        text = f"No label is left to extend: {number(best.value_ms)} ms is the optimum."
        cells = f"Of {counted(len(ideals) * len(rows), 'cell')} of the table {touched} were touched."
        at: Label | None = best
        while at is not None and at.before is not None:
            last[state_id(_state(at))] = {"look": "path"}
            device_number = (
                at.accelerators - 1 if at.on is On.ACCELERATOR else deployment.num_accelerators + at.cpus - 1
            )
            last |= {f"n{v}": {"look": "path", **colours(device_number, deployment)} for v in at.stage}
            at = at.before
        frames.append(Frame(((text, "strong"), cells), last))
    alt = f"Labels on the table of {len(ideals)} ideals and {counted(len(rows), 'row')} of devices"
    size = max(width, wide), low
    return Scene(*size, (*nodes, *table), alt, tuple(frames), film=film, pace=900.0, narrow=narrow)
