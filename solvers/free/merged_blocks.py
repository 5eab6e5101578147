"""Blocks that must be together below a threshold, as one, and how prices and contents of each look from the other."""

from dataclasses import dataclass

import numpy as np

from solvers.free.branches import Branch
from solvers.free.column_generation import DeviceContents
from solvers.free.cpu_share import BoolArray
from solvers.problem.contraction import FloatArray, IntArray


@dataclass(frozen=True)
class MergedBlocks:
    """Merged blocks: what devices can hold of them, and which of them each block of the problem is a part of.

    No split below `below_ms` divides one.
    """

    contents: DeviceContents
    parts: IntArray
    below_ms: float

    @property
    def num_blocks(self) -> int:
        """How many they are."""
        return len(self.contents.cpus.cpu_ms)

    def within(self, branch: Branch) -> DeviceContents:
        """Return the contents in the splits of a branch; what is settled of a part is of the whole merged block."""
        count = self.num_blocks
        has, lacks = (np.bincount(self.parts, some, count) > 0 for some in (branch.has, branch.lacks))
        return self.contents.where_cpus(self.contents.cpus.settled(has, lacks))

    def summed(self, price: FloatArray) -> FloatArray:
        """Return the prices of merged blocks, from those of their parts."""
        return np.bincount(self.parts, price, self.num_blocks).astype(np.float64)

    def shared_out(self, price: FloatArray) -> FloatArray:
        """Return the prices of the parts of merged blocks, that of each shared out evenly."""
        shared: FloatArray = (price / np.bincount(self.parts))[self.parts]
        return shared

    def hand_down(self, columns: list[tuple[int, BoolArray, float]]) -> None:
        """Make contents known that other thresholds met, where no merged block is divided by them."""
        first = np.unique(self.parts, return_index=True)[1]
        for g, row, load in columns:
            if np.array_equal(row[first][self.parts], row):
                self.contents.add(g, row[first], load)


@dataclass(frozen=True)
class Prices:
    """Prices of the blocks of a contraction.

    `parts` says which block of `contents` each block of the problem belongs to; about `provable_ms` is what the prices
    prove.
    """

    contents: DeviceContents
    price: FloatArray
    parts: IntArray
    provable_ms: float
