"""Make a network of the operators of an ONNX graph: those that its outputs need, in order, with weights and layers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from solvers.importers.limits import TIED_ELEMENTS
from solvers.importers.network import Network, Op
from solvers.importers.onnx.layers import with_layers_in_order
from solvers.importers.onnx.operators import Operator
from solvers.importers.onnx.tensors import Weight, names
from solvers.importers.workload import Tied, Workload

KEEP_OUTPUT = names(
    "Relu LeakyRelu Sigmoid HardSigmoid Tanh Softmax LogSoftmax Sqrt Exp Reciprocal Elu Selu MaxPool Clip "
    "SimplifiedLayerNormalization"
)
"""Operators of which the backward pass reads the output."""
KEEP_NOTHING = names(
    "Add Sub Sum Neg Cast Concat Split Transpose Slice Pad Expand Tile Resize Upsample AveragePool "
    "GlobalAveragePool ReduceMean ReduceSum Mean Gather SpaceToDepth DepthToSpace QuantizeLinear "
    "DequantizeLinear SequenceConstruct SequenceAt SequenceInsert SequenceErase SplitToSequence ConcatFromSequence"
)
"""Operators of which it reads nothing, but for products of weights."""
PASSES_GRADIENT = names("Add Sub Sum")
FUSED_ATTENTION = names("Attention MultiHeadAttention GroupQueryAttention")


def network_of(
    operators: Sequence[Operator], results: Iterable[int | None], workload: Workload, name: str
) -> tuple[Network, tuple[str, ...]]:
    """Return the network of the operators that the results need, and the modules of each.

    It is of all operators where the results are constants.
    """
    by_id = {op.id: op for op in operators}
    wanted = [v for v in results if v is not None and v in by_id] or list(by_id)
    needed: set[int] = set()
    while wanted:
        v = wanted.pop()
        if v not in needed:
            needed.add(v)
            wanted += by_id[v].inputs
    kept = [op for op in operators if op.id in needed]
    place = {op.id: v for v, op in enumerate(kept)}
    owner = _owners(kept)
    holders = _holders(kept)
    root = _tied(kept, owner) if workload.tied is Tied.SHARE else list(range(len(kept)))
    ops: list[Op] = []
    for v, operator in enumerate(kept):
        own = [w for w in operator.weights if owner[w.name] == v or _is_copied(w, workload)]
        inputs = tuple(place[u] for u in operator.inputs)
        op = _op(operator, own, inputs, v if root[v] == v else root[v], v, [ops[u] for u in inputs])
        held = sum(weight.elements for weight in operator.buffers if holders[weight.name] == v)
        ops.append(
            replace(op, buffer_elements=held, reads=tuple(sorted((place[u], name) for u, name in operator.reads)))
        )
    network = Network(name, workload.batch, tuple(ops))
    in_order = with_layers_in_order(network, [operator.layer for operator in kept])
    return in_order, tuple(operator.modules for operator in kept)


def _is_copied(weight: Weight, workload: Workload) -> bool:
    return workload.tied is Tied.COPY and weight.elements >= TIED_ELEMENTS


def _owners(kept: Sequence[Operator]) -> dict[str, int]:
    """Return the first operator that uses each weight, by the weight's name."""
    owner: dict[str, int] = {}
    for v, operator in enumerate(kept):
        for weight in operator.weights:
            owner.setdefault(weight.name, v)
    return owner


def _holders(kept: Sequence[Operator]) -> dict[str, int]:
    """Return the first operator that uses each buffer, by the buffer's name."""
    holder: dict[str, int] = {}
    for v, operator in enumerate(kept):
        for weight in operator.buffers:
            holder.setdefault(weight.name, v)
    return holder


def _tied(kept: Sequence[Operator], owner: dict[str, int]) -> list[int]:
    """Return for each operator the first of those it shares large weights with, by way of others too."""
    root = list(range(len(kept)))

    def find(v: int) -> int:
        while root[v] != v:
            root[v] = root[root[v]]
            v = root[v]
        return v

    for v, operator in enumerate(kept):
        for weight in operator.weights:
            if weight.elements >= TIED_ELEMENTS:
                a, b = sorted((find(v), find(owner[weight.name])))
                root[b] = a
    return [find(v) for v in range(len(kept))]


def _op(
    operator: Operator, own: Sequence[Weight], inputs: tuple[int, ...], tied_to: int, v: int, before: list[Op]
) -> Op:
    read = sum(weight.elements for weight in operator.weights)
    stored = [weight.bytes_each for weight in operator.weights]
    is_dense = operator.has_flops and operator.flops > 0
    kind = operator.op_type
    trains = bool(operator.weights) or any(op.has_backward for op in before)
    return Op(
        name=operator.name,
        layer="",
        inputs=inputs,
        flops=operator.flops,
        output_elements=operator.output_elements,
        parameters=sum(weight.elements for weight in own),
        internal_elements=operator.internal_elements,
        weight_reads=operator.weight_reads,
        input_reads=operator.input_reads,
        is_dense=is_dense,
        keeps_inputs=kind not in KEEP_OUTPUT | KEEP_NOTHING,
        keeps_output=kind in KEEP_OUTPUT | FUSED_ATTENTION,
        passes_gradient=kind in PASSES_GRADIENT and not operator.weights,
        has_backward=operator.is_float and trains,
        recomputed_flops=operator.recomputed_flops,
        backward_flops=operator.backward_flops,
        tied_to=None if tied_to == v else tied_to,
        outputs=operator.outputs,
        weight_bytes=None if all(each is None for each in stored) else _mean_bytes(operator.weights, read),
    )


def _mean_bytes(weights: Iterable[Weight], elements: int) -> float:
    """Return the bytes of a weight, on average where an operator has several types; 4 in floating point."""
    return sum(w.elements * (4.0 if w.bytes_each is None else w.bytes_each) for w in weights) / max(elements, 1)
