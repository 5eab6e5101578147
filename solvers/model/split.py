"""A split: which device runs each node, what can be wrong with one, and which family it belongs to.

Families (each contains the one before it):
chain    the graph of devices, with an edge where forward data passes from one to another, is acyclic, so the
         devices form a pipeline of stages that are differences of nested ideals;
convex   no forward path leaves a device and comes back to it;
free     any assignment.
Contiguity is asked of the forward part only: a backward node goes where its colocation class goes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import networkx as nx

from solvers.model.deployment import MAX_DEVICES, Deployment
from solvers.model.errors import SplitError
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled, training_bytes
from solvers.quantities import binary_sizes


class Family(StrEnum):
    """Which splits a solver may choose from."""

    CHAIN = "chain"
    CONVEX = "convex"
    FREE = "free"

    @property
    def named(self) -> str:
        """What a sentence calls its splits.

        >>> [family.named for family in Family]
        ['pipeline', 'contiguous', 'non-contiguous']
        """
        return {Family.CHAIN: "pipeline", Family.CONVEX: "contiguous", Family.FREE: "non-contiguous"}[self]


@dataclass(frozen=True, slots=True)
class Split:
    """The node ids on each accelerator and on each CPU; devices may be empty.

    `replicas` says how many accelerators run each entry of `accelerators`, taking turns at the samples; an empty tuple
    means one each, and is what a tuple of ones becomes, so that equal splits are equal. An entry with nodes that runs
    on r accelerators takes up r of the deployment's, an empty one is a single idle accelerator. Devices are numbered
    by entry: entry i is device i, and the CPUs follow. Raises SplitError for replicas that do not fit the entries.

    `subgraphs` says for each entry of `accelerators` which parts of it run in which order, for the latency of one
    sample; an empty tuple means all nodes of an entry at once, and is what a tuple without any cut becomes. Raises
    SplitError for subgraphs that do not hold exactly the nodes of their entries.
    """

    accelerators: tuple[frozenset[int], ...]
    cpus: tuple[frozenset[int], ...] = ()
    replicas: tuple[int, ...] = ()
    subgraphs: tuple[tuple[frozenset[int], ...], ...] = ()

    def __post_init__(self) -> None:
        self._check_replicas()
        self._check_subgraphs()

    def _check_subgraphs(self) -> None:
        if not self.subgraphs:
            return
        if len(self.subgraphs) != len(self.accelerators):
            raise SplitError(
                f"The split has lists of subgraphs for {len(self.subgraphs)} accelerators and lists "
                f"{len(self.accelerators)}; give one list for each."
            )
        for d, (members, parts) in enumerate(zip(self.accelerators, self.subgraphs, strict=True)):
            if sum(map(len, parts)) != len(members) or frozenset[int]().union(*parts) != members:
                raise SplitError(
                    f"The subgraphs of accelerator {d + 1} do not hold exactly its nodes; list each node of it once."
                )
        parts_with_nodes = tuple(tuple(filter(None, parts)) for parts in self.subgraphs)
        is_cut = any(len(parts) > 1 for parts in parts_with_nodes)
        object.__setattr__(self, "subgraphs", parts_with_nodes if is_cut else ())

    def _check_replicas(self) -> None:
        if not self.replicas:
            return
        if len(self.replicas) != len(self.accelerators):
            raise SplitError(
                f"The split has {len(self.replicas)} numbers of replicas for {len(self.accelerators)} accelerator "
                "entries; give one for each."
            )
        for d, count in enumerate(self.replicas):
            if not 1 <= count <= MAX_DEVICES:
                raise SplitError(
                    f"Accelerator entry {d + 1} has {count} replicas; give a number from 1 to {MAX_DEVICES}."
                )
        counts = tuple(count if members else 1 for count, members in zip(self.replicas, self.accelerators, strict=True))
        object.__setattr__(self, "replicas", counts if any(count > 1 for count in counts) else ())

    @classmethod
    def from_device_of(cls, device_of: Mapping[int, int], deployment: Deployment) -> "Split":
        """Build the split that puts node v on device `device_of[v]` of `deployment`."""
        members: list[set[int]] = [set() for _ in range(deployment.num_devices)]
        for v, d in device_of.items():
            members[d].add(v)
        k = deployment.num_accelerators
        return cls(tuple(map(frozenset, members[:k])), tuple(map(frozenset, members[k:])))

    @classmethod
    def from_subgraphs(
        cls, subgraphs: tuple[tuple[frozenset[int], ...], ...], cpus: tuple[frozenset[int], ...]
    ) -> "Split":
        """Build the split whose accelerators run these subgraphs in this order."""
        return cls(tuple(frozenset[int]().union(*parts) for parts in subgraphs), cpus, (), subgraphs)

    @property
    def devices(self) -> tuple[frozenset[int], ...]:
        """Node ids per device, accelerators first."""
        return self.accelerators + self.cpus

    @property
    def num_accelerators_used(self) -> int:
        """Accelerators that the entries with nodes take up, replicas included."""
        return sum(self.num_replicas(d) for d, members in enumerate(self.accelerators) if members)

    def num_replicas(self, device: int) -> int:
        """Number of accelerators that take turns as this device; 1 for a CPU."""
        return self.replicas[device] if device < len(self.replicas) else 1

    def is_cpu(self, device: int) -> bool:
        """Whether a device number of this split belongs to a CPU."""
        return device >= len(self.accelerators)

    def device_name(self, device: int, deployment: Deployment | None = None) -> str:
        """What a person calls a device of this split: 'Accelerator 1', 'Accelerators 2-4' for replicas, 'CPU 1'.

        A deployment with classes gives its accelerators their names: 'A100 1', 'A100 2-4'.
        """
        if self.is_cpu(device):
            return f"CPU {device - len(self.accelerators) + 1}"
        first = 1 + self.first_accelerator(device)
        last = first + self.num_replicas(device) - 1
        if deployment is not None and deployment.classes:
            name = deployment.accelerator_name(first - 1)
            last_name = deployment.accelerator_name(last - 1)
            is_one_class = deployment.class_of(first - 1) is deployment.class_of(last - 1)
            if first == last:
                return name
            return f"{name}-{last_name.rpartition(' ')[2]}" if is_one_class else f"{name} to {last_name}"
        return f"Accelerator {first}" if first == last else f"Accelerators {first}-{last}"

    def first_accelerator(self, entry: int) -> int:
        """Number of the accelerator that runs an entry of `accelerators`, of the first one where it has replicas."""
        return entry + sum(count - 1 for count in self.replicas[:entry])

    def subgraphs_of(self, accelerator: int) -> tuple[frozenset[int], ...]:
        """Return the node sets that an accelerator runs one after the other; none for an idle one."""
        if self.subgraphs:
            return self.subgraphs[accelerator]
        return tuple(filter(None, (self.accelerators[accelerator],)))

    def on(self, deployment: Deployment) -> "Split":
        """Return this split with an entry for each idle device of the deployment: some added, or last ones dropped.

        An entry that holds nodes is never dropped, so a split that needs more devices than there are stays too large.
        With replicas there are fewer entries than accelerators.
        """
        extra = self.num_accelerators_used - sum(map(bool, self.accelerators))
        accelerators = _resized(self.accelerators, deployment.num_accelerators - extra)
        replicas = tuple(self.num_replicas(d) if members else 1 for d, members in enumerate(accelerators))
        subgraphs = tuple(self.subgraphs_of(d) if members else () for d, members in enumerate(accelerators))
        return Split(accelerators, _resized(self.cpus, deployment.num_cpus), replicas, subgraphs)

    def device_of(self) -> dict[int, int]:
        """Device number of each node in this split, its own accelerators first."""
        return {v: d for d, members in enumerate(self.devices) for v in members}


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule a split breaks: `rule` is a stable key, `message` one sentence, `device` None if it is no device's."""

    rule: str
    message: str
    device: int | None = None


def complete_split(graph: DnnGraph, split: Split) -> Split:
    """Return `split` with unlisted members of a colocation class put where the listed ones are.

    Expert splits of training graphs may list forward nodes only. Raises SplitError for a node that is not in the
    graph, listed twice, or cannot be placed this way.
    """
    device_of: dict[int, int] = {}
    for d, members in enumerate(split.devices):
        for v in members:
            if v not in graph.node_by_id:
                raise SplitError(f"The split places node {v}, which the graph does not have; remove it.")
            if v in device_of:
                raise SplitError(f"The split places {graph.node_by_id[v].label} on two devices; keep one.")
            device_of[v] = d
    class_device: dict[int, int] = {}
    for v, d in device_of.items():
        colocation_class = graph.node_by_id[v].colocation_class
        if colocation_class is not None:
            class_device.setdefault(colocation_class, d)
    for node in graph.nodes:
        if node.id not in device_of:
            if node.colocation_class is None or node.colocation_class not in class_device:
                raise SplitError(
                    f"The split leaves out {node.label}, and no placed node shares its colocation class; "
                    "place it on a device."
                )
            device_of[node.id] = class_device[node.colocation_class]
    completed: list[set[int]] = [set() for _ in split.devices]
    for v, d in device_of.items():
        completed[d].add(v)
    k = len(split.accelerators)
    accelerators = tuple(map(frozenset, completed[:k]))
    subgraphs = tuple(_completed_subgraphs(graph, split, d, members) for d, members in enumerate(accelerators))
    return Split(accelerators, tuple(map(frozenset, completed[k:])), split.replicas, subgraphs)


def _completed_subgraphs(
    graph: DnnGraph, split: Split, device: int, members: frozenset[int]
) -> tuple[frozenset[int], ...]:
    """Return an accelerator's subgraphs with new members put where their class comes first."""
    parts = split.subgraphs_of(device)
    classes: list[set[int | None]] = [{graph.node_by_id[v].colocation_class for v in part} for part in parts]
    added: list[set[int]] = [set() for _ in parts]
    for v in members - split.accelerators[device]:
        added[next(i for i, part in enumerate(classes) if graph.node_by_id[v].colocation_class in part)].add(v)
    return tuple(part | extra for part, extra in zip(parts, added, strict=True))


def check_split(
    graph: DnnGraph, deployment: Deployment, split: Split, family: Family = Family.FREE
) -> tuple[Violation, ...]:
    """Return every rule that a complete split breaks on these devices, within `family`; empty when it is valid.

    Judged from the original nodes and edges alone. Raises SplitError when the split does not place every node of
    the graph exactly once.
    """
    if complete_split(graph, split) != split:
        raise SplitError("The split does not place every node; complete it first.")
    violations: list[Violation] = []
    extra = split.num_accelerators_used - sum(map(bool, split.accelerators))
    for kind, used, available in (
        ("accelerators", _last_used(split.accelerators) + extra, deployment.num_accelerators),
        ("CPUs", _last_used(split.cpus), deployment.num_cpus),
    ):
        if used > available:
            violations.append(Violation("device count", f"The split uses {used} {kind}; {available} are available."))
    scheduled = is_scheduled(graph, deployment)
    if scheduled and memory_order(graph, split, deployment) is None:
        violations.append(
            Violation("schedule", "The devices do not form a pipeline, for which the schedule's memory is defined.")
        )
    if scheduled and split.replicas:
        violations.append(
            Violation(
                "schedule", "The schedule's memory is not defined for replicas; give every stage one accelerator."
            )
        )
    accelerator_of = [split.first_accelerator(d) for d in range(len(split.accelerators))]
    names = _device_names(deployment, split)
    memory_bytes = device_memory_bytes(graph, deployment, split)
    most = 1 if deployment.replication is None else deployment.replication.max_replicas
    for d, count in enumerate(split.replicas):
        if count > most:
            allowed = "stages are not replicated here" if most == 1 else f"up to {most} are allowed"
            device = split.device_name(d, deployment)
            violations.append(Violation("replicas", f"{device} are {count} replicas of one stage; {allowed}.", d))
        first, last = accelerator_of[d], accelerator_of[d] + count - 1
        if deployment.class_of(first) != deployment.class_of(last):
            violations.append(
                Violation(
                    "replicas",
                    f"The {count} replicas from {deployment.accelerator_name(first)} on are of different device types; "
                    "replicas take turns, so give them devices of one type.",
                    d,
                )
            )
    for d, members in enumerate(split.accelerators):
        for v in sorted(members):
            if not graph.node_by_id[v].runs_on_accelerator:
                violations.append(
                    Violation(
                        "unsupported",
                        f"{graph.node_by_id[v].label} is on {_inside(names[d])} but runs on CPUs only.",
                        d,
                    )
                )
        used_bytes = memory_bytes[d]
        capacity = deployment.accelerator_memory_bytes(accelerator_of[d])
        if capacity is not None and used_bytes > deployment.memory_limit_of(accelerator_of[d]):
            short, held, size = binary_sizes((used_bytes - capacity, used_bytes, capacity))
            what = " with the micro-batches in flight" if scheduled else ""
            violations.append(
                Violation(
                    "memory",
                    f"{names[d]} is short by {short}: it holds {held}{what}, its capacity is {size}.",
                    d,
                )
            )
    for d in range(len(split.accelerators)):
        if len(split.subgraphs_of(d)) > deployment.max_subgraphs:
            violations.append(
                Violation(
                    "subgraphs",
                    f"{names[d]} runs {len(split.subgraphs_of(d))} subgraphs one after the other; "
                    f"{deployment.max_subgraphs} are allowed.",
                    d,
                )
            )
    device_of = split.device_of()
    for colocation_class, ids in graph.colocation_members.items():
        if len({device_of[v] for v in ids}) > 1:
            violations.append(
                Violation(
                    "colocation",
                    f"Colocation class {colocation_class} (nodes {', '.join(map(str, ids[:6]))}"
                    f"{', ...' if len(ids) > 6 else ''}) is spread over several devices.",
                )
            )
    if family is Family.CHAIN and pipeline_order(graph, split) is None:
        violations.append(Violation("chain", "The devices do not form a pipeline: data flows in a circle."))
    if family is Family.CONVEX:
        violations.extend(_convexity_violations(graph, split, names))
    return tuple(violations)


def _device_names(deployment: Deployment, split: Split) -> list[str]:
    """Return what a message calls the entries of a split, which may be more than there are devices."""
    names = [split.device_name(d, deployment) for d in range(len(split.devices))]
    return [f"Each of {_inside(name)}" if split.num_replicas(d) > 1 else name for d, name in enumerate(names)]


def _inside(name: str) -> str:
    """A device's name within a sentence."""
    return name[0].lower() + name[1:] if name.startswith(("Accelerator ", "Accelerators ", "Each of ")) else name


def _resized(devices: tuple[frozenset[int], ...], count: int) -> tuple[frozenset[int], ...]:
    size = max(count, _last_used(devices))
    return devices[:size] + (frozenset(),) * (size - len(devices))


def _last_used(devices: tuple[frozenset[int], ...]) -> int:
    return max((i + 1 for i, members in enumerate(devices) if members), default=0)


def pipeline_order(graph: DnnGraph, split: Split) -> tuple[int, ...] | None:
    """Return the non-empty devices in the order data flows through their forward nodes; None when it is cyclic.

    A class with backward members only is tied into the order by the mirror image of its backward edges, as the
    chain family asks. Devices without a forward node come as late as such ties allow.
    """
    device_of = split.device_of()
    has_forward = {device_of[node.id] for node in graph.nodes if not node.is_backward}
    return _order_of_devices(graph, split, lambda d: (d not in has_forward, d))


def memory_order(graph: DnnGraph, split: Split, deployment: Deployment) -> tuple[int, ...] | None:
    """Return the non-empty devices in the pipeline order that counts for a schedule's memory; None when it is cyclic.

    Step by step the CPUs that may come next, then the accelerator with the lowest number that may. No order serves the
    accelerators better, up to their numbering: (a) A CPU that comes earlier puts no more stages after an accelerator,
    and with the accelerators' own order given, a CPU comes right after the last accelerator that must precede it,
    directly or through other CPUs, which is as early as can be. (b) Any order of the accelerators that data flow
    allows is this one's once they are numbered by it: when the first i of it are placed, so are all CPUs that wait for
    these alone, and the next one waits for nothing else. Which is fair to ask, since accelerators are identical.

    Where they are of several classes they cannot be renumbered. Then it is the order with the least largest excess over
    a device's memory, by the rule of Lawler ("Optimal sequencing of a single machine subject to precedence
    constraints", Management Science 19, 1973): memory never falls with the number of stages after a device, so the
    place with the most of them goes to the device, of those that may come next, that exceeds its memory least there.
    """
    k = len(split.accelerators)
    schedule = deployment.training_memory
    if not deployment.classes or schedule is None or not is_scheduled(graph, deployment):
        return _order_of_devices(graph, split, lambda d: (d < k, d))
    quotient = _device_graph(graph, split)
    if not nx.is_directed_acyclic_graph(quotient):
        return None
    held = [training_bytes(graph, schedule, members) for members in split.devices]
    limit = [deployment.memory_limit_of(split.first_accelerator(d)) for d in range(k)]
    missing = dict(quotient.in_degree())
    order: list[int] = []
    while missing:
        stages_after = len(missing) - 1

        def excess(d: int, stages_after: int = stages_after) -> tuple[float, int]:
            return (held[d].on_stage(schedule, stages_after) - limit[d] if d < k else -math.inf, d)

        chosen = min((d for d, count in missing.items() if count == 0), key=excess)
        order.append(chosen)
        del missing[chosen]
        for d in quotient.successors(chosen):
            missing[d] -= 1
    return tuple(order)


def device_memory_bytes(graph: DnnGraph, deployment: Deployment, split: Split) -> tuple[float, ...]:
    """Return the bytes on each device of a complete split; a replicated entry's are those of each of its accelerators.

    Under a training schedule a device's memory depends on the stages after it, in `memory_order`. Where the schedule's
    memory is not defined (`solvers.model.memory.why_static`, or a split that is no pipeline) it is the sizes of the
    nodes.
    """
    static = tuple(sum(graph.node_by_id[v].memory_bytes for v in members) for members in split.devices)
    memory = deployment.training_memory
    order = memory_order(graph, split, deployment) if is_scheduled(graph, deployment) else None
    if memory is None or order is None:
        return static
    held = dict(enumerate(static))
    for place, d in enumerate(order):
        held[d] = training_bytes(graph, memory, split.devices[d]).on_stage(memory, len(order) - 1 - place)
    return tuple(held.values())


def _order_of_devices(graph: DnnGraph, split: Split, key: Callable[[int], tuple[bool, int]]) -> tuple[int, ...] | None:
    """Return the non-empty devices along the edges that order stages, the least key first; None in a circle."""
    quotient = _device_graph(graph, split)
    if not nx.is_directed_acyclic_graph(quotient):
        return None
    return tuple(nx.lexicographical_topological_sort(quotient, key=key))


def _device_graph(graph: DnnGraph, split: Split) -> "nx.DiGraph[int]":
    """Return the non-empty devices with the edges that order stages."""
    device_of = split.device_of()
    quotient: nx.DiGraph[int] = nx.DiGraph()
    quotient.add_nodes_from(d for d, members in enumerate(split.devices) if members)
    for u, v in forward_edges(graph):
        if device_of[u] != device_of[v]:
            quotient.add_edge(device_of[u], device_of[v])
    return quotient


def family_of(graph: DnnGraph, split: Split) -> Family:
    """Return the narrowest family a complete split belongs to."""
    if pipeline_order(graph, split) is not None:
        return Family.CHAIN
    return Family.FREE if _convexity_violations(graph, split, [""] * len(split.devices)) else Family.CONVEX


def forward_edges(graph: DnnGraph) -> list[tuple[int, int]]:
    """Return the edges that order the stages of a chain: those between forward nodes, and mirrored backward edges.

    A backward edge a -> b with an end whose class has no forward member is mirrored to b -> a: the artificial
    forward node of such a class stands before or after its neighbours as they do in the backward pass, reversed.
    """
    edges: list[tuple[int, int]] = []
    anchored = {
        node.colocation_class for node in graph.nodes if not node.is_backward and node.colocation_class is not None
    }
    for edge in graph.edges:
        u, v = graph.node_by_id[edge.source], graph.node_by_id[edge.target]
        if not u.is_backward and not v.is_backward:
            edges.append((u.id, v.id))
        elif (
            u.is_backward and v.is_backward and not (u.colocation_class in anchored and v.colocation_class in anchored)
        ):
            edges.append((v.id, u.id))
    return edges


def _convexity_violations(graph: DnnGraph, split: Split, names: Sequence[str]) -> list[Violation]:
    """Name each device that a forward path leaves and re-enters."""
    device_of = split.device_of()
    found: list[Violation] = []
    for d, members in enumerate(split.devices):
        # left[v]: some forward path from this device reaches v after having left it.
        left: set[int] = set()
        for v in graph.topological_order:
            if graph.node_by_id[v].is_backward:
                continue
            sources = [u for u in graph.inputs[v] if not graph.node_by_id[u].is_backward]
            came_back = any(u in left for u in sources)
            if device_of[v] == d:
                if came_back:
                    device = _inside(names[d])
                    found.append(
                        Violation(
                            "convex",
                            f"A forward path leaves {device} and comes back at {graph.node_by_id[v].label}.",
                            d,
                        )
                    )
                    break
            elif came_back or any(u in members for u in sources):
                left.add(v)
    return found
