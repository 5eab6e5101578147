"""What two kept plans look like, shown while none is kept: two answers of the solvers for a bundled graph."""

import streamlit as st

from explorer.jobs.pool import Job, Question
from explorer.jobs.server_pool import solver_pool
from explorer.state import session
from explorer.state.entries import by_entry
from explorer.state.records import KeptPlan, LoadedGraph, Plan
from solvers.model.split import Family
from solvers.samples import read_sample, sample_info

SAMPLE = "teaching_tied_embedding"
FAMILIES = {Family.CHAIN: "best pipeline", Family.FREE: "best non-contiguous split"}
NAME = "compare example"
LIMIT_S = 10.0
WAIT_S = 1.2
POLL_SECONDS = 0.4


def example_plans() -> tuple[KeptPlan, ...]:
    """Return the plans of the example, as if they were kept; none while a solver is at work on them, or in vain."""
    graph, deployment = read_sample(SAMPLE)
    loaded = LoadedGraph(graph, deployment, sample_info(SAMPLE).title)
    jobs: dict[Family, Job] | None = session.batch(NAME)
    if jobs is None:
        jobs = {}
        for family in FAMILIES:
            question = Question(graph.digest, deployment, family=family, time_limit_s=LIMIT_S)
            jobs[family] = solver_pool().start(session.session_id(), question, graph, is_live=False)
        session.remember_batch(NAME, jobs)
        for job in jobs.values():
            job.wait(WAIT_S)
    plans: list[KeptPlan] = []
    for number, (family, job) in enumerate(jobs.items(), start=1):
        result = job.snapshot().result
        if result is None or result.split is None:
            if not job.is_over:
                _show_waiting()
            return ()
        split, entries = by_entry(result.split, deployment)
        question = Question(graph.digest, deployment, family=family, time_limit_s=LIMIT_S)
        # Numbers of their own: widgets of plans that are kept later are others.
        plans.append(KeptPlan(-number, FAMILIES[family], Plan(question, loaded, graph, entries, result, split)))
    return tuple(plans)


@st.fragment(run_every=POLL_SECONDS)
def _show_waiting() -> None:
    jobs: dict[Family, Job] = session.batch(NAME) or {}
    if all(job.is_over for job in jobs.values()):
        st.rerun()
    st.caption("The solver is at work on an example …")
