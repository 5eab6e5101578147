"""Compare: the kept plans side by side on the same scales, what differs between them, and all methods on one graph."""

import streamlit as st

from explorer.compare.diff_view import show_difference
from explorer.compare.example import example_plans
from explorer.compare.method_table import show_methods
from explorer.elements.headline import theme
from explorer.elements.headline_table import headline_html
from explorer.elements.load_chart import NamedLoads, compared_loads
from explorer.picture.component import PictureOptions, placed_pipeline
from explorer.picture.dag_view import remembered_dag_info
from explorer.picture.gantt_view import KIND_TITLES, gantt_info
from explorer.plan.timeline import MAX_RUNS
from explorer.server.byte_cache import remembered
from explorer.server.sizes import schedule_bytes
from explorer.state import session, widgets
from explorer.state.kept_plans import MAX_NAME, drop, letter
from explorer.state.records import KeptPlan
from explorer.words.wording import plain
from solvers.model.costs import split_costs
from solvers.model.deployment import MAX_MICRO_BATCHES, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.schedule.records import INFERENCE_KINDS, LOOPED_KINDS, TRAINING_KINDS
from solvers.schedule.simulate import Schedule, ScheduleError, ScheduleKind, simulate

USUAL_MICRO_BATCHES = 12
MIN_PLANS = 2


def show() -> None:
    """Draw the page."""
    kept = session.kept()
    st.markdown("### Compare")
    if len(kept) < MIN_PLANS:
        _say_how(kept)
    if kept:
        reference = _names_and_reference(kept)
        kept = session.kept()
        st.html(headline_html(kept, reference))
    if len(kept) >= MIN_PLANS:
        _pictures(kept)
        _loads(kept)
        for one in kept:
            if one.number != reference.number:
                show_difference(reference, one, letter(kept, reference), letter(kept, one))
    plan = reference.plan if kept else session.plan()
    if plan is not None:
        st.markdown("##### All methods on this graph")
        whose = f"plan {letter(kept, reference)}" if kept else "the plan on Explore"
        st.caption(f"{plain(plan.loaded.origin)}, on the devices of {whose}.")
        show_methods(plan)
    if not kept:
        _show_example()


def _show_example() -> None:
    """Show what two plans look like here, so that the page is not empty before some are kept."""
    plans = example_plans()
    if not plans:
        return
    first, second = plans
    st.markdown("##### An example")
    st.caption(
        f"{plain(first.plan.loaded.origin)}: its best pipeline beside its best non-contiguous split, both solved by "
        "this app. Plans that you keep take its place."
    )
    st.html(headline_html(plans, first))
    _pictures(plans)
    _loads(plans)
    show_difference(first, second, letter(plans, first), letter(plans, second))


def _say_how(kept: tuple[KeptPlan, ...]) -> None:
    how = "Press “Keep for comparison” beside a plan on Explore"
    if session.plan() is not None or kept:
        how += ", or run all methods below and keep theirs"
    more = "Keep one more plan to compare with." if kept else "No plan is kept yet."
    st.info(f"{more} {how}.")


def _names_and_reference(kept: tuple[KeptPlan, ...]) -> KeptPlan:
    """Draw a box per plan to rename or drop it; return the one that the others are compared with."""
    *columns, last = st.columns([2] * max(len(kept), 2) + [1], vertical_alignment="bottom")
    for column, one in zip(columns, kept, strict=False):
        with column.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            st.text_input(
                f"Plan {letter(kept, one)}",
                one.name,
                max_chars=MAX_NAME,
                key=f"name_{one.number}",
                on_change=_rename,
                args=(one.number,),
            )
            st.button("Drop", key=f"drop_{one.number}", on_click=drop, args=(one.number,), type="tertiary")
    if len(kept) < MIN_PLANS:
        return kept[0]
    number = last.segmented_control(
        "Compared with",
        [one.number for one in kept],
        default=kept[0].number,
        required=True,
        format_func=lambda n: next((letter(kept, one) for one in kept if one.number == n), ""),
        key=f"reference_{'_'.join(str(one.number) for one in kept)}",
        persist_state="session",
    )
    return next(one for one in kept if one.number == number)


def _rename(number: int) -> None:
    name = str(widgets.value(f"name_{number}")).strip()
    taken = {one.name for one in session.kept() if one.number != number}
    if not name or name in taken:
        return  # the heading stays as it was: two plans of one name could not be told apart
    session.remember_kept(
        tuple(KeptPlan(one.number, name, one.plan) if one.number == number else one for one in session.kept())
    )


def _pictures(kept: tuple[KeptPlan, ...]) -> None:
    """Draw graph and timeline of every plan, all under one schedule and on one axis of time."""
    kinds = _kinds(kept)
    schedules: list[Schedule | None] = [None] * len(kept)
    if kinds:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            kind = st.selectbox(
                "Schedule of all",
                kinds,
                format_func=KIND_TITLES.__getitem__,
                key=f"compared_{kinds[0]}",
                persist_state="session",
                width=260,
            )
            num = st.number_input(
                "Micro-batches of all",
                1,
                MAX_MICRO_BATCHES,
                USUAL_MICRO_BATCHES,
                key="compared_micro_batches",
                persist_state="session",
                width=160,
            )
        schedules = [_schedule(one, kind, int(num)) for one in kept]
    else:
        st.caption("Training and inference have no schedule in common, so the timelines are left out.")
    end_ms = max((schedule.makespan_ms for schedule in schedules if schedule is not None), default=None)
    options = PictureOptions(sync_group="compare", compact=True, time_max_ms=end_ms)
    for first in range(0, len(kept), 2):
        for column, one, schedule in zip(
            st.columns(2), kept[first : first + 2], schedules[first : first + 2], strict=False
        ):
            with column:
                st.markdown(f"**{letter(kept, one)}: {plain(one.name)}**")
                placed_pipeline(
                    remembered_dag_info(one.plan.graph, one.plan.deployment, one.plan.split),
                    None if schedule is None else gantt_info(schedule, one.plan.deployment),
                    key=f"picture_{one.number}",
                    options=options,
                )


def _kinds(kept: tuple[KeptPlan, ...]) -> list[ScheduleKind]:
    """Return the schedules that all plans can run as they are; looped ones cut plans anew."""
    training = {one.plan.graph.is_training for one in kept}
    if len(training) > 1:
        return []
    kinds = TRAINING_KINDS if training.pop() else INFERENCE_KINDS
    return [kind for kind in kinds if kind not in LOOPED_KINDS]


def _schedule(one: KeptPlan, kind: ScheduleKind, num_micro_batches: int) -> Schedule | None:
    try:
        return _simulated(one.plan.graph, one.plan.deployment, one.plan.split, kind, num_micro_batches)
    except ScheduleError as error:
        st.info(plain(f"The timeline of {one.name} cannot be shown. {error}"))
        return None


def _simulated(
    graph: DnnGraph, deployment: Deployment, split: Split, kind: ScheduleKind, num_micro_batches: int
) -> Schedule:
    return remembered(
        "compared schedule",
        (graph.digest, deployment, split, kind, num_micro_batches),
        lambda: simulate(graph, deployment, split, kind, num_micro_batches, max_runs=MAX_RUNS),
        schedule_bytes,
    )


def _loads(kept: tuple[KeptPlan, ...]) -> None:
    st.markdown("##### Loads on one axis")
    plans = [
        NamedLoads(
            f"{letter(kept, one)}: {one.name}",
            split_costs(one.plan.graph, one.plan.deployment, one.plan.split),
            one.plan.deployment,
        )
        for one in kept
    ]
    st.plotly_chart(
        compared_loads(plans, theme()),
        key="compared_loads",
        config={"displayModeBar": False},
        alt="Loads of the devices of every plan on one axis of time",
    )
