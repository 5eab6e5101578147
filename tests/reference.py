"""Slow, obvious answers that the solvers are held against."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from solvers.costs import Objective, objective_value
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.split import Family, Split, check_split


def colocated_sets(graph: DnnGraph) -> list[tuple[int, ...]]:
    """Return the node ids that must move together: a colocation class, or a node without one."""
    alone = [(node.id,) for node in graph.nodes if node.colocation_class is None]
    return [*graph.colocation_members.values(), *alone]


def all_splits(graph: DnnGraph, deployment: Deployment) -> Iterator[Split]:
    """Yield every split that keeps colocation classes together, valid or not, with every number of replicas allowed."""
    sets = colocated_sets(graph)
    most = 1 if deployment.replication is None else deployment.replication.max_replicas
    for devices in itertools.product(range(deployment.num_devices), repeat=len(sets)):
        device_of = {v: d for ids, d in zip(sets, devices, strict=True) for v in ids}
        split = Split.from_device_of(device_of, deployment)
        counts = [range(1, (most if members else 1) + 1) for members in split.accelerators]
        for replicas in itertools.product(*counts):
            if sum(replicas) - len(replicas) + sum(map(bool, split.accelerators)) <= deployment.num_accelerators:
                yield replace(split, replicas=replicas)


def best_value(graph: DnnGraph, deployment: Deployment, family: Family, objective: Objective) -> float | None:
    """Return the optimum in ms over all valid splits of a family; None when there is none."""
    values = (
        objective_value(graph, deployment, split, objective)
        for split in all_splits(graph, deployment)
        if not check_split(graph, deployment, split, family)
    )
    return min((value for value in values if value is not None), default=None)


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
        for u in graph.node_by_id:
            ends = {u, *graph.readers[u]}
            if ends & here and ends - here:
                load += graph.node_by_id[u].transfer_ms / (numbered[d].link_speed if numbered else 1.0)
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
        members = [
            frozenset(node.id for node, slot in zip(graph.nodes, slots, strict=True) if slot == s)
            for s in range(k * q + deployment.num_cpus)
        ]
        split = Split.from_subgraphs(
            tuple(tuple(members[d * q : d * q + q]) for d in range(k)), tuple(members[k * q :])
        )
        if check_split(graph, deployment, split):
            continue
        value = objective_value(graph, deployment, split, Objective.LATENCY)
        if value is not None and (best is None or value < best):
            best = value
    return best
