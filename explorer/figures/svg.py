"""A small writer of SVG: shapes and text with their attributes, and nothing a viewer might not know.

Attributes stand on the elements, and text is placed by its baseline, since style sheets, `dominant-baseline` and the
length of a text are ignored by some of the programs that figures are opened in: nothing relies on them. Every text goes
through `escaped`.
"""

import re
from collections.abc import Iterable
from html import escape

from explorer.figures.font import FAMILY, text_width

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]")
"""What XML 1.0 cannot hold, not even escaped, and marks that turn the direction of all that follows."""

CAP_HEIGHT = 0.36
"""Half the height of a capital in parts of the size: text stands this far below the middle of its line."""


def escaped(text: str) -> str:
    r"""Return text for XML or HTML, inside an element or an attribute; what neither may hold becomes U+FFFD.

    >>> escaped('<img src="x">')
    '&lt;img src=&quot;x&quot;&gt;'
    >>> ascii(escaped("safe\u202egpj.exe"))
    "'safe\\ufffdgpj.exe'"
    """
    return escape(_NOT_XML.sub("\ufffd", text))


def number(value: float) -> str:
    """Write a coordinate: two digits after the point at most.

    >>> number(1.0), number(0.126), number(-0.001)
    ('1', '0.13', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Drawing:
    """Shapes in the order in which they are drawn; `document` makes a file of them."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._patterns: dict[tuple[str, str], str] = {}

    def open(self, **attributes: object) -> None:
        """Begin a group; its attributes hold for what is in it."""
        self.parts.append(f"<g{_written(attributes)}>")

    def close(self) -> None:
        """End the group begun last."""
        self.parts.append("</g>")

    def rect(self, x: float, y: float, width: float, height: float, fill: str, **attributes: object) -> None:
        """Draw a rectangle."""
        size = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self.parts.append(f'<rect {size} fill="{fill}"{_written(attributes)}/>')

    def path(self, data: str, **attributes: object) -> None:
        """Draw a path; it has no fill unless one is given."""
        fill = "" if "fill" in attributes else ' fill="none"'
        self.parts.append(f'<path d="{data}"{fill}{_written(attributes)}/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str, **attributes: object) -> None:
        """Draw a straight line."""
        self.path(f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", stroke=stroke, **attributes)

    def text(
        self,
        x: float,
        middle: float,
        text: str,
        size: float,
        fill: str,
        *,
        bold: bool = False,
        anchor: str = "start",
        halo: str | None = None,
    ) -> None:
        """Write a line of text whose middle is at a height; `halo` is a colour around it, where lines run below."""
        about: dict[str, object] = {"font_size": number(size)}
        width = text_width(text, size, bold)
        if width:  # as wide where another font stands in, or it would cover the next one
            about["textLength"] = number(width)
            about["lengthAdjust"] = "spacingAndGlyphs"
        if bold:
            about["font_weight"] = "bold"
        if anchor != "start":
            about["text_anchor"] = anchor
        place = f'x="{number(x)}" y="{number(middle + CAP_HEIGHT * size)}"'
        if halo is not None:
            around = {**about, "stroke": halo, "stroke_width": number(0.28 * size), "stroke_linejoin": "round"}
            self.parts.append(f'<text {place} fill="{halo}"{_written(around)}>{escaped(text)}</text>')
        self.parts.append(f'<text {place} fill="{fill}"{_written(about)}>{escaped(text)}</text>')

    def runs(self, x: float, middle: float, runs: Iterable[tuple[str, str, bool]], size: float) -> float:
        """Write pieces of text (text, fill, bold) one after the other; return where they end."""
        for text, fill, bold in runs:
            self.text(x, middle, text, size, fill, bold=bold)
            x += text_width(text, size, bold)
        return x

    def pattern(self, name: str, colour: str) -> str:
        """Return the fill that lays an overlay of `palette` over what is below, in a colour."""
        identifier = self._patterns.setdefault((name, colour), f"{name}-{colour.lstrip('#').lower()}")
        return f"url(#{identifier})"

    def document(self, width: float, height: float, background: str, title: str, description: str) -> str:
        """Return the file: `width` and `height` are in CSS pixels, 96 to the inch, and are written in mm."""
        size = f'width="{number(width / 96 * 25.4)}mm" height="{number(height / 96 * 25.4)}mm"'
        definitions = "".join(
            _pattern(name, colour, identifier) for (name, colour), identifier in self._patterns.items()
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {number(width)} {number(height)}" role="img" '
            f'aria-labelledby="title description" font-family="{FAMILY}" xml:space="preserve">'
            f'<title id="title">{escaped(title)}</title><desc id="description">{escaped(description)}</desc>'
            f"<defs>{definitions}</defs>"
            f'<rect width="{number(width)}" height="{number(height)}" fill="{background}"/>'
        )
        return "\n".join([head, *self.parts, "</svg>", ""])


def _written(attributes: dict[str, object]) -> str:
    return "".join(
        f' {name.replace("_", "-")}="{number(value) if isinstance(value, float) else value}"'
        for name, value in attributes.items()
        if value is not None
    )


def _pattern(name: str, colour: str, identifier: str) -> str:
    """Return the definition of an overlay; the shapes are those of `canvas/kit/theme.js`."""
    size = 8
    rising = f"M-2 {size - 6}L{size - 6} -2M0 {size}L{size} 0M6 {size + 2}L{size + 2} 6"
    falling = f"M-2 6L2 {size + 2}M0 0L{size} {size}M6 -2L{size + 2} 2"
    stripes = {"backward": rising, "hatch": falling, "cross": rising + falling, "bars": f"M4 0V{size}"}
    opacity = 0.2 if name == "backward" else 0.34
    if name == "dots":
        shape = f'<circle cx="2" cy="2" r="0.9" fill="{colour}"/><circle cx="6" cy="6" r="0.9" fill="{colour}"/>'
    else:
        shape = f'<path d="{stripes[name]}" stroke="{colour}" stroke-width="1.2" fill="none"/>'
    return (
        f'<pattern id="{identifier}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">'
        f'<g opacity="{opacity}">{shape}</g></pattern>'
    )
