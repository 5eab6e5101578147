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
