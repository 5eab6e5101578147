"""A solve that runs beside the page: start it, watch it live, take note of its end."""

import streamlit as st

from explorer import session
from explorer.inputs import FAMILIES, METHODS, Choice
from explorer.jobs import JobState, Question, Snapshot
from explorer.palette import ACCELERATOR_COLOURS, THEMES
from explorer.session import Notice, Plan, Run
from explorer.shown import by_entry
from explorer.solver_pool import solver_pool
from explorer.wording import device_counts, milliseconds, share
from solvers.baselines.methods import BASELINES
from solvers.costs import Objective
from solvers.result import SolveStatus
from solvers.split import Family

POLL_SECONDS = 0.3
LIVE_WAIT_S = 1.2
"""How long a rerun waits for a plan before it shows the page without: most live solves are over by then."""
LIVE_LIMIT_S = 3.0
"""A graph whose last DP took longer is solved on request only."""

CONVERGENCE = {
    "mark": {"type": "line", "interpolate": "step-after"},
    "encoding": {
        "x": {"field": "seconds", "type": "quantitative", "title": "seconds"},
        "y": {"field": "ms", "type": "quantitative", "title": "ms", "scale": {"zero": False}},
        "color": {
            "field": "what",
            "type": "nominal",
            "title": None,
            "scale": {"range": [ACCELERATOR_COLOURS[0], THEMES["light"].transfer]},
        },
        "strokeDash": {"field": "what", "type": "nominal", "title": None},
    },
}
"""Value and bound as steps; a Vega chart is updated in place while it ticks, a Plotly chart would be drawn anew."""


def feels_live(question: Question) -> bool:
    """Whether the plan should follow the inputs by itself: the DP applies, and was quick on this graph last time."""
    if (question.objective, question.family) != (Objective.THROUGHPUT, Family.CHAIN) or question.method not in (
        "auto",
        "dp",
    ):
        return False
    loaded = session.loaded_graph()
    seconds = None if loaded is None else session.dp_seconds(loaded.graph.digest)
    return seconds is None or seconds <= LIVE_LIMIT_S


def follow(choice: Choice) -> None:
    """Start a solve if one is asked for or due, and take note of one that has ended."""
    _take_note()
    run, plan, notice = session.run(), session.plan(), session.notice()
    is_answered = (plan is not None and plan.question == choice.question) or (
        notice is not None and notice.question == choice.question
    )
    is_running = run is not None and run.job.snapshot().question == choice.question
    is_due = feels_live(choice.question) and not is_answered and (run is None or run.is_live)
    if is_running or not (choice.asks_to_solve or is_due):
        return
    if run is not None:
        run.job.cancel()
    session.remember_notice(None)
    takes_start = choice.question.method not in BASELINES
    known = plan.split if takes_start and plan is not None and plan.answers_for(choice.loaded) else None
    job = solver_pool().start(session.session_id(), choice.question, choice.graph, known)
    session.remember_run(Run(job, choice.loaded, choice.graph, is_live=is_due and not choice.asks_to_solve))
    job.wait(LIVE_WAIT_S)
    _take_note()


def _take_note() -> None:
    """Turn a solve that is over into a plan or a notice."""
    run = session.run()
    if run is None:
        return
    snapshot = run.job.snapshot()
    if not snapshot.state.is_over:
        return
    session.remember_run(None)
    question, result = snapshot.question, snapshot.result
    if snapshot.state is JobState.FAILED or result is None:
        session.remember_notice(
            Notice(question, snapshot.error or "The solve ended without an answer.", snapshot.details)
        )
        return
    if result.method == "dp":
        session.remember_dp_seconds(run.loaded.graph.digest, result.runtime_s)
    if result.split is not None:
        split, deployment = by_entry(result.split, question.deployment)
        session.remember_plan(Plan(question, run.loaded, run.graph, deployment, result, split))
        session.remember_notice(Notice(question, result.message) if result.message else None)
        return
    message = result.message or "No plan was found in time; allow more time."
    if result.status is SolveStatus.INFEASIBLE:
        message = f"No plan exists. {message}"
    session.remember_notice(Notice(question, message))


def show_run() -> None:
    """Show a running solve, refreshed by itself; the page is redrawn when it ends."""
    if session.run() is not None:
        _live_panel()


@st.fragment(run_every=POLL_SECONDS)
def _live_panel() -> None:
    run = session.run()
    if run is None:
        return
    snapshot = run.job.snapshot()
    if snapshot.state.is_over:
        st.rerun()
    with st.container(border=True, key="running"):
        _live_numbers(snapshot, run)


def _live_numbers(snapshot: Snapshot, run: Run) -> None:
    question = snapshot.question
    text, button = st.columns([5, 1], vertical_alignment="center")
    phase = snapshot.progress.phase if snapshot.progress else snapshot.message or "starting"
    devices = device_counts(question.deployment)
    text.markdown(
        f"**Solving** for {devices} · "
        f"{METHODS[question.method]} · {FAMILIES[question.family].split(':')[0].lower()} splits · {phase}"
    )
    if button.button("Cancel", key="cancel", width="stretch"):
        run.job.cancel()
        st.rerun()
    numbers, chart = st.columns([2, 3])
    left, right = numbers.columns(2)
    left.metric("Best plan so far", milliseconds(snapshot.incumbent_ms))
    right.metric("Proven lower bound", milliseconds(snapshot.lower_bound_ms))
    left.metric("Gap", share(snapshot.gap))
    right.metric("Elapsed", f"{snapshot.seconds:.1f} s")
    points = [p for p in snapshot.history if p.incumbent_ms is not None or p.lower_bound_ms is not None]
    if points:
        chart.vega_lite_chart(
            [
                {"seconds": seconds, "ms": value_ms, "what": what}
                for what, values in (
                    ("best plan", [(p.seconds, p.incumbent_ms) for p in points]),
                    ("lower bound", [(p.seconds, p.lower_bound_ms) for p in points]),
                )
                for seconds, value_ms in [*values, (snapshot.seconds, values[-1][1])]
                if value_ms is not None
            ],
            CONVERGENCE,
            height=170,
            alt="Best plan and proven lower bound over time",
        )
