"""The colours of a heat map's cells: the better a value, the darker; logarithmic where values differ many times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from explorer.picture.palette import RAMP, mix

WIDE = 30.0
"""Largest over least value from which on colours follow the logarithm: else all but the largest would look alike."""
LEVELS = 6
TICK_SHARE = 0.05
"""Texts beside the scale that are nearer than this share of it would be written on each other."""
"""About so many values are marked on the scale and by lines between cells."""


@dataclass(frozen=True, slots=True)
class CellScale:
    """A scale from `least` to `most`; where `is_less_better` the least is the darkest, else the most."""

    least: float
    most: float
    is_less_better: bool

    @property
    def is_logarithmic(self) -> bool:
        """Whether equal steps of colour are equal factors."""
        return self.least > 0 and self.most > WIDE * self.least

    @property
    def ramp(self) -> tuple[str, ...]:
        """The colours from least to most."""
        return tuple(reversed(RAMP)) if self.is_less_better else RAMP

    @property
    def colours(self) -> list[list[float | str]]:
        """The same as Plotly takes it."""
        ramp = self.ramp
        return [[i / (len(ramp) - 1), colour] for i, colour in enumerate(ramp)]

    def z(self, value: float) -> float:
        """Return where a value stands on the scale, in the scale's own unit."""
        return math.log10(value) if self.is_logarithmic else value

    def fill(self, value: float) -> str:
        """Return the colour of a value, as Plotly mixes it."""
        low, high = self.z(self.least), self.z(self.most)
        place = (self.z(value) - low) / (high - low) * (len(self.ramp) - 1) if high > low else 0.0
        k = min(int(place), len(self.ramp) - 2)
        return mix(self.ramp[k], self.ramp[k + 1], place - k)

    @property
    def levels(self) -> tuple[float, ...]:
        """Round values within the scale, rising; empty where all values are equal.

        >>> CellScale(0.0, 10.0, False).levels
        (2.0, 4.0, 6.0, 8.0)
        >>> CellScale(1.0, 1000.0, False).levels
        (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
        """
        if not self.most > self.least:
            return ()
        if self.is_logarithmic:
            powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
            factors = (1, 2, 5) if len(powers) <= LEVELS else (1,)
            values: Sequence[float] = [float(f"{factor}e{power}") for power in powers for factor in factors]
        else:
            raw = (self.most - self.least) / LEVELS
            power = 10.0 ** math.floor(math.log10(raw))
            step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
            first = math.ceil(self.least / step)
            values = [k * step for k in range(first, math.floor(self.most / step) + 1)]
        return tuple(value for value in values if self.least < value < self.most)

    @property
    def ticks(self) -> tuple[float, ...]:
        """Return what is written beside the scale: both ends, and the levels that stand clear of them.

        >>> CellScale(47.0, 3044.0, False).ticks
        (47.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 3044.0)
        """
        low, high = self.z(self.least), self.z(self.most)
        clear = TICK_SHARE * (high - low)
        between = (level for level in self.levels if low + clear <= self.z(level) <= high - clear)
        return (self.least, *between, self.most)


def steps(values: Sequence[Sequence[float | None]], level: float) -> list[tuple[float, float, float, float]]:
    """Return the borders between cells (x0, y0, x1, y1) across which values pass a level; cell (i, j) is values[j][i].

    >>> steps([[1.0, 3.0]], 2.0)
    [(0.5, -0.5, 0.5, 0.5)]
    """
    lines: list[tuple[float, float, float, float]] = []
    for j, row in enumerate(values):
        for i, value in enumerate(row):
            right = row[i + 1] if i + 1 < len(row) else None
            above = values[j + 1][i] if j + 1 < len(values) else None
            if value is not None and right is not None and (value < level) != (right < level):
                lines.append((i + 0.5, j - 0.5, i + 0.5, j + 0.5))
            if value is not None and above is not None and (value < level) != (above < level):
                lines.append((i - 0.5, j + 0.5, i + 0.5, j + 0.5))
    return lines
