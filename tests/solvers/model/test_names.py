"""Words from files: nothing in them that cannot be seen, and no number or arrow that changes sides because of them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from solvers.model.names import in_order, printable

MIXED = st.text(st.sampled_from("ab 1→/.()שלאب\u200c\u202e\u2067\n\x00\ud800")) | st.text()
ISOLATES = "\u2068\u2069"


@given(MIXED)
def test_what_cannot_be_seen_is_a_space_and_the_rest_stays(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(a == b or (b == " " and not a.isprintable()) for a, b in zip(text, shown, strict=True))
    assert shown.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert printable(shown) == shown


@given(MIXED)
def test_only_words_from_right_to_left_are_set_apart(text: str) -> None:
    shown = in_order(printable(text))
    assert re.sub(f"[{ISOLATES}]", "", shown) == printable(text)
    assert re.fullmatch(f"([^{ISOLATES}]|\u2068[^{ISOLATES}]+\u2069)*", shown)  # each that begins ends, none in another
    outside = re.sub("\u2068.*?\u2069", "", shown)
    assert not re.search("[\u05d0-\u05ea\u0620-\u064a]", outside)
    for inside in re.findall("\u2068(.*?)\u2069", shown):
        assert not re.search("[A-Za-z0-9]", inside)
