"""The strip of a solve says what ended it."""

from dataclasses import replace

import pytest

from explorer.jobs.record import BEST_SO_FAR, NO_PLAN, PAGE_AWAY, JobState, Question, Snapshot
from explorer.plan.live_panel import ended_by, strip_text
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family

QUESTION = Question("digest", Deployment(2, 0, 2.0**30), time_limit_s=60.0)
FOUND = SolveResult(
    SolveStatus.FEASIBLE, "dp, then ip", Objective.THROUGHPUT, Family.CHAIN, None, 10.0, 9.0, runtime_s=59.9
)
NOTHING = replace(FOUND, status=SolveStatus.UNKNOWN, value_ms=None)
MEMORY = "The solver was stopped at 1.5 GiB of memory, the most that one may take on this server"
SERVER = "The server was started again while this was solved"


@pytest.mark.parametrize(
    ("state", "question", "result", "ended", "besides"),
    [
        (JobState.DONE, QUESTION, replace(FOUND, status=SolveStatus.OPTIMAL), "Optimal (proven)", ""),
        (JobState.DONE, QUESTION, FOUND, "Time limit of 60 s reached", "not proven optimal"),
        (JobState.DONE, QUESTION, replace(FOUND, runtime_s=3.0), "Ended before the time limit", "not proven optimal"),
        (JobState.DONE, replace(QUESTION, time_limit_s=None), FOUND, "Ended", "not proven optimal"),
        (JobState.DONE, replace(QUESTION, gap=0.1), FOUND, "Within the gap that was asked for", "not proven optimal"),
        (
            JobState.DONE,
            replace(QUESTION, method="scotch"),
            replace(FOUND, runtime_s=0.1),
            "Solved",
            "this method proves nothing",
        ),
        (
            JobState.DONE,
            QUESTION,
            replace(FOUND, message="The integer program is too large to be built in the time that is left."),
            "Time limit of 60 s reached",
            "not proven optimal. The integer program is too large to be built in the time that is left.",
        ),
        (JobState.CANCELLED, QUESTION, FOUND, "Cancelled by you", "the best plan so far is kept"),
        (
            JobState.STOPPED,
            QUESTION,
            replace(FOUND, message=f"{MEMORY}. Another method may take less; {BEST_SO_FAR}."),
            "Stopped by the server",
            f"{MEMORY}; the best plan so far is kept",
        ),
        (
            JobState.STOPPED,
            QUESTION,
            replace(FOUND, message=f"{SERVER}; {BEST_SO_FAR}."),
            "Stopped by the server",
            f"{SERVER}; the best plan so far is kept",
        ),
        (
            JobState.STOPPED,
            QUESTION,
            replace(NOTHING, message=f"{SERVER}; {NO_PLAN}."),
            "Stopped by the server",
            f"{SERVER}; no plan was found until then",
        ),
        (
            JobState.STOPPED,
            QUESTION,
            replace(FOUND, message=f"{PAGE_AWAY}; {BEST_SO_FAR}."),
            "Stopped by the server",
            "The page was away while this was solved; the best plan so far is kept",
        ),
        (JobState.CANCELLED, QUESTION, NOTHING, "Cancelled by you", "no plan was found until then"),
    ],
)
def test_what_ended_a_solve(state: JobState, question: Question, result: SolveResult, ended: str, besides: str) -> None:
    snapshot = Snapshot("1", question, state, result.runtime_s, None, (), None, result, "", "", "", False)
    assert ended_by(snapshot, result) == (ended, besides)


def test_the_time_of_a_solve_that_has_ended_is_the_one_that_stands_beside_its_plan() -> None:
    snapshot = Snapshot(
        "1", QUESTION, JobState.DONE, 3.42, None, (), None, replace(FOUND, runtime_s=3.12), "", "", "", False
    )
    assert "3.12\xa0s" in strip_text(snapshot)
    assert "3.42" in strip_text(replace(snapshot, state=JobState.RUNNING, result=None))


def test_latency_has_no_split_type_to_say() -> None:
    """Splits for latency are non-contiguous whatever is set for throughput."""
    snapshot = Snapshot("1", QUESTION, JobState.RUNNING, 1.0, None, (), None, None, "", "", "", False)
    assert "pipeline splits" in strip_text(snapshot)
    said = strip_text(replace(snapshot, question=replace(QUESTION, objective=Objective.LATENCY)))
    assert "splits" not in said
    assert "latency" in said
