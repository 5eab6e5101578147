"""Read an ONNX file without its weights: their names, shapes and types stay, their values are skipped.

A file is a protobuf message: fields of a tag (number and wire type) and a value. Of all messages only those on the way
to the initialisers of the main graph are looked into; the rest is taken as it is, for a real parser.
(https://protobuf.dev/programming-guides/encoding; https://github.com/onnx/onnx/blob/main/onnx/onnx.proto)

Memory: at most `MAX_ONNX_STRUCTURE_BYTES` of the file are held, whatever its size, and at most `MAX_ONNX_FIELDS` of
them become objects.
"""

from dataclasses import dataclass
from typing import BinaryIO

from solvers.importers.limits import (
    MAX_KEPT_TENSOR_BYTES,
    MAX_ONNX_BYTES,
    MAX_ONNX_FIELDS,
    MAX_ONNX_OPERATORS,
    MAX_ONNX_STRUCTURE_BYTES,
    MAX_ONNX_TENSORS,
)
from solvers.model.errors import SourceError
from solvers.quantities import count

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MODEL_GRAPH = 7
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_DOC, GRAPH_SPARSE = 1, 5, 10, 15
SPARSE_VALUES, SPARSE_DIMS = 1, 3
TENSOR_KEPT = {1, 2, 8, 14}
"""Of a large tensor: dims, data_type, name, data_location."""
INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "leaf", 14: "leaf", 25: "function"},
    "function": {7: "node", 9: "leaf", 11: "attribute", 12: "info", 14: "leaf"},
    "graph": {1: "node", 5: "leaf", 11: "info", 12: "info", 13: "info", 14: "leaf", 15: "sparse", 16: "leaf"},
    "node": {5: "attribute", 9: "leaf"},
    "attribute": {5: "leaf", 6: "graph", 10: "leaf", 11: "graph", 14: "type", 15: "type", 22: "sparse", 23: "sparse"},
    "sparse": {1: "leaf", 2: "leaf"},
    "info": {2: "type", 4: "leaf"},
    "type": {1: "tensor", 4: "element", 5: "element", 8: "tensor", 9: "element"},
    "element": {1: "type", 2: "type"},
    "tensor": {2: "shape"},
    "shape": {1: "leaf"},
}
"""Fields of each message that are messages themselves, by number."""
PACKED_NUMBERS = {"attribute": (7, 8)}
TOO_MANY_FIELDS = (
    f"The file has more than {count(MAX_ONNX_FIELDS)} fields besides the values of its weights; give a part of it."
)
NOT_COMPLETE = "The file is not a complete ONNX model; give one that onnx.checker accepts."


def is_onnx(head: bytes) -> bool:
    """Whether a file that starts so is an ONNX model: the first field is its version, a small number."""
    return len(head) > 1 and head[0] == 8 and 0 < head[1] < 64


def without_weights(file: BinaryIO) -> bytes:
    """Return the model without the values of its large initialisers; SourceError where it is none or too large."""
    end = file.seek(0, 2)
    if end >= MAX_ONNX_BYTES:
        raise SourceError(
            f"The file has {count(end)} bytes; an ONNX file has fewer than {count(MAX_ONNX_BYTES)}: keep its weights "
            "as external data, which is not read."
        )
    file.seek(0)
    content = _Walk(file).model(end)
    _check_fields(content)
    return content


def _check_fields(content: bytes) -> None:
    """Raise SourceError where a model has more fields than a real one, in messages of any depth."""
    num_fields = 0
    waiting = [(0, len(content), "model")]
    while waiting:
        at, end, kind = waiting.pop()
        inside, packed = INSIDE.get(kind, {}), PACKED_NUMBERS.get(kind, ())
        while at < end:
            num_fields += 1
            tag, at = _number(content, at)
            wire = tag & 7
            if wire == VARINT:
                _, at = _number(content, at)
            elif wire == BYTES:
                length, at = _number(content, at)
                if tag >> 3 in inside:
                    waiting.append((at, min(at + length, end), inside[tag >> 3]))
                elif tag >> 3 in packed:
                    num_fields += length
                at += length
            else:
                at += 8 if wire == FIXED64 else 4
            if num_fields > MAX_ONNX_FIELDS:
                raise SourceError(TOO_MANY_FIELDS)


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Return the number that starts at a place, and the place after it."""
    value = shift = 0
    while at < len(content) and shift < 70:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise SourceError(NOT_COMPLETE)


@dataclass
class _Walk:
    file: BinaryIO
    kept: int = 0
    num_fields: int = 0
    num_operators: int = 0
    num_tensors: int = 0

    def model(self, end: int) -> bytes:
        parts: list[bytes] = []
        while (at := self.file.tell()) < end:
            number, wire, length = self._head(end)
            if number == MODEL_GRAPH and wire == BYTES:
                parts.append(_message(MODEL_GRAPH, self._graph(self.file.tell() + length)))
            else:
                parts.append(self._whole(at, length))
        return b"".join(parts)

    def _graph(self, end: int) -> bytes:
        parts: list[bytes] = []
        while (at := self.file.tell()) < end:
            number, wire, length = self._head(end)
            if wire == BYTES and number == GRAPH_DOC:
                self.file.seek(length, 1)
            elif wire == BYTES and number in (GRAPH_INITIALIZER, GRAPH_SPARSE):
                self.num_tensors += 1
                if self.num_tensors > MAX_ONNX_TENSORS:
                    raise SourceError(f"The file has more than {count(MAX_ONNX_TENSORS)} weights; give one with fewer.")
                if length <= MAX_KEPT_TENSOR_BYTES:
                    parts.append(self._whole(at, length))
                    continue
                inner_end = self.file.tell() + length
                inner = self._tensor(inner_end) if number == GRAPH_INITIALIZER else self._sparse(inner_end)
                parts.append(_message(number, inner))
            else:
                if number == GRAPH_NODE:
                    self.num_operators += 1
                    if self.num_operators > MAX_ONNX_OPERATORS:
                        raise SourceError(
                            f"The file has more than {count(MAX_ONNX_OPERATORS)} operators; give a part of it."
                        )
                parts.append(self._whole(at, length))
        return b"".join(parts)

    def _sparse(self, end: int) -> bytes:
        parts: list[bytes] = []
        while (at := self.file.tell()) < end:
            number, wire, length = self._head(end)
            if number == SPARSE_VALUES and wire == BYTES:
                parts.append(_message(number, self._tensor(self.file.tell() + length)))
            elif number == SPARSE_DIMS:
                parts.append(self._whole(at, length))
            else:
                self.file.seek(length, 1)
        return b"".join(parts)

    def _tensor(self, end: int) -> bytes:
        parts: list[bytes] = []
        while (at := self.file.tell()) < end:
            number, _, length = self._head(end)
            if number in TENSOR_KEPT:
                parts.append(self._whole(at, length))
            else:
                self.file.seek(length, 1)
        return b"".join(parts)

    def _head(self, end: int) -> tuple[int, int, int]:
        """Read a tag; return its number and wire type, and how many bytes of value follow from here."""
        self.num_fields += 1
        if self.num_fields > MAX_ONNX_FIELDS:
            raise SourceError(TOO_MANY_FIELDS)
        tag = self._varint()
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            before = self.file.tell()
            self._varint()
            length = self.file.tell() - before
            self.file.seek(before)
        elif wire == BYTES:
            length = self._varint()
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise SourceError(NOT_COMPLETE)
        if number == 0 or self.file.tell() + length > end:
            raise SourceError(NOT_COMPLETE)
        return number, wire, length

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.file.read(1)
            if not byte:
                break
            value |= (byte[0] & 127) << shift
            if byte[0] < 128:
                return value
        raise SourceError(NOT_COMPLETE)

    def _whole(self, at: int, length: int) -> bytes:
        """Return the field that starts at `at` and of which `length` bytes are left."""
        size = self.file.tell() - at + length
        self.kept += size
        if self.kept > MAX_ONNX_STRUCTURE_BYTES:
            raise SourceError(
                f"The file has more than {MAX_ONNX_STRUCTURE_BYTES // 2**20} MiB besides the weights of its main "
                "graph; give one with weights as initialisers."
            )
        self.file.seek(at)
        return self.file.read(size)


def _message(number: int, content: bytes) -> bytes:
    return _written(number << 3 | BYTES) + _written(len(content)) + content


def _written(value: int) -> bytes:
    r"""Write a number as protobuf does.

    >>> _written(300)
    b'\xac\x02'
    """
    parts = bytearray()
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
