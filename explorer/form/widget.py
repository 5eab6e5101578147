"""The widget of a parameter: tied to the address, with the label, help, limits and default that the table has for it.

The widget's kind follows from what a value is: a box for numbers, a switch for yes or no, a list for one of a few, a
line for other text. A parameter that says nothing for the question so far is not drawn.
"""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer.state import widgets
from explorer.state.address import bound_parameter, is_set_by_browser
from explorer.words.wording import plain
from solvers.parameters.asked import TABLE, Asking
from solvers.parameters.codecs import COUNT, FLAG, TextError
from solvers.parameters.parameter import Parameter, Range, T, Unit
from solvers.parameters.spelling import in_the_form

SMALLEST = 1e-3
"""The least number in a box for numbers above 0."""


def widget(
    parameter: Parameter[T],
    asking: Asking,
    key: str,
    column: DeltaGenerator | None = None,
    *,
    persists: bool = True,
    **look: Any,
) -> T:
    """Draw the widget of a parameter where it says anything, have the question take its value, and return that."""
    place: Any = st if column is None else column
    asked = asking.asked
    if parameter.why_not(asked):
        asking.leave(parameter)
        return parameter.get(asking.asked)
    usual = parameter.usual(asked)
    is_share = parameter.unit is Unit.PERCENT

    allowed = parameter.limits if parameter.allowed is None else parameter.allowed(asked)
    # A list takes the value None for no choice, so its options are texts where None is one of them.
    is_text = (
        parameter.codec.is_optional if isinstance(allowed, tuple) else allowed is None and parameter.codec is not FLAG
    )

    def shown(value: T) -> Any:
        if is_text:
            return parameter.codec.write(value)
        return float(f"{100 * value:.10g}") if is_share else value  # type: ignore[operator]

    def taken(value: Any) -> T:
        if is_text:
            return _read(parameter, value, usual)[0]
        return float(f"{value / 100:.12g}") if is_share and value is not None else value  # type: ignore[return-value]

    bound_parameter(parameter, key, usual, lambda value: parameter.misfit(asked, value), shown, taken)
    options = {"label": parameter.label, "key": key, "help": parameter.help, **look}
    if persists:
        options["persist_state"] = "session"
    if is_text and not isinstance(allowed, tuple):
        value = place.text_input(**{"value": shown(usual), **options} if widgets.value(key) is None else options)
        if reason := _read(parameter, value, usual)[1]:
            st.error(plain(f"{parameter.label}: {reason}."))
    elif isinstance(allowed, Range):
        value = _number(parameter, allowed, shown(usual), 100 if is_share else 1, key, place, options)
    elif parameter.codec is FLAG:
        value = place.toggle(**{"value": usual, **options} if widgets.value(key) is None else options)
    else:
        assert isinstance(allowed, tuple)
        value = place.selectbox(
            options=tuple(map(shown, allowed)),
            index=allowed.index(usual),
            format_func=lambda one: parameter.names.get(taken(one), str(one)),
            **options,
        )
    is_empty = value is None and not parameter.codec.is_optional
    if reason := asking.take(parameter, usual if is_empty else taken(value)):
        st.error(plain(in_the_form(f"{parameter.label} was not applied. {reason}.", TABLE)))
    return parameter.get(asking.asked)


def _read(parameter: Parameter[T], text: str | None, usual: T) -> tuple[T, str]:
    """Return what was typed, or else the default and what to type."""
    try:
        return parameter.codec.read(text or ""), ""
    except TextError as error:
        return usual, str(error)


def _number(
    parameter: Parameter[Any],
    allowed: Range,
    usual: Any,
    scale: int,
    key: str,
    place: Any,
    options: dict[str, Any],
) -> Any:
    whole = parameter.codec is COUNT or (parameter.codec.is_optional and isinstance(parameter.codec.read("1"), int))
    kind = int if whole else float
    least = kind(max(allowed.least * scale, SMALLEST) if allowed.least in allowed.excludes else allowed.least * scale)
    most = kind(allowed.most * scale)
    if parameter.codec.is_optional:
        # Its default is no value, or the box could not be emptied; so its first value is put there by hand.
        if not is_set_by_browser(key):
            widgets.show_at_first(key, usual)
        usual = None
    known = widgets.value(key)
    if known is not None and not is_set_by_browser(key) and known > most:
        widgets.show(key, most)  # the box would go back to its default without a word
    if kind is float:
        options = {"format": "%.4g", **options}
    return place.number_input(min_value=least, max_value=most, value=usual, **options)
