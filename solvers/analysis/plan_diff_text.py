"""Why one of two plans is better, in sentences whose times add up."""

from solvers.analysis.explanation_text import NOUNS
from solvers.analysis.load_parts import LoadParts
from solvers.analysis.plan_diff import PlanDiff
from solvers.model.costs import Objective
from solvers.quantities import counted, milliseconds, percent

SAME = 1e-9
"""Values that differ by less, relatively, are equal but for rounding."""


def diff_text(
    diff: PlanDiff, first: str, second: str, *, first_limit: str = "", second_limit: str = ""
) -> tuple[str, ...]:
    """Return sentences on what the second plan does differently and what that gains or costs.

    `first` and `second` are what the plans are called, `first_limit` and `second_limit` their slowest devices.

    >>> from solvers.analysis.plan_diff import Placed, plan_diff
    >>> from solvers.model.graph import DnnGraph, Edge, Node
    >>> from solvers.model.deployment import Deployment
    >>> from solvers.model.split import Split
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> one = Placed(g, Deployment(2), Split((frozenset({1, 2}), frozenset())))
    >>> two = Placed(g, Deployment(2), Split((frozenset({1}), frozenset({2}))))
    >>> diff_text(plan_diff(one, two), "A", "B")[0]
    'B takes 3.5 ms, 1.5 ms (30 %) less than A.'
    """
    sentences = [_values(diff, first, second)]
    if diff.is_same_plan and not diff.change_ms:
        return (f"{sentences[0]} Every node is on the same device, up to the devices' numbers.",)
    parts = _parts(diff, first, second, first_limit, second_limit)
    return tuple(filter(None, (*sentences, parts, _moves(diff, first, second))))


def _values(diff: PlanDiff, first: str, second: str) -> str:
    change, before = diff.change_ms, diff.first_value_ms
    if change is None or before is None or diff.second_value_ms is None:
        return f"The {NOUNS[diff.objective]} is not defined for both plans."
    if abs(change) <= SAME * max(before, diff.second_value_ms):
        return f"{second} takes as long as {first}, {milliseconds(before)}."
    way = "less" if change < 0 else "more"
    share = f" ({percent(abs(change) / before)})" if before > 0 else ""
    return (
        f"{second} takes {milliseconds(diff.second_value_ms)}, {milliseconds(abs(change))}{share} {way} than {first}."
    )


def _parts(diff: PlanDiff, first: str, second: str, first_limit: str, second_limit: str) -> str:
    if diff.first_limit is None or diff.second_limit is None:
        return ""
    change = diff.second_limit - diff.first_limit
    total = max(diff.first_limit.load_ms, diff.second_limit.load_ms)
    told = _told(change, total)
    where = f"{second}'s slowest device" + (f", {second_limit}," if second_limit else "")
    than = f"{first}'s" + (f", {first_limit}" if first_limit else "")
    if diff.objective is Objective.GPIPE:
        where, than = f"In its slowest passes {second}", f"{first} in its own"
    if not told:
        return ""
    return f"{where} {' and '.join(told)} than {than}."


def _told(change: LoadParts, total_ms: float) -> list[str]:
    """Say what is longer and what is shorter; transfers as one, since a cut makes one device send, one receive."""
    told: list[str] = []
    for ms, verb in ((change.compute_ms, "computes"), (change.transfer_ms, "transfers")):
        if abs(ms) > SAME * total_ms:
            told.append(f"{verb} {milliseconds(abs(ms))} {'less' if ms < 0 else 'more'}")
    return told


def _moves(diff: PlanDiff, first: str, second: str) -> str:
    moved = counted(len(diff.moved), "node")
    verb = "is" if len(diff.moved) == 1 else "are"
    more = diff.num_cut_second - diff.num_cut_first
    cuts = f"{second} cuts {counted(diff.num_cut_second, 'tensor')}"
    if more:
        cuts += f", {abs(more)} {'more' if more > 0 else 'fewer'} than {first}"
    elif diff.num_cut_first:
        cuts += ", as many as " + first
    return f"{moved[0].upper()}{moved[1:]} {verb} on another device. {cuts}."
