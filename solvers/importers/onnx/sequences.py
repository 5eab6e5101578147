"""Sequences of tensors and optional values: which tensors operators put into them and take out again.

Each rule takes what an operator reads, its attributes, and a way to ask for the length of what it writes where only
data tells. It returns what the operator writes, a guess where data decides among several shapes, and raises Unfit where
it cannot be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from solvers.importers.limits import MAX_SEQUENCE_ITEMS
from solvers.importers.onnx.contrib import Attributes, integer
from solvers.importers.onnx.tensors import Items, Shape, T, Value, sequence_of
from solvers.model.errors import SourceError
from solvers.quantities import count

Inputs = Sequence[Value | None]
Rule = Callable[[Inputs, Attributes, Callable[[], int]], Value]
ABSENT = Value(T.UNDEFINED, None, weights=frozenset())
"""An optional value that is left out."""


def is_absent(value: Value) -> bool:
    """Whether it is an optional value that is left out."""
    return value.shape is None and value.items is None


def has_rule(node: onnx.NodeProto, inputs: Inputs) -> bool:
    """Whether an operator is one on sequences or optional values, or hands one on."""
    if node.domain not in ("", "ai.onnx"):
        return False
    first = inputs[0] if inputs else None
    return node.op_type in RULES and (node.op_type != "Identity" or (first is not None and first.shape is None))


class Unfit(Exception):  # noqa: N818 - it is caught where it is known which operator it is about
    """Why an operator cannot be applied to what it reads."""


def sequence_output(op_type: str, inputs: Inputs, attributes: Attributes, ask_length: Callable[[], int]) -> Value:
    """Return what an operator of `RULES` writes; Unfit where it cannot."""
    try:
        return RULES[op_type](inputs, attributes, ask_length)
    except SourceError:
        raise
    except (IndexError, TypeError, ValueError, AttributeError):
        raise Unfit("what it reads is no such sequence, or has no such place") from None


def checked_length(length: int) -> int:
    """Return the length of a sequence; SourceError where none is so long."""
    if not 0 <= length <= MAX_SEQUENCE_ITEMS:
        raise SourceError(f"The file has a sequence of {count(length)} tensors; up to {count(MAX_SEQUENCE_ITEMS)} go.")
    return length


def grown(given: Value, result: Value, trips: int) -> Value:
    """Return a sequence after all trips of a loop, of which the first one made `result` of `given`."""
    if given.items is None or result.items is None:
        return result
    if not trips:
        return given
    before, after = given.items.values, result.items.values
    more = len(after) - len(before)
    if more <= 0:
        return result
    checked_length(len(before) + trips * more)
    return sequence_of([*after, *after[-more:] * (trips - 1)], result.elem_type)


def _items(inputs: Inputs) -> Items:
    first = inputs[0]
    if first is None or first.items is None:
        raise TypeError
    return first.items


def _data(inputs: Inputs, place: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None":
    """Return the numbers of an input, None where they are not known."""
    value = inputs[place]
    return None if value is None or value.data is None else value.data.astype(np.int64)


def _place(inputs: Inputs, place: int) -> int | None:
    data = _data(inputs, place)
    return None if data is None else int(data.reshape(()))


def _empty(_: Inputs, attributes: Attributes, __: Callable[[], int]) -> Value:
    return sequence_of((), integer(attributes, "dtype", T.FLOAT))


def _construct(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    return sequence_of([value for value in inputs if value is not None])


def _at(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    items, place = _items(inputs), _place(inputs, 1)
    if place is not None:
        return items.values[place]
    if items.largest is None:
        raise IndexError
    return replace(items.largest, data=None, is_guess=items.largest.is_guess or items.shape is None)


def _insert(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    values, new = [*_items(inputs).values], inputs[1]
    if new is None:
        raise TypeError
    place = _place(inputs, 2) if len(inputs) > 2 else len(values)
    values.insert(len(values) if place is None else place, new)
    return _in_unknown_order(values, is_known=place is not None)


def _erase(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    values = [*_items(inputs).values]
    place = _place(inputs, 1) if len(inputs) > 1 and inputs[1] is not None else -1
    del values[-1 if place is None else place]
    return _in_unknown_order(values, is_known=place is not None)


def _in_unknown_order(values: Sequence[Value], *, is_known: bool) -> Value:
    """Return a sequence, a guess where its order is not known and matters."""
    made = sequence_of(values)
    shape = made.items.shape if made.items is not None else None
    return made if is_known or shape is not None or not values else replace(made, is_guess=True)


def _length(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    data = np.array(len(_items(inputs).values), np.int64)
    return Value(T.INT64, (), None, frozenset(), data)


def _split(inputs: Inputs, attributes: Attributes, ask_length: Callable[[], int]) -> Value:
    whole, parts = inputs[0], inputs[1] if len(inputs) > 1 else None
    if whole is None or whole.shape is None:
        raise TypeError
    axis = range(len(whole.shape))[integer(attributes, "axis", 0)]
    size = whole.shape[axis]
    data = _data(inputs, 1) if parts is not None else None
    is_guess = whole.is_guess
    drops = parts is None and not integer(attributes, "keepdims", 1)
    if parts is None:
        sizes = [1] * checked_length(size)
    elif data is not None and data.ndim == 0:
        each = max(1, int(data))
        sizes = [min(each, size - i * each) for i in range(checked_length(-(-size // each)))]
    elif data is not None:
        sizes = [int(part) for part in data]
    else:  # the parts are one whole, whatever their sizes
        known = max(1, parts.shape[0] if parts.shape and not parts.is_guess else ask_length())
        sizes = [size // known + (i < size % known) for i in range(checked_length(known))]
        is_guess = True
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise Unfit(f"its parts are {count(sum(sizes))} of {count(size)}")
    shapes = [(*whole.shape[:axis], *(() if drops else (part,)), *whole.shape[axis + 1 :]) for part in sizes]
    made = {shape: Value(whole.elem_type, shape, is_guess=is_guess) for shape in shapes}
    return sequence_of([made[shape] for shape in shapes], whole.elem_type)


def _concat(inputs: Inputs, attributes: Attributes, _: Callable[[], int]) -> Value:
    items, axis = _items(inputs), integer(attributes, "axis", 0)
    shapes = [value.shape or () for value in items.values]
    first, is_new = shapes[0], integer(attributes, "new_axis", 0)
    if is_new:
        axis = range(len(first) + 1)[axis]
        shape: Shape = (*first[:axis], len(shapes), *first[axis:])
        others = {*shapes}
    else:
        axis = range(len(first))[axis]
        shape = (*first[:axis], sum(other[axis] for other in shapes), *first[axis + 1 :])
        others = {(*other[:axis], *other[axis + 1 :]) for other in shapes}
    if len(others) > 1:
        raise Unfit("the shapes of the sequence's tensors do not fit together")
    first_item = items.values[0]
    return Value(first_item.elem_type, shape, is_guess=any(value.is_guess for value in items.values))


def _itself(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    value = inputs[0]
    if value is None or is_absent(value):
        raise Unfit("the optional value that it takes is left out")
    return value


def _optional(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    value = inputs[0] if inputs else None
    return ABSENT if value is None else value


def _has(inputs: Inputs, _: Attributes, __: Callable[[], int]) -> Value:
    value = inputs[0] if inputs else None
    is_there = value is not None and not is_absent(value)
    return Value(T.BOOL, (), None, frozenset(), np.array(is_there))


RULES: Mapping[str, Rule] = {
    "SequenceEmpty": _empty,
    "SequenceConstruct": _construct,
    "SequenceAt": _at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": _length,
    "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": _itself,
    "OptionalHasElement": _has,
    "Identity": _optional,
}
GIVES_SEQUENCE = frozenset({"SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SplitToSequence"})
