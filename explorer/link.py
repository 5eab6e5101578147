"""The state of the page as the query of its address: what is at its default is left out, so addresses stay short.

    ?sample=gpt2_xl_layer_training&accelerators=6&memory=32&splits=free&schedule=gpipe&level=stages

An address comes from anywhere: `from_query` uses what it can and says in words what it could not use. Whether a value
fits the graph (a schedule for training on an inference graph) is for the caller to judge. Edits of a plan are packed:
JSON, compressed, in URL-safe base64. Nothing here knows Streamlit.
"""

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple

from solvers.costs import Objective
from solvers.deployment import Communication
from solvers.device_list import devices_text, parse_devices
from solvers.errors import PlacementError
from solvers.schedule import ScheduleKind
from solvers.split import Family

MAX_EDITS_LENGTH = 8_000
"""Characters of packed edits in an address; longer addresses are cut by servers, chats and mail programs."""
MAX_EDITS_BYTES = 4_000_000
"""Largest document that packed edits may unfold to."""
MAX_NUMBER_LENGTH = 24
NO_LIMIT = math.inf
"""Memory of an accelerator in GiB where there is no limit."""


class LinkError(ValueError):
    """A value that an address cannot have; the text says what it may have."""


@dataclass(frozen=True, slots=True)
class Link:
    """What an address says; None is the default of the graph, or of the page.

    `graph` begins the digest of an uploaded graph and `keep` names what the server keeps for this address. `memory` is
    in GiB, `bandwidth` in GB/s, `limit` in seconds, efficiencies and `weight_gradients` in percent. `devices` is a list
    as in `solvers.device_list`, `edits` the document of an edit history.
    """

    sample: str | None = None
    graph: str | None = None
    accelerators: int | None = None
    cpus: int | None = None
    devices: str | None = None
    host: str | None = None
    efficiency: int | None = None
    memory_efficiency: int | None = None
    measured_on: str | None = None
    roofline: bool | None = None
    memory: float | None = None
    bandwidth: float | None = None
    bandwidth_factor: float | None = None
    objective: Objective | None = None
    splits: Family | None = None
    transfers: Communication | None = None
    in_flight: bool | None = None
    per_server: int | None = None
    server_links: float | None = None
    replicas: int | None = None
    subgraphs: int | None = None
    solver: str | None = None
    limit: int | None = None
    schedule: ScheduleKind | None = None
    micro_batches: int | None = None
    chunks: int | None = None
    weight_gradients: int | None = None
    level: str | None = None
    colour: str | None = None
    lanes: bool | None = None
    edits: dict[str, Any] | None = None
    keep: str | None = None


@dataclass(slots=True)
class Address:
    """What the app knows of the address of one session.

    `query` is what was written or read last; None before the first run. `wanted` is what the widgets of this run take
    over, None when the address has not changed; `settled_link` is the same once they have, for what comes after them.
    `values` are the widgets' values that differ from their defaults, `settled` those of the last full run, `asked` the
    names of the parts that had a widget in this run, `drawn` the values of those widgets by key. `problems` are phrases
    on what the address asked and did not get, `notes` sentences.
    """

    query: dict[str, str] | None = None
    wanted: Link | None = None
    settled_link: Link | None = None
    values: dict[str, Any] = field(default_factory=dict)
    settled: dict[str, Any] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    drawn: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Codec(NamedTuple):
    """How a field is read from text, raising LinkError, and written."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]


def to_query(link: Link) -> dict[str, str]:
    """Return the query of an address; LinkError when the edits are too long for one."""
    return {
        part.name: CODECS[part.name].write(value)
        for part in fields(link)
        if (value := getattr(link, part.name)) is not None
    }


def from_query(query: Mapping[str, str]) -> tuple[Link, tuple[str, ...]]:
    """Return what a query says, and for each part that cannot be used one phrase that names it and says why.

    >>> from_query({"accelerators": "6", "cpus": "many"})[1]
    ('cpus (give a whole number)',)
    """
    known: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in query.items():
        codec = CODECS.get(name)
        if codec is None:
            problems.append(f"{_short(name)} (there is no such setting)")
            continue
        try:
            known[name] = codec.read(text)
        except LinkError as error:
            problems.append(f"{name} ({error})")
    return Link(**known), tuple(problems)


def _short(text: str, most: int = 30) -> str:
    cleaned = "".join(c if c.isprintable() else " " for c in text)
    return cleaned if len(cleaned) <= most else cleaned[: most - 3] + "..."


def _read_count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, flags=re.ASCII):
        raise LinkError("give a whole number")
    return int(text)


def _read_number(text: str) -> float:
    is_number = len(text) <= MAX_NUMBER_LENGTH and re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d{1,3})?", text, flags=re.ASCII)
    number = float(text) if is_number else math.nan
    if not math.isfinite(number):
        raise LinkError("give a number such as 12.5")
    return number


def _write_number(number: float) -> str:
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e15 else repr(float(number))


def _read_devices(text: str) -> str:
    try:
        return devices_text(parse_devices(text))
    except PlacementError as error:
        raise LinkError(_short(str(error), 120).rstrip(".")) from None


def _read_setup(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,40}(@[a-z0-9]{1,8})?", text):
        raise LinkError("give an accelerator and a precision, such as T4@fp16")
    return text


def _read_memory(text: str) -> float:
    return NO_LIMIT if text == "none" else _read_number(text)


def _read_flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise LinkError("give yes or no")
    return text == "yes"


def _read_word(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise LinkError("give a name of letters, digits, - and _")
    return text


def _one_of(kind: type[StrEnum]) -> Codec:
    def read(text: str) -> StrEnum:
        try:
            return kind(text)
        except ValueError:
            raise LinkError(f"give one of {', '.join(kind)}") from None

    return Codec(read, str)


def pack_edits(document: dict[str, Any]) -> str:
    """Return a document as text for an address; LinkError when it is longer than addresses can safely be."""
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    packed = base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")
    if len(packed) > MAX_EDITS_LENGTH:
        raise LinkError("the edits of the plan are too long for an address; a project file holds them")
    return packed


def unpack_edits(packed: str) -> dict[str, Any]:
    """Return the document that `pack_edits` wrote; LinkError for any other text."""
    damaged = LinkError("it is damaged; copy the address again, or open a project file")
    if len(packed) > MAX_EDITS_LENGTH:
        raise damaged
    try:
        compressed = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        unfolder = zlib.decompressobj()
        text = unfolder.decompress(compressed, MAX_EDITS_BYTES)
        document = json.loads(text) if unfolder.eof else None
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        raise damaged from None
    if not isinstance(document, dict):
        raise damaged
    return document


def _read_servers(text: str) -> float:
    return NO_LIMIT if text == "none" else _read_count(text)


COUNT = Codec(_read_count, str)
NUMBER = Codec(_read_number, _write_number)
FLAG = Codec(_read_flag, lambda flag: "yes" if flag else "no")
WORD = Codec(_read_word, str)

CODECS: dict[str, Codec] = {
    "sample": WORD,
    "graph": WORD,
    "accelerators": COUNT,
    "cpus": COUNT,
    "devices": Codec(_read_devices, str),
    "host": WORD,
    "efficiency": COUNT,
    "memory_efficiency": COUNT,
    "measured_on": Codec(_read_setup, str),
    "roofline": FLAG,
    "memory": Codec(_read_memory, lambda gib: "none" if gib == NO_LIMIT else _write_number(gib)),
    "bandwidth": NUMBER,
    "bandwidth_factor": NUMBER,
    "objective": _one_of(Objective),
    "splits": _one_of(Family),
    "transfers": _one_of(Communication),
    "in_flight": FLAG,
    "per_server": Codec(_read_servers, lambda number: "none" if number == NO_LIMIT else str(number)),
    "server_links": NUMBER,
    "replicas": COUNT,
    "subgraphs": COUNT,
    "solver": WORD,
    "limit": COUNT,
    "schedule": _one_of(ScheduleKind),
    "micro_batches": COUNT,
    "chunks": COUNT,
    "weight_gradients": COUNT,
    "level": WORD,
    "colour": WORD,
    "lanes": FLAG,
    "edits": Codec(unpack_edits, pack_edits),
    "keep": WORD,
}
"""A codec for each field of `Link`, under the same name."""
