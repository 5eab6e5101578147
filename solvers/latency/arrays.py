"""What the modules of the latency bound have in common: types of their arrays, and when an accelerator is full."""

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
WordArray = npt.NDArray[np.uint64]

FULL = 1 + 1e-8
"""An accelerator's memory as a share of itself, a little above what the evaluator tolerates: bounds allow no less."""
