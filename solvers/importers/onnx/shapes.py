"""Shapes of what an operator computes, by onnx's own inference, by rules for ONNX Runtime's operators, or as declared.

Operators on constants alone are computed here where they are few numbers, by onnx's reference evaluator, so that sizes
computed from sizes are known.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx.shape_inference
from numpy.typing import NDArray

from solvers.importers.limits import MAX_FOLDED_ELEMENTS, MAX_ITEMS_HANDLED, MAX_RANK
from solvers.importers.onnx import sequences
from solvers.importers.onnx.contrib import OUTPUT_TYPES, RULES, contrib_shapes
from solvers.importers.onnx.model_file import Dimensions, reason, shown
from solvers.importers.onnx.tensors import Shape, T, Value, checked_shape, checked_text, names, sequence_of
from solvers.model.errors import SourceError
from solvers.quantities import count

FOLDED = names(
    "Abs Add And Cast Ceil Concat ConstantOfShape CumSum Div Equal Expand Flatten Floor Gather GatherElements "
    "GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg NonZero Not Or Pow Range "
    "ReduceMax ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Shape Sign Size Slice "
    "Split Sqrt Squeeze Sub Tile Transpose Trilu Unsqueeze Where Xor"
)
"""Operators that are computed where all they read is known and little."""
NO_NAMES = ("", "?", "None", "-1")
"""What exporters call a dimension that has no name."""
PASSED_ON = ("Optional", "Identity")
"""Operators that may give an optional value which is left out."""
NOTHING = Value(T.UNDEFINED, None)
"""An output that is left out."""
TENSOR_TYPES = frozenset(T.DataType.values()) - {T.UNDEFINED}


class ShapeError(SourceError):
    """Shapes that do not fit an operator."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why the shapes of an operator cannot be derived: they contradict each other, or nobody knows how."""

    text: str
    is_contradiction: bool


@dataclass
class ShapeReader:
    """Shapes under the opsets of a file, with the types that it declares by name.

    `unknown` are operators that nobody knows, `assumed` those whose shapes were taken to be their inputs', and
    `guessed` those on sequences that data picks from.
    """

    opsets: Mapping[str, int]
    dimensions: Dimensions
    declared: dict[str, onnx.TypeProto]
    unknown: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    guessed: dict[str, int] = field(default_factory=dict)
    num_items: int = 0

    def __post_init__(self) -> None:
        self._imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]

    def outputs(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> list[Value]:
        """Return every output; one that is left out has no type.

        What cannot be derived is as the file declares it, or else as large as the first input, and a guess: one
        operator that nobody understands is no reason to refuse a file. ShapeError where shapes that are no guesses
        contradict each other, so that the model cannot run; SourceError where a dimension has no size, which it names.
        """
        derive = self._by_sequences if sequences.has_rule(node, inputs) else self._by_types
        found, why = derive(node, inputs, attributes)
        rests_on_guess = any(value is not None and value.is_guess for value in inputs)
        self.dimensions.refuse_missing(
            f"The size of {shown(node.output[0])}, which {shown(node.op_type)} computes, cannot be derived from the "
            "file"
        )
        outputs = []
        for name in node.output:
            value = found.get(name) if name else NOTHING
            if value is None or (name and sequences.is_absent(value) and node.op_type not in PASSED_ON):
                if why is not None and why.is_contradiction and not rests_on_guess and not self._is_declared(name):
                    told = f"The operator {shown(node.name or name)} ({node.op_type}) cannot be: {why.text}."
                    raise ShapeError(told)
                value = self._assumed(node, name, value, inputs)
            if value.shape is not None:
                checked_shape(value.shape, name)
            outputs.append(replace(value, is_guess=value.is_guess or rests_on_guess))
        return outputs

    def _by_sequences(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> tuple[dict[str, Value], "Why | None"]:
        """Return the output of an operator on sequences, and why there is none where there is none."""
        name = node.output[0]
        try:
            value = sequences.sequence_output(node.op_type, inputs, attributes, lambda: self.length_of(name))
        except sequences.Unfit as error:
            return {}, Why(str(error), is_contradiction=True)
        if node.op_type not in ("SequenceAt", "SequenceLength"):
            self.count_items(*inputs, value)
        if value.is_guess and not any(given is not None and given.is_guess for given in inputs):
            self.guessed[node.op_type] = self.guessed.get(node.op_type, 0) + 1
        return {name: value}, None

    def length_of(self, name: str) -> int:
        """Return the length of a sequence that only data tells; SourceError where none is given."""
        size = self.dimensions.size(f"{name}.length")
        self.dimensions.refuse_missing(f"The length of the sequence {shown(name)} cannot be derived from the file")
        return sequences.checked_length(size or 0)

    def count_items(self, *values: Value | None) -> None:
        """Count the tensors of sequences that are handled; SourceError where they are too many in all."""
        self.num_items += sum(len(value.items.values) for value in values if value is not None and value.items)
        if self.num_items > MAX_ITEMS_HANDLED:
            raise SourceError(
                f"The file's sequences have more than {count(MAX_ITEMS_HANDLED)} tensors in all; give a part of it."
            )

    def _by_types(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> tuple[dict[str, Value], "Why | None"]:
        """Return what is known of the outputs by onnx or ONNX Runtime, and why onnx cannot tell where it cannot."""
        schema = self._schema(node)
        inferred, why = ({}, None) if schema is None else self._inferred(schema, node, inputs)
        rule = RULES.get(node.op_type) if schema is None else None
        by_rule: Sequence[Shape | None] = ()
        if rule is not None:
            shapes = [value.shape if value is not None else None for value in inputs]
            by_rule = contrib_shapes(node.op_type, shapes, attributes) or ()
        elif schema is None:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self.unknown[name] = self.unknown.get(name, 0) + 1
        found: dict[str, Value] = {}
        for i, name in enumerate(node.output):
            shape = by_rule[i] if i < len(by_rule) else None
            if shape is not None:
                found[name] = Value(_usual_type(node, inputs), shape)
            elif name in inferred:
                num_guessed = self.dimensions.guessed.total()
                elem_type, shape = self._read(inferred[name], name)
                is_guess = self.dimensions.guessed.total() > num_guessed
                found[name] = Value(elem_type, shape, is_guess=is_guess)
        return found, why

    def _is_declared(self, name: str) -> bool:
        """Whether the file gives every size of a tensor, as a program does that has run the model."""
        tensor = self.declared[name].tensor_type if name in self.declared else onnx.TypeProto.Tensor()
        return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)

    def _assumed(self, node: onnx.NodeProto, name: str, found: Value | None, inputs: Sequence[Value | None]) -> Value:
        """Return a guess at an output: as the file declares it, or as large as the first input."""
        declared = self.declared.get(name)
        elem_type, shape = self._read(declared, name)
        self.dimensions.refuse_missing(f"The size of {shown(name)}, which {shown(node.op_type)} computes, is left open")
        elem_type = (found.elem_type if found is not None else 0) or elem_type or _usual_type(node, inputs)
        if shape is not None:
            return Value(elem_type, shape, is_guess=not self._is_declared(name))
        self.assumed[node.op_type] = self.assumed.get(node.op_type, 0) + 1
        first = next((value for value in inputs if value is not None and not sequences.is_absent(value)), None)
        shape = () if first is None else first.shape if first.shape is not None else (first.elements,)
        value = Value(elem_type, shape, is_guess=True)
        is_sequence = node.op_type in sequences.GIVES_SEQUENCE or _is_other(declared) or self._gives_other(node)
        return sequence_of([value]) if is_sequence else value

    def _gives_other(self, node: onnx.NodeProto) -> bool:
        """Whether what an operator writes can be no tensor, but a sequence, a map or an optional value."""
        schema = self._schema(node)
        if schema is None or not schema.outputs:
            return False
        return not any(kind.startswith("tensor(") for kind in schema.outputs[0].types)

    def input_of(self, info: onnx.ValueInfoProto) -> Value:
        """Return an input of the graph, notes made of the dimensions without a size.

        The length of a sequence is one of them, and the number of entries of a map; an optional value is there.
        """
        return self._input(info.type, info.name)

    def _input(self, proto: onnx.TypeProto, name: str) -> Value:
        kind = proto.WhichOneof("value")
        if kind == "optional_type":
            return self._input(proto.optional_type.elem_type, name)
        if kind not in ("sequence_type", "map_type"):
            elem_type, shape = self._read(proto, name)
            return Value(elem_type, shape if shape is not None else (), is_guess=shape is None)
        inner = proto.sequence_type.elem_type if kind == "sequence_type" else proto.map_type.value_type
        item = self._input(inner, name)
        size = sequences.checked_length(self.dimensions.size(f"{name}.length") or 0)
        value = sequence_of([item] * size, item.elem_type)
        self.count_items(value)
        return value

    def _schema(self, node: onnx.NodeProto) -> Any:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in self.opsets:
            return None
        try:
            return onnx.defs.get_schema(node.op_type, self.opsets[domain], domain)
        except onnx.defs.SchemaError:
            return None

    def _inferred(
        self, schema: Any, node: onnx.NodeProto, inputs: Sequence[Value | None]
    ) -> tuple[dict[str, onnx.TypeProto], "Why | None"]:
        """Return the types that onnx infers, and why it cannot where it cannot."""
        types: dict[str, onnx.TypeProto] = {}
        data: dict[str, onnx.TensorProto] = {}
        for name, value in zip(node.input, inputs, strict=True):
            if value is not None:
                types[name] = value.type_proto
                if value.data is not None:
                    data[name] = onnx.numpy_helper.from_array(value.data)
        try:
            found: dict[str, onnx.TypeProto] = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._imports
            )
        except Exception as error:  # of many kinds, for models that cannot be
            return {}, Why(reason(error), is_contradiction="ShapeInferenceError" in str(error))
        return found, None

    def _read(self, proto: onnx.TypeProto | None, name: str) -> tuple[int, Shape | None]:
        """Return type and shape that a type has; open dimensions get the size that is given for them."""
        if proto is None or not proto.HasField("tensor_type"):
            return T.UNDEFINED, None
        tensor = proto.tensor_type
        elem_type = tensor.elem_type if tensor.elem_type in TENSOR_TYPES else T.UNDEFINED
        if not tensor.HasField("shape"):
            return elem_type, None
        if len(tensor.shape.dim) > MAX_RANK:
            raise SourceError(f"The tensor {shown(name)} has more than {MAX_RANK} dimensions; no tensor has.")
        sizes = []
        declared = self.declared.get(name)
        others = declared.tensor_type.shape.dim if declared is not None else []
        for axis, dim in enumerate(tensor.shape.dim):
            size: int | None = dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
            if size is None:
                other = others[axis] if axis < len(others) else None
                place = f"{name}.{axis}"
                if other is not None and other.HasField("dim_value") and other.dim_value >= 0:
                    size = other.dim_value
                else:
                    param = checked_text(dim.dim_param or (other.dim_param if other is not None else ""))
                    size = self.dimensions.size(place if param in NO_NAMES else param, place)
            sizes.append(size or 0)
        return elem_type, checked_shape(tuple(sizes), name)


def _is_other(proto: onnx.TypeProto | None) -> bool:
    """Whether it is the type of a sequence, a map or an optional value."""
    return proto is not None and proto.WhichOneof("value") not in (None, "tensor_type", "sparse_tensor_type")


def _usual_type(node: onnx.NodeProto, inputs: Sequence[Value | None]) -> int:
    """Return the element type of what an operator writes where none is inferred: that of its first input."""
    first = next((value for value in inputs if value is not None and value.elem_type != T.UNDEFINED), None)
    return OUTPUT_TYPES.get(node.op_type, first.elem_type if first is not None else T.FLOAT)


def folded(
    node: onnx.NodeProto, inputs: Sequence[Value | None], outputs: Sequence[Value], version: int
) -> list[NDArray[Any] | None]:
    """Return the values of the outputs of an operator on known values; None for those that are not computed."""
    unknown: list[NDArray[Any] | None] = [None] * len(node.output)
    data = [value.data if value is not None else None for value in inputs]
    if node.op_type not in FOLDED or node.domain not in ("", "ai.onnx"):
        return unknown
    if any(value is not None and values is None for value, values in zip(inputs, data, strict=True)):
        return unknown
    if any(value.shape is None or value.elements > MAX_FOLDED_ELEMENTS for value in outputs):
        return unknown
    if any(a.HasField("t") and _is_elsewhere(a.t) for a in node.attribute):
        return unknown
    feeds = {name: values for name, values in zip(node.input, data, strict=True) if values is not None}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            graph = onnx.helper.make_graph(
                [node],
                "folded",
                [onnx.ValueInfoProto(name=name) for name in feeds],
                [onnx.ValueInfoProto(name=name) for name in node.output],
            )
            model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)])
            results = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # the evaluator raises whatever numpy does on values that do not fit
        return unknown
    return [
        np.asarray(value) if getattr(value, "size", MAX_FOLDED_ELEMENTS + 1) <= MAX_FOLDED_ELEMENTS else None
        for value in results
    ]


def tensor_values(tensor: onnx.TensorProto) -> NDArray[Any] | None:
    """Return the values of a small tensor; None where they are not in the file, are texts or do not fit its shape."""
    if _is_elsewhere(tensor) or tensor.data_type not in TENSOR_TYPES or tensor.data_type == T.STRING:
        return None
    if np.prod(tensor.dims, dtype=float) > MAX_FOLDED_ELEMENTS:
        return None
    try:
        values: NDArray[Any] = onnx.numpy_helper.to_array(tensor)
    except Exception:  # onnx raises whatever numpy does on values that do not fit
        return None
    return values


def _is_elsewhere(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's values are in another file, which is never opened."""
    return tensor.data_location == T.EXTERNAL or bool(tensor.external_data)
