"""Hand edits of a plan: moves, pins and groups kept together, with undo and redo. Nothing here knows Streamlit.

A `History` is a base placement and the steps made from it. Devices are named by kind and number, so a history survives
a change of hardware: `resolve_places` says where nodes go whose device is gone. Every operation returns the new history
and an `Outcome` that says what was done, or why nothing was.

Nodes of a colocation class, and nodes kept together, move together. A pin holds a node where it is: whoever moves a
pinned node by hand moves its pin with it, while repairs and solves leave it where it is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult
from solvers.model.split import Split
from solvers.problem.pins import Pins, pins_of, united
from solvers.quantities import counted

MAX_STEPS = 500
"""Steps that can be undone; the oldest become part of the base."""
MAX_NAMED = 500_000
"""Nodes that the steps name in all; beyond, too, the oldest become part of the base, but never the last one."""


class Place(NamedTuple):
    """A device by its kind and its number among its kind, from 0."""

    is_cpu: bool
    number: int

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"{'CPU' if self.is_cpu else 'Accelerator'} {self.number + 1}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What a solver has proven of the placement of a step, and for which question; see `explorer.jobs.record`."""

    question: object
    result: SolveResult


@dataclass(frozen=True, slots=True)
class Step:
    """One edit: what it did in words, the nodes that changed place, and the pins and groups after it."""

    what: str
    moved: Mapping[int, Place]
    pinned: frozenset[int]
    together: tuple[tuple[int, ...], ...]
    proof: Proof | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class History:
    """A base placement and the steps from it, of which the first `at` are in force; the others can be redone."""

    graph_digest: str
    base: Mapping[int, Place]
    steps: tuple[Step, ...] = ()
    at: int = 0

    @property
    def places(self) -> dict[int, Place]:
        """Where each node is now."""
        places = dict(self.base)
        for step in self.steps[: self.at]:
            places.update(step.moved)
        return places

    @property
    def pinned(self) -> frozenset[int]:
        """Nodes that are pinned to where they are now."""
        return self.steps[self.at - 1].pinned if self.at else frozenset()

    @property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """Groups of nodes kept together now."""
        return self.steps[self.at - 1].together if self.at else ()

    @property
    def proof(self) -> Proof | None:
        """What a solver has proven of the placement as it is now; None after any change since."""
        return self.steps[self.at - 1].proof if self.at else None

    @property
    def is_edited(self) -> bool:
        """Whether any step is in force."""
        return self.at > 0

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to take back."""
        return self.at > 0

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to make again."""
        return self.at < len(self.steps)

    @property
    def moved_by_hand(self) -> frozenset[int]:
        """Nodes that are elsewhere than in the base because a person moved them."""
        by_hand: set[int] = set()
        for step in self.steps[: self.at]:
            by_hand = by_hand - set(step.moved) if step.proof else by_hand | set(step.moved)
        places = self.places
        return frozenset(v for v in by_hand if places[v] != self.base[v])


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an edit was applied, and one or two sentences that say what was done or why not."""

    applied: bool
    message: str


def begin(graph: DnnGraph, deployment: Deployment, split: Split) -> History:
    """Return a history without steps, from a complete split."""
    return History(graph.digest, places_of(split.on(deployment), deployment))


def places_of(split: Split, deployment: Deployment) -> dict[int, Place]:
    """Return where the nodes of a split are."""
    return {v: place(deployment, d) for v, d in split.on(deployment).device_of().items()}


def place(deployment: Deployment, device: int) -> Place:
    """Return a device of a deployment by kind and number."""
    is_cpu = deployment.is_cpu(device)
    return Place(is_cpu, device - deployment.num_accelerators if is_cpu else device)


def device_at(deployment: Deployment, where: Place) -> int | None:
    """Return the device number of a place in a deployment; None when it has no such device."""
    count = deployment.num_cpus if where.is_cpu else deployment.num_accelerators
    if where.number >= count:
        return None
    return where.number + (deployment.num_accelerators if where.is_cpu else 0)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A history on a deployment: its split, its pins by device number, and nodes whose device is gone."""

    split: Split
    pins: Pins
    homeless: frozenset[int]
    dropped_pins: frozenset[int]

    @property
    def note(self) -> str:
        """What was dropped because of the hardware, as a sentence; empty when nothing was."""
        if not self.homeless:
            return ""
        text = f"{counted(len(self.homeless), 'node')} stood on a device that is no longer there and went elsewhere"
        if self.dropped_pins:
            text += (
                f"; {counted(len(self.dropped_pins), 'pin')} on it {'is' if len(self.dropped_pins) == 1 else 'are'} off"
            )
        return f"{text}. With the device back they return."


def resolve_places(history: History, deployment: Deployment, elsewhere: Mapping[int, Place] | None = None) -> Resolved:
    """Return the placement on these devices.

    A node whose device is gone goes where `elsewhere` has it (a solver's plan for these devices), or, where that does
    not help either, to the last device of its kind, or to any; its pin does not count. `deployment` must have a device.
    """
    device_of: dict[int, int] = {}
    homeless: set[int] = set()
    for v, where in history.places.items():
        d = device_at(deployment, where)
        if d is None:
            homeless.add(v)
            other = None if elsewhere is None or v not in elsewhere else device_at(deployment, elsewhere[v])
            d = other if other is not None else _last_of_kind(deployment, where)
        device_of[v] = d
    pinned = history.pinned - homeless
    return Resolved(
        Split.from_device_of(device_of, deployment),
        pins_of({v: device_of[v] for v in pinned}, history.together),
        frozenset(homeless),
        frozenset(history.pinned & homeless),
    )


def _last_of_kind(deployment: Deployment, where: Place) -> int:
    count = deployment.num_cpus if where.is_cpu else deployment.num_accelerators
    if not count:
        return deployment.num_devices - 1
    return (deployment.num_accelerators if where.is_cpu else 0) + count - 1


# Edits


def move(
    history: History, graph: DnnGraph, deployment: Deployment, nodes: Collection[int], device: int
) -> tuple[History, Outcome]:
    """Put nodes, with all that must share a device with them, on a device."""
    problem = _why_unusable(graph, nodes) or _why_no_device(deployment, device)
    if problem:
        return history, Outcome(False, problem)
    where = place(deployment, device)
    places = history.places
    chosen = set(nodes)
    all_tied = with_tied(graph, history.together, chosen)
    if not where.is_cpu:
        unsupported = [v for v in sorted(all_tied) if not graph.node_by_id[v].runs_on_accelerator]
        if unsupported:
            return history, Outcome(False, _why_unsupported(graph, unsupported, chosen))
    moved = {v: where for v in sorted(all_tied) if places[v] != where}
    if not moved:
        name = _called(deployment, where)
        return history, Outcome(False, f"{_named(graph, chosen)} {_be(chosen)} on {name} already.")
    extra = set(moved) - chosen
    what = f"{_named(graph, set(moved) & chosen or chosen)} moved to {_called(deployment, where)}"
    if extra:
        partner = "it" if len(chosen) == 1 else "them"
        what += f", with {counted(len(extra), 'node')} that must share a device with {partner}"
    along = len(history.pinned & set(moved))
    if along:
        what += f"; {counted(along, 'pin')} moved along"
    return _with_step(history, Step(what, moved, history.pinned, history.together)), Outcome(True, what + ".")


def pin(
    history: History,
    graph: DnnGraph,
    deployment: Deployment,
    nodes: Collection[int],
    elsewhere: Mapping[int, Place] | None = None,
) -> tuple[History, Outcome]:
    """Pin nodes to where `resolve_places` has them."""
    problem = _why_unusable(graph, nodes)
    if problem:
        return history, Outcome(False, problem)
    places, pinned = _resolved_places(history, deployment, elsewhere)
    fresh = set(nodes) - pinned
    if not fresh:
        return history, Outcome(False, f"{_named(graph, nodes)} {_be(nodes)} pinned already.")
    homes = sorted({places[v] for v in fresh})
    where = _called(deployment, homes[0]) if len(homes) == 1 else f"their {len(homes)} devices"
    what = f"{_named(graph, fresh)} pinned to {where}"
    before = history.places
    moved = {v: places[v] for v in sorted(with_tied(graph, history.together, fresh)) if places[v] != before[v]}
    return _with_step(history, Step(what, moved, history.pinned | fresh, history.together)), Outcome(True, what + ".")


def unpin(history: History, graph: DnnGraph, nodes: Collection[int]) -> tuple[History, Outcome]:
    """Take pins off nodes, and dissolve the groups that hold any of them; no nodes at all means every pin and group."""
    chosen = set(nodes) or set(graph.node_by_id)
    pinned = history.pinned & chosen
    groups = [ids for ids in history.together if chosen & set(ids)]
    if not pinned and not groups:
        text = f"{_named(graph, nodes)} {_be(nodes)} neither pinned nor kept together" if nodes else "Nothing is pinned"
        return history, Outcome(False, f"{text}.")
    parts = [f"{_named(graph, pinned)} unpinned"] if pinned else []
    if groups:
        parts.append(f"{counted(len(groups), 'group')} no longer kept together")
    what = ", ".join(parts)
    together = tuple(ids for ids in history.together if ids not in groups)
    what = what[0].upper() + what[1:]
    return _with_step(history, Step(what, {}, history.pinned - pinned, together)), Outcome(True, what + ".")


def keep_together(
    history: History,
    graph: DnnGraph,
    deployment: Deployment,
    nodes: Collection[int],
    elsewhere: Mapping[int, Place] | None = None,
) -> tuple[History, Outcome]:
    """Keep nodes on one device from now on: on that of the pinned ones, else on that of most of their time."""
    problem = _why_unusable(graph, nodes)
    if problem:
        return history, Outcome(False, problem)
    chosen = set(nodes)
    if len(chosen) < 2:
        return history, Outcome(False, "Select at least two nodes to keep together.")
    together = pins_of({}, [*history.together, tuple(sorted(chosen))]).together
    if together == history.together:
        return history, Outcome(False, f"{_named(graph, chosen)} are kept together already.")
    all_tied = with_tied(graph, together, chosen)
    places, pinned = _resolved_places(history, deployment, elsewhere)
    homes = {places[v] for v in all_tied & pinned}
    if len(homes) > 1:
        names = " and ".join(sorted(_called(deployment, home) for home in homes))
        return history, Outcome(False, f"Some of these nodes are pinned to {names}; unpin those on one of them first.")
    where = next(iter(homes), None) or _home_of_most_time(graph, places, all_tied)
    if not where.is_cpu and not all(graph.node_by_id[v].runs_on_accelerator for v in all_tied):
        cpu = next((home for home in (places[v] for v in all_tied) if home.is_cpu), None)
        if cpu is None or homes:
            unsupported = [v for v in sorted(all_tied) if not graph.node_by_id[v].runs_on_accelerator]
            return history, Outcome(False, _why_unsupported(graph, unsupported, chosen))
        where = cpu
    before = history.places
    moved = {v: where for v in sorted(all_tied) if before[v] != where}
    what = f"{_named(graph, chosen)} kept together on {_called(deployment, where)}"
    if num_moved := sum(places[v] != where for v in all_tied):
        what += f", {counted(num_moved, 'node')} moved there"
    return _with_step(history, Step(what, moved, history.pinned, together)), Outcome(True, what + ".")


def take_over(history: History, deployment: Deployment, split: Split, what: str, proof: Proof | None = None) -> History:
    """Return the history after a repair or a solve has answered with `split`, which honours the pins."""
    places = history.places
    new = places_of(split, deployment)
    moved = {v: where for v, where in sorted(new.items()) if places[v] != where}
    return _with_step(history, Step(what, moved, history.pinned, history.together, proof))


def undo(history: History) -> tuple[History, Outcome]:
    """Take back the last step."""
    if not history.can_undo:
        return history, Outcome(False, "There is nothing to undo.")
    return replace(history, at=history.at - 1), Outcome(True, f"Undone: {_lower(history.steps[history.at - 1].what)}.")


def redo(history: History) -> tuple[History, Outcome]:
    """Make the last step again that was taken back."""
    if not history.can_redo:
        return history, Outcome(False, "There is nothing to redo.")
    return replace(history, at=history.at + 1), Outcome(True, f"Redone: {_lower(history.steps[history.at].what)}.")


def with_tied(graph: DnnGraph, together: Iterable[Sequence[int]], nodes: Collection[int]) -> set[int]:
    """Return the nodes with all that must share a device with any of them."""
    tied = [*graph.colocation_members.values(), *together]
    return set(nodes).union(*(ids for ids in united(tied) if not set(nodes).isdisjoint(ids)))


def _resolved_places(
    history: History, deployment: Deployment, elsewhere: Mapping[int, Place] | None
) -> tuple[dict[int, Place], frozenset[int]]:
    """Return where `resolve_places` has each node, and the nodes whose pins count there."""
    resolved = resolve_places(history, deployment, elsewhere)
    return places_of(resolved.split, deployment), history.pinned - resolved.dropped_pins


def _with_step(history: History, step: Step) -> History:
    """Return the history with a further step; steps that were taken back are gone, the oldest join the base."""
    steps = (*history.steps[: history.at], step)
    first = max(0, len(steps) - MAX_STEPS)
    while first < len(steps) - 1 and num_named(steps[first:]) > MAX_NAMED:
        first += 1
    base = dict(history.base)
    for old in steps[:first]:
        base.update(old.moved)
    return History(history.graph_digest, base, steps[first:], len(steps) - first)


def num_named(steps: Iterable[Step]) -> int:
    """Return how many nodes steps hold; what a step has taken over from the one before it is held once."""
    total = 0
    before: Step | None = None
    for step in steps:
        total += 0 if before and step.moved is before.moved else len(step.moved)
        total += 0 if before and step.pinned is before.pinned else len(step.pinned)
        total += 0 if before and step.together is before.together else sum(map(len, step.together))
        before = step
    return total


def _home_of_most_time(graph: DnnGraph, places: Mapping[int, Place], nodes: Collection[int]) -> Place:
    time_ms: dict[Place, float] = {}
    for v in nodes:
        time_ms[places[v]] = time_ms.get(places[v], 0.0) + graph.node_by_id[v].accelerator_ms
    return max(sorted(time_ms), key=time_ms.__getitem__)


def _why_unusable(graph: DnnGraph, nodes: Collection[int]) -> str:
    if not nodes:
        return "Nothing is selected; select nodes, a layer or a stage first."
    unknown = next((v for v in nodes if v not in graph.node_by_id), None)
    return "" if unknown is None else f"The graph has no node {unknown}."


def _why_no_device(deployment: Deployment, device: int) -> str:
    if 0 <= device < deployment.num_devices:
        return ""
    return f"There is no device {device + 1}; there are {deployment.num_devices}."


def _why_unsupported(graph: DnnGraph, unsupported: Sequence[int], chosen: Collection[int]) -> str:
    labels = ", ".join(graph.node_by_id[v].label for v in unsupported[:3])
    more = f" and {len(unsupported) - 3} more" if len(unsupported) > 3 else ""
    tied = "" if set(unsupported) & set(chosen) else ", which must share a device with the selection,"
    sentence = f"{labels}{more}{tied} cannot run on an accelerator. Nothing was moved; choose a CPU."
    return sentence[0].upper() + sentence[1:]


def _named(graph: DnnGraph, nodes: Collection[int]) -> str:
    """Return what a sentence begins with: the node's label, or how many there are."""
    if len(nodes) == 1:
        label = graph.node_by_id[next(iter(nodes))].label
        return label[0].upper() + label[1:]
    return counted(len(nodes), "node")


def _called(deployment: Deployment, where: Place) -> str:
    """Return what a person calls a device of a deployment, which may have it no longer."""
    return where.name if where.is_cpu else deployment.accelerator_name(where.number)


def _be(nodes: Collection[int]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
