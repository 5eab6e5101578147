"""Colours around the devices in figures on paper and screen, and the scale for times, sizes and transfers."""

from dataclasses import dataclass
from math import log10

from explorer.picture.palette import THEMES, Fill, ThemeName, sequential_ramp


@dataclass(frozen=True, slots=True)
class Look:
    """The colours of one theme; every text on its ground has a contrast of at least 4.5."""

    background: str
    surface: str
    shade: str
    ink: str
    muted: str
    line: str
    faint: str
    transfer: str
    unplaced: Fill
    ramp: tuple[Fill, ...]
    """From little to much, away from the background."""


LOOKS: dict[ThemeName, Look] = {
    "light": Look(
        "#FFFFFF", "#F0F2F6", "#F2F4F7", "#1B222C", "#55606E", "#98A2AE", "#DDE2E8",
        THEMES["light"].transfer, THEMES["light"].unplaced, sequential_ramp("light"),
    ),
    "dark": Look(
        "#0E1117", "#262730", "#1B2029", "#FAFAFA", "#B7BFCA", "#6E7885", "#2C333E",
        THEMES["dark"].transfer, THEMES["dark"].unplaced, sequential_ramp("dark"),
    ),
}  # fmt: skip


class LogScale:
    """Fills for numbers from `least` to `most`, both above 0, by their logarithms; numbers at 0 have none."""

    def __init__(self, values: list[float]) -> None:
        positive = [value for value in values if value > 0]
        self.most = max(positive, default=0.0)
        # Three orders of magnitude tell more than the smallest number, which is often next to nothing.
        self.least = max(min(positive, default=0.0), self.most / 1000)

    def share(self, value: float) -> float:
        """Return the place of a number on the scale, 0 to 1."""
        if self.most <= self.least or value <= self.least:
            return 1.0 if value >= self.most > 0 else 0.0
        return min(1.0, log10(value / self.least) / log10(self.most / self.least))

    def fill(self, value: float, ramp: tuple[Fill, ...]) -> Fill | None:
        """Return the fill of a ramp for a number; None for 0."""
        return None if value <= 0 else ramp[round(self.share(value) * (len(ramp) - 1))]
