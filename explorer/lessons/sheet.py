"""The printable sheet of a lesson: exercises with room to write, and the answers on a page of their own."""

from html import escape

from explorer.lessons.desk import Desk
from explorer.lessons.records import Lesson, Sketch, Told, said
from explorer.lessons.scene import static_svg
from explorer.words.wording import unbroken

STYLE = """
body { font: 11pt/1.45 Georgia, serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; } h2 { font-size: 1.15rem; margin-top: 1.6rem; }
.room { height: 5rem; border-bottom: 1px dotted #777; }
.name { text-align: right; } .answers { break-before: page; } li { margin-bottom: 0.8rem; break-inside: avoid; }
h2 { break-after: avoid; }
figure { margin: 0.6rem 0; break-inside: avoid; }
@media print { body { margin: 0; } }
"""


def sheet_html(lesson: Lesson, desk: Desk) -> str:
    """Return the sheet as a page of its own; all text is escaped. An answer that is still computed says so."""
    asked = "".join(
        f'<li>{_lines(one.question)}{_figure(one.given, desk)}<div class="room"></div></li>' for one in lesson.exercises
    )
    answered = "".join(
        f"<li>{_lines(_said(one.answer, desk))}{_figure(one.drawn, desk)}</li>" for one in lesson.exercises
    )
    last = escape(unbroken(lesson.closing.question))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(lesson.title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f'<p class="name">Name: ______________________</p><h1>{escape(lesson.title)}</h1>'
        f"<p>{escape(lesson.question)}</p><h2>Exercises</h2><ol>{asked}"
        f'<li>{last}<div class="room"></div></li></ol>'
        f'<section class="answers"><h2>Answers: {escape(lesson.title)}</h2><ol>{answered}'
        f"<li>{escape(unbroken(lesson.closing.answer))}</li></ol></section></body></html>"
    )


def _said(told: Told, desk: Desk) -> str:
    text = said(told, desk)
    return text if text is not None else "The solver is still at work on this; download the sheet again in a moment."


def _figure(sketch: Sketch | None, desk: Desk) -> str:
    return "" if sketch is None else f"<figure>{static_svg(sketch(desk))}</figure>"


def _lines(text: str) -> str:
    return "<br>".join(escape(unbroken(line)) for line in text.replace("**", "").replace("`", "").splitlines())
