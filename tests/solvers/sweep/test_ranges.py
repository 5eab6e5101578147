"""Values of an axis as text: what is no list of values is said in a sentence, whatever the numbers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.sweep.ranges import MAX_VALUES_READ, RangeError, read_ranges
from tests.support.examples import examples


def read(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise RangeError(f"{text!r} is no number") from None


@pytest.mark.parametrize("text", ["1:1e308:x1e200", "1e-308:1e308:x1e300"])
def test_a_factor_beyond_the_largest_number_is_refused(text: str) -> None:
    with pytest.raises(RangeError, match="give a smaller factor"):
        read_ranges(text, read)


def test_a_step_beyond_the_largest_number_ends_a_range() -> None:
    assert read_ranges("1:1e308:1e308", read) == (1.0, 1e308)


PARTS = st.lists(
    st.floats().map(str) | st.sampled_from(["1e308", "1e-308", "x", "", "x1e200", "x1.0000001"]), max_size=4
)


@given(st.lists(PARTS.map(":".join), max_size=3).map(",".join))
@examples(300)
def test_no_numbers_break_the_reader(text: str) -> None:
    with suppress(RangeError):
        assert len(read_ranges(text, read)) <= MAX_VALUES_READ
