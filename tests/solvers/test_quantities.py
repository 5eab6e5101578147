"""Words for numbers: how far a plan may be from the optimum is said by one definition, and never too little."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.quantities import UNKNOWN, above_bound, proven_distance
from tests.support.examples import examples

POSITIVE = st.floats(1e-300, 1e300)


@pytest.mark.parametrize(
    ("value", "bound", "cell", "sentence"),
    [
        (10.13, 2.38, "4.26 ×", "at most 4.26 × the optimum"),  # 76.5 % of the value, which says nothing of the optimum
        (10.0, 8.0, "25 %", "at most 25 % above the optimum"),
        (10.0, 5.0, "2 ×", "at most 2 × the optimum"),
        (1.9996, 1.0, "100 %", "at most 100 % above the optimum"),
        (1.0001, 1.0, "<0.05 %", "less than 0.05 % above the optimum"),
        (1.0 + 1e-7, 1.0, "0 %", "equal to the bound"),
        (3.0, 3.0, "0 %", "equal to the bound"),
        (0.0, 0.0, "0 %", "equal to the bound"),
        (1.0, 0.0, "no limit", "no useful bound"),
        (1e300, 1e-300, "no limit", "no useful bound"),
        (math.inf, 1.0, "no limit", "no useful bound"),
        (None, 1.0, UNKNOWN, "no bound"),
        (1.0, None, UNKNOWN, "no bound"),
    ],
)
def test_the_distance_from_the_optimum_in_known_cases(
    value: float | None, bound: float | None, cell: str, sentence: str
) -> None:
    assert above_bound(value, bound) == cell
    assert proven_distance(value, bound) == sentence


@examples(300)
@given(bound=POSITIVE, ratio=st.floats(1.0, 1e6))
def test_what_is_written_is_never_less_than_what_is_proven(bound: float, ratio: float) -> None:
    value = bound * ratio
    if math.isinf(value):
        return
    text = above_bound(value, bound)
    said = float(text.strip("<× %").replace(",", ""))
    written = said if text.endswith("×") else 1 + said / 100
    # What binary fractions add is cut off at twelve digits, and differences up to the tolerance of a proof are none.
    assert written >= value / bound * (1 - 2e-6)
    assert written <= value / bound * 1.011 + 5e-4  # three digits, rounded up
