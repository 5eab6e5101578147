"""Fewer, larger boxes for a large graph: its nodes grouped by layer, by repeated layers, by stage, or by device.

Forward and backward nodes never share a group, since a layer's two passes stand at opposite ends of the data flow.
Groups may still feed each other in a circle; their order then follows the graph's own as far as it can, and a
drawing shows the edges against it as such.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import cast

from explorer.layout.neighbours import with_ends, with_neighbours
from explorer.layout.repeats import COST_TOLERANCE, repeated_blocks, satellites, without_numbers
from explorer.server.byte_cache import remembered
from explorer.server.sizes import GROUP_BYTES
from solvers.model.graph import DnnGraph, Node
from solvers.quantities import count

FEW_BOXES = 12
"""So many boxes are seen at a glance; none of them need be joined."""
MOSTLY = 0.75
"""Where at least this share of the nodes has a layer, the others join a neighbour's."""
PARTS = 300
"""Boxes for each pass of a graph that is cut into parts by order alone."""
WORTHWHILE_SHARE = 0.8
"""Joining repeats must leave at most this share of the boxes."""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes drawn as one box; groups with the same `twin` are the two passes of one thing, -1 means no twin.

    `count` says how many alike things in a row the box stands for.
    """

    title: str
    nodes: tuple[int, ...]
    is_backward: bool
    twin: int
    count: int = 1


def single_nodes(graph: DnnGraph) -> tuple[Group, ...]:
    """Return one group per node, in topological order.

    Twins are the heaviest forward and the heaviest backward node of a colocation class: tying all members of a large
    class into one row would tear the graph apart.
    """
    return remembered("nodes", (graph.digest,), lambda: _single_nodes(graph), groups_bytes)


def _single_nodes(graph: DnnGraph) -> tuple[Group, ...]:
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
    """Return one group per layer and pass; None when that would fold nothing.

    Nodes without a layer join a neighbour's where most have one. Where the file names no layers, the blocks that
    `repeated_blocks` finds take their place, constants and unread outputs join the node they belong to, and of much
    that is in no block, what lies before the first and after the last becomes one box each.
    """
    return remembered("layers", (graph.digest,), lambda: _fold_by_layer(graph), groups_bytes)


def _fold_by_layer(graph: DnnGraph) -> tuple[Group, ...] | None:
    layer_of = {node.id: _layer_title(node.layer) for node in graph.nodes if node.layer is not None}
    folds = len({(layer_of[v], graph.node_by_id[v].is_backward) for v in layer_of}) < len(layer_of)
    if not folds:
        # One node per layer says no more than the nodes do.
        layer_of = repeated_blocks(graph) or {}
        core_of = satellites(graph)
        layer_of = {v: title for v, title in layer_of.items() if v not in core_of}
    if not layer_of:
        return None
    core_of = {} if folds else core_of

    def key(v: int) -> Hashable:
        core = core_of.get(v, v)
        return layer_of.get(core, core)

    def rank(known: Mapping[int, str]) -> dict[int, int]:
        """Return where the group of each node stands in the flow."""
        groups = _fold(graph, lambda node: known.get(node.id, node.id), lambda node: "")
        return {v: i for i, group in enumerate(groups) for v in group.nodes}

    if len(layer_of) >= MOSTLY * len(graph.nodes):
        layer_of = with_neighbours(graph, layer_of, rank)
    elif len({key(node.id) for node in graph.nodes} - set(layer_of.values())) > FEW_BOXES:
        spread = {v: layer_of[core] for v, core in core_of.items() if core in layer_of}
        layer_of = with_ends(graph, {**layer_of, **spread}, rank)

    def title(v: int) -> str:
        core = core_of.get(v, v)
        return layer_of.get(core) or graph.node_by_id[core].name or str(core)

    groups = _fold(graph, key=lambda node: key(node.id), title=lambda node: title(node.id))
    return groups if len(groups) < len(graph.nodes) else None


def _layer_title(layer: str) -> str:
    """Name a layer that is a mere number.

    >>> _layer_title("4"), _layer_title("encoder 4")
    ('layer 4', 'encoder 4')
    """
    return f"layer {layer}" if layer.isdigit() else layer


def fold_into_parts(graph: DnnGraph) -> tuple[Group, ...]:
    """Return groups of consecutive nodes in topological order, up to `PARTS` for each pass.

    For graphs that are too large to be drawn node by node and say nothing of layers.
    """
    groups: list[Group] = []
    for is_backward in (False, True):
        order = [v for v in graph.topological_order if graph.node_by_id[v].is_backward == is_backward]
        size = -(-len(order) // PARTS) or 1
        for first in range(0, len(order), size):
            nodes = tuple(order[first : first + size])
            side = "backward nodes" if is_backward else "nodes"
            groups.append(Group(f"{side} {count(first + 1)}–{count(first + len(nodes))}", nodes, is_backward, -1))
    return tuple(groups[i] for i in _flow_order(graph, groups))


def fold_repeats(
    graph: DnnGraph, groups: Sequence[Group], device_of: Mapping[int, int] | None
) -> tuple[Group, ...] | None:
    """Return the groups with alike ones in a row joined into one, with their count; None where that hardly helps.

    Groups are joined when they follow each other in the data, hold the same kinds of nodes at about the same cost, and
    lie on one and the same device, so that a joined box still says where all of it runs. The backward groups of
    joined forward groups are joined alike.
    """
    if len(groups) <= FEW_BOXES:
        return None
    backward_of = {group.twin: i for i, group in enumerate(groups) if group.is_backward and group.twin >= 0}
    feeds = _quotient(graph, groups)

    def shape(i: int) -> tuple[object, ...] | None:
        """Return what must agree; None for a group that stays alone."""
        group = groups[i]
        devices = {None if device_of is None else device_of[v] for v in group.nodes}
        if len(devices) > 1:
            return None
        kinds = Counter(without_numbers(graph.node_by_id[v].name or "") for v in group.nodes)
        return without_numbers(group.title), devices.pop(), tuple(sorted(kinds.items()))

    shapes = [shape(i) for i in range(len(groups))]

    def alike(i: int, j: int) -> bool:
        if shapes[i] is None or shapes[i] != shapes[j]:
            return False
        costs = zip(_costs(graph, groups[i]), _costs(graph, groups[j]), strict=True)
        return all(abs(a - b) <= COST_TOLERANCE * max(a, b) for a, b in costs)

    def goes_on(run: list[int], j: int) -> bool:
        i = run[-1]
        if not alike(run[0], j) or not (j in feeds[i] or i in feeds[j]):
            return False
        twins = backward_of.get(groups[run[0]].twin), backward_of.get(groups[j].twin)
        if groups[j].is_backward or twins == (None, None):
            return True
        return None not in twins and alike(*cast("tuple[int, int]", twins))

    runs: list[list[int]] = []
    for side in (False, True):
        open_run: list[int] = []
        for i, group in enumerate(groups):
            if group.is_backward != side or (side and group.twin >= 0):
                continue
            if open_run and goes_on(open_run, i):
                open_run.append(i)
            else:
                open_run = [i]
                runs.append(open_run)
    runs += [
        sorted(backward_of[groups[i].twin] for i in run)
        for run in list(runs)
        if not groups[run[0]].is_backward and groups[run[0]].twin in backward_of
    ]
    if len(runs) > WORTHWHILE_SHARE * len(groups):
        return None
    joined = [_joined(groups, run) for run in runs]
    return tuple(joined[i] for i in _flow_order(graph, joined))


def _joined(groups: Sequence[Group], run: Sequence[int]) -> Group:
    first, last = (groups[min(run)], groups[max(run)])
    if len(run) == 1:
        return first
    ends = sorted((first.title, last.title), key=lambda t: [int(n) for n in re.findall(r"\d+", t)] or [0])
    numbers = [re.fullmatch(r"(.*?)(\d+)(\D*)", title) for title in ends]
    title = f"{ends[0]} … {ends[1]}"
    if numbers[0] and numbers[1] and numbers[0][1] == numbers[1][1] and numbers[0][3] == numbers[1][3]:
        title = f"{numbers[0][1]}{numbers[0][2]}–{numbers[1][2]}{numbers[0][3]}"
    nodes = tuple(v for i in run for v in groups[i].nodes)
    # The twin of the first member by number: the same for both passes of a run.
    twin = min(groups[i].twin for i in run)
    return Group(title, nodes, first.is_backward, twin, len(run))


def _costs(graph: DnnGraph, group: Group) -> tuple[float, float]:
    nodes = [graph.node_by_id[v] for v in group.nodes]
    return sum(node.accelerator_ms for node in nodes), sum(node.memory_bytes for node in nodes)


def fold_by_stage(graph: DnnGraph, device_of: Mapping[int, int], names: Mapping[int, str]) -> tuple[Group, ...]:
    """Return one group per device and pass of a placed graph, titled by `names` of the devices."""
    return _fold(graph, key=lambda node: device_of[node.id], title=lambda node: names[device_of[node.id]])


def fold_by_piece(
    graph: DnnGraph,
    device_of: Mapping[int, int],
    pieces: Sequence[tuple[int, tuple[int, ...]]],
    names: Mapping[int, str],
) -> tuple[Group, ...]:
    """Return one group per piece, (device, nodes) in an order in which they can run; several of a device are numbered.

    A piece holds nodes of one pass. Where a device has one piece in either pass, the two are twins.
    """
    passes = [graph.node_by_id[nodes[0]].is_backward for _, nodes in pieces]
    total = Counter(zip((d for d, _ in pieces), passes, strict=True))
    seen: Counter[tuple[int, bool]] = Counter()
    groups: list[Group] = []
    for (d, nodes), is_backward in zip(pieces, passes, strict=True):
        seen[d, is_backward] += 1
        number = f", piece {seen[d, is_backward]} of {total[d, is_backward]}" if total[d, is_backward] > 1 else ""
        is_pair = total[d, False] == total[d, True] == 1
        groups.append(Group(f"{names[d]}{number}", nodes, is_backward, d if is_pair else -1))
    return tuple(groups[i] for i in _flow_order(graph, groups))


def fold_by_device(graph: DnnGraph, device_of: Mapping[int, int], names: Mapping[int, str]) -> tuple[Group, ...]:
    """Return one group per device that has nodes, both passes in one, in the order of the data of the forward pass."""
    members: dict[int, list[int]] = {}
    for v in graph.topological_order:
        members.setdefault(device_of[v], []).append(v)
    groups = [Group(names[d], tuple(nodes), False, -1) for d, nodes in members.items()]
    forward = [v for v in graph.topological_order if not graph.node_by_id[v].is_backward]
    return tuple(groups[i] for i in _flow_order(graph, groups, set(forward)))


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


def _quotient(graph: DnnGraph, groups: Sequence[Group], only: AbstractSet[int] | None = None) -> list[set[int]]:
    """Return for each group those that read it; of the edges between nodes in `only`, if given."""
    group_of = {v: i for i, group in enumerate(groups) for v in group.nodes}
    below: list[set[int]] = [set() for _ in groups]
    for edge in graph.edges:
        u, v = group_of[edge.source], group_of[edge.target]
        if u != v and (only is None or (edge.source in only and edge.target in only)):
            below[u].add(v)
    return below


def _flow_order(graph: DnnGraph, groups: Sequence[Group], only: AbstractSet[int] | None = None) -> list[int]:
    """Return the groups so that data flows forwards, against the fewest first-come edges where it is circular."""
    below = _quotient(graph, groups, only)
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


def groups_bytes(groups: Sequence[Group] | None) -> int:
    """Return the size of a folding."""
    return sum(GROUP_BYTES + 8 * len(group.nodes) for group in groups or ())
