"""Small graphs as figures: boxes in layers from left to right, in the colours of their devices."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from explorer.lessons.scene import Mark, Narrow, Scene
from explorer.picture.palette import device_colour
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Node
from solvers.model.split import Split
from solvers.quantities import number

BOX_W, BOX_H = 74.0, 44.0
GAP_X, GAP_Y = 42.0, 18.0
"""Four layers in a row fit a phone."""
MOST_IN_A_ROW = 4
GAP_DOWN = 34.0
"""Between layers that stand below each other."""
MARGIN = 12.0


Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Spacing:
    """Extents of the boxes of a graph, and of the gaps between layers and between the boxes of one."""

    box_w: float = BOX_W
    box_h: float = BOX_H
    gap_x: float = GAP_X
    gap_y: float = GAP_Y


USUAL = Spacing()
TIGHT = Spacing(54.0, 40.0, 20.0, 12.0)
"""For names and times of few letters, where two graphs stand beside each other."""


def layers(graph: DnnGraph) -> list[list[int]]:
    """Return the nodes by the length of the longest path to them, each layer in the order of its inputs."""
    depth: dict[int, int] = {}
    for v in graph.topological_order:
        depth[v] = 1 + max((depth[u] for u in graph.inputs[v]), default=-1)
    rows: list[list[int]] = [[] for _ in range(max(depth.values()) + 1)]
    place: dict[int, float] = {}
    for v in graph.topological_order:
        rows[depth[v]].append(v)
    for row in rows:
        wanted = {v: [place[u] for u in graph.inputs[v]] for v in row}
        row.sort(key=lambda v: sum(wanted[v]) / len(wanted[v]) if wanted[v] else 0.0)
        place.update({v: i - (len(row) - 1) / 2 for i, v in enumerate(row)})
    return rows


def positions(graph: DnnGraph, spacing: Spacing = USUAL) -> tuple[dict[int, Point], float, float]:
    """Return the corner of each node's box, and the width and height of the drawing."""
    w, h, across, down = spacing.box_w, spacing.box_h, spacing.gap_x, spacing.gap_y
    rows = layers(graph)
    tall = max(map(len, rows))
    height = tall * h + (tall - 1) * down
    at: dict[int, Point] = {}
    for i, row in enumerate(rows):
        top = MARGIN + (height - len(row) * h - (len(row) - 1) * down) / 2
        for j, v in enumerate(row):
            at[v] = MARGIN + i * (w + across), top + j * (h + down)
    return at, 2 * MARGIN + len(rows) * w + (len(rows) - 1) * across, 2 * MARGIN + height


def fold_of(graph: DnnGraph, spacing: Spacing = USUAL) -> Point | None:
    """Return where a drawing of a graph is folded on a phone: a chain that is too long for it, in its middle."""
    rows = layers(graph)
    is_chain = max(map(len, rows)) == 1 and len(graph.edges) == len(rows) - 1
    if not is_chain or len(rows) <= MOST_IN_A_ROW:
        return None
    _, _, height = positions(graph, spacing)
    # As far before a box as the row above begins before its first; the arrow to it and its time stay above.
    return len(rows) // 2 * (spacing.box_w + spacing.gap_x), height


def way_between(
    source: Point, target: Point, boxes: Collection[Point], wide: float = BOX_W, high: float = BOX_H
) -> tuple[Point, Point, Point]:
    """Return where the arrow between two boxes begins, is bent towards, and ends; boxes are given by their middles.

    An arrow to a box further along the same row goes over the boxes between them, the farther the higher. Any other is
    bent as little as keeps it clear of them. `wide` and `high` are the extents of all boxes.
    """
    (x, y), (x2, y2) = source, target
    between = [(a, b) for a, b in boxes if x < a < x2]
    if abs(y - y2) < 1 and any(abs(b - y) < high for _, b in between):
        above = y - high / 2
        return (x, above), ((x + x2) / 2, above - 20 - 0.09 * (x2 - x)), (x2, above)
    begin, end = (x + wide / 2, y), (x2 - wide / 2, y2)
    cx, straight = (begin[0] + end[0]) / 2, (y + y2) / 2

    def is_free(cy: float) -> bool:
        for t in (i / 40 for i in range(1, 40)):
            near, mid, far = (1 - t) ** 2, 2 * t * (1 - t), t**2
            px, py = near * begin[0] + mid * cx + far * end[0], near * y + mid * cy + far * y2
            if any(abs(px - a) < wide / 2 + 3 and abs(py - b) < high / 2 + 5 for a, b in between):
                return False
        return True

    bends = sorted((sign * 6.0 * i for i in range(40) for sign in (-1, 1)), key=abs)
    return begin, (cx, next((straight + bend for bend in bends if is_free(straight + bend)), straight)), end


def node_name(node: Node) -> str:
    """Return what a figure calls a node: its name if that is short, or its number."""
    return node.name if 0 < len(node.name) <= 11 else str(node.id)


def graph_marks(
    graph: DnnGraph,
    deployment: Deployment,
    device_of: Mapping[int, int] | None = None,
    *,
    top: float = 0.0,
    prefix: str = "n",
    transfers: bool = True,
    spacing: Spacing = USUAL,
) -> tuple[list[Mark], float, float]:
    """Return the marks of a graph (nodes are called by `prefix` and their number) and its width and height.

    Boxes carry their names and times; edges carry the time to move their tensor, where that is not 0.
    """
    at, width, height = positions(graph, spacing)
    node_of = graph.node_by_id
    marks: list[Mark] = []
    wide, high = spacing.box_w, spacing.box_h
    middle: dict[int, Point] = {v: (x + wide / 2, y + high / 2) for v, (x, y) in at.items()}
    ways = {
        (edge.source, edge.target): way_between(middle[edge.source], middle[edge.target], middle.values(), wide, high)
        for edge in graph.edges
    }
    # What is bent above the boxes, or below, needs its room there.
    peaks = [(way[0][1] + 2 * way[1][1] + way[2][1]) / 4 for way in ways.values()]
    over = max([0.0, *(4.0 - y for y in peaks)])
    height = max([height, *(y + 4.0 for y in peaks)])
    top += over
    for (u, v), ((x, y), (cx, cy), (x2, y2)) in ways.items():
        marks.append(Mark(f"{prefix}e{u}_{v}", "arrow", x, y + top, x2=x2, y2=y2 + top, cx=cx, cy=cy + top))
    for u, (x, y) in middle.items():
        ms, readers = node_of[u].transfer_ms, [edge.target for edge in graph.edges if edge.source == u]
        if not (transfers and ms and readers):
            continue
        # At the arrow to the nearest reader: above it where it is level, on its middle where it is not.
        x2, y2 = min((middle[v] for v in readers), key=lambda at: (at[0], abs(at[1] - y)))
        is_next = x2 - x < wide + spacing.gap_x + 1
        x_text = x + wide / 2 + spacing.gap_x / 2
        y_text, rise = ((y + y2) / 2, 13 if abs(y2 - y) < 1 else 0) if is_next else (y, 13)
        w = spacing.gap_x - 6
        marks.append(
            Mark(
                f"{prefix}t{u}",
                "text",
                x_text - w / 2,
                y_text - 7 - rise + top,
                w,
                14,
                text=number(ms),
                look="quiet",
                size=11,
            )
        )
    for v, (x, y) in at.items():
        device = None if device_of is None else device_of.get(v)
        look = colours(device, deployment)
        marks.append(
            Mark(
                f"{prefix}{v}",
                "box",
                x,
                y + top,
                wide,
                high,
                text=node_name(node_of[v]),
                sub=f"{number(node_of[v].accelerator_ms)} ms",
                fill=look["fill"],
                ink=look["ink"],
                tip=node_tip(graph, v, device, deployment),
            )
        )
    return marks, width, top + height


def graph_scene(graph: DnnGraph, deployment: Deployment, split: Split | None = None) -> Scene:
    """Return a graph in the colours of its devices, as a figure."""
    device_of = None if split is None else split.on(deployment).device_of()
    marks, width, height = graph_marks(graph, deployment, device_of)
    alt = "; ".join(mark.tip for mark in marks if mark.tip)
    narrow = narrow_graph(graph, deployment, device_of)
    return Scene(width, height, tuple(marks), alt, fold=fold_of(graph), narrow=narrow)


def narrow_graph(graph: DnnGraph, deployment: Deployment, device_of: Mapping[int, int] | None) -> Narrow | None:
    """Return a graph with its layers from top to bottom; None for a chain, which is folded, and a short graph."""
    rows = layers(graph)
    if len(rows) <= MOST_IN_A_ROW or fold_of(graph) is not None:
        return None
    drawn, _, _ = graph_marks(graph, deployment, device_of)
    flat = {mark.id: mark for mark in drawn}
    most = max(map(len, rows))
    wide = 2 * MARGIN + most * BOX_W + (most - 1) * GAP_X
    middle: dict[int, Point] = {}
    for i, row in enumerate(rows):
        left = (wide - len(row) * BOX_W - (len(row) - 1) * GAP_X) / 2
        for j, v in enumerate(row):
            middle[v] = left + j * (BOX_W + GAP_X) + BOX_W / 2, MARGIN + i * (BOX_H + GAP_DOWN) + BOX_H / 2
    turned = [(y, x) for x, y in middle.values()]
    marks: list[Mark] = []
    for edge in graph.edges:
        (x, y), (x2, y2) = middle[edge.source], middle[edge.target]
        way = way_between((y, x), (y2, x2), turned, BOX_H, BOX_W)
        (y, x), (cy, cx), (y2, x2) = way
        name = f"ne{edge.source}_{edge.target}"
        marks.append(replace(flat[name], x=x, y=y, cx=cx, cy=cy, x2=x2, y2=y2))
    for u, (x, y) in middle.items():
        if time := flat.get(f"nt{u}"):
            x2, y2 = min(
                (middle[e.target] for e in graph.edges if e.source == u), key=lambda at: (at[1], abs(at[0] - x))
            )
            is_next = y2 - y < BOX_H + GAP_DOWN + 1
            across = (x + x2) / 2 if is_next else x
            beside = 16 if abs(x2 - x) < 1 or not is_next else 0
            y_text = y + BOX_H / 2 + GAP_DOWN / 2 - time.h / 2
            marks.append(replace(time, x=across - time.w / 2 + beside, y=y_text))
    marks += [replace(flat[f"n{v}"], x=x - BOX_W / 2, y=y - BOX_H / 2) for v, (x, y) in middle.items()]
    # What is bent around the boxes needs its room at the left, or at the right.
    peaks = [(mark.x + 2 * (mark.cx or 0.0) + mark.x2) / 4 for mark in marks if mark.shape == "arrow"]
    over = max([0.0, *(4.0 - x for x in peaks)])
    moved = tuple(
        replace(mark, x=mark.x + over, x2=mark.x2 + over, cx=None if mark.cx is None else mark.cx + over)
        for mark in marks
    )
    end = 2 * MARGIN + len(rows) * BOX_H + (len(rows) - 1) * GAP_DOWN
    return Narrow(max([wide, *(x + 4.0 for x in peaks)]) + over, end, moved)


def colours(device: int | None, deployment: Deployment) -> dict[str, str | None]:
    """Return fill and ink of what stands on a device; neither where it stands on none."""
    if device is None:
        return {"fill": None, "ink": None}
    forward = device_colour(device, deployment).forward
    return {"fill": forward.fill, "ink": forward.text}


def node_tip(graph: DnnGraph, v: int, device: int | None, deployment: Deployment) -> str:
    """Return in words what a node is and where it stands."""
    node = graph.node_by_id[v]
    where = "on no device" if device is None else f"on {deployment.device_name(device)}"
    return f"{node_name(node)}, {number(node.accelerator_ms)} ms, output {number(node.transfer_ms)} ms, {where}"


def set_text(members: Sequence[int] | frozenset[int]) -> str:
    """Write a set of node numbers, runs of them short.

    >>> set_text({1, 2, 3, 5}), set_text(frozenset())
    ('{1–3, 5}', '∅')
    """
    if not members:
        return "∅"
    runs: list[list[int]] = []
    for v in sorted(members):
        if runs and v == runs[-1][-1] + 1:
            runs[-1].append(v)
        else:
            runs.append([v])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}{'–' if len(run) > 2 else ', '}{run[-1]}" for run in runs]
    return "{" + ", ".join(parts) + "}"


def chain_device_of(order: Sequence[int], cuts: Sequence[int]) -> dict[int, int]:
    """Return the device of each node of a chain that is cut after these places, from 1.

    >>> chain_device_of((7, 8, 9), (2,))
    {7: 0, 8: 0, 9: 1}
    """
    ends = [0, *sorted(cuts), len(order)]
    return {order[i]: d for d, (begin, end) in enumerate(pairwise(ends)) for i in range(begin, end)}
