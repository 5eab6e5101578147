"""What the widgets of a session show, by their keys; what the app itself remembers is in `explorer.state.session`."""

from typing import Any

import streamlit as st


def value(key: str, default: Any = None) -> Any:
    """Return what a widget shows; the default where nothing is known of it, as before it was ever drawn."""
    return st.session_state.get(key, default)


def show(key: str, value: Any) -> str:
    """Have a widget that is drawn after this, in this run or the next, show a value; return its key."""
    st.session_state[key] = value
    return key


def show_at_first(key: str, value: Any) -> None:
    """Have a widget that is drawn after this show a value, unless it shows one already."""
    st.session_state.setdefault(key, value)


def take(key: str) -> Any:
    """Return what was left for a widget that is about to be drawn, and forget it; None for nothing."""
    return st.session_state.pop(key, None)
