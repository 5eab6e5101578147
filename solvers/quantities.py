"""How every quantity is written for people: on the page, in tables, reports, errors and on the terminal.

A number has four significant digits, those before the point always in full; trailing zeros go, thousands are apart, and
there is a unit: milliseconds for every time of a plan, so that one number is one text wherever it stands. What the
picture writes in the browser comes from `explorer/canvas/kit/quantities.js`, a copy of this in JavaScript; one test
runs both. Halves are rounded away from zero, as they are there; Python's own formatting rounds them to even.

None is what is not known. Values for programs (JSON, CSV, addresses) are not written here.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_HALF_UP, Context, Decimal

UNKNOWN = "–"
DIGITS = 4
AS_GIVEN = 12
"""Digits that keep what a user has typed, and not what binary fractions add to it."""

LEAST_FIXED, MOST_FIXED = -6, 15
"""Powers of ten from, and below, which numbers are written without an exponent."""

LEAST_MS = 1e-6
"""Times below a nanosecond are what is left of rounding, and no times."""

LEAST_SHARE = 1e-6
"""Shares up to this are what is left of rounding too: a plan with such a gap counts as proven optimal."""

BINARY_UNITS = (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10))
FLOP_UNITS = tuple(zip(("PFLOP", "TFLOP", "GFLOP", "MFLOP", "kFLOP"), (1e15, 1e12, 1e9, 1e6, 1e3), strict=True))
DECIMAL_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
LEAST_OF_A_UNIT = 1e-3
"""Sizes below this are not read in a unit."""

LARGE_UNITS = (("trillion", 1e12), ("billion", 1e9), ("million", 1e6))
BYTES_PER_MS_OF_GB_S = 1e6


def number(value: float | None, digits: int = DIGITS) -> str:
    """Write a number without a unit, with up to 15 significant digits.

    >>> number(2.82649), number(17571.2), number(0.0001), number(-0.5), number(1e15), number(2e-7), number(None)
    ('2.826', '17,571', '0.0001', '−0.5', '1e15', '2e-7', '–')
    """
    if value is None:
        return UNKNOWN
    if math.isnan(value):
        return "not a number"
    magnitude = "∞" if math.isinf(value) else _digits(abs(float(value)), digits)
    return f"−{magnitude}" if value < 0 else magnitude


def as_written(value: float) -> float:
    """Return the number that `number` writes.

    >>> as_written(12.20688), as_written(17571.2)
    (12.21, 17571.0)
    """
    return math.copysign(float(_rounded(abs(value), DIGITS)), value)


def _rounded(value: float, digits: int) -> Decimal:
    if 10**digits - 0.5 <= value < 10.0**MOST_FIXED:
        return Decimal(value).to_integral_value(ROUND_HALF_UP)
    return Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal_from_float(value)


def _digits(value: float, digits: int) -> str:
    rounded = _rounded(value, digits)
    power = rounded.adjusted()
    if value == 0 or LEAST_FIXED <= power < MOST_FIXED or value < 10.0**MOST_FIXED <= rounded:
        return _trimmed(f"{rounded:,f}")
    return f"{_trimmed(f'{rounded.scaleb(-power):f}')}e{power}"


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _at_least(value: float, least: float, text: str) -> str | None:
    """Say that a value other than zero is nearer to it than `text`, the least that is written."""
    if value == 0 or not abs(value) < least:
        return None
    return f"<{text}" if value > 0 else f">−{text}"


def as_given(value: float | None) -> str:
    """Write a number that somebody has typed, all of it.

    >>> as_given(12.207), as_given(0.1 + 0.2), as_given(1234567.0)
    ('12.207', '0.3', '1,234,567')
    """
    return number(value, AS_GIVEN)


def milliseconds(value: float | None) -> str:
    """Write a time of a plan.

    >>> milliseconds(2.82649), milliseconds(17571.2), milliseconds(0), milliseconds(1e-12), milliseconds(None)
    ('2.826 ms', '17,571 ms', '0 ms', '<0.000001 ms', '–')
    """
    if value is None:
        return UNKNOWN
    return f"{_at_least(value, LEAST_MS, '0.000001') or number(value)} ms"


def moving_time(send_ms: float, receive_ms: Sequence[float], evenly: str = "") -> str:
    """Write what a transfer takes at its ends: once, with `evenly` behind it, where all take as long, else both times.

    CPUs take no time and are not named.

    >>> moving_time(0.5, [0.5, 0.0]), moving_time(0.5, [2.0]), moving_time(0.0, [2.0, 0.5]), moving_time(0.0, [0.0])
    ('0.5 ms', 'send 0.5 ms, receive 2 ms', 'receive 0.5 ms to 2 ms', '0 ms')
    """
    sent = [milliseconds(send_ms)] if send_ms > 0 else []
    received = list(dict.fromkeys(milliseconds(ms) for ms in sorted(receive_ms) if ms > 0))
    if len({*sent, *received}) <= 1:
        return next(iter((*sent, *received)), milliseconds(0.0)) + evenly
    into = received[0] if len(received) == 1 else f"{received[0]} to {received[-1]}"
    return f"send {sent[0]}, receive {into}" if sent else f"receive {into}"


def seconds(value: float | None) -> str:
    """Write how long the computer or the user waits.

    >>> seconds(0.3456), seconds(12.34), seconds(60), seconds(0.001)
    ('0.346 s', '12.3 s', '60 s', '<0.01 s')
    """
    if value is None:
        return UNKNOWN
    return f"{_at_least(value, 0.01, '0.01') or number(value, 3)} s"


def percent(share: float | None) -> str:
    """Write a share, none and all apart from nearly so.

    >>> percent(0.1234), percent(0.0001), percent(1e-7), percent(0.9999), percent(-0.5), percent(None)
    ('12.3 %', '<0.05 %', '0 %', '>99.9 %', '−50 %', '–')
    """
    if share is None:
        return UNKNOWN
    if abs(share) <= LEAST_SHARE:
        return "0 %"
    if 0.9995 <= abs(share) < 1:
        return ">99.9 %" if share > 0 else "<−99.9 %"
    return f"{_at_least(share, 5e-4, '0.05') or number(100 * share, 3)} %"


def above_bound(value: float | None, lower_bound: float | None) -> str:
    """Write by how much a value exceeds a proven lower bound, as a cell of a table: the excess over the bound.

    From twice the bound on it is the ratio of the two, and "no limit" over a bound of zero. Rounded up, never down: the
    optimum lies between the two, so this is how far the value may be from it. It is not the `gap` of JSON documents,
    which is relative to the value.

    >>> above_bound(10.0, 8.0), above_bound(10.13, 2.38), above_bound(2.0, 2.0), above_bound(1.0, 0.0)
    ('25 %', '4.26 ×', '0 %', 'no limit')
    """
    if value is None or lower_bound is None:
        return UNKNOWN
    if math.isfinite(value) and value - lower_bound <= LEAST_SHARE * abs(value):
        return percent(0.0)
    ratio = value / lower_bound if lower_bound > 0 else math.inf
    if math.isinf(ratio):
        return "no limit"
    return factor(_rounded_up(ratio)) if ratio >= 2 else percent(_rounded_up(ratio - 1))


def proven_distance(value: float | None, lower_bound: float | None) -> str:
    """Say how far a value may be from the optimum of which a lower bound is proven; see `above_bound`.

    >>> proven_distance(10.0, 8.0), proven_distance(10.13, 2.38), proven_distance(2.0, 2.0)
    ('at most 25 % above the optimum', 'at most 4.26 × the optimum', 'equal to the bound')
    >>> proven_distance(1.0, 0.0), proven_distance(None, 2.0), proven_distance(2.0002, 2.0)
    ('no useful bound', 'no bound', 'less than 0.05 % above the optimum')
    """
    text = above_bound(value, lower_bound)
    if text == UNKNOWN:
        return "no bound"
    if text == "no limit":
        return "no useful bound"
    if text == percent(0.0):
        return "equal to the bound"
    if text.endswith("×"):
        return f"at most {text} the optimum"
    return f"{'less than' if text.startswith('<') else 'at most'} {text.removeprefix('<')} above the optimum"


def _rounded_up(value: float) -> float:
    """Return the least number of three digits that is not below a value, but for the rounding of binary fractions."""
    exact = Context(prec=AS_GIVEN, rounding=ROUND_HALF_UP).create_decimal_from_float(value)
    return float(Context(prec=3, rounding=ROUND_CEILING).plus(exact))


def change(share: float) -> str:
    """Write by what share a value has changed, with its sign.

    >>> change(0.1234), change(-0.5), change(0.0)
    ('+12.3 %', '−50 %', '0 %')
    """
    return signed(share, percent)


def signed(value: float, write: Callable[[float], str]) -> str:
    """Write a difference with its sign.

    >>> signed(2.0, milliseconds), signed(-2.0, milliseconds)
    ('+2 ms', '−2 ms')
    """
    return f"+{write(value)}" if value > 0 else write(value)


def binary_size(size_bytes: float | None, unit: str | None = None) -> str:
    """Write a size in the unit that keeps it readable, or in a given one.

    One that is so small that nobody would read it in that unit, less than a thousandth of it, has its own.

    >>> binary_size(2**30), binary_size(1500), binary_size(0), binary_size(0.2)
    ('1 GiB', '1.465 KiB', '0 B', '<1 B')
    >>> binary_size(2**24, "GiB"), binary_size(2**20, "GiB"), binary_size(0, "GiB")
    ('0.01563 GiB', '1 MiB', '0 GiB')
    """
    if size_bytes is None:
        return UNKNOWN
    if 0 < abs(size_bytes) < LEAST_OF_A_UNIT * dict(BINARY_UNITS).get(unit or "", 1.0):
        unit = None
    for name, factor in BINARY_UNITS:
        if name == unit or (unit is None and abs(size_bytes) >= factor):
            return f"{number(size_bytes / factor)} {name}"
    return f"{_at_least(size_bytes, 1, '1') or number(size_bytes)} B"


def binary_unit(sizes_bytes: Iterable[float | None]) -> str:
    """Return the unit of a column or a sentence of sizes: that of the largest.

    >>> binary_unit([2**20, 2**31, None]), binary_unit([0.0])
    ('GiB', 'B')
    """
    largest = max((abs(size) for size in sizes_bytes if size is not None), default=0.0)
    return next((name for name, factor in BINARY_UNITS if largest >= factor), "B")


def binary_factor(size_bytes: float) -> float:
    """Return how many bytes the unit has in which a size is written.

    >>> binary_factor(1.5 * 2**20) == 2**20, binary_factor(3)
    (True, 1.0)
    """
    return next((factor for _, factor in BINARY_UNITS if abs(size_bytes) >= factor), 1.0)


def binary_ceiling(size_bytes: float) -> float:
    """Return the least size, not below the given one, that `binary_size` writes as it is: what is said to be enough is.

    >>> binary_size(1.2344 * 2**30), binary_size(binary_ceiling(1.2344 * 2**30)), binary_ceiling(0.0)
    ('1.234 GiB', '1.235 GiB', 0.0)
    """
    factor = binary_factor(size_bytes)
    return float(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal_from_float(size_bytes / factor)) * factor


def binary_sizes(sizes_bytes: Sequence[float | None]) -> list[str]:
    """Write sizes that are compared with each other in one unit, that of the largest; see `binary_size`.

    >>> binary_sizes([2**29, 2**31]), binary_sizes([14, 2**22])
    (['0.5 GiB', '2 GiB'], ['14 B', '4 MiB'])
    """
    unit = binary_unit(sizes_bytes)
    return [binary_size(size, unit) for size in sizes_bytes]


def decimal_size(size_bytes: float | None) -> str:
    """Write a size as makers of devices state it, a small one in a smaller unit.

    >>> decimal_size(80e9), decimal_size(2.167e6), decimal_size(1500), decimal_size(0)
    ('80 GB', '2.167 MB', '1.5 kB', '0 B')
    """
    if size_bytes is None:
        return UNKNOWN
    name, factor = next((unit for unit in DECIMAL_UNITS if abs(size_bytes) >= unit[1]), ("B", 1.0))
    return f"{number(size_bytes / factor)} {name}"


def bandwidth(bytes_per_ms: float | None) -> str:
    """Write the speed of a link or of a memory.

    >>> bandwidth(12e6), bandwidth(3.35e9)
    ('12 GB/s', '3,350 GB/s')
    """
    return UNKNOWN if bytes_per_ms is None else f"{number(bytes_per_ms / BYTES_PER_MS_OF_GB_S)} GB/s"


def flops(count: float | None) -> str:
    """Write a number of floating-point operations.

    >>> flops(1.5e12), flops(12), flops(0)
    ('1.5 TFLOP', '12 FLOP', '0 FLOP')
    """
    if count is None:
        return UNKNOWN
    name, factor = next(((name, factor) for name, factor in FLOP_UNITS if abs(count) >= factor), ("FLOP", 1.0))
    return f"{number(count / factor)} {name}"


def factor(value: float | None) -> str:
    """Write how many times as large or as fast something is.

    >>> factor(1.5349), factor(2.0)
    ('1.53 ×', '2 ×')
    """
    return UNKNOWN if value is None else f"{number(value, 3)} ×"


def as_published(ratio: float | None) -> str:
    """Write how many times as fast something is in a table beside those of the paper, which print two decimals.

    >>> as_published(1.1), as_published(2.005), as_published(None)
    ('1.10', '2.01', '–')
    """
    return UNKNOWN if ratio is None else f"{Decimal(repr(ratio)).quantize(Decimal('0.01'), ROUND_HALF_UP)}"


def money(value: float | None) -> str:
    """Write an amount of money, to the hundredth or finer.

    >>> money(200000.0), money(1234.567), money(10.8), money(0.0), money(0.00512345)
    ('200,000', '1,234.57', '10.8', '0', '0.005123')
    """
    if value is None:
        return UNKNOWN
    before = math.floor(math.log10(abs(value))) + 1 if value else 1
    return number(value, min(MOST_FIXED, max(DIGITS, before + 2)))


def count(value: int) -> str:
    """Write a whole number of things, all of it.

    >>> count(2000)
    '2,000'
    """
    return f"−{-value:,}" if value < 0 else f"{value:,}"


def in_words(value: float) -> str:
    """Write a large number as people say it, rounded as every number is.

    >>> in_words(70.6e9), in_words(124439808), in_words(999999999), in_words(1.5e12), in_words(21500)
    ('70.6 billion', '124.4 million', '1 billion', '1.5 trillion', '21,500')
    """
    rounded = float(Context(prec=DIGITS, rounding=ROUND_HALF_UP).create_decimal_from_float(float(value)))
    name, least = next(((name, least) for name, least in LARGE_UNITS if abs(rounded) >= least), ("", 1.0))
    return f"{number(rounded / least)} {name}" if name else number(value)


def count_in_words(value: int) -> str:
    """Write a whole number of things, all of it, behind how people say it where it is large.

    >>> count_in_words(8030261248), count_in_words(21504), count_in_words(7000000)
    ('8.03 billion (8,030,261,248)', '21,504', '7 million (7,000,000)')
    """
    return f"{in_words(value)} ({count(value)})" if abs(value) >= LARGE_UNITS[-1][1] else count(value)


def counted(how_many: int, noun: str, several: str | None = None) -> str:
    """Write a number of things with their name.

    >>> counted(1, "node"), counted(2000, "node"), counted(0, "CPU"), counted(2, "micro-batch", "micro-batches")
    ('1 node', '2,000 nodes', 'no CPUs', '2 micro-batches')
    """
    several = several or f"{noun}s"
    if how_many == 0:
        return f"no {several}"
    return f"{count(how_many)} {noun if how_many == 1 else several}"


def listed(items: list[str], most: int = 6) -> str:
    """Write a list as in a sentence, the rest of a long one as a number.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(items) > most:
        return f"{', '.join(items[:most])} and {count(len(items) - most)} more"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""
