"""The neural network to place: a directed acyclic graph of layers or operators.

Node v takes p_v ms on an accelerator and q_v ms on a CPU and occupies m_v bytes. Every node u has ONE transfer
cost c_u (ms): the time to move its output between an accelerator and host memory, paid once however many
readers there are. (Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators",
NeurIPS 2020, section 3.)

Beyond the paper a node may produce several tensors: edges that name a tensor carry that one, all edges of a node
without a name carry one more. Each has its own time, size and readers, and what the paper says of the output of a node
holds of each of them: every sum over nodes u of c_u is one over tensors. `DnnGraph.tensors` lists them.
"""

import hashlib
import heapq
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from solvers.model.errors import GraphError
from solvers.model.micro_batch import MicroBatch
from solvers.quantities import as_given

BYTES_TOLERANCE = 1e-3
"""Relative spread up to which bytes / cost on different tensors count as one bandwidth."""

MAX_ID = 2**53 - 1
"""The largest node id, and minus it the smallest: JSON readers that hold numbers as doubles keep these exactly."""
MAX_TIME_MS = 1e15
MAX_BYTES = 1e18
MAX_FLOPS = 1e24
"""No real node comes near these; a number beyond is a typing error, and sums of such numbers could overflow."""


LARGEST = (
    ("accelerator_ms", MAX_TIME_MS),
    ("cpu_ms", MAX_TIME_MS),
    ("memory_bytes", MAX_BYTES),
    ("transfer_ms", MAX_TIME_MS),
    ("flops", MAX_FLOPS),
    ("parameter_bytes", MAX_BYTES),
    ("activation_bytes", MAX_BYTES),
    ("traffic_bytes", MAX_BYTES),
    ("spread_ms", MAX_TIME_MS),
)
"""The numbers of a node, and how large each may be."""

NamedTimes = tuple[tuple[str, float], ...]
"""Times in ms by name."""


@dataclass(frozen=True, slots=True)
class Node:
    """One layer or operator. Times in ms per micro-batch, sizes in bytes; `transfer_ms` is c_u of the model.

    `layer` names the layer or block the node belongs to, for folding in views; it never affects a solver.
    `flops`, `parameter_bytes`, `activation_bytes` and `traffic_bytes`, which it reads and writes in device memory, are
    None where a file does not know them. `class_ms` has times on classes of accelerators, by name, where they are known
    and not just `accelerator_ms` divided by the class's speed. `spread_ms` is the interquartile range of a measured
    `accelerator_ms`; no solver looks at it. `tensor_ms` has the transfer times of tensors with a name; `transfer_ms` is
    that of the one without.
    """

    id: int
    accelerator_ms: float
    cpu_ms: float
    memory_bytes: float = 0.0
    transfer_ms: float = 0.0
    runs_on_accelerator: bool = True
    is_backward: bool = False
    colocation_class: int | None = None
    name: str = ""
    layer: str | None = None
    flops: float | None = None
    parameter_bytes: float | None = None
    activation_bytes: float | None = None
    class_ms: NamedTimes = field(default=(), repr=False)
    traffic_bytes: float | None = field(default=None, repr=False)
    tensor_ms: NamedTimes = field(default=(), repr=False)
    spread_ms: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not -MAX_ID <= self.id <= MAX_ID:
            raise GraphError(f"{self.label}: the id is out of range; give one from {-MAX_ID} to {MAX_ID}.")
        for name, most in LARGEST:
            value = getattr(self, name)
            # Graphs are made anew for every bandwidth that is tried, and hardly ever is a number not as it should be.
            if value is not None and not (type(value) is float and sys.float_info.min <= value <= most):
                object.__setattr__(self, name, _checked(value, most, self, name))
        if self.class_ms:
            times = {name: _checked(ms, MAX_TIME_MS, self, f"the time on {name}") for name, ms in self.class_ms}
            if len(times) < len(self.class_ms):
                raise GraphError(f"{self.label} has two times on one class of accelerators; keep one.")
            object.__setattr__(self, "class_ms", tuple(sorted(times.items())))
        if self.tensor_ms:
            times = {
                name: _checked(ms, MAX_TIME_MS, self, f"the transfer time of tensor {quoted(name)}")
                for name, ms in self.tensor_ms
            }
            if len(times) < len(self.tensor_ms):
                raise GraphError(f"{self.label} has two transfer times of one tensor; keep one.")
            if "" in times:
                raise GraphError(f"{self.label} has a tensor with an empty name; transfer_ms is that of the unnamed.")
            object.__setattr__(self, "tensor_ms", tuple(sorted(times.items())))

    def time_on(self, class_name: str) -> float | None:
        """Time in ms on a class of accelerators; None where only the class's speed tells it."""
        return next((ms for name, ms in self.class_ms if name == class_name), None)

    @property
    def output_ms(self) -> float:
        """Time in ms to move all its tensors, each once."""
        return self.transfer_ms + sum(ms for _, ms in self.tensor_ms)

    @property
    def label(self) -> str:
        """What a message calls this node: its id, and its name where it has one."""
        name = _one_line(self.name)
        node_id = str(self.id) if -MAX_ID <= self.id <= MAX_ID else "with an id of more than 15 digits"
        return f"node {node_id} ({name})" if name else f"node {node_id}"


@dataclass(frozen=True, slots=True)
class Edge:
    """Node `target` reads a tensor of node `source`; `size_bytes` is None where a file does not say.

    `tensor` is the name of the tensor. All edges of a node without one carry one tensor.
    """

    source: int
    target: int
    size_bytes: float | None = None
    tensor: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.size_bytes is not None:
            object.__setattr__(self, "size_bytes", _checked(self.size_bytes, MAX_BYTES, self, "size_bytes"))

    @property
    def label(self) -> str:
        """What a message calls this edge."""
        of_tensor = f" of tensor {quoted(self.tensor)}" if self.tensor else ""
        return f"edge {self.source} -> {self.target}{of_tensor}"


class Tensor(NamedTuple):
    """What a node `source` produces for its `readers`, in the order of the edges; `name` is empty for the unnamed one.

    `transfer_ms` is what moving it takes at link speed 1, `size_bytes` None where no edge says, or they disagree.
    """

    # A tuple is made faster than a dataclass, and each bandwidth that is tried makes them anew.

    source: int
    name: str
    transfer_ms: float
    size_bytes: float | None
    readers: tuple[int, ...]


def quoted(name: str) -> str:
    """What a message calls a tensor by its name."""
    return f"'{_one_line(name)}'"


def _one_line(name: str) -> str:
    """A name as a message can hold it: printable, and not long."""
    text = "".join(c if c.isprintable() else " " for c in name[:61]).strip()
    return text if len(name) <= 60 else text[:57] + "..."


def _checked(value: float, most: float, owner: Node | Edge, what: str) -> float:
    """Return a number of a node or an edge as a float, one zero and no minus zero: equal ones have one digest.

    Below the smallest normal float digits are lost, and a share of such a number may be the number itself; it is zero.
    """
    if not 0 <= value <= most:
        raise GraphError(f"{owner.label}: {what} is {value}; it must be a number from 0 to {as_given(most)}.")
    return float(value) if value >= sys.float_info.min else 0.0


class TimesKind(StrEnum):
    """How times were found: measured, measured elsewhere and scaled, or computed from flops and bytes.

    "summed" times were computed for each of the operators that a node stands for, and added up: more than its flops and
    bytes together take, so that another device scales them like measured ones.
    """

    MEASURED = "measured"
    SCALED = "scaled"
    ROOFLINE = "roofline"
    SUMMED = "summed"


@dataclass(frozen=True, slots=True)
class TimesOrigin:
    """What the times of a graph are for: an accelerator, a precision and a host CPU, by names of `catalogue`.

    Empty where it is not known; `kind` is how the times on the accelerator were found (`solvers.hardware.roofline`),
    and `measured_on` says for people what they were measured on, which need not be of the catalogue.
    """

    accelerator: str = ""
    precision: str = ""
    host: str = ""
    kind: TimesKind = TimesKind.MEASURED
    measured_on: str = field(default="", repr=False)


@dataclass(frozen=True)
class DnnGraph:
    """A checked directed acyclic graph; raises GraphError when built from parts that do not form one.

    `times` says what its times are for and `micro_batch` what one pass handles, None where a file does not say; no
    solver looks at either.

    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> g.topological_order, g.readers[1]
    ((1, 2), (2,))
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    name: str = ""
    times: TimesOrigin | None = None
    micro_batch: MicroBatch | None = None

    def __post_init__(self) -> None:
        if not self.nodes:
            raise GraphError("The graph has no nodes; give it at least one.")
        seen: set[int] = set()
        for node in self.nodes:
            if node.id in seen:
                raise GraphError(f"{node.label}: its id is used twice; ids must differ.")
            seen.add(node.id)
        named = {(node.id, name) for node in self.nodes for name, _ in node.tensor_ms}
        known: set[tuple[int, int, str]] = set()
        for edge in self.edges:
            for end in (edge.source, edge.target):
                if end not in seen:
                    raise GraphError(f"{edge.label}: there is no node {end}; add the node or remove the edge.")
            key = (edge.source, edge.target, edge.tensor)
            if key in known:
                raise GraphError(f"{edge.label} is listed twice; keep one.")
            known.add(key)
            if edge.tensor and (edge.source, edge.tensor) not in named:
                raise GraphError(
                    f"{edge.label}: {self.node_by_id[edge.source].label} has no tensor of this name; "
                    "give the node a transfer time for it."
                )
        if len(self.topological_order) < len(self.nodes):
            raise GraphError(
                f"The graph has a cycle: {self._some_cycle()}; a network graph must be acyclic, "
                "so remove one of these edges."
            )

    @cached_property
    def node_by_id(self) -> dict[int, Node]:
        """Node of each id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """Ids of the nodes that read a tensor of each node, each once, in the order of the edges."""
        readers: dict[int, list[int]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            readers[edge.source].append(edge.target)
        return {u: _each_once(vs) if self.has_names else tuple(vs) for u, vs in readers.items()}

    @cached_property
    def inputs(self) -> dict[int, tuple[int, ...]]:
        """Ids of the nodes of which each node reads a tensor, each once, in the order of the edges."""
        inputs: dict[int, list[int]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            inputs[edge.target].append(edge.source)
        return {v: _each_once(us) if self.has_names else tuple(us) for v, us in inputs.items()}

    @cached_property
    def has_names(self) -> bool:
        """Whether any edge names its tensor: only then a node may read two tensors of another."""
        return any(edge.tensor for edge in self.edges)

    @cached_property
    def tensors_of(self) -> dict[int, tuple[Tensor, ...]]:
        """The tensors of each node that are read, in the order of the edges."""
        if not self.has_names:
            return {
                u: (Tensor(u, "", self.node_by_id[u].transfer_ms, self.output_bytes[u], readers),) if readers else ()
                for u, readers in self.readers.items()
            }
        edges: dict[int, dict[str, list[Edge]]] = {node.id: {} for node in self.nodes}
        for edge in self.edges:
            edges[edge.source].setdefault(edge.tensor, []).append(edge)
        times = {node.id: {"": node.transfer_ms, **dict(node.tensor_ms)} for node in self.nodes}
        return {
            u: tuple(
                Tensor(u, name, times[u][name], _same_size(own), tuple(edge.target for edge in own))
                for name, own in named.items()
            )
            for u, named in edges.items()
        }

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that are read, in the order of the nodes: what a split may cut."""
        return tuple(tensor for tensors in self.tensors_of.values() for tensor in tensors)

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Ids so that every edge points forwards; among the ready nodes the one listed first comes first."""
        position = {node.id: i for i, node in enumerate(self.nodes)}
        missing = {v: len(us) for v, us in self.inputs.items()}
        ready = [position[v] for v, count in missing.items() if count == 0]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            u = self.nodes[heapq.heappop(ready)].id
            order.append(u)
            for v in self.readers[u]:
                missing[v] -= 1
                if missing[v] == 0:
                    heapq.heappush(ready, position[v])
        return tuple(order)

    @cached_property
    def is_training(self) -> bool:
        """Whether any node belongs to a backward pass."""
        return any(node.is_backward for node in self.nodes)

    @cached_property
    def colocation_members(self) -> dict[int, tuple[int, ...]]:
        """Ids of the members of each colocation class."""
        members: dict[int, list[int]] = {}
        for node in self.nodes:
            if node.colocation_class is not None:
                members.setdefault(node.colocation_class, []).append(node.id)
        return {c: tuple(ids) for c, ids in members.items()}

    @cached_property
    def tensor_of(self) -> dict[tuple[int, str], Tensor]:
        """The tensors that are read, by their node and name."""
        return {(tensor.source, tensor.name): tensor for tensor in self.tensors}

    @cached_property
    def output_bytes(self) -> dict[int, float | None]:
        """Bytes of all tensors of each node, each once; None where no edge says, or those of a tensor disagree."""
        if self.has_names:
            sizes = {u: [tensor.size_bytes for tensor in tensors] for u, tensors in self.tensors_of.items()}
            return {u: sum(filter(None, own)) if own and None not in own else None for u, own in sizes.items()}
        edges: dict[int, list[Edge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            edges[edge.source].append(edge)
        return {u: _same_size(own) for u, own in edges.items()}

    @cached_property
    def bandwidth_bytes_per_ms(self) -> float | None:
        """The one bandwidth that explains every transfer time as bytes / bandwidth; None where there is none.

        None when bytes are missing, differ between the edges of one tensor, or do not fit the times: then
        bandwidth can only be edited as a multiple of the file's own.
        """
        total_bytes = total_ms = 0.0
        ratios: list[float] = []
        for tensor in self.tensors:
            size = tensor.size_bytes
            if size is None or (size > 0) != (tensor.transfer_ms > 0):
                return None
            if size > 0:
                ratios.append(size / tensor.transfer_ms)
                total_bytes += size
                total_ms += tensor.transfer_ms
        if not ratios or math.isinf(max(ratios)) or max(ratios) > min(ratios) * (1 + BYTES_TOLERANCE):
            return None
        return total_bytes / total_ms

    @cached_property
    def digest(self) -> str:
        """A key that is equal for equal graphs: names and order included."""
        # What was added later is no part of a node's text: so graphs without it keep the key they always had.
        class_ms = [node.class_ms for node in self.nodes] if any(node.class_ms for node in self.nodes) else ""
        known = any(node.traffic_bytes is not None for node in self.nodes)
        traffic = [node.traffic_bytes for node in self.nodes] if known else ""
        times = "" if self.times is None else self.times
        measured = "" if self.times is None else self.times.measured_on
        is_spread = any(node.spread_ms is not None for node in self.nodes)
        spread = [node.spread_ms for node in self.nodes] if is_spread else ""
        named = any(node.tensor_ms for node in self.nodes)
        tensors = ([node.tensor_ms for node in self.nodes], [edge.tensor for edge in self.edges]) if named else ""
        held = "" if self.micro_batch is None else self.micro_batch
        text = f"{(self.nodes, self.edges)!r}{class_ms}{traffic}{times}{tensors}{measured}{spread}{held}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def with_bandwidth(self, bytes_per_ms: float) -> "DnnGraph":
        """This graph with every transfer time set to bytes / `bytes_per_ms`; GraphError without usable bytes."""
        if not (math.isfinite(bytes_per_ms) and bytes_per_ms > 0):
            raise GraphError(f"A bandwidth of {bytes_per_ms} bytes/ms is not usable; give a positive number.")
        own = self.bandwidth_bytes_per_ms
        if own is None:
            raise GraphError(
                "This graph has no consistent bytes on its edges, so a bandwidth in GB/s means nothing here; "
                "give a multiple of the file's own bandwidth, such as 2x."
            )
        sizes = {key: tensor.size_bytes or 0.0 for key, tensor in self.tensor_of.items()}
        return self._with_transfers(lambda u, name, _: sizes.get((u, name), 0.0) / bytes_per_ms)

    def with_bandwidth_factor(self, factor: float) -> "DnnGraph":
        """This graph with links `factor` times as fast as the file's own."""
        if not (math.isfinite(factor) and factor > 0):
            raise GraphError(f"A bandwidth multiple of {factor} is not usable; give a positive number.")
        return self._with_transfers(lambda _, __, ms: ms / factor)

    def _with_transfers(self, transfer_ms: Callable[[int, str, float], float]) -> "DnnGraph":
        """This graph with other transfer times, given a node's id, the tensor's name and the time that it has."""
        nodes = [replace(node, transfer_ms=transfer_ms(node.id, "", node.transfer_ms)) for node in self.nodes]
        for i, node in enumerate(nodes):
            if node.tensor_ms:
                times = tuple((name, transfer_ms(node.id, name, ms)) for name, ms in node.tensor_ms)
                nodes[i] = replace(node, tensor_ms=times)
        return self.with_nodes(tuple(nodes))

    def with_nodes(self, nodes: tuple[Node, ...]) -> "DnnGraph":
        """This graph with other times, sizes or names on its nodes."""
        return DnnGraph(nodes, self.edges, self.name, self.times, self.micro_batch)

    def _some_cycle(self) -> str:
        """Write one cycle as '1 -> 2 -> 1'; there is one when the topological order stops short."""
        stuck = {node.id for node in self.nodes} - set(self.topological_order)
        # Every stuck node has a stuck input, so walking inputs must come back to a node already seen.
        v = min(stuck)
        step: dict[int, int] = {}
        while v not in step:
            step[v] = len(step)
            v = next(u for u in self.inputs[v] if u in stuck)
        cycle = [*list(step)[step[v] :], v][::-1]
        if len(cycle) > 8:
            return " -> ".join(map(str, cycle[:6])) + f" -> ... ({len(cycle) - 1} nodes) -> {cycle[0]}"
        return " -> ".join(map(str, cycle))


def _same_size(edges: Iterable[Edge]) -> float | None:
    """Return the bytes on all these edges; None where there are none, or they disagree."""
    sizes = {edge.size_bytes for edge in edges}
    return sizes.pop() if len(sizes) == 1 else None


def _each_once(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ids))
