"""Which constraint limits the best plan: the same problem without one constraint at a time, solved again.

Four constraints can be left out: memory, colocation, the support of accelerators, and the split type. Every plan that
was valid stays valid, so the optimum can only fall; by how much is the price of the constraint. It is binding where the
price is positive and not where it is proven to be zero. Prices do not add up: two constraints may forbid the same plan.

Of training graphs only ties of layers are left out: a forward node and its backward node share weights and stay
together. Which belong together in a class of several is told by their order, for the backward pass runs the other way.
"""

from dataclasses import dataclass, replace
from typing import Any

from solvers.analysis.what_if import Change, Gain, gain
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.quantities import listed, milliseconds, percent

MEMORY, COLOCATION, SUPPORT, SPLIT_TYPE = "memory", "colocation", "support", "split type"
MOST_TIES = 3
"""Colocation classes that are named."""


@dataclass(frozen=True, slots=True)
class Price:
    """What leaving a constraint out brings, `without` saying what is left out."""

    constraint: str
    without: str
    gained: Gain
    before_ms: float | None
    is_proven: bool

    @property
    def is_binding(self) -> bool:
        """Whether it is known that the constraint costs something."""
        return self.is_proven and self.gained.helps


def relaxations(
    graph: DnnGraph, deployment: Deployment, objective: Objective, family: Family, method: str = "auto"
) -> tuple[Change, ...]:
    """Return the problem without each constraint that it has, as changes whose `key` is the constraint.

    A constraint that cannot bind, such as memory where one accelerator holds all nodes, is not among them.
    """
    found = []
    if _memory_may_bind(graph, deployment):
        unlimited = replace(
            deployment,
            memory_bytes=None,
            classes=tuple(replace(one, memory_bytes=None) for one in deployment.classes),
        )
        found.append(Change(MEMORY, "a memory limit", graph, unlimited, family, method))
    if (untied := _untied(graph)) is not None:
        loose, ties = untied
        found.append(Change(COLOCATION, _ties_text(graph, ties), loose, deployment, family, method))
    unsupported = [node for node in graph.nodes if not node.runs_on_accelerator]
    if unsupported and deployment.num_accelerators:
        capable = tuple(replace(node, runs_on_accelerator=True) for node in graph.nodes)
        names = listed([node.label for node in unsupported], MOST_TIES)
        found.append(
            Change(SUPPORT, f"CPU-only nodes ({names})", graph.with_nodes(capable), deployment, family, method)
        )
    is_any_family_solved = deployment.training_memory is None and deployment.replication is None
    if family is not Family.FREE and objective is not Objective.LATENCY and is_any_family_solved:
        found.append(Change(SPLIT_TYPE, f"the split type ({family.named})", graph, deployment, Family.FREE, "auto"))
    return tuple(found)


def tied(graph: DnnGraph) -> tuple[tuple[int, ...], ...]:
    """Return the ids of the forward nodes of each colocation class that has several, such as a tied embedding's."""
    forward = {node.id for node in graph.nodes if not node.is_backward}
    ties = (tuple(v for v in members if v in forward) for members in graph.colocation_members.values())
    return tuple(members for members in ties if len(members) > 1)


def _untied(graph: DnnGraph) -> tuple[DnnGraph, tuple[tuple[int, ...], ...]] | None:
    """Return the graph with its ties undone, in training each into pairs, and these ties; None where there are none.

    A class of a training graph with more forward than backward nodes, or fewer, stays as it is.
    """
    place = {v: i for i, v in enumerate(graph.topological_order)}
    class_of = {node.id: node.colocation_class for node in graph.nodes}
    fresh, undone = max(graph.colocation_members, default=0), []
    for members in graph.colocation_members.values():
        forward = sorted((v for v in members if not graph.node_by_id[v].is_backward), key=lambda v: place[v])
        backward = sorted(set(members) - set(forward), key=lambda v: -place[v])
        if len(forward) < 2 or (graph.is_training and len(forward) != len(backward)):
            continue
        undone.append(tuple(v for v in members if v in forward))
        class_of.update(dict.fromkeys(members))
        for pair in zip(forward, backward, strict=False):
            fresh += 1
            class_of.update(dict.fromkeys(pair, fresh))
    if not undone:
        return None
    nodes = tuple(replace(node, colocation_class=class_of[node.id]) for node in graph.nodes)
    return graph.with_nodes(nodes), tuple(undone)


def price(change: Change, base: SolveResult, answer: SolveResult) -> Price:
    """Return the price of the constraint that a change left out, given the answers with it and without."""
    is_proven = base.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    return Price(change.key, change.label, gain(base, answer), base.value_ms, is_proven)


def price_text(price: Price) -> str:
    """Say in a sentence what a constraint costs, or that it costs nothing, and how sure that is."""
    gained, name = price.gained, f"{price.constraint[0].upper()}{price.constraint[1:]}"
    if gained.is_possible_now and not price.is_proven:
        return (
            f"Not known whether {price.constraint} forbids every plan: without {price.without} one of "
            f"{milliseconds(gained.value_ms)} was found, and none with it."
        )
    if gained.is_possible_now:
        return (
            f"{name} is what forbids every plan: without {price.without} one of {milliseconds(gained.value_ms)} exists."
        )
    if gained.cannot_help:
        return f"{name} is not binding: without {price.without} no plan is faster (proven)."
    if gained.helps:
        how = f"{milliseconds(gained.value_ms)} instead of {milliseconds(price.before_ms)}"
        saved = f"{percent(gained.saved_share)} less time"
        if price.is_proven and gained.is_exact:
            return f"{name} limits this plan: without {price.without} the optimum is {how}, {saved} (proven)."
        if price.is_proven:
            most = "" if gained.most_share is None else f", at most {percent(gained.most_share)} is possible"
            return f"{name} limits this plan: without {price.without} a plan takes {how}, {saved}{most}."
        return f"Without {price.without} a plan takes {how}; the plan itself is not proven optimal."
    most = "" if gained.most_share is None else f"; at most {percent(gained.most_share)} less time is possible"
    return (
        f"Not known whether {price.constraint} limits this plan: no faster one was found without {price.without}{most}."
    )


def price_document(price: Price) -> dict[str, Any]:
    """Return a price as a JSON object: times in ms, shares from 0 to 1, what is not known as null."""
    return {
        "constraint": price.constraint,
        "binding": True if price.is_binding else False if price.gained.cannot_help else None,
        "value_ms": price.before_ms,
        "value_without_ms": price.gained.value_ms,
        "saved_share": price.gained.saved_share,
        "proven": price.is_proven and (price.gained.is_exact or price.gained.cannot_help),
    }


def binding_text(prices: tuple[Price, ...], *, are_all: bool = True) -> tuple[str, ...]:
    """Return a sentence for each constraint, the most expensive first, and one where none is binding.

    That none is can be said only of `are_all`: while some are still being solved for, one of those may be.
    """

    def rank(one: Price) -> tuple[int, float]:
        if one.gained.is_possible_now:
            return 0, 0.0
        return (1, -(one.gained.saved_share or 0.0)) if one.is_binding else (2, 0.0)

    ordered = sorted(prices, key=rank)
    if not ordered:
        return (
            "There is no constraint to leave out: memory suffices, no layers are tied, all nodes run on accelerators.",
        )
    lead: tuple[str, ...] = ()
    if are_all and all(one.gained.cannot_help for one in ordered):
        lead = ("No single constraint limits this plan.",)
    return (*lead, *map(price_text, ordered))


def _memory_may_bind(graph: DnnGraph, deployment: Deployment) -> bool:
    capacities = [
        capacity for d in range(deployment.num_accelerators) if (capacity := deployment.capacity_bytes(d)) is not None
    ]
    if not capacities:
        return False
    return is_scheduled(graph, deployment) or sum(node.memory_bytes for node in graph.nodes) > min(capacities)


def _ties_text(graph: DnnGraph, ties: tuple[tuple[int, ...], ...]) -> str:
    names = [
        " with ".join(graph.node_by_id[v].label for v in members[:2]) + (" and more" if len(members) > 2 else "")
        for members in ties
    ]
    return f"ties of nodes ({listed(names, MOST_TIES)})"
