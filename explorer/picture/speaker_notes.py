"""Notes that a speaker puts on the graph, each with an arrow to a node: kept in the address, so in each copy of a link.

They come from addresses and browsers, hence from anyone: few, short, one line each, plain text. The picture writes them
on its canvas, where no text can be anything else.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_NOTES = 12
MAX_TEXT = 120
"""Characters of one note."""
MAX_DISTANCE = 1000.0
"""Boxes between a note and its node."""
DIGEST_LENGTH = 8
"""Hexadecimal digits that tell the graph a note belongs to."""


@dataclass(frozen=True, slots=True)
class SpeakerNote:
    """A text beside a node, by id, of the graph whose digest begins with `graph`; an empty text leaves the arrow alone.

    `dx` and `dy` say how far right and below of the node's box it stands, in widths and heights of boxes.
    """

    graph: str
    node: int
    dx: float
    dy: float
    text: str


def speaker_notes(value: Any) -> tuple[SpeakerNote, ...] | None:
    """Return the notes that a list of mappings holds; None where it is anything but that."""
    if not isinstance(value, list) or len(value) > MAX_NOTES:
        return None
    notes = [_note(one) for one in value]
    return None if None in notes else tuple(note for note in notes if note is not None)


def notes_as_rows(notes: tuple[SpeakerNote, ...]) -> list[list[Any]]:
    """Return notes in the fewest characters, for an address."""
    return [[note.graph, note.node, round(note.dx, 2), round(note.dy, 2), note.text] for note in notes]


def notes_from_rows(rows: Any) -> tuple[SpeakerNote, ...] | None:
    """Return the notes that `notes_as_rows` wrote; None for anything else."""
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == len(_FIELDS) for row in rows):
        return None
    return speaker_notes([dict(zip(_FIELDS, row, strict=True)) for row in rows])


_FIELDS = ("graph", "node", "dx", "dy", "text")


def _note(value: Any) -> SpeakerNote | None:
    if not isinstance(value, Mapping):
        return None
    graph, node, text = value.get("graph"), value.get("node"), value.get("text")
    if not isinstance(graph, str) or not re.fullmatch(rf"[0-9a-f]{{{DIGEST_LENGTH}}}", graph):
        return None
    if not isinstance(node, int) or isinstance(node, bool) or abs(node) >= 2**53:
        return None
    distances = [value.get(name) for name in ("dx", "dy")]
    if not all(isinstance(d, int | float) and not isinstance(d, bool) and math.isfinite(d) for d in distances):
        return None
    dx, dy = (max(-MAX_DISTANCE, min(MAX_DISTANCE, float(d))) for d in distances if d is not None)
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        return None
    return SpeakerNote(graph, node, dx, dy, "".join(c if c.isprintable() else " " for c in text))
