"""What the picture of a placed graph shows, as plain data: nodes and devices, at up to five levels of detail.

`dag_info` and `levels` decide everything that has a meaning (which edges are cut and what they cost, shares of folded
boxes, which level opens first); `explorer/canvas` only draws it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.layout.levels import (
    DEVICES,
    MOST_BOXES,
    OPERATORS,
    STAGES,
    LevelView,
    Placement,
    graph_levels,
)
from explorer.layout.lines import layout_bytes
from explorer.server.byte_cache import remembered
from explorer.server.sizes import BOX_BYTES, EDGE_VIEW_BYTES, NODE_VIEW_BYTES, TENSOR_BYTES
from solvers.model.costs import CutTensor, SplitCosts, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Node
from solvers.model.names import printable
from solvers.model.split import Split
from solvers.quantities import count, milliseconds

OPENING_PANEL = 900.0, 300.0
"""Width and height of the panel for which the opening level is chosen: that of a laptop."""
LEGIBLE_BOX = 22.0
"""Boxes of at least this height in the panel carry names that can be read from a seat in a room."""
MAX_FIT_SCALE = 1.6
"""The largest magnification at which the whole graph is shown."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node of the graph; `device` is None while it is not placed, `is_cut` says its output leaves its device.

    `transfer_ms` is the most that any device pays for moving its output. Where no device moves it, it is what an
    accelerator would pay: the one the node is on, over a link between servers, or else one of link speed 1. Of several
    tensors, time and bytes are those of all.
    """

    id: int
    name: str
    layer: str | None
    device: int | None
    is_backward: bool
    runs_on_accelerator: bool
    accelerator_ms: float
    cpu_ms: float
    memory_bytes: float
    output_bytes: float | None
    transfer_ms: float
    is_cut: bool
    flops: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device, or several alike that take turns; times and memory are None while nothing is placed.

    `compute_ms`, `receive_ms` and `send_ms` are per micro-batch, as the load is. Capacity is None without a limit.
    """

    device: int
    name: str
    num_nodes: int
    load_ms: float | None
    memory_bytes: float | None
    capacity_bytes: float | None
    is_bottleneck: bool
    replicas: int = 1
    compute_ms: float | None = None
    receive_ms: float | None = None
    send_ms: float | None = None


@dataclass(frozen=True, slots=True)
class OutputView:
    """A tensor of a node, `source` by its place in the nodes, which is read; time and size as in `NodeView`."""

    source: int
    name: str
    transfer_ms: float
    size_bytes: float | None


@dataclass(frozen=True, slots=True)
class DagInfo:
    """Everything the graph picture shows; `levels[0]` is the single nodes, unless there are too many to draw.

    `num_edges` are those of the graph, `ends` the sources and targets of its edges as places in `nodes`; empty where
    the single nodes are a level, which has them. `tensors` are those that move between devices, most expensive first.
    Where a node has several tensors `outputs` are all that are read, moved or not, and `output_of_edge` tells that of
    each edge by its place among them; both are empty elsewhere, where a node's output is one tensor. `ties` are the
    nodes of one pass that must share a device, by their places in `nodes`, where there are several.
    """

    digest: str
    name: str
    deployment: Deployment
    nodes: tuple[NodeView, ...]
    devices: tuple[DeviceView, ...]
    levels: tuple[LevelView, ...]
    opening_level: str
    max_load_ms: float | None
    tensors: tuple[CutTensor, ...]
    num_edges: int
    ends: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    outputs: tuple[OutputView, ...] = ()
    output_of_edge: tuple[int, ...] = ()
    ties: tuple[tuple[int, ...], ...] = ()

    @property
    def note(self) -> str:
        """One sentence where the picture cannot show single nodes; empty where it can."""
        if self.levels[0].name == OPERATORS:
            return ""
        return (
            f"This graph has {count(len(self.nodes))} nodes; up to {count(MOST_BOXES)} are drawn one by one, so the "
            "picture shows them in groups. Names and costs are in the tables, and a node is found by its name."
        )

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels by the names they have in addresses, the coarsest first; those that a plan will bring included."""
        names = tuple(level.name for level in reversed(self.levels))
        return names if self.is_placed else (DEVICES, STAGES, *names)

    @property
    def num_cut_tensors(self) -> int:
        """How many tensors are read on a device other than their own."""
        return len(self.tensors)

    @property
    def is_placed(self) -> bool:
        """Whether there is a split to show."""
        return self.max_load_ms is not None

    @property
    def summary(self) -> str:
        """One sentence that says what the picture shows, for a reader who does not see it."""
        head = f"Graph of {count(len(self.nodes))} nodes and {count(self.num_edges)} edges"
        if self.max_load_ms is None:
            return f"{head}, not placed yet."
        used = [d for d in self.devices if d.num_nodes]
        slowest = next(d for d in self.devices if d.is_bottleneck)
        loads = ", ".join(f"{d.name} {milliseconds(d.load_ms)}" for d in used[:16])
        send_ms, receive_ms = (sum(d.send_ms or 0.0 for d in used), sum(d.receive_ms or 0.0 for d in used))
        return (
            f"{head}, placed on {len(used)} of {len(self.devices)} devices. Loads: {loads}"
            f"{', and so on' if len(used) > 16 else ''}. The slowest is {slowest.name}. "
            f"{count(self.num_cut_tensors)} tensors are cut: {milliseconds(send_ms)} to send, "
            f"{milliseconds(receive_ms)} to receive."
        )


def _accelerator_ms(node: Node, deployment: Deployment, accelerator: int | None) -> float:
    """Time of a node in ms on the accelerator it is on, which may be of a class; elsewhere that of the graph."""
    return float(node.accelerator_ms if accelerator is None else deployment.accelerator_ms(node, accelerator))


def _transfer_ms(transfer_ms: float, deployment: Deployment, accelerator: int | None, cut: CutTensor | None) -> float:
    """Time in ms to move a tensor that takes `transfer_ms` at link speed 1; see `NodeView`."""
    if cut is not None:
        return float(cut.most_ms)
    return float(transfer_ms / (1.0 if accelerator is None else deployment.link_speed_of(accelerator)))


def dag_info(
    graph: DnnGraph, deployment: Deployment, split: Split | None = None, costs: SplitCosts | None = None
) -> DagInfo:
    """Return what the picture of a graph shows; `split` must be complete, `costs` are computed when not given.

    >>> from solvers.model.graph import Edge, Node
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> info = dag_info(g, Deployment(2), Split((frozenset({1}), frozenset({2}))))
    >>> info.levels[0].edges[0].cut_ms, info.max_load_ms
    (0.5, 3.5)
    """
    device_of: dict[int, int] | None = None
    if split is not None:
        device_of = _device_of(split, deployment)
        costs = costs or split_costs(graph, deployment, split)
    accelerator_of = {v: d for v, d in (device_of or {}).items() if not deployment.is_cpu(d)}
    tensor_of = {} if costs is None else {tensor.key: tensor for tensor in costs.cut_tensors}
    cut_nodes = {u for u, _ in tensor_of}

    def output_ms(v: int) -> float:
        accelerator, total = accelerator_of.get(v), 0.0
        for tensor in graph.tensors_of[v]:
            total += _transfer_ms(tensor.transfer_ms, deployment, accelerator, tensor_of.get((v, tensor.name)))
        is_read = bool(graph.tensors_of[v])
        return total if is_read else _transfer_ms(graph.node_by_id[v].transfer_ms, deployment, accelerator, None)

    nodes = tuple(
        NodeView(
            id=v,
            name=printable(node.name),
            layer=None if node.layer is None else printable(node.layer),
            device=None if device_of is None else device_of[v],
            is_backward=node.is_backward,
            runs_on_accelerator=node.runs_on_accelerator,
            accelerator_ms=_accelerator_ms(node, deployment, accelerator_of.get(v)),
            cpu_ms=float(node.cpu_ms),
            memory_bytes=float(node.memory_bytes),
            output_bytes=graph.output_bytes[v],
            transfer_ms=output_ms(v),
            is_cut=v in cut_nodes,
            flops=node.flops,
        )
        for v, node in ((v, graph.node_by_id[v]) for v in graph.topological_order)
    )
    placement = None if split is None or device_of is None else Placement(split, device_of, tensor_of)
    levels = graph_levels(graph, deployment, placement, [node.id for node in nodes])
    place = {node.id: i for i, node in enumerate(nodes)}
    outputs = tuple(
        OutputView(
            place[tensor.source],
            printable(tensor.name),
            _transfer_ms(tensor.transfer_ms, deployment, accelerator_of.get(tensor.source), tensor_of.get(key)),
            tensor.size_bytes,
        )
        for key, tensor in (graph.tensor_of.items() if graph.has_names else ())
    )
    number = {key: i for i, key in enumerate(graph.tensor_of)} if graph.has_names else {}
    return DagInfo(
        digest=graph.digest,
        name=graph.name,
        deployment=deployment,
        nodes=nodes,
        devices=_devices(deployment, costs, device_of),
        levels=levels,
        opening_level=_opening_level(levels),
        max_load_ms=None if costs is None else float(costs.max_load_ms),
        tensors=() if costs is None else costs.cut_tensors,
        num_edges=len(graph.edges),
        ends=((), ()) if levels[0].name == OPERATORS and not graph.has_names else _ends(graph),
        outputs=outputs,
        output_of_edge=tuple(number[edge.source, edge.tensor] for edge in graph.edges) if graph.has_names else (),
        ties=_ties(graph, place),
    )


def remembered_dag_info(graph: DnnGraph, deployment: Deployment, split: Split | None = None) -> DagInfo:
    """Return `dag_info` of a complete split, made once while it is looked at."""
    key = (graph.digest, graph.name, deployment, split)
    return remembered("picture", key, lambda: dag_info(graph, deployment, split), dag_bytes)


def _opening_level(levels: tuple[LevelView, ...]) -> str:
    """Return the finest level that can be read when all of it is shown, or the most legible one where none can."""
    height_of = {level.name: _height_in_panel(level) for level in levels}
    legible = [name for name, height in height_of.items() if height >= LEGIBLE_BOX]
    return legible[0] if legible else max(height_of, key=height_of.__getitem__)


def _height_in_panel(level: LevelView) -> float:
    """Return the height in pixels of the level's boxes when all of it is shown."""
    width, height = OPENING_PANEL
    return level.box_size[1] * min(MAX_FIT_SCALE, width / level.layout.width, height / level.layout.height)


def _ends(graph: DnnGraph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    place = {v: i for i, v in enumerate(graph.topological_order)}
    return tuple(place[edge.source] for edge in graph.edges), tuple(place[edge.target] for edge in graph.edges)


def _ties(graph: DnnGraph, place: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    """Return the members of each colocation class in each pass; a node and its own backward node are no tie."""
    ties: list[tuple[int, ...]] = []
    for members in graph.colocation_members.values():
        for is_backward in (False, True):
            own = sorted(place[v] for v in members if graph.node_by_id[v].is_backward == is_backward)
            if len(own) > 1:
                ties.append(tuple(own))
    return tuple(ties)


def _device_of(split: Split, deployment: Deployment) -> dict[int, int]:
    """Return the device numbers of `deployment`, whose CPUs start after all its accelerators."""
    k = deployment.num_accelerators
    device_of = {v: d for d, members in enumerate(split.accelerators) for v in members}
    device_of.update({v: k + d for d, members in enumerate(split.cpus) for v in members})
    return device_of


def _devices(
    deployment: Deployment, costs: SplitCosts | None, device_of: Mapping[int, int] | None
) -> tuple[DeviceView, ...]:
    counts = [0] * deployment.num_devices
    for d in (device_of or {}).values():
        counts[d] += 1
    return tuple(
        DeviceView(
            device=d,
            name=deployment.device_name(d),
            num_nodes=counts[d],
            load_ms=None if costs is None else float(costs.devices[d].load_ms),
            memory_bytes=None if costs is None else float(costs.devices[d].memory_bytes),
            capacity_bytes=deployment.capacity_bytes(d),
            is_bottleneck=costs is not None and d == costs.bottleneck,
            replicas=1 if costs is None else costs.devices[d].replicas,
            compute_ms=None if costs is None else float(costs.devices[d].compute_ms),
            receive_ms=None if costs is None else float(costs.devices[d].receive_ms),
            send_ms=None if costs is None else float(costs.devices[d].send_ms),
        )
        for d in range(deployment.num_devices)
    )


def dag_bytes(dag: DagInfo) -> int:
    """Return the size of a picture as data."""
    size = NODE_VIEW_BYTES * len(dag.nodes) + TENSOR_BYTES * len(dag.tensors) + 16 * len(dag.ends[0])
    size += TENSOR_BYTES * len(dag.outputs) + 8 * len(dag.output_of_edge)
    for level in dag.levels:
        size += BOX_BYTES * len(level.boxes) + 8 * len(dag.nodes) + EDGE_VIEW_BYTES * len(level.edges)
        size += layout_bytes(level.layout)
    return size
