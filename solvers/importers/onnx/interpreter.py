"""Go through the operators of an ONNX graph: what each computes, reads and writes, and from which others it reads.

Operators on constants alone cost nothing, since they are computed once; so do sizes of tensors and what is computed of
them. What gives a tensor another shape, or another name, is no operator at all. If, Loop and Scan are one operator
each, with all weights of the graphs inside: the costlier branch, or as many trips as are known.
"""

import math
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from solvers.importers.checked import short
from solvers.importers.limits import MAX_KEPT_TENSOR_BYTES, MAX_ONNX_OPERATORS, MAX_TRIPS
from solvers.importers.onnx.arithmetic import (
    GATES,
    MICROSOFT,
    flops_of,
    has_flops,
    recomputed_flops_of,
    recurrence_backward,
)
from solvers.importers.onnx.layers import layer_name, module_path, printable
from solvers.importers.onnx.shapes import ShapeError, ShapeReader, folded, tensor_values
from solvers.importers.onnx.subgraphs import slices_of, unchanged
from solvers.importers.onnx.tensors import (
    FLOATS,
    QUANTIZED,
    T,
    Value,
    Weight,
    bytes_each,
    checked_shape,
    checked_text,
    names,
)
from solvers.model.errors import SourceError
from solvers.quantities import count

Scope = MutableMapping[str, Value]
Type = tuple[int, tuple[int, ...] | None]
"""Element type and shape of a tensor, None where the shape is not known."""

VIEWS = names("Identity Reshape Flatten Squeeze Unsqueeze Dropout")
RANDOM = names("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli")
LOOKUPS = names("Gather GatherElements GatherND Slice Split Compress EmbedLayerNormalization Expand")
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
    internal_elements: int = 0
    is_float: bool = True
    has_flops: bool = False
    outputs: tuple[tuple[str, int], ...] = ()
    reads: frozenset[tuple[int, str]] = frozenset()


@dataclass
class Interpreter:
    """Collects operators; `element_bytes` are those of an element in the usual format."""

    shapes: ShapeReader
    element_bytes: float
    last_id: int = -1
    num_operators: int = 0
    num_folded: int = 0
    num_views: int = 0
    num_external: int = 0
    num_graphs: int = 0
    num_impossible: int = 0
    open_loops: Counter[str] = field(default_factory=Counter)
    is_quantized: bool = False

    def initializers(self, graph: onnx.GraphProto, scope: Scope, prefix: str) -> None:
        """Add the initialisers of a graph to a scope."""
        for tensor in graph.initializer:
            scope[tensor.name] = self._constant(tensor, checked_text(tensor.name), prefix, is_initializer=True)
        for sparse in graph.sparse_initializer:
            dims = checked_shape(tuple(sparse.dims), sparse.values.name)
            value = self._constant(sparse.values, checked_text(sparse.values.name), prefix, is_initializer=True)
            scope[sparse.values.name] = replace(value, shape=dims, data=None)

    def _constant(self, tensor: onnx.TensorProto, name: str, prefix: str, *, is_initializer: bool) -> Value:
        shape = checked_shape(tuple(tensor.dims), name)
        elements = math.prod(shape)
        is_parameter = tensor.data_type in FLOATS | QUANTIZED and elements > 1 and (is_initializer or elements > 64)
        self.num_external += tensor.data_location == T.EXTERNAL
        weight = Weight(prefix + name, elements, bytes_each(tensor.data_type), is_parameter)
        data = tensor_values(tensor) if tensor.ByteSize() <= 2 * MAX_KEPT_TENSOR_BYTES else None
        return Value(tensor.data_type, shape, None, frozenset({weight}), data)

    def run(self, nodes: Iterable[onnx.NodeProto], scope: Scope, prefix: str) -> list[Operator]:
        """Return the operators of a graph in its order; what they compute is added to the scope."""
        operators: list[Operator] = []
        for node in nodes:
            self.num_operators += 1
            if self.num_operators > MAX_ONNX_OPERATORS:
                raise SourceError(f"The file has more than {count(MAX_ONNX_OPERATORS)} operators; give a part of it.")
            for name in (node.op_type, node.domain, node.name, *node.input, *node.output):
                checked_text(name)
            if not node.output:  # it computes nothing
                continue
            inputs = [self._input(name, node, scope) for name in node.input]
            operators += self._operator(node, inputs, scope, prefix)
        return operators

    def _input(self, name: str, node: onnx.NodeProto, scope: Scope) -> Value | None:
        if name and name not in scope:
            raise SourceError(
                f"The operator {short(node.name or node.op_type)} reads {short(name)}, which nothing computes before "
                "it; give a complete model."
            )
        return scope[name] if name else None

    def _operator(self, node: onnx.NodeProto, inputs: list[Value | None], scope: Scope, prefix: str) -> list[Operator]:
        attributes = _attributes(node)
        is_standard = node.domain in ("", "ai.onnx")
        if is_standard and node.op_type == "Constant":
            self.num_folded += 1
            self._add_constant(node, attributes, scope, prefix)
            return []
        if is_standard and node.op_type in ("If", "Loop", "Scan"):
            return self._with_graphs(node, inputs, attributes, scope)
        types = self.shapes.outputs(node, inputs, attributes)
        first = inputs[0] if inputs else None
        if is_standard and node.op_type in ("Shape", "Size") and first is not None and first.shape is not None:
            self._fold_shape(node, first.shape, attributes, scope)
            return []
        present = [value for value in inputs if value is not None]
        if present and all(value.is_constant for value in present) and node.op_type not in RANDOM:
            self.num_folded += 1
            version = self.shapes.opsets.get("", 1)
            weights = frozenset().union(*(value.weights or frozenset() for value in present))
            values = folded(node, inputs, types, version)
            for name, (elem_type, shape), data in zip(node.output, types, values, strict=True):
                shape = tuple(data.shape) if data is not None else shape
                scope[name] = Value(elem_type, shape, None, weights, data)
            return []
        if is_standard and node.op_type in VIEWS and first is not None:
            self.num_views += 1
            scope[node.output[0]] = replace(first, shape=types[0][1], data=None)
            for name, (elem_type, shape) in list(zip(node.output, types, strict=True))[1:]:
                scope[name] = Value(elem_type, shape, None, frozenset())
            return []
        operator = self._costed(node, inputs, types, attributes)
        self._add_outputs(node, types, operator, scope)
        return [operator]

    def _add_outputs(self, node: onnx.NodeProto, types: Sequence[Type], operator: Operator, scope: Scope) -> None:
        """Add what an operator writes to the scope; several tensors get names, which are theirs wherever they go."""
        written = [(name, Value(*known, operator.id)) for name, known in zip(node.output, types, strict=True) if name]
        if len(written) > 1:
            written = [(name, replace(value, tensor=f"output {i + 1}")) for i, (name, value) in enumerate(written)]
            operator.outputs = tuple((value.tensor, self.elements(value)) for _, value in written)
        scope.update(written)

    def _fold_shape(
        self, node: onnx.NodeProto, shape: tuple[int, ...], attributes: Mapping[str, Any], scope: Scope
    ) -> None:
        """Add the size of a tensor, or its shape, which are known whatever is in it."""
        self.num_folded += 1
        start, end = (attributes.get(name) for name in ("start", "end"))
        if node.op_type == "Size":
            data = np.array(math.prod(shape), np.int64)
        else:
            data = np.array(shape[_whole(start) : _whole(end)], np.int64)
        scope[node.output[0]] = Value(T.INT64, data.shape, None, frozenset(), data)

    def _add_constant(self, node: onnx.NodeProto, attributes: Mapping[str, Any], scope: Scope, prefix: str) -> None:
        name = node.output[0] if node.output else ""
        for key, value in attributes.items():
            if key == "value" and isinstance(value, onnx.TensorProto):
                scope[name] = self._constant(value, name, prefix, is_initializer=False)
            elif key == "sparse_value" and isinstance(value, onnx.SparseTensorProto):
                constant = self._constant(value.values, name, prefix, is_initializer=False)
                scope[name] = replace(constant, shape=checked_shape(tuple(value.dims), name), data=None)
            elif key in ("value_float", "value_floats", "value_int", "value_ints"):
                elem_type = T.FLOAT if "float" in key else T.INT64
                data = np.array(value, np.float32 if "float" in key else np.int64)
                scope[name] = Value(elem_type, data.shape, None, frozenset(), data)
            elif key in ("value_string", "value_strings"):
                scope[name] = Value(T.STRING, () if key == "value_string" else (len(value),), None, frozenset())
            else:
                continue
            return
        raise SourceError(f"The constant {short(name)} has no value; give a complete model.")

    def elements(self, value: Value) -> int:
        """Return the elements of a tensor in elements of the usual format that take as many bytes."""
        each = value.bytes_each
        return value.elements if each is None else math.ceil(value.elements * each / self.element_bytes)

    def _costed(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        types: Sequence[tuple[int, tuple[int, ...] | None]],
        attributes: Mapping[str, Any],
    ) -> Operator:
        outputs = [Value(elem_type, shape) for elem_type, shape in types]
        written = sum(self.elements(value) for value in outputs)
        producers: dict[int, None] = {}
        weights: set[Weight] = set()
        reads = weight_reads = 0
        is_lookup = node.op_type in LOOKUPS
        for name, value in {
            name: value for name, value in zip(node.input, inputs, strict=True) if value is not None
        }.items():
            if value.producer is not None:
                producers[value.producer] = None
            own = value.weights or frozenset()
            if node.op_type in PACKED and name in node.input[1:2]:
                own = _unpacked(own, attributes.get("bits", PACKED[node.op_type]))
            if node.op_type in WITH_INTEGER_BIAS and value.elem_type == T.INT32:
                own = frozenset(replace(weight, is_parameter=True) for weight in own)
            weights |= {weight for weight in own if weight.is_parameter}
            stored = sum(weight.elements for weight in own if weight.is_parameter)
            if is_lookup:
                stored = min(stored, outputs[0].elements)
            weight_reads += stored
            if not stored:
                reads += min(self.elements(value), written) if is_lookup else self.elements(value)
            elif not is_lookup:
                # What is computed of a few weights, such as angles of positions, is read at its own size.
                reads += max(0, self.elements(value) - stored) if value.elements > stored else 0
        if node.op_type in GATES:
            weight_reads = self._recurrent_reads(node, inputs, weight_reads)
        shapes = [value.shape if value is not None else None for value in inputs]
        domain = MICROSOFT if node.domain == MICROSOFT else ""
        flops = flops_of(domain, node.op_type, shapes, [value.shape for value in outputs], attributes)
        backward = None
        if node.op_type in GATES and flops:  # else its shapes are none that it can have
            start = inputs[5] if len(inputs) > 5 else None
            learns_start = start is not None and start.producer is not None
            backward = recurrence_backward(shapes, attributes, flops, learns_start=learns_start)
        self.is_quantized |= any(weight.bytes_each is not None for weight in weights)
        return Operator(
            id=self._new_id(),
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
            is_float=any(value.elem_type in FLOATS for value in outputs),
            has_flops=has_flops(domain, node.op_type),
            reads=_reads(inputs),
        )

    def _new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def _recurrent_reads(self, node: onnx.NodeProto, inputs: Sequence[Value | None], reads: int) -> int:
        """A recurrence reads its recurrent weights at every step."""
        x, recurrent = inputs[0], inputs[2] if len(inputs) > 2 else None
        if x is None or recurrent is None or not x.shape or not recurrent.is_constant:
            return reads
        return reads + (max(1, x.shape[0]) - 1) * recurrent.elements

    # Graphs inside operators.

    def _with_graphs(
        self, node: onnx.NodeProto, inputs: list[Value | None], attributes: Mapping[str, Any], scope: Scope
    ) -> list[Operator]:
        graphs = [value for value in attributes.values() if isinstance(value, onnx.GraphProto)]
        if not graphs:
            raise SourceError(
                f"The operator {short(node.name or node.op_type)} has no graph inside; give a complete model."
            )
        self.num_graphs += 1
        if node.op_type == "If":
            return self._if(node, inputs, attributes, scope)
        graph = graphs[0]
        if node.op_type == "Loop":
            trips, carried = self._trips(node, inputs), inputs[2:]
            given: list[Value | None] = [Value(T.INT64, ()), Value(T.BOOL, ()), *carried]
            num_first, num_carried = 1, len(carried)
        else:
            num_scanned = attributes.get("num_scan_inputs")
            if not isinstance(num_scanned, int) or not 0 < num_scanned <= len(inputs):
                raise SourceError(
                    f"The Scan {short(node.name)} has no num_scan_inputs that can be; give a complete model."
                )
            states, scanned = inputs[:-num_scanned], inputs[-num_scanned:]
            axes = attributes.get("scan_input_axes") or [0] * num_scanned
            trips, slices = slices_of(scanned, axes, node)
            given, num_first, num_carried = [*states, *slices], 0, len(states)
        prefix = f"{self._new_id()}:"
        inner: Scope = ChainMap({}, scope)
        self.initializers(graph, inner, prefix)
        fixed = unchanged(graph, num_first, num_carried, len(given))
        for i, (info, value) in enumerate(zip(graph.input, given, strict=False)):
            if value is None:
                inner[info.name] = Value(T.FLOAT, ())
            else:
                inner[info.name] = value if i in fixed else replace(value, weights=None, data=None)
        operators = self.run(graph.node, inner, prefix)
        types: list[tuple[int, tuple[int, ...] | None]] = []
        for i, _ in enumerate(node.output):
            result = inner.get(graph.output[i + num_first].name) if i + num_first < len(graph.output) else None
            shape = result.shape if result is not None else ()
            if i >= num_carried and shape is not None:
                shape = checked_shape((trips, *shape), node.output[i])
            types.append((result.elem_type if result is not None else T.FLOAT, shape))
        return self._joined(node, inputs, types, operators, operators, trips, scope)

    def _if(
        self, node: onnx.NodeProto, inputs: list[Value | None], attributes: Mapping[str, Any], scope: Scope
    ) -> list[Operator]:
        names = ("then_branch", "else_branch")
        branches = [attributes[name] for name in names if isinstance(attributes.get(name), onnx.GraphProto)]
        condition = inputs[0].data if inputs and inputs[0] is not None else None
        if condition is not None and condition.size == 1 and len(branches) == 2:
            branches = [branches[0 if bool(condition.reshape(())) else 1]]
        runs: list[tuple[list[Operator], list[Value | None]]] = []
        refusals: list[SourceError] = []
        for branch in branches:
            prefix = f"{self._new_id()}:"
            inner: Scope = ChainMap({}, scope)
            before = dict(self.shapes.unknown), dict(self.shapes.assumed)
            try:
                self.initializers(branch, inner, prefix)
                operators = self.run(branch.node, inner, prefix)
            except ShapeError as error:  # with these sizes it is another branch that runs
                refusals.append(error)
                self.shapes.unknown, self.shapes.assumed = before
                continue
            runs.append((operators, [inner.get(output.name) for output in branch.output]))
        if refusals and not runs:
            raise refusals[0]
        if not runs:
            raise SourceError(f"The If {short(node.name)} has no branches; give a complete model.")
        self.num_impossible += len(refusals)
        if len(runs) == 1 and condition is not None:
            operators, results = runs[0]
            for name, value in zip(node.output, results, strict=False):
                if value is not None:
                    scope[name] = value
            return operators
        costlier, results = max(runs, key=lambda run: (sum(op.flops for op in run[0]), _moved(run[0])))
        types = [
            (value.elem_type, value.shape) if value is not None else (T.FLOAT, ())
            for value in [*results, *[None] * len(node.output)][: len(node.output)]
        ]
        return self._joined(node, inputs, types, costlier, [op for run, _ in runs for op in run], 1, scope)

    def _joined(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        types: Sequence[tuple[int, tuple[int, ...] | None]],
        run: Sequence[Operator],
        held: Sequence[Operator],
        trips: int,
        scope: Scope,
    ) -> list[Operator]:
        """Return the one operator of a graph that runs `trips` times, with the weights of all operators held."""
        inside = {op.id for op in held}
        producers = {v: None for op in held for v in op.inputs if v not in inside}
        producers.update({value.producer: None for value in inputs if value is not None and value.producer is not None})
        outputs = [Value(elem_type, shape) for elem_type, shape in types]
        whole = Operator(
            id=self._new_id(),
            name=printable(node.name or node.op_type),
            op_type=node.op_type,
            layer=layer_name(node),
            modules=module_path(node),
            inputs=tuple(producers),
            flops=trips * math.fsum(op.flops for op in run),
            recomputed_flops=0.0,
            backward_flops=None,
            output_elements=sum(self.elements(value) for value in outputs),
            input_reads=trips * sum(op.input_reads for op in run if not inside & set(op.inputs)),
            weights=frozenset().union(*(op.weights for op in held), *(_parameters(value) for value in inputs)),
            weight_reads=trips * sum(op.weight_reads for op in run),
            internal_elements=trips * sum(op.output_elements for op in run),
            has_flops=any(op.has_flops for op in run),
            reads=_reads(inputs) | {(u, tensor) for op in held for u, tensor in op.reads if u not in inside},
        )
        self._add_outputs(node, types, whole, scope)
        return [whole]

    def _trips(self, node: onnx.NodeProto, inputs: Sequence[Value | None]) -> int:
        limit = inputs[0].data if inputs and inputs[0] is not None else None
        if limit is not None and limit.size == 1 and 0 <= int(limit.reshape(())) <= MAX_TRIPS:
            return int(limit.reshape(()))
        name = f"{node.name or node.output[0]}.trips" if node.output else "trips"
        given = self.shapes.dimensions.given
        if name in given:
            self.shapes.dimensions.used[name] = given[name]
            return min(given[name], MAX_TRIPS)
        self.open_loops[name] += 1
        return 1


def _reads(inputs: Iterable[Value | None]) -> frozenset[tuple[int, str]]:
    """Return which tensors are read of operators that write several."""
    read = ((value.producer, value.tensor) for value in inputs if value is not None and value.tensor)
    return frozenset((producer, tensor) for producer, tensor in read if producer is not None)


def _parameters(value: Value | None) -> frozenset[Weight]:
    return frozenset(w for w in (value.weights or ()) if w.is_parameter) if value is not None else frozenset()


def _moved(operators: Sequence[Operator]) -> int:
    return sum(op.input_reads + op.output_elements + op.weight_reads for op in operators)


def _unpacked(weights: frozenset[Weight], bits: Any) -> frozenset[Weight]:
    """Return weights of which several lie in a byte, as many as there are."""
    each = bits / 8 if isinstance(bits, int) and bits in (1, 2, 3, 4, 8) else 0.5
    return frozenset(
        replace(weight, elements=round(weight.elements * (weight.bytes_each or 4.0) / each), bytes_each=each)
        for weight in weights
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of an operator by name; those of no known kind are left out."""
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        try:
            found[attribute.name] = onnx.helper.get_attribute_value(attribute)
        except ValueError:
            continue
    return found
