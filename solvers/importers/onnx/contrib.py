"""Shapes that operators of ONNX Runtime give, which the standard does not know.

Each rule takes the shapes of the inputs, None where an input is left out, and returns those of the outputs.
(https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from solvers.importers.onnx.tensors import Shape, T, names

Shapes = Sequence[Shape | None]
Attributes = Mapping[str, Any]
Rule = Callable[[Shapes, Attributes], Sequence[Shape | None]]


def contrib_shapes(op_type: str, shapes: Shapes, attributes: Attributes) -> Sequence[Shape | None] | None:
    """Return the shapes of the outputs that are known; None for an operator without a rule, or inputs it cannot be of.

    >>> contrib_shapes("FusedMatMul", [(4, 3), (5, 4)], {"transA": 1, "transB": 1})
    [(3, 5)]
    """
    rule = RULES.get(op_type)
    if rule is None:
        return None
    try:
        return rule(shapes, attributes)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
        return None  # inputs of fewer dimensions than the operator has, or attributes of another kind


def integer(attributes: Attributes, name: str, usual: int) -> int:
    """Return a whole number among attributes; ValueError where it is of another kind."""
    value = attributes.get(name, usual)
    if not isinstance(value, int):
        raise ValueError(name)
    return value


def _first(shapes: Shapes, _: Attributes) -> list[Shape | None]:
    return [shapes[0]]


def known(shape: Shape | None) -> Shape:
    """Return a shape that a rule cannot do without; ValueError where it is not known."""
    if shape is None:
        raise ValueError
    return shape


def past_tokens(shapes: Shapes, past: int, axis: int) -> int:
    """Return the tokens in the cache that an operator of attention may have as one of its inputs."""
    cache = shapes[past] if len(shapes) > past else None
    return cache[axis] if cache else 0


def _transposed(shape: Shape, attributes: Attributes, name: str) -> Shape:
    if len(shape) > 1 and integer(attributes, f"transBatch{name}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if integer(attributes, f"trans{name}", 0) and len(shape) > 1 else shape


def fused_operands(shapes: Shapes, attributes: Attributes) -> tuple[Shape, Shape]:
    """Return the operands of a FusedMatMul as a MatMul would have them."""
    return _transposed(known(shapes[0]), attributes, "A"), _transposed(known(shapes[1]), attributes, "B")


def _product(a: Shape, b: Shape) -> Shape:
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    return (*map(int, batch), *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))


def _fused_matmul(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    return [_product(*fused_operands(shapes, attributes))]


def _matmul(first: int, second: int) -> Rule:
    def rule(shapes: Shapes, _: Attributes) -> list[Shape | None]:
        return [_product(known(shapes[first]), known(shapes[second]))]

    return rule


def _gemm(second: int) -> Rule:
    def rule(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
        a, b = known(shapes[0]), known(shapes[second])
        rows = a[1] if integer(attributes, "transA", 0) else a[0]
        return [(rows, b[0] if integer(attributes, "transB", 0) else b[1])]

    return rule


def _n_bits(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    return [(*known(shapes[0])[:-1], integer(attributes, "N", 0))]


def _broadcast(first: int, second: int) -> Rule:
    def rule(shapes: Shapes, _: Attributes) -> list[Shape | None]:
        return [tuple(map(int, np.broadcast_shapes(known(shapes[first]), known(shapes[second]))))]

    return rule


def _attention(past: int) -> Rule:
    def rule(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
        batch, tokens, _ = known(shapes[0])
        widths = attributes.get("qkv_hidden_sizes")
        hidden = widths[2] if widths else known(shapes[1])[1] // 3
        heads = integer(attributes, "num_heads", 1)
        before = past_tokens(shapes, past, 3)
        return [(batch, tokens, hidden), (2, batch, heads, tokens + before, hidden // heads)]

    return rule


def _multi_head(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    query, key, value = (shapes[i] if len(shapes) > i else None for i in range(3))
    heads, packed = integer(attributes, "num_heads", 1), known(query)
    batch, tokens = packed[:2]
    if len(packed) == 5:
        return [(batch, tokens, packed[2] * packed[4])]
    width = known(value if value is not None else query)
    if value is not None and len(value) == 4:
        width = (batch, value[2], heads * value[3])
    past = shapes[6] if len(shapes) > 6 else None
    keys = (key[1] if key is not None and len(key) == 3 else width[1]) + (past[2] if past else 0)
    return [
        (batch, tokens, width[-1]),
        (batch, heads, keys, packed[-1] // heads),
        (batch, heads, keys, width[-1] // heads),
    ]


def _grouped_query(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    batch, tokens, width = known(shapes[0])
    heads, groups = integer(attributes, "num_heads", 1), integer(attributes, "kv_num_heads", 1)
    is_packed = shapes[1] is None
    head = width // (heads + 2 * groups) if is_packed else width // heads
    past = shapes[3] if len(shapes) > 3 else None
    present = (batch, groups, tokens + (past[2] if past else 0), head)
    return [(batch, tokens, heads * head), present, present]


def _skip_norm(shapes: Shapes, _: Attributes) -> list[Shape | None]:
    x = known(shapes[0])
    return [x, (*x[:-1], 1), (*x[:-1], 1), x]


def _embed_norm(shapes: Shapes, _: Attributes) -> list[Shape | None]:
    batch, tokens = known(shapes[0])
    hidden = known(shapes[2])[1]
    return [(batch, tokens, hidden), (batch,), (batch, tokens, hidden)]


def _recurrent(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    steps, batch, _ = known(shapes[0])
    hidden = integer(attributes, "hidden_size", 1)
    directions = 2 if attributes.get("direction") in (b"bidirectional", "bidirectional") else 1
    state = (directions, batch, hidden)
    return [(steps, directions, batch, hidden), state, state]


def _q_concat(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    parts = [list(known(shape)) for shape in shapes[2::3]]
    axis = integer(attributes, "axis", 0)
    parts[0][axis] = sum(part[axis] for part in parts)
    return [tuple(parts[0])]


def _q_global_pool(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    x = known(shapes[0])
    ones = (1,) * (len(x) - 2)
    return [(x[0], *ones, x[-1]) if integer(attributes, "channels_last", 0) else (*x[:2], *ones)]


def _half(shapes: Shapes, _: Attributes) -> list[Shape | None]:
    x = known(shapes[0])
    return [(*x[:-1], x[-1] // 2)]


def _fused_conv(shapes: Shapes, attributes: Attributes) -> list[Shape | None]:
    x, w = known(shapes[0]), known(shapes[1])
    rank = len(x) - 2
    strides, dilations = (attributes.get(name) or [1] * rank for name in ("strides", "dilations"))
    pads = attributes.get("pads") or [0] * (2 * rank)
    kind = attributes.get("auto_pad", b"NOTSET")
    sizes = []
    for i in range(rank):
        if kind in (b"SAME_UPPER", b"SAME_LOWER"):
            sizes.append(math.ceil(x[i + 2] / strides[i]))
        else:
            reach = dilations[i] * (w[i + 2] - 1) + 1
            sizes.append((x[i + 2] + pads[i] + pads[i + rank] - reach) // strides[i] + 1)
    return [(x[0], w[0], *sizes)]


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        names(
            "Gelu FastGelu BiasGelu QuickGelu RotaryEmbedding QLinearSigmoid QLinearLeakyRelu "
            "QLinearSoftmax QuantizeLinear DequantizeLinear GroupNorm SkipGroupNorm BiasAdd BiasSoftmax BiasDropout"
        ),
        _first,
    ),
    **dict.fromkeys(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"], _skip_norm),
    "SimplifiedLayerNormalization": _skip_norm,
    "EmbedLayerNormalization": _embed_norm,
    "BiasSplitGelu": _half,
    **dict.fromkeys(("FusedMatMul", "TransposeMatMul"), _fused_matmul),
    "FusedGemm": _gemm(1),
    "QGemm": _gemm(3),
    "FusedConv": _fused_conv,
    **dict.fromkeys(("MatMulIntegerToFloat", "DynamicQuantizeMatMul"), _matmul(0, 1)),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4", "MatMulFpQ4"), _n_bits),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _broadcast(0, 3)),
    "QLinearConcat": _q_concat,
    "QLinearGlobalAveragePool": _q_global_pool,
    "Attention": _attention(4),
    "QAttention": _attention(8),
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped_query,
    "DynamicQuantizeLSTM": _recurrent,
}

OUTPUT_TYPES = {
    "MatMulIntegerToFloat": T.FLOAT,
    "DynamicQuantizeMatMul": T.FLOAT,
    "QAttention": T.FLOAT,
    "EmbedLayerNormalization": T.FLOAT,
    "DequantizeLinear": T.FLOAT,
    "QuantizeLinear": T.UINT8,
}
"""Types of outputs that are not of the first input's type."""
