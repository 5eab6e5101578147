"""Write a network operator by operator, and turn it into the graph of an inference.

All counts are per micro-batch: `elements` of tensors and `flops` include the batch, `parameters` do not.
"""

from dataclasses import dataclass, field

from sample_graphs.cost_model import ACCELERATOR, BYTES_PER_ELEMENT, CPU, TIMES, time_ms, transfer_ms
from solvers.graph import DnnGraph, Edge, Node


@dataclass(frozen=True, slots=True)
class Op:
    """One operator or layer of the forward pass; its id is its place in the network.

    output_elements     elements of its output tensor
    internal_elements   elements of tensors a fused layer writes and reads again, kept for a backward pass
    weight_reads        parameters read from memory: fewer than `parameters` for a lookup, more for a recurrence
    input_reads         elements read of its inputs
    is_dense            a matrix product or convolution: its backward pass takes two such products, one per operand
    keeps_inputs        its backward pass reads its inputs
    keeps_output        its backward pass reads its output
    passes_gradient     its backward pass hands the incoming gradient on unchanged, as an addition does
    has_backward        false only for inputs of the network, which need no gradient
    """

    name: str
    layer: str
    inputs: tuple[int, ...]
    flops: float
    output_elements: int
    parameters: int
    internal_elements: int
    weight_reads: int
    input_reads: int
    is_dense: bool
    keeps_inputs: bool
    keeps_output: bool
    passes_gradient: bool
    has_backward: bool

    @property
    def output_bytes(self) -> float:
        """Bytes of the output tensor."""
        return float(self.output_elements * BYTES_PER_ELEMENT)

    @property
    def parameter_bytes(self) -> float:
        """Bytes of the weights in half precision."""
        return float(self.parameters * BYTES_PER_ELEMENT)


@dataclass(frozen=True, slots=True)
class Network:
    """A whole forward pass. `micro_batch` is the number of images or token sequences it works on."""

    name: str
    micro_batch: int
    ops: tuple[Op, ...]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(op.parameters for op in self.ops)

    @property
    def flops(self) -> float:
        """Forward flops per micro-batch."""
        return sum(op.flops for op in self.ops)


@dataclass
class NetworkBuilder:
    """Collects operators; `layer` is the name of the block that the next ones belong to.

    >>> net = NetworkBuilder("two", micro_batch=1)
    >>> x = net.add("embed", (), flops=0, elements=8, parameters=80, weight_reads=8)
    >>> y = net.add("relu", (x,), flops=8, elements=8, keeps_output=True)
    >>> inference_graph(net.network()).readers
    {0: (1,), 1: ()}
    """

    name: str
    micro_batch: int
    layer: str = ""
    _ops: list[Op] = field(default_factory=list)

    def add(
        self,
        name: str,
        inputs: tuple[int, ...],
        *,
        flops: float,
        elements: int,
        parameters: int = 0,
        internal: int = 0,
        weight_reads: int | None = None,
        input_reads: int | None = None,
        is_dense: bool = False,
        keeps_inputs: bool = False,
        keeps_output: bool = False,
        passes_gradient: bool = False,
        has_backward: bool = True,
    ) -> int:
        """Return the id of a new operator; every parameter is read once and every input whole unless said."""
        self._ops.append(
            Op(
                name=name,
                layer=self.layer,
                inputs=inputs,
                flops=float(flops),
                output_elements=elements,
                parameters=parameters,
                internal_elements=internal,
                weight_reads=parameters if weight_reads is None else weight_reads,
                input_reads=sum(self.elements(u) for u in inputs) if input_reads is None else input_reads,
                is_dense=is_dense,
                keeps_inputs=keeps_inputs,
                keeps_output=keeps_output,
                passes_gradient=passes_gradient,
                has_backward=has_backward,
            )
        )
        return len(self._ops) - 1

    def elements(self, u: int) -> int:
        """Elements of the output of operator u."""
        return self._ops[u].output_elements

    def residual(self, name: str, a: int, b: int) -> int:
        """Add two tensors of the same shape."""
        elements = self.elements(a)
        return self.add(name, (a, b), flops=elements, elements=elements, passes_gradient=True)

    def loss(self, logits: int) -> int:
        """Softmax cross entropy over the logits: one number per member of the micro-batch; 5 flops per logit."""
        self.layer = "loss"
        return self.add(
            "loss", (logits,), flops=5 * self.elements(logits), elements=self.micro_batch, keeps_inputs=True
        )

    def network(self) -> Network:
        """Return what was collected."""
        return Network(self.name, self.micro_batch, tuple(self._ops))


def forward_traffic_bytes(op: Op) -> float:
    """Return the bytes the forward pass of an operator reads and writes: inputs, weights, internals, output."""
    elements = op.input_reads + op.weight_reads + 2 * op.internal_elements + op.output_elements
    return float(elements * BYTES_PER_ELEMENT)


def forward_node(network: Network, v: int, *, state_bytes: float, activation_bytes: float, is_training: bool) -> Node:
    """Return the graph node of operator v; `state_bytes` is what its parameters occupy.

    memory_bytes = state_bytes + activation_bytes, always: a schedule multiplies the second by the number of
    micro-batches in flight.
    """
    op = network.ops[v]
    traffic_bytes = forward_traffic_bytes(op)
    is_read = any(v in reader.inputs for reader in network.ops)
    return Node(
        id=v,
        accelerator_ms=time_ms(ACCELERATOR, op.flops, traffic_bytes),
        cpu_ms=time_ms(CPU, op.flops, traffic_bytes),
        memory_bytes=state_bytes + activation_bytes,
        transfer_ms=transfer_ms(op.output_bytes) if is_read or (is_training and op.keeps_output) else 0.0,
        colocation_class=v if is_training and op.has_backward else None,
        name=op.name,
        layer=op.layer,
        flops=op.flops,
        parameter_bytes=op.parameter_bytes,
        activation_bytes=activation_bytes,
        traffic_bytes=traffic_bytes,
    )


def inference_graph(network: Network) -> DnnGraph:
    """Return the forward graph: a node holds its half-precision weights and its output for one micro-batch."""
    nodes = tuple(
        forward_node(network, v, state_bytes=op.parameter_bytes, activation_bytes=op.output_bytes, is_training=False)
        for v, op in enumerate(network.ops)
    )
    edges = tuple(Edge(u, v, network.ops[u].output_bytes) for v, op in enumerate(network.ops) for u in op.inputs)
    return DnnGraph(nodes, edges, network.name, TIMES)
