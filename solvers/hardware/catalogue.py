"""Accelerators, host CPUs and links by name, with their public figures and where each figure is from.

The figures are data, in `catalogue.json`; a file of the same form adds devices or changes figures (`read_catalogue`).
In the files quantities have the units of data sheets; here they have those of the library:

    memoryGB              10^9 bytes, as printed: drivers and contexts keep the few per cent by which 2^30 is more
    memoryBandwidthGBs    10^9 bytes per second between a device and its own memory
    peakTFLOPs            10^12 dense operations per second by precision, a multiply-add being two. Many data sheets
                          print figures with 2:4 sparsity, which are twice as large; here they are always without
    rawGBs, usableGBs     10^9 bytes per second of a link in one direction: by its signalling, and what is left of it
                          for data, where that is known

`toOne` of a link names the link to one neighbour where the figures are those to all neighbours together.
`source` names an entry of `sources`, for all figures of an entry but those in its own `sources`. `verified` says how a
source was read: "yes" in its own words, "second-hand" where others quote it, or "from memory".
"""

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from solvers.hardware.devices import (
    GB,
    GB_PER_S,
    TFLOP_PER_S,
    Accelerator,
    Catalogue,
    CatalogueError,
    Figure,
    HostCpu,
    Link,
    Precision,
    Source,
)
from solvers.quantities import as_given

FORMAT_VERSION = 1
MAX_FILE_BYTES = 4 * 2**20
MAX_FIGURE = 1e9
"""In the units of the file; no device comes near, and nothing overflows."""
MAX_NAME = 40
NAME = re.compile(rf"[A-Za-z][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}")
"""What a device may be called: it appears in lists such as 2xA100-80+4xT4, in addresses and in pictures."""
UNKNOWN_SOURCE = "given by the user"


@cache
def catalogue() -> Catalogue:
    """Return the catalogue that ships with the program."""
    return _catalogue(_shipped())


def read_catalogue(path: Path | str) -> Catalogue:
    """Return the catalogue with the devices of a file added; CatalogueError, in one sentence, where it is no such file.

    An entry of a name that the catalogue has already changes what it states and leaves the rest.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else None
        raise CatalogueError(f"{json.dumps(str(path))} cannot be read: {reason or 'not a usable path'}.") from None
    return parse_catalogue(text)


def parse_catalogue(text: str | bytes) -> Catalogue:
    """The same for the text of a file.

    >>> mine = '{"accelerators": [{"name": "T4", "memoryBandwidthGBs": 300}]}'
    >>> parse_catalogue(mine).accelerator("T4").bandwidth_bytes_per_ms
    300000000.0
    """
    if len(text) > MAX_FILE_BYTES:
        raise CatalogueError(f"The catalogue is too long; up to {MAX_FILE_BYTES // 2**20} MiB are read.")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise CatalogueError(
            f"The catalogue is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except (ValueError, RecursionError):
        raise CatalogueError("The catalogue is not readable JSON; give a text file in UTF-8.") from None
    if not isinstance(document, dict):
        raise CatalogueError("The catalogue is no JSON object; give one with 'accelerators', 'hosts' or 'links'.")
    return _catalogue(_merged(_shipped(), document))


@cache
def _shipped() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((files("solvers.hardware") / "catalogue.json").read_text(encoding="utf-8"))
    return document


KINDS = ("accelerators", "hosts", "links")


def _merged(base: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base with the entries of a second document in it: new ones last, others over those they name."""
    if unknown := sorted(map(str, added.keys() - {"version", "sources", *KINDS})):
        raise CatalogueError(
            f"The catalogue has a field {_short(unknown[0])}; it may have {', '.join(KINDS)}, sources."
        )
    if added.get("version", FORMAT_VERSION) != FORMAT_VERSION:
        raise CatalogueError(
            f"The catalogue is of version {_short(added['version'])}; this program reads version {FORMAT_VERSION}."
        )
    sources = added.get("sources", {})
    if not isinstance(sources, dict):
        raise CatalogueError("The catalogue's 'sources' must be an object of sources by their keys.")
    merged: dict[str, Any] = {"sources": {**base["sources"], **sources}}
    for kind in KINDS:
        entries = {entry["name"].lower(): entry for entry in base[kind]}
        given = added.get(kind, [])
        if not isinstance(given, list):
            raise CatalogueError(f"The catalogue's '{kind}' must be a list of devices.")
        seen: set[str] = set()
        for i, entry in enumerate(given):
            if not isinstance(entry, dict):
                raise CatalogueError(f"{kind}[{i}] is no object; give a device with named figures.")
            name = entry.get("name")
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise CatalogueError(
                    f"{kind}[{i}]: the name is {_short(name)}; give a letter, then letters, digits, '.', '_' and '-', "
                    f"up to {MAX_NAME} in all."
                )
            if name.lower() in seen:
                raise CatalogueError(f"{kind}[{i}]: the name {_short(name)} is used twice; names must differ.")
            seen.add(name.lower())
            entries[name.lower()] = _over(entries.get(name.lower(), {}), entry)
        merged[kind] = list(entries.values())
    return merged


def _over(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with what is given over what is known; figures that are given lose the source they had.

    What is no object where one is needed stands, for who reads the entry to refuse.
    """
    if not known:
        return dict(given)
    merged = {**known, **given, "name": known["name"]}
    own, peaks, sources = given.get("source", ""), given.get("peakTFLOPs"), given.get("sources") or {}
    changed = list(given)
    if isinstance(peaks, dict):
        merged["peakTFLOPs"] = {**known.get("peakTFLOPs", {}), **peaks}
        changed += peaks
    merged["source"] = known.get("source", "")
    if isinstance(sources, dict):
        merged["sources"] = {**known.get("sources", {}), **dict.fromkeys(changed, own), **sources}
    return merged


def _catalogue(document: Mapping[str, Any]) -> Catalogue:
    sources = {key: _source(key, value) for key, value in document["sources"].items()}
    return Catalogue(
        tuple(_accelerator(_Reader("accelerators", entry, sources)) for entry in document["accelerators"]),
        tuple(_host(_Reader("hosts", entry, sources)) for entry in document["hosts"]),
        tuple(_link(_Reader("links", entry, sources)) for entry in document["links"]),
    )


def _source(key: str, value: Any) -> Source:
    fields = ("title", "url", "verified", "seen")
    if not isinstance(value, dict) or not all(isinstance(value.get(name, ""), str) for name in fields):
        raise CatalogueError(f"The source {_short(key)} must be an object of the texts {', '.join(fields)}.")
    return Source(*(value.get(name, "") for name in fields))


class _Reader:
    """Reads the fields of one entry, with messages that name the place, and collects its figures."""

    def __init__(self, kind: str, entry: Mapping[str, Any], sources: Mapping[str, Source]) -> None:
        self.entry, self.sources = entry, sources
        self.name: str = entry["name"]
        self.place = f"{kind}, {self.name}"
        self.figures: list[Figure] = []

    def text(self, field: str, default: str) -> str:
        value = self.entry.get(field, default)
        if not isinstance(value, str) or len(value) > 400:
            raise CatalogueError(f"{self.place}: '{field}' is {_short(value)}; give a text of up to 400 characters.")
        return "".join(c if c.isprintable() else " " for c in value)

    def year(self) -> int:
        value = self.entry.get("year", 0)
        if isinstance(value, bool) or not isinstance(value, int) or not (value == 0 or 1990 <= value <= 2100):
            raise CatalogueError(f"{self.place}: 'year' is {_short(value)}; give a year such as 2024.")
        return value

    def figure(self, field: str, value: Any = None) -> float:
        """Return a figure in the file's unit and note it with its source."""
        if value is None:
            value = self.entry.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_FIGURE:
            what = "is missing" if value is None else f"is {_short(value)}"
            raise CatalogueError(
                f"{self.place}: '{field}' {what}; give a number above 0 and up to {as_given(MAX_FIGURE)}."
            )
        self.figures.append(Figure(field, float(value), self._source_of(field)))
        return float(value)

    def _source_of(self, field: str) -> Source:
        own = self.entry.get("sources", {})
        if not isinstance(own, dict):
            raise CatalogueError(f"{self.place}: 'sources' must be an object of source keys by figure.")
        key = own.get(field, self.entry.get("source", ""))
        if key == "":
            return Source(UNKNOWN_SOURCE)
        if not isinstance(key, str) or key not in self.sources:
            raise CatalogueError(
                f"{self.place}: there is no source {_short(key)}; add it to 'sources', or leave it out."
            )
        return self.sources[key]

    def peaks(self) -> tuple[tuple[Precision, float], ...]:
        value = self.entry.get("peakTFLOPs")
        known = ", ".join(Precision)
        if not isinstance(value, dict) or not value:
            raise CatalogueError(f"{self.place}: 'peakTFLOPs' must be an object of dense peaks by precision ({known}).")
        if unknown := [name for name in value if name not in tuple(Precision)]:
            raise CatalogueError(f"{self.place}: {_short(unknown[0])} is no precision; give some of {known}.")
        return tuple((p, self.figure(p, value[p]) * TFLOP_PER_S) for p in Precision if p in value)


def _accelerator(entry: _Reader) -> Accelerator:
    links = entry.entry.get("links", [])
    if not isinstance(links, list) or not all(isinstance(name, str) for name in links):
        raise CatalogueError(f"{entry.place}: 'links' must be a list of names of links.")
    return Accelerator(**_processor(entry), links=tuple(links))


def _host(entry: _Reader) -> HostCpu:
    return HostCpu(**_processor(entry))


def _processor(entry: _Reader) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.text("title", entry.name),
        "year": entry.year(),
        "memory_bytes": entry.figure("memoryGB") * GB,
        "bandwidth_bytes_per_ms": entry.figure("memoryBandwidthGBs") * GB_PER_S,
        "peaks": entry.peaks(),
        "note": entry.text("note", ""),
        "figures": tuple(entry.figures),
    }


def _link(entry: _Reader) -> Link:
    raw = entry.figure("rawGBs")
    usable = entry.figure("usableGBs") if entry.entry.get("usableGBs") is not None else None
    if usable is not None and usable > raw:
        raise CatalogueError(
            f"{entry.place}: 'usableGBs' is {as_given(usable)}, more than 'rawGBs'; swap or correct them."
        )
    return Link(
        name=entry.name,
        title=entry.text("title", entry.name),
        year=entry.year(),
        raw_bytes_per_ms=raw * GB_PER_S,
        usable_bytes_per_ms=None if usable is None else usable * GB_PER_S,
        note=entry.text("note", ""),
        figures=tuple(entry.figures),
        to_one=entry.text("toOne", ""),
    )


def _short(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = json.dumps(value[:40] if isinstance(value, str) else value)
    return text if len(text) <= 44 else text[:41] + "..."
