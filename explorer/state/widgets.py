"""What the widgets of a session show, by their keys; what the app itself remembers is in `explorer.state.session`."""

from typing import Any

import streamlit as st


def value(key: str, default: Any = None) -> Any:
    """Return what a widget shows; the default where nothing is known of it, as before it was ever drawn."""
    return st.session_state.get(key, default)


def show(key: str, value: Any) -> str:
    """Have a widget that is drawn after this, in this run or the next, show a value; return its key.

    One that shows it already is left alone: the browser would put the value in the place of what is being typed.
    """
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value
    return key


def shows(key: str, value: Any) -> bool:
    """Whether a widget shows a value already; one behind a button has to begin with it then, not only be set to it.

    A browser takes what a widget was set to from the last run of the page before it draws the widget, which is when the
    button is pressed, and from no earlier one. A widget that is set in this run must not have a beginning as well.
    """
    return key in st.session_state and bool(st.session_state[key] == value)


def show_at_first(key: str, value: Any) -> None:
    """Have a widget that is drawn after this show a value, unless it shows one already."""
    st.session_state.setdefault(key, value)


def take(key: str) -> Any:
    """Return what was left for a widget that is about to be drawn, and forget it; None for nothing."""
    return st.session_state.pop(key, None)


def press(key: str) -> None:
    """Note that a button was pressed; the callback of one that is acted on late in a run of the page.

    A run that ends early for the next takes what a button says with it; what is noted here stays until `release`.
    """
    st.session_state[_pressed(key)] = True


def is_pressed(key: str) -> bool:
    """Whether a button was pressed and nothing has been done for it yet."""
    return _pressed(key) in st.session_state


def release(key: str) -> None:
    """Note that what a button asks for is done."""
    st.session_state.pop(_pressed(key), None)


def _pressed(key: str) -> str:
    return f"{key} is pressed"
