"""Read the fields of a config.json: numbers and texts, each checked, with what was assumed where one is missing.

A missing field has the default of `transformers` 5, which is said; one without a default must be there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from solvers.importers.checked import parse_object, short
from solvers.importers.limits import MAX_FILE_BYTES
from solvers.model.errors import SourceError
from solvers.quantities import count, listed


class Fields:
    """The fields of a config; `defaults` are those of its `model_type`, and `assumed` names those that were used."""

    def __init__(self, raw: Mapping[str, Any], defaults: Mapping[str, Any], place: str = "") -> None:
        self.raw, self.defaults, self.place = raw, defaults, place
        self.assumed: dict[str, Any] = {}

    def count(self, *names: str, most: int, least: int = 1) -> int:
        """Return a whole number; any of the names may have it."""
        value = self.optional_count(*names, most=most, least=least)
        if value is None:
            raise SourceError(f"{self._where(names[0])} is missing; give a whole number from {least} to {count(most)}.")
        return value

    def optional_count(self, *names: str, most: int, least: int = 1) -> int | None:
        """The same, or None where it is null or missing without a default."""
        name, value = self._value(names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise SourceError(
                f"{self._where(name)} is {short(value)}; give a whole number from {least} to {count(most)}."
            )
        return value

    def flag(self, name: str) -> bool:
        """Return true or false; null is the default, as where it is missing."""
        value = self.raw.get(name)
        if value is None:
            _, value = self._default(name)
        if not isinstance(value, bool):
            raise SourceError(f"{self._where(name)} is {short(value)}; give true or false.")
        return value

    def text(self, name: str) -> str:
        """Return a text."""
        name, value = self._value((name,))
        if not isinstance(value, str):
            what = "missing" if value is None else short(value)
            raise SourceError(f"{self._where(name)} is {what}; give a text.")
        return value

    def counts(self, name: str, most: int) -> tuple[int, ...]:
        """Return a list of whole numbers from 0, empty where it is null or missing."""
        value = self.raw.get(name) or []
        if not isinstance(value, list) or len(value) > most:
            raise SourceError(
                f"{self._where(name)} is {short(value)}; give a list of up to {count(most)} whole numbers."
            )
        for number in value:
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
                raise SourceError(
                    f"{self._where(name)} has {short(number)}; give whole numbers from 0 to {count(most)}."
                )
        return tuple(value)

    def texts(self, name: str, known: Sequence[str], length: int) -> tuple[str, ...] | None:
        """Return a list of texts out of those known, of this length; None where it is null or missing."""
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != length:
            raise SourceError(
                f"{self._where(name)} is {short(value)}; give a list of {count(length)} texts, one a layer."
            )
        for text in value:
            if text not in tuple(known):
                raise SourceError(f"{self._where(name)} has {short(text)}; give {listed(list(known))} alone.")
        return tuple(value)

    def _value(self, names: tuple[str, ...]) -> tuple[str, Any]:
        for name in names:
            if name in self.raw:
                return name, self.raw[name]
        return self._default(names[0])

    def _default(self, name: str) -> tuple[str, Any]:
        default = self.defaults.get(name)
        if default is not None:
            self.assumed[name] = default
        return name, default

    def _where(self, name: str) -> str:
        return f"config.json: '{self.place}{name}'"


def parse_config(text: bytes | str) -> dict[str, Any]:
    """Return the object in the text of a config.json; SourceError, in one sentence, where there is none."""
    return parse_object(text, "config", "give the config.json of a model", MAX_FILE_BYTES)
