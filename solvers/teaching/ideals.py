"""Ideals of a small graph, one by one: the node sets that hold all predecessors of their members.

Each is found once: to an ideal only nodes are added that stand later in the topological order than all it has. Removing
its last node therefore leads back to the ideal it came from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solvers.model.graph import DnnGraph
from solvers.quantities import count
from solvers.teaching.small import Ideal, SmallProblem, TeachingError

MAX_IDEALS = 5_000
"""More cannot be shown, nor searched in the time a page may take."""


MAX_COUNTED = 60_000
"""A second of counting."""


@dataclass(frozen=True, slots=True)
class IdealStep:
    """An ideal that was just found: `before` with `node` added; both are None for the empty one."""

    ideal: Ideal
    before: Ideal | None
    node: int | None


def ideal_steps(problem: SmallProblem) -> Iterator[IdealStep]:
    """Yield every ideal once, smaller ones first; raise TeachingError where there are more than MAX_IDEALS."""
    level = [IdealStep(frozenset(), None, None)]
    number = 0
    while level:
        number += len(level)
        if number > MAX_IDEALS:
            raise TeachingError(f"The graph has more than {count(MAX_IDEALS)} ideals; take one with fewer branches.")
        yield from level
        level = [
            IdealStep(step.ideal | {v}, step.ideal, v)
            for step in level
            for v in problem.order
            if _is_later(problem, v, step.ideal) and step.ideal.issuperset(problem.graph.inputs[v])
        ]


def ideals_of(problem: SmallProblem) -> tuple[Ideal, ...]:
    """Return all ideals, smaller ones first.

    >>> from solvers.model.deployment import Deployment
    >>> from solvers.model.graph import DnnGraph, Edge, Node
    >>> graph = DnnGraph((Node(1, 1.0, 1.0), Node(2, 1.0, 1.0)), (Edge(1, 2),))
    >>> [sorted(ideal) for ideal in ideals_of(SmallProblem(graph, Deployment(1)))]
    [[], [1], [1, 2]]
    """
    return tuple(step.ideal for step in ideal_steps(problem))


def num_ideals(graph: DnnGraph) -> int:
    """Return how many ideals a graph of any size has; raise TeachingError where there are more than MAX_COUNTED.

    They are only counted, level by level as in `ideal_steps`; a set of nodes is the bits of a number.

    >>> from solvers.model.graph import Edge, Node
    >>> num_ideals(DnnGraph((Node(1, 1.0, 1.0), Node(2, 1.0, 1.0), Node(3, 1.0, 1.0)), (Edge(1, 2),)))
    6
    """
    place = {v: i for i, v in enumerate(graph.topological_order)}
    needed = [(1 << i, sum(1 << place[u] for u in graph.inputs[v])) for v, i in place.items()]
    level, number = {0}, 0
    while level:
        number += len(level)
        if number > MAX_COUNTED:
            raise TeachingError(f"The graph has more than {count(MAX_COUNTED)} ideals; take one with fewer branches.")
        level = {held | bit for held in level for bit, needs in needed if not held & bit and held & needs == needs}
    return number


def cover_pairs(problem: SmallProblem, ideals: Sequence[Ideal]) -> list[tuple[Ideal, Ideal]]:
    """Return the lines of the Hasse diagram: pairs of ideals of which the second has one node more."""
    known = set(ideals)
    return [(ideal, ideal | {v}) for ideal in ideals for v in problem.order if v not in ideal and ideal | {v} in known]


def _is_later(problem: SmallProblem, v: int, ideal: Ideal) -> bool:
    return all(problem.place[v] > problem.place[u] for u in ideal)
