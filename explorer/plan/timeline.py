"""The schedule of a plan, and the split that it runs: the plan's, or one cut anew into chunks."""

import math
from dataclasses import dataclass, replace

import streamlit as st

from explorer.picture.gantt_view import KIND_TITLES
from explorer.server.byte_cache import remembered
from explorer.server.sizes import schedule_bytes
from explorer.state.choice import Choice, ScheduleOptions
from explorer.state.records import Plan
from explorer.words.wording import plain
from solvers.model.costs import objective_value, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import contract
from solvers.quantities import change, milliseconds
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import LOOPED_KINDS, LoopedSplit
from solvers.schedule.simulate import Schedule, ScheduleError, ScheduleKind, simulate

MAX_RUNS = 100_000
"""Runs of a stage on a micro-batch in a timeline; more would hold up the server for many seconds, and the browser."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What a schedule runs: its split, and either the schedule or one sentence that says why there is none.

    `note` is a sentence that says how the split differs from the plan's; empty where it is the plan's. `looped` has its
    chunks, where the schedule runs several on each device.
    """

    split: Split
    schedule: Schedule | None
    error: str = ""
    note: str = ""
    looped: LoopedSplit | None = None


def scheduled(plan: Plan, choice: Choice) -> Scheduled:
    """Return the chosen schedule of a plan."""
    return schedule_of(
        plan.graph, plan.deployment, plan.split, choice.schedule, choice.num_micro_batches, choice.schedule_options
    )


def schedule_of(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    kind: ScheduleKind,
    num_micro_batches: int,
    options: ScheduleOptions,
) -> Scheduled:
    """Return the schedule of a complete split, cut into chunks where the schedule runs several on each device."""
    return remembered(
        "schedule",
        (graph.digest, deployment, split, kind, num_micro_batches, options),
        lambda: _schedule_of(graph, deployment, split, kind, num_micro_batches, options),
        lambda made: schedule_bytes(made.schedule),
    )


def _schedule_of(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    kind: ScheduleKind,
    num_micro_batches: int,
    options: ScheduleOptions,
) -> Scheduled:
    share = options.weight_gradient_share
    try:
        if kind not in LOOPED_KINDS:
            return Scheduled(
                split,
                simulate(
                    graph, deployment, split, kind, num_micro_batches, weight_gradient_share=share, max_runs=MAX_RUNS
                ),
            )
        looped = looped_split(graph, deployment, split, options.chunks, kind, num_micro_batches, MAX_RUNS)
    except ScheduleError as error:
        return Scheduled(split, None, str(error))
    planned_ms = split_costs(graph, deployment, split).max_load_ms
    looped_ms = split_costs(graph, deployment, looped.split).max_load_ms
    changed = f" ({change(looped_ms / planned_ms - 1)})" if planned_ms else ""
    note = (
        f"{KIND_TITLES[kind]} runs {looped.chunks_per_device} model chunks on each device. The picture shows "
        f"the plan's pipeline cut again: {milliseconds(looped_ms)} per micro-batch instead of "
        f"{milliseconds(planned_ms)}{changed}. {looped.note}"
    ).rstrip()
    try:
        schedule = simulate(
            graph, deployment, looped, kind, num_micro_batches, weight_gradient_share=share, max_runs=MAX_RUNS
        )
    except ScheduleError as error:
        return Scheduled(split, None, str(error))
    return Scheduled(looped.split, schedule, note=note, looped=looped)


def plan_run(plan: Plan, shown: Scheduled) -> Plan:
    """Return the plan whose numbers belong to the picture: the one asked for, or its pipeline cut anew into chunks.

    What is proven of the plan says nothing of the chunks, which are no split of its type: their bound is the one from
    total work, which holds for all splits.
    """
    if shown.looped is None:
        return plan
    objective = plan.question.objective
    value_ms = objective_value(plan.graph, plan.deployment, shown.split, objective)
    bound_ms = work_bound(contract(plan.graph, Family.FREE, plan.deployment), plan.deployment)
    is_known = value_ms is not None and math.isfinite(bound_ms)
    result = replace(
        plan.result,
        status=SolveStatus.FEASIBLE,
        method=f"{plan.result.method}, cut into chunks",
        family=Family.FREE,
        split=shown.split,
        value_ms=value_ms,
        lower_bound_ms=min(bound_ms, value_ms or bound_ms) if is_known else None,
    )
    return replace(plan, result=result, split=shown.split)


def show_note(shown: Scheduled) -> None:
    """Say why there is no schedule, or which split it runs if that is not the plan's."""
    if shown.error:
        st.info(plain(f"The schedule cannot be shown. {shown.error}"))
    elif shown.note:
        st.caption(plain(shown.note))
