"""The strip that shows a solve at work: who solves what, how far it is, the chart of value and bound, Cancel.

The strip is a fragment that looks at the job a few times a second. When the job has a better plan than the page shows,
it has the page drawn anew, so that headline, picture and tables follow; the picture keeps its view. It stays after the
end of a solve that was asked for, at the same height and with the same chart, until the next one: the end of a proof
moves nothing. A solve that began by itself leaves only its plan.
"""

import time
from dataclasses import replace
from html import escape

import streamlit as st

from explorer.elements.convergence import convergence_chart, convergence_rows
from explorer.elements.headline import theme
from explorer.jobs.pool import JobState, Snapshot
from explorer.jobs.record import BEST_SO_FAR, NO_PLAN, Question
from explorer.state import session
from explorer.state.choice import Choice
from explorer.state.records import Drawing, Notice, Plan, Run
from explorer.words.wording import PROVEN, device_counts, proof, unbroken
from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective
from solvers.model.result import SolveResult, SolveStatus
from solvers.parameters.question import METHOD
from solvers.problem.pins import NO_PINS
from solvers.quantities import milliseconds, proven_distance, seconds

POLL_SECONDS = 0.3
SECONDS_BETWEEN_PLANS = 1.0
"""A better plan is drawn at most this often."""
STILL_SHARE = 4
"""So many times as long as the page took to draw the last plan it stays still: on a busy server all draw less often."""
SECONDS_BETWEEN_BOUNDS = 3.0
"""A better bound alone has the page drawn anew at most this often; the strip shows it at once."""
CHART_HEIGHT = 92


def show_run(plan: Plan | None) -> None:
    """Show the running solve, refreshed by itself, or the last one while its answer is the plan shown."""
    run = session.run()
    if run is not None:
        _running()
    elif (ended := ended_run(plan)) is not None:
        _strip(ended.job.snapshot(), ended)


def ended_run(plan: Plan | None) -> Run | None:
    """Return the last solve that was shown while it ran, if the plan shown is its answer."""
    run = session.shown_run()
    if run is None or plan is None or session.run() is not None:
        return None
    snapshot = run.job.snapshot()
    is_its = snapshot.result is not None and snapshot.result is plan.result
    return run if is_its else None


def begin_drawing(choice: Choice) -> None:
    """Note what this run of the page knows of the running solve; call it before the plan to show is chosen."""
    run, now_s = session.run(), time.monotonic()
    snapshot = None if run is None else run.job.snapshot()
    split, bound_ms = (None, None) if snapshot is None else (snapshot.best_split, snapshot.lower_bound_ms)
    session.remember_drawing(Drawing(choice.question, split, bound_ms, now_s, now_s))


def end_drawing() -> None:
    """Note that the page has been drawn to its end."""
    drawing = session.drawing()
    if drawing is not None:
        session.remember_drawing(replace(drawing, ended_s=time.monotonic()))


def tells_of(notice: Notice, plan: Plan | None) -> bool:
    """Whether the strip says what a notice about the plan shown says: how its solve ended, and why."""
    run = ended_run(plan)
    return run is not None and run.job.snapshot().question == notice.question


@st.fragment(run_every=POLL_SECONDS)
def _running() -> None:
    run = session.run()
    if run is None:
        return
    snapshot = run.job.snapshot()
    if snapshot.state.is_over or _is_worth_drawing(snapshot):
        st.rerun()
    session.remember_shown_run(None if run.is_live else run)
    _strip(snapshot, run)


def _is_worth_drawing(snapshot: Snapshot) -> bool:
    """Whether the job knows more than the page shows, and the page has been still for long enough."""
    drawing = session.drawing()
    asked = replace(snapshot.question, pins=NO_PINS)  # the page shows what its own edits pin
    if drawing is None or replace(drawing.question, method=asked.method) != asked:
        return False  # the page shows a plan for other inputs
    still_s = time.monotonic() - drawing.ended_s
    took_s = drawing.ended_s - drawing.began_s
    if snapshot.best_split is not drawing.best_split:
        return still_s >= max(SECONDS_BETWEEN_PLANS, STILL_SHARE * took_s)
    is_better = snapshot.lower_bound_ms != drawing.lower_bound_ms
    return is_better and still_s >= max(SECONDS_BETWEEN_BOUNDS, STILL_SHARE * took_s)


def _strip(snapshot: Snapshot, run: Run) -> None:
    with st.container(border=True, key="running"):
        text, chart, button = st.columns([5, 7, 1.3], vertical_alignment="center")
        text.html(strip_text(snapshot))
        # Always there, or the strip would grow with the first plan.
        chart.vega_lite_chart(
            convergence_rows(snapshot),
            convergence_chart(snapshot, theme()),
            height=CHART_HEIGHT,
            alt="Best plan and proven lower bound in ms over the seconds of the solve",
        )
        if snapshot.state.is_over:
            if button.button("Hide", key="hide_run", on_click=_hide, width="stretch", type="tertiary"):
                st.rerun()
        elif button.button("Cancel", key="cancel", on_click=_cancel, args=(run,), width="stretch"):
            st.rerun()


def _hide() -> None:
    """Leave the strip out from now on, and what it said."""
    session.remember_shown_run(None)
    session.remember_notice(None)


def _cancel(run: Run) -> None:
    # A callback, for a fragment that has news runs the page again before it comes to the button.
    run.job.cancel()


def ended_by(snapshot: Snapshot, result: SolveResult) -> tuple[str, str]:
    """Say what ended a solve: in a few words, and what is to be said besides, which may be nothing."""
    question = snapshot.question
    left = NO_PLAN if result.value_ms is None else "the best plan so far is kept"
    if snapshot.state is JobState.CANCELLED:
        return "Cancelled by you", left
    if snapshot.state is JobState.STOPPED:
        said = result.message.removesuffix(".").removesuffix(f"; {NO_PLAN}").removesuffix(f"; {BEST_SO_FAR}")
        why, _, _ = said.partition(". ")
        return "Stopped by the server", f"{why}; {left}"
    ended, besides = _end_in_words(question, result)
    return ended, ". ".join(filter(None, (besides, result.message)))


def _end_in_words(question: Question, result: SolveResult) -> tuple[str, str]:
    """Say how a solve ended that nobody ended, and what that leaves unproven."""
    if result.status is SolveStatus.OPTIMAL:
        return f"{PROVEN[0].upper()}{PROVEN[1:]}", ""
    if result.gap is not None and result.gap <= question.gap:
        return "Within the gap that was asked for", "not proven optimal"
    limit_s = question.time_limit_s
    if limit_s is not None and result.runtime_s >= limit_s - min(0.5, 0.05 * limit_s):
        return f"Time limit of {seconds(limit_s)} reached", "not proven optimal"
    if question.method in BASELINES:
        return "Solved", "this method proves nothing"
    return "Ended before the time limit" if limit_s else "Ended", "not proven optimal"


def strip_text(snapshot: Snapshot) -> str:
    """Return the three lines beside the chart as HTML: what is solved, how good the plan is, how far the solver is."""
    question, result = snapshot.question, snapshot.result
    method = METHOD.names.get(question.method, question.method)
    of_type = "latency" if question.objective is Objective.LATENCY else f"{question.family.named} splits"
    what = f"{of_type} · {method[0].lower() + method[1:]}"
    state = "Solving"
    value_ms, bound_ms = snapshot.incumbent_ms, snapshot.lower_bound_ms
    distance = proven_distance(value_ms, bound_ms)
    values = "Best plan so far "
    phase = snapshot.message or (snapshot.progress.phase if snapshot.progress else "starting")
    if snapshot.state is JobState.QUEUED:
        state = "Waiting" if snapshot.progress is None else "Paused"
    if result is not None:
        values = "Plan "
        value_ms, bound_ms, distance = result.value_ms, result.lower_bound_ms, proof(result)
        state, phase = ended_by(snapshot, result)
        if snapshot.state is JobState.DONE and result.status is SolveStatus.OPTIMAL:
            distance = ""  # what is left is rounding
    known = "no bound yet" if bound_ms is None else f"bound {milliseconds(bound_ms)}"
    if value_ms is None:
        values = f"No plan yet · {known}"
    else:
        values += " · ".join(filter(None, (milliseconds(value_ms), known, "" if bound_ms is None else distance)))
    # What the solver itself took is said beside the plan; starting its process comes on top.
    took_s = result.runtime_s if result is not None and snapshot.state is JobState.DONE else snapshot.seconds
    now = " · ".join(filter(None, (seconds(took_s), phase)))
    lines = (f"<b>{escape(state)}</b> · {escape(what)}", escape(unbroken(values)), escape(unbroken(now)))
    title = escape(f"{device_counts(question.deployment)}, {what}: {phase}")
    return (
        f'<div class="solve-strip" title="{title}">{"".join(f"<div>{line}</div>" for line in lines)}</div>'
        + STRIP_STYLE
    )


STRIP_STYLE = """<style>
/* A line that is too long beside the chart takes two: the strip is high enough for them. */
.solve-strip { font-size: 0.875rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.solve-strip > div { overflow-wrap: anywhere; padding: 0.1rem 0; }
.solve-strip > div + div { opacity: 0.85; }
.st-key-running { min-height: 7.2rem; }
</style>"""
