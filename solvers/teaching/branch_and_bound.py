"""Branch and bound over the integer program, node by node.

The relaxation of the whole problem gives a bound. Where its answer divides a node between devices, two smaller problems
take its place: in one the node is on that device, in the other it is not. The best bound of all open problems holds for
every plan. A problem is closed where its relaxation has no solution, where its bound reaches the best plan known (the
incumbent), or where its answer is whole and so a plan itself. Rounding an answer may give a better incumbent earlier.
The search takes the open problem with the least bound, and ends when none is left below the incumbent.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from solvers.model.costs import split_costs
from solvers.model.split import Family, Split, check_split
from solvers.quantities import count
from solvers.teaching.integer_program import Choice, IntegerProgram, Relaxed
from solvers.teaching.small import SmallProblem, TeachingError

MAX_STEPS = 1_000
"""More branches than a tree on the screen can hold, and a second or two of work."""

SLACK = 1e-7
"""Relative: bounds that differ by less are equal, but for the rounding of the solver of linear programs."""


class Ending(StrEnum):
    """What became of a problem of the tree."""

    BRANCHED = "branched"
    WHOLE = "whole"
    BOUND = "closed by its bound"
    INFEASIBLE = "no solution"


@dataclass(frozen=True, slots=True)
class BranchStep:
    """A problem of the tree that was just looked at.

    `number` counts from 0; `parent` is None for the root. `fixed` are the decisions that lead to it, `relaxed` its
    relaxation. `branch_on` is the node and the device that its two successors decide. `incumbent_ms` is the best plan
    known after it, None while there is none; `bound_ms` the least bound of what is still open, or the incumbent.
    """

    number: int
    parent: int | None
    fixed: tuple[tuple[Choice, int], ...]
    relaxed: Relaxed | None
    ending: Ending
    branch_on: Choice | None
    is_new_incumbent: bool
    incumbent_ms: float | None
    incumbent: Split | None
    bound_ms: float


@dataclass(order=True, slots=True)
class _Open:
    """A problem that is yet to be looked at, with the bound of its parent."""

    bound_ms: float
    number: int
    parent: int | None = field(compare=False)
    fixed: dict[Choice, int] = field(compare=False)


def branch_steps(problem: SmallProblem, *, contiguous: bool) -> Iterator[BranchStep]:
    """Yield the problems of the tree as they are looked at; TeachingError for a tree of more than MAX_STEPS.

    Nothing is left open after the last one: its incumbent is the optimum, or None where no plan is valid.
    """
    program = IntegerProgram(problem, contiguous)
    best: Split | None = None
    best_ms: float | None = None
    waiting = [_Open(0.0, 0, None, {})]
    num_made = 1
    while waiting:
        here = heapq.heappop(waiting)
        if here.number > MAX_STEPS:
            raise TeachingError(f"The tree has more than {count(MAX_STEPS)} problems; take fewer nodes or devices.")
        relaxed = None if _is_reached(here.bound_ms, best_ms) else program.relaxed(here.fixed)
        ending, branch_on, is_new = Ending.BOUND, None, False
        if relaxed is None and not _is_reached(here.bound_ms, best_ms):
            ending = Ending.INFEASIBLE
        elif relaxed is not None:
            split = Split.from_device_of(relaxed.rounded, problem.deployment)
            family = Family.CHAIN if contiguous else Family.FREE
            value_ms = split_costs(problem.graph, problem.deployment, split).max_load_ms
            is_valid = not check_split(problem.graph, problem.deployment, split, family)
            if is_valid and (best_ms is None or value_ms < best_ms * (1 - SLACK)):
                best, best_ms, is_new = split, value_ms, True
            if not _is_reached(relaxed.bound_ms, best_ms):
                branch_on = relaxed.most_divided
                ending = Ending.WHOLE if branch_on is None else Ending.BRANCHED
            elif is_new and relaxed.most_divided is None:
                ending = Ending.WHOLE
            if branch_on is not None:
                for choice in (1, 0):
                    fixed = {**here.fixed, branch_on: choice}
                    heapq.heappush(waiting, _Open(relaxed.bound_ms, num_made, here.number, fixed))
                    num_made += 1
        still_open = [other.bound_ms for other in waiting if not _is_reached(other.bound_ms, best_ms)]
        ends = [*still_open, *([] if best_ms is None else [best_ms])]
        bound_ms = min(ends, default=here.bound_ms if relaxed is None else relaxed.bound_ms)
        yield BranchStep(
            here.number,
            here.parent,
            tuple(here.fixed.items()),
            relaxed,
            ending,
            branch_on,
            is_new,
            best_ms,
            best,
            bound_ms,
        )


def _is_reached(bound_ms: float, best_ms: float | None) -> bool:
    return best_ms is not None and bound_ms >= best_ms * (1 - SLACK)
