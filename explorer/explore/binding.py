"""Which constraint limits the plan shown: solved without one at a time in solver processes, and said in sentences."""

from dataclasses import dataclass, replace

import streamlit as st

from explorer.elements.html_table import paragraph_html
from explorer.elements.polling import stop_polling
from explorer.jobs.batch import Ask, Batch
from explorer.jobs.server_pool import is_open, solver_pool
from explorer.plan.solve_control import feels_live
from explorer.state import session
from explorer.state.records import Plan
from explorer.words.wording import unbroken
from solvers.analysis.binding import binding_text, price, relaxations
from solvers.analysis.explanation_text import Paragraph
from solvers.analysis.what_if import Change
from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.quantities import seconds

POLL_SECONDS = 0.5
NAME = "what limits"
LIMIT_S = 10.0
"""A constraint whose price takes longer to prove is said to be not known exactly."""
TITLE = "Which constraints limit it"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The relaxations of the problem that a plan answers, and the batch that solves them."""

    plan: Plan
    changes: tuple[Change, ...]
    batch: Batch


def show_binding(plan: Plan) -> None:
    """Show which constraints limit a plan: at once where the plan follows the inputs by itself, else on request.

    Where others have the app open too it is on request: it takes ten times the processor of the plan, and most changes
    of an input are made to look at the plan alone.

    Nothing is said of hand edits, of plans with pins and of baselines: others may be faster for another reason.
    """
    if not _can_ask(plan):
        return
    inquiry = _inquiry(plan)
    if inquiry is None:
        st.button("Which constraint limits it?", key=f"ask {NAME}", on_click=_ask_and_remember, args=(plan,))
        each = seconds(LIMIT_S)
        st.caption(unbroken(f"Solves the problem without one constraint at a time, for {each} at most each."))
    elif inquiry.batch.is_over:
        _show(inquiry)
    else:
        st.fragment(run_every=POLL_SECONDS)(_poll)()


def is_split_type_priced(plan: Plan) -> bool:
    """Whether `show_binding` says what the split type of a plan costs, or will once that is solved. Begins nothing."""
    if not _can_ask(plan) or plan.question.family is Family.FREE or plan.question.objective is Objective.LATENCY:
        return False
    inquiry: Inquiry | None = session.batch(NAME)
    return _is_at_once(plan) or (inquiry is not None and inquiry.plan.result is plan.result)


def _can_ask(plan: Plan) -> bool:
    is_search = plan.question.method not in BASELINES
    return is_search and not plan.question.pins and not plan.result.method.startswith("hand edit")


def _is_at_once(plan: Plan) -> bool:
    """Whether the constraints of a plan are asked about unbidden."""
    is_alone = not any(map(is_open, solver_pool().others(session.session_id())))
    return is_alone and feels_live(plan.question) and plan.result.status is SolveStatus.OPTIMAL


def _inquiry(plan: Plan) -> Inquiry | None:
    """Return what is asked about a plan, begun now where that is to be at once; None until someone asks."""
    inquiry: Inquiry | None = session.batch(NAME)
    if inquiry is not None and inquiry.plan.result is not plan.result:
        inquiry.batch.cancel(spare=feels_live)
        inquiry = None
        session.remember_batch(NAME, None)
    if inquiry is None and _is_at_once(plan):
        inquiry = _asked(plan)
        session.remember_batch(NAME, inquiry)
    return inquiry


def _poll() -> None:
    inquiry: Inquiry | None = session.batch(NAME)
    if inquiry is None:
        return
    inquiry.batch.advance()
    _show(inquiry)
    if inquiry.batch.is_over:
        stop_polling()


def _ask_and_remember(plan: Plan) -> None:
    session.remember_batch(NAME, _asked(plan))


def _asked(plan: Plan) -> Inquiry:
    question = plan.question
    found = relaxations(plan.graph, question.deployment, question.objective, question.family, question.method)
    limit_s = LIMIT_S if question.time_limit_s is None else min(LIMIT_S, question.time_limit_s)
    asks = [
        Ask(
            change.key,
            replace(
                question,
                graph_digest=change.graph.digest,
                deployment=change.deployment,
                family=change.family,
                method=change.method,
                time_limit_s=limit_s,
            ),
            change.graph,
        )
        for change in found
    ]
    batch = Batch(solver_pool(), session.session_id(), asks, start_of=lambda _ask, _answers: plan.result.split)
    batch.advance()
    return Inquiry(plan, found, batch)


def _show(inquiry: Inquiry) -> None:
    """Say what is known so far."""
    answers = inquiry.batch.answers()
    prices = [
        price(change, inquiry.plan.result, result)
        for change in inquiry.changes
        if (snapshot := answers.get(change.key)) is not None and (result := snapshot.result) is not None
    ]
    are_all = len(prices) == len(inquiry.changes)
    sentences = binding_text(tuple(prices), are_all=are_all) if prices or not inquiry.changes else ()
    if not are_all:
        missing = (
            "Still solving without one constraint at a time." if not inquiry.batch.is_over else "Not all were solved."
        )
        sentences = (*sentences, missing) if prices else (missing,)
    st.html(paragraph_html(Paragraph(TITLE, sentences)))
