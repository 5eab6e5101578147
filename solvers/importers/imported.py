"""What an import gives: a graph with its devices, what was assumed to make it, and totals to compare with others."""

import math
from dataclasses import dataclass

from solvers.hardware.roofline import USUAL
from solvers.importers.cost_model import CostModel
from solvers.importers.folding import folded_by_layers
from solvers.importers.inference import Held, inference_graph
from solvers.importers.network import Network
from solvers.importers.training import training_graph, with_forks
from solvers.importers.workload import STATE_BYTES, Devices, Level, Mode, NumberFormat, Tied, Workload
from solvers.model.deployment import Deployment
from solvers.model.errors import SourceError
from solvers.model.graph import DnnGraph, Node
from solvers.quantities import as_given, bandwidth, count, percent


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a graph, per micro-batch where that matters; None is what a source does not tell.

    parameters          each once, those of copies too
    active_parameters   those that one token meets: fewer where it is routed to some experts
    forward_flops       of matrix products, attention and convolutions, a multiply-add being two
    backward_flops      0 without training
    traffic_bytes       read and written in device memory, forwards and backwards
    weight_bytes        of the parameters as they are stored
    kept_bytes          per micro-batch: activations kept for the backward pass, or the cache of keys and values
    memory_bytes        of all nodes: weights, state of training and what is kept
    working_bytes       inputs and output of the operator with the largest: what runs needs this much beside
    forward_ms          measured
    backward_ms         measured
    """

    parameters: int | None
    active_parameters: int | None
    forward_flops: float | None
    backward_flops: float | None
    traffic_bytes: float | None
    weight_bytes: float
    kept_bytes: float
    memory_bytes: float
    working_bytes: float | None
    forward_ms: float | None = None
    backward_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph brought in from elsewhere, on devices; `assumptions` are sentences on all that was not in the file."""

    source: str
    graph: DnnGraph
    deployment: Deployment
    assumptions: tuple[str, ...]
    totals: Totals

    @property
    def fewest_accelerators(self) -> int:
        """As many accelerators as memory alone calls for; a plan may need more, since nodes are whole."""
        capacity = self.deployment.memory_bytes
        return 1 if not capacity else max(1, math.ceil(self.totals.memory_bytes / capacity))


def imported(
    network: Network,
    workload: Workload,
    devices: Devices,
    source: str,
    assumptions: tuple[str, ...],
    finer: tuple[tuple[str, ...], ...] = (),
) -> Imported:
    """Return the graph of a network for a workload on devices, with what it takes for granted said at the end.

    `finer` are other names of layers for each operator, for `Level.AUTO` to choose among.
    """
    stored = devices.number_format(workload.number_format)
    costs = devices.costs(stored)
    graph, totals = _at_level(network, workload, costs, finer)
    deployment = devices.deployment(totals.memory_bytes)
    said = (*assumptions, *_said(network, workload, devices, stored))
    return Imported(source, graph, deployment, said, totals)


def _at_level(
    network: Network, workload: Workload, costs: CostModel, finer: tuple[tuple[str, ...], ...]
) -> tuple[DnnGraph, Totals]:
    """Return the graph whose nodes are what the workload asks for, and its totals."""
    operators, totals = _operators(network, workload, costs)
    if workload.level is Level.OPERATORS:
        return operators, totals
    if workload.level is Level.LAYERS:
        return folded_by_layers(operators), totals
    if len(operators.nodes) <= workload.nodes:
        return operators, totals
    own = tuple(op.layer for op in network.ops)
    fewest = len(operators.nodes)
    for layers in sorted({*finer, own}, key=lambda layers: (-len(set(layers)), layers)):
        operators, totals = _operators(network.with_layers(layers), workload, costs)
        graph = folded_by_layers(operators)
        if len(graph.nodes) <= workload.nodes:
            return graph, totals
        fewest = min(fewest, len(graph.nodes))
    raise SourceError(
        f"Folded as far as its layers go, this model has {count(fewest)} nodes; give --nodes {fewest} or more."
    )


def _operators(network: Network, workload: Workload, costs: CostModel) -> tuple[DnnGraph, Totals]:
    """Return the graph of operators and its totals."""
    if workload.mode is Mode.TRAINING:
        network = with_forks(network)
        graph = training_graph(network, costs)
    else:
        graph = inference_graph(network, costs, Held.CACHE)
    working_bytes = max(_working_bytes(network, v, costs.element_bytes) for v in range(len(network.ops)))
    return graph, _totals(network, graph, working_bytes)


def _working_bytes(network: Network, v: int, element_bytes: float) -> float:
    op = network.ops[v]
    return element_bytes * (op.input_reads + op.output_elements)


def _totals(network: Network, graph: DnnGraph, working_bytes: float) -> Totals:
    forward = [node for node in graph.nodes if not node.is_backward]
    backward = [node for node in graph.nodes if node.is_backward]

    def total(what: str, nodes: list[Node]) -> float:
        return math.fsum(getattr(node, what) for node in nodes)

    return Totals(
        network.parameters,
        network.active_parameters,
        total("flops", forward),
        total("flops", backward),
        total("traffic_bytes", [*forward, *backward]),
        total("parameter_bytes", forward),
        total("activation_bytes", forward),
        total("memory_bytes", [*forward, *backward]),
        working_bytes,
    )


def _said(network: Network, workload: Workload, devices: Devices, stored: NumberFormat) -> list[str]:
    """Return the assumptions that hold for every network."""
    accelerator, host, link = devices.accelerator, devices.host, devices.link
    arithmetic = devices.arithmetic(stored)
    scales = ", without scales" if stored in (NumberFormat.FP8, NumberFormat.INT4) else ""
    said = [
        "Flops are those of matrix products, attention and convolutions, a multiply-add being two; other operators "
        "cost the bytes they read and write.",
        f"Weights take {as_given(stored.weight_bytes)} bytes each ({stored}{scales}), elements of other tensors "
        f"{as_given(stored.element_bytes)}; products are computed in {arithmetic}.",
        f"Times are those of the roofline on {accelerator.name} and, for CPUs, {host.name}, at "
        f"{percent(USUAL.compute)} of peak FLOP/s and {percent(USUAL.memory)} of memory bandwidth; transfers pass "
        f"{link.name} at {bandwidth(link.bandwidth_bytes_per_ms)}.",
    ]
    if any(op.recomputed_flops for op in network.ops):
        said.append(
            "Attention is one fused kernel that never writes its scores, and counts all pairs, masked ones too."
        )
    if workload.mode is Mode.TRAINING:
        said.append(
            f"Training takes {as_given(STATE_BYTES)} bytes per parameter (weight, gradient, Adam's moments and, in "
            "16 bits, an fp32 copy of the weight), keeps what the backward pass reads and recomputes nothing but "
            "attention scores; the optimizer's step, dropout and the exchange of gradients among replicas are left out."
        )
    else:
        said.append(
            "A node holds its weights and its part of the cache; leave room on each device for the tensors of the "
            "operator that runs."
        )
    tied = network.shared
    if tied:
        names = ", ".join(sorted({network.ops[v].name for v in tied}))
        said.append(
            f"Layers that use one matrix ({names}) share a device and it counts once, which ties the ends of a chain "
            "together; --tied copy gives each its own, as pipelines do."
        )
    elif workload.tied is Tied.COPY:
        said.append("A matrix that several layers use is copied to each, and counts as often.")
    if workload.level is not Level.OPERATORS:
        said.append("A layer's time is the sum of its operators'.")
    return said
