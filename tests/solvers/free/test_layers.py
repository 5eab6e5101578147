"""The layers of a diagram of contents."""

import numpy as np
import pytest

from solvers.free.layers import distinct


@pytest.mark.parametrize("num_columns", [0, 1, 31, 32, 33, 70])
def test_distinct_states_are_numbered_as_they_are_met(num_columns: int) -> None:
    """Few differ, and in few columns, so that a column that is overlooked shows."""
    rng = np.random.default_rng(num_columns)
    rows = np.zeros((400, num_columns), np.uint8)
    for row in rows[1:] if num_columns else ():
        row[rng.integers(num_columns)] = rng.integers(3)
    states, number = distinct(rows)
    as_met = list(dict.fromkeys(map(bytes, rows)))
    assert [bytes(state) for state in states] == as_met
    assert [as_met[i] for i in number] == [bytes(row) for row in rows]
