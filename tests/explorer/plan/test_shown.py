"""Tests of which plan is shown, with a pretended session and jobs of given snapshots."""

from dataclasses import replace
from typing import Any

import pytest

from explorer.elements.headline import Standing, standing_html
from explorer.jobs.pool import HistoryPoint, JobState, Question, Snapshot
from explorer.plan.current_plan import shown_plan, standing_of
from explorer.state import session
from explorer.state.choice import Choice
from explorer.state.entries import by_entry
from explorer.state.records import LoadedGraph, Plan, Run
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, Replication
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from tests.support.choices import choice_of

GRAPH = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
DEPLOYMENT = Deployment(2)
APART = Split((frozenset({1}), frozenset({2})))
TOGETHER = Split((frozenset({1, 2}), frozenset()))
LOADED = LoadedGraph(GRAPH, DEPLOYMENT, "tests")
QUESTION = Question(GRAPH.digest, DEPLOYMENT)


class PretendedJob:
    """A job that is always as its snapshot says."""

    def __init__(self, **changes: Any) -> None:
        self.now = replace(
            Snapshot("id", QUESTION, JobState.RUNNING, 2.0, None, (), None, None, "", "", "", False), **changes
        )

    def snapshot(self) -> Snapshot:
        return self.now


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A session without a browser."""
    state: dict[str, Any] = {}
    monkeypatch.setattr(session.st, "session_state", state)
    return state


def choice(question: Question = QUESTION, loaded: LoadedGraph = LOADED) -> Choice:
    return choice_of(question, loaded)


def last_plan(split: Split = TOGETHER) -> Plan:
    result = SolveResult(SolveStatus.OPTIMAL, "dp", Objective.THROUGHPUT, Family.CHAIN, split, 5.0, 5.0, 0.1)
    plan = Plan(QUESTION, LOADED, GRAPH, DEPLOYMENT, result, split)
    session.remember_plan(plan)
    return plan


def running(**changes: Any) -> PretendedJob:
    job: Any = PretendedJob(**changes)
    session.remember_run(Run(job, LOADED, GRAPH, is_live=False))
    return job


def test_without_a_run_the_last_plan_of_the_same_graph_is_shown() -> None:
    assert shown_plan(choice()) is None
    plan = last_plan()
    assert shown_plan(choice(replace(QUESTION, family=Family.FREE))) is plan
    other = DnnGraph((Node(1, 1.0, 9.0),), ())
    loaded = LoadedGraph(other, DEPLOYMENT, "other")
    assert shown_plan(choice(replace(QUESTION, graph_digest=other.digest), loaded)) is None


def test_the_best_plan_of_a_running_solve_goes_first_and_claims_no_proof() -> None:
    last_plan()
    job = running(best_split=APART, history=(HistoryPoint(1.0, 99.0, 3.5),), seconds=2.5)
    plan = shown_plan(choice())
    assert plan is not None
    # The solver says 99 ms, the evaluator 2 + 0.5 and 0.5 + 3.
    assert (plan.split, plan.result.value_ms, plan.result.lower_bound_ms) == (APART, 3.5, 3.5)
    assert (plan.result.status, plan.result.method, plan.result.runtime_s) == (
        SolveStatus.FEASIBLE,
        "auto (running)",
        2.5,
    )
    assert shown_plan(choice()) is plan
    job.now = replace(job.now, history=(HistoryPoint(1.0, 3.5, 3.6),))
    assert shown_plan(choice()) is plan  # a bound above the value is the value


def test_a_better_bound_and_a_better_plan_are_taken_over() -> None:
    job = running(best_split=TOGETHER, history=(HistoryPoint(1.0, 5.0, None),))
    first = shown_plan(choice())
    assert first is not None
    assert (first.result.value_ms, first.result.lower_bound_ms) == (5.0, None)
    job.now = replace(job.now, history=(HistoryPoint(1.0, 5.0, 3.0),))
    second = shown_plan(choice())
    assert second is not None
    assert (second.split, second.result.lower_bound_ms) == (TOGETHER, 3.0)
    job.now = replace(job.now, best_split=APART, history=(HistoryPoint(1.0, 3.5, 3.0),))
    third = shown_plan(choice())
    assert third is not None
    assert (third.split, third.result.value_ms) == (APART, 3.5)


def test_a_value_in_progress_and_one_of_earlier_inputs_are_told_apart_from_an_answer() -> None:
    plan = last_plan()
    assert standing_of(plan, choice()) is Standing.FINAL
    other = choice(replace(QUESTION, family=Family.FREE))
    assert standing_of(plan, other) is Standing.STALE
    running(best_split=APART)
    best = shown_plan(choice())
    assert best is not None
    assert standing_of(best, choice()) is Standing.SO_FAR
    assert standing_of(best, other) is Standing.STALE
    html = standing_html(best, Standing.SO_FAR)
    assert 'data-state="so-far" data-value-ms="3.5" data-bound-ms=""' in html


def test_what_was_known_before_is_no_answer_while_a_solve_looks_again() -> None:
    plan = replace(last_plan(), result=replace(last_plan().result, status=SolveStatus.FEASIBLE))
    job = running(best_split=None)
    assert standing_of(plan, choice()) is Standing.SO_FAR
    proven = replace(plan, result=replace(plan.result, status=SolveStatus.OPTIMAL))
    assert standing_of(proven, choice()) is Standing.FINAL, "nothing better can be found"
    job.now = replace(job.now, state=JobState.DONE)
    assert standing_of(plan, choice()) is Standing.FINAL


@pytest.mark.parametrize(
    "changes",
    [
        {"best_split": None},
        {"best_split": APART, "state": JobState.CANCELLED},
        {"best_split": APART, "question": replace(QUESTION, family=Family.FREE)},
    ],
)
def test_a_run_without_a_plan_of_this_question_leaves_the_last_one(changes: dict[str, Any]) -> None:
    plan = last_plan()
    running(**changes)
    assert shown_plan(choice()) is plan


def test_a_replicated_stage_is_one_device() -> None:
    deployment = Deployment(3, 1, replication=Replication(2))
    split = Split((frozenset({1}), frozenset({2}), frozenset()), (frozenset(),), replicas=(2, 1, 1))
    entries, shown = by_entry(split, deployment)
    assert (entries.accelerators, entries.replicas, shown.num_accelerators) == (
        (frozenset({1}), frozenset({2})),
        (2, 1),
        2,
    )
    assert by_entry(APART, DEPLOYMENT) == (APART, DEPLOYMENT)
