"""The tab that explains the plan shown: what limits it, in words and loads, and what would help, by solving again."""

import streamlit as st

from explorer.edited import METHOD as HAND_EDIT
from explorer.html_table import paragraph_html
from explorer.load_bars import load_bars
from explorer.results import theme
from explorer.session import Plan
from explorer.what_helps import free_answer, show_what_helps
from solvers.costs import Objective, SplitCosts
from solvers.explanation import bound_of, explain
from solvers.explanation_text import explanation_text
from solvers.result import SolveResult


def show_explanation(plan: Plan, costs: SplitCosts) -> None:
    """Show why a plan is as fast as it is, the loads of its devices, and what would help."""
    explanation = explain(
        plan.graph,
        plan.question.deployment,
        plan.split,
        objective=plan.question.objective,
        family=plan.result.family,
        lower_bound_ms=None if is_proven_for_pins(plan.result) else bound_of(plan.result),
        wider=free_answer(plan),
    )
    words, figures = st.columns([5, 6], gap="large")
    with words:
        for paragraph in explanation_text(explanation, plan.graph):
            st.html(paragraph_html(paragraph))
    with figures:
        if plan.question.objective is not Objective.LATENCY:
            st.markdown("**Load of every device**")
            st.html(load_bars(costs, plan.deployment, plan.result.lower_bound_ms, theme()))
        st.markdown("**What would help**")
        show_what_helps(plan)


def is_proven_for_pins(result: SolveResult) -> bool:
    """Whether a bound holds only for plans that honour the hand edits: others may be faster."""
    return result.method.startswith(f"{HAND_EDIT}, ")
