"""Fewer, larger boxes for a large graph: its nodes grouped by layer, or by the device they run on.

Forward and backward nodes never share a group, since a layer's two passes stand at opposite ends of the data flow.
Groups may still feed each other in a circle; their order then follows the graph's own as far as it can, and a
drawing shows the edges against it as such.
"""

import heapq
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from solvers.graph import DnnGraph, Node


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes drawn as one box; groups with the same `twin` are the two passes of one thing, -1 means no twin."""

    title: str
    nodes: tuple[int, ...]
    is_backward: bool
    twin: int


def single_nodes(graph: DnnGraph) -> tuple[Group, ...]:
    """Return one group per node, in topological order.

    Twins are the heaviest forward and the heaviest backward node of a colocation class: tying all members of a large
    class into one row would tear the graph apart.
    """
    twin_of: dict[int, int] = {}
    for colocation_class, members in graph.colocation_members.items():
        nodes = [graph.node_by_id[v] for v in members]
        passes = [[node for node in nodes if node.is_backward == side] for side in (False, True)]
        if all(passes):
            for side in passes:
                twin_of[max(side, key=lambda node: node.accelerator_ms).id] = colocation_class
    return tuple(
        Group(node.name or str(node.id), (node.id,), node.is_backward, twin_of.get(node.id, -1))
        for node in (graph.node_by_id[v] for v in graph.topological_order)
    )


def fold_by_layer(graph: DnnGraph) -> tuple[Group, ...] | None:
    """Return one group per layer and pass, nodes without a layer alone; None when that would fold nothing."""
    if all(node.layer is None for node in graph.nodes):
        return None
    groups = _fold(
        graph,
        key=lambda node: node.layer if node.layer is not None else node.id,
        title=lambda node: node.layer if node.layer is not None else (node.name or str(node.id)),
    )
    return groups if len(groups) < len(graph.nodes) else None


def fold_by_stage(graph: DnnGraph, device_of: Mapping[int, int], names: Mapping[int, str]) -> tuple[Group, ...]:
    """Return one group per device and pass of a placed graph, titled by `names` of the devices."""
    return _fold(graph, key=lambda node: device_of[node.id], title=lambda node: names[device_of[node.id]])


def _fold(graph: DnnGraph, key: Callable[[Node], Hashable], title: Callable[[Node], str]) -> tuple[Group, ...]:
    members: dict[tuple[Hashable, bool], list[int]] = {}
    for v in graph.topological_order:
        node = graph.node_by_id[v]
        members.setdefault((key(node), node.is_backward), []).append(v)
    twin_of: dict[Hashable, int] = {}
    groups: list[Group] = []
    for (k, is_backward), nodes in members.items():
        has_twin = (k, not is_backward) in members
        twin = twin_of.setdefault(k, len(twin_of)) if has_twin else -1
        groups.append(Group(title(graph.node_by_id[nodes[0]]), tuple(nodes), is_backward, twin))
    return tuple(groups[i] for i in _flow_order(graph, groups))


def _flow_order(graph: DnnGraph, groups: list[Group]) -> list[int]:
    """Return the groups so that data flows forwards, against the fewest first-come edges where it is circular."""
    group_of = {v: i for i, group in enumerate(groups) for v in group.nodes}
    below: list[set[int]] = [set() for _ in groups]
    for edge in graph.edges:
        u, v = group_of[edge.source], group_of[edge.target]
        if u != v:
            below[u].add(v)
    waiting = [0] * len(groups)
    for readers in below:
        for v in readers:
            waiting[v] += 1
    order: list[int] = []
    done = [False] * len(groups)
    # `groups` is in order of first appearance in the topological order; the heap breaks ties by it.
    ready = [i for i, count in enumerate(waiting) if count == 0]
    next_stuck = 0
    while len(order) < len(groups):
        if ready:
            i = heapq.heappop(ready)
        else:
            while done[next_stuck]:
                next_stuck += 1
            i = next_stuck
        if done[i]:
            continue
        done[i] = True
        order.append(i)
        for v in below[i]:
            waiting[v] -= 1
            if waiting[v] == 0 and not done[v]:
                heapq.heappush(ready, v)
    return order
