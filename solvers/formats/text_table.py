"""Plain text tables for the terminal: columns aligned, nothing drawn that a text file could not hold."""

import math
from collections.abc import Sequence

MIN_PLAIN, MAX_PLAIN = 1e-9, 1e15
"""Numbers from one to the other are written without an exponent; others would be rows of zeros."""


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return lines of aligned columns, the first `left` of them to the left and the others to the right.

    >>> print(text_table(("method", "ms"), (("dp", "3.5"), ("single", "15")), left=1))
    method   ms
    dp      3.5
    single   15
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def number_text(value: float | None, digits: int = 6) -> str:
    """Return a number with so many significant digits, '-' for none.

    >>> number_text(17.789906), number_text(None)
    ('17.7899', '-')
    """
    return "-" if value is None else f"{value:.{digits}g}"


def plain_text(value: float | None, digits: int = 5, decimals: int = 0) -> str:
    """Return a number without an exponent, thousands apart, '-' for none.

    It has so many significant digits, at least those before the point and so many decimals.

    >>> plain_text(192490.4), plain_text(43.38702), plain_text(0.0000512345, 3), plain_text(1234.5678, decimals=2)
    ('192,490', '43.387', '0.0000512', '1,234.57')
    """
    if value is None:
        return "-"
    if value and not MIN_PLAIN <= abs(value) < MAX_PLAIN:
        return f"{value:.{digits}g}"
    before = math.floor(math.log10(abs(value))) + 1 if value else 1
    text = f"{value:,.{max(digits - before, decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def money_text(value: float | None) -> str:
    """Return an amount of money, to the hundredth or finer, '-' for none.

    >>> money_text(200000.0), money_text(1234.56), money_text(10.8), money_text(0.0)
    ('200,000', '1,234.56', '10.8', '0')
    """
    return plain_text(value, 5, 2)


def share_text(value: float | None) -> str:
    """Return a share in per cent, '-' for none.

    >>> share_text(0.0123), share_text(0.0)
    ('1.23%', '0.00%')
    """
    return "-" if value is None else f"{100 * value:.2f}%"
