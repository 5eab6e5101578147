"""Read JSON of other programs: what is not as it should be is refused in one sentence that names the place."""

import json
from typing import Any, TypeVar

from solvers.model.errors import SourceError
from solvers.quantities import binary_size

Kind = TypeVar("Kind")


def parse_object(text: bytes | str, what: str, remedy: str, most_bytes: int) -> dict[str, Any]:
    """Return the object in a JSON text; SourceError, which calls the text `what`, where there is none."""
    if len(text) > most_bytes:
        raise SourceError(f"The {what} is too long; up to {binary_size(most_bytes)} are read.")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(
            f"The {what} is not valid JSON: {error.msg.removesuffix(' at').rstrip(': ')} at line {error.lineno}, "
            f"column {error.colno}; {remedy}."
        ) from None
    except (ValueError, RecursionError):  # not UTF-8, a number of thousands of digits, or nested without end
        raise SourceError(f"The {what} is not readable JSON; {remedy}, in UTF-8.") from None
    if not isinstance(document, dict):
        raise SourceError(f"The {what} is {short(document)} and no object with named fields; {remedy}.")
    return document


def item(raw: Any, name: str, kind: type[Kind], place: str) -> Kind:
    """Return a field of an object, of this type; SourceError, which calls the object `place`, where it has none such.

    >>> item({"count": 3}, "count", int, "the file")
    3
    """
    if not isinstance(raw, dict):
        raise SourceError(f"{place} is {short(raw)} and no object with named fields; the file is damaged.")
    if name not in raw:
        raise SourceError(f"{place}: '{name}' is missing; the file is damaged, or of a format that is not known.")
    return checked(raw[name], kind, f"{place}: '{name}'")


def checked(value: Any, kind: type[Kind], place: str) -> Kind:
    """Return a value that is of this type; SourceError, which calls it `place`, where it is not."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        words = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}
        raise SourceError(f"{place} is {short(value)} and not {words.get(kind, 'usable')}; the file is damaged.")
    return value


def short(value: Any) -> str:
    """Quote a value of a file, cut so that a message stays one sentence; a list or object is only named."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**30:
        return "a number of more than 30 digits"
    text = json.dumps(value[:40] if isinstance(value, str) else value)
    return text if len(text) <= 40 else text[:37] + "..."
