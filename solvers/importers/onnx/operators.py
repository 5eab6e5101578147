"""What an operator of an ONNX graph computes, reads and writes: flops, elements and weights, by its shapes."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx

from solvers.importers.onnx.arithmetic import (
    GATES,
    MICROSOFT,
    flops_of,
    has_flops,
    recomputed_flops_of,
    recurrence_backward,
)
from solvers.importers.onnx.layers import layer_name, module_path, printable
from solvers.importers.onnx.tensors import FLOATS, T, Value, Weight, names

LOOKUPS = names("Gather GatherElements GatherND Slice Split Compress EmbedLayerNormalization Expand SequenceAt")
"""Operators that read no more elements of a tensor than they write."""
WITH_INTEGER_BIAS = names("QLinearConv QGemm QAttention")
PACKED = {"MatMulNBits": 4, "MatMulBnb4": 4, "MatMulFpQ4": 4}
"""Operators whose second input has several weights in a byte, and the usual bits of one."""


@dataclass
class Operator:
    """An operator that runs, with sizes in elements of the usual format; `id` is a number of its own.

    `outputs` and `reads` are as in `solvers.importers.network.Op`, with ids.
    """

    id: int
    name: str
    op_type: str
    layer: str | None
    modules: str
    inputs: tuple[int, ...]
    flops: float
    recomputed_flops: float
    backward_flops: tuple[float, float] | None
    output_elements: int
    input_reads: int
    weights: frozenset[Weight]
    weight_reads: int
    buffers: frozenset[Weight] = frozenset()
    internal_elements: int = 0
    is_float: bool = True
    has_flops: bool = False
    lacks_flops: bool = False
    outputs: tuple[tuple[str, int], ...] = ()
    reads: frozenset[tuple[int, str]] = frozenset()


def elements_of(value: Value, element_bytes: float) -> int:
    """Return the elements of a tensor in elements of the usual format that take as many bytes."""
    each = value.bytes_each
    return value.elements if each is None else math.ceil(value.elements * each / element_bytes)


def costed(
    node: onnx.NodeProto,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value],
    attributes: Mapping[str, Any],
    number: int,
    element_bytes: float,
) -> Operator:
    """Return the operator of a node, with this number as its id; `element_bytes` are those of the usual format.

    Its flops are 0, and it `lacks_flops`, where it has arithmetic and its shapes do not tell how much.
    """
    written = sum(elements_of(value, element_bytes) for value in outputs)
    producers: dict[int, None] = {}
    weights: set[Weight] = set()
    buffers: set[Weight] = set()
    reads = weight_reads = 0
    is_lookup = node.op_type in LOOKUPS
    starts = _starts_of_zeros(node, inputs)
    for name, value in {
        name: value for name, value in zip(node.input, inputs, strict=True) if value is not None
    }.items():
        if value.producer is not None:
            producers[value.producer] = None
        own = frozenset() if name in starts else value.weights or frozenset()
        if node.op_type in PACKED and name in node.input[1:2]:
            own = _unpacked(own, attributes.get("bits", PACKED[node.op_type]))
        if node.op_type in WITH_INTEGER_BIAS and value.elem_type == T.INT32:
            own = frozenset(replace(weight, is_parameter=True) for weight in own)
        weights |= {weight for weight in own if weight.is_parameter}
        buffers |= {weight for weight in own if weight.is_buffer}
        stored = sum(weight.elements for weight in own if weight.is_parameter)
        if is_lookup:
            stored = min(stored, outputs[0].elements)
        weight_reads += stored
        read = elements_of(value, element_bytes)
        if not stored:
            reads += min(read, written) if is_lookup else read
        elif not is_lookup:
            # What is computed of a few weights, such as angles of positions, is read at its own size.
            reads += max(0, read - stored) if value.elements > stored else 0
    if node.op_type in GATES:
        weight_reads = _recurrent_reads(inputs, weight_reads)
    shapes = [value.shape if value is not None else None for value in inputs]
    domain = MICROSOFT if node.domain == MICROSOFT else ""
    counted = flops_of(domain, node.op_type, shapes, [value.shape for value in outputs], attributes)
    flops = counted or 0.0
    backward = None
    if node.op_type in GATES and flops:  # else its shapes are none that it can have
        start = inputs[5] if len(inputs) > 5 else None
        learns_start = start is not None and start.producer is not None
        backward = recurrence_backward(shapes, attributes, flops, learns_start=learns_start)
    return Operator(
        id=number,
        name=printable(node.name or node.output[0] or node.op_type) if node.output else printable(node.op_type),
        op_type=node.op_type,
        layer=layer_name(node),
        modules=module_path(node),
        inputs=tuple(producers),
        flops=flops,
        recomputed_flops=recomputed_flops_of(domain, node.op_type, flops),
        backward_flops=backward,
        output_elements=written,
        input_reads=reads,
        weights=frozenset(weights),
        weight_reads=weight_reads,
        buffers=frozenset(buffers),
        is_float=any(value.elem_type in FLOATS for value in outputs),
        has_flops=has_flops(domain, node.op_type),
        lacks_flops=counted is None,
        reads=reads_of(inputs),
    )


def joined(
    node: onnx.NodeProto,
    inputs: Sequence[Value | None],
    outputs: Sequence[Value],
    run: Sequence[Operator],
    held: Sequence[Operator],
    trips: int,
    number: int,
    element_bytes: float,
) -> Operator:
    """Return the one operator of a graph that runs `trips` times, with the weights of all operators held."""
    inside = {op.id for op in held}
    producers = {v: None for op in held for v in op.inputs if v not in inside}
    producers.update({value.producer: None for value in inputs if value is not None and value.producer is not None})
    return Operator(
        id=number,
        name=printable(node.name or node.op_type),
        op_type=node.op_type,
        layer=layer_name(node),
        modules=module_path(node),
        inputs=tuple(producers),
        flops=trips * math.fsum(op.flops for op in run),
        recomputed_flops=0.0,
        backward_flops=None,
        output_elements=sum(elements_of(value, element_bytes) for value in outputs),
        input_reads=trips * sum(op.input_reads for op in run if not inside & set(op.inputs)),
        weights=frozenset().union(*(op.weights for op in held), *(_parameters(value) for value in inputs)),
        weight_reads=trips * sum(op.weight_reads for op in run),
        buffers=frozenset().union(*(op.buffers for op in held)),
        internal_elements=trips * sum(op.output_elements for op in run),
        has_flops=any(op.has_flops for op in run),
        reads=reads_of(inputs) | {(u, tensor) for op in held for u, tensor in op.reads if u not in inside},
    )


def moved(operators: Sequence[Operator]) -> int:
    """Return the elements that operators read and write."""
    return sum(op.input_reads + op.output_elements + op.weight_reads for op in operators)


def _starts_of_zeros(node: onnx.NodeProto, inputs: Sequence[Value | None]) -> frozenset[str]:
    """Return the states that a recurrence starts from and that are zero, which exporters store like weights."""
    if node.op_type not in GATES:
        return frozenset()
    pairs = zip(node.input[5:7], inputs[5:7], strict=True)
    return frozenset(
        name for name, value in pairs if value is not None and value.data is not None and not value.data.any()
    )


def _recurrent_reads(inputs: Sequence[Value | None], reads: int) -> int:
    """A recurrence reads its recurrent weights at every step."""
    if len(inputs) < 3:
        return reads
    x, recurrent = inputs[0], inputs[2]
    if x is None or recurrent is None or not x.shape or not recurrent.is_constant:
        return reads
    return reads + (max(1, x.shape[0]) - 1) * recurrent.elements


def reads_of(inputs: Iterable[Value | None]) -> frozenset[tuple[int, str]]:
    """Return which tensors are read of operators that write several."""
    read = ((value.producer, value.tensor) for value in inputs if value is not None and value.tensor)
    return frozenset((producer, tensor) for producer, tensor in read if producer is not None)


def _parameters(value: Value | None) -> frozenset[Weight]:
    return frozenset(w for w in (value.weights or ()) if w.is_parameter) if value is not None else frozenset()


def _unpacked(weights: frozenset[Weight], bits: Any) -> frozenset[Weight]:
    """Return weights of which several lie in a byte, as many as there are."""
    each = bits / 8 if isinstance(bits, int) and bits in (1, 2, 3, 4, 8) else 0.5
    return frozenset(
        replace(weight, elements=round(weight.elements * (weight.bytes_each or 4.0) / each), bytes_each=each)
        for weight in weights
    )
