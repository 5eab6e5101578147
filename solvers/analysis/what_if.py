"""What would make a plan faster: the same question on changed hardware or under changed rules, to be solved again.

Each change makes one thing better and leaves the rest: every plan that was valid stays valid and takes no longer, so
for a method that proves its plans the value can only fall. How much it falls is known only by solving. Two changes need
no solve: faster links where no transfer takes any time, and more memory where everything fits on one accelerator.

Where accelerators are of several classes, each class is asked about by itself. One device more of a class moves the
numbers of those after it; `carried_over` and `renumbered` follow them. Where servers have faster links inside, those
may come to other servers, and the value may rise.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import LARGEST_FACTOR, MAX_DEVICES, Communication, Deployment, Replication
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph, Node
from solvers.model.memory import is_scheduled, sync_bandwidth
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.quantities import binary_ceiling, binary_size, binary_sizes, milliseconds, percent

LINK_FACTOR = 2.0
MEMORY_FACTOR = 1.25
SPEED_FACTOR = 1.1


@dataclass(frozen=True, slots=True)
class Change:
    """A question beside the one that was asked: `key` names it, `label` says what is changed.

    `useless` says why it cannot help where that is known without solving; empty otherwise.
    """

    key: str
    label: str
    graph: DnnGraph
    deployment: Deployment
    family: Family
    method: str
    useless: str = ""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a change brings: the new value in ms, and the share of the old one that it saves, from 0 to 1.

    `most_share` is the largest share that any plan under the change can save, as far as proven; None where nothing is.
    `saved_share` is None without a plan, and `possible` tells that there is a plan where there was none before.
    """

    value_ms: float | None
    saved_share: float | None
    most_share: float | None
    is_possible_now: bool = False

    @property
    def helps(self) -> bool:
        """Whether a faster plan was found, or one at all."""
        return self.is_possible_now or (self.saved_share or 0.0) > 0

    @property
    def cannot_help(self) -> bool:
        """Whether it is proven that no plan is faster under this change."""
        return self.most_share == 0

    @property
    def is_exact(self) -> bool:
        """Whether it is proven that no plan under this change saves more."""
        return self.saved_share is not None and self.most_share is not None and self.most_share <= self.saved_share


def changes(
    graph: DnnGraph, deployment: Deployment, objective: Objective, family: Family, method: str
) -> tuple[Change, ...]:
    """Return what may be changed for a question, hardware first, then rules; each as the same method's question.

    A change of rules that the method does not know is asked of method auto.
    """
    found = [*_hardware(graph, deployment, family, method)]
    if method not in BASELINES:
        found += _rules(graph, deployment, objective, family, method)
    return tuple(found)


def without_restriction(
    graph: DnnGraph, own: DnnGraph, deployment: Deployment, family: Family, method: str
) -> Change | None:
    """Return the change that a framework need not be able to express the plan; None where none was asked to.

    `own` is the graph before that was asked, which had fewer nodes share a device.
    """
    class_of = {node.id: node.colocation_class for node in own.nodes}
    if all(class_of.get(node.id) == node.colocation_class for node in graph.nodes):
        return None
    nodes = tuple(replace(node, colocation_class=class_of.get(node.id)) for node in graph.nodes)
    label = "Splits that no framework need express"
    return Change("unrestricted", label, graph.with_nodes(nodes), deployment, family, method)


def _hardware(graph: DnnGraph, deployment: Deployment, family: Family, method: str) -> list[Change]:
    def change(key: str, label: str, changed: Deployment, on: DnnGraph = graph, useless: str = "") -> Change:
        return Change(key, label, on, changed, family, method, useless)

    if deployment.classes:
        return _hardware_of_classes(graph, deployment, family, method)
    found: list[Change] = []
    k, num_cpus, memory_bytes = deployment.num_accelerators, deployment.num_cpus, deployment.memory_bytes
    if k < MAX_DEVICES:
        found.append(change("accelerator", "One more accelerator", replace(deployment, num_accelerators=k + 1)))
    if k:
        faster = tuple(replace(node, accelerator_ms=node.accelerator_ms / SPEED_FACTOR) for node in graph.nodes)
        found.append(change("speed", "Accelerators 10 % faster", deployment, graph.with_nodes(faster)))
        free = _transfers_are_free(graph)
        found.append(
            change(
                "links",
                "Links twice as fast",
                deployment,
                graph if free else graph.with_bandwidth_factor(LINK_FACTOR),
                "transfers take no time" if free else "",
            )
        )
    if k and memory_bytes is not None:
        useless = _why_memory_is_enough(graph, deployment, deployment.memory_limit_bytes)
        fits = bool(useless)
        more = binary_ceiling(memory_bytes * MEMORY_FACTOR)
        label = f"Memory {binary_size(more)}, a quarter more"
        found.append(change("memory", label, replace(deployment, memory_bytes=more), useless=useless))
        if not fits:
            found.append(change("no limit", "Memory without limit", replace(deployment, memory_bytes=None)))
    if num_cpus < MAX_DEVICES:
        found.append(change("cpu", "One more CPU", replace(deployment, num_cpus=num_cpus + 1)))
    return found


def _hardware_of_classes(graph: DnnGraph, deployment: Deployment, family: Family, method: str) -> list[Change]:
    """The same where accelerators are of several classes: one more of each, each faster, with more memory and so on."""
    classes, free = deployment.classes, _transfers_are_free(graph)
    found: list[Change] = []

    def change(key: str, label: str, changed: Deployment, on: DnnGraph = graph, useless: str = "") -> None:
        found.append(Change(key, label, on, changed, family, method, useless))

    def with_class(i: int, **changed: Any) -> Deployment:
        others = (*classes[:i], replace(classes[i], **changed), *classes[i + 1 :])
        return replace(deployment, num_accelerators=sum(c.count for c in others), classes=others)

    if deployment.num_accelerators < MAX_DEVICES:
        for i, one in enumerate(classes):
            change(f"accelerator {i}", f"One more {one.name}", with_class(i, count=one.count + 1))
    used = [(i, one) for i, one in enumerate(classes) if one.count]
    for i, one in used:
        if one.speed * SPEED_FACTOR <= LARGEST_FACTOR:
            nodes = tuple(_faster(node, one.name) for node in graph.nodes)
            faster = with_class(i, speed=one.speed * SPEED_FACTOR)
            change(f"speed {i}", f"{one.name} 10 % faster", faster, graph.with_nodes(nodes))
    for i, one in used:
        if one.link_speed * LINK_FACTOR <= LARGEST_FACTOR:
            why = "transfers take no time" if free else ""
            twice = with_class(i, link_speed=one.link_speed * LINK_FACTOR)
            change(f"links {i}", f"Links of {one.name} twice as fast", twice, useless=why)
    for i, one in used:
        if one.memory_bytes is not None:
            why = _why_memory_is_enough(graph, deployment, one.memory_limit_bytes)
            more = binary_ceiling(one.memory_bytes * MEMORY_FACTOR)
            label = f"{one.name} with {binary_size(more)}, a quarter more"
            change(f"memory {i}", label, with_class(i, memory_bytes=more), useless=why)
    if any(not c.useless for c in found if c.key.startswith("memory")):
        unlimited = tuple(replace(one, memory_bytes=None) for one in classes)
        change("no limit", "Memory without limit", replace(deployment, classes=unlimited))
    if deployment.num_cpus < MAX_DEVICES:
        change("cpu", "One more CPU", replace(deployment, num_cpus=deployment.num_cpus + 1))
    return found


def _faster(node: Node, name: str) -> Node:
    """Return a node whose own time on a class, if it has one, is that of a faster one."""
    times = tuple((known, ms / SPEED_FACTOR if known == name else ms) for known, ms in node.class_ms)
    return replace(node, class_ms=times)


def _transfers_are_free(graph: DnnGraph) -> bool:
    return all(tensor.transfer_ms == 0 for tensor in graph.tensors)


def _why_memory_is_enough(graph: DnnGraph, deployment: Deployment, limit_bytes: float) -> str:
    """Say why no device with this limit needs more, empty where one may."""
    total = sum(node.memory_bytes for node in graph.nodes)
    fits = not is_scheduled(graph, deployment) and total <= limit_bytes
    return f"all nodes together take {binary_sizes([total, limit_bytes])[0]}" if fits else ""


def renumbered(device: int, before: Deployment, after: Deployment) -> int:
    """Return the number that a device of one deployment has in another with more of the same classes.

    >>> from solvers.model.deployment import DeviceClass
    >>> one, two = (Deployment.of_classes((DeviceClass("A", n), DeviceClass("B", 1)), 1) for n in (1, 2))
    >>> [renumbered(d, one, two) for d in range(3)]
    [0, 2, 3]
    """
    if before.is_cpu(device):
        return device + after.num_accelerators - before.num_accelerators
    shift, end = 0, 0
    for one, other in zip(before.classes, after.classes, strict=False):
        end += one.count
        if device < end:
            break
        shift += other.count - one.count
    return device + shift


def carried_over(split: Split, before: Deployment, after: Deployment) -> Split:
    """Return a split of one deployment on another with more of the same classes: what is new stays idle."""
    if not before.classes or before.classes == after.classes:
        return split.on(after)
    split = split.on(before)
    entries = [
        (members, split.num_replicas(d), split.subgraphs_of(d) if members else ())
        for d, members in enumerate(split.accelerators)
    ]
    firsts = [split.first_accelerator(d) for d in range(len(entries))]
    end = before.num_accelerators
    for one, other in zip(reversed(before.classes), reversed(after.classes), strict=True):
        idle = [(frozenset[int](), 1, ())] * (other.count - one.count)
        place = next((d for d, first in enumerate(firsts) if first >= end), len(entries))
        entries[place:place] = idle
        end -= one.count
    members, replicas, subgraphs = zip(*entries, strict=True) if entries else ((), (), ())
    return Split(members, split.cpus, replicas, subgraphs).on(after)


def _rules(graph: DnnGraph, deployment: Deployment, objective: Objective, family: Family, method: str) -> list[Change]:
    found: list[Change] = []
    if objective is Objective.LATENCY:
        if deployment.num_accelerators:
            more = replace(deployment, max_subgraphs=deployment.max_subgraphs + 1)
            label = f"Up to {more.max_subgraphs} subgraphs per accelerator"
            found.append(Change("subgraphs", label, graph, more, family, method))
        return found
    if deployment.communication is Communication.SUM and deployment.num_accelerators:
        overlapped = replace(deployment, communication=Communication.OVERLAPPED)
        found.append(Change("overlap", "Transfers overlapped with compute", graph, overlapped, family, method))
    if _may_replicate(graph, deployment, family, method):
        most = 1 if deployment.replication is None else deployment.replication.max_replicas
        bandwidth = None if deployment.replication is None else deployment.replication.bandwidth_bytes_per_ms
        replicated = replace(deployment, replication=Replication(most + 1, bandwidth))
        label = f"Stages replicated on up to {most + 1} accelerators"
        found.append(Change("replicas", label, graph, replicated, family, method))
    if family is not Family.FREE and deployment.training_memory is None and deployment.replication is None:
        asked = "auto" if method == "dp" else method
        found.append(
            Change(
                "free", f"Non-contiguous splits instead of {family.named} ones", graph, deployment, Family.FREE, asked
            )
        )
    return found


def _may_replicate(graph: DnnGraph, deployment: Deployment, family: Family, method: str) -> bool:
    """Whether the DP can be asked for one replica more."""
    if family is not Family.CHAIN or method == "ip" or deployment.training_memory is not None:
        return False
    if deployment.accelerators_per_server is not None:
        return False
    most = 1 if deployment.replication is None else deployment.replication.max_replicas
    if most >= deployment.num_accelerators:
        return False
    try:
        sync_bandwidth(graph, deployment)
    except PlacementError:
        return not graph.is_training  # an inference graph has no gradients to exchange
    return True


def gain(base: SolveResult, changed: SolveResult) -> Gain:
    """Return what a change brings, given the answers to the question as it was and as it is changed.

    Values that agree within the tolerance of a proof are equal.
    """
    before, after, bound = base.value_ms, changed.value_ms, changed.lower_bound_ms
    if changed.status is SolveStatus.INFEASIBLE:
        return Gain(None, None, 0.0)
    if before is None:
        return Gain(after, None, None, is_possible_now=after is not None)
    if before == 0:
        return Gain(after, 0.0, 0.0)
    most = None if bound is None else _share(before, bound)
    if after is None:
        return Gain(None, None, most)
    saved = _share(before, after)
    if changed.status is SolveStatus.OPTIMAL:
        most = saved
    return Gain(after, saved, most if most is None else max(most, saved))


def _share(before: float, after: float) -> float:
    """The part of `before` that `after` saves; nothing for a difference that is rounding, or none at all."""
    share = (before - after) / before
    return share if share > PROOF_TOLERANCE else 0.0


def enough_memory(graph: DnnGraph, deployment: Deployment, result: SolveResult) -> float | None:
    """Return a memory in bytes per accelerator from which on more changes nothing, given the answer without a limit.

    What its fullest accelerator holds, rounded up to what is written of it; None unless the plan is optimal
    and accelerators are alike. Less may be enough: plans of the same value may hold less.
    """
    if result.split is None or result.status is not SolveStatus.OPTIMAL or deployment.classes:
        return None
    devices = split_costs(graph, deployment, result.split).devices[: len(result.split.accelerators)]
    return binary_ceiling(max((device.memory_bytes for device in devices), default=0.0))


def first_that_helps(label: str, first: Gain, others: Iterable[Gain | None], *, is_over: bool) -> str:
    """Say what the change that gains most brings, and whether another may bring more as far as is proven.

    `others` has None for a change that is not known yet, or was not solved.
    """
    saved = first.saved_share or 0.0
    is_sure = all(other is not None and other.most_share is not None and other.most_share <= saved for other in others)
    how = "" if is_sure and is_over else ", as far as was found" if is_over else " so far"
    return f"{label} would help most{how}: {percent(saved)} less time, {milliseconds(first.value_ms)}."


def verdict(change: Change, gained: Gain) -> str:
    """Say in a few words what is proven of a change."""
    if gained.is_possible_now:
        return "a plan becomes possible"
    if gained.cannot_help:
        return "cannot help, proven"
    if gained.value_ms is None:
        return "no plan found in time"
    if gained.is_exact:
        return "proven"
    if gained.most_share is None or math.isinf(gained.most_share):
        return "not proven"
    most = f"at most {percent(gained.most_share)}"
    return f"{most} possible" if gained.helps else f"no gain found; {most} possible"
