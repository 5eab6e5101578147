"""What is known of each problem in this session: its best plan and best proven bound, whatever solve brought them.

Two questions are about one problem when they differ only in how long and how exactly is searched: in the time limit,
the gap, and which exact method is asked. A plan of the one is one of the other, and so is a bound. Baselines have a
record of their own each, since they are asked for their plan and not for the best.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace

from explorer.jobs.pool import Question
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus, relative_gap
from solvers.parameters.question import EXACT

MOST_PROBLEMS = 32
"""Problems that are remembered, the ones asked last."""


@dataclass(frozen=True, slots=True)
class Known:
    """The best answer to a problem so far: with a plan, or without one where only a bound is known.

    `question` is the one that it answers: of a plan that is not proven another time limit may bring a better one. It is
    None where every solve of the problem so far was ended for another.
    """

    question: Question | None
    result: SolveResult


class KnownProblems:
    """The answers of a session by problem; merging keeps the better plan and the better bound."""

    def __init__(self) -> None:
        self._known: OrderedDict[Question, Known] = OrderedDict()

    def get(self, question: Question) -> Known | None:
        """Return what is known of the problem of a question; None for one with pins, and where nothing is."""
        return None if question.pins else self._known.get(problem_of(question))

    def take_in(self, question: Question, result: SolveResult, *, is_answer: bool = True) -> SolveResult:
        """Take in an answer, and return the best that is now known: its plan and bound, or those found before.

        `is_answer` says whether the question is answered by it, or was left for another before it was.
        """
        if question.pins:
            return result
        before = self.get(question)
        best = result if before is None else merged(before.result, result)
        problem = problem_of(question)
        answered = None if before is None else before.question
        self._known[problem] = Known(question if is_answer else answered, best)
        self._known.move_to_end(problem)
        while len(self._known) > MOST_PROBLEMS:
            self._known.popitem(last=False)
        return best


def problem_of(question: Question) -> Question:
    """Return what all questions about one problem have in common."""
    method = "auto" if question.method in EXACT else question.method
    return replace(question, method=method, time_limit_s=None, gap=0.0)


def merged(before: SolveResult, now: SolveResult) -> SolveResult:
    """Return the better plan of two answers to one problem, of equal ones that proven first, under the better bound."""
    if now.status is SolveStatus.INFEASIBLE:
        return now
    bounds = [bound for bound in (before.lower_bound_ms, now.lower_bound_ms) if bound is not None]
    bound_ms = max(bounds, default=None)
    is_older_better = before.value_ms is not None and (
        now.value_ms is None
        or before.value_ms < now.value_ms
        or (before.value_ms == now.value_ms and before.status is SolveStatus.OPTIMAL)
    )
    best = before if is_older_better else now
    if best.value_ms is None:
        return replace(best, lower_bound_ms=bound_ms)
    bound_ms = None if bound_ms is None else min(bound_ms, best.value_ms)  # they may differ in the last digit
    gap = relative_gap(best.value_ms, bound_ms)
    is_proven = gap is not None and gap <= PROOF_TOLERANCE
    return replace(best, lower_bound_ms=bound_ms, status=SolveStatus.OPTIMAL if is_proven else SolveStatus.FEASIBLE)
