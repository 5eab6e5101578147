"""Answers of the production solvers for the page Learn: asked beside the page, waited for a moment, then looked at."""

import streamlit as st

from explorer.jobs.pool import Job
from explorer.jobs.server_pool import solver_pool
from explorer.state import session
from explorer.state.records import Subject
from solvers.model.errors import PlacementError
from solvers.model.result import SolveResult

WAIT_S = 1.2
POLL_SECONDS = 0.4
JOBS = "lessons"
MAX_JOBS = 24
LIMIT_S = 60.0


def solved(subject: Subject) -> SolveResult | None:
    """Return the answer to what a subject asks; None while a solver process is at work on it."""
    jobs: dict[object, Job] = session.batch(JOBS) or {}
    question = subject.question
    job = jobs.get(question)
    if job is None:
        job = solver_pool().start(session.session_id(), question, subject.graph, is_live=True)
        jobs = {**dict(list(jobs.items())[-MAX_JOBS:]), question: job}
        session.remember_batch(JOBS, jobs)
        job.wait(WAIT_S)
    snapshot = job.snapshot()
    if snapshot.state.is_over and snapshot.result is None:
        raise SolverFailedError(snapshot.error or "The solver ended without an answer; open the page again.")
    return snapshot.result


class SolverFailedError(PlacementError):
    """A solve that a step needs ended without an answer; the text says why."""


@st.fragment(run_every=POLL_SECONDS)
def show_waiting() -> None:
    """Say that a solver is at work, and draw the page again when it is done."""
    jobs: dict[object, Job] = session.batch(JOBS) or {}
    if all(job.is_over for job in jobs.values()):
        st.rerun()
    st.caption("The solver is at work on this …")
