"""The nearest point that meets linear inequalities, corrected for one after the other.

(Hildreth, "A quadratic programming procedure", Naval Research Logistics Quarterly 1957.)
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.problem.contraction import FloatArray

Rows = npt.NDArray[np.float32]

MOST_SWEEPS = 60
"""Sweeps over the inequalities: a point that nearly meets them all is as good for what it is used for."""
ALL_EVERY = 8
"""Sweeps from one over all inequalities to the next; the others are over those that hold the point where it is."""
WORK_BETWEEN_CHECKS = 100_000_000
"""Products between two looks at the time limit, about a tenth of a second."""
TOLERANCE = 1e-6
"""An inequality that is violated by less is met."""


def project(
    rows: Rows, limits: FloatArray, size: FloatArray, multipliers: FloatArray, check: Callable[[], object]
) -> FloatArray:
    """Return d, about the least by sum_j d_j^2 / size_j with rows @ d <= limits.

    `multipliers`, one of each row and at least 0, are where the sweeps begin, and are left as they end. Where nothing
    meets all rows, d comes to no rest, and is what it is after MOST_SWEEPS. A d_j of size 0 stays 0. What `check`,
    called often, raises ends the work.

    >>> rows, limits = np.array([[-1, -1], [1, 0]], np.float32), np.array([-1.0, 0.25])  # d1 + d2 >= 1, d1 <= 1/4
    >>> project(rows, limits, np.ones(2), np.zeros(2), object).round(3).tolist()
    [0.25, 0.75]
    """
    norms = (rows.astype(np.float64) ** 2) @ size
    d: FloatArray = -size * (multipliers @ rows)
    at_once = max(ALL_EVERY, WORK_BETWEEN_CHECKS // max(1, rows.size) // ALL_EVERY * ALL_EVERY)
    for done in range(0, MOST_SWEEPS, at_once):
        check()
        if _sweeps(rows, limits, size, multipliers, norms, d, min(at_once, MOST_SWEEPS - done)):
            break
    return d


@njit(cache=True, nogil=True)
def _sweeps(rows, limits, size, multipliers, norms, d, count):
    """Sweep so often; return whether all inequalities are met."""
    for sweep in range(count):
        is_over_all = sweep % ALL_EVERY == 0
        worst = 0.0
        for i in range(rows.shape[0]):
            if norms[i] <= 0.0 or (multipliers[i] == 0.0 and not is_over_all):
                continue
            excess = -limits[i]
            for j in range(d.size):
                excess += rows[i, j] * d[j]
            step = max(excess / norms[i], -multipliers[i])
            if step != 0.0:
                worst = max(worst, abs(step) * norms[i])
                multipliers[i] += step
                for j in range(d.size):
                    d[j] -= step * size[j] * rows[i, j]
        if is_over_all and worst < TOLERANCE:
            return True
    return False
