"""Put measured times of a model's operators into a graph that was imported from it.

A node of operators takes the sum of their medians; its spread is the sum of their interquartile ranges, which is what
it comes to at most, when all are slow together. Inputs, constants and forks of gradients stay as they were.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from solvers.importers.network import Op
from solvers.model.errors import SourceError
from solvers.model.graph import DnnGraph, Node, TimesOrigin


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and interquartile range of measured times, in ms."""

    median_ms: float
    range_ms: float

    def __add__(self, other: "Spread") -> "Spread":
        return Spread(self.median_ms + other.median_ms, self.range_ms + other.range_ms)


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one call of an operator; `backward` is None where autograd has none for it."""

    forward: Spread
    backward: Spread | None = None

    def __add__(self, other: "Timing") -> "Timing":
        backward = self.backward + (other.backward or NOTHING) if self.backward is not None else None
        return Timing(self.forward + other.forward, backward)


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call took, in ms: by the clock, and of the processor by its thread."""

    ms: float = 0.0
    processor_ms: float = 0.0

    def __add__(self, other: "Taken") -> "Taken":
        return Taken(self.ms + other.ms, self.processor_ms + other.processor_ms)


@dataclass(slots=True)
class Call:
    """What one call of an operator took in each pass."""

    forward: list[Taken] = field(default_factory=list)
    backward: list[Taken] = field(default_factory=list)


NOTHING = Spread(0.0, 0.0)
WAITED = 0.9
"""A call whose thread had the processor for less of its time waited for it, since something else ran there.

Where one thread does all the work, such a call counts with the processor's time instead of the clock's.
"""

ACCELERATOR, CPU = "accelerator", "cpu"
"""Where measured times go, if not to a class of accelerators."""


def timings_of(
    calls: Mapping[str, Sequence[Call]], empty: Sequence[Taken], *, is_alone: bool
) -> dict[str, list[Timing]]:
    """Return medians and interquartile ranges by the names of operators, in the order they ran.

    The median of `empty` calls is no part of a backward pass. `is_alone` says that one thread does all the work.
    """

    def spread(taken: Sequence[Taken], less_ms: float = 0.0) -> Spread:
        waited = [is_alone and one.processor_ms < WAITED * one.ms for one in taken]
        times = [one.processor_ms if late else one.ms for one, late in zip(taken, waited, strict=True)]
        low, median, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
        return Spread(max(0.0, median - less_ms), high - low)

    price_ms = spread(empty).median_ms if empty else 0.0
    return {
        name: [Timing(spread(call.forward), spread(call.backward, price_ms) if call.backward else None) for call in own]
        for name, own in calls.items()
    }


def with_times(
    graph: DnnGraph,
    ops: Sequence[Op],
    levels: Iterable[Sequence[str]],
    times: Sequence[Timing],
    *,
    into: str,
    origin: TimesOrigin,
    remedy: str,
) -> DnnGraph:
    """Return the graph with measured times, on its accelerators, its CPUs or a class of accelerators.

    `times` are those of `ops`; each of `levels` says of every operator in which node of a graph it is. `origin` says
    what was measured; its host is the graph's own. SourceError, with the remedy, where the graph is of no such level.
    """
    nodes = []
    members = _members(graph, ops, levels, remedy)
    for node in graph.nodes:
        own = members.get(_key(node))
        if own is None:
            nodes.append(node)
            continue
        spreads = [_backward(ops[i], times[i]) if node.is_backward else times[i].forward for i in own]
        nodes.append(_with_time(node, _sum(spreads), into))
    known = graph.times or TimesOrigin()
    if into == ACCELERATOR:
        known = replace(origin, host=known.host)
    elif into == CPU:
        known = replace(known, host="")  # no longer those of a CPU of the catalogue
    return replace(graph.with_nodes(tuple(nodes)), times=known)


def processor(threads: int) -> str:
    """Return what to call this machine's processor, used by so many threads."""
    name = "CPU"
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = (line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line)
        name = next(lines, name)
    return f"{name}, {threads} thread{'s' if threads > 1 else ''}"


def _key(node: Node) -> str:
    return node.name.removesuffix(" backward") if node.is_backward else node.name


def _members(graph: DnnGraph, ops: Sequence[Op], levels: Iterable[Sequence[str]], remedy: str) -> dict[str, list[int]]:
    """Return the operators of each node that has any, by its name: nodes are operators, or layers of some length."""
    names = {node.name for node in graph.nodes if not node.is_backward}
    layers = {node.layer for node in graph.nodes}
    for labels in ([op.name for op in ops], *levels):
        if set(labels) <= names and (labels[0] == ops[0].name or set(labels) == layers):
            members: dict[str, list[int]] = {}
            for i, label in enumerate(labels):
                members.setdefault(label, []).append(i)
            return members
    raise SourceError(f"The graph's nodes are not those of this model: {remedy}.")


def _backward(op: Op, timing: Timing) -> Spread:
    """Return the time of a backward pass: where it could not be measured, by the rule for training."""
    if not op.has_backward:
        return NOTHING
    if timing.backward is not None:
        return timing.backward
    factor = 1 + op.is_dense
    return Spread(factor * timing.forward.median_ms, factor * timing.forward.range_ms)


def _sum(spreads: Iterable[Spread]) -> Spread:
    listed = list(spreads)
    return Spread(math.fsum(s.median_ms for s in listed), math.fsum(s.range_ms for s in listed))


def _with_time(node: Node, time: Spread, into: str) -> Node:
    if into == ACCELERATOR:
        return replace(node, accelerator_ms=time.median_ms, spread_ms=time.range_ms)
    if into == CPU:
        return replace(node, cpu_ms=time.median_ms)
    return replace(node, class_ms=(*((name, ms) for name, ms in node.class_ms if name != into), (into, time.median_ms)))
