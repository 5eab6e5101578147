"""Numbers that are written for people, read back and held against the numbers that they stand for.

Nothing here is shared with the writer of numbers, `solvers.quantities`: a written number agrees with a value where the
value rounds to it, whichever half is rounded up.
"""

import math
import re
from dataclasses import dataclass, field
from typing import Any

BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
SAME = 1e-9
"""What two ways to add the same numbers up may differ by, relatively."""
ROUNDING = 1e-6
"""Shares up to this are written as none."""
NUMBER = r"−?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"


def read(text: str) -> float:
    """Return the number of a written one without its unit."""
    return float(text.replace("−", "-").replace(",", ""))


def may_be(text: str, value: float, digits: int = 4) -> bool:
    """Whether a value rounds to a written number of so many significant digits, those before the point in full."""
    last = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits) if value else 0.0
    return abs(read(text) - value) <= 0.5 * min(1.0, last) * (1 + 1e-6) + SAME * abs(value)


@dataclass
class Comparison:
    """Counts what is compared and keeps what disagrees, a sentence each."""

    count: int = 0
    disagreements: list[str] = field(default_factory=list)

    def require(self, where: str, agrees: bool, told: object) -> None:
        self.count += 1
        if not agrees:
            self.disagreements.append(f"{where}: {told}")

    def same(self, where: str, found: Any, expected: Any) -> None:
        """Compare what is written for programs, numbers but for the rounding of sums."""
        numbers = [x for x in (found, expected) if isinstance(x, int | float) and not isinstance(x, bool)]
        agrees = found == expected
        if len(numbers) == 2:
            agrees = math.isclose(found, expected, rel_tol=SAME, abs_tol=1e-9)
        self.require(where, agrees, f"{found!r} instead of {expected!r}")

    def milliseconds(self, where: str, text: str | None, value: float | None) -> None:
        self._with_unit(where, text, value, "ms", 4)

    def number(self, where: str, text: str | None, value: float | None) -> None:
        self._with_unit(where, text, value, "", 4)

    def factor(self, where: str, text: str | None, value: float | None) -> None:
        self._with_unit(where, text, value, "×", 3)

    def percent(self, where: str, text: str | None, share: float | None) -> None:
        if text is None or share is None:
            self.require(where, (text in (None, "–", "")) and share is None, f"{text!r} instead of {share!r}")
        elif text == "<0.05 %":
            self.require(where, 0 < share < 5e-4 * (1 + SAME), f"{text!r} instead of {share!r}")
        elif text == ">99.9 %":
            self.require(where, 0.9995 * (1 - SAME) <= share < 1, f"{text!r} instead of {share!r}")
        else:
            value = 0.0 if abs(share) <= 2 * ROUNDING and text == "0 %" else 100 * share
            self._with_unit(where, text, value, "%", 3)

    def size(self, where: str, text: str | None, size_bytes: float | None) -> None:
        """Compare a size in whichever binary unit it is written."""
        unit = (text or "").rpartition(" ")[2]
        if size_bytes is None or unit not in BYTES:
            self.require(where, size_bytes is None and text in ("–", "unknown", "no limit"), f"{text!r}: {size_bytes}")
        else:
            self._with_unit(where, text, size_bytes / BYTES[unit], unit, 4)

    def _with_unit(self, where: str, text: str | None, value: float | None, unit: str, digits: int) -> None:
        if text is None or value is None:
            self.require(where, text in (None, "–", "") and value is None, f"{text!r} instead of {value!r}")
            return
        found = re.fullmatch(rf"(?P<less><)?(?P<number>{NUMBER}){f' {re.escape(unit)}' if unit else ''}", text)
        agrees = found is not None and (
            0 < value < read(found["number"]) * (1 + SAME) if found["less"] else may_be(found["number"], value, digits)
        )
        self.require(where, agrees, f"{text!r} instead of {value!r}")
