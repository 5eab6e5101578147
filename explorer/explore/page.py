"""The explorer: inputs at the side; headline numbers, the linked picture and tables of the plan in the middle."""

import streamlit as st

from explorer.elements.headline import headline, headline_facts
from explorer.explore.downloads import show_exports, subject_of
from explorer.explore.explain import show_explanation
from explorer.explore.schedules import show_schedules
from explorer.explore.share import show_share
from explorer.explore.what_helps import show_what_makes_possible
from explorer.form.importing import GraphIsComing, show_coming
from explorer.form.sidebar import sidebar
from explorer.picture.component import placed_pipeline
from explorer.picture.dag_view import remembered_dag_info
from explorer.picture.gantt_view import KIND_TITLES, gantt_info
from explorer.plan.current_plan import shown_plan, standing_of
from explorer.plan.edit_actions import take_edit
from explorer.plan.edit_headline import show_edit_headline
from explorer.plan.edited_plan import edit_view
from explorer.plan.live_panel import begin_drawing, end_drawing, show_run, tells_of
from explorer.plan.reload import begin_page, end_page, take_edits, take_plan
from explorer.plan.solve_control import feels_live, follow
from explorer.plan.timeline import plan_run, scheduled, show_note
from explorer.state import session, widgets
from explorer.state.address import show_problems
from explorer.state.choice import Choice
from explorer.state.kept_plans import show_keep
from explorer.state.look import current_look, picture_options, show_missing_level
from explorer.state.records import Plan
from explorer.words.wording import differences, plain, schedule_in_flight
from solvers.model.costs import split_costs
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.quantities import binary_sizes, count, counted
from solvers.schedule.simulate import Schedule

SCHEDULES_TAB = "Schedules"


def show() -> None:
    """Draw the page."""
    begin_page()
    try:
        choice = sidebar(feels_live)
    except GraphIsComing:
        show_coming()
        st.stop()  # so that inputs that are not drawn yet keep what they have
    take_edits(choice)
    take_plan(choice)
    follow(choice)
    begin_drawing(choice)
    _show_plan(choice, shown_plan(choice))
    end_drawing()
    end_page(choice)


def _show_plan(choice: Choice, plan: Plan | None) -> None:
    _title(choice, plan)
    # Without a plan a banner has the place of the headline; else it lies over the foot, so that the picture stays.
    notices = st.container(key="notices" if plan is not None else "notices_without_plan")
    with notices:
        show_problems()
        _notices(choice, plan)
    show_run(plan)
    if plan is None:
        dag = remembered_dag_info(choice.graph, choice.deployment, None)
        placed_pipeline(dag, None, key="picture", options=picture_options(choice.loaded.origin))
        with notices:
            show_missing_level(dag.level_names)
        if dag.note:
            st.caption(dag.note)
        return
    shown = scheduled(plan, choice)
    schedule, run = shown.schedule, plan_run(plan, shown)
    costs = split_costs(run.graph, run.deployment, run.split)
    show_edit_headline(choice, plan)
    headline(run, costs, standing_of(plan, choice))
    show_note(shown)
    dag = remembered_dag_info(plan.graph, plan.deployment, shown.split)
    options = picture_options(choice.loaded.origin, headline_facts(run, costs))
    look = current_look()
    with notices:
        show_missing_level(dag.level_names)
    gantt = None
    if schedule is not None:
        gantt = gantt_info(schedule, plan.deployment, by_device=look is not None and look.by_device)
    edits = edit_view(choice, plan, shown.split)
    placed_pipeline(
        dag,
        gantt,
        key="picture",
        options=options,
        edits=edits,
        on_edit=take_edit,
    )
    if dag.note:
        st.caption(dag.note)
    _warn_of_memory(plan, schedule)
    if plan.graph.is_training and not _backward_reads_forward(plan.graph):
        st.caption(
            "No backward node of this file reads a forward one, so the timeline is not that of a real training run; "
            "the loads and the optimum are those of the file."
        )
    # Only the tab in sight is made: what the other one needs in the browser would hold up the picture.
    why, orders, files = st.tabs(["Explain", SCHEDULES_TAB, "Share and export"], key="below", on_change="rerun")
    if files.open:
        with files:
            show_share(choice)
            show_exports(subject_of(plan, shown, choice.schedule_options, dag, gantt))
    elif orders.open:
        with orders:
            show_schedules(plan, choice)
    else:
        with why:
            show_explanation(run, costs, plan, choice)


def _title(choice: Choice, plan: Plan | None) -> None:
    graph = choice.graph
    layers = len({node.layer for node in graph.nodes} - {None})
    parts = [f"{count(len(graph.nodes))} nodes", f"{count(len(graph.edges))} edges"]
    if layers:
        parts.append(f"{count(layers)} layers")
    parts.append("training" if graph.is_training else "inference")
    with st.container(key="title", horizontal=True, vertical_alignment="center", wrap=False):
        st.markdown(f"### {plain(choice.loaded.origin)} :small[:gray[{' · '.join(parts)}]]", width="stretch")
        if plan is not None:
            show_keep(plan)


def _notices(choice: Choice, plan: Plan | None) -> None:
    """Say how the last solve ended, and whether the plan below still answers what the inputs ask."""
    notice, run = session.notice(), session.run()
    is_of_plan = notice is not None and plan is not None and plan.question == notice.question
    is_told = notice is not None and notice.question == choice.question
    if notice is not None and not tells_of(notice, plan) and (is_of_plan or notice.question == choice.question):
        (st.info if is_of_plan else st.error)(plain(notice.message))
        if notice.details:
            with st.expander("Details"):
                st.code(notice.details, language=None)
        elif not is_of_plan:
            show_what_makes_possible(choice)
    if plan is not None and plan.question != choice.question:
        is_coming = run is not None or feels_live(choice.question)
        changed = differences((plan.question, plan.graph), (choice.question, choice.graph))
        st.warning(
            f"The plan shown is stale: it and what is proven of it are for earlier inputs. "
            f"Since then: {plain(', '.join(changed))}."
            f"{'' if is_coming else ' Press Solve for a new one.'}",
            icon=":material/history:",
        )
        if not is_coming:
            _offer_to_solve()
    elif plan is None and run is None and not is_told and not feels_live(choice.question):
        st.info("This graph has no plan yet. Press Solve.")
        _offer_to_solve()


def _offer_to_solve() -> None:
    """Draw a button beside the words: that of the side bar may be out of sight, and is on a phone."""
    st.button("Solve now", type="primary", key="solve now", on_click=widgets.press, args=(session.SOLVE_KEY,))


def _warn_of_memory(plan: Plan, schedule: Schedule | None) -> None:
    """Say when the schedule keeps more activations than an accelerator has memory for."""
    if schedule is None:
        return
    over = []
    for d, points in enumerate(schedule.memory):
        capacity = plan.deployment.capacity_bytes(d)
        peak = max((point.memory_bytes for point in points), default=0.0)
        if capacity is not None and peak > plan.deployment.memory_limit_of(d):
            over.append((peak - capacity, peak, d))
    if over:
        short, peak, d = max(over)
        needed, missing = binary_sizes([peak, short])
        st.warning(
            plain(
                f"This schedule would run out of memory: {plan.deployment.device_name(d)} needs up to "
                f"{needed} with {schedule.peak_in_flight[d]} micro-batches in flight and is short by {missing}. "
                f"{_what_is_counted(plan, schedule)}Smaller micro-batches or more memory would help."
            ),
            icon=":material/memory:",
        )


def _what_is_counted(plan: Plan, schedule: Schedule) -> str:
    """Say which micro-batches the plan counts, with a space after it; empty where they are those of the schedule."""
    memory = plan.deployment.training_memory
    if memory is None:
        if plan.result.family is Family.CHAIN:
            return "The plan counts one micro-batch; under Assumptions it can count all that are in flight. "
        return "The plan counts one micro-batch. "
    if memory.schedule.value != schedule.kind.value:
        planned, run = schedule_in_flight(memory), KIND_TITLES[schedule.kind]
        return f"The plan counts what {planned} keeps in flight; the timeline runs {run}. "
    if memory.num_micro_batches != schedule.num_micro_batches:
        batches = counted(memory.num_micro_batches, "micro-batch", "micro-batches")
        return f"The plan counts {batches}; the timeline runs {count(schedule.num_micro_batches)}. "
    return ""


def _backward_reads_forward(graph: DnnGraph) -> bool:
    """Whether the backward pass waits for the forward pass; in some published files it does not."""
    node = graph.node_by_id
    return any(node[e.target].is_backward and not node[e.source].is_backward for e in graph.edges)
