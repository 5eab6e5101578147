"""The state of the page as the query of its address: what is at its default is left out, so addresses stay short.

    ?sample=gpt2_xl_layer_training&accelerators=6&memory=32&splits=free&schedule=gpipe&level=stages

An address comes from anywhere: `from_query` uses what it can and says in words what it could not use. Whether a value
fits the graph (a schedule for training on an inference graph) is for the caller to judge. Edits of a plan are packed:
JSON, compressed, in URL-safe base64. Nothing here knows Streamlit.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.picture.speaker_notes import SpeakerNote, notes_as_rows, notes_from_rows
from solvers.parameters.asked import BY_ADDRESS, TABLE, Values
from solvers.parameters.codecs import COUNT, FLAG, NAME, WORD, Codec, TextError, short

MAX_EDITS_LENGTH = 8_000
"""Characters of packed edits in an address; longer addresses are cut by servers, chats and mail programs."""
MAX_EDITS_BYTES = 4_000_000
"""Largest document that packed edits may unfold to."""
MAX_NOTES_LENGTH = 8_000
MAX_NOTES_BYTES = 60_000
MAX_RESULTS = 32
"""Boards of a lesson in an address; eight graphs for two players are half of it."""
MAX_RESULTS_LENGTH = 8_000
MAX_RESULTS_BYTES = 60_000
MAX_BOARD_NAME = 40
MAX_BOARD_NUMBER = 10_000
"""Largest node id, device and number of hints on a board."""
DAMAGED = "it is damaged; copy the address again, or open a project file"


class LinkError(TextError):
    """A value that an address cannot have; the text says what it may have."""


@dataclass(frozen=True, slots=True)
class BoardResult:
    """What was submitted on a board of a lesson: hints taken, and (node, device) for each node, devices from 0."""

    name: str
    hints: int
    device_of: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """What an address says; None, or a value that is absent, is the default of the graph, or of the page.

    `values` are those of parameters by their names (`solvers.parameters.asked`). `graph` begins the digest of an
    uploaded graph, `shared` is the token of one that was shared, and `keep` a number that tells the tabs of one browser
    apart and means nothing to another. `edits` is the document of an edit history. `lesson` and `step` are those of the
    page Learn, `boards` what was submitted there.
    """

    sample: str | None = None
    graph: str | None = None
    values: Values = field(default_factory=dict)
    level: str | None = None
    colour: str | None = None
    lanes: bool | None = None
    present: bool | None = None
    notes: tuple[SpeakerNote, ...] | None = None
    by_device: bool | None = None
    edits: dict[str, Any] | None = None
    shared: str | None = None
    keep: int | None = None
    lesson: str | None = None
    step: int | None = None
    boards: tuple[BoardResult, ...] | None = None

    def with_values(self, **values: Any) -> "Link":
        """Return a link with other values of parameters."""
        return replace(self, values={**self.values, **values})

    def without(self, *names: str) -> "Link":
        """Return a link that leaves parameters at their defaults."""
        return replace(self, values={name: value for name, value in self.values.items() if name not in names})


@dataclass(slots=True)
class Address:
    """What the app knows of the address of one session.

    `query` is what was written or read last; None before the first run. `wanted` is what the widgets of this run take
    over, None when the address has not changed; `settled_link` is the same once they have, for what comes after them.
    `values` are the parameters' values that differ from their defaults, and the name of a sample that does; `settled`
    are those of the last full run, `asked` the names of the parts that had a widget in this run. `is_back_again` says
    that the page was open before its server was started anew, `keeps_notes` that the run after that is no change of the
    user's. `sent` is what the browser had said of the widgets when `wanted` came, by Streamlit's names. `problems` are
    phrases on what the address asked and did not get, `notes` sentences.
    """

    query: dict[str, str] | None = None
    wanted: Link | None = None
    settled_link: Link | None = None
    values: dict[str, Any] = field(default_factory=dict)
    settled: dict[str, Any] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    is_back_again: bool = False
    keeps_notes: bool = False
    sent: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def to_query(link: Link) -> dict[str, str]:
    """Return the query of an address, in one order; LinkError when the edits are too long for one."""
    said = {name: part.write(value) for name, part in PARTS.items() if (value := getattr(link, name)) is not None}
    asked = {
        parameter.address: parameter.codec.write(link.values[parameter.name])
        for parameter in TABLE
        if parameter.name in link.values
    }
    graph = {name: text for name, text in said.items() if name in ("sample", "graph")}
    return {**graph, **asked, **said}


def from_query(query: Mapping[str, str]) -> tuple[Link, tuple[str, ...]]:
    """Return what a query says, and for each part that cannot be used one phrase that names it and says why.

    >>> from_query({"accelerators": "6", "cpus": "many"})[1]
    ('cpus (give a whole number)',)
    """
    known: dict[str, Any] = {}
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in query.items():
        parameter, part = BY_ADDRESS.get(name), PARTS.get(name)
        try:
            if parameter is not None:
                values[parameter.name] = parameter.codec.read(text)
            elif part is not None:
                known[name] = part.read(text)
            else:
                problems.append(f"{short(name)} (there is no such setting)")
        except TextError as error:
            problems.append(f"{name} ({error})")
    return Link(**known, values=values), tuple(problems)


def pack_edits(document: dict[str, Any]) -> str:
    """Return a document as text for an address; LinkError when it is longer than addresses can safely be."""
    packed = _packed(document)
    if len(packed) > MAX_EDITS_LENGTH:
        raise LinkError("the edits of the plan are too long for an address; a project file holds them")
    return packed


def unpack_edits(packed: str) -> dict[str, Any]:
    """Return the document that `pack_edits` wrote; LinkError for any other text."""
    document = _unpacked(packed, MAX_EDITS_LENGTH, MAX_EDITS_BYTES)
    if not isinstance(document, dict):
        raise LinkError(DAMAGED)
    return document


def pack_notes(notes: tuple[SpeakerNote, ...]) -> str:
    """Return the notes of a speaker as text for an address; they are few and short, so that it is never too long."""
    return _packed(notes_as_rows(notes))


def unpack_notes(packed: str) -> tuple[SpeakerNote, ...]:
    """Return the notes that `pack_notes` wrote; LinkError for any other text."""
    notes = notes_from_rows(_unpacked(packed, MAX_NOTES_LENGTH, MAX_NOTES_BYTES))
    if notes is None:
        raise LinkError(DAMAGED)
    return notes


def pack_boards(boards: tuple[BoardResult, ...]) -> str:
    """Return what was submitted as text for an address, the last MAX_RESULTS of it."""
    return _packed([[one.name, one.hints, one.device_of] for one in boards[-MAX_RESULTS:]])


def unpack_boards(packed: str) -> tuple[BoardResult, ...]:
    """Return what `pack_boards` wrote; LinkError for any other text. Whether the nodes exist is not looked at."""
    rows = _unpacked(packed, MAX_RESULTS_LENGTH, MAX_RESULTS_BYTES)
    if not isinstance(rows, list) or len(rows) > MAX_RESULTS:
        raise LinkError(DAMAGED)
    found: list[BoardResult] = []
    for row in rows:
        match row:
            case [str(name), int(hints), list(pairs)] if len(name) <= MAX_BOARD_NAME and 0 <= hints <= MAX_BOARD_NUMBER:
                found.append(BoardResult(name, hints, tuple(map(_placed, pairs))))
            case _:
                raise LinkError(DAMAGED)
    return tuple(found)


def _placed(pair: object) -> tuple[int, int]:
    match pair:
        case [int(node), int(device)] if 0 <= device <= MAX_BOARD_NUMBER and 0 <= node <= MAX_BOARD_NUMBER:
            return node, device
    raise LinkError(DAMAGED)


def _packed(document: Any) -> str:
    text = json.dumps(document, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def _unpacked(packed: str, most_length: int, most_bytes: int) -> Any:
    if len(packed) > most_length:
        raise LinkError(DAMAGED)
    try:
        compressed = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
        unfolder = zlib.decompressobj()
        text = unfolder.decompress(compressed, most_bytes)
        if not unfolder.eof:
            raise LinkError(DAMAGED)
        return json.loads(text)
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        raise LinkError(DAMAGED) from None


PARTS: dict[str, Codec[Any]] = {
    "sample": NAME,
    "graph": WORD,
    "level": WORD,
    "colour": WORD,
    "lanes": FLAG,
    "present": FLAG,
    "notes": Codec(unpack_notes, pack_notes),
    "by_device": FLAG,
    "edits": Codec(unpack_edits, pack_edits),
    "shared": WORD,
    "keep": COUNT,
    "lesson": WORD,
    "step": COUNT,
    "boards": Codec(unpack_boards, pack_boards),
}
"""What an address says besides the values of parameters: a codec for each other field of `Link`."""
