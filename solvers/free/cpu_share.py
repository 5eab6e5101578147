"""What CPUs hold of a free split within a threshold T: blocks that take them l T in all, cut into parts as they like.

CPUs pay for no transfers, so any blocks are as good to them as their prices are high for the time they take: a
fractional knapsack (Dantzig, "Discrete-variable extremum problems", Operations Research 1957). Of some blocks it may be
settled that CPUs have them, or have not: these are the questions by which `solvers.free.bounds` divides splits.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from solvers.problem.contraction import FloatArray

BoolArray = npt.NDArray[np.bool_]

MARGIN = 1e-8
"""CPUs have so much more room, relatively, than they have: far above rounding."""


@dataclass(frozen=True)
class CpuShare:
    """Blocks that CPUs have (`has`), those they have not (`lacks`), and how long each takes one of them, in ms."""

    num_cpus: int
    cpu_ms: FloatArray
    has: BoolArray
    lacks: BoolArray

    @classmethod
    def undivided(cls, num_cpus: int, cpu_ms: FloatArray) -> Self:
        """Return the share of CPUs of which nothing is settled."""
        nothing = np.zeros(len(cpu_ms), np.bool_)
        return cls(num_cpus, cpu_ms, nothing, nothing)

    def settled(self, has: BoolArray, lacks: BoolArray) -> Self:
        """Return the share where CPUs have some blocks, and have not some others."""
        return replace(self, has=has, lacks=lacks)

    def dearest(self, price: FloatArray, threshold_ms: float) -> tuple[float, FloatArray]:
        """Return the most that CPUs can pay within T, and which part of each block they then hold.

        It is -inf where they cannot hold the blocks that they have: then no split is within T.
        """
        part = np.zeros(len(price))
        if not self.num_cpus:
            return (-math.inf if self.has.any() else 0.0), part
        q = self.cpu_ms
        longest_ms = threshold_ms * (1 + MARGIN)
        room = self.num_cpus * longest_ms - float(q[self.has].sum())
        if room < 0 or (q[self.has] > longest_ms).any() or (self.has & self.lacks).any():
            return -math.inf, part
        candidates = np.flatnonzero((price > 0) & (q <= longest_ms) & ~self.has & ~self.lacks)
        with np.errstate(divide="ignore", over="ignore"):
            order = candidates[np.argsort(-price[candidates] / q[candidates], kind="stable")]
        before = np.cumsum(q[order]) - q[order]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part[order] = np.where(q[order] > 0, np.clip((room - before) / q[order], 0.0, 1.0), 1.0)
        part[self.has] = 1.0
        return float(part @ price), part
