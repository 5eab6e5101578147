"""How values are written as text, the same in addresses, project files and on the command line."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from solvers.hardware.device_list import devices_text, parse_devices
from solvers.model.errors import PlacementError

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

MAX_NUMBER_LENGTH = 24
MAX_DIMENSIONS_LENGTH = 2_000
NUMBER_TEXT = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", flags=re.ASCII)


class TextError(ValueError):
    """A text that is no value; the message says, without a full stop, what to give."""


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """How a value is read from text, raising TextError, and written; `one_of` has the values where they are few."""

    read: Callable[[str], T]
    write: Callable[[T], str]
    one_of: tuple[T, ...] = ()
    is_optional: bool = False


def short(text: str, most: int = 30) -> str:
    """Return a text of somebody's on one line, cut to a length."""
    cleaned = "".join(c if c.isprintable() else " " for c in text)
    return cleaned if len(cleaned) <= most else cleaned[: most - 3] + "..."


def _read_count(text: str) -> int:
    if not re.fullmatch(r"\+?\d{1,9}", text, flags=re.ASCII):
        is_large = re.fullmatch(r"\+?\d+", text, flags=re.ASCII)
        raise TextError("give a whole number" + " of up to nine digits" * bool(is_large))
    return int(text)


def _read_number(text: str) -> float:
    number = float(text) if len(text) <= MAX_NUMBER_LENGTH and NUMBER_TEXT.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise TextError("give a number such as 12.5")
    return number


def write_number(number: float) -> str:
    """Write a number so that reading it gives the same; whole ones without a point.

    >>> write_number(16.0), write_number(0.1)
    ('16', '0.1')
    """
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e15 else repr(float(number))


def _read_flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise TextError("give yes or no")
    return text == "yes"


def _read_word(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise TextError("give a name of letters, digits, - and _")
    return text


def _read_devices(text: str) -> str:
    try:
        return devices_text(parse_devices(text))
    except PlacementError as error:
        raise TextError(short(str(error), 120).rstrip(".")) from None


def _read_setup(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,40}(@[a-z0-9]{1,8})?", text):
        raise TextError("give an accelerator and a precision, such as T4@fp16")
    return text


def _read_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", text):
        raise TextError("give a name of letters, digits, ., - and _")
    return text


def _read_dimensions(text: str) -> tuple[tuple[str, int], ...]:
    """Read NAME=SIZE, several with commas or spaces between them; a name may be in quotes, as in a command."""
    found: dict[str, int] = {}
    for part in re.findall(r"'[^']*'|\"[^\"]*\"|[^\s,;]+", text[: MAX_DIMENSIONS_LENGTH + 1]):
        name, _, size = part.strip("'\"").rpartition("=")
        is_size = re.fullmatch(r"\d{1,9}", size, flags=re.ASCII)
        if not name or "'" in name or '"' in name or name in found or not is_size:
            raise TextError("give each open dimension once with its size, such as batch=8, sequence=128")
        found[name] = int(size)
    if len(text) > MAX_DIMENSIONS_LENGTH:
        raise TextError(f"give at most {MAX_DIMENSIONS_LENGTH:,} characters")
    return tuple(found.items())


def _write_dimensions(dimensions: tuple[tuple[str, int], ...]) -> str:
    def written(name: str, size: int) -> str:
        text = f"{name}={size}"
        return f'"{text}"' if re.search(r"[\s,;]", name) else text

    return ", ".join(written(name, size) for name, size in dimensions)


def one_of(kind: type[E], other_names: Mapping[str, E] | None = None) -> Codec[E]:
    """Return the codec of an enumeration, by its values; `other_names` are read too, and never written."""

    def read(text: str) -> E:
        try:
            return (other_names or {}).get(text) or kind(text)
        except ValueError:
            raise TextError(f"give one of {', '.join(kind)}") from None

    return Codec(read, str, tuple(kind))


def optional(codec: Codec[T]) -> Codec[T | None]:
    """Return a codec that also has the value None, written as none."""
    return Codec(
        lambda text: None if text == "none" else codec.read(text),
        lambda value: "none" if value is None else codec.write(value),
        is_optional=True,
    )


COUNT: Codec[int] = Codec(_read_count, str)
NUMBER: Codec[float] = Codec(_read_number, write_number)
PERCENT: Codec[float] = Codec(lambda text: _read_number(text) / 100, lambda share: f"{100 * share:.10g}")
"""Of a share from 0 to 1."""
FLAG: Codec[bool] = Codec(_read_flag, lambda flag: "yes" if flag else "no", (False, True))
WORD: Codec[str] = Codec(_read_word, str)
DEVICES: Codec[str] = Codec(_read_devices, str)
SETUP: Codec[str] = Codec(_read_setup, str)
NAME: Codec[str] = Codec(_read_name, str)
"""Of devices and published models."""
DIMENSIONS: Codec[tuple[tuple[str, int], ...]] = Codec(_read_dimensions, _write_dimensions)
"""Sizes of dimensions by name."""
