"""Flops of operators that multiply matrices, convolve or attend, by the shapes of what they read and write.

A multiply-add is two; pairs that a mask hides count too. Every other operator is free of arithmetic here, as it is for
torch's flop counter, and costs its bytes.
"""

import math
import string
from collections.abc import Callable, Sequence

from solvers.importers.onnx.contrib import Attributes, Shapes, fused_operands, integer, known, past_tokens
from solvers.importers.onnx.tensors import Shape

GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}
MICROSOFT = "com.microsoft"
Counter = Callable[[Shapes, Shapes, Attributes], float]


def flops_of(domain: str, op_type: str, inputs: Shapes, outputs: Shapes, attributes: Attributes) -> float | None:
    """Return the flops of an operator, 0 where it has none; None where it has inputs that it cannot have.

    >>> flops_of("", "MatMul", [(2, 3, 4), (4, 5)], [(2, 3, 5)], {})
    240.0
    """
    counter = (COUNTERS_MICROSOFT.get(op_type) if domain == MICROSOFT else None) or COUNTERS.get(op_type)
    if counter is None:
        return 0.0
    try:
        return float(counter(inputs, outputs, attributes))
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError):
        return None  # too few inputs, an unknown shape, or attributes of another kind


def has_flops(domain: str, op_type: str) -> bool:
    """Whether it is an operator of which flops are counted."""
    return op_type in COUNTERS or (domain == MICROSOFT and op_type in COUNTERS_MICROSOFT)


def recomputed_flops_of(domain: str, op_type: str, flops: float) -> float:
    """Return those flops of an operator that its backward pass does again: half of fused attention, its scores."""
    is_fused = op_type in ("MultiHeadAttention", "GroupQueryAttention") or (op_type == "Attention" and domain == "")
    return flops / 2 if is_fused else 0.0


def _elements(shape: Shape | None, start: int = 0, stop: int | None = None) -> int:
    """Return the product of the sizes from one axis to another."""
    return math.prod(known(shape)[start:stop])


def _matmul(first: int, second: int) -> Counter:
    def flops(inputs: Shapes, outputs: Shapes, _: Attributes) -> float:
        a, _b = known(inputs[first]), known(inputs[second])
        return 2.0 * _elements(outputs[0]) * a[-1]

    return flops


def _gemm(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> float:
    rows, columns = known(inputs[0])
    return 2.0 * _elements(outputs[0]) * (rows if integer(attributes, "transA", 0) else columns)


def _conv(weight: int) -> Counter:
    def flops(inputs: Shapes, outputs: Shapes, _: Attributes) -> float:
        return 2.0 * _elements(outputs[0]) * _elements(inputs[weight], 1)

    return flops


def _conv_transpose(inputs: Shapes, _outputs: Shapes, _: Attributes) -> float:
    return 2.0 * _elements(inputs[0]) * _elements(inputs[1], 1)


def _fused_matmul(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> float:
    return 2.0 * _elements(outputs[0]) * fused_operands(inputs, attributes)[0][-1]


def _n_bits(inputs: Shapes, _: Shapes, attributes: Attributes) -> float:
    return 2.0 * _elements(inputs[0]) * integer(attributes, "N", 0)


def _recurrent(gates: int) -> Counter:
    def flops(inputs: Shapes, _: Shapes, attributes: Attributes) -> float:
        x, hidden = known(inputs[0]), integer(attributes, "hidden_size", 0)
        directions = 2 if attributes.get("direction") == b"bidirectional" else 1
        rows = _elements(x, 0, 2)
        return 2.0 * rows * directions * gates * hidden * (x[2] + hidden)

    return flops


def recurrence_backward(
    inputs: Shapes, attributes: Attributes, flops: float, *, learns_start: bool
) -> tuple[float, float]:
    """Return the flops of a recurrent layer's backward pass, with and without the gradient of its input.

    A first step needs no gradient of the state before it, unless that is learned too.
    """
    x, hidden = known(inputs[0]), integer(attributes, "hidden_size", 0)
    of_input = flops * x[2] / max(x[2] + hidden, 1)
    of_states = (flops - of_input) * (1.0 if learns_start else 1.0 - 1.0 / max(x[0], 1))
    return flops + of_states + of_input, flops + of_states


def einsum_sizes(equation: str, shapes: Sequence[Shape]) -> tuple[list[str], dict[str, int]]:
    """Return the indices of each operand, an ellipsis written as upper-case letters, and the size of each.

    >>> einsum_sizes("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)])
    (['bij', 'bjk'], {'b': 2, 'i': 3, 'j': 4, 'k': 5})
    """
    terms = equation.replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    operands: list[str] = []
    for term, shape in zip(terms, shapes, strict=True):
        rest = len(shape) - len(term.replace("...", ""))
        term = term.replace("...", string.ascii_uppercase[26 - rest : 26] if rest else "")
        operands.append(term)
        for index, size in zip(term, shape, strict=True):
            sizes[index] = max(size, sizes.get(index, 1))
    return operands, sizes


def _einsum(inputs: Shapes, _: Shapes, attributes: Attributes) -> float:
    """Operands are multiplied from left to right, each product keeping the indices that are needed later."""
    equation = attributes["equation"].decode()
    operands, sizes = einsum_sizes(equation, [shape for shape in inputs if shape is not None])
    result = set(equation.partition("->")[2].replace("...", string.ascii_uppercase)) or set(sizes)
    left, flops = set(operands[0]), 0.0
    for i, operand in enumerate(operands[1:], start=1):
        together = left | set(operand)
        flops += 2.0 * math.prod(sizes[index] for index in together)
        left = together & (result | set().union(*operands[i + 1 :]))
    return flops


def _pairs(batch: int, queries: int, keys: int, width: int) -> float:
    """Scores and weighted sums of all heads: `width` is that of all heads' keys and values together."""
    return 2.0 * batch * queries * keys * width


def _attention(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> float:
    """Attention of the standard, opset 23: [batch, heads, tokens, width], or [batch, tokens, heads * width]."""
    q, k, v = map(known, inputs[:3])
    if len(q) == 4:
        batch, heads, queries, key_width = q
        keys, value_width = k[2], v[3]
    else:
        heads, groups = integer(attributes, "q_num_heads", 1), integer(attributes, "kv_num_heads", 1)
        batch, queries, width = q
        keys, key_width, value_width = k[1], width // heads, v[2] // groups
    return _pairs(batch, queries, keys + past_tokens(inputs, 4, 2), heads * (key_width + value_width))


def _packed_attention(past: int) -> Counter:
    def flops(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> float:
        batch, queries, width = known(inputs[0])
        before = past_tokens(inputs, past, 3)
        all_widths = known(inputs[1])[1]
        sizes = attributes.get("qkv_hidden_sizes") or [all_widths // 3] * 3
        products = 2.0 * batch * queries * width * all_widths
        return products + _pairs(batch, queries, queries + before, sizes[0] + sizes[2])

    return flops


def _multi_head(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> float:
    query, out = known(inputs[0]), known(outputs[0])
    key = inputs[1] if len(inputs) > 1 else None
    batch, queries = query[:2]
    if len(query) == 5 or key is None:
        keys, width = queries, out[-1]
    else:
        keys, width = key[2] if len(key) == 4 else key[1], query[-1]
    return _pairs(batch, queries, keys + past_tokens(inputs, 6, 2), width + out[-1])


def _grouped_query(inputs: Shapes, outputs: Shapes, _: Attributes) -> float:
    batch, queries, width = known(outputs[0])
    return _pairs(batch, queries, queries + past_tokens(inputs, 3, 2), 2 * width)


def _linear_attention(inputs: Shapes, outputs: Shapes, attributes: Attributes) -> float:
    """Update a state of [key width, value width] per head by each token, and read it."""
    heads = integer(attributes, "q_num_heads", 1)
    batch, tokens, width = known(inputs[0])
    return 4.0 * batch * tokens * width * (known(outputs[0])[-1] // heads)


COUNTERS: dict[str, Counter] = {
    "MatMul": _matmul(0, 1),
    "MatMulInteger": _matmul(0, 1),
    "QLinearMatMul": _matmul(0, 3),
    "Gemm": _gemm,
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "DeformConv": _conv(1),
    "QLinearConv": _conv(3),
    "CausalConvWithState": _conv(1),
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "Attention": _attention,
    "LinearAttention": _linear_attention,
    **{name: _recurrent(gates) for name, gates in GATES.items()},
}
COUNTERS_MICROSOFT: dict[str, Counter] = {
    "MatMulIntegerToFloat": _matmul(0, 1),
    "DynamicQuantizeMatMul": _matmul(0, 1),
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedGemm": _gemm,
    "QGemm": _gemm,
    "FusedConv": _conv(1),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "MatMulFpQ4"), _n_bits),
    "Attention": _packed_attention(4),
    "QAttention": _packed_attention(8),
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped_query,
}
