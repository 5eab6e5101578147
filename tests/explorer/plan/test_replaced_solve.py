"""A solve whose place another takes: what it has found helps the one after it, and answers nothing by itself."""

from dataclasses import replace
from typing import Any, cast

import pytest

from explorer.jobs.pool import HistoryPoint, Job, JobState, Question, Snapshot
from explorer.plan import solve_control
from explorer.state import session
from explorer.state.records import LoadedGraph, Run
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from tests.support.choices import choice_of

GRAPH = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
DEPLOYMENT = Deployment(2)
APART = Split((frozenset({1}), frozenset({2})))
LOADED = LoadedGraph(GRAPH, DEPLOYMENT, "tests")
QUESTION = Question(GRAPH.digest, DEPLOYMENT, family=Family.FREE, time_limit_s=60.0)
FOUND = SolveResult(
    SolveStatus.FEASIBLE, "auto (cancelled)", Objective.THROUGHPUT, Family.FREE, APART, 3.5, 3.0, 2.0, "Cancelled."
)


class PretendedJob:
    """A job that runs until it is cancelled."""

    def __init__(self, question: Question) -> None:
        history = (HistoryPoint(1.0, 3.5, 3.0),)
        self.now = Snapshot("id", question, JobState.RUNNING, 2.0, None, history, APART, None, "", "", "", False)

    def snapshot(self) -> Snapshot:
        return self.now

    def cancel(self) -> Snapshot:
        self.now = replace(self.now, state=JobState.CANCELLED, result=FOUND)
        return self.now


class PretendedPool:
    """A pool that notes from what plan and bound each solve begins."""

    def __init__(self) -> None:
        self.begun: list[tuple[Question, Split | None, float | None]] = []

    def start(
        self, name: str, question: Question, graph: DnnGraph, start: Split | None, *, lower_bound_ms: float | None,
        is_live: bool,
    ) -> Any:  # fmt: skip
        self.begun.append((question, start, lower_bound_ms))
        return PretendedJob(question)


def test_a_solve_begins_from_what_the_one_before_it_had_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PretendedPool()
    monkeypatch.setattr(session.st, "session_state", {})
    monkeypatch.setattr(solve_control, "solver_pool", lambda: pool)
    monkeypatch.setattr(solve_control, "_wait", lambda *_: None)
    session.remember_run(Run(cast("Job", PretendedJob(QUESTION)), LOADED, GRAPH, is_live=False))
    shorter = replace(QUESTION, time_limit_s=5.0)
    for question in (shorter, QUESTION):
        solve_control.follow(replace(choice_of(question, LOADED), asks_to_solve=True))
    assert pool.begun == [(shorter, APART, 3.0), (QUESTION, APART, 3.0)]
    assert session.plan() is None, "what was left answers no question"
