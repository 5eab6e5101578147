"""How many examples hypothesis draws: each test says how many it needs, one setting scales them all."""

from typing import Any

from hypothesis import settings

USUAL = 100
"""Examples of a test that names no number, in the usual profile; what another profile says instead scales all tests."""


def examples(number: int, **others: Any) -> settings:
    """Return settings for about `number` examples in the usual profile: a tenth in `quick`, tenfold in `thorough`."""
    return settings(max_examples=max(1, round(number * settings.default.max_examples / USUAL)), **others)
