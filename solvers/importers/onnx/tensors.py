"""What is known of a tensor of an ONNX graph: its type, its shape, where it comes from, and small values."""

import math
from dataclasses import dataclass
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
    """An initialiser: `elements` as they are stored, `bytes_each` None where --precision says."""

    name: str
    elements: int
    bytes_each: float | None
    is_parameter: bool


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor; `shape` is None where it is not known, `data` its values where they are few and known.

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

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every run."""
        return self.weights is not None

    @property
    def elements(self) -> int:
        """How many elements it has; 0 where its shape is not known."""
        return math.prod(self.shape) if self.shape is not None else 0

    @property
    def bytes_each(self) -> float | None:
        """Bytes of an element; None where --precision says."""
        return bytes_each(self.elem_type)

    @property
    def type_proto(self) -> onnx.TypeProto:
        """What shape inference is told."""
        return onnx.helper.make_tensor_type_proto(self.elem_type, self.shape)


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
