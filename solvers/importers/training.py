"""Turn a network into the graph of one training step: every operator gets a backward twin.

For operator v with twin v':

* v and v' share a colocation class, for v' reads and updates what v keeps; so do operators that share weights, and
  nothing else.
* v' -> u' for every input u of v that has a twin: the gradient of what v reads of u, a tensor of its own. An operator
  that passes its gradient on unchanged sends one to all.
* u -> v' for what v' needs of the forward pass: the inputs of v, the output of v, both or neither. A copy that v
  already received serves v' too, so such an edge is free unless it is the only one to its device.
* flops of v' are twice those of v for a matrix product or convolution (one product for the gradient of each
  operand), once those of v otherwise, and once where no input needs a gradient: then only the weights do, and what is
  inside of a recurrence: its steps after the first and its layers above the first (`backward_flops`). Products
  that v' does again (`recomputed_flops`) and the summing of gradients that several readers send back are added;
  passing a gradient on costs nothing.

There is no edge from the backward to the forward pass: the optimizer runs between steps and is not in the graph.
An input of the network (an attention mask) has no twin, since nothing wants its gradient.

Memory: v holds the state of its parameters (`CostModel.state_bytes` each) and, per micro-batch in flight, its output
if some twin reads it plus its fused layer's internal tensors: no activation is recomputed. v' holds nothing that
outlives its own run. memory_bytes counts one micro-batch.


A tensor that several operators of one layer read gets its gradient in parts, which autograd adds up where these
operators are, so that one tensor goes back. `with_forks` writes that down for every tensor that enters a layer: its
readers there read a copy, which costs nothing forwards and whose twin adds up the parts. Without it each part goes back
by itself.
"""

from dataclasses import dataclass, replace

from solvers.importers.cost_model import CostModel, time_ms
from solvers.importers.inference import forward_node
from solvers.importers.network import Network, Op
from solvers.model.graph import DnnGraph, Edge, Node


def training_graph(network: Network, costs: CostModel, *, gradients_are_one: bool = False) -> DnnGraph:
    """Return forward and backward pass; the twin of operator v has id 2n - 1 - v, so ids run in execution order.

    With `gradients_are_one` a twin sends all its gradients as one tensor to every twin of an input: the release of the
    paper, which knows one transfer cost for a node, can say no more, and the bundled graphs follow it.
    """
    kept = _kept_outputs(network)
    num_bytes = costs.element_bytes
    forward = tuple(
        forward_node(
            network,
            v,
            costs,
            state_bytes=float(op.parameters * costs.state_bytes + op.buffer_elements * costs.element_bytes),
            activation_bytes=float(num_bytes * (op.internal_elements + op.output_elements * (v in kept))),
            is_training=True,
        )
        for v, op in enumerate(network.ops)
    )
    sent = {v: _gradients(network, v, are_one=gradients_are_one) for v, op in enumerate(network.ops) if op.has_backward}
    backward = tuple(
        _twin(network, v, costs, sent[v]) for v in reversed(range(len(network.ops))) if network.ops[v].has_backward
    )

    def edges_of(u: int, reader: int, v: int) -> list[Edge]:
        """Return the edges from operator u to a node, which reads what operator v does."""
        return [Edge(u, reader, float(size * num_bytes), name) for name, size in network.tensors_read(v, u)]

    edges = [edge for v, op in enumerate(network.ops) for u in dict.fromkeys(op.inputs) for edge in edges_of(u, v, v)]
    for v, op in enumerate(network.ops):
        if not op.has_backward:
            continue
        twin, inputs = twin_id(network, v), tuple(dict.fromkeys(op.inputs))
        read = (inputs if op.keeps_inputs else ()) + ((v,) if op.keeps_output else ())
        edges += [edge for u in read for edge in edges_of(u, twin, v)]
        edges += [
            Edge(twin, twin_id(network, u), float(num_bytes * gradient.elements), gradient.name)
            for gradient in sent[v]
            for u in gradient.inputs
        ]
    return DnnGraph(forward + backward, tuple(edges), network.name, costs.times, network.held)


def with_forks(network: Network) -> Network:
    """Return the network with a fork for each tensor that several operators of another layer read.

    Its gradient would leave that layer in parts.
    """
    forked: dict[tuple[int, str], tuple[int, ...]] = {}
    for u, readers in enumerate(network.readers):
        for layer in dict.fromkeys(network.ops[v].layer for v in readers):
            inside = [v for v in readers if network.ops[v].layer == layer]
            if layer == network.ops[u].layer or not network.ops[u].has_backward or network.ops[u].outputs:
                continue
            if len(inside) > 1:
                forked[u, layer] = tuple(inside)
    ops: list[Op] = []
    place: dict[int, int] = {}  # of each operator of the network among the new ones
    fork: dict[tuple[int, str], int] = {}
    for v, op in enumerate(network.ops):
        inputs: list[int] = []
        for u in op.inputs:
            if (u, op.layer) in forked and (u, op.layer) not in fork:
                fork[u, op.layer] = len(ops)
                ops.append(_fork(network.ops[u], place[u], op.layer))
            inputs.append(fork.get((u, op.layer), place[u]))
        place[v] = len(ops)
        tied_to = None if op.tied_to is None else place[op.tied_to]
        reads = tuple((place[u], name) for u, name in op.reads)
        ops.append(replace(op, inputs=tuple(inputs), tied_to=tied_to, reads=reads))
    return replace(network, ops=tuple(ops))


def _fork(source: Op, place: int, layer: str) -> Op:
    return Op(
        name=f"{layer} fork of {source.name}",
        layer=layer,
        inputs=(place,),
        flops=0.0,
        output_elements=source.output_elements,
        parameters=0,
        internal_elements=0,
        weight_reads=0,
        input_reads=0,
        is_dense=False,
        keeps_inputs=False,
        keeps_output=False,
        passes_gradient=True,
        has_backward=True,
        is_view=True,
    )


def twin_id(network: Network, v: int) -> int:
    """Return the id of the backward twin of operator v."""
    return 2 * len(network.ops) - 1 - v


def _kept_outputs(network: Network) -> frozenset[int]:
    """Return the operators whose output some backward twin reads; a view's is that of what it is a view of."""
    kept = {v for v, op in enumerate(network.ops) if op.keeps_output}
    kept.update(u for op in network.ops if op.keeps_inputs for u in op.inputs)
    return frozenset(_source(network, v) for v in kept)


def _source(network: Network, v: int) -> int:
    while network.ops[v].is_view and network.ops[v].inputs:
        (v,) = network.ops[v].inputs
    return v


@dataclass(frozen=True, slots=True)
class _Gradient:
    """A tensor that a twin sends to the twins of some inputs of its operator; the only one has no name."""

    name: str
    inputs: tuple[int, ...]
    elements: int


def _gradients(network: Network, v: int, *, are_one: bool) -> tuple[_Gradient, ...]:
    """Return what the twin of v sends to the twins of its inputs."""
    op = network.ops[v]
    inputs = tuple(u for u in dict.fromkeys(op.inputs) if network.ops[u].has_backward)
    sizes = [sum(size for _, size in network.tensors_read(v, u)) for u in inputs]
    if not inputs:
        return ()
    if len(inputs) == 1 or op.passes_gradient or are_one:
        return (_Gradient("", inputs, max(sizes) if op.passes_gradient else sum(sizes)),)
    return tuple(
        _Gradient(f"gradient {i + 1}", (u,), size) for i, (u, size) in enumerate(zip(inputs, sizes, strict=True))
    )


def _twin(network: Network, v: int, costs: CostModel, gradients: tuple[_Gradient, ...]) -> Node:
    """Return the backward node of operator v."""
    op = network.ops[v]
    sent = sum(gradient.elements for gradient in gradients)
    transfer_ms = {g.name: costs.transfer_ms(float(costs.element_bytes * g.elements)) for g in gradients}
    tensors = network.num_readers(v)
    received = max(readers for _, readers in tensors)
    flops = float(sum(max(readers - 1, 0) * size for size, readers in tensors))
    # A sum reads every gradient and writes the result, which is then read like a single gradient; not so by a view.
    elements = sum(size * (readers + 2 - op.is_view if readers > 1 else readers) for size, readers in tensors)
    weights = 0
    if not op.passes_gradient:
        flops += op.recomputed_flops
        if op.backward_flops is None:
            flops += op.flops * (2 if op.is_dense and sent else 1)
        else:
            flops += op.backward_flops[0 if sent else 1]
        elements += op.input_reads * op.keeps_inputs + op.output_elements * op.keeps_output
        elements += 2 * op.internal_elements + sent
        weights = op.weight_reads * (2 if sent else 1)
    elif received <= 1:
        elements = 0
    traffic_bytes = float(costs.element_bytes * elements + costs.bytes_of_weight(op) * weights)
    return Node(
        id=twin_id(network, v),
        accelerator_ms=time_ms(costs.accelerator, flops, traffic_bytes),
        cpu_ms=time_ms(costs.host, flops, traffic_bytes),
        transfer_ms=transfer_ms.get("", 0.0),
        is_backward=True,
        colocation_class=network.owner(v),
        name=f"{op.name} backward",
        layer=op.layer,
        flops=flops,
        parameter_bytes=0.0,
        activation_bytes=0.0,
        traffic_bytes=traffic_bytes,
        tensor_ms=tuple((name, ms) for name, ms in transfer_ms.items() if name),
    )
