"""The nearest point is told by its multipliers (Karush, Kuhn, Tucker)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free import projection
from solvers.free.projection import project
from tests.support.examples import examples


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 8))
@examples(60)
def test_the_nearest_point_is_found(seed: int, num_rows: int, num_variables: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (num_rows, num_variables)).astype(np.float32)
    inside = rng.uniform(-1, 1, num_variables)
    limits = rows @ inside + rng.uniform(0, 0.2, num_rows)  # so that there is a point that meets all
    size = rng.uniform(0.1, 1, num_variables)
    multipliers = np.zeros(num_rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "MOST_SWEEPS", 40_000)
        d = project(rows, limits, size, multipliers, object)
    excess = rows @ d - limits
    assert (excess <= 1e-4).all()
    assert (multipliers >= 0).all()
    assert d == pytest.approx(-size * (multipliers @ rows), abs=1e-6)
    assert np.abs(multipliers * excess).max() <= 1e-3
    # No other point that meets all is nearer.
    assert (d**2 / size).sum() <= (inside**2 / size).sum() + 1e-3


def test_what_has_no_size_stays() -> None:
    rows = np.array([[-1.0, -1.0]], np.float32)
    d = project(rows, np.array([-1.0]), np.array([1.0, 0.0]), np.zeros(1), object)
    assert d == pytest.approx([1.0, 0.0])


def test_a_check_is_asked_and_ends_the_work() -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        project(np.ones((1, 1), np.float32), np.array([-1.0]), np.ones(1), np.zeros(1), stop)
