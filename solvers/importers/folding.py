"""Fold a graph of operators into one of layers, with the costs of the operators.

All operators of one layer become one node, those of its backward pass another. Times, flops, bytes and memory are the
sums of the operators'. What leaves a layer:

* Tensors whose readers share the same devices are one tensor of their size together: the same splits cut them.
  Where more than one tensor leaves a layer so, each has a name: "output 1", "output 2".
* A tensor that only the layer itself reads, or its backward pass, is never cut: forward and backward pass of a layer
  share a device. So do layers of which operators share one.

Proposition. Let a split of the folded graph place every operator where its layer is. Both splits then have the same
compute time, traffic and memory on every device.

Proof. Sums give compute and memory. Let a tensor of operator u with readers R be cut by a device's set S in the graph
of operators. All of u's colocation class lie on one side, so the cut depends on the classes of R other than u's own
alone, and is empty without any. Tensors of one layer whose readers are in the same such classes are cut alike, and
their times add up in the one folded tensor, whose other readers share its device. Every folded tensor is such a sum. ∎

Times of a folded node are those of its operators one after the other, which is more than the roofline of its flops and
bytes together, so the graph says that they are sums (`TimesKind.SUMMED`), and another device scales them.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from solvers.model.errors import GraphError
from solvers.model.graph import DnnGraph, Edge, Node, Tensor, TimesKind

Part = tuple[str, bool]
"""A layer, or one node without a layer, and whether it is its backward pass."""


def folded_by_layers(graph: DnnGraph) -> DnnGraph:
    """Return the graph of layers; GraphError where the layers of a graph are not such that data passes them one way.

    >>> nodes = (Node(0, 1.0, 2.0, layer="a"), Node(1, 3.0, 4.0, layer="a"), Node(2, 5.0, 6.0, layer="b"))
    >>> folded = folded_by_layers(DnnGraph(nodes, (Edge(0, 1), Edge(1, 2))))
    >>> [(node.name, node.accelerator_ms) for node in folded.nodes]
    [('a', 4.0), ('b', 5.0)]
    """
    part_of = {node.id: _part(node) for node in graph.nodes}
    members: dict[Part, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(part_of[node.id], []).append(node)
    group = _groups(graph, part_of)
    class_of = _classes(members, group)
    number = {part: i for i, part in enumerate(members)}
    nodes: list[Node] = []
    edges: list[Edge] = []
    for part, own in members.items():
        outputs = _outputs(graph, part_of, group, number, own)
        nodes.append(
            replace(
                _sum(part, own, number[part]),
                transfer_ms=sum(output.transfer_ms for output in outputs if not output.name),
                colocation_class=class_of.get(part),
                tensor_ms=tuple((output.name, output.transfer_ms) for output in outputs if output.name),
            )
        )
        edges += [
            Edge(number[part], number[reader], output.size_bytes, output.name)
            for output in outputs
            for reader in output.readers
        ]
    is_computed = graph.times is not None and graph.times.kind is TimesKind.ROOFLINE
    times = replace(graph.times, kind=TimesKind.SUMMED) if graph.times is not None and is_computed else graph.times
    try:
        return DnnGraph(tuple(nodes), tuple(edges), graph.name, times, graph.micro_batch)
    except GraphError:
        raise GraphError(
            "Folded by layers this graph has a cycle: some layer is left and entered again; take its operators instead."
        ) from None


def _part(node: Node) -> Part:
    return (f"node {node.id}" if node.layer is None else f"layer {node.layer}", node.is_backward)


def _groups(graph: DnnGraph, part_of: dict[int, Part]) -> dict[Part, Part]:
    """Return for each part one that stands for all it shares a device with."""
    parent = {part: part for part in part_of.values()}

    def root(part: Part) -> Part:
        while parent[part] != part:
            parent[part] = parent[parent[part]]
            part = parent[part]
        return part

    for ids in graph.colocation_members.values():
        for v in ids[1:]:
            parent[root(part_of[v])] = root(part_of[ids[0]])
    return {part: root(part) for part in parent}


@dataclass(frozen=True, slots=True)
class _Output:
    """What leaves a part as one tensor; without a name where it is the only one."""

    name: str
    readers: tuple[Part, ...]
    size_bytes: float | None
    transfer_ms: float


def _outputs(
    graph: DnnGraph, part_of: dict[int, Part], group: dict[Part, Part], order: dict[Part, int], own: list[Node]
) -> list[_Output]:
    """Return the tensors that leave a part; the first one's readers include those that share the part's device."""
    part = part_of[own[0].id]
    away: dict[frozenset[Part], list[Tensor]] = {}
    read_by: dict[frozenset[Part], set[Part]] = {}
    near: dict[Part, None] = {}
    inside: list[Tensor] = []
    for tensor in (tensor for node in own for tensor in graph.tensors_of[node.id]):
        readers = [part_of[v] for v in tensor.readers if part_of[v] != part]
        near.update(dict.fromkeys(reader for reader in readers if group[reader] == group[part]))
        if far := {reader for reader in readers if group[reader] != group[part]}:
            devices = frozenset(group[reader] for reader in far)
            away.setdefault(devices, []).append(tensor)
            read_by.setdefault(devices, set()).update(far)
        elif readers:
            inside.append(tensor)
    if not away:
        return [_together("", tuple(near), inside)] if near else []
    return [
        _together(
            f"output {i + 1}" if len(away) > 1 else "",
            (*(near if i == 0 else ()), *sorted(read_by[devices], key=order.__getitem__)),
            tensors,
        )
        for i, (devices, tensors) in enumerate(away.items())
    ]


def _together(name: str, readers: tuple[Part, ...], tensors: list[Tensor]) -> _Output:
    size_bytes, transfer_ms = _total(t.size_bytes for t in tensors), math.fsum(t.transfer_ms for t in tensors)
    return _Output(name, readers, size_bytes, transfer_ms)


def _total(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)


def _sum(part: Part, own: list[Node], node_id: int) -> Node:
    first = own[0]
    name = first.name if first.layer is None else first.layer + (" backward" if part[1] else "")
    classes = [dict(node.class_ms) for node in own]
    names = [name for name in classes[0] if all(name in times for times in classes)]
    return Node(
        id=node_id,
        accelerator_ms=math.fsum(node.accelerator_ms for node in own),
        cpu_ms=math.fsum(node.cpu_ms for node in own),
        memory_bytes=math.fsum(node.memory_bytes for node in own),
        runs_on_accelerator=all(node.runs_on_accelerator for node in own),
        is_backward=part[1],
        name=name,
        layer=first.layer,
        flops=_total(node.flops for node in own),
        parameter_bytes=_total(node.parameter_bytes for node in own),
        activation_bytes=_total(node.activation_bytes for node in own),
        class_ms=tuple((name, math.fsum(times[name] for times in classes)) for name in names),
        traffic_bytes=_total(node.traffic_bytes for node in own),
        spread_ms=_total(node.spread_ms for node in own),
    )


def _classes(members: dict[Part, list[Node]], group: dict[Part, Part]) -> dict[Part, int]:
    """Return the colocation class of each part that shares a device, by the place of the first part in it."""
    number = {part: i for i, part in enumerate(members)}
    grouped: dict[Part, list[Part]] = {}
    for part in members:
        grouped.setdefault(group[part], []).append(part)
    return {part: number[parts[0]] for parts in grouped.values() if len(parts) > 1 for part in parts}
