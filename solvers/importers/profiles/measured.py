"""Turn layers with measured times into the graph of one training step, times as they were measured.

Layer v becomes a forward node and its twin in the backward pass, which share a device, as `solvers.importers.training`
has it. Between them:

* u -> v for what v reads of u. A layer sends one tensor of each size that its readers are given.
* v' -> u' for the gradient of what v reads of u, as many bytes; each input's gradient is a tensor of its own.
* v -> v', which never leaves the device.

An input, which takes no time, reads nothing and has no parameters, has no twin: nothing wants its gradient.

Where a node sends several tensors they have names, `output 1` or `gradient 1` and so on; the twin of a layer reads the
first.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from solvers.hardware.devices import GB, GB_PER_S
from solvers.hardware.roofline import Setup
from solvers.importers.imported import Imported, Totals
from solvers.importers.limits import MAX_PROFILE_EDGES, MAX_PROFILE_NODES
from solvers.importers.workload import Devices, Mode, Workload
from solvers.model.errors import SourceError
from solvers.model.graph import DnnGraph, Edge, Node, TimesKind, TimesOrigin
from solvers.quantities import count, number


@dataclass(frozen=True, slots=True)
class MeasuredLayer:
    """A layer of a profile: times in ms and sizes in bytes, both per micro-batch, but for parameters and state.

    state_bytes         what training holds for its parameters: weights, gradients, state of the optimizer
    activation_bytes    kept of each micro-batch in flight for the backward pass
    """

    name: str
    forward_ms: float
    backward_ms: float
    parameter_bytes: float
    state_bytes: float
    activation_bytes: float

    @property
    def is_idle(self) -> bool:
        """Whether it neither takes time nor has parameters."""
        return self.forward_ms == self.backward_ms == self.parameter_bytes == 0


@dataclass(frozen=True, slots=True)
class Profile:
    """Layers of a profile, and by pairs of their places the bytes that the second one reads of the first."""

    name: str
    layers: Sequence[MeasuredLayer]
    sent_bytes: Mapping[tuple[int, int], float]


def imported_profile(
    profile: Profile,
    workload: Workload,
    devices: Devices,
    source: str,
    assumptions: Sequence[str],
    bandwidth_bytes_per_ms: float | None = None,
) -> Imported:
    """Return the graph of a profile on devices; `bandwidth_bytes_per_ms` is used where no link was asked for."""
    if workload.mode is Mode.DECODE:
        raise SourceError("A profile is of training steps, so it has no --mode decode; leave --mode out.")
    if len(profile.layers) > MAX_PROFILE_NODES or len(profile.sent_bytes) > MAX_PROFILE_EDGES:
        raise SourceError(
            f"The profile has {count(len(profile.layers))} nodes and {count(len(profile.sent_bytes))} edges; up to "
            f"{count(MAX_PROFILE_NODES)} and {count(MAX_PROFILE_EDGES)} are imported."
        )
    own_link = bandwidth_bytes_per_ms if devices.is_usual_link else None
    bytes_per_ms = own_link or devices.link.bandwidth_bytes_per_ms
    accelerator = Setup(devices.accelerator, devices.accelerator.usual_precision)
    host = Setup(devices.host, devices.host.usual_precision)
    slower = accelerator.flops_per_ms / host.flops_per_ms
    graph = training_graph(profile, bytes_per_ms, slower)
    link = "the file's own link" if own_link else devices.link.name
    said = [
        *assumptions,
        "Times are those of the file, measured on a device that it does not name; --device gives the memory of "
        f"one accelerator, {number(devices.accelerator.memory_bytes / GB)} GB of {devices.accelerator.name}, and "
        "changes no time.",
        f"Transfers pass {link} at {number(bytes_per_ms / GB_PER_S)} GB/s; --link gives another.",
        "The graph is of the training step that was measured, whatever else is asked for: forward and backward pass "
        "of a layer share a device, and a gradient takes as many bytes as what it is the gradient of.",
        "The optimizer's step and the exchange of gradients among replicas are left out.",
    ]
    if devices.num_cpus:
        said.append(
            f"The file has no times on CPUs; on {host.processor.name} everything is taken to take {number(slower)} "
            f"times as long, the ratio of the peaks of {accelerator.processor.name} and it."
        )
    totals = _totals(profile, graph)
    return Imported(source, graph, devices.deployment(totals.memory_bytes), tuple(said), totals)


def _totals(profile: Profile, graph: DnnGraph) -> Totals:
    return Totals(
        parameters=None,
        active_parameters=None,
        forward_flops=None,
        backward_flops=None,
        traffic_bytes=None,
        weight_bytes=math.fsum(layer.parameter_bytes for layer in profile.layers),
        kept_bytes=math.fsum(layer.activation_bytes for layer in profile.layers),
        memory_bytes=math.fsum(node.memory_bytes for node in graph.nodes),
        working_bytes=None,
        forward_ms=math.fsum(layer.forward_ms for layer in profile.layers),
        backward_ms=math.fsum(layer.backward_ms for layer in profile.layers),
    )


def training_graph(profile: Profile, bytes_per_ms: float, slower: float) -> DnnGraph:
    """Return forward and backward pass of a profile; a CPU takes `slower` times as long.

    >>> layers = (MeasuredLayer("a", 1.0, 2.0, 8.0, 32.0, 4.0), MeasuredLayer("b", 3.0, 4.0, 0.0, 0.0, 0.0))
    >>> graph = training_graph(Profile("two", layers, {(0, 1): 6.0}), bytes_per_ms=2.0, slower=10.0)
    >>> [(node.name, node.accelerator_ms, node.transfer_ms) for node in graph.nodes]
    [('a', 1.0, 3.0), ('b', 3.0, 0.0), ('b backward', 4.0, 3.0), ('a backward', 2.0, 0.0)]
    """
    num_layers = len(profile.layers)
    sends: list[dict[float, list[int]]] = [{} for _ in profile.layers]  # of each layer: readers by bytes
    inputs: list[list[int]] = [[] for _ in profile.layers]
    for (u, v), size_bytes in profile.sent_bytes.items():
        sends[u].setdefault(size_bytes, []).append(v)
        inputs[v].append(u)
    nodes: list[Node] = []
    edges: list[Edge] = []

    def add(v: int, tensors: list[tuple[float, list[int]]], *, is_backward: bool) -> None:
        """Add a node of layer v that sends these tensors to their readers."""
        node_id = 2 * num_layers - 1 - v if is_backward else v
        what = "gradient" if is_backward else "output"
        names = [f"{what} {i + 1}" if len(tensors) > 1 else "" for i in range(len(tensors))]
        transfer_ms = {name: size_bytes / bytes_per_ms for name, (size_bytes, _) in zip(names, tensors, strict=True)}
        nodes.append(_node(profile.layers[v], v, node_id, is_backward, transfer_ms, slower))
        for name, (size_bytes, readers) in zip(names, tensors, strict=True):
            edges.extend(Edge(node_id, reader, size_bytes, name) for reader in readers)

    has_twin = [bool(inputs[v]) or not layer.is_idle for v, layer in enumerate(profile.layers)]
    for v in range(num_layers):
        tensors = list(sends[v].items()) or [(0.0, [])]
        if has_twin[v]:
            tensors[0][1].append(2 * num_layers - 1 - v)
        add(v, tensors, is_backward=False)
    for v in filter(has_twin.__getitem__, reversed(range(num_layers))):
        gradients = [(profile.sent_bytes[u, v], [2 * num_layers - 1 - u]) for u in inputs[v] if has_twin[u]]
        add(v, gradients or [(0.0, [])], is_backward=True)
    return DnnGraph(tuple(nodes), tuple(edges), profile.name, TimesOrigin(kind=TimesKind.MEASURED))


def _node(
    layer: MeasuredLayer, v: int, node_id: int, is_backward: bool, transfer_ms: Mapping[str, float], slower: float
) -> Node:
    """Return the forward or the backward node of layer v, with the times of its tensors by their names."""
    ms = layer.backward_ms if is_backward else layer.forward_ms
    return Node(
        id=node_id,
        accelerator_ms=ms,
        cpu_ms=ms * slower,
        memory_bytes=0.0 if is_backward else layer.state_bytes + layer.activation_bytes,
        transfer_ms=transfer_ms.get("", 0.0),
        is_backward=is_backward,
        colocation_class=v,
        name=f"{layer.name} backward" if is_backward else layer.name,
        layer=layer.name,
        parameter_bytes=0.0 if is_backward else layer.parameter_bytes,
        activation_bytes=0.0 if is_backward else layer.activation_bytes,
        tensor_ms=tuple((name, ms) for name, ms in transfer_ms.items() if name),
    )
