"""Turn a network into the graph of one training step: every operator gets a backward twin.

For operator v with twin v':

* v and v' share a colocation class, for v' reads and updates what v keeps; nothing else is colocated.
* v' -> u' for every input u of v that has a twin: the gradient of u's output. An output has one transfer cost, so
  its size is that of all the gradients v' sends, or of one for an operator that passes its gradient on unchanged.
* u -> v' for what v' needs of the forward pass: the inputs of v, the output of v, both or neither. A copy that v
  already received serves v' too, so such an edge is free unless it is the only one to its device.
* flops of v' are twice those of v for a matrix product or convolution (one product for the gradient of each
  operand), once those of v otherwise, and once where no input needs a gradient: then only the weights do. Summing
  the gradients that several readers send back is added; passing a gradient on costs nothing.

There is no edge from the backward to the forward pass: the optimizer runs between steps and is not in the graph.
An input of the network (an attention mask) has no twin, since nothing wants their gradient.

Memory: v holds 16 bytes per parameter (`STATE_BYTES_PER_PARAMETER`) and, per micro-batch in flight, its output if
some twin reads it plus its fused layer's internal tensors: no activation is recomputed. v' holds nothing that
outlives its own run. memory_bytes counts one micro-batch.
"""

from sample_graphs.builder import Network, forward_node
from sample_graphs.cost_model import (
    ACCELERATOR,
    BYTES_PER_ELEMENT,
    CPU,
    STATE_BYTES_PER_PARAMETER,
    TIMES,
    time_ms,
    transfer_ms,
)
from solvers.graph import DnnGraph, Edge, Node


def training_graph(network: Network) -> DnnGraph:
    """Return forward and backward pass; the twin of operator v has id 2n - 1 - v, so ids run in execution order."""
    num_ops = len(network.ops)
    kept = _kept_outputs(network)
    forward = tuple(
        forward_node(
            network,
            v,
            state_bytes=float(op.parameters * STATE_BYTES_PER_PARAMETER),
            activation_bytes=float(BYTES_PER_ELEMENT * (op.internal_elements + op.output_elements * (v in kept))),
            is_training=True,
        )
        for v, op in enumerate(network.ops)
    )
    backward = tuple(_twin(network, v) for v in reversed(range(num_ops)) if network.ops[v].has_backward)
    edges = [Edge(u, v, network.ops[u].output_bytes) for v, op in enumerate(network.ops) for u in op.inputs]
    for v, op in enumerate(network.ops):
        if not op.has_backward:
            continue
        twin = twin_id(network, v)
        read = (op.inputs if op.keeps_inputs else ()) + ((v,) if op.keeps_output else ())
        edges += [Edge(u, twin, network.ops[u].output_bytes) for u in read]
        size_bytes = float(BYTES_PER_ELEMENT * _gradient_elements(network, v))
        edges += [Edge(twin, twin_id(network, u), size_bytes) for u in op.inputs if network.ops[u].has_backward]
    return DnnGraph(forward + backward, tuple(edges), network.name, TIMES)


def twin_id(network: Network, v: int) -> int:
    """Return the id of the backward twin of operator v."""
    return 2 * len(network.ops) - 1 - v


def _kept_outputs(network: Network) -> frozenset[int]:
    """Return the operators whose output some backward twin reads."""
    kept = {v for v, op in enumerate(network.ops) if op.keeps_output}
    kept.update(u for op in network.ops if op.keeps_inputs for u in op.inputs)
    return frozenset(kept)


def _gradient_elements(network: Network, v: int) -> int:
    """Return the elements of what the twin of v sends to the twins of its inputs."""
    op = network.ops[v]
    sizes = [network.ops[u].output_elements for u in op.inputs if network.ops[u].has_backward]
    return max(sizes, default=0) if op.passes_gradient else sum(sizes)


def _twin(network: Network, v: int) -> Node:
    """Return the backward node of operator v."""
    op = network.ops[v]
    sent = _gradient_elements(network, v)
    received = sum(v in reader.inputs for reader in network.ops)
    flops = float(max(received - 1, 0) * op.output_elements)
    # A sum reads every gradient and writes the result, which is then read like a single gradient.
    elements = op.output_elements * (received + 2 if received > 1 else received)
    if not op.passes_gradient:
        flops += op.flops * (2 if op.is_dense and sent else 1)
        elements += op.input_reads * op.keeps_inputs + op.output_elements * op.keeps_output
        elements += 2 * op.internal_elements + op.weight_reads * (2 if sent else 1) + sent
    elif received <= 1:
        elements = 0
    traffic_bytes = float(BYTES_PER_ELEMENT * elements)
    return Node(
        id=twin_id(network, v),
        accelerator_ms=time_ms(ACCELERATOR, flops, traffic_bytes),
        cpu_ms=time_ms(CPU, flops, traffic_bytes),
        transfer_ms=transfer_ms(float(BYTES_PER_ELEMENT * sent)),
        is_backward=True,
        colocation_class=v,
        name=f"{op.name} backward",
        layer=op.layer,
        flops=flops,
        parameter_bytes=0.0,
        activation_bytes=0.0,
        traffic_bytes=traffic_bytes,
    )
