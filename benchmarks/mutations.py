"""Hostile files and addresses, made from valid ones by a seeded generator: the same ones every time.

Each comes with what was done to it, so that a fault found can be told in a word and made again from its number.
"""

import base64
import json
import random
import zlib
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from urllib.parse import quote

from explorer.state.query import PARTS
from sample_graphs.synthetic import layered
from solvers.formats.graph_json import graph_document
from solvers.parameters.asked import BY_ADDRESS

Change = Callable[[random.Random, bytes], bytes]

NUMBERS = (0, -1, 1e308, -1e308, 1e-320, 2**63, 10**400, 0.1, True, None, "NaN", "1e999")
STRINGS = (
    "",
    "x" * 100_000,
    "\u202eabc",
    "\ud800",
    "\0",
    "<script>alert(1)</script>",
    "![i](http://example.invalid/x)",
    "$\\frac{1}{0}$",
    ":red[x]",
    "../../etc/passwd",
    "A\u0301" * 5_000,
    "\U0001f4a9" * 1_000,
)
WRONG = ([], {}, [[]], {"a": {}}, None, True, "x", 3, -3.5)


def _truncated(rng: random.Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _flipped(rng: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _repeated(rng: random.Random, content: bytes) -> bytes:
    at, end = sorted((rng.randrange(len(content)), rng.randrange(len(content))))
    return content[:end] + content[at:end] * rng.choice((1, 2, 50)) + content[end:]


def _nested(rng: random.Random, content: bytes) -> bytes:
    depth = rng.choice((100, 1_000, 100_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return opening * depth + content[:200] + closing * depth


def _number_text(rng: random.Random, content: bytes) -> bytes:
    word = rng.choice((b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5_000, b"0x10", b"1_000", b"-0", b"1e-400"))
    places = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
    at = rng.choice(places) if places else 0
    return content[:at] + word + content[at + 1 :]


def _recoded(rng: random.Random, content: bytes) -> bytes:
    text = content.decode(errors="replace")
    return text.encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "latin-1", "utf-7")), errors="replace")


def _other_kind(rng: random.Random, _: bytes) -> bytes:
    return rng.choice(
        (
            b"",
            b" ",
            b"null",
            b"[]",
            b"{}",
            b'"x"',
            b"\x1f\x8b" + bytes(50),
            b"PK\x03\x04" + bytes(200),
            b"%PDF-1.7",
            b"\xff" * 300,
        )
    )


BYTE_CHANGES: dict[str, Change] = {
    "truncated": _truncated,
    "bits flipped": _flipped,
    "a part repeated": _repeated,
    "nested deeply": _nested,
    "a number of another writing": _number_text,
    "another encoding": _recoded,
    "another kind of file": _other_kind,
}


def changed_document(rng: random.Random, document: Any) -> tuple[str, bytes]:
    """Return what was done to a JSON document, and the file."""
    changed = deepcopy(document)
    places = _places(changed)
    what = rng.choice(("value", "value", "value", "key gone", "key new", "item twice", "order", "many"))
    holder, key = rng.choice(places)
    if what == "value":
        kind = rng.choice((NUMBERS, STRINGS, WRONG))
        holder[key] = rng.choice(kind)
        what = f"{type(holder[key]).__name__} at {key if isinstance(key, str) else 'an item'}"
    elif what == "key gone":
        del holder[key]
    elif what == "key new" and isinstance(holder, dict):
        holder[rng.choice(STRINGS)] = rng.choice(WRONG)
    elif what == "item twice" and isinstance(holder, list):
        holder.insert(0, deepcopy(holder[rng.randrange(len(holder))]))
    elif what == "order" and isinstance(holder, list):
        rng.shuffle(holder)
    elif what == "many" and isinstance(holder, list):
        holder.extend(deepcopy(holder[:20]) * rng.choice((2, 20)))
    try:
        return what, json.dumps(changed).encode()
    except (UnicodeEncodeError, ValueError):
        return what, json.dumps(changed, ensure_ascii=True).encode(errors="replace")


def _places(document: Any, depth: int = 6) -> list[tuple[Any, Any]]:
    """Return every place of a document as its holder and key, not below `depth`, few of long lists."""
    found: list[tuple[Any, Any]] = []
    if depth and isinstance(document, dict):
        for key, value in document.items():
            found += [(document, key), *_places(value, depth - 1)]
    elif depth and isinstance(document, list):
        for i in range(min(8, len(document))):
            found += [(document, i), *_places(document[i], depth - 1)]
    return found


def valid_graph(seed: int) -> dict[str, Any]:
    """Return a small graph as a document, quickly solved."""
    graph, deployment = layered(2 + seed % 3, 2, 2, num_accelerators=2 + seed % 3, seed=seed)
    return graph_document(graph, deployment)


def hostile_file(number: int, project: dict[str, Any] | None = None) -> tuple[str, bytes]:
    """Return what was done, and the file, of this number: of a graph, or of a project where one is given."""
    rng = random.Random(number)  # noqa: S311 -- the same file every time
    document = valid_graph(number % 7) if project is None else project
    if rng.random() < 0.55:
        return changed_document(rng, document)
    what = rng.choice(list(BYTE_CHANGES))
    return what, BYTE_CHANGES[what](rng, json.dumps(document).encode())


ADDRESS_VALUES = (
    "", "0", "-1", "1e9", "99999999999999999999", "NaN", "inf", "none", "yes", "%00", "a" * 5_000, "\u202e", "../..",
    "<b>", "free", "gpipe", "2xA100-80+4xT4", "T4@fp16", "1:1000000", "[[", "\ud83d\ude00", "0.000001",
    "H100-SXM:peak=0TFLOP/s",
)  # fmt: skip


def hostile_address(number: int, edits: dict[str, Any]) -> tuple[str, str]:
    """Return what was done, and the query of an address, of this number; `edits` is a valid document of edits."""
    rng = random.Random(number)  # noqa: S311
    parts = [("sample", rng.choice(("teaching_chain", "gnmt_layer_inference", "teaching_tied_embedding")))]
    what = rng.choice(("values", "values", "values", "many", "bomb", "edits", "edits", "bytes"))
    if what == "values":
        names = [
            *BY_ADDRESS,
            *PARTS,
            "over",
            "and",
            "values",
            "and_values",
            "show",
            "at_least",
            "budget",
            "nobody_knows",
        ]
        for name in rng.sample(names, rng.randrange(1, 6)):
            parts.append((name, rng.choice(ADDRESS_VALUES)))
    elif what == "many":
        parts += [(f"p{i}", "x" * rng.randrange(20)) for i in range(rng.choice((100, 1_000)))]
    elif what == "bomb":
        text = b'{"steps":[' + b"[]," * rng.choice((10_000, 1_000_000)) + b"[]]}"
        parts.append(("edits", _packed(text if rng.random() < 0.7 else bytes(30_000_000))))
    elif what == "edits":
        _, text = changed_document(rng, edits)
        parts.append(("edits", _packed(text)))
    else:
        parts.append(("edits", _flipped(rng, _packed(json.dumps(edits).encode()).encode()).decode("latin-1")))
    query = "&".join(f"{quote(name)}={quote(value, errors='replace')}" for name, value in parts)
    return what, query[:30_000]


def _packed(text: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(text, 9)).decode().rstrip("=")
