"""What a session remembers of hand edits: those of each graph, what came of the last, and what the next is about."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import streamlit as st

from explorer.edits.history import History, Outcome
from explorer.state.records import Plan

HISTORIES = "edit_histories"
_OUTCOME, _OUTCOME_GRAPH, _SERIAL = "edit_outcome", "edit_outcome_graph", "edit_serial"
_CONTEXT, _MADE = "edit_context", "edit_kept"
MAX_HISTORIES = 8
"""Graphs whose edits are kept while one looks at others."""
T = TypeVar("T")


def history_for(graph_digest: str) -> History | None:
    """Return the edits of a loaded graph, None if there were none."""
    return _dict(HISTORIES).get(graph_digest)


def remember_history(history: History) -> None:
    """Make these the edits of their graph."""
    known = _dict(HISTORIES)
    known.pop(history.graph_digest, None)
    known[history.graph_digest] = history
    while len(known) > MAX_HISTORIES:
        del known[next(iter(known))]


def forget_history(graph_digest: str) -> None:
    """Drop the edits of a graph."""
    _dict(HISTORIES).pop(graph_digest, None)


def last_outcome() -> Outcome | None:
    """Return what came of the last edit."""
    return cast("Outcome | None", st.session_state.get(_OUTCOME))


def outcome_graph() -> str | None:
    """Return the digest of the graph that the last edit was of; None where it was of none."""
    return cast("str | None", st.session_state.get(_OUTCOME_GRAPH))


def remember_outcome(outcome: Outcome, graph_digest: str | None) -> None:
    """Keep what came of an edit of a graph, under the next number."""
    st.session_state[_OUTCOME] = outcome
    st.session_state[_OUTCOME_GRAPH] = graph_digest
    st.session_state[_SERIAL] = serial() + 1


def serial() -> int:
    """Return the number of the last edit; 0 before the first."""
    return int(st.session_state.get(_SERIAL, 0))


def context() -> tuple[Any, Plan | None] | None:
    """Return the choice of the form and the plan that the next edit is about."""
    return cast("tuple[Any, Plan | None] | None", st.session_state.get(_CONTEXT))


def remember_context(choice: Any, plan: Plan | None) -> None:
    """Have the next edit be about this choice of the form, and this plan."""
    st.session_state[_CONTEXT] = (choice, plan)


def made_of(name: str, equal: tuple[Any, ...], same: tuple[Any, ...], make: Callable[[], T]) -> T:
    """Return what was made last under this name if it was from equal things and the very same objects, else make it."""
    known = _dict(_MADE)
    if name in known:
        old_equal, old_same, value = known[name]
        if old_equal == equal and all(a is b for a, b in zip(old_same, same, strict=True)):
            return cast("T", value)
    value = make()
    known[name] = (equal, same, value)
    return value


def _dict(key: str) -> dict[str, Any]:
    return cast("dict[str, Any]", st.session_state.setdefault(key, {}))
