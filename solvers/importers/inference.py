"""Turn a network into the graph of its forward pass."""

from enum import StrEnum

from solvers.importers.cost_model import CostModel, time_ms
from solvers.importers.network import Network, Op
from solvers.model.graph import DnnGraph, Edge, Node


class Held(StrEnum):
    """What a node of an inference graph holds beside its weights: its output, or only what outlives the run."""

    OUTPUT = "output"
    CACHE = "cache"


def inference_graph(network: Network, costs: CostModel, held: Held = Held.OUTPUT) -> DnnGraph:
    """Return the forward graph; operators that share weights share a colocation class.

    A node's memory is its weights and, once per micro-batch, what `held` says. Buffers that live while an operator
    runs are no part of it with `Held.CACHE`, and more than there ever are at once with `Held.OUTPUT`.
    """
    nodes = tuple(
        forward_node(
            network,
            v,
            costs,
            state_bytes=float(op.parameters * costs.bytes_of_weight(op) + op.buffer_elements * costs.element_bytes),
            activation_bytes=float(
                costs.element_bytes * (op.output_elements if held is Held.OUTPUT else op.cache_elements)
            ),
        )
        for v, op in enumerate(network.ops)
    )
    edges = tuple(
        Edge(u, v, float(elements * costs.element_bytes), name)
        for v, op in enumerate(network.ops)
        for u in dict.fromkeys(op.inputs)
        for name, elements in network.tensors_read(v, u)
    )
    return DnnGraph(nodes, edges, network.name, costs.times, network.held)


def forward_traffic_bytes(op: Op, costs: CostModel) -> float:
    """Return the bytes the forward pass of an operator reads and writes: inputs, weights, internals, cache, output."""
    written = 0 if op.is_view else op.output_elements
    elements = op.input_reads + op.cache_reads + 2 * op.internal_elements + written
    return float(elements * costs.element_bytes + op.weight_reads * costs.bytes_of_weight(op))


def forward_node(
    network: Network,
    v: int,
    costs: CostModel,
    *,
    state_bytes: float,
    activation_bytes: float,
    is_training: bool = False,
) -> Node:
    """Return the graph node of operator v; `state_bytes` is what its parameters occupy.

    memory_bytes = state_bytes + activation_bytes, always: a schedule multiplies the second by the number of
    micro-batches in flight.
    """
    op = network.ops[v]
    traffic_bytes = forward_traffic_bytes(op, costs)
    own = v if is_training and op.keeps_output else None
    sent = {
        name: costs.transfer_ms(float(elements * costs.element_bytes))
        for reader in dict.fromkeys((*network.readers[v], *(() if own is None else (own,))))
        for name, elements in network.tensors_read(reader, v)
    }
    is_colocated = (is_training and op.has_backward) or op.tied_to is not None or v in network.shared
    return Node(
        id=v,
        accelerator_ms=time_ms(costs.accelerator, op.flops, traffic_bytes),
        cpu_ms=time_ms(costs.host, op.flops, traffic_bytes),
        memory_bytes=state_bytes + activation_bytes,
        transfer_ms=sent.get("", 0.0),
        colocation_class=network.owner(v) if is_colocated else None,
        name=op.name,
        layer=op.layer,
        flops=op.flops,
        parameter_bytes=op.parameters * costs.bytes_of_weight(op),
        activation_bytes=activation_bytes,
        traffic_bytes=traffic_bytes,
        tensor_ms=tuple((name, ms) for name, ms in sent.items() if name),
    )
