"""Two splits of one graph side by side: which nodes moved, what changed on each device, and why one is better.

Accelerators of a kind are alike, and so are CPUs, so two splits that differ in the numbers of such devices only are the
same plan. The devices of the second split are therefore matched with those of the first, each with one of its own kind,
so that as few nodes as possible count as moved: an assignment of maximum overlap (networkx's maximum-weight matching,
exact on whole numbers). Among such assignments those that keep device numbers win; devices without any overlap are
matched in the order of their numbers. Accelerators whose class only one side has may stand for each other, so that a
plan on other hardware can be compared with this one stage by stage.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx

from solvers.analysis.load_parts import LoadParts, backward_parts, forward_parts, load_parts
from solvers.model.costs import Objective, SplitCosts, objective_value, split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import SplitError
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.problem.accelerator_kinds import accelerator_kinds


@dataclass(frozen=True, slots=True)
class Placed:
    """One side of a comparison: a complete split of a graph over devices; `graph` carries its own transfer times."""

    graph: DnnGraph
    deployment: Deployment
    split: Split


@dataclass(frozen=True, slots=True)
class MovedNode:
    """A node that runs on device `first` of the first split and `second` of the second, which do not match."""

    node: int
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class DeviceChange:
    """A device of the first split beside its match in the second; None where it has none.

    `first_parts` and `second_parts` are the times that add up to their loads, zero where there is no device;
    `change` is second minus first. Memory is in bytes.
    """

    first: int | None
    second: int | None
    num_nodes_first: int
    num_nodes_second: int
    num_arrived: int
    num_left: int
    first_parts: LoadParts
    second_parts: LoadParts
    first_memory_bytes: float
    second_memory_bytes: float

    @property
    def change(self) -> LoadParts:
        """Second minus first, part by part."""
        return self.second_parts - self.first_parts

    @property
    def memory_change_bytes(self) -> float:
        """Second minus first."""
        return self.second_memory_bytes - self.first_memory_bytes


TensorKey = tuple[int, str]
"""A tensor: the id of the node that produces it, and its name, empty where it has none."""


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """What differs between two splits; all changes are second minus first, times in ms per sample.

    `moved` is sorted by the matched devices, then by the order of the network. `devices` has every device of both
    splits once. `first_limit` and `second_limit` are what the values consist of: the loads of the devices that set the
    pace (for the GPipe time the slowest forward and the slowest backward pass together; None for latency, which no
    one device sets). `only_in_first` and `only_in_second` are the tensors that are cut in one only, by node
    and name.
    """

    objective: Objective
    first_value_ms: float | None
    second_value_ms: float | None
    first_limit: LoadParts | None
    second_limit: LoadParts | None
    moved: tuple[MovedNode, ...]
    devices: tuple[DeviceChange, ...]
    num_cut_first: int
    num_cut_second: int
    only_in_first: tuple[TensorKey, ...]
    only_in_second: tuple[TensorKey, ...]

    @property
    def is_same_plan(self) -> bool:
        """Whether the two differ in the numbers of their devices at most."""
        return not self.moved

    @property
    def change_ms(self) -> float | None:
        """Value of the second minus that of the first; None where either is not defined."""
        if self.first_value_ms is None or self.second_value_ms is None:
            return None
        return self.second_value_ms - self.first_value_ms


def plan_diff(first: Placed, second: Placed, objective: Objective = Objective.THROUGHPUT) -> PlanDiff:
    """Return what differs between two splits of the same nodes, each judged on its own links and devices.

    Raises SplitError where the two are about different nodes.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> one, two = frozenset({1}), frozenset({2})
    >>> sides = [Placed(g, Deployment(2), split) for split in (Split((one, two)), Split((two, one)))]
    >>> plan_diff(*sides).moved
    ()
    """
    if first.graph.node_by_id.keys() != second.graph.node_by_id.keys():
        raise SplitError("The two plans are about different graphs; node by node they cannot be compared.")
    costs = [split_costs(side.graph, side.deployment, side.split) for side in (first, second)]
    splits = [side.split.on(side.deployment) for side in (first, second)]
    pairs = match_devices(first, second)
    partner = dict(pair for pair in pairs if pair[0] is not None)
    homes = [split.device_of() for split in splits]
    moved = [
        MovedNode(v, homes[0][v], homes[1][v])
        for v in first.graph.topological_order
        if partner.get(homes[0][v]) != homes[1][v]
    ]
    cut = [{tensor.key for tensor in cost.cut_tensors} for cost in costs]
    limits = [_limit(cost, objective) for cost in costs]
    return PlanDiff(
        objective=objective,
        first_value_ms=objective_value(first.graph, first.deployment, first.split, objective),
        second_value_ms=objective_value(second.graph, second.deployment, second.split, objective),
        first_limit=limits[0],
        second_limit=limits[1],
        moved=tuple(sorted(moved, key=lambda move: (move.first, move.second))),  # stable: network order stays within
        devices=tuple(_device_change(pair, splits, costs) for pair in pairs),
        num_cut_first=len(cut[0]),
        num_cut_second=len(cut[1]),
        only_in_first=_keys(costs[0], cut[0] - cut[1]),
        only_in_second=_keys(costs[1], cut[1] - cut[0]),
    )


def match_devices(first: Placed, second: Placed) -> tuple[tuple[int | None, int | None], ...]:
    """Return each device of either side once, beside its match; None where the other has no device left of its kind.

    In the order of the first side's devices, then those of the second that have no match.
    """
    split, other_split = (side.split.on(side.deployment) for side in (first, second))
    alike = [_first_class_alike(side) for side in (first, second)]
    numbered = _numbered_by_kind(first, split, alike)
    other_numbered = _numbered_by_kind(second, other_split, alike)
    home = other_split.device_of()
    overlap = Counter((d, home[v]) for d, members in enumerate(split.devices) for v in members)
    matching: nx.Graph[tuple[str, int]] = nx.Graph()
    scale = 1 + min(len(numbered), len(other_numbered))
    for (d, e), count in overlap.items():
        if numbered[d][0] == other_numbered[e][0]:
            keeps_number = numbered[d] == other_numbered[e]
            matching.add_edge(("first", d), ("second", e), weight=scale * count + keeps_number)
    partner: dict[int, int] = {}
    for one, other in nx.max_weight_matching(matching):
        (_, d), (_, e) = sorted((one, other))
        partner[d] = e
    free = [e for e in range(len(other_numbered)) if e not in set(partner.values())]
    for keeps_number in (True, False):
        for d, (kind, number) in enumerate(numbered):
            if d in partner:
                continue
            fitting = [
                e for e in free if other_numbered[e][0] == kind and (not keeps_number or other_numbered[e][1] == number)
            ]
            if fitting:
                partner[d] = fitting[0]
                free.remove(fitting[0])
    return (*((d, partner.get(d)) for d in range(len(numbered))), *((None, e) for e in free))


Kind = tuple[str, ...]
"""What two devices that may match have in common: their class, as it is told apart on either side, or CPU."""


def _numbered_by_kind(side: Placed, split: Split, alike: Sequence[dict[str, str]]) -> list[tuple[Kind, int]]:
    """Return the kind of each device of a split of a side, and its number among its kind.

    `alike` is what `_first_class_alike` says of both sides. Classes that only one of them has are of one kind.
    """
    counts: Counter[Kind] = Counter()
    numbered = []
    for d in range(len(split.devices)):
        kind: Kind = ("cpu",) if split.is_cpu(d) else ()
        one = None if split.is_cpu(d) else side.deployment.class_of(d)
        if one is not None and all(one.name in known for known in alike):
            kind = tuple(known[one.name] for known in alike)
        numbered.append((kind, counts[kind]))
        counts[kind] += 1
    return numbered


def _first_class_alike(side: Placed) -> dict[str, str]:
    """Return for each class that has accelerators the first one that is alike, by name; nothing without classes."""
    found: dict[str, str] = {}
    for kind in accelerator_kinds(side.graph, side.deployment):
        for d in kind.devices:
            one = side.deployment.class_of(d)
            if one is not None and kind.device_class is not None:
                found[one.name] = kind.device_class.name
    return found


def _device_change(
    pair: tuple[int | None, int | None], splits: Sequence[Split], costs: Sequence[SplitCosts]
) -> DeviceChange:
    members: list[frozenset[int]] = []
    parts: list[LoadParts] = []
    memory: list[float] = []
    for d, split, cost in zip(pair, splits, costs, strict=True):
        members.append(frozenset() if d is None else split.devices[d])
        parts.append(LoadParts(-1, 0.0, 0.0, 0.0, 0.0) if d is None else load_parts(cost.devices[d]))
        memory.append(0.0 if d is None else cost.devices[d].memory_bytes)
    return DeviceChange(
        first=pair[0],
        second=pair[1],
        num_nodes_first=len(members[0]),
        num_nodes_second=len(members[1]),
        num_arrived=len(members[1] - members[0]),
        num_left=len(members[0] - members[1]),
        first_parts=parts[0],
        second_parts=parts[1],
        first_memory_bytes=memory[0],
        second_memory_bytes=memory[1],
    )


def _limit(costs: SplitCosts, objective: Objective) -> LoadParts | None:
    if objective is Objective.LATENCY or not costs.devices:
        return None
    if objective is Objective.GPIPE:
        return max(map(forward_parts, costs.devices), key=lambda parts: parts.load_ms) + max(
            map(backward_parts, costs.devices), key=lambda parts: parts.load_ms
        )
    return load_parts(costs.devices[costs.bottleneck])


def _keys(costs: SplitCosts, wanted: set[TensorKey]) -> tuple[TensorKey, ...]:
    """Cut tensors by node and name, most expensive first."""
    return tuple(tensor.key for tensor in costs.cut_tensors if tensor.key in wanted)
