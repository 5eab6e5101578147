"""Tiny graphs to test on: fixed shapes, seeded random graphs and splits, and hypothesis strategies.

Times are whole or half milliseconds and sizes whole bytes, so sums are exact and floats may be compared with `==`.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
from hypothesis import strategies as st

from solvers.model.deployment import Communication, Deployment, DeviceClass, InFlight, TrainingMemory
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split, forward_edges

CPU_FACTOR = 4.0
"""How much slower than an accelerator the CPUs of these graphs are, unless a time is drawn."""


def dag(
    accelerator_ms: Sequence[float],
    edges: Sequence[tuple[int, int]],
    transfer_ms: float | Sequence[float] = 1.0,
    memory_bytes: float | Sequence[float] = 1.0,
) -> DnnGraph:
    """Return the graph on nodes 1, 2, ... with these times and edges; a single number holds for every node."""
    transfers = _per_node(transfer_ms, len(accelerator_ms))
    sizes = _per_node(memory_bytes, len(accelerator_ms))
    nodes = tuple(Node(i + 1, time, CPU_FACTOR * time, sizes[i], transfers[i]) for i, time in enumerate(accelerator_ms))
    return DnnGraph(nodes, tuple(Edge(u, v) for u, v in edges))


def chain(accelerator_ms: Sequence[float], transfer_ms: float | Sequence[float] = 1.0) -> DnnGraph:
    """Return the path 1 -> 2 -> ... -> n with these times."""
    n = len(accelerator_ms)
    return dag(accelerator_ms, [(v, v + 1) for v in range(1, n)], transfer_ms)


def training_chain(
    forward_ms: Sequence[float], backward_ms: Sequence[float], transfer_ms: float | Sequence[float] = 0.0
) -> DnnGraph:
    """Return the path 1 -> ... -> n with colocated backward twins n + 1 .. 2n that run back, with these times."""
    graph = with_backward(chain(forward_ms, transfer_ms))
    times = dict(zip(range(len(forward_ms) + 1, 2 * len(forward_ms) + 1), backward_ms, strict=True))
    nodes = tuple(
        replace(node, accelerator_ms=times[node.id], cpu_ms=CPU_FACTOR * times[node.id]) if node.is_backward else node
        for node in graph.nodes
    )
    return DnnGraph(nodes, graph.edges)


def scaled(graph: DnnGraph, factor: float) -> DnnGraph:
    """Return the graph with all times multiplied."""
    nodes = tuple(
        replace(
            node,
            accelerator_ms=factor * node.accelerator_ms,
            cpu_ms=factor * node.cpu_ms,
            transfer_ms=factor * node.transfer_ms,
            tensor_ms=tuple((name, factor * ms) for name, ms in node.tensor_ms),
        )
        for node in graph.nodes
    )
    return graph.with_nodes(nodes)


def one_node_per_device(graph: DnnGraph) -> Split:
    """Return the split that puts forward node v of a chain, and its backward twin, on accelerator v - 1."""
    n = sum(not node.is_backward for node in graph.nodes)
    return Split(tuple(frozenset({v, v + n} & graph.node_by_id.keys()) for v in range(1, n + 1)))


def diamond(transfer_ms: float = 1.0) -> DnnGraph:
    """Return 1 -> {2, 3} -> 4 with times 1, 2, 3, 4."""
    return dag((1, 2, 3, 4), ((1, 2), (1, 3), (2, 4), (3, 4)), transfer_ms)


def two_branches(length: int, transfer_ms: float = 1.0) -> DnnGraph:
    """Return two separate paths of `length` nodes of 1 ms each: 1 -> 2 -> ... and length + 1 -> ..."""
    edges = [(v + start, v + start + 1) for start in (0, length) for v in range(1, length)]
    return dag((1.0,) * (2 * length), edges, transfer_ms)


def divided() -> DnnGraph:
    """Return a node that divides what it gets into two tensors of 1 and 3 ms, each with a reader of its own."""
    nodes = (
        Node(1, 4.0, 16.0, 1.0, tensor_ms=(("left", 1.0), ("right", 3.0))),
        Node(2, 2.0, 8.0, 1.0),
        Node(3, 2.0, 8.0, 1.0),
    )
    return DnnGraph(nodes, (Edge(1, 2, 100.0, "left"), Edge(1, 3, 300.0, "right")))


def convex_witness() -> DnnGraph:
    """Return the graph whose best convex split on two accelerators ({1, 4}, {2, 3}: 4 ms) beats any chain (5 ms)."""
    return dag((2, 3, 1, 2), ((1, 2), (3, 4)), transfer_ms=0.0)


def random_dag(seed: int, num_nodes: int = 8, edge_probability: float = 0.3) -> DnnGraph:
    """Return a random inference graph; ids are shuffled, so they say nothing of the order."""
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    ids = rng.sample(range(num_nodes), num_nodes)
    nodes = tuple(_random_node(rng, v) for v in ids)
    edges = tuple(Edge(ids[i], ids[j]) for j in range(num_nodes) for i in range(j) if rng.random() < edge_probability)
    return DnnGraph(nodes, edges, f"random {seed}")


def random_training_graph(
    seed: int, num_forward: int = 6, edge_probability: float = 0.3, irregular: bool = False
) -> DnnGraph:
    """Return a random forward graph with a mirrored, colocated backward pass.

    An `irregular` one also has backward-only classes, backward nodes without a class or without a twin, and
    backward edges that mirror nothing.
    """
    rng = random.Random(seed + 1_000_000)  # noqa: S311
    forward = random_dag(seed, num_forward, edge_probability)
    graph = with_backward(forward, backward_factor=rng.choice((1.0, 1.5, 2.0)))
    if not irregular:
        return graph
    # No edge may lead from a backward node to a forward one.
    position = {v: (graph.node_by_id[v].is_backward, i) for i, v in enumerate(graph.topological_order)}
    backward = [node for node in graph.nodes if node.is_backward]
    kept: list[Node] = [node for node in graph.nodes if not node.is_backward]
    dropped: set[int] = set()
    for node in backward:
        fate = rng.choice(("as it is", "as it is", "as it is", "no class", "own class", "no twin"))
        if fate == "no twin" and len(dropped) + 1 < len(backward):
            dropped.add(node.id)
        elif fate == "no class":
            kept.append(replace(node, colocation_class=None))
        elif fate == "own class":
            kept.append(replace(node, colocation_class=1000 + rng.randrange(2)))
        else:
            kept.append(node)
    edges = [e for e in graph.edges if e.source not in dropped and e.target not in dropped]
    ids = [node.id for node in kept]
    for _ in range(rng.randrange(3)):
        u, v = sorted(rng.sample(ids, 2), key=position.__getitem__) if len(ids) > 1 else (ids[0], ids[0])
        if u != v and not any((e.source, e.target) == (u, v) for e in edges):
            edges.append(Edge(u, v))
    return DnnGraph(tuple(kept), tuple(edges), graph.name)


def with_backward(graph: DnnGraph, backward_factor: float = 2.0) -> DnnGraph:
    """Return `graph` with a backward twin of every node, `backward_factor` times as long and in the same class.

    The twin of v reads v and the twins of v's readers. Nodes without a class get one of their own.
    """
    offset = max(graph.node_by_id) - min(graph.node_by_id) + 1
    first_class = max((c for c in graph.colocation_members), default=0) + 1
    forward = [
        node if node.colocation_class is not None else replace(node, colocation_class=first_class + i)
        for i, node in enumerate(graph.nodes)
    ]
    backward = [
        replace(
            node,
            id=node.id + offset,
            accelerator_ms=backward_factor * node.accelerator_ms,
            cpu_ms=backward_factor * node.cpu_ms,
            is_backward=True,
        )
        for node in forward
    ]
    edges = [
        *graph.edges,
        *(Edge(node.id, node.id + offset) for node in forward),
        *(Edge(e.target + offset, e.source + offset) for e in graph.edges),
    ]
    return DnnGraph((*forward, *backward), tuple(edges), graph.name)


def random_split(graph: DnnGraph, deployment: Deployment, seed: int) -> Split:
    """Return a random free split that respects classes and support, as far as there is a CPU; memory is ignored."""
    rng = random.Random(seed)  # noqa: S311
    device_of: dict[int, int] = {}
    for members in _units(graph):
        supported = all(graph.node_by_id[v].runs_on_accelerator for v in members)
        allowed = [d for d in range(deployment.num_devices) if supported or deployment.is_cpu(d)]
        d = rng.choice(allowed or list(range(deployment.num_devices)))
        device_of.update(dict.fromkeys(members, d))
    return Split.from_device_of(device_of, deployment)


def random_chain_split(graph: DnnGraph, deployment: Deployment, seed: int) -> Split:
    """Return a random chain split that respects classes: cuts of a topological order; support, memory are ignored."""
    rng = random.Random(seed)  # noqa: S311
    unit_of = {v: i for i, members in enumerate(_units(graph)) for v in members}
    units: nx.DiGraph[int] = nx.DiGraph()
    units.add_nodes_from(unit_of.values())
    units.add_edges_from((unit_of[u], unit_of[v]) for u, v in forward_edges(graph) if unit_of[u] != unit_of[v])
    blocks = nx.condensation(units)
    shuffled = list(blocks)
    rng.shuffle(shuffled)
    rank = {block: i for i, block in enumerate(shuffled)}
    order = list(nx.lexicographical_topological_sort(blocks, key=rank.__getitem__))
    devices = list(range(deployment.num_devices))
    rng.shuffle(devices)
    cuts = sorted(rng.randrange(len(order) + 1) for _ in devices[1:])
    device_of_block = {block: devices[sum(cut <= i for cut in cuts)] for i, block in enumerate(order)}
    block_of = blocks.graph["mapping"]
    return Split.from_device_of({v: device_of_block[block_of[unit]] for v, unit in unit_of.items()}, deployment)


@st.composite
def small_graphs(
    draw: st.DrawFn,
    *,
    min_nodes: int = 1,
    max_nodes: int = 6,
    max_accelerators: int = 3,
    max_cpus: int = 1,
    memory_limit: bool = True,
    colocation: bool = True,
    backward: bool | None = None,
    unsupported: bool = True,
    zero_times: bool = True,
    idle_nodes: bool = False,
    known_bytes: bool = False,
    several_tensors: bool | None = None,
) -> tuple[DnnGraph, Deployment]:
    """Draw (graph, deployment), with at least one device; it may be infeasible when memory or support is limited.

    `max_nodes` counts forward nodes; a training graph has up to as many backward nodes again. `backward` says
    whether it is a training graph; None draws it. Of the backward nodes most share the class of a forward twin,
    a few share one with each other only, a few have none. `colocation` ties some forward nodes together;
    `unsupported` makes some nodes run on CPUs only; `zero_times` allows nodes and transfers of 0 ms, `idle_nodes` asks
    for nodes that take no time on any device, `known_bytes` for parameter and activation bytes on every node.
    `several_tensors` says whether edges may name their tensors; None draws it.
    """
    times = st.integers(0 if zero_times else 1, 8).map(lambda halves: halves / 2)
    sizes = st.integers(0, 4).map(float)
    num_forward = draw(st.integers(min_nodes, max_nodes))
    classes = st.none() | st.integers(1, 3) if colocation else st.none()

    def node(v: int) -> Node:
        is_idle = idle_nodes and draw(st.booleans())
        return Node(
            v,
            accelerator_ms=0.0 if is_idle else draw(times),
            cpu_ms=0.0 if is_idle else draw(times),
            memory_bytes=draw(sizes),
            transfer_ms=draw(times),
            runs_on_accelerator=not (unsupported and draw(st.integers(0, 9)) == 0),
            colocation_class=draw(classes),
        )

    # Drawn among pairs i < j of positions; ids run against the order in part, so that nothing may rely on them.
    ids = draw(st.permutations(range(1, num_forward + 1)))
    nodes = [node(v) for v in ids]
    edges = [(ids[i], ids[j]) for j in range(num_forward) for i in range(j) if draw(st.integers(0, 2)) == 0]
    if draw(st.booleans()) if backward is None else backward:
        _draw_backward(draw, nodes, edges, times, sizes)
    if known_bytes:
        nodes = [
            replace(
                node,
                parameter_bytes=float(draw(st.integers(0, 3))),
                activation_bytes=float(draw(st.integers(0, int(node.memory_bytes)))),
            )
            for node in nodes
        ]
    graph = DnnGraph(tuple(nodes), tuple(Edge(u, v) for u, v in edges))
    if draw(st.integers(0, 2)) == 2 if several_tensors is None else several_tensors:
        graph = draw(named_tensors(graph, times))
    k = draw(st.integers(0 if max_cpus else 1, max_accelerators))
    num_cpus = draw(st.integers(0 if k else 1, max_cpus)) if max_cpus else 0
    limit = None
    if memory_limit and draw(st.booleans()):
        limit = float(draw(st.integers(1, int(sum(node.memory_bytes for node in nodes)) + 1)))
    return graph, Deployment(k, num_cpus, limit)


TENSORS_OF_AN_EDGE = (("",), ("a",), ("b",), ("", "a"), ("a", "b"))
"""What a node may read of another: one of its tensors, or two."""


@st.composite
def named_tensors(draw: st.DrawFn, graph: DnnGraph, times: st.SearchStrategy[float]) -> DnnGraph:
    """Draw which tensors pass along the edges of a graph, and what their transfers take."""
    edges = [
        Edge(edge.source, edge.target, edge.size_bytes, name)
        for edge in graph.edges
        for name in draw(st.sampled_from(TENSORS_OF_AN_EDGE))
    ]
    names = {u: sorted({edge.tensor for edge in edges if edge.source == u} - {""}) for u in graph.node_by_id}
    nodes = (replace(node, tensor_ms=tuple((name, draw(times)) for name in names[node.id])) for node in graph.nodes)
    return DnnGraph(tuple(nodes), tuple(edges), graph.name)


def random_tensors(graph: DnnGraph, seed: int) -> DnnGraph:
    """Return the graph with two tensors more to a node, at random on its edges: some then carry two."""
    rng = random.Random(seed + 3_000_000)  # noqa: S311
    edges = [replace(edge, tensor=name) for edge in graph.edges for name in rng.choice(TENSORS_OF_AN_EDGE)]
    nodes = (
        replace(node, tensor_ms=tuple((name, rng.randrange(5) / 2) for name in ("a", "b"))) for node in graph.nodes
    )
    return DnnGraph(tuple(nodes), tuple(edges), graph.name)


def with_carriers(graph: DnnGraph) -> DnnGraph:
    """Return the graph without names, where each named tensor leaves from a node of its own.

    That node takes no time and no memory and shares the device of the one that produces the tensor.
    """
    free_class = 1 + max((node.colocation_class or 0 for node in graph.nodes), default=0)
    free_id = 1 + max(graph.node_by_id)
    nodes: list[Node] = []
    carrier: dict[tuple[int, str], int] = {}
    for node in graph.nodes:
        tied = node
        if node.tensor_ms and node.colocation_class is None:
            tied = replace(node, colocation_class=free_class)
            free_class += 1
        nodes.append(replace(tied, tensor_ms=()))
        for name, ms in node.tensor_ms:
            carrier[node.id, name] = free_id
            nodes.append(
                replace(
                    tied,
                    id=free_id,
                    accelerator_ms=0.0,
                    cpu_ms=0.0,
                    memory_bytes=0.0,
                    transfer_ms=ms,
                    class_ms=(),
                    parameter_bytes=None if node.parameter_bytes is None else 0.0,
                    activation_bytes=None if node.activation_bytes is None else 0.0,
                    tensor_ms=(),
                )
            )
            free_id += 1
    edges = [Edge(carrier.get((e.source, e.tensor), e.source), e.target, e.size_bytes) for e in graph.edges]
    # A node whose own tensor only its carriers read sends it nowhere else.
    edges += [Edge(u, v) for (u, _), v in carrier.items()]
    return DnnGraph(tuple(nodes), tuple(edges), graph.name)


def training_memories() -> st.SearchStrategy[TrainingMemory]:
    """Draw what a schedule keeps in memory."""
    return st.builds(
        TrainingMemory, st.sampled_from(InFlight), st.integers(1, 4), st.none() | st.integers(1, 2).map(float)
    )


def _draw_backward(
    draw: st.DrawFn,
    nodes: list[Node],
    edges: list[tuple[int, int]],
    times: st.SearchStrategy[float],
    sizes: st.SearchStrategy[float],
) -> None:
    """Add a backward pass to `nodes` and `edges`: twins, mostly, linked by most of the mirrored edges."""
    forward = list(nodes)
    twin: dict[int, int] = {}
    for i, original in enumerate(forward):
        # The shrinker prefers 0: a twin in its own class with the node it belongs to.
        fate = draw(st.integers(0, 9)) if i else 0
        if fate == 9:
            continue
        twin[original.id] = 100 + original.id
        colocation_class = original.colocation_class
        if fate == 8:
            colocation_class = None
        elif fate == 7:
            colocation_class = 50
        elif colocation_class is None:
            colocation_class = 10 + original.id
            nodes[i] = replace(original, colocation_class=colocation_class)
        nodes.append(
            Node(
                100 + original.id,
                accelerator_ms=draw(times),
                cpu_ms=draw(times),
                memory_bytes=draw(sizes),
                transfer_ms=draw(times),
                runs_on_accelerator=original.runs_on_accelerator,
                is_backward=True,
                colocation_class=colocation_class,
            )
        )
    mirrored = [(twin[v], twin[u]) for u, v in edges if u in twin and v in twin and draw(st.integers(0, 4)) < 4]
    activations = [(u, b) for u, b in twin.items() if draw(st.integers(0, 4)) < 4]
    edges.extend(mirrored + activations)


def _random_node(rng: random.Random, v: int) -> Node:
    time = rng.randrange(1, 13) / 2
    return Node(v, time, CPU_FACTOR * time, float(rng.randrange(1, 5)), rng.randrange(5) / 2)


def random_classes(seed: int, num_cpus: int = 0, *, limited: bool = True) -> Deployment:
    """Return one fast and one or two slower accelerators, at random with memory limits; speeds are powers of two."""
    rng = random.Random(seed + 2_000_000)  # noqa: S311
    sizes: tuple[float | None, ...] = (None, 4.0, 7.0, 12.0) if limited else (None,)
    classes = (
        DeviceClass("A", 1, rng.choice((1.0, 2.0, 4.0)), rng.choice(sizes), rng.choice((1.0, 2.0, 4.0))),
        DeviceClass("B", rng.choice((1, 2)), rng.choice((0.5, 1.0)), rng.choice(sizes), rng.choice((0.5, 1.0))),
    )
    return Deployment.of_classes(classes, num_cpus)


@st.composite
def class_deployments(draw: st.DrawFn) -> Deployment:
    """One or two accelerators each of two classes, with or without memory limits, and up to one CPU."""

    def device_class(name: str, count: int) -> DeviceClass:
        speed, link_speed = (draw(st.sampled_from((0.5, 1.0, 2.0))) for _ in range(2))
        return DeviceClass(name, count, speed, draw(st.sampled_from((None, 3.0, 6.0, 9.0))), link_speed)

    count = draw(st.integers(1, 2))
    classes = (device_class("A", count), device_class("B", 3 - count))
    return Deployment.of_classes(classes, draw(st.integers(0, 1)))


@st.composite
def mixed_placements(draw: st.DrawFn) -> tuple[DnnGraph, Deployment, Split]:
    """Draw (graph, deployment, split): two classes, each with its link, servers or none, nodes anywhere."""
    graph, _ = draw(small_graphs())
    counts, speeds = st.integers(1, 3), st.sampled_from((0.25, 1.0, 2.0))
    classes = [DeviceClass(name, draw(counts), link_speed=draw(speeds)) for name in "AB"]
    deployment = Deployment.of_classes(
        classes,
        draw(st.integers(0, 2)),
        accelerators_per_server=draw(st.none() | st.integers(1, 3)),
        server_link_speed=draw(st.sampled_from((1.0, 4.0))),
    )
    device = st.integers(0, deployment.num_devices - 1)
    return graph, deployment, Split.from_device_of({v: draw(device) for v in graph.node_by_id}, deployment)


def with_class_times(graph: DnnGraph, seed: int, name: str = "B") -> DnnGraph:
    """Return the graph with a time on a class for about half of its nodes, from 0 to 6 ms."""
    rng = random.Random(seed + 3_000_000)  # noqa: S311
    nodes = tuple(
        replace(node, class_ms=((name, float(rng.randrange(7))),)) if rng.random() < 0.5 else node
        for node in graph.nodes
    )
    return DnnGraph(nodes, graph.edges, graph.name)


def _per_node(value: float | Sequence[float], count: int) -> Sequence[float]:
    return value if isinstance(value, Sequence) else (value,) * count


def _units(graph: DnnGraph) -> list[tuple[int, ...]]:
    """Return the node sets that move together: the classes, and each node without one."""
    alone = [(node.id,) for node in graph.nodes if node.colocation_class is None]
    return [*graph.colocation_members.values(), *alone]


Drawn = tuple[DnnGraph, Deployment]


@st.composite
def mixed(draw: st.DrawFn, *, max_nodes: int = 4, backward: bool | None = None) -> Drawn:
    """A small graph, some of its nodes with times on class B, and accelerators of two classes."""
    graph, _ = draw(small_graphs(max_nodes=max_nodes, backward=backward))
    if draw(st.booleans()):
        graph = with_class_times(graph, draw(st.integers(0, 1000)))
    return graph, draw(class_deployments())


MAGNITUDES = st.sampled_from((0.0, 0.1, 0.2, 0.3, 0.7, 1.0, 3.3, 1e3, 1e7, 1e12, 1e15))


@st.composite
def uneven_graphs(draw: st.DrawFn) -> tuple[DnnGraph, Deployment]:
    """Draw a graph whose numbers do not add up exactly and span many magnitudes, on up to 2 + 2 devices."""
    n = draw(st.integers(1, 4))
    nodes = tuple(
        Node(
            v,
            draw(MAGNITUDES),
            draw(MAGNITUDES),
            draw(st.sampled_from((0.0, 0.1, 0.2, 0.3, 1e9))),
            draw(MAGNITUDES),
            runs_on_accelerator=draw(st.integers(0, 3)) > 0,
        )
        for v in range(n)
    )
    edges = tuple(Edge(u, v) for v in range(n) for u in range(v) if draw(st.booleans()))
    memory = draw(st.sampled_from((None, 0.0, 0.3, 0.6, 1e9)))
    k = draw(st.integers(0, 2))
    communication = draw(st.sampled_from(Communication))
    return DnnGraph(nodes, edges), Deployment(k, draw(st.integers(0 if k else 1, 2)), memory, communication)
