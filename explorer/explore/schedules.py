"""Schedules of one plan, one above the other on one axis of time."""

import streamlit as st

from explorer.picture.component import PictureOptions, placed_pipeline
from explorer.picture.gantt_view import KIND_TITLES, UNFILLED_KINDS, gantt_info
from explorer.plan.timeline import Scheduled, schedule_of
from explorer.state.choice import Choice
from explorer.state.records import Plan
from explorer.words.wording import plain
from solvers.quantities import counted, milliseconds
from solvers.schedule.records import INFERENCE_KINDS, TRAINING_KINDS, ScheduleKind


def show_schedules(plan: Plan, choice: Choice) -> None:
    """Draw the timelines of the plan under the schedules that the user picks, all on the scale of the longest."""
    kinds = TRAINING_KINDS if plan.graph.is_training else INFERENCE_KINDS
    usual = [kind for kind in kinds if kind not in UNFILLED_KINDS]
    picked = st.pills(
        "Schedules on one axis of time",
        kinds,
        selection_mode="multi",
        default=usual,
        format_func=KIND_TITLES.__getitem__,
        key=f"picked_{kinds[0]}",
    )
    made = {kind: _made(plan, choice, kind) for kind in kinds if kind in picked}
    ends = {kind: one.schedule.makespan_ms for kind, one in made.items() if one.schedule is not None}
    if not ends:
        return
    shortest = min(ends, key=ends.__getitem__)
    batches = counted(choice.num_micro_batches, "micro-batch", "micro-batches")
    st.caption(f"{batches} each. {KIND_TITLES[shortest]} ends first, after {milliseconds(ends[shortest])}.")
    options = PictureOptions(
        sync_group="schedules", compact=True, time_max_ms=float(max(ends.values())), lanes_only=True
    )
    for kind, one in made.items():
        if one.schedule is None:
            st.info(plain(f"{KIND_TITLES[kind]} cannot be shown. {one.error}"))
            continue
        placed_pipeline(None, gantt_info(one.schedule, plan.deployment), key=f"stacked_{kind}", options=options)


def _made(plan: Plan, choice: Choice, kind: ScheduleKind) -> Scheduled:
    return schedule_of(plan.graph, plan.deployment, plan.split, kind, choice.num_micro_batches, choice.schedule_options)
