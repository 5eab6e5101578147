"""Slow, obvious answers that the solvers are held against."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge
from solvers.model.split import Family, Split, check_split


def colocated_sets(graph: DnnGraph) -> list[tuple[int, ...]]:
    """Return the node ids that must move together: a colocation class, or a node without one."""
    alone = [(node.id,) for node in graph.nodes if node.colocation_class is None]
    return [*graph.colocation_members.values(), *alone]


def all_splits(graph: DnnGraph, deployment: Deployment, *, alike_in_order: bool = False) -> Iterator[Split]:
    """Yield every split that keeps colocation classes together, valid or not, with every number of replicas allowed.

    With `alike_in_order` devices that are alike begin in the order of their numbers: one split stands for all that
    differ by an exchange of such devices, which `test_devices_that_are_alike_can_be_exchanged` allows.
    """
    sets = colocated_sets(graph)
    groups = _alike(deployment) if alike_in_order else []
    most = 1 if deployment.replication is None else deployment.replication.max_replicas
    for devices in itertools.product(range(deployment.num_devices), repeat=len(sets)):
        if not all(_begin_in_order(devices, group) for group in groups):
            continue
        device_of = {v: d for ids, d in zip(sets, devices, strict=True) for v in ids}
        split = Split.from_device_of(device_of, deployment)
        counts = [range(1, (most if members else 1) + 1) for members in split.accelerators]
        for replicas in itertools.product(*counts):
            if sum(replicas) - len(replicas) + sum(map(bool, split.accelerators)) <= deployment.num_accelerators:
                yield replace(split, replicas=replicas)


def _alike(deployment: Deployment) -> list[range]:
    """Return the devices that may change places: the accelerators of a class, and the CPUs.

    Not so accelerators whose numbers mean something: the server they are in; where a schedule's memory depends on the
    stages after each, which comes first of those that data flow does not order; and the class of those that come
    after one with replicas, which take accelerators of their own.
    """
    cpus = range(deployment.num_accelerators, deployment.num_devices)
    has_replicas = deployment.replication is not None and deployment.replication.max_replicas > 1
    if (
        deployment.accelerators_per_server is not None
        or deployment.training_memory is not None
        or (deployment.classes and has_replicas)
    ):
        return [cpus]
    counts = [c.count for c in deployment.classes] or [deployment.num_accelerators]
    ends = list(itertools.accumulate(counts))
    return [*(range(end - count, end) for count, end in zip(counts, ends, strict=True)), cpus]


def _begin_in_order(devices: Iterable[int], group: range) -> bool:
    used = dict.fromkeys(d for d in devices if d in group)
    return all(d == group[i] for i, d in enumerate(used))


def best_value(graph: DnnGraph, deployment: Deployment, family: Family, objective: Objective) -> float | None:
    """Return the optimum in ms over all valid splits of a family; None when there is none."""
    best: float | None = None
    for split in all_splits(graph, deployment, alike_in_order=True):
        value = objective_value(graph, deployment, split, objective)
        # Rules are looked at last, since that takes longest.
        if value is not None and (best is None or value < best) and not check_split(graph, deployment, split, family):
            best = value
    return best


def transfer_ms(graph: DnnGraph, edge: Edge) -> float:
    """Return the transfer time in ms of the tensor that passes along an edge."""
    node = graph.node_by_id[edge.source]
    return {**dict(node.tensor_ms), "": node.transfer_ms}[edge.tensor]


def tensors(graph: DnnGraph) -> list[tuple[int, set[int], float]]:
    """Return the node, the readers and the transfer time in ms of each tensor, read off the edges."""
    readers: dict[tuple[int, str], set[int]] = {}
    for edge in graph.edges:
        readers.setdefault((edge.source, edge.tensor), set()).add(edge.target)
    ms = {(edge.source, edge.tensor): transfer_ms(graph, edge) for edge in graph.edges}
    return [(u, targets, ms[u, name]) for (u, name), targets in readers.items()]


def max_load_by_definition(graph: DnnGraph, deployment: Deployment, device_of: dict[int, int]) -> float:
    """Return the largest load in ms, each device's as the definition says: its compute plus the tensors it cuts.

    Works device by device on sets, for transfers that add to compute, with classes of accelerators or without.
    """
    numbered = [c for c in deployment.classes for _ in range(c.count)]
    loads = [0.0]
    for d in range(deployment.num_devices):
        here = {v for v, home in device_of.items() if home == d}
        if d >= deployment.num_accelerators:
            loads.append(sum(graph.node_by_id[v].cpu_ms for v in here))
            continue
        load = 0.0
        for v in here:
            node = graph.node_by_id[v]
            times = dict(node.class_ms)
            if not numbered:
                load += node.accelerator_ms
            else:
                load += times.get(numbered[d].name, node.accelerator_ms / numbered[d].speed)
        for u, readers, ms in tensors(graph):
            if {u, *readers} & here and {u, *readers} - here:
                load += ms / (numbered[d].link_speed if numbered else 1.0)
        loads.append(load)
    return max(loads)


def num_ideals(graph: DnnGraph) -> int:
    """Return how many node sets hold all predecessors of their members."""
    ideals = {frozenset[int]()}
    waiting = list(ideals)
    while waiting:
        ideal = waiting.pop()
        for v in graph.node_by_id.keys() - ideal:
            larger = ideal | {v}
            if larger not in ideals and ideal.issuperset(graph.inputs[v]):
                ideals.add(larger)
                waiting.append(larger)
    return len(ideals)


def best_latency(graph: DnnGraph, deployment: Deployment) -> float | None:
    """Return the least latency in ms over all plans, with every order of subgraphs; None when there is none.

    CPUs are as many as needed, so one of them stands for all.
    """
    deployment = replace(deployment, num_cpus=min(deployment.num_cpus, 1))
    k, q = deployment.num_accelerators, deployment.max_subgraphs
    if q == 1:
        return best_value(graph, deployment, Family.FREE, Objective.LATENCY)
    best: float | None = None
    for slots in itertools.product(range(k * q + deployment.num_cpus), repeat=len(graph.nodes)):
        accelerators = [slot // q for slot in slots if slot < k * q]
        if not all(_begin_in_order(accelerators, group) for group in _alike(deployment)):
            continue
        members = [
            frozenset(node.id for node, slot in zip(graph.nodes, slots, strict=True) if slot == s)
            for s in range(k * q + deployment.num_cpus)
        ]
        split = Split.from_subgraphs(
            tuple(tuple(members[d * q : d * q + q]) for d in range(k)), tuple(members[k * q :])
        )
        value = objective_value(graph, deployment, split, Objective.LATENCY)
        if value is not None and (best is None or value < best) and not check_split(graph, deployment, split):
            best = value
    return best
