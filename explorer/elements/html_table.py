"""Tables with bars as HTML: real tables for readers of every kind, in the page's own colours, updated in place."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from explorer.picture.palette import ACCELERATOR_COLOURS
from explorer.words.wording import unbroken
from solvers.analysis.explanation_text import Paragraph
from solvers.model.names import in_order

STYLE = f"""<style>
.insight {{ border-collapse: collapse; width: 100%; font-size: 0.85rem; font-variant-numeric: tabular-nums; }}
.insight caption {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }}
.insight th, .insight td {{ padding: 0.18rem 0.6rem 0.18rem 0; text-align: left; vertical-align: baseline; border: 0;
  border-bottom: 1px solid color-mix(in srgb, currentColor 14%, transparent); }}
.insight thead th {{ font-weight: 400; font-size: 0.8rem; opacity: 0.75; }}
.insight th[scope=row] {{ font-weight: 400; white-space: nowrap; }}
.insight-words h4 {{ font-size: 1rem; font-weight: 600; padding: 0; margin: 0 0 0.3rem; }}
.insight-words p {{ font-size: 0.9rem; line-height: 1.45; margin: 0 0 0.35rem; overflow-wrap: anywhere; }}
.insight .number {{ text-align: right; white-space: nowrap; }}
.insight .quiet {{ opacity: 0.75; }}
.insight .strong {{ font-weight: 600; }}
.insight .whole {{ white-space: nowrap; }}
.insight .bar {{ width: 25%; min-width: 3.5rem; }}
/* A bar is of the number behind it, not of one before. */
.insight .number + .bar {{ padding-left: 1.2rem; }}
.insight-place {{ container-type: inline-size; overflow-x: auto; }}
@container (max-width: 30rem) {{
  .insight th[scope=row] {{ white-space: normal; min-width: 5.2rem; }}
  .insight thead .number, .insight .words {{ white-space: normal; }}
  .insight th, .insight td {{ padding-right: 0.35rem; font-size: 0.78rem; }}
  .insight .bar {{ width: 14%; min-width: 3rem; }}
  .insight .number + .bar {{ padding-left: 0.5rem; }}
  .insight [data-short] {{ font-size: 0; }}
  .insight [data-short]::after {{ content: attr(data-short); font-size: 0.78rem; }}
  .insight th[scope=row][data-short] {{ min-width: 0; }}
}}
.insight .bar span {{ display: block; height: 0.8rem; background: {ACCELERATOR_COLOURS[0]}; border-radius: 1px; }}
</style>"""


_MODEL = re.compile(r"(?<![\w&#;-])(?=[\w-]*\d)[A-Za-z]\w{0,11}-\w{1,12}(?![\w;-])")
"""A word of two parts with a digit in it: most devices are called so."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Text of a cell, how it looks (any of 'number', 'words', 'quiet', 'strong'), or a bar of a share from 0 to 1.

    `span` is the number of columns it takes. `short` is what stands there where the table is narrow, as on a phone.
    """

    text: str = ""
    look: str = ""
    bar: float | None = None
    span: int = 1
    short: str = ""


def html_table(
    caption: str, header: Sequence[Cell], rows: Sequence[Sequence[Cell]], width_rem: float | None = None
) -> str:
    """Return a table as HTML with its style; all text is escaped, the first cell of a row is its heading.

    It is as wide as the page, or `width_rem` where that is less; a wider one is scrolled, by keys too.

    >>> '<th scope="row">&lt;b&gt;</th>' in html_table("", [Cell("Name")], [[Cell("<b>")]])
    True
    >>> '>Number of <span class="whole">A100-80</span></th>' in html_table("", [Cell()], [[Cell("Number of A100-80")]])
    True
    """
    head = "".join(f'<th scope="col"{_attributes(cell)}>{_shown(cell.text)}</th>' for cell in header)
    body = "".join(f"<tr>{''.join(_cell(cell, i == 0) for i, cell in enumerate(row))}</tr>" for row in rows)
    width = "" if width_rem is None else f' style="max-width: {width_rem:g}rem"'
    return (
        f'{STYLE}<div class="insight-place" role="region" aria-label="{escape(caption)}" tabindex="0">'
        f'<table class="insight"{width}><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def paragraph_html(paragraph: Paragraph) -> str:
    """Return a heading and its sentences, a line each, as HTML; all text is escaped.

    >>> "&lt;b&gt;" in paragraph_html(Paragraph("What", ("<b>",)))
    True
    """
    lines = "".join(f"<p>{_shown(sentence)}</p>" for sentence in paragraph.sentences)
    return f'{STYLE}<section class="insight-words"><h4>{escape(paragraph.title)}</h4>{lines}</section>'


def _shown(text: str) -> str:
    """Return a text as HTML; a name such as A100-80 is kept on one line, as a number is with its unit."""
    return _MODEL.sub('<span class="whole">\\g<0></span>', escape(unbroken(in_order(text))))


def _cell(cell: Cell, is_heading: bool) -> str:
    if cell.bar is not None:
        width = f"{100 * min(1.0, max(0.0, cell.bar)):.2f}%"
        return f'<td class="bar"><span style="width: {width}"></span></td>'
    if is_heading:
        return f'<th scope="row"{_attributes(cell)}>{_shown(cell.text)}</th>'
    span = f' colspan="{cell.span}"' if cell.span > 1 else ""
    return f"<td{span}{_attributes(cell)}>{_shown(cell.text)}</td>"


def _attributes(cell: Cell) -> str:
    look = f' class="{escape(cell.look)}"' if cell.look else ""
    return look + (f' data-short="{escape(cell.short)}"' if cell.short else "")
