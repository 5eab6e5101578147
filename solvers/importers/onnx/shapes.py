"""Shapes of what an operator computes, by onnx's own inference, by rules for ONNX Runtime's operators, or as declared.

Operators on constants alone are computed here where they are few numbers, by onnx's reference evaluator, so that sizes
computed from sizes are known.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx.shape_inference
from numpy.typing import NDArray

from solvers.importers.limits import MAX_FOLDED_ELEMENTS, MAX_RANK
from solvers.importers.onnx.contrib import OUTPUT_TYPES, RULES, contrib_shapes
from solvers.importers.onnx.model_file import Dimensions, reason, shown
from solvers.importers.onnx.tensors import Shape, T, Value, checked_shape, checked_text, names
from solvers.model.errors import SourceError

FOLDED = names(
    "Abs Add And Cast Ceil Concat ConstantOfShape CumSum Div Equal Expand Flatten Floor Gather GatherElements "
    "GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg NonZero Not Or Pow Range "
    "ReduceMax ReduceMin ReduceProd ReduceSum Reshape Round ScatterElements ScatterND Shape Sign Size Slice "
    "Split Sqrt Squeeze Sub Tile Transpose Trilu Unsqueeze Where Xor"
)
"""Operators that are computed where all they read is known and little."""
NO_NAMES = ("", "?", "None", "-1")
"""What exporters call a dimension that has no name."""
TENSOR_TYPES = frozenset(T.DataType.values()) - {T.UNDEFINED}


class ShapeError(SourceError):
    """Shapes that do not fit an operator."""


@dataclass
class ShapeReader:
    """Shapes under the opsets of a file, with the types that it declares by name.

    `unknown` are operators that nobody knows, and `assumed` those whose shapes were taken from elsewhere.
    """

    opsets: Mapping[str, int]
    dimensions: Dimensions
    declared: dict[str, onnx.TypeProto]
    unknown: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]

    def outputs(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> list[tuple[int, Shape | None]]:
        """Return type and shape of every output; a shape is None where the output is no tensor.

        Raises SourceError where a dimension has no size, and names it.
        """
        schema = self._schema(node)
        inferred, why = ({}, "") if schema is None else self._inferred(schema, node, inputs)
        rule = RULES.get(node.op_type) if schema is None else None
        by_rule: Sequence[Shape | None] = ()
        if rule is not None:
            shapes = [value.shape if value is not None else None for value in inputs]
            by_rule = contrib_shapes(node.op_type, shapes, attributes) or ()
        elif schema is None:
            name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            self.unknown[name] = self.unknown.get(name, 0) + 1
        first = next((value for value in inputs if value is not None and value.shape is not None), None)
        found: list[tuple[int, Shape | None]] = []
        for i, name in enumerate(node.output):
            if not name:
                found.append((T.UNDEFINED, None))
                continue
            usual_type = OUTPUT_TYPES.get(node.op_type, first.elem_type if first is not None else T.FLOAT)
            if i < len(by_rule) and by_rule[i] is not None:
                found.append((usual_type, checked_shape(tuple(by_rule[i] or ()), name)))
                continue
            elem_type, shape = self._read(inferred.get(name), name)
            if shape is None and _is_other(inferred.get(name)):
                found.append((T.UNDEFINED, None))
                continue
            if shape is None:
                declared_type, shape = self._read(self.declared.get(name), name)
                elem_type = elem_type or declared_type
            self.dimensions.refuse_missing(
                f"The size of {shown(name)}, which {shown(node.op_type)} computes, cannot be derived from the file"
            )
            if shape is None:
                if why and all(value is None or value.elem_type != T.UNDEFINED for value in inputs):
                    raise ShapeError(f"The operator {shown(node.name or name)} ({node.op_type}) cannot be: {why}.")
                shape = first.shape if first is not None else ()
                self.assumed[node.op_type] = self.assumed.get(node.op_type, 0) + 1
            found.append((elem_type or usual_type, checked_shape(shape or (), name)))
        return found

    def is_known(self, node: onnx.NodeProto) -> bool:
        """Whether the standard or ONNX Runtime has an operator of this name."""
        return self._schema(node) is not None or node.op_type in RULES

    def shape_of(self, info: onnx.ValueInfoProto) -> tuple[int, Shape | None]:
        """Return type and shape of an input of the graph, notes made of the dimensions without a size."""
        return self._read(info.type, info.name)

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
    ) -> tuple[dict[str, onnx.TypeProto], str]:
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
            return {}, reason(error)
        return found, ""

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


def folded(
    node: onnx.NodeProto, inputs: Sequence[Value | None], outputs: Sequence[tuple[int, Shape | None]], version: int
) -> list[NDArray[Any] | None]:
    """Return the values of the outputs of an operator on known values; None for those that are not computed."""
    unknown: list[NDArray[Any] | None] = [None] * len(node.output)
    data = [value.data if value is not None else None for value in inputs]
    if node.op_type not in FOLDED or node.domain not in ("", "ai.onnx"):
        return unknown
    if any(value is not None and values is None for value, values in zip(inputs, data, strict=True)):
        return unknown
    if any(shape is None or np.prod(shape, dtype=float) > MAX_FOLDED_ELEMENTS for _, shape in outputs):
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
