"""A network as operators in the order they run, before it is known which devices run them.

All counts are per micro-batch: `elements` of tensors and `flops` include the batch, `parameters` do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from solvers.model.micro_batch import MicroBatch


@dataclass(frozen=True, slots=True)
class Op:
    """One operator or layer of the forward pass; its id is its place in the network.

    output_elements     elements of its output tensor, or of all of them
    outputs             its tensors, each with a name and its elements, where it writes several
    reads               of inputs that write several tensors those that it reads, as (input, name)
    parameters          weights that it owns
    internal_elements   elements of tensors a fused layer writes and reads again, kept for a backward pass
    weight_reads        weights read from memory: fewer than `parameters` for a lookup, more for a recurrence
    input_reads         elements read of its inputs
    is_dense            a matrix product or convolution of two operands that need gradients: its backward pass takes two
                        such products, one per operand
    keeps_inputs        its backward pass reads its inputs
    keeps_output        its backward pass reads its output
    passes_gradient     its backward pass hands the incoming gradient on unchanged, as an addition does
    has_backward        false only for inputs of the network, which need no gradient
    cache_elements      elements that outlive the run and that the next one reads: keys and values of past tokens
    cache_reads         elements of such a cache that it reads
    recomputed_flops    flops of the forward pass that its backward pass does again, in place of keeping their result
    backward_flops      of its backward pass, with and without the gradients of its inputs, where there are products
                        inside whose gradients are needed either way; None where `is_dense` tells
    tied_to             id of the earliest operator with which it shares weights; it then owns none of these
    is_view             its output is its input, or one of the network, under another name: nothing is read or written
    idle_parameters     those of its parameters that a token does not meet: experts it is not routed to
    buffer_elements     elements of constants that it holds beside its weights
    weight_bytes        bytes of each of its weights, where they are not stored as the others are
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
    cache_elements: int = 0
    cache_reads: int = 0
    recomputed_flops: float = 0.0
    backward_flops: tuple[float, float] | None = None
    tied_to: int | None = None
    is_view: bool = False
    idle_parameters: int = 0
    buffer_elements: int = 0
    weight_bytes: float | None = None
    outputs: tuple[tuple[str, int], ...] = ()
    reads: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Network:
    """A whole forward pass. `micro_batch` is the number of images or token sequences it works on.

    `unit` says which, as a plural, empty where nobody knows; `tokens_per_sample` are those of a sequence, if known.
    """

    name: str
    micro_batch: int
    ops: tuple[Op, ...]
    unit: str = ""
    tokens_per_sample: int | None = None

    @property
    def held(self) -> MicroBatch | None:
        """What a micro-batch holds; None where the unit is not known."""
        return MicroBatch(self.micro_batch, self.unit, self.tokens_per_sample) if self.unit else None

    @property
    def parameters(self) -> int:
        """Number of parameters; those that operators share count once."""
        return sum(op.parameters for op in self.ops)

    @property
    def active_parameters(self) -> int:
        """Number of parameters that one token meets."""
        return sum(op.parameters - op.idle_parameters for op in self.ops)

    @property
    def flops(self) -> float:
        """Forward flops per micro-batch."""
        return sum(op.flops for op in self.ops)

    def with_layers(self, layers: Sequence[str]) -> "Network":
        """Return the network with these names of layers, one for each operator."""
        ops = tuple(replace(op, layer=layer) for op, layer in zip(self.ops, layers, strict=True))
        return replace(self, ops=ops)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Ids of the operators that read each operator's output, each once."""
        readers: list[list[int]] = [[] for _ in self.ops]
        for v, op in enumerate(self.ops):
            for u in dict.fromkeys(op.inputs):
                readers[u].append(v)
        return tuple(map(tuple, readers))

    def tensors_read(self, v: int, u: int) -> tuple[tuple[str, int], ...]:
        """Return the tensors of operator u that operator v reads: name and elements, the name empty for the only one.

        Operator v may be u itself: its backward pass reads all.
        """
        source = self.ops[u]
        if not source.outputs:
            return (("", source.output_elements),)
        names = {name for w, name in self.ops[v].reads if w == u}
        return tuple(tensor for tensor in source.outputs if v == u or not names or tensor[0] in names)

    def num_readers(self, u: int) -> tuple[tuple[int, int], ...]:
        """Return for each tensor of an operator its elements, and how many operators read it."""
        if not self.ops[u].outputs:
            return ((self.ops[u].output_elements, len(self.readers[u])),)
        read = [name for v in self.readers[u] for name, _ in self.tensors_read(v, u)]
        return tuple((elements, read.count(name)) for name, elements in self.ops[u].outputs)

    @cached_property
    def shared(self) -> frozenset[int]:
        """Ids of the operators whose weights others use too."""
        return frozenset(op.tied_to for op in self.ops if op.tied_to is not None)

    def owner(self, v: int) -> int:
        """Return the operator that owns the weights of operator v: itself, unless they are tied."""
        tied_to = self.ops[v].tied_to
        return v if tied_to is None else tied_to


@dataclass
class NetworkBuilder:
    """Collects operators; `layer` is the name of the block that the next ones belong to.

    >>> net = NetworkBuilder("two", micro_batch=1)
    >>> x = net.add("embed", (), flops=0, elements=8, parameters=80, weight_reads=8)
    >>> y = net.add("relu", (x,), flops=8, elements=8, keeps_output=True)
    >>> net.network().readers
    ((1,), ())
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
        cache: int = 0,
        cache_reads: int = 0,
        recomputed_flops: float = 0.0,
        tied_to: int | None = None,
        idle_parameters: int = 0,
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
                cache_elements=cache,
                cache_reads=cache_reads,
                recomputed_flops=float(recomputed_flops),
                tied_to=tied_to,
                idle_parameters=idle_parameters,
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
