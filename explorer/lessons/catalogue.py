"""The course: all lessons in their order."""

from functools import cache
from importlib.resources import files

from explorer.lessons.course import (
    beat_the_solver,
    cuts,
    dynamic_program,
    hardware,
    ideals,
    integer_program,
    pipelining,
    training,
)
from explorer.lessons.reader import read_lesson
from explorer.lessons.records import Lesson

OWN = "own"
"""What addresses call an uploaded lesson."""


@cache
def _written(name: str) -> Lesson:
    """Return a lesson of the course that is written as data."""
    return read_lesson((files("explorer") / "lessons" / "course" / f"{name}.json").read_bytes(), name)


COURSE: tuple[Lesson, ...] = (
    pipelining.LESSON,
    cuts.LESSON,
    ideals.LESSON,
    dynamic_program.LESSON,
    integer_program.LESSON,
    _written("fragments"),
    training.LESSON,
    _written("proof"),
    hardware.LESSON,
    beat_the_solver.LESSON,
)


def lesson_named(name: str, own: Lesson | None) -> Lesson | None:
    """Return the lesson of this name; None where there is none."""
    if name == OWN:
        return own
    return next((lesson for lesson in COURSE if lesson.name == name), None)
