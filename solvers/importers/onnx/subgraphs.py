"""What goes into the graph inside a Loop or a Scan, and what stays the same from trip to trip."""

from collections.abc import Sequence
from dataclasses import replace

import onnx

from solvers.importers.checked import short
from solvers.importers.onnx.tensors import Value
from solvers.model.errors import SourceError


def unchanged(graph: onnx.GraphProto, num_first: int, num_carried: int, num_given: int) -> set[int]:
    """Return the places of those values that a Loop or Scan is given and hands on as they are in every trip."""
    renamed = (node for node in graph.node if node.op_type == "Identity" and len(node.input) == len(node.output) == 1)
    same = {node.output[0]: node.input[0] for node in renamed}
    first_given = num_given - num_carried if num_first else 0
    found: set[int] = set()
    for i in range(num_carried):
        if i + num_first >= len(graph.output) or i + first_given >= len(graph.input):
            break
        name, wanted = graph.output[i + num_first].name, graph.input[i + first_given].name
        for _ in range(len(same)):
            if name == wanted or name not in same:
                break
            name = same[name]
        if name == wanted:
            found.add(i + first_given)
    return found


def slices_of(scanned: Sequence[Value | None], axes: Sequence[int], node: onnx.NodeProto) -> tuple[int, list[Value]]:
    """Return how often a Scan runs, and what it is given of each input then."""
    trips, slices = 0, []
    for value, axis in zip(scanned, axes, strict=False):
        if value is not None and value.is_guess and not value.shape:
            trips = max(trips, 1)
            slices.append(value)
            continue
        if value is None or not value.shape or not -len(value.shape) <= axis < len(value.shape):
            raise SourceError(f"The Scan {short(node.name)} goes over an input that has no such axis; mend the model.")
        trips = value.shape[axis]
        axis %= len(value.shape)
        slices.append(replace(value, shape=(*value.shape[:axis], *value.shape[axis + 1 :]), data=None))
    return trips, slices


def items_of(inputs: Sequence[Value | None]) -> tuple[int, list[Value | None]]:
    """Return how often a SequenceMap runs, and what it is given then: of each sequence the largest tensor."""
    first = inputs[0] if inputs else None
    if first is None or first.items is None:
        return 1, [*inputs]
    largest = [value.items.largest if value is not None and value.items is not None else value for value in inputs]
    return len(first.items.values), largest
