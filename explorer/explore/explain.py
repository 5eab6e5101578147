"""The tab that explains the plan shown: what limits it, in words and loads, and what would help, by solving again."""

import streamlit as st

from explorer.elements.headline import theme
from explorer.elements.html_table import paragraph_html
from explorer.elements.load_bars import load_bars
from explorer.explore.binding import is_split_type_priced, show_binding
from explorer.explore.needs import show_needs
from explorer.explore.what_helps import free_answer, show_what_helps
from explorer.plan.edited_plan import METHOD as HAND_EDIT
from explorer.server.byte_cache import remembered
from explorer.state.choice import Choice
from explorer.state.records import Plan
from explorer.words.wording import UNEXPLAINED, why_unexplained
from solvers.analysis.explanation import bound_of, explain
from solvers.analysis.explanation_text import Paragraph, explanation_text
from solvers.model.costs import Objective, SplitCosts
from solvers.model.result import SolveResult
from solvers.quantities import milliseconds


def show_explanation(plan: Plan, costs: SplitCosts, asked: Plan, choice: Choice) -> None:
    """Show why a plan is as fast as it is, the loads of its devices, and what would help.

    `asked` is the plan that the solver found, which the schedule may run cut anew: what would help is about that, and
    can be applied to the inputs, those of `choice`.
    """
    with st.container(key="explanation"):
        words, figures = st.columns([5, 6], gap="large")
    with words:
        for paragraph in _paragraphs(plan, is_priced=_is_priced(plan, asked)):
            st.html(paragraph_html(paragraph))
        if plan is not asked:
            st.caption(_about_asked(asked))
        if not why_unexplained(asked.graph):
            show_binding(asked)
    with figures:
        if plan.question.objective is not Objective.LATENCY:
            st.markdown("**Load of every device**")
            st.html(load_bars(costs, plan.deployment, plan.result.lower_bound_ms, theme()))
        st.markdown("**What would help**")
        show_what_helps(asked, choice)
        st.markdown("**What a wanted throughput needs**")
        show_needs(asked, choice)


def _is_priced(plan: Plan, asked: Plan) -> bool:
    """Whether what the split type costs stands below the words on a plan, which would disagree if they only guessed."""
    return plan is asked and not why_unexplained(plan.graph) and is_split_type_priced(plan)


def _about_asked(asked: Plan) -> str:
    """Say which plan the constraints, what would help and what is needed are about, where the schedule cuts another."""
    found = f"the solver's plan of {milliseconds(asked.result.value_ms)}, before the schedule cuts it again"
    return f"Constraints, what would help and the least hardware are about {found}."


def _paragraphs(plan: Plan, *, is_priced: bool) -> tuple[Paragraph, ...]:
    """Return the words on a plan, or why there are none; `is_priced` where its split type is, below them."""
    if sentence := why_unexplained(plan.graph):
        return (Paragraph(UNEXPLAINED, (sentence,)),)
    graph, deployment, objective = plan.graph, plan.question.deployment, plan.question.objective
    family, wider = plan.result.family, free_answer(plan)
    bound_ms = None if is_proven_for_pins(plan.result) else bound_of(plan.result)

    def explained() -> tuple[Paragraph, ...]:
        explanation = explain(
            graph, deployment, plan.split, objective=objective, family=family, lower_bound_ms=bound_ms, wider=wider
        )
        return explanation_text(explanation, graph, is_split_type_priced=is_priced)

    key = (graph.digest, deployment, plan.split, objective, family, bound_ms, wider, is_priced)
    return remembered("explanation", key, explained, _size)


def _size(paragraphs: tuple[Paragraph, ...]) -> int:
    return sum(len(text) for paragraph in paragraphs for text in (paragraph.title, *paragraph.sentences))


def is_proven_for_pins(result: SolveResult) -> bool:
    """Whether a bound holds only for plans that honour the hand edits: others may be faster."""
    return result.method.startswith(f"{HAND_EDIT}, ")
