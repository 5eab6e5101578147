"""What the picture of a placed graph shows, as plain data: boxes, edges, devices, at up to three levels of detail.

`dag_info` decides everything that has a meaning (which edges are cut and what they cost, shares of folded boxes,
which level opens first); `explorer/canvas` only draws it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from explorer.folding import Group, fold_by_layer, fold_by_stage, single_nodes
from explorer.layout import BOX_HEIGHT, BOX_WIDTH, Layout, Structure, layered_layout
from solvers.costs import CutTensor, SplitCosts, split_costs
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.split import Split

OPENING_PANEL = 900.0, 420.0
"""Width and height of the panel for which the opening level is chosen."""
LEGIBLE_BOX = 16.0
"""Boxes of at least this height in the panel carry names that can be read."""
MAX_FIT_SCALE = 1.6
"""The largest magnification at which the whole graph is shown."""
STAGE_BOX = 118.0, 48.0
"""Width and height of a box that stands for a whole stage; other boxes have the layout's default size."""

OPERATORS, LAYERS, STAGES = "operators", "layers", "stages"


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node of the graph; `device` is None while it is not placed, `is_cut` says its output leaves its device."""

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
class BoxView:
    """One box at some level of detail.

    `nodes` index `DagInfo.nodes`. `shares` are the devices of its nodes with their part of its running time, by
    number; empty while not placed. `time_ms` is the time of its nodes where they run, on accelerators while not placed.
    """

    label: str
    title: str
    nodes: tuple[int, ...]
    is_backward: bool
    shares: tuple[tuple[int, float], ...]
    time_ms: float


@dataclass(frozen=True, slots=True)
class EdgeView:
    """Data passing between two boxes, by index.

    `cut_ms` is the time to move the cut tensors one way, each counted once per device that reads it, 0 between CPUs;
    None when nothing is cut. `cut_bytes` is None when unknown. `shows_cost` is false where another edge of the same
    tensor to the same device says it already.
    """

    source: int
    target: int
    cut_ms: float | None
    cut_bytes: float | None
    num_cut_tensors: int
    shows_cost: bool


@dataclass(frozen=True, slots=True)
class LevelView:
    """The whole graph at one level of detail, with its drawing."""

    name: str
    boxes: tuple[BoxView, ...]
    edges: tuple[EdgeView, ...]
    box_size: tuple[float, float]
    layout: Layout


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device, or several alike that take turns; times and memory are None while nothing is placed.

    `compute_ms`, `receive_ms` and `send_ms` are per sample, as the load is. Capacity is None where there is no limit.
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
class DagInfo:
    """Everything the graph picture shows; `levels[0]` is always the single nodes.

    `tensors` are those that move between devices, the dearest first.
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
    cut_ms: float

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
        edges = len(self.levels[0].edges)
        head = f"Graph of {len(self.nodes)} nodes and {edges} edges"
        if self.max_load_ms is None:
            return f"{head}, not placed yet."
        used = [d for d in self.devices if d.num_nodes]
        slowest = next(d for d in self.devices if d.is_bottleneck)
        loads = ", ".join(f"{d.name} {d.load_ms:.4g} ms" for d in used[:16])
        return (
            f"{head}, placed on {len(used)} of {len(self.devices)} devices. Loads: {loads}"
            f"{', and so on' if len(used) > 16 else ''}. The slowest is {slowest.name}. "
            f"{self.num_cut_tensors} tensors are cut, {self.cut_ms:.4g} ms to move once."
        )


def dag_info(
    graph: DnnGraph, deployment: Deployment, split: Split | None = None, costs: SplitCosts | None = None
) -> DagInfo:
    """Return what the picture of a graph shows; `split` must be complete, `costs` are computed when not given.

    >>> from solvers.graph import Edge, Node
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> info = dag_info(g, Deployment(2), Split((frozenset({1}), frozenset({2}))))
    >>> info.levels[0].edges[0].cut_ms, info.max_load_ms
    (0.5, 3.5)
    """
    device_of: dict[int, int] | None = None
    if split is not None:
        device_of = _device_of(split, deployment)
        costs = costs or split_costs(graph, deployment, split)
    cut_sources = {t.source for t in costs.cut_tensors} if costs is not None else set()
    nodes = tuple(
        NodeView(
            id=v,
            name=node.name,
            layer=node.layer,
            device=None if device_of is None else device_of[v],
            is_backward=node.is_backward,
            runs_on_accelerator=node.runs_on_accelerator,
            accelerator_ms=float(node.accelerator_ms),
            cpu_ms=float(node.cpu_ms),
            memory_bytes=float(node.memory_bytes),
            output_bytes=graph.output_bytes[v],
            transfer_ms=float(node.transfer_ms),
            is_cut=v in cut_sources,
            flops=node.flops,
        )
        for v, node in ((v, graph.node_by_id[v]) for v in graph.topological_order)
    )
    names = {d: deployment.device_name(d) for d in range(deployment.num_devices)}
    folded: list[tuple[str, tuple[Group, ...]]] = [(OPERATORS, single_nodes(graph))]
    by_layer = fold_by_layer(graph)
    if by_layer is not None:
        folded.append((LAYERS, by_layer))
    if device_of is not None:
        folded.append((STAGES, fold_by_stage(graph, device_of, names)))
    levels = tuple(_level(graph, deployment, device_of, name, groups, nodes) for name, groups in folded)
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
        cut_ms=0.0 if costs is None else float(sum(t.transfer_ms for t in costs.cut_tensors)),
    )


def _opening_level(levels: tuple[LevelView, ...]) -> str:
    """Return the finest level that can be read when all of it is shown, or the most legible one where none can."""
    height_of = {level.name: _height_in_panel(level) for level in levels}
    legible = [name for name, height in height_of.items() if height >= LEGIBLE_BOX]
    return legible[0] if legible else max(height_of, key=height_of.__getitem__)


def _height_in_panel(level: LevelView) -> float:
    """Return the height in pixels of the level's boxes when all of it is shown."""
    width, height = OPENING_PANEL
    return level.box_size[1] * min(MAX_FIT_SCALE, width / level.layout.width, height / level.layout.height)


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


def _level(
    graph: DnnGraph,
    deployment: Deployment,
    device_of: Mapping[int, int] | None,
    name: str,
    groups: tuple[Group, ...],
    nodes: tuple[NodeView, ...],
) -> LevelView:
    index = {node.id: i for i, node in enumerate(nodes)}
    box_of = {v: i for i, group in enumerate(groups) for v in group.nodes}
    boxes: list[BoxView] = []
    for group in groups:
        time_of: dict[int, float] = {}
        total = 0.0
        for v in group.nodes:
            node = graph.node_by_id[v]
            on_cpu = device_of is not None and deployment.is_cpu(device_of[v])
            time_ms = float(node.cpu_ms if on_cpu else node.accelerator_ms)
            total += time_ms
            if device_of is not None:
                time_of[device_of[v]] = time_of.get(device_of[v], 0.0) + time_ms
        # Where no node takes any time, the devices count alike.
        shares = {d: t / total if total > 0 else 1 / len(time_of) for d, t in time_of.items()}
        boxes.append(
            BoxView(
                label=group.title if name == STAGES else _label(group),
                title=group.title,
                nodes=tuple(index[v] for v in group.nodes),
                is_backward=group.is_backward,
                shares=tuple(sorted(shares.items())),
                time_ms=total,
            )
        )
    edges = _edges(graph, deployment, device_of, box_of)
    size = STAGE_BOX if name == STAGES else (BOX_WIDTH, BOX_HEIGHT)
    structure = Structure(
        tuple(group.is_backward for group in groups),
        tuple(group.twin for group in groups),
        tuple((edge.source, edge.target) for edge in edges),
        *size,
    )
    return LevelView(name, tuple(boxes), edges, size, layered_layout(structure))


def _edges(
    graph: DnnGraph, deployment: Deployment, device_of: Mapping[int, int] | None, box_of: Mapping[int, int]
) -> tuple[EdgeView, ...]:
    """Return the edges between different boxes, in the order of the graph's edges."""
    cut: dict[tuple[int, int], dict[tuple[int, int], None]] = {}
    for edge in graph.edges:
        ends = box_of[edge.source], box_of[edge.target]
        if ends[0] == ends[1]:
            continue
        tensors = cut.setdefault(ends, {})
        if device_of is not None and device_of[edge.source] != device_of[edge.target]:
            tensors[edge.source, device_of[edge.target]] = None
    said: set[tuple[int, int]] = set()
    edges: list[EdgeView] = []
    for (source, target), tensors in cut.items():
        if not tensors:
            edges.append(EdgeView(source, target, None, None, 0, False))
            continue
        cut_ms, cut_bytes = 0.0, 0.0
        all_sizes_known = True
        for u, d in tensors:
            if device_of is not None and not (deployment.is_cpu(d) and deployment.is_cpu(device_of[u])):
                cut_ms += graph.node_by_id[u].transfer_ms
            size = graph.output_bytes[u]
            all_sizes_known = all_sizes_known and size is not None
            cut_bytes += size or 0.0
        edges.append(
            EdgeView(
                source,
                target,
                float(cut_ms),
                float(cut_bytes) if all_sizes_known else None,
                len({u for u, _ in tensors}),
                shows_cost=any(tensor not in said for tensor in tensors),
            )
        )
        said.update(tensors)
    return tuple(edges)


def _label(group: Group) -> str:
    """Return what is written on a box; that it is backward is seen from its hatching."""
    return _short(group.title.removesuffix(" backward") if group.is_backward else group.title)


def _short(title: str) -> str:
    """Keep the telling end of a dotted or slashed name; other names stay whole.

    >>> _short("encoder.layer.3.attention.query.weight"), _short("gpu_0/res5_2_bn")
    ('query.weight', 'res5_2_bn')
    """
    if not re.fullmatch(r"[\w.:/-]+", title):
        return title
    end = title.rsplit("/", 1)[-1] or title
    parts = [part for part in re.split(r"\.", end) if part]
    return ".".join(parts[-2:]) if len(parts) > 2 else end
