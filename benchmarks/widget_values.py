"""The values of widgets as a browser sends them to the server: those a user gave, those the server gave, defaults."""

from typing import Any

from streamlit.proto.WidgetStates_pb2 import WidgetState

VALUE_FIELDS = {
    "number_input": "double_value",
    "selectbox": "string_value",
    "text_input": "string_value",
    "text_area": "string_value",
    "checkbox": "bool_value",
    "button": "trigger_value",
    "button_group": "string_array_value",
    "file_uploader": "file_uploader_state_value",
}
"""Where the value of a widget of each kind is in the message to the server."""


def default_value(kind: str, element: Any) -> WidgetState | None:
    """Return the value a widget has by itself; None where it has none."""
    state = WidgetState(id=element.id)
    if kind in ("number_input", "text_input", "text_area"):
        if not element.HasField("default"):
            return None
        setattr(state, VALUE_FIELDS[kind], element.default)
    elif kind == "checkbox":
        state.bool_value = element.default
    elif kind == "selectbox":
        if not element.HasField("default"):
            return None
        state.string_value = element.options[element.default]
    elif kind == "button_group":
        state.string_array_value.data.extend(element.options[i].content for i in element.default)
    else:
        return None
    return state


def given_value(kind: str, element: Any) -> WidgetState | None:
    """Return the value that the server gives to a widget; None where it leaves that to the page."""
    if not getattr(element, "set_value", False):
        return None
    state = WidgetState(id=element.id)
    if kind == "button_group":
        state.string_array_value.data.extend(element.raw_values)
    elif kind == "selectbox":
        state.string_value = element.raw_value
    elif kind == "checkbox" or element.HasField("value"):
        setattr(state, VALUE_FIELDS[kind], element.value)
    return state
