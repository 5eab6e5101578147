"""What is known of a tensor of an ONNX graph, or of a sequence of them: type, shape, origin, and small values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx
from numpy.typing import NDArray

from solvers.importers.checked import short
from solvers.importers.limits import MAX_ELEMENTS, MAX_RANK
from solvers.model.errors import SourceError
from solvers.quantities import count

Shape = tuple[int, ...]
T = onnx.TensorProto

FLOATS = frozenset({T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE})
"""Types that take as many bytes as --precision says."""
BYTES: dict[int, float] = {
    **dict.fromkeys((T.DOUBLE, T.INT64, T.UINT64, T.COMPLEX64), 8.0),
    **dict.fromkeys((T.FLOAT, T.INT32, T.UINT32), 4.0),
    **dict.fromkeys((T.FLOAT16, T.BFLOAT16, T.INT16, T.UINT16), 2.0),
    **dict.fromkeys((T.INT4, T.UINT4, T.FLOAT4E2M1), 0.5),
    **dict.fromkeys((T.INT2, T.UINT2), 0.25),
    T.COMPLEX128: 16.0,
}
"""Bytes of an element by type; 1 for any other."""
QUANTIZED = frozenset(
    {T.INT8, T.UINT8, T.INT4, T.UINT4, T.INT2, T.UINT2}
    | {T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ, T.FLOAT8E8M0, T.FLOAT4E2M1}
)
"""Types of quantised weights; their biases are in 32 bits."""


@dataclass(frozen=True, slots=True)
class Weight:
    """An initialiser: `elements` as they are stored, `bytes_each` None where --precision says.

    It is a parameter, or a buffer that is held beside them, or neither.
    """

    name: str
    elements: int
    bytes_each: float | None
    is_parameter: bool
    is_buffer: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor; `data` are its values where they are few and known.

    A sequence of tensors has `items`, their element type and no shape; an optional value that is left out has neither
    items nor a shape. `is_guess` says that the shape, or one that it follows from, was assumed.

    A constant has the `weights` that it is computed from, maybe none; for any other they are None. `producer` is the
    operator that computes it, None for inputs of the graph and constants; `tensor` names it among several that this
    operator writes.
    """

    elem_type: int
    shape: Shape | None
    producer: int | None = None
    weights: frozenset[Weight] | None = None
    data: NDArray[Any] | None = None
    tensor: str = ""
    items: "Items | None" = None
    is_guess: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every run."""
        return self.weights is not None

    @property
    def elements(self) -> int:
        """How many elements it has, or all tensors of a sequence."""
        if self.items is not None:
            return self.items.elements
        return math.prod(self.shape) if self.shape is not None else 0

    @property
    def bytes_each(self) -> float | None:
        """Bytes of an element; None where --precision says."""
        return bytes_each(self.elem_type)

    @property
    def type_proto(self) -> onnx.TypeProto:
        """What shape inference is told."""
        if self.items is not None:
            item = onnx.helper.make_tensor_type_proto(self.elem_type, self.items.shape)
            return onnx.helper.make_sequence_type_proto(item)
        return onnx.helper.make_tensor_type_proto(self.elem_type, self.shape)


@dataclass(frozen=True, slots=True)
class Items:
    """The tensors of a sequence in order, their elements in all, the largest, and their shape where they share one."""

    values: tuple[Value, ...]
    elements: int
    largest: Value | None
    shape: Shape | None


def sequence_of(values: Sequence[Value], elem_type: int = T.FLOAT) -> Value:
    """Return a sequence of tensors; the element type is that of an empty one."""
    items = tuple(replace(value, producer=None, tensor="") for value in values)
    shapes = {value.shape for value in items}
    found = Items(
        items,
        sum(value.elements for value in items),
        max(items, key=lambda value: value.elements, default=None),
        shapes.pop() if len(shapes) == 1 else None,
    )
    is_guess = any(value.is_guess for value in items)
    return Value(items[0].elem_type if items else elem_type, None, items=found, is_guess=is_guess)


def written(value: Value) -> Value:
    """Return what an operator writes: a tensor of this type and shape, of no known values."""
    return replace(value, producer=None, weights=None, data=None, tensor="")


def names(text: str) -> frozenset[str]:
    """Return the names in a text that spaces divide."""
    return frozenset(text.split())


def bytes_each(elem_type: int) -> float | None:
    """Return the bytes of an element of a type; None where --precision says."""
    return None if elem_type in FLOATS else BYTES.get(elem_type, 1.0)


def checked_text(name: str | bytes) -> str:
    """Return a name of the file; SourceError where it is no text, which protobuf hands over as bytes."""
    if isinstance(name, bytes):
        raise SourceError("The ONNX file has a name that is not UTF-8; give one that onnx.checker accepts.")
    return name


def checked_shape(shape: Shape, name: str) -> Shape:
    """Return a shape; SourceError where no real tensor has it."""
    if len(shape) > MAX_RANK or any(size < 0 for size in shape) or math.prod(shape) > MAX_ELEMENTS:
        raise SourceError(
            f"The tensor {short(name)} has a shape of {len(shape)} dimensions that no tensor has; sizes are from 0, "
            f"and at most {count(MAX_ELEMENTS)} in product."
        )
    return shape
