"""Plans kept for comparison: up to four, each under a name, until they are dropped or the session ends."""

import streamlit as st

from explorer.state import session
from explorer.state.records import KeptPlan, Plan
from explorer.words.wording import inputs_unlike, methods_text, shortened
from solvers.model.split import Family
from solvers.quantities import counted

MAX_KEPT = 4
MAX_NAME = 60


def automatic_name(plan: Plan, kept: tuple[KeptPlan, ...] = ()) -> str:
    """Return what a kept plan is called unless the user says: method, splits, hardware.

    Where a plan that is kept has that name, the inputs that it differs in are added, or else a number. Never longer
    than a heading.
    """
    parts = [methods_text(plan.result.method)]
    if plan.result.family is not Family.CHAIN:
        parts.append(plan.result.family.named)
    name = ", ".join([*parts, _hardware(plan)])
    of_name = {one.name: one.plan for one in kept}
    same = of_name.get(shortened(name, MAX_NAME))
    if same is None:
        return shortened(name, MAX_NAME)
    unlike = ", ".join([name, *inputs_unlike((plan.question, plan.graph), (same.question, same.graph))])
    if len(unlike) <= MAX_NAME and unlike not in of_name:
        return unlike
    marks = (f" ({n})" for n in range(2, len(of_name) + 3))
    return next(one for one in (shortened(name, MAX_NAME - len(mark)) + mark for mark in marks) if one not in of_name)


def _hardware(plan: Plan) -> str:
    """Name the devices of a plan: accelerators by their make where they are of several, or not those of the file."""
    deployment, times = plan.question.deployment, plan.graph.times
    parts = [f"{one.count} × {one.name}" for one in deployment.classes if one.count]
    if not parts and deployment.num_accelerators:
        is_picked = times is not None and times != plan.loaded.graph.times and times.accelerator
        count = deployment.num_accelerators
        parts = [f"{count} × {times.accelerator}" if times and is_picked else counted(count, "accelerator")]
    return " + ".join([*parts, *([counted(deployment.num_cpus, "CPU")] if deployment.num_cpus else [])])


def keep(plan: Plan, name: str = "") -> KeptPlan | None:
    """Keep a plan and return it under its name; None where four are kept already. A plan kept before stays one."""
    kept = session.kept()
    same = next((one for one in kept if is_same(one.plan, plan)), None)
    if same is not None:
        return same
    if len(kept) >= MAX_KEPT:
        return None
    is_free = name and name not in (one.name for one in kept)
    number = 1 + max((one.number for one in kept), default=0)
    added = KeptPlan(number, name if is_free else automatic_name(plan, kept), plan)
    session.remember_kept((*kept, added))
    return added


def letter(kept: tuple[KeptPlan, ...], one: KeptPlan) -> str:
    """Return what sentences call a kept plan: A for the first, and so on."""
    return chr(ord("A") + [other.number for other in kept].index(one.number))


def is_same(first: Plan, second: Plan) -> bool:
    """Whether two plans are one: the same split of the same graph over the same devices."""
    return (first.graph.digest, first.question.deployment, first.split) == (
        second.graph.digest,
        second.question.deployment,
        second.split,
    )


def drop(number: int) -> None:
    """Forget a kept plan."""
    session.remember_kept(tuple(one for one in session.kept() if one.number != number))


def show_keep(plan: Plan) -> None:
    """Show the button that keeps the plan on the screen, and say when it is kept or there is no room."""
    kept = session.kept()
    is_kept = any(is_same(one.plan, plan) for one in kept)
    is_full = len(kept) >= MAX_KEPT and not is_kept
    help_text = "Compare, at the top of the page, shows up to four kept plans side by side."
    if is_full:
        help_text = "Four plans are kept already; drop one under Compare."
    label = f"Kept ({len(kept)} of {MAX_KEPT})" if is_kept else "Keep for comparison"
    st.button(label, key="keep", disabled=is_kept or is_full, help=help_text, on_click=_keep, args=(plan,))


def _keep(plan: Plan) -> None:
    keep(plan)
