"""A linear program as arrays, for whoever must not load HiGHS yet."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class LinearProgram(NamedTuple):
    """Minimise a linear function of columns within bounds; each row is at least something.

    Row i has the coefficients from begin[i] up to begin[i + 1], of the columns of the same numbers.
    """

    cost: npt.NDArray[np.float64]  # (columns,)
    lower: npt.NDArray[np.float64]  # (columns,)
    upper: npt.NDArray[np.float64]  # (columns,)
    begin: npt.NDArray[np.int32]  # (rows + 1,)
    column: npt.NDArray[np.int32]
    coefficient: npt.NDArray[np.float64]
    least: npt.NDArray[np.float64]  # (rows,)
