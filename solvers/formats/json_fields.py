"""Read JSON that people write: objects, and their fields as what they should be, or one sentence that names the place.

An object that names a field twice is refused: JSON would let the last one win without a word.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from solvers.model.errors import GraphError, PlacementError
from solvers.model.graph import MAX_ID
from solvers.quantities import as_given, count

MAX_FILE_BYTES = 64 * 2**20
"""Larger files are refused before they are parsed; 20,000 nodes take about 6 MB."""
MAX_NAME = 1_000
"""Characters of a name. Names are drawn, written and kept wherever numbers are: a file of a few long ones would take
many times what its nodes and edges tell."""


def read_text(path: Path, error: type[PlacementError]) -> bytes:
    """Return what a file holds, up to a byte beyond the limit; `error`, in one sentence, where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)  # one byte too many is refused like any other long text
    except (OSError, ValueError) as os_error:  # ValueError: a path with a null character
        reason = os_error.strerror if isinstance(os_error, OSError) else None
        raise error(f"{json.dumps(str(path))} cannot be read: {reason or 'not a usable path'}.") from None


def parse_object(text: str | bytes, what: str, error: type[PlacementError]) -> dict[str, Any]:
    """Return the JSON object in a text; `error`, in one sentence that calls the text `what`, where it is none."""
    if len(text) > MAX_FILE_BYTES:
        raise error(f"The {what} is too long; up to {MAX_FILE_BYTES // 2**20} MiB are read.")
    if not text.strip():
        raise error(f"The {what} is empty; give a JSON object.")

    def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            twin = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise error(f"The {what} has an object that names the field {short(twin)} twice; keep one.")
        return fields

    try:
        # A byte order mark at the start is allowed: json does so in bytes, not in text.
        document = json.loads(
            text.removeprefix("\ufeff") if isinstance(text, str) else text, object_pairs_hook=without_twins
        )
    except PlacementError:
        raise
    except json.JSONDecodeError as json_error:
        problem = json_error.msg.removesuffix(" at").rstrip(": ")
        raise error(
            f"The {what} is not valid JSON: {problem} at line {json_error.lineno}, "
            f"column {json_error.colno}; check that the file is complete."
        ) from None
    except UnicodeDecodeError as unicode_error:
        raise error(f"The {what} is not text: byte {unicode_error.start} is not UTF-8; give a JSON file.") from None
    except RecursionError:
        raise error(f"The {what} is nested too deeply to be a {what}; give a JSON object.") from None
    except ValueError:  # an integer of more digits than Python converts
        raise error(f"The {what} has a number of thousands of digits; give ordinary numbers.") from None
    if not isinstance(document, dict):
        raise error(f"The {what} is {short(document)}; it must be an object with named fields.")
    return document


def list_of(document: dict[str, Any], field: str) -> list[Any]:
    """Return a field that is a list."""
    value = document.get(field)
    if not isinstance(value, list):
        found = "missing" if field not in document else f"{short(value)} and not a list"
        raise GraphError(f"The file's '{field}' is {found}; give a list.")
    return value


def number(raw: dict[str, Any], field: str, place: str, most: float) -> float:
    """Return a field that is a number from 0 to `most`; `place` is how a sentence names the object."""
    if field not in raw:
        raise GraphError(f"{place}: '{field}' is missing; add it.")
    value = raw[field]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise GraphError(f"{place}: '{field}' is {short(value)}; give a number.")
    if not 0 <= value <= most:
        raise GraphError(f"{place}: '{field}' is {short(value)}; give a finite number from 0 to {as_given(most)}.")
    return float(value)


def optional_number(raw: dict[str, Any], field: str, place: str, most: float) -> float | None:
    """Return a number from 0 to `most`, None where there is none."""
    return None if raw.get(field) is None else number(raw, field, place, most)


def integer(raw: dict[str, Any], field: str, place: str) -> int:
    """Return a field that is a whole number of up to 15 digits."""
    if field not in raw:
        raise GraphError(f"{place}: '{field}' is missing; add it.")
    if not is_integer(raw[field]):
        raise GraphError(f"{place}: '{field}' is {short(raw[field])}; give a whole number of up to 15 digits.")
    return int(raw[field])


def optional_integer(raw: dict[str, Any], field: str, place: str) -> int | None:
    """Return a whole number, None where there is none."""
    return None if raw.get(field) is None else integer(raw, field, place)


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number an id may have; 3.0 is, since some writers know only floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -MAX_ID <= value <= MAX_ID and value == int(value)


def flag(raw: dict[str, Any], field: str, place: str) -> bool:
    """Return a field that is true or false, which some writers spell 1 or 0."""
    if field not in raw:
        raise GraphError(f"{place}: '{field}' is missing; add it.")
    if not isinstance(raw[field], bool | int | float) or raw[field] not in (0, 1):  # true and false equal these
        raise GraphError(f"{place}: '{field}' is {short(raw[field])}; give true or false (or 1 or 0).")
    return bool(raw[field])


def text_of(raw: dict[str, Any], field: str, place: str) -> str | None:
    """Return an optional text or number as text that any encoding can write; None where it is missing."""
    value = raw.get(field)
    if value is None:
        return None
    if isinstance(value, bool | list | dict):
        raise GraphError(f"{place}: '{field}' is {short(value)}; give a text.")
    return short_enough(writable(str(value)), field, place)


def short_enough(text: str, field: str, place: str) -> str:
    """Return a name as it is; GraphError where it is too long to be drawn and kept."""
    if len(text) > MAX_NAME:
        raise GraphError(
            f"{place}: '{field}' has a name of {count(len(text))} characters; give up to {count(MAX_NAME)}."
        )
    return text


def writable(text: str) -> str:
    """Return a text without halves of surrogate pairs: JSON and names of files can hold them, UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def short(value: Any) -> str:
    """Quote a value from a file, cut so that a message stays one sentence; a list or object is only named."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = json.dumps(value[:40] if isinstance(value, str) else value)
    return text if len(text) <= 40 else text[:37] + "..."
