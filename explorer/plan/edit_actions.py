"""What hand edits do: an event of the picture is applied, checked and told of.

An edit comes as an event and is applied before the page is drawn again (`take_edit`), so that one run of the page shows
plan and message. `explorer.edits.history` decides what an edit does to a history; repairs and solves are asked for
here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from explorer.edits import history as edits
from explorer.edits.assessment import assess
from explorer.edits.history import History, Outcome, Proof
from explorer.jobs.pool import JobState, Question, Snapshot
from explorer.jobs.server_pool import solver_pool
from explorer.plan.current_plan import end_for_another
from explorer.plan.edited_plan import (
    edited_plan,
    elsewhere_for,
    history_of,
    proof_with_pins,
    reference_plan,
    resolved_for,
    say,
    why_not,
)
from explorer.state import session, widgets
from explorer.state.choice import Choice
from explorer.state.edits import context, forget_history, history_for, last_outcome, remember_history
from explorer.state.records import Plan, Run
from explorer.words.wording import differences
from solvers.baselines.table import BASELINES
from solvers.milp.repair_records import Repair, RepairQuestion
from solvers.model.costs import Objective
from solvers.model.errors import PlacementError
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.processes.worker_processes import WorkerLostError, WorkerStoppedError
from solvers.quantities import counted, milliseconds

PICTURE = "picture"
"""Key of the component that sends edits."""
REPAIR = "solvers.milp.repair:answer"
"""What a solver process is asked for."""
REPAIR_SECONDS = 8.0
REPAIR_WAIT_S = 20.0
"""How long the page waits for it besides: for its turn, and for a process to be ready."""
RESOLVE_WAIT_S = 1.0
"""How long the page waits for a solve of the rest before it shows it running: with the DP most are over by then."""
VALUE_NAMES = {Objective.THROUGHPUT: "max-load", Objective.GPIPE: "GPipe time", Objective.LATENCY: "latency"}


def take_edit() -> None:
    """Apply the edit that the picture has sent; the callback of its trigger."""
    state = widgets.value(PICTURE)
    event = state.get("edit") if isinstance(state, Mapping) else getattr(state, "edit", None)
    known = context()
    if not isinstance(event, Mapping) or known is None:
        return
    choice, plan = known
    if plan is None or event.get("graph") != plan.graph.digest:
        say(Outcome(False, "The graph has changed since this was asked for; make the edit again on what is shown now."))
        return
    say(apply_edit(choice, plan, event))


def apply_edit(choice: Choice, plan: Plan, event: Mapping[str, Any]) -> Outcome:
    """Apply an edit to what is shown and return what came of it; the event is checked, for it comes from outside."""
    op, nodes, device = event.get("op"), event.get("nodes", []), event.get("device")
    if not isinstance(op, str) or op not in OPERATIONS:
        return Outcome(False, "This edit is not known.")
    if not isinstance(nodes, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in nodes):
        return Outcome(False, "The edit names no nodes.")
    if reason := why_not(choice, plan):
        return Outcome(False, reason)
    history = history_of(choice)
    if history is None:
        if op in ("undo", "redo", "reset"):
            return Outcome(False, f"There is nothing to {op}.")
        history = edits.begin(plan.loaded.graph, plan.deployment, plan.split)
    device = device if isinstance(device, int) and not isinstance(device, bool) else -1
    return OPERATIONS[op](choice, plan, history, nodes, device)


def take_answer(run: Run, snapshot: Snapshot, choice: Choice) -> None:
    """Take over the answer of a solve with pins: as a step if it has a plan, as a message in any case.

    The answer is to the inputs as they were when the solve began; the message says what has changed up to `choice`.
    """
    history = history_for(run.loaded.graph.digest)
    if history is None:
        return
    question, result = snapshot.question, snapshot.result
    if edits.resolve_places(history, question.deployment).pins != question.pins:
        say(Outcome(False, "Pins have changed since the rest was re-solved; re-solve again."))
        return
    if snapshot.state is JobState.FAILED or result is None:
        say(Outcome(False, snapshot.error or "The solve ended without an answer."))
        return
    if result.split is None:
        what = "No plan honours the pins" if result.status is SolveStatus.INFEASIBLE else "Nothing was found in time"
        reason = f"{what}: {_lower(result.message)}" if result.message else f"{what}."
        say(Outcome(False, f"{reason}{_since(run, question, choice)}"))
        return
    pinned = counted(len(question.pins.device_of), "pinned node")
    what = f"Re-solved the rest around {pinned}: {milliseconds(result.value_ms)}, {proof_with_pins(result)}"
    proven = Proof(question, result)
    remember_history(edits.take_over(history, question.deployment, result.split, what, proven))
    note = f" {result.message}" if result.message else ""
    say(Outcome(True, f"{what}.{note}{_since(run, question, choice)}"))


def _since(run: Run, question: Question, choice: Choice) -> str:
    """Say which inputs have changed since a solve with pins began; empty when none of its graph have."""
    if run.loaded.graph.digest != choice.loaded.graph.digest:
        return ""
    asked = choice.question
    same = replace(question, pins=asked.pins, method=asked.method, time_limit_s=asked.time_limit_s, gap=asked.gap)
    changed = differences((same, run.graph), (asked, choice.graph))
    return f" That was for the inputs before these changes: {', '.join(changed)}." if changed else ""


def _move(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    return _changed(choice, plan, *edits.move(history, plan.graph, plan.deployment, nodes, device))


def _pin(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    return _changed(choice, plan, *edits.pin(history, plan.graph, choice.deployment, nodes, elsewhere_for(choice)))


def _unpin(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    return _changed(choice, plan, *edits.unpin(history, plan.graph, nodes))


def _together(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    elsewhere = elsewhere_for(choice)
    return _changed(choice, plan, *edits.keep_together(history, plan.graph, choice.deployment, nodes, elsewhere))


def _undo(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    return _changed(choice, plan, *edits.undo(history))


def _redo(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    return _changed(choice, plan, *edits.redo(history))


def _reset(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    _cancel_pinned_solve()
    forget_history(history.graph_digest)
    return Outcome(True, f"All edits are dropped ({counted(history.at, 'step')}); the solver's plan is back.")


def _repair(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    resolved = resolved_for(choice, history)
    family = choice.question.family if choice.question.objective is not Objective.LATENCY else Family.FREE
    solved = reference_plan(choice)
    known = None if solved is None else solved.split.on(plan.deployment)
    question = RepairQuestion(plan.graph, plan.deployment, plan.split, family, resolved.pins, known, REPAIR_SECONDS)
    pool = solver_pool()
    call = pool.call(session.session_id(), REPAIR, question, REPAIR_SECONDS)
    try:
        answer: Repair = call.future.result(REPAIR_SECONDS + REPAIR_WAIT_S)
    except TimeoutError:
        waits = pool.waits_for(call)
        pool.drop(call)
        said = " ".join(filter(None, ("No repair came in time.", waits, "Try again, or re-solve the rest.")))
        return Outcome(False, said)
    except WorkerLostError:
        return Outcome(False, "The process that looked for a repair was killed; try again, or re-solve the rest.")
    except (PlacementError, WorkerStoppedError) as error:
        return Outcome(False, str(error))
    if answer.split is None or not answer.moved:
        return Outcome(False, answer.message)
    what = answer.message.rstrip(".")
    return _changed(
        choice, plan, edits.take_over(history, plan.deployment, answer.split, what), Outcome(True, f"{what}.")
    )


def _resolve(choice: Choice, plan: Plan, history: History, nodes: list[int], device: int) -> Outcome:
    question = choice.question
    if question.objective is Objective.LATENCY:
        return Outcome(
            False,
            "Pins are not supported for the latency of one micro-batch; choose throughput to re-solve around them.",
        )
    note = ""
    resolved = resolved_for(choice, history)
    if not resolved.pins:
        moved = history.moved_by_hand - resolved.homeless
        if not moved:
            gone = " on the devices that are there" if resolved.homeless else ""
            return Outcome(
                False, f"Nothing is pinned or moved by hand{gone}. Pin what should stay, then re-solve the rest."
            )
        history, _ = edits.pin(history, plan.graph, choice.deployment, moved, elsewhere_for(choice))
        remember_history(history)
        stay = "it stays" if len(moved) == 1 else "they stay"
        note = f"{counted(len(moved), 'moved node')} pinned, so that {stay}. "
        resolved = resolved_for(choice, history)
    method = "auto" if question.method in BASELINES else question.method
    asked = replace(question, pins=resolved.pins, method=method)
    run = session.run()
    if run is not None:
        end_for_another(run)
    job = solver_pool().start(session.session_id(), asked, choice.graph, resolved.split)
    session.remember_run(Run(job, choice.loaded, choice.graph, is_live=False))
    snapshot = job.wait(RESOLVE_WAIT_S)
    if not snapshot.state.is_over:
        return Outcome(True, f"{note}Re-solving the rest.")
    session.remember_run(None)
    take_answer(Run(job, choice.loaded, choice.graph, is_live=False), snapshot, choice)
    outcome = last_outcome()
    return Outcome(True, note) if outcome is None else replace(outcome, message=note + outcome.message)


Operation = Callable[[Choice, Plan, History, list[int], int], Outcome]
OPERATIONS: dict[str, Operation] = {
    "move": _move,
    "pin": _pin,
    "unpin": _unpin,
    "together": _together,
    "undo": _undo,
    "redo": _redo,
    "repair": _repair,
    "resolve": _resolve,
    "reset": _reset,
}
"""What the picture may ask for."""


def _changed(choice: Choice, plan: Plan, history: History, outcome: Outcome) -> Outcome:
    """Keep a history if the edit was applied, and add to its message what came of it."""
    if not outcome.applied:
        return outcome
    remember_history(history)
    if _cancel_pinned_solve():  # its answer would take this edit back
        outcome = replace(outcome, message=f"{outcome.message} The solve of the rest was ended.")
    after = edited_plan(choice)
    split = after.split if after is not None else None
    if split is None or split == plan.split:
        return outcome
    now = assess(
        choice.graph,
        choice.deployment,
        split,
        before=plan.split.on(choice.deployment),
        objective=choice.question.objective,
        asked=choice.question.family,
    )
    parts = [outcome.message]
    if now.change:
        name = VALUE_NAMES[choice.question.objective]
        # A short sentence takes the change in, a long one is followed by it.
        is_short = ":" not in outcome.message and ";" not in outcome.message
        parts = (
            [f"{outcome.message.rstrip('.')}: {name} {now.change}."]
            if is_short
            else [outcome.message, f"{name[0].upper()}{name[1:]} {now.change}."]
        )
    parts += [f"{problem}." for problem in now.problems[:3]]
    if len(now.problems) > 3:
        parts.append(f"{len(now.problems) - 3} more rules are broken.")
    return Outcome(True, " ".join(parts))


def _cancel_pinned_solve() -> bool:
    """End the solve with pins that runs, and forget it; whether there was one."""
    run = session.run()
    if run is None or not run.job.snapshot().question.pins:
        return False
    run.job.cancel()
    session.remember_run(None)
    return True


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
