"""Tests of the page's state in its address: what is written is read again, and no text breaks it."""

import base64
import json
import math
import zlib
from dataclasses import fields
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.picture.speaker_notes import MAX_NOTES, MAX_TEXT, SpeakerNote, speaker_notes
from explorer.state.query import (
    MAX_EDITS_LENGTH,
    MAX_NOTES_LENGTH,
    PARTS,
    BoardResult,
    Link,
    LinkError,
    from_query,
    pack_edits,
    to_query,
)
from solvers.hardware.device_list import Listed, devices_text
from solvers.parameters.asked import BY_ADDRESS, TABLE
from solvers.parameters.codecs import COUNT, DEVICES, DIMENSIONS, NAME, NUMBER, PERCENT, SETUP, WORD, Codec
from solvers.parameters.parameter import Parameter

WORDS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
COUNTS = st.integers(0, 999_999_999)
NUMBERS = st.floats(0, 1e12, allow_nan=False, allow_infinity=False, allow_subnormal=False).map(abs)
DOCUMENTS = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8) | st.lists(COUNTS, max_size=4))
DEVICE_LISTS = st.lists(
    st.builds(
        Listed,
        st.integers(0, 1024),
        st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,20}", fullmatch=True),
        st.sampled_from(((), (("link", "nvlink3"),), (("memory", "80GB"), ("peak", "3TFLOP/s")))),
    ),
    min_size=1,
    max_size=4,
).map(lambda kinds: devices_text(tuple(kinds)))
NAMES_OF_DEVICES = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
NUMERIC: dict[Codec[Any], st.SearchStrategy[Any]] = {
    COUNT: COUNTS,
    NUMBER: NUMBERS,
    PERCENT: st.integers(0, 1_000_000).map(lambda percent: percent / 100),
    WORD: WORDS,
    NAME: NAMES_OF_DEVICES,
    DIMENSIONS: st.dictionaries(
        st.text(st.characters(categories=("L", "N", "P", "S", "Zs"), exclude_characters="'\""), min_size=1, max_size=9),
        COUNTS,
        max_size=4,
    ).map(lambda sizes: tuple(sizes.items())),
    DEVICES: DEVICE_LISTS,
    SETUP: st.from_regex(r"[A-Za-z0-9._-]{1,40}(@[a-z0-9]{1,8})?", fullmatch=True),
}


def values_of(parameter: Parameter[Any]) -> st.SearchStrategy[Any]:
    codec = parameter.codec
    if codec.one_of:
        return st.sampled_from(codec.one_of)
    if codec.is_optional:
        kind = type(codec.read("1"))
        return (
            st.none() | {int: COUNTS, float: NUMBERS, str: NAMES_OF_DEVICES.filter(lambda name: name != "none")}[kind]
        )
    return NUMERIC[codec]


NOTES = st.builds(
    SpeakerNote,
    graph=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
    node=st.integers(-(2**53) + 1, 2**53 - 1),
    dx=st.integers(-1000, 1000).map(lambda x: x / 4),
    dy=st.integers(-1000, 1000).map(lambda x: x / 4),
    text=st.text(max_size=MAX_TEXT).map(lambda text: "".join(c if c.isprintable() else " " for c in text)),
)
BOARDS = st.builds(
    BoardResult,
    name=st.from_regex(r"[a-z0-9_]{1,40}", fullmatch=True),
    hints=st.integers(0, 9),
    device_of=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=12).map(tuple),
)
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "boards": st.lists(BOARDS, max_size=16).map(tuple),
    "lanes": st.booleans(),
    "present": st.booleans(),
    "by_device": st.booleans(),
    "notes": st.lists(NOTES, max_size=MAX_NOTES).map(tuple),
    "edits": DOCUMENTS,
    "keep": COUNTS,
    "step": COUNTS,
    "sample": NAMES_OF_DEVICES,
    **dict.fromkeys(("graph", "level", "colour", "shared", "lesson"), WORDS),
}
NAMES = PARTS.keys() | BY_ADDRESS.keys()
VALUES = st.fixed_dictionaries({}, optional={parameter.name: values_of(parameter) for parameter in TABLE})


def links() -> st.SearchStrategy[Link]:
    return st.builds(Link, **{name: st.none() | values for name, values in OTHERS.items()}, values=VALUES)


def said(link: Link) -> set[str]:
    """Return the parts of an address that say something."""
    parts = {name for name in OTHERS if getattr(link, name) is not None}
    return parts | {parameter.address for parameter in TABLE if parameter.name in link.values}


def test_every_field_has_a_codec_and_a_test() -> None:
    assert {field.name for field in fields(Link)} - {"values"} == set(PARTS) == set(OTHERS)
    assert len(BY_ADDRESS) == len(TABLE)
    assert not BY_ADDRESS.keys() & PARTS.keys()


@given(links())
def test_what_is_written_is_read_again(link: Link) -> None:
    query = to_query(link)
    through_a_browser = dict(parse_qsl(urlencode(query), keep_blank_values=True))
    assert from_query(through_a_browser) == (link, ())


def test_defaults_are_left_out() -> None:
    assert to_query(Link()) == {}
    assert to_query(Link(values={"accelerators": 6, "memory": 16.0})) == {"accelerators": "6", "memory": "16"}
    assert to_query(Link(values={"memory": None})) == {"memory": "none"}


@given(st.dictionaries(st.sampled_from(sorted(NAMES)) | st.text(max_size=10), st.text(max_size=40)))
def test_no_text_breaks_it_and_what_cannot_be_used_is_named(query: dict[str, str]) -> None:
    link, problems = from_query(query)
    used = said(link)
    assert len(used) + len(problems) == len(query)
    for name in query.keys() & NAMES - used:
        assert any(problem.startswith(f"{name} (") for problem in problems)
    assert all(problem.isprintable() for problem in problems)
    # What could be used is still written the same way.
    assert from_query(to_query(link)) == (link, ())


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "1e999", "1_000", " 5", "5 ", "", "0x10", "٣", "9" * 400])
def test_numbers_are_plain_numbers(text: str) -> None:
    link, problems = from_query({"memory": text, "accelerators": text})
    assert link == Link()
    assert len(problems) == 2


def test_tiny_and_huge_numbers_keep_every_digit() -> None:
    for number in (1e-6, 0.1 + 0.2, 5e-324, 1e15, 123456789.123, math.nextafter(1e22, math.inf)):
        link, problems = from_query(to_query(Link(values={"bandwidth": number})))
        assert (link.values["bandwidth"], problems) == (number, ())


def test_edits_that_are_too_long_are_refused_with_a_way_out() -> None:
    import random

    noise = random.Random(1).sample(range(10**9), 4000)  # noqa: S311 -- no secret, only hard to compress
    with pytest.raises(LinkError, match="project file"):
        pack_edits({"noise": noise})


@pytest.mark.parametrize("damage", ["A" * (MAX_EDITS_LENGTH + 1), "!!", "AAAA", ""])
def test_damaged_edits_are_told(damage: str) -> None:
    link, (problem,) = from_query({"edits": damage, "accelerators": "3"})
    assert link == Link(values={"accelerators": 3})
    assert "damaged" in problem


def test_edits_that_unfold_beyond_measure_are_refused() -> None:
    import base64
    import zlib

    bomb = base64.urlsafe_b64encode(zlib.compress(json.dumps({"a": "0" * 5_000_000}).encode(), 9)).decode().rstrip("=")
    assert len(bomb) <= MAX_EDITS_LENGTH
    assert from_query({"edits": bomb})[0].edits is None


@given(st.lists(NOTES, min_size=MAX_NOTES, max_size=MAX_NOTES))
def test_notes_are_never_too_long_for_an_address(notes: list[SpeakerNote]) -> None:
    packed = PARTS["notes"].write(tuple(notes))
    assert len(packed) <= MAX_NOTES_LENGTH
    assert PARTS["notes"].read(packed) == tuple(notes)


USUAL_NOTE = {"graph": "0123abcd", "node": 3, "dx": 0.5, "dy": -1, "text": "here"}


@pytest.mark.parametrize(
    "change",
    [
        {"graph": "<script>"}, {"graph": 5}, {"node": "3"}, {"node": True}, {"node": 2**60}, {"dx": float("nan")},
        {"dy": "1"}, {"text": 4}, {"text": "x" * (MAX_TEXT + 1)}, {"dx": None},
    ],
)  # fmt: skip
def test_notes_of_anyone_are_read_strictly(change: dict[str, Any]) -> None:
    assert speaker_notes([USUAL_NOTE]) is not None
    assert speaker_notes([USUAL_NOTE | change]) is None
    assert speaker_notes([USUAL_NOTE] * (MAX_NOTES + 1)) is None
    assert speaker_notes({"0": USUAL_NOTE}) is None


@pytest.mark.parametrize(
    "rows",
    [
        {"beat_1_1": 0}, ["beat_1_1"], [["beat_1_1", 0]], [["b" * 41, 0, []]], [[1, 0, []]], [["beat_1_1", -1, []]],
        [["beat_1_1", 0.5, []]], [["beat_1_1", 0, [[1, 2, 3]]]], [["beat_1_1", 0, [[1, -1]]]],
        [["beat_1_1", 0, [["1", 0]]]], [["beat_1_1", 0, [[10**30, 0]]]], [["beat_1_1", 0, []]] * 33,
    ],
)  # fmt: skip
def test_results_of_anyone_are_read_strictly(rows: Any) -> None:
    text = base64.urlsafe_b64encode(zlib.compress(json.dumps(rows).encode())).decode().rstrip("=")
    link, problems = from_query({"lesson": "beat_the_solver", "boards": text})
    assert link.boards is None
    assert len(problems) == 1


def test_results_of_all_rounds_fit_an_address() -> None:
    """Eight graphs of ten nodes for two players."""
    boards = tuple(
        BoardResult(f"beat_{r}_{p}", p, tuple((v, (v * r) % 4) for v in range(1, 11)))
        for r in range(1, 9)
        for p in (1, 2)
    )
    packed = PARTS["boards"].write(boards)
    assert len(packed) < 2_000
    assert PARTS["boards"].read(packed) == boards


def test_what_cannot_be_printed_in_a_note_is_a_space() -> None:
    (note,) = speaker_notes([USUAL_NOTE | {"text": "a\n<b>\u202e"}]) or ()
    assert note.text == "a <b> "
