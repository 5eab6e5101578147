"""What a session knows of a problem: no later solve, cancelled or killed, makes it less."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from explorer.jobs.pool import Question
from explorer.state.known import MOST_PROBLEMS, KnownProblems, merged
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.pins import pins_of
from tests.support.examples import examples

QUESTION = Question("digest", Deployment(2), family=Family.FREE, time_limit_s=5.0)
PLAN = Split((frozenset({1}), frozenset({2})))


def answer(value_ms: float | None, bound_ms: float | None, status: SolveStatus | None = None) -> SolveResult:
    usual = SolveStatus.UNKNOWN if value_ms is None else SolveStatus.FEASIBLE
    split = None if value_ms is None else PLAN
    return SolveResult(status or usual, "auto", Objective.THROUGHPUT, Family.FREE, split, value_ms, bound_ms, 1.0)


def test_a_cancelled_longer_solve_keeps_the_plan_and_the_better_bound() -> None:
    known = KnownProblems()
    known.take_in(QUESTION, answer(10.0, 9.0))
    best = known.take_in(replace(QUESTION, time_limit_s=60.0), answer(11.0, 4.0))
    assert (best.value_ms, best.lower_bound_ms, best.split) == (10.0, 9.0, PLAN)
    assert known.take_in(QUESTION, answer(None, None)).value_ms == 10.0, "a solve without a plan loses none"


def test_a_solve_that_was_ended_for_another_leaves_what_it_found_and_its_question_open() -> None:
    known = KnownProblems()
    known.take_in(QUESTION, answer(11.0, 9.0), is_answer=False)
    left = known.get(QUESTION)
    assert left is not None
    assert (left.question, left.result.value_ms, left.result.lower_bound_ms) == (None, 11.0, 9.0)
    known.take_in(QUESTION, answer(10.0, 8.0))
    known.take_in(replace(QUESTION, time_limit_s=60.0), answer(None, 9.5), is_answer=False)
    best = known.get(QUESTION)
    assert best is not None
    assert (best.question, best.result.value_ms, best.result.lower_bound_ms) == (QUESTION, 10.0, 9.5)


def test_a_plan_and_a_bound_of_two_solves_may_prove_each_other() -> None:
    best = merged(answer(10.0, 4.0), answer(12.0, 10.0))
    assert (best.status, best.value_ms, best.lower_bound_ms) == (SolveStatus.OPTIMAL, 10.0, 10.0)


def test_problems_are_told_apart_by_what_changes_the_optimum_only() -> None:
    known = KnownProblems()
    known.take_in(QUESTION, answer(10.0, 9.0))
    for same in (replace(QUESTION, time_limit_s=1.0), replace(QUESTION, gap=0.1), replace(QUESTION, method="ip")):
        assert known.get(same) is not None
    others = (
        replace(QUESTION, deployment=Deployment(3)),
        replace(QUESTION, objective=Objective.GPIPE),
        replace(QUESTION, family=Family.CHAIN),
        replace(QUESTION, graph_digest="other"),
        replace(QUESTION, method="scotch"),
        replace(QUESTION, pins=pins_of({1: 0})),
    )
    assert [known.get(other) for other in others] == [None] * len(others)


def test_only_so_many_problems_are_remembered() -> None:
    known = KnownProblems()
    for k in range(1, MOST_PROBLEMS + 2):
        known.take_in(replace(QUESTION, deployment=Deployment(k)), answer(1.0, 0.5))
    assert known.get(replace(QUESTION, deployment=Deployment(1))) is None
    assert known.get(replace(QUESTION, deployment=Deployment(2))) is not None


VALUES = st.none() | st.floats(5.0, 10.0)
BOUNDS = st.none() | st.floats(0.0, 5.0)


@examples(100)
@given(st.lists(st.tuples(VALUES, BOUNDS), min_size=1, max_size=6))
def test_what_is_known_never_gets_worse(answers: list[tuple[float | None, float | None]]) -> None:
    known = KnownProblems()
    for value_ms, bound_ms in answers:
        best = known.take_in(QUESTION, answer(value_ms, bound_ms))
    assert best.value_ms == min((value for value, _ in answers if value is not None), default=None)
    assert best.lower_bound_ms == max((bound for _, bound in answers if bound is not None), default=None)
