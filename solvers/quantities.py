"""How the library writes quantities inside sentences: four digits, always with a unit."""


def milliseconds(value: float) -> str:
    """Write a time.

    >>> milliseconds(2.82649), milliseconds(17571.2), milliseconds(0)
    ('2.826 ms', '17,571 ms', '0 ms')
    """
    return f"{_digits(value)} ms"


def _digits(value: float, digits: int = 4) -> str:
    return f"{value:,.0f}" if 10**digits - 0.5 <= value < 1e15 else f"{value:,.{digits}g}"


def percent(share: float) -> str:
    """Write a share, exact zero and one apart from nearly.

    >>> percent(0.1234), percent(0.0001), percent(0.0), percent(0.9999)
    ('12.3 %', '<0.05 %', '0 %', '>99.9 %')
    """
    if 0 < share < 5e-4:
        return "<0.05 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{_digits(100 * share, 3)} %"


def binary_size(size_bytes: float) -> str:
    """Write a size in the unit that keeps it readable.

    >>> binary_size(2**30), binary_size(1500), binary_size(0), binary_size(0.2)
    ('1 GiB', '1.465 KiB', '0 B', '<1 B')
    """
    if 0 < size_bytes < 1:
        return "<1 B"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            return f"{_digits(size_bytes / factor)} {unit}"
    return f"{size_bytes:.0f} B"


def counted(count: int, noun: str) -> str:
    """Write a number of things.

    >>> counted(1, "node"), counted(2000, "node"), counted(0, "CPU")
    ('1 node', '2,000 nodes', 'no CPUs')
    """
    if count == 0:
        return f"no {noun}s"
    return f"{count:,} {noun}{'s' * (count != 1)}"


def listed(items: list[str], most: int = 6) -> str:
    """Write a list as in a sentence, the rest of a long one as a number.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most} more"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else ""
