"""What the picture shows of hand edits, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.edits.history import Outcome


@dataclass(frozen=True, slots=True)
class EditView:
    """What the picture shows of the edits; nodes are ids. `why_not` says why this plan cannot be edited, or nothing."""

    why_not: str
    pinned: frozenset[int]
    together: tuple[tuple[int, ...], ...]
    can_undo: bool
    can_redo: bool
    is_edited: bool
    outcome: Outcome | None
    serial: int

    def header(self, ids: Sequence[int]) -> dict[str, Any]:
        """Return the part of the message to the picture; there nodes are numbers in the order of `ids`."""
        number = {v: i for i, v in enumerate(ids)}
        return {
            "whyNot": self.why_not,
            "pinned": sorted(number[v] for v in self.pinned if v in number),
            "together": [[number[v] for v in group if v in number] for group in self.together],
            "canUndo": self.can_undo,
            "canRedo": self.can_redo,
            "isEdited": self.is_edited,
            "message": None if self.outcome is None else self.outcome.message,
            "applied": self.outcome is not None and self.outcome.applied,
            "serial": self.serial,
        }
