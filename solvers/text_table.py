"""Plain text tables for the terminal: columns aligned, nothing drawn that a text file could not hold."""

from collections.abc import Sequence


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


def share_text(value: float | None) -> str:
    """Return a share in per cent, '-' for none.

    >>> share_text(0.0123), share_text(0.0)
    ('1.23%', '0.00%')
    """
    return "-" if value is None else f"{100 * value:.2f}%"
