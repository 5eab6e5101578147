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
from solvers.importers.onnx.layers import PARAMETER, kinds_of
from solvers.importers.onnx.operators import Operator, costed, elements_of, joined, moved
from solvers.importers.onnx.sequences import grown
from solvers.importers.onnx.shapes import ShapeError, ShapeReader, folded, tensor_values
from solvers.importers.onnx.subgraphs import items_of, slices_of, unchanged
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
    sequence_of,
    written,
)
from solvers.model.errors import SourceError
from solvers.quantities import count

Scope = MutableMapping[str, Value]

VIEWS = names("Identity Reshape Flatten Squeeze Unsqueeze Dropout Optional OptionalGetElement")
KNOWN_OF_SEQUENCES = names("SequenceLength OptionalHasElement")
RANDOM = names("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli")


@dataclass
class Interpreter:
    """Collects operators; `element_bytes` are those of an element in the usual format.

    `uncounted` are operators with arithmetic of which the shapes do not tell how much.
    """

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
    uncounted: Counter[str] = field(default_factory=Counter)
    is_quantized: bool = False

    def initializers(self, graph: onnx.GraphProto, scope: Scope, prefix: str) -> None:
        """Add the initialisers of a graph to a scope."""
        kinds = kinds_of(graph)
        for tensor in graph.initializer:
            value = self._constant(tensor, checked_text(tensor.name), prefix, is_initializer=True)
            if tensor.name in kinds and value.elem_type in FLOATS:
                is_parameter = kinds[tensor.name] == PARAMETER
                is_buffer = not is_parameter and value.elements > 1
                own = (replace(w, is_parameter=is_parameter, is_buffer=is_buffer) for w in value.weights or ())
                value = replace(value, weights=frozenset(own))
            scope[tensor.name] = value
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
        if is_standard and node.op_type in ("If", "Loop", "Scan", "SequenceMap"):
            return self._with_graphs(node, inputs, attributes, scope)
        outputs = self.shapes.outputs(node, inputs, attributes)
        first = inputs[0] if inputs else None
        if is_standard and node.op_type in ("Shape", "Size") and first is not None and first.shape is not None:
            self._fold_shape(node, first, attributes, scope)
            return []
        if is_standard and node.op_type in KNOWN_OF_SEQUENCES and outputs[0].is_constant:
            self.num_folded += 1
            scope[node.output[0]] = outputs[0]
            return []
        present = [value for value in inputs if value is not None]
        is_empty = is_standard and node.op_type in ("SequenceEmpty", "Optional")
        if (present or is_empty) and all(value.is_constant for value in present) and node.op_type not in RANDOM:
            self._fold(node, inputs, outputs, scope)
            return []
        if is_standard and node.op_type in VIEWS and first is not None:
            self.num_views += 1
            output = outputs[0] if first.items is None else first
            scope[node.output[0]] = replace(
                first, shape=output.shape, items=output.items, data=None, is_guess=output.is_guess
            )
            for name, value in list(zip(node.output, outputs, strict=True))[1:]:
                scope[name] = replace(value, weights=frozenset())
            return []
        operator = costed(node, inputs, outputs, attributes, self._new_id(), self.element_bytes)
        self.is_quantized |= any(weight.bytes_each is not None for weight in operator.weights)
        if operator.lacks_flops:
            self.uncounted[node.op_type] += 1
        self._add_outputs(node, outputs, operator, scope)
        return [operator]

    def _fold(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], outputs: Sequence[Value], scope: Scope
    ) -> None:
        """Add what an operator computes of constants, once and at no cost."""
        self.num_folded += 1
        weights = frozenset().union(*(value.weights or frozenset() for value in inputs if value is not None))
        values = folded(node, inputs, outputs, self.shapes.opsets.get("", 1))
        for name, value, data in zip(node.output, outputs, values, strict=True):
            if value.weights is not None:  # it was taken out of a sequence of constants, or is one
                scope[name] = value
            elif data is not None:
                scope[name] = replace(value, shape=tuple(data.shape), weights=weights, data=data)
            else:
                scope[name] = replace(value, weights=weights)

    def _add_outputs(self, node: onnx.NodeProto, outputs: Sequence[Value], operator: Operator, scope: Scope) -> None:
        """Add what an operator writes to the scope; several tensors get names, which are theirs wherever they go."""
        made = [
            (name, replace(written(value), producer=operator.id))
            for name, value in zip(node.output, outputs, strict=True)
            if name
        ]
        if len(made) > 1:
            made = [(name, replace(value, tensor=f"output {i + 1}")) for i, (name, value) in enumerate(made)]
            operator.outputs = tuple((value.tensor, elements_of(value, self.element_bytes)) for _, value in made)
        scope.update(made)

    def _fold_shape(self, node: onnx.NodeProto, value: Value, attributes: Mapping[str, Any], scope: Scope) -> None:
        """Add the size of a tensor, or its shape, which are known whatever is in it."""
        self.num_folded += 1
        shape = value.shape or ()
        start, end = (attributes.get(name) for name in ("start", "end"))
        if node.op_type == "Size":
            data = np.array(math.prod(shape), np.int64)
        else:
            data = np.array(shape[_whole(start) : _whole(end)], np.int64)
        scope[node.output[0]] = Value(T.INT64, data.shape, None, frozenset(), data, is_guess=value.is_guess)

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

    def _new_id(self) -> int:
        self.last_id += 1
        return self.last_id

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
        elif node.op_type == "SequenceMap":
            trips, given = items_of(inputs)
            num_first, num_carried = 0, 0
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
        outputs: list[Value] = []
        for i, name in enumerate(node.output):
            result = inner.get(graph.output[i + num_first].name) if i + num_first < len(graph.output) else None
            value = written(result) if result is not None else Value(T.FLOAT, ())
            if node.op_type == "SequenceMap":
                value = sequence_of([value] * trips, value.elem_type)
            elif i >= num_carried and value.shape is not None:
                value = replace(value, shape=checked_shape((trips, *value.shape), name))
            elif i < num_carried and value.items is not None and (before := given[i + len(given) - num_carried]):
                value = grown(before, value, trips)
            self.shapes.count_items(value)
            outputs.append(value)
        return self._joined(node, inputs, outputs, operators, operators, trips, scope)

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
            before = dict(self.shapes.unknown), dict(self.shapes.assumed), dict(self.shapes.guessed)
            uncounted = self.uncounted.copy()
            try:
                self.initializers(branch, inner, prefix)
                operators = self.run(branch.node, inner, prefix)
            except ShapeError as error:  # with these sizes it is another branch that runs
                refusals.append(error)
                self.shapes.unknown, self.shapes.assumed, self.shapes.guessed = before
                self.uncounted = uncounted
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
        costlier, results = max(runs, key=lambda run: (sum(op.flops for op in run[0]), moved(run[0])))
        outputs = [
            written(value) if value is not None else Value(T.FLOAT, ())
            for value in [*results, *[None] * len(node.output)][: len(node.output)]
        ]
        return self._joined(node, inputs, outputs, costlier, [op for run, _ in runs for op in run], 1, scope)

    def _joined(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        run: Sequence[Operator],
        held: Sequence[Operator],
        trips: int,
        scope: Scope,
    ) -> list[Operator]:
        """Return the one operator of a graph that runs `trips` times, and add what it writes to the scope."""
        whole = joined(node, inputs, outputs, run, held, trips, self._new_id(), self.element_bytes)
        self._add_outputs(node, outputs, whole, scope)
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
