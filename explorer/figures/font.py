"""The font of figures and the widths of its letters, read from the font file itself.

Liberation Sans has the metrics of Arial and Helvetica, so that what fits in a figure fits on every machine: with the
shipped files where a PNG is made, with either of the three where an SVG is opened. Its licence (SIL Open Font License,
see `fonts/LICENSE`) allows to ship it with any software.
"""

import struct
import unicodedata
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

FAMILY = "Liberation Sans, Arimo, Arial, Helvetica, sans-serif"
"""What an SVG asks for; the first three have the same metrics."""

_FILES = {False: "LiberationSans-Regular.ttf", True: "LiberationSans-Bold.ttf"}
_WIDE = 1.0
"""Width of a Chinese, Japanese or Korean letter, which another font has to draw, in parts of the size."""


def font_paths() -> tuple[Path, ...]:
    """Return the paths of the font files, regular and bold."""
    paths = []
    for name in _FILES.values():
        with as_file(files("explorer.figures") / "fonts" / name) as path:
            paths.append(Path(path))
    return tuple(paths)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return the width of a line of text in the unit of `size`.

    >>> text_width("", 10), 6 < text_width("A", 10) < 7
    (0.0, True)
    """
    widths, other = _letter_widths(bold)
    return size * sum((widths[c] if c in widths else _unknown_width(c, other) for c in text), 0.0)


def is_covered(text: str) -> bool:
    """Whether the font has every letter of a text."""
    widths, _ = _letter_widths(False)
    return all(c in widths or c.isspace() for c in set(text))


def fitted(text: str, width: float, size: float, bold: bool = False) -> str:
    """Return the text, shortened in its middle to fit a width; "" where not even three letters would fit.

    >>> fitted("encoder.layer.11.attention", 60, 10)
    'encod…ntion'
    """
    if text_width(text, size, bold) <= width:
        return text
    # The end tells more than the middle: numbers stand there.
    low, high = 2, len(text) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if text_width(_shortened(text, middle), size, bold) <= width:
            low = middle
        else:
            high = middle - 1
    return _shortened(text, low) if low >= 3 else ""


def _shortened(text: str, keep: int) -> str:
    head = keep // 2
    return f"{text[:head]}…{text[len(text) - (keep - head) :]}"


def _unknown_width(letter: str, other: float) -> float:
    if unicodedata.combining(letter):
        return 0.0
    return _WIDE if unicodedata.east_asian_width(letter) in "WF" else other


@cache
def _letter_widths(bold: bool) -> tuple[dict[str, float], float]:
    """Return the width of each letter of the font in parts of the size, and that of the sign for missing ones."""
    data = (files("explorer.figures") / "fonts" / _FILES[bold]).read_bytes()
    tables: dict[bytes, int] = {}
    for i in range(struct.unpack_from(">H", data, 4)[0]):
        tag, _, offset, _ = struct.unpack_from(">4sIII", data, 12 + 16 * i)
        tables[tag] = offset
    units_per_em = struct.unpack_from(">H", data, tables[b"head"] + 18)[0]
    num_metrics = struct.unpack_from(">H", data, tables[b"hhea"] + 34)[0]
    advances = struct.unpack_from(">" + "Hh" * num_metrics, data, tables[b"hmtx"])[::2]

    def width(glyph: int) -> float:
        # Glyphs beyond the table have the last width in it.
        return float(advances[min(glyph, num_metrics - 1)] / units_per_em)

    return {chr(code): width(glyph) for code, glyph in _glyphs(data, tables[b"cmap"]).items()}, width(0)


def _glyphs(data: bytes, cmap: int) -> dict[int, int]:
    """Return the glyph of each code point, from the subtable of format 4 (OpenType specification, "cmap")."""
    for i in range(struct.unpack_from(">H", data, cmap + 2)[0]):
        table = cmap + struct.unpack_from(">HHI", data, cmap + 4 + 8 * i)[2]
        if struct.unpack_from(">H", data, table)[0] == 4:
            break
    else:
        raise ValueError("The font has no character map of format 4.")
    count = struct.unpack_from(">H", data, table + 6)[0] // 2
    ends = struct.unpack_from(f">{count}H", data, table + 14)
    starts = struct.unpack_from(f">{count}H", data, table + 16 + 2 * count)
    deltas = struct.unpack_from(f">{count}h", data, table + 16 + 4 * count)
    offsets_at = table + 16 + 6 * count
    offsets = struct.unpack_from(f">{count}H", data, offsets_at)
    glyphs: dict[int, int] = {}
    for k, (start, end, delta, offset) in enumerate(zip(starts, ends, deltas, offsets, strict=True)):
        for code in range(start, end + 1):
            glyph = code
            if offset:
                glyph = struct.unpack_from(">H", data, offsets_at + 2 * k + offset + 2 * (code - start))[0]
                if glyph == 0:
                    continue
            glyph = (glyph + delta) % 65536
            if glyph and code != 0xFFFF:
                glyphs[code] = glyph
    return glyphs
