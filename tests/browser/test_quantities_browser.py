"""Python and the picture write every quantity in the same way: `solvers.quantities` and its copy give the same text."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from explorer.words.wording import unbroken
from solvers import quantities as q
from tests.support.root import ROOT

pytestmark = pytest.mark.browser

WRITERS: dict[str, Callable[..., str]] = {
    "formatNumber": q.number,
    "formatMs": q.milliseconds,
    "formatPercent": q.percent,
    "formatBytes": q.binary_size,
    "formatFlops": q.flops,
}

VALUES = (
    *(None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1, -1, 5e-324, 1.7976931348623157e308),
    *(1e-7, 9.9994e-7, 9.99951e-7, 9.9999e-7, 1e-6, 1.5e-5, 0.00012345, 4.9999e-4, 5e-4, 0.001, 0.078125),
    *(0.5, 0.99949, 0.9995, 0.99951, 0.9999999, 1.0005, 1.00049999, 2.82649, 12.345, 99.995, 100.05),
    *(999.5, 999.94, 999.95, 999.96, 1000.5, 1023.5, 1023.99, 1024, 9999.4999, 9999.5, 10000.5, 17571.2, 192490.4),
    *(2**20 - 1, 2**20, 1.5 * 2**30, 2**53, 999999999999999.9, 1e15, 1.23456e15, 9.9996e15, 1e21, 1.5e300),
)


@pytest.fixture
def in_the_browser(chromium_page: Any) -> Callable[[str, Sequence[Any]], Any]:
    """Return a function that calls a function of `quantities.js` with each of many lists of arguments."""
    source = (ROOT / "explorer" / "canvas" / "kit" / "quantities.js").read_text(encoding="utf-8")
    chromium_page.evaluate(
        """async (source) => {
          const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
          globalThis.quantities = await import(address);
        }""",
        source,
    )
    return lambda name, calls: chromium_page.evaluate(
        "([name, calls]) => calls.map((given) => globalThis.quantities[name](...given))", [name, list(calls)]
    )


def test_every_function_of_the_copy_is_compared(chromium_page: Any, in_the_browser: Any) -> None:
    assert set(chromium_page.evaluate("Object.keys(globalThis.quantities)")) == {
        *WRITERS,
        *("AS_GIVEN", "formatMove", "formatCount", "binaryUnit", "bytesIn"),
    }
    assert chromium_page.evaluate("globalThis.quantities.AS_GIVEN") == q.AS_GIVEN


@pytest.mark.parametrize("name", WRITERS)
def test_cases_are_written_alike(in_the_browser: Any, name: str) -> None:
    values = [*VALUES, *(-value for value in VALUES if value is not None)]
    assert dict(zip(map(repr, values), in_the_browser(name, [[value] for value in values]), strict=True)) == {
        repr(value): WRITERS[name](value) for value in values
    }


def test_any_number_is_written_alike(in_the_browser: Any) -> None:
    """Numbers of all magnitudes, and those near the ends of decimals, where rounding decides."""
    halves = st.builds(lambda n, k: (n + 0.5) / 2**k, st.integers(-(10**6), 10**6), st.integers(0, 20))
    decimals = st.builds(lambda n, k: n / 10**k, st.integers(-(10**7), 10**7), st.integers(0, 12))

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.floats() | st.floats(-1e5, 1e5) | halves | decimals, min_size=20, max_size=200))
    def check(values: list[float]) -> None:
        for name, write in WRITERS.items():
            assert in_the_browser(name, [[value] for value in values]) == list(map(write, values)), name
        for digits in (1, 3, q.AS_GIVEN):
            calls = [[value, digits] for value in values]
            assert in_the_browser("formatNumber", calls) == [q.number(*call) for call in calls]

    check()


def test_transfers_and_counts_are_written_alike(in_the_browser: Any) -> None:
    times = st.sampled_from([0.0, 0.5, 0.50001, 2.0, 1e-9])

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(times, st.lists(times, max_size=3), st.sampled_from(["", " each way"])), min_size=20))
    def check(moves: list[tuple[float, list[float], str]]) -> None:
        assert in_the_browser("formatMove", list(map(list, moves))) == [q.moving_time(*move) for move in moves]

    check()
    sizes: list[list[float | None]] = [[], [None], [0.0, 5.0], [2.0**20, 2.0**31, None], [-(2.0**11), 3.0]]
    units = [q.binary_unit(one) for one in sizes]
    assert in_the_browser("binaryUnit", [[one] for one in sizes]) == units
    in_units = [(size, unit) for unit in {*units, "MiB"} for size in (0.0, 3.0, 1500.0, 2.0**21, 2.0**29, 2.0**34)]
    assert in_the_browser("formatBytes", list(map(list, in_units))) == [q.binary_size(*one) for one in in_units]
    assert in_the_browser("bytesIn", [[unit] for unit in units]) == [
        q.binary_factor(max((abs(size) for size in one if size is not None), default=0.0)) for one in sizes
    ]
    counts = [0, 1, 999, 1000, 123456789, -1000]
    assert in_the_browser("formatCount", [[n] for n in counts]) == list(map(q.count, counts))


def test_units_stay_with_their_numbers_in_the_picture_as_on_the_page(chromium_page: Any) -> None:
    source = (ROOT / "explorer" / "canvas" / "kit" / "names.js").read_text(encoding="utf-8")
    texts = [f"{write(value)} · 3 nodes" for write in WRITERS.values() for value in VALUES]
    texts += [
        "send 0.5 ms, receive 2 ms",
        "12 GB/s",
        "11.8 sequences/s",
        "1.5 × as fast",
        "4 s later",
        "10 more",
        "8 Bs",
    ]
    shown = chromium_page.evaluate(
        """async ([source, texts]) => {
          const { unbroken } = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
          return texts.map(unbroken);
        }""",
        [source, texts],
    )
    assert shown == [unbroken(text) for text in texts]
