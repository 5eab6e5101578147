"""Schedules of one plan, one above the other on one axis of time."""

from collections.abc import Mapping

import streamlit as st

from explorer.picture.component import PictureOptions, placed_pipeline
from explorer.picture.gantt_view import BOUND_TOLERANCE, KIND_TITLES, UNFILLED_KINDS, gantt_info
from explorer.plan.timeline import Scheduled, schedule_of
from explorer.state.choice import Choice
from explorer.state.records import Plan
from explorer.words.wording import plain
from solvers.quantities import counted, listed, milliseconds
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
        persist_state="session",
    )
    made = {kind: _made(plan, choice, kind) for kind in kinds if kind in picked}
    ends = {kind: one.schedule.makespan_ms for kind, one in made.items() if one.schedule is not None}
    if not ends:
        return
    batches = counted(choice.num_micro_batches, "micro-batch", "micro-batches")
    st.caption(f"{batches} each. {which_ends_first(ends)}")
    options = PictureOptions(
        sync_group="schedules", compact=True, time_max_ms=float(max(ends.values())), lanes_only=True
    )
    for kind, one in made.items():
        if one.schedule is None:
            st.info(plain(f"{KIND_TITLES[kind]} cannot be shown. {one.error}"))
            continue
        placed_pipeline(None, gantt_info(one.schedule, plan.deployment), key=f"stacked_{kind}", options=options)


def which_ends_first(ends: Mapping[ScheduleKind, float]) -> str:
    """Say which of the schedules ends first, and after how many ms; several where only rounding tells them apart.

    >>> which_ends_first({ScheduleKind.ONE_F_ONE_B: 8.0, ScheduleKind.GPIPE: 8.0, ScheduleKind.UNPIPELINED: 20.0})
    '1F1B and GPipe end first, after 8 ms.'
    """
    shortest_ms = min(ends.values())
    first = [KIND_TITLES[kind] for kind, end_ms in ends.items() if end_ms <= shortest_ms * (1 + BOUND_TOLERANCE)]
    after = f"after {milliseconds(shortest_ms)}."
    if len(first) < len(ends):
        return f"{listed(first)} {'ends' if len(first) == 1 else 'end'} first, {after}"
    return f"{first[0]} ends {after}" if len(first) == 1 else f"All end {after}"


def _made(plan: Plan, choice: Choice, kind: ScheduleKind) -> Scheduled:
    return schedule_of(plan.graph, plan.deployment, plan.split, kind, choice.num_micro_batches, choice.schedule_options)
