"""All methods on one graph: what each finds, whether it is valid, and by how much the best plan beats it.

The gain over a method with value v is v / v*, where v* is the least value of a valid plan of the exact methods (chain,
convex and free splits, or latency): how many times as fast the best plan is. A baseline that ignores a rule keeps its
value in the comparison, marked with what it breaks; it can be below v*.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE, OnProgress, SolveResult, SolveStatus, relative_gap
from solvers.model.split import Family, Split, complete_split
from solvers.problem.solving import MethodError
from solvers.solve import solve

EXACT = "auto"
"""The method that stands for all that prove their plans."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One method to run; `family` matters to exact methods only."""

    method: str
    family: Family

    @property
    def is_exact(self) -> bool:
        """Whether the method proves what it finds, as far as time allows."""
        return self.method == EXACT

    @property
    def label(self) -> str:
        """What a table calls it."""
        return f"best {self.family.named}" if self.is_exact else self.method.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one method answered, in ms, seconds and bytes; `status` is None where it could not run at all.

    `value_ms` is the evaluated value of its plan, also of one that breaks rules: then `violations` says which, and
    neither bound nor status vouch for it. `family` is that of the plan.
    """

    method: str
    family: Family
    status: SolveStatus | None
    value_ms: float | None
    lower_bound_ms: float | None
    runtime_s: float
    largest_memory_bytes: float | None
    violations: tuple[str, ...]
    message: str

    @property
    def is_valid(self) -> bool:
        """Whether there is a plan and it breaks no rule."""
        return self.value_ms is not None and not self.violations

    @property
    def gap(self) -> float | None:
        """Relative gap between value and bound; None for a plan that breaks rules."""
        return None if self.violations else relative_gap(self.value_ms, self.lower_bound_ms)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Outcome":
        """Return the outcome that `document` wrote; KeyError, TypeError or ValueError where it is not one."""
        violations = document["violations"]
        if not isinstance(violations, list):
            raise TypeError
        return cls(
            method=_text(document["method"]),
            family=Family(document["family"]),
            status=None if document["status"] is None else SolveStatus(document["status"]),
            value_ms=_number_or_none(document["value_ms"]),
            lower_bound_ms=_number_or_none(document["lower_bound_ms"]),
            runtime_s=_number(document["runtime_s"]),
            largest_memory_bytes=_number_or_none(document["largest_memory_bytes"]),
            violations=tuple(_text(violation) for violation in violations),
            message=_text(document["message"]),
        )

    def document(self) -> dict[str, Any]:
        """Return the outcome as a JSON object."""
        return {
            "method": self.method,
            "family": str(self.family),
            "status": None if self.status is None else str(self.status),
            "value_ms": self.value_ms,
            "lower_bound_ms": self.lower_bound_ms,
            "gap": self.gap,
            "runtime_s": round(self.runtime_s, 6),
            "largest_memory_bytes": self.largest_memory_bytes,
            "violations": list(self.violations),
            "message": self.message,
        }


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not 0 <= value <= sys.float_info.max:
        raise ValueError
    return value


def _number_or_none(value: object) -> float | None:
    return None if value is None else _number(value)


def questions(objective: Objective, families: Sequence[Family], *, with_expert: bool) -> tuple[Contender, ...]:
    """Return what to ask for an objective: the exact methods, narrower families first, then the baselines.

    >>> [q.label for q in questions(Objective.LATENCY, tuple(Family), with_expert=False)]
    ['best non-contiguous', 'single', 'scotch', 'greedy latency', 'max load latency']
    """
    exact = [family for family in Family if family in families]
    if objective is Objective.LATENCY:
        exact = [Family.FREE]
    return (
        *(Contender(EXACT, family) for family in exact),
        *(
            Contender(name, Family.FREE)
            for name, baseline in BASELINES.items()
            if objective in baseline.objectives and (with_expert or name != "expert")
        ),
    )


def ask(
    graph: DnnGraph,
    deployment: Deployment,
    question: Contender,
    *,
    objective: Objective = Objective.THROUGHPUT,
    time_limit_s: float | None = None,
    table_bytes: int | None = None,
    start: Split | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[Outcome, Split | None]:
    """Run one method and return its outcome and its valid split, if any; `start` is also the expert's split.

    Raises MethodError where the method cannot run, which `refused` makes an outcome of.
    """
    result = solve(
        graph,
        deployment,
        objective=objective,
        method=question.method,
        family=question.family,
        time_limit_s=time_limit_s,
        table_bytes=table_bytes,
        start=start,
        on_progress=on_progress,
    )
    return outcome_of(graph, deployment, question, result), result.split


def refused(question: Contender, error: MethodError) -> Outcome:
    """Return the outcome of a method that cannot run here, such as Scotch where it is not installed."""
    return Outcome(question.method, question.family, None, None, None, 0.0, None, (), str(error))


def outcome_of(graph: DnnGraph, deployment: Deployment, question: Contender, result: SolveResult) -> Outcome:
    """Return what a method answered as a row of a comparison."""
    value, split = result.value_ms, result.split
    violations: tuple[str, ...] = ()
    if result.rejected is not None:
        value, split = result.rejected.value_ms, result.rejected.split
        violations = tuple(violation.message for violation in result.rejected.violations)
    largest = None
    if split is not None:
        accelerators = split_costs(graph, deployment, split).devices[: len(split.accelerators)]
        largest = max((device.memory_bytes for device in accelerators), default=0.0)
    return Outcome(
        method=question.method,
        family=result.family,
        status=result.status,
        value_ms=value,
        lower_bound_ms=result.lower_bound_ms,
        runtime_s=result.runtime_s,
        largest_memory_bytes=largest,
        violations=violations,
        message=result.message,
    )


def compare(
    graph: DnnGraph,
    deployment: Deployment,
    *,
    objective: Objective = Objective.THROUGHPUT,
    families: Sequence[Family] = tuple(Family),
    expert: Split | None = None,
    time_limit_s: float | None = None,
    table_bytes: int | None = None,
    on_progress: Callable[[Contender], OnProgress] | None = None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Contender, Outcome]]:
    """Yield each method's outcome as it is known; an exact method starts from the best plan of the ones before it.

    The bound that was proven for free splits, or for latency, is one for the plans of baselines too.

    `time_limit_s` and `table_bytes`, what the tables of the DP may take, are for each method. `on_progress` is called
    with each question as it begins and returns what watches it. Ends early once `is_interrupted()`; the method that was
    running then answers with its best so far. Raises SplitError for an expert split of another graph, and MethodError
    if already the first method cannot run: then the objective does not fit.
    """
    if expert is not None:
        expert = complete_split(graph, expert)  # tells at once what cannot be judged later
    start: Split | None = None
    is_first = True
    free_bound_ms: float | None = None
    best = math.inf
    for question in questions(objective, families, with_expert=expert is not None):
        if is_interrupted():
            return
        watch = None if on_progress is None else on_progress(question)
        try:
            outcome, split = ask(
                graph,
                deployment,
                question,
                objective=objective,
                time_limit_s=time_limit_s,
                table_bytes=table_bytes,
                start=expert if question.method == "expert" else start if question.is_exact else None,
                on_progress=watch,
            )
        except MethodError as error:
            if is_first:
                raise
            outcome, split = refused(question, error), None
        is_first = False
        if question.is_exact and question.family is Family.FREE:
            free_bound_ms = outcome.lower_bound_ms
        elif not question.is_exact and free_bound_ms is not None:
            outcome = _with_bound(outcome, free_bound_ms)
        if question.is_exact and split is not None and outcome.value_ms is not None and outcome.value_ms < best:
            start, best = split, outcome.value_ms
        yield question, outcome


def with_proven_bound(answers: Sequence[tuple[Contender, Outcome]]) -> list[tuple[Contender, Outcome]]:
    """Return answers that came in any order, with the bound of the exact method on all splits where it is better."""
    known = [
        outcome.lower_bound_ms
        for question, outcome in answers
        if question.is_exact and question.family is Family.FREE and outcome.lower_bound_ms is not None
    ]
    if not known:
        return list(answers)
    return [
        (question, outcome if question.is_exact else _with_bound(outcome, known[0])) for question, outcome in answers
    ]


def _with_bound(outcome: Outcome, lower_bound_ms: float) -> Outcome:
    """Return the outcome of a valid plan with a bound on every split, where that is better than its own."""
    if not outcome.is_valid or outcome.value_ms is None or lower_bound_ms <= (outcome.lower_bound_ms or 0.0):
        return outcome
    bound = min(lower_bound_ms, outcome.value_ms)  # above it by rounding at most
    gap = relative_gap(outcome.value_ms, bound)
    is_proven = gap is not None and gap <= PROOF_TOLERANCE
    return replace(outcome, lower_bound_ms=bound, status=SolveStatus.OPTIMAL if is_proven else outcome.status)


def best_value_ms(answers: Sequence[tuple[Contender, Outcome]]) -> float | None:
    """Return the least value of a valid plan of the exact methods; None where there is none."""
    values = [
        outcome.value_ms
        for question, outcome in answers
        if question.is_exact and outcome.is_valid and outcome.value_ms is not None
    ]
    return min(values, default=None)


def gain(outcome: Outcome, best_ms: float | None) -> float | None:
    """Return how many times as fast the best plan is as this one; None where either is unknown or takes no time."""
    if outcome.value_ms is None or best_ms is None or best_ms <= 0:
        return None
    return outcome.value_ms / best_ms
