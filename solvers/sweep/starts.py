"""Plans of other questions that a question may be solved from."""

from collections.abc import Iterable

from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective, objective_value
from solvers.model.split import Family, Split, check_split
from solvers.parameters.parameter import Asked


def family_asked(asked: Asked) -> Family:
    """Return the family that plans of a question are of: of latency any split for which it is defined."""
    return Family.FREE if asked.objective is Objective.LATENCY else asked.family


def value_of(asked: Asked, split: Split) -> float | None:
    """Return the value in ms of a split on the devices of a question; None where it is not valid there."""
    split = split.on(asked.deployment)
    value = objective_value(asked.graph, asked.deployment, split, asked.objective)
    if value is None or check_split(asked.graph, asked.deployment, split, family_asked(asked)):
        return None
    return value


def best_start(asked: Asked, plans: Iterable[Split]) -> Split | None:
    """Return the plan that is best for a question, None if none is valid there; baselines start from none."""
    if asked.method in BASELINES:
        return None
    best: tuple[float, Split] | None = None
    for plan in plans:
        value = value_of(asked, plan)
        if value is not None and (best is None or value < best[0]):
            best = value, plan.on(asked.deployment)
    return None if best is None else best[1]
