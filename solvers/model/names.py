"""Words from files where people read them: one line each, in the order in which they are meant to be read.

Names may be in any language. What cannot be seen is left out of them: line breaks, and marks that turn the direction of
all that follows, with which a name can be made to look like another. Words that run from right to left are set apart
from what stands beside them, or numbers and arrows after them would change sides.
"""

import re

JOINERS = "\u200c\u200d"
"""Not seen either, but without them some scripts are misspelt."""

_RIGHT_TO_LEFT = (
    "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"  # Hebrew, Arabic and their kin
)
_RUN = re.compile(f"[{_RIGHT_TO_LEFT}](?:[{_RIGHT_TO_LEFT}{JOINERS}]| (?=[{_RIGHT_TO_LEFT}]))*")
_SET_APART = "\u2068\\g<0>\u2069"


def printable(text: str) -> str:
    r"""Return a text with a space for each character that cannot be seen.

    >>> printable("a\nb\u202e"), printable("\ud800 é שלום")
    ('a b ', '  é שלום')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in JOINERS else " " for c in text)


def in_order(text: str) -> str:
    r"""Return a printable text with its words from right to left set apart from the rest (Unicode's isolates).

    >>> in_order("plain"), ascii(in_order("שלום עולם → 4"))
    ('plain', "'\\u2068\\u05e9\\u05dc\\u05d5\\u05dd \\u05e2\\u05d5\\u05dc\\u05dd\\u2069 \\u2192 4'")
    """
    return text if text.isascii() else _RUN.sub(_SET_APART, printable(text))
