"""What a session remembers of the page Learn: where it is, what was predicted, what is done, and a lesson of one's own.

It is kept for a reload like all else, so a class can close its laptops; there are no accounts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import streamlit as st

from explorer.state.address import is_back_or_forward
from explorer.state.query import BoardResult, Link, from_query, to_query
from explorer.state.session import LESSONS

_IS_READ = "lessons_address_read"
MAX_BOARDS = 64
"""Boards that are kept while others are played; more than any lesson has."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was predicted at a step, as a text and as a number or a place among options; None where nothing was.

    `is_right` is None as long as nobody can tell: nothing was predicted, or a solver is at work on the answer.
    """

    said: str | None
    value: float | None = None
    is_right: bool | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """What was done of one lesson: steps that were seen, from 1, and the predictions made by step."""

    seen: frozenset[int] = frozenset()
    predictions: Mapping[int, Prediction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Learning:
    """All of it. `lesson` is empty where the list is shown; `own` is the text of an uploaded lesson.

    `is_presented` says that steps are shown to a room: larger, and without the lecturer's notes.

    `boards` are the placements of lessons in which the learner places nodes, by the board's name, and `shared` those
    that came with an address and are not taken over yet.
    """

    lesson: str = ""
    step: int = 1
    progress: Mapping[str, Progress] = field(default_factory=dict)
    own: bytes | None = None
    is_presented: bool = False
    boards: Mapping[str, Any] = field(default_factory=dict)
    shared: tuple[BoardResult, ...] = ()


def learning() -> Learning:
    """Return what is remembered."""
    return cast("Learning", st.session_state.get(LESSONS) or Learning())


def has_learned() -> bool:
    """Whether there is anything that a reload must not lose."""
    known = learning()
    return bool(known.progress or known.own or known.boards)


def _remember(value: Learning) -> None:
    st.session_state[LESSONS] = value


def go_to(lesson: str, step: int = 1) -> None:
    """Show a step of a lesson, or the list where `lesson` is empty."""
    _remember(replace(learning(), lesson=lesson, step=step))


def present(is_presented: bool) -> None:
    """Begin or end the presentation."""
    _remember(replace(learning(), is_presented=is_presented))


def progress_of(lesson: str) -> Progress:
    """Return what was done of a lesson."""
    return learning().progress.get(lesson, Progress())


def note_seen(lesson: str, step: int) -> None:
    """Note that a step was shown."""
    known = progress_of(lesson)
    if step not in known.seen:
        _remember_progress(lesson, replace(known, seen=known.seen | {step}))


def note_prediction(lesson: str, step: int, prediction: Prediction) -> None:
    """Keep what was predicted at a step; from then on the step is revealed."""
    known = progress_of(lesson)
    _remember_progress(lesson, replace(known, predictions={**known.predictions, step: prediction}))


def forget_progress(lesson: str) -> None:
    """Begin a lesson again."""
    _remember(replace(learning(), progress={name: p for name, p in learning().progress.items() if name != lesson}))


def _remember_progress(lesson: str, value: Progress) -> None:
    _remember(replace(learning(), progress={**learning().progress, lesson: value}))


def remember_own(text: bytes) -> None:
    """Keep the text of an uploaded lesson, in place of the one before and of what was done there."""
    kept = {name: p for name, p in learning().progress.items() if name != "own"}
    _remember(replace(learning(), own=text, progress=kept))


def board(name: str) -> Any:
    """Return what stands on a board; None before anything was placed."""
    return learning().boards.get(name)


def remember_board(name: str, value: Any) -> None:
    """Keep what stands on a board."""
    boards = {key: kept for key, kept in learning().boards.items() if key != name}
    _remember(replace(learning(), boards={**dict(list(boards.items())[-MAX_BOARDS:]), name: value}))


def take_shared() -> tuple[BoardResult, ...]:
    """Return what came with the address, and forget it."""
    known = learning()
    if known.shared:
        _remember(replace(known, shared=()))
    return known.shared


def picked(key: str) -> tuple[list[str], int | None]:
    """Return which marks of a figure were just picked, in their order, and the digit that was pressed, if any."""
    state = st.session_state.get(key)
    value = state.get("pick") if isinstance(state, Mapping) else None
    if not isinstance(value, Mapping):
        return [], None
    ids, digit = value.get("ids"), value.get("digit")
    known = [one for one in ids if isinstance(one, str)] if isinstance(ids, list) else []
    return known, digit if isinstance(digit, int) and not isinstance(digit, bool) else None


def read_address() -> tuple[str, ...]:
    """Take over the step that the address names, at a first visit and after Back or Forward; say what is wrong."""
    is_first = _IS_READ not in st.session_state
    st.session_state[_IS_READ] = True  # of this session: what is kept for a reload says nothing of its address
    if not is_first and not is_back_or_forward():
        return ()
    link, problems = from_query(dict(st.query_params))
    # Coming from another page of the app, the address names no step: then the one shown before is shown again.
    if link.lesson is not None or not is_first:
        go_to(link.lesson or "", link.step or 1)
        present(bool(link.present))
    if link.boards:
        _remember(replace(learning(), shared=link.boards))
    return problems


def write_address(boards: tuple[BoardResult, ...] = ()) -> None:
    """Put the step that is shown into the address, and what was submitted there, where that says anything else."""
    known = learning()
    link = Link()
    if known.lesson:
        present = True if known.is_presented else None
        link = Link(lesson=known.lesson, step=known.step, boards=boards or None, present=present)
    query = to_query(link)
    if (keep := st.query_params.get("keep")) is not None:
        query["keep"] = keep
    if dict(st.query_params) != query:
        st.query_params.from_dict(query)
