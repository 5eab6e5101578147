"""What a hand edit means: loads, broken rules with their amounts, and how far from the optimum the plan is.

Which bound says what: the value of a plan that is valid can be compared with any other value. A lower bound, and with
it the word optimal, is that of a family of splits (`solvers.model.split`): one proven for chains says nothing about
free splits. A bound with pins is that of the plans that honour them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus
from solvers.model.split import Family, Split, Violation, check_split, device_memory_bytes, family_of, forward_edges
from solvers.quantities import binary_size, milliseconds, percent

MAX_LISTED = 3
"""Nodes or rules that a sentence lists before it counts the rest."""

NARROWNESS = {Family.CHAIN: 0, Family.CONVEX: 1, Family.FREE: 2}
FAMILY_NOUNS = {
    Family.CHAIN: "pipeline split",
    Family.CONVEX: "contiguous split",
    Family.FREE: "non-contiguous split",
}


@dataclass(frozen=True, slots=True)
class Assessment:
    """A plan against the one it was made from: values in ms of the objective, None where that is not defined.

    `problems` are the rules it breaks, one short sentence each; `family` is the narrowest it belongs to, and
    `family_note` says what it means if that is not the one asked for.
    """

    value_ms: float | None
    before_ms: float | None
    problems: tuple[str, ...]
    family: Family
    family_note: str

    @property
    def is_valid(self) -> bool:
        """Whether the plan could be run: it breaks no rule of devices and nodes."""
        return not self.problems

    @property
    def change(self) -> str:
        """The change of value in words, empty where there is none to tell."""
        if self.value_ms is None or self.before_ms is None:
            return ""
        return f"{milliseconds(self.before_ms)} → {milliseconds(self.value_ms)}"


def assess(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    *,
    before: Split | None = None,
    objective: Objective = Objective.THROUGHPUT,
    asked: Family = Family.CHAIN,
) -> Assessment:
    """Return what is to be said of a complete split on these devices, `before` being the one it was made from."""
    family = family_of(graph, split)
    return Assessment(
        objective_value(graph, deployment, split, objective),
        None if before is None else objective_value(graph, deployment, before, objective),
        tuple(problems(graph, deployment, split)),
        family,
        family_note(graph, deployment, split, family, asked),
    )


def problems(graph: DnnGraph, deployment: Deployment, split: Split) -> Iterable[str]:
    """Yield the rules that a complete split breaks, whatever its family, each with its amount."""
    violations = check_split(graph, deployment, split, Family.FREE)
    memory = device_memory_bytes(graph, deployment, split)
    for violation in violations:
        d = violation.device
        capacity = None if d is None else deployment.capacity_bytes(d)
        if violation.rule == "memory" and d is not None and capacity is not None:
            yield f"{deployment.device_name(d)} short by {binary_size(memory[d] - capacity)}"
    yield from _unsupported(graph, deployment, violations, split)
    yield from _broken_classes(graph, deployment, split)
    for violation in violations:
        if violation.rule not in ("memory", "unsupported", "colocation"):
            yield violation.message.rstrip(".")


def family_note(graph: DnnGraph, deployment: Deployment, split: Split, family: Family, asked: Family) -> str:
    """Say what it means that a split is of a wider family than asked for; empty when it is not."""
    if NARROWNESS[family] <= NARROWNESS[asked]:
        return ""
    names = [deployment.device_name(d) for d in _circle(graph, split)]
    way = f" ({' → '.join(names[:5])}{' → ...' if len(names) > 5 else ''})" if names else ""
    meaning = (
        "data flows both ways between devices, so none is first or last"
        if family is Family.CONVEX
        else "data returns to a device, so it holds several fragments, each on a different micro-batch"
    )
    return (
        f"No longer a {FAMILY_NOUNS[asked]} but a {FAMILY_NOUNS[family]}: {meaning}{way}. "
        f"Bounds for {FAMILY_NOUNS[asked]}s do not apply to it."
    )


def distance(value_ms: float | None, best: SolveResult | None) -> str:
    """Say how far a value is from the best plan that a solver found for the same devices and objective.

    >>> best = SolveResult(SolveStatus.OPTIMAL, "dp", Objective.THROUGHPUT, Family.CHAIN, None, 2.0, 2.0, 0.1)
    >>> distance(2.25, best)
    '12.5 % slower than the optimal pipeline split (2 ms, proven)'
    >>> distance(1.5, best)
    '25 % faster than the optimal pipeline split (2 ms, proven)'
    """
    if value_ms is None or best is None or not best.value_ms:
        return ""
    noun = FAMILY_NOUNS[best.family]
    is_optimal = best.status is SolveStatus.OPTIMAL
    other = f"the optimal {noun}" if is_optimal else f"the best known {noun}"
    known = f"({milliseconds(best.value_ms)}{', proven' if is_optimal else ''})"
    ratio = value_ms / best.value_ms - 1
    if abs(ratio) <= PROOF_TOLERANCE:
        text = f"as fast as {other} {known}"
    elif ratio > 0:
        text = f"{percent(ratio)} slower than {other} {known}"
    else:
        text = f"{percent(-ratio)} faster than {other} {known}"
    bound_ms = best.lower_bound_ms
    if not is_optimal and bound_ms and value_ms > bound_ms:
        text += f", at most {percent(value_ms / bound_ms - 1)} slower than any {noun}"
    return text


def lower_bound_ms(family: Family, results: Iterable[SolveResult]) -> float | None:
    """Return the best bound in ms among results for the same problem that holds for splits of a family."""
    known = [
        result.lower_bound_ms
        for result in results
        if result.lower_bound_ms is not None and NARROWNESS[family] <= NARROWNESS[result.family]
    ]
    return max(known, default=None)


def _unsupported(
    graph: DnnGraph, deployment: Deployment, violations: Iterable[Violation], split: Split
) -> Iterable[str]:
    for d in sorted({v.device for v in violations if v.rule == "unsupported" and v.device is not None}):
        ids = [v for v in sorted(split.devices[d]) if not graph.node_by_id[v].runs_on_accelerator]
        verb = "runs" if len(ids) == 1 else "run"
        be = "is" if len(ids) == 1 else "are"
        label = listed([graph.node_by_id[v].label for v in ids])
        yield f"{label[0].upper()}{label[1:]} {verb} on CPUs only and {be} on {deployment.device_name(d)}"


def _broken_classes(graph: DnnGraph, deployment: Deployment, split: Split) -> Iterable[str]:
    device_of = split.device_of()
    broken = [(c, ids) for c, ids in graph.colocation_members.items() if len({device_of[v] for v in ids}) > 1]
    for c, ids in broken[:MAX_LISTED]:
        where = {d: [v for v in ids if device_of[v] == d] for d in sorted({device_of[v] for v in ids})}
        parts = [
            f"{listed([graph.node_by_id[v].label for v in members])} on {deployment.device_name(d)}"
            for d, members in where.items()
        ]
        yield f"Colocation class {c} is spread: {', '.join(parts)}"
    if len(broken) > MAX_LISTED:
        rest = len(broken) - MAX_LISTED
        yield f"{rest} more {'class is' if rest == 1 else 'classes are'} spread"


def _circle(graph: DnnGraph, split: Split) -> list[int]:
    """Return the devices of a circle in which forward data flows, its first one again at the end; empty without."""
    device_of = split.device_of()
    quotient: nx.DiGraph[int] = nx.DiGraph()
    for u, v in forward_edges(graph):
        if device_of[u] != device_of[v]:
            quotient.add_edge(device_of[u], device_of[v])
    try:
        edges = nx.find_cycle(quotient)
    except nx.NetworkXNoCycle:
        return []
    return [*(u for u, *_ in edges), edges[0][0]]


def listed(words: list[str]) -> str:
    """Write a few words, and how many more there are.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a and b', 'a, b and 3 more')
    """
    if len(words) > MAX_LISTED:
        words = [*words[: MAX_LISTED - 1], f"{len(words) - MAX_LISTED + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
