"""What stands above the numbers of a hand-edited plan: value, distance from the optimum, rules broken, family left."""

from html import escape

import streamlit as st

from explorer.edits.assessment import Assessment, distance
from explorer.elements.headline import theme
from explorer.plan.edited_plan import (
    assessment_of,
    history_of,
    is_proof_for,
    proof_with_pins,
    reference_plan,
    resolved_for,
)
from explorer.state.choice import Choice
from explorer.state.records import Plan
from solvers.quantities import count, milliseconds

COLOURS = {
    ("light", True): ("#EAF2FB", "#0B5394"),
    ("light", False): ("#FDECEA", "#A12622"),
    ("dark", True): ("#16283B", "#A9D0F5"),
    ("dark", False): ("#3B1717", "#FFB4AC"),
}
"""Fill and text by theme and whether the plan is valid; contrast is above 6 in all."""
MOST_LISTED = 4


def show_edit_headline(choice: Choice, plan: Plan) -> None:
    """Say that the plan is edited by hand, how far from the optimum it is and what it breaks; nothing for others."""
    history = history_of(choice)
    if history is None or not history.is_edited or plan.question != choice.question:
        return
    assessed = assessment_of(choice, plan)
    lines = headline_lines(choice, plan, assessed)
    fill, ink = COLOURS[theme(), assessed.is_valid]
    first, *others = [escape(line) for line in lines]
    sign = "Hand edit" if assessed.is_valid else "Hand edit, not valid"
    st.html(
        f'<div class="hand-edit" role="status" style="background:{fill};color:{ink};border-left:4px solid {ink};'
        'border-radius:6px;padding:6px 12px;font-size:14px;line-height:1.45">'
        f"<strong>{sign}</strong> &middot; {first}{''.join(f'<div>{line}</div>' for line in others)}</div>"
    )


def headline_lines(choice: Choice, plan: Plan, assessed: Assessment) -> list[str]:
    """Return what is said of an edited plan: the facts in one line, then what is broken and what has changed."""
    history, reference = history_of(choice), reference_plan(choice)
    facts = [milliseconds(assessed.value_ms)]
    far = distance(assessed.value_ms, None if reference is None else reference.result)
    if far:
        facts.append(far)
    if history is not None and history.proof is not None and is_proof_for(choice, history.proof, plan.split):
        facts.append(proof_with_pins(history.proof.result))
    if history is not None and history.pinned:
        facts.append(f"{count(len(history.pinned))} pinned")
    lines = [" \u00b7 ".join(facts)]
    if assessed.problems:
        more = len(assessed.problems) - MOST_LISTED
        lines.append("; ".join(assessed.problems[:MOST_LISTED]) + (f"; {more} more" if more > 0 else "") + ".")
    note = "" if history is None else resolved_for(choice, history).note
    return lines + [text for text in (assessed.family_note, note) if text]
