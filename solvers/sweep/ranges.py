"""Values of an axis as people write them: lists, ranges, steps and factors."""

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

from solvers.model.errors import PlacementError
from solvers.quantities import count

MAX_VALUES_READ = 10_000

T = TypeVar("T")


class RangeError(PlacementError):
    """Text that is no list of values; the message names the part and the remedy."""


def read_ranges(text: str, read: Callable[[str], T]) -> tuple[T, ...]:
    """Return the values in a text: numbers, FIRST:LAST, FIRST:LAST:STEP or FIRST:LAST:xFACTOR, with commas between.

    Both ends belong to a range. `read` reads one value and raises what it will. Raises RangeError for anything else.

    >>> read_ranges("1, 2, 4:8:2", float), read_ranges("1:8:x2", int)
    ((1.0, 2.0, 4.0, 6.0, 8.0), (1, 2, 4, 8))
    """
    values: list[T] = []
    for part in text.split(","):
        for value in _range(part.strip(), read):
            values.append(value)
            if len(values) > MAX_VALUES_READ:
                raise RangeError(f"{_quoted(part)} has more than {count(MAX_VALUES_READ)} values; give a larger step")
    return tuple(values)


def _range(text: str, read: Callable[[str], T]) -> Iterator[T]:
    first, *rest = (part.strip() for part in text.split(":"))
    if not rest:
        yield read(first)
        return
    if len(rest) > 2:
        raise RangeError(f"{_quoted(text)} is no range; write 2:16, 2:16:2 or 1:64:x2")
    read(first), read(rest[0])  # what is wrong with an end is said of the end
    low, high = float(first), float(rest[0])
    step = rest[1] if len(rest) == 2 else "1"
    is_factor = step[:1] in ("x", "X")
    try:
        size = float(step[1:] if is_factor else step)
    except ValueError:
        size = 0.0
    if not 0 < size < float("inf"):
        raise RangeError(f"{_quoted(text)} has no usable step; give one above 0, or a factor such as x2")
    if high < low:
        raise RangeError(f"{_quoted(text)} goes down; write the smaller end first")
    if is_factor and (size <= 1 or low <= 0):
        raise RangeError(f"{_quoted(text)} does not grow; give a factor above 1 and a first value above 0")
    # Worked out from the first value each time: a sum of many steps would miss the last value by rounding.
    for i in itertools.count():
        try:
            value = low * size**i if is_factor else low + i * size
        except OverflowError:
            raise RangeError(f"{_quoted(text)} has no usable step; give a smaller factor") from None
        if not value <= high * (1 + 1e-9):
            return
        yield read(f"{value:.12g}")


def _quoted(text: str) -> str:
    return f'"{text if len(text) <= 40 else text[:37] + "..."}"'
