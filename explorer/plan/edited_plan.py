"""The hand-edited plan of this browser session: what it is, and what the picture shows of it.

The history belongs to the loaded graph and stays until Reset; hardware may change under it
(`explorer.edits.history.resolve_places`). `explorer.plan.edit_actions` applies what the picture asks for.
"""

from dataclasses import replace

from explorer.edits import history as edits
from explorer.edits.assessment import Assessment, assess, lower_bound_ms
from explorer.edits.history import History, Outcome, Place, Proof, Resolved
from explorer.edits.view import EditView
from explorer.jobs.pool import Question
from explorer.state import session
from explorer.state.choice import Choice
from explorer.state.edits import (
    context,
    history_for,
    last_outcome,
    made_of,
    outcome_graph,
    remember_context,
    remember_outcome,
    serial,
)
from explorer.state.records import Plan
from explorer.words.wording import proof
from solvers.model.costs import Objective
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus, relative_gap
from solvers.model.split import Family, Split
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import contract
from solvers.problem.pins import NO_PINS

METHOD = "hand edit"


def edited_plan(choice: Choice) -> Plan | None:
    """Return the hand-edited plan for a choice, None where nothing is edited.

    While a solver looks for the rest it is the best plan so far that honours the pins. A plan that violates a
    constraint has status UNKNOWN: its value is that of the loads alone.
    """
    history = history_of(choice)
    if history is None or not history.is_edited or not choice.deployment.num_devices:
        return None
    reference, incumbent = reference_plan(choice), _incumbent_of_pins(choice)

    def made() -> Plan:
        split = resolved_for(choice, history).split if incumbent is None else incumbent.on(choice.deployment)
        result = _result(choice, history, split, is_incumbent=incumbent is not None)
        return Plan(choice.question, choice.loaded, choice.graph, choice.deployment, result, split)

    # One run of the page asks several times, and one of a fragment again.
    return made_of("plan", (choice.question, choice.loaded), (history, reference, incumbent), made)


def history_of(choice: Choice) -> History | None:
    """Return the edits of the chosen graph, None if there were none."""
    return history_for(choice.loaded.graph.digest)


def resolved_for(choice: Choice, history: History) -> Resolved:
    """Return the edits on the chosen devices; nodes whose device is gone go where the last solver's plan has them."""
    return edits.resolve_places(history, choice.deployment, elsewhere_for(choice))


def elsewhere_for(choice: Choice) -> dict[int, Place] | None:
    """Return where nodes go whose device is gone: to where the last solver's plan has them; None without one."""
    reference = reference_plan(choice)
    return None if reference is None else edits.places_of(reference.split, choice.deployment)


def reference_plan(choice: Choice) -> Plan | None:
    """Return the last plan that a solver made for just these devices, links and objective; None if there is none."""
    plan = session.plan()
    if plan is None or plan.split.replicas or plan.graph.digest != choice.graph.digest:
        return None
    question = plan.question
    same = (question.deployment, question.objective) == (choice.question.deployment, choice.question.objective)
    return plan if same else None


def assessment_of(choice: Choice, plan: Plan) -> Assessment:
    """Return what is to be said of the edited plan; it is compared with the solver's plan."""
    reference = reference_plan(choice)
    before = None if reference is None else reference.split.on(choice.deployment)
    question = choice.question
    return made_of(
        "assessment",
        (question,),
        (plan, reference),
        lambda: assess(
            plan.graph, plan.deployment, plan.split, before=before, objective=question.objective, asked=question.family
        ),
    )


def edit_view(choice: Choice, plan: Plan | None, drawn: Split | None = None) -> EditView:
    """Return what the picture shows of the edits, and keep what it shows as that which the next edit is about.

    `drawn` is the split in the picture, which some schedules cut further; then the picture cannot be edited.
    """
    remember_context(choice, plan)
    history = history_of(choice)
    is_of_graph = outcome_graph() == choice.loaded.graph.digest
    outcome = last_outcome() if is_of_graph else None
    reason = why_not(choice, plan)
    if plan is not None and drawn is not None and drawn is not plan.split and drawn != plan.split.on(plan.deployment):
        reason = reason or "The picture shows the stages as this schedule cuts them; choose another schedule to edit."
    if history is None or plan is None or not choice.deployment.num_devices:
        none: frozenset[int] = frozenset()
        return EditView(reason, none, (), False, False, False, outcome, serial())
    resolved = resolved_for(choice, history)
    return EditView(
        why_not=reason,
        pinned=frozenset(resolved.pins.device_of),
        together=history.together,
        can_undo=history.can_undo,
        can_redo=history.can_redo,
        is_edited=history.is_edited,
        outcome=outcome,
        serial=serial(),
    )


def proof_with_pins(result: SolveResult) -> str:
    """Say what is proven of a plan with pins."""
    if result.status is SolveStatus.OPTIMAL:
        return f"optimal among {result.family.named} splits with these pins, proven"
    return f"{proof(result)} with these pins"


def _result(choice: Choice, history: History, split: Split, *, is_incumbent: bool) -> SolveResult:
    """Return the edited plan as a result: its value, and the best bound for all splits of its family.

    What is proven of the splits that honour the pins is told in the headline of edits only: a bound that only they have
    would be taken for one of all splits elsewhere.
    """
    question = choice.question
    assessed = assess(choice.graph, choice.deployment, split, objective=question.objective, asked=question.family)
    known = history.proof
    is_solved = known is not None and not is_incumbent and is_proof_for(choice, known, split)
    reference = reference_plan(choice)
    bound_ms = lower_bound_ms(assessed.family, [] if reference is None else [reference.result])
    if bound_ms is None and question.objective is not Objective.LATENCY:
        free = contract(choice.graph, Family.FREE, choice.deployment, join_idle=False)
        bound_ms = work_bound(free, choice.deployment)
    value_ms = assessed.value_ms
    status = SolveStatus.FEASIBLE
    if not assessed.is_valid or value_ms is None:
        status = SolveStatus.UNKNOWN
    elif bound_ms is not None:
        bound_ms = min(bound_ms, value_ms)
        if (relative_gap(value_ms, bound_ms) or 0.0) <= PROOF_TOLERANCE:
            status = SolveStatus.OPTIMAL
    return SolveResult(
        status=status,
        method=f"{METHOD}, rest by {known.result.method}" if known is not None and is_solved else METHOD,
        objective=question.objective,
        family=assessed.family,
        split=split,
        value_ms=value_ms,
        lower_bound_ms=None if status is SolveStatus.UNKNOWN else bound_ms,
        runtime_s=known.result.runtime_s if known is not None and is_solved else 0.0,
    )


def is_proof_for(choice: Choice, known: Proof, split: Split) -> bool:
    """Whether a proof is of this split and answers what is asked now, whatever time it was given."""
    question = known.question
    if not isinstance(question, Question) or known.result.split is None:
        return False
    asked = replace(choice.question, pins=question.pins, method=question.method)
    return replace(question, time_limit_s=asked.time_limit_s, gap=asked.gap) == asked and known.result.split.on(
        choice.deployment
    ) == split.on(choice.deployment)


def _incumbent_of_pins(choice: Choice) -> Split | None:
    """Return the best plan so far of a solve with pins that runs for this choice; None while there is none."""
    run = session.run()
    if run is None:
        return None
    snapshot = run.job.snapshot()
    question = snapshot.question
    if not question.pins or snapshot.state.is_over or snapshot.best_split is None:
        return None
    same = replace(question, pins=NO_PINS, method=choice.question.method) == choice.question
    return snapshot.best_split if same else None


def why_not(choice: Choice, plan: Plan | None) -> str:
    """Say why a plan cannot be edited; empty when it can."""
    if plan is None:
        return "There is no plan to edit yet."
    if not choice.deployment.num_devices:
        return "There are no devices to edit the plan for; add an accelerator or a CPU."
    if plan.split.replicas:
        return "Plans with replicated stages cannot be edited; allow one replica under Assumptions."
    if plan.split.subgraphs:
        return "Plans with several subgraphs per accelerator cannot be edited; allow one under Assumptions."
    return ""


def say(outcome: Outcome) -> None:
    """Show in the picture what came of an edit."""
    known = context()
    remember_outcome(outcome, None if known is None else known[0].loaded.graph.digest)
