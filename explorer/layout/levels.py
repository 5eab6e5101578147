"""A graph at one level of detail: its boxes and edges, what they cost, and where they are drawn.

Levels, from fine to coarse: single nodes; layers; layers with repeats joined ("blocks"); the stages of a plan; its
devices, which is the quotient graph of the plan. Levels of more boxes than anyone could tell apart are left out: the
picture of a graph of 60,000 nodes begins at its layers, or at parts of consecutive nodes where it has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.layout.device_layout import device_layout
from explorer.layout.folding import (
    Group,
    fold_by_device,
    fold_by_layer,
    fold_by_piece,
    fold_by_stage,
    fold_into_parts,
    fold_repeats,
    single_nodes,
)
from explorer.layout.layered import layered_layout
from explorer.layout.lines import Layout
from explorer.layout.names import short_names, telling_end
from explorer.layout.rows import BOX_HEIGHT, BOX_WIDTH, Structure
from explorer.server.byte_cache import remembered
from explorer.server.sizes import names_bytes
from solvers.model.costs import CutTensor
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.names import printable
from solvers.model.split import Split
from solvers.schedule.records import ScheduleError, ScheduleKind
from solvers.schedule.stages import pipeline_stages

OPERATORS, LAYERS, BLOCKS, STAGES, DEVICES = "operators", "layers", "blocks", "stages", "devices"
PARTS = "parts"
MOST_BOXES = 20_000
"""Boxes of one level: placing more takes many seconds, and a browser as long again to draw them."""

STAGE_BOX = 118.0, 48.0
"""Width and height of a box that stands for a whole stage; other boxes have the layout's default size."""
LARGE_STAGE_BOX = 124.0, 84.0
"""The same where stages are few: there is room for what they take, keep and send."""
FEW_STAGES = 24
DEVICE_BOX = 152.0, 92.0
"""The same for a whole device."""


@dataclass(frozen=True, slots=True)
class BoxView:
    """One box at some level of detail.

    `short` is what stands for a label that does not fit, "" where nothing does. `nodes` index `DagInfo.nodes`. `count`
    is how many repeats it stands for. `shares` are the devices of its nodes with their part of its running time, by
    number; empty while not placed. `time_ms` is the time of its nodes where they run, on accelerators while not placed;
    `memory_bytes` what they keep. `sent_ms` is what its devices pay for sending its cut tensors, each once, and
    `sent_bytes` their size, None when unknown; both are None while not placed. `seam` is what passes between its own
    devices, None where nothing does.
    """

    label: str
    short: str
    title: str
    nodes: tuple[int, ...]
    is_backward: bool
    count: int
    shares: tuple[tuple[int, float], ...]
    time_ms: float
    memory_bytes: float
    sent_ms: float | None
    sent_bytes: float | None
    seam: "Seam | None" = None


@dataclass(frozen=True, slots=True)
class Seam:
    """Tensors that are cut inside a box on several devices, each counted once per device that reads it there.

    Times as in `EdgeView`; `cut_bytes` is None when unknown.
    """

    send_ms: float
    receive_ms: float
    cut_bytes: float | None
    num_cut_tensors: int


@dataclass(frozen=True, slots=True)
class EdgeView:
    """Data passing between two boxes, by index.

    `send_ms` and `receive_ms` are what the cut tensors take at either end, each counted once per device that reads it,
    0 on CPUs; None when nothing is cut. `cut_bytes` is None when unknown. `shows_cost` is false where another edge of
    the same tensor to the same device, or a seam, says it already.
    """

    source: int
    target: int
    send_ms: float | None
    receive_ms: float | None
    cut_bytes: float | None
    num_cut_tensors: int
    shows_cost: bool

    @property
    def cut_ms(self) -> float | None:
        """The time at the end that takes longer, None when nothing is cut."""
        return None if self.send_ms is None or self.receive_ms is None else max(self.send_ms, self.receive_ms)


@dataclass(frozen=True, slots=True)
class LevelView:
    """The whole graph at one level of detail, with its drawing."""

    name: str
    boxes: tuple[BoxView, ...]
    edges: tuple[EdgeView, ...]
    box_size: tuple[float, float]
    layout: Layout


@dataclass(frozen=True, slots=True)
class Placement:
    """Who runs what: the split, the device number of each node in the deployment, the cut tensors by node and name."""

    split: Split
    device_of: Mapping[int, int]
    tensors: Mapping[tuple[int, str], CutTensor]


def graph_levels(
    graph: DnnGraph, deployment: Deployment, placement: Placement | None, order: Sequence[int]
) -> tuple[LevelView, ...]:
    """Return the levels at which the graph can be looked at, the finest first; stages and devices only if placed.

    Boxes name nodes by their place in `order`. A level that would show the boxes of a finer one is left out, and so
    are levels of more than `MOST_BOXES` boxes.
    """
    device_of = None if placement is None else placement.device_of
    nodes = single_nodes(graph)
    folded: list[tuple[str, tuple[Group, ...]]] = [(OPERATORS, nodes)]
    by_layer = fold_by_layer(graph)
    if by_layer is not None:
        folded.append((LAYERS, by_layer))
    repeats = fold_repeats(graph, by_layer or nodes, device_of)
    if repeats is not None:
        folded.append((BLOCKS, repeats))
    folded = [(name, groups) for name, groups in folded if len(groups) <= MOST_BOXES]
    if not folded:
        folded.append((PARTS, fold_into_parts(graph)))
    if placement is not None:
        folded.append((STAGES, _stages(graph, deployment, placement)))
        names = {d: deployment.device_name(d) for d in range(deployment.num_devices)}
        folded.append((DEVICES, fold_by_device(graph, placement.device_of, names)))
    index = {v: i for i, v in enumerate(order)}
    return tuple(_level(graph, deployment, placement, name, groups, index) for name, groups in folded)


def _stages(graph: DnnGraph, deployment: Deployment, placement: Placement) -> tuple[Group, ...]:
    """Return the stages of the schedule; where no schedule fits the plan, one stage per device and pass."""
    names = {d: deployment.device_name(d) for d in range(deployment.num_devices)}
    kind = ScheduleKind.GPIPE if graph.is_training else ScheduleKind.INFERENCE
    try:
        stages = pipeline_stages(graph, deployment, placement.split, kind)
    except ScheduleError:
        return fold_by_stage(graph, placement.device_of, names)
    return fold_by_piece(graph, placement.device_of, [(stage.device, stage.nodes) for stage in stages], names)


def _level(
    graph: DnnGraph,
    deployment: Deployment,
    placement: Placement | None,
    name: str,
    groups: tuple[Group, ...],
    index: Mapping[int, int],
) -> LevelView:
    box_of = {v: i for i, group in enumerate(groups) for v in group.nodes}
    boxes = tuple(_box(graph, deployment, placement, group, index, name in (STAGES, DEVICES)) for group in groups)
    labels = tuple(box.label for box in boxes)
    shorts = remembered("short names", (labels,), lambda: short_names(labels), names_bytes)
    edges, seams = _cuts(graph, placement, box_of)
    boxes = tuple(replace(box, short=shorts[i], seam=seams.get(i)) for i, box in enumerate(boxes))
    pairs = tuple((edge.source, edge.target) for edge in edges)
    if name == DEVICES:
        return LevelView(name, boxes, edges, DEVICE_BOX, device_layout(len(boxes), pairs, *DEVICE_BOX))
    size = BOX_WIDTH, BOX_HEIGHT
    if name == STAGES:
        size = LARGE_STAGE_BOX if len(groups) <= FEW_STAGES else STAGE_BOX
    structure = Structure(
        tuple(group.is_backward for group in groups), tuple(group.twin for group in groups), pairs, *size
    )
    return LevelView(name, boxes, edges, size, layered_layout(structure))


def _box(
    graph: DnnGraph,
    deployment: Deployment,
    placement: Placement | None,
    group: Group,
    index: Mapping[int, int],
    is_whole_title: bool,
) -> BoxView:
    device_of = {} if placement is None else placement.device_of
    tensor_of = {} if placement is None else placement.tensors
    time_of: dict[int, float] = {}
    total = memory = sent_ms = 0.0
    sent_bytes: float | None = 0.0
    for v in group.nodes:
        node = graph.node_by_id[v]
        device = device_of.get(v)
        time_ms = float(node.accelerator_ms if device is None else deployment.node_ms(node, device))
        total += time_ms
        memory += float(node.memory_bytes)
        if device is not None:
            time_of[device] = time_of.get(device, 0.0) + time_ms
        for own in graph.tensors_of[v] if tensor_of else ():
            tensor = tensor_of.get((v, own.name))
            if tensor is not None:
                size = tensor.size_bytes
                sent_bytes = None if sent_bytes is None or size is None else sent_bytes + size
                sent_ms += tensor.send_ms
    # Where no node takes any time, the devices count alike.
    shares = {d: t / total if total > 0 else 1 / len(time_of) for d, t in time_of.items()}
    return BoxView(
        label=printable(group.title if is_whole_title else _label(group)),
        short="",
        title=printable(group.title),
        nodes=tuple(index[v] for v in group.nodes),
        is_backward=group.is_backward,
        count=group.count,
        shares=tuple(sorted(shares.items())),
        time_ms=total,
        memory_bytes=memory,
        sent_ms=None if placement is None else float(sent_ms),
        sent_bytes=None if placement is None or sent_bytes is None else float(sent_bytes),
    )


_Moves = dict[tuple[tuple[int, str], int], None]
"""Tensors by node and name with a device that reads them, in order."""


def _cuts(
    graph: DnnGraph, placement: Placement | None, box_of: Mapping[int, int]
) -> tuple[tuple[EdgeView, ...], dict[int, Seam]]:
    """Return the edges between different boxes, in the order of the graph's edges, and the seams inside boxes."""
    device_of = {} if placement is None else placement.device_of
    tensor_of = {} if placement is None else placement.tensors
    cut: dict[tuple[int, int], _Moves] = {}
    inside: dict[int, _Moves] = {}
    for edge in graph.edges:
        ends = box_of[edge.source], box_of[edge.target]
        is_cut = placement is not None and device_of[edge.source] != device_of[edge.target]
        if ends[0] != ends[1]:
            moves = cut.setdefault(ends, {})
        elif is_cut:
            moves = inside.setdefault(ends[0], {})
        if is_cut:
            moves[(edge.source, edge.tensor), device_of[edge.target]] = None

    def sums(moves: _Moves) -> tuple[float, float, float | None, int]:
        sizes = [tensor_of[key].size_bytes for key, _ in moves]
        return (
            float(sum(tensor_of[key].send_ms for key, _ in moves)),
            float(sum(tensor_of[key].ms_on(d) for key, d in moves)),
            None if None in sizes else float(sum(size or 0.0 for size in sizes)),
            len({key for key, _ in moves}),
        )

    said = {move for moves in inside.values() for move in moves}
    edges: list[EdgeView] = []
    for (source, target), moves in cut.items():
        if moves:
            edges.append(EdgeView(source, target, *sums(moves), shows_cost=any(move not in said for move in moves)))
            said.update(moves)
        else:
            edges.append(EdgeView(source, target, None, None, None, 0, False))
    return tuple(edges), {box: Seam(*sums(moves)) for box, moves in inside.items()}


def _label(group: Group) -> str:
    """Return what is written on a box; that it is backward is seen from its hatching."""
    return telling_end(group.title.removesuffix(" backward") if group.is_backward else group.title)
