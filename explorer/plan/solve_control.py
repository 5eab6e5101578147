"""A solve that runs beside the page: start it, take note of its end; `explorer.plan.live_panel` shows it."""

import time

from explorer.jobs.pool import Job, JobState, Question
from explorer.jobs.server_pool import solver_pool
from explorer.plan.current_plan import end_for_another
from explorer.plan.edit_actions import take_answer
from explorer.server.asked_meanwhile import asked_meanwhile
from explorer.state import session, widgets
from explorer.state.choice import Choice
from explorer.state.entries import by_entry
from explorer.state.records import LoadedGraph, Notice, Plan, Run
from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family

LIVE_WAIT_S = 4.0
"""How long a rerun waits for a plan before it shows the page without, unless something else is asked for meanwhile.

To draw the page without the plan, and then again, costs a busy server more than all polls.
"""
WAIT_STEP_S = 0.1
ASKED_WAIT_S = 0.5
"""The same for a solve that was asked for: whoever pressed the button wants to see that something happens."""
MOST_NODES_WAITED_FOR = 20_000
"""The same for a larger graph: its solve takes longer than a rerun would wait, and the page would say nothing of it."""
LIVE_LIMIT_S = 3.0
"""A graph whose last DP took longer is solved on request only."""


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
    _take_note(choice)
    _show_known(choice)
    run, plan, notice = session.run(), session.plan(), session.notice()
    is_answered = (plan is not None and plan.question == choice.question) or (
        notice is not None and notice.question == choice.question
    )
    is_running = run is not None and run.job.snapshot().question == choice.question
    is_due = feels_live(choice.question) and not is_answered and (run is None or run.is_live)
    if is_running or not (choice.asks_to_solve or is_due):
        widgets.release(session.SOLVE_KEY)
        return
    if run is not None:
        end_for_another(run)
    session.remember_notice(None)
    takes_start = choice.question.method not in BASELINES
    start = plan.split if takes_start and plan is not None and plan.answers_for(choice.loaded) else None
    bound_ms = None
    if takes_start and (known := session.known_problems().get(choice.question)) is not None:
        start, bound_ms = known.result.split or start, known.result.lower_bound_ms
    is_live = is_due and not choice.asks_to_solve
    job = solver_pool().start(
        session.session_id(), choice.question, choice.graph, start, lower_bound_ms=bound_ms, is_live=is_live
    )
    session.remember_run(Run(job, choice.loaded, choice.graph, is_live=is_live))
    widgets.release(session.SOLVE_KEY)
    _wait(job, patience_s(choice.graph, is_asked=choice.asks_to_solve))
    _take_note(choice)


def patience_s(graph: DnnGraph, *, is_asked: bool) -> float:
    """Return how long a run of the page waits for the plan of a graph before it shows the page without."""
    is_large = len(graph.nodes) > MOST_NODES_WAITED_FOR
    return ASKED_WAIT_S if is_asked or is_large else LIVE_WAIT_S


def _wait(job: Job, seconds: float) -> None:
    """Wait for a job to end, unless the page is asked for something else meanwhile."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0 and not asked_meanwhile():
        if job.wait(min(WAIT_STEP_S, left_s)).state.is_over:
            return


def _show_known(choice: Choice) -> None:
    """Show the plan that is known of this problem, if it is the answer to this very question or proven optimal."""
    plan, known = session.plan(), session.known_problems().get(choice.question)
    if known is None or known.result.split is None or (plan is not None and plan.question == choice.question):
        return
    is_same_method = known.question is not None and known.question.method == choice.question.method
    is_answer = is_same_method and (known.question == choice.question or known.result.status is SolveStatus.OPTIMAL)
    if is_answer:
        _remember(choice.question, choice.loaded, choice.graph, known.result)


def _remember(question: Question, loaded: LoadedGraph, graph: DnnGraph, result: SolveResult) -> None:
    """Make an answer with a plan the one that is shown."""
    assert result.split is not None
    split, deployment = by_entry(result.split, question.deployment)
    session.remember_plan(Plan(question, loaded, graph, deployment, result, split))


def _take_note(choice: Choice) -> None:
    """Turn a solve that is over into a plan or a notice; what was known of the problem before is not lost."""
    run = session.run()
    if run is None:
        return
    snapshot = run.job.snapshot()
    if not snapshot.state.is_over:
        return
    session.remember_run(None)
    question, result = snapshot.question, snapshot.result
    if question.pins:
        take_answer(run, snapshot, choice)
        return
    known = session.known_problems()
    if snapshot.state is JobState.FAILED or result is None:
        before = known.get(question)
        if before is not None and before.result.split is not None:
            _remember(question, run.loaded, run.graph, before.result)
        session.remember_notice(
            Notice(question, snapshot.error or "The solve ended without an answer.", snapshot.details)
        )
        return
    if result.method == "dp":
        session.remember_dp_seconds(run.loaded.graph.digest, result.runtime_s)
    best = known.take_in(question, result)
    if best.split is not None:
        _remember(question, run.loaded, run.graph, best)
        # That it ended without a plan of its own is said beside the one that is kept.
        session.remember_notice(Notice(question, result.message) if result.message else None)
        return
    message = result.message or "No plan was found in time; allow more time."
    if result.status is SolveStatus.INFEASIBLE:
        message = f"No plan exists. {message}"
    session.remember_notice(Notice(question, message))
