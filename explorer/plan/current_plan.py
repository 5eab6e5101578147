"""Which plan the page shows: one choice, made once a run of the page, that every part of it then takes."""

from dataclasses import replace

from explorer.elements.headline import Standing
from explorer.jobs.pool import JobState, Question, Snapshot
from explorer.plan.edited_plan import edited_plan
from explorer.state import session
from explorer.state.choice import Choice
from explorer.state.entries import by_entry
from explorer.state.records import Plan, Run
from solvers.model.costs import objective_value
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Split

RUNNING = " (running)"
"""What follows the method of a plan that a running solve may yet improve."""


def shown_plan(choice: Choice) -> Plan | None:
    """Return the plan to show for a choice, None when there is none for its graph.

    It is the plan as edited by hand if there are edits, else the best plan so far of a solve that runs on this very
    question, else the last plan of the chosen graph, which may answer earlier inputs: then its `question` differs from
    the choice's.
    """
    return edited_plan(choice) or incumbent_plan(choice) or last_plan(choice)


def standing_of(plan: Plan, choice: Choice) -> Standing:
    """Return what the numbers of a shown plan are: an answer to the choice, the best so far, or for earlier inputs."""
    if plan.question != choice.question:
        return Standing.STALE
    if plan.result.method.endswith(RUNNING):
        return Standing.SO_FAR
    # What was known of the question before stands until the solve that looks again ends, or has something better.
    may_improve = plan.result.status is not SolveStatus.OPTIMAL and _is_at_work(plan.question)
    return Standing.SO_FAR if may_improve else Standing.FINAL


def _is_at_work(question: Question) -> bool:
    """Whether a solve of this session waits or runs that answers a question."""
    run = session.run()
    if run is None:
        return False
    snapshot = run.job.snapshot()
    return snapshot.question == question and not snapshot.state.is_over


def last_plan(choice: Choice) -> Plan | None:
    """Return the last plan of the chosen graph, for whatever hardware; None if there is none yet."""
    return session.plan_of(choice.loaded)


def end_for_another(run: Run) -> None:
    """End a solve whose place another takes; its best plan and bound stay known, for it may be asked for again."""
    snapshot = run.job.cancel()
    result = snapshot.result
    if result is not None and (result.split is not None or result.lower_bound_ms is not None):
        is_answer = snapshot.state is JobState.DONE
        session.known_problems().take_in(snapshot.question, result, is_answer=is_answer)


def incumbent_plan(choice: Choice) -> Plan | None:
    """Return the best plan so far of the solve that runs on this question; None while there is none."""
    run = session.run()
    if run is None:
        return None
    snapshot = run.job.snapshot()
    if snapshot.question != choice.question or snapshot.best_split is None or snapshot.state.is_over:
        return None
    known = session.incumbent()
    if known is None or known.result.split is not snapshot.best_split or known.graph is not run.graph:
        known = plan_of_snapshot(run, snapshot, snapshot.best_split)
    elif known.result.lower_bound_ms != _bound_ms(snapshot, known.result.value_ms):
        # The same plan under a better bound: its value stands.
        bound_ms = _bound_ms(snapshot, known.result.value_ms)
        known = replace(known, result=replace(known.result, lower_bound_ms=bound_ms, runtime_s=snapshot.seconds))
    session.remember_incumbent(known)
    return known


def plan_of_snapshot(run: Run, snapshot: Snapshot, best: Split) -> Plan:
    """Return a plan of a running solve as of now, its value in ms computed afresh by the evaluator.

    Its status is FEASIBLE with the bound so far, whatever the gap: a running solve has proven nothing final.
    """
    question = snapshot.question
    value_ms = objective_value(run.graph, question.deployment, best, question.objective)
    result = SolveResult(
        status=SolveStatus.FEASIBLE,
        method=f"{question.method}{RUNNING}",
        objective=question.objective,
        family=question.family,
        split=best,
        value_ms=value_ms,
        lower_bound_ms=_bound_ms(snapshot, value_ms),
        runtime_s=snapshot.seconds,
    )
    split, deployment = by_entry(best, question.deployment)
    return Plan(question, run.loaded, run.graph, deployment, result, split)


def _bound_ms(snapshot: Snapshot, value_ms: float | None) -> float | None:
    """Return the bound so far, no higher than the value: when they meet they may differ in the last digit."""
    bound_ms = snapshot.lower_bound_ms
    return bound_ms if bound_ms is None or value_ms is None else min(bound_ms, value_ms)
