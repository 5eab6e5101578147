"""A page tells of an error of the program in our words, and nothing of what it was."""

import pytest
from streamlit import config
from streamlit.elements import exception
from streamlit.proto.Exception_pb2 import Exception as Shown

from explorer.server.mends.errors import TEXT, tell_errors


def test_an_error_is_told_in_our_words_without_its_details(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exception, "_GENERIC_UNCAUGHT_EXCEPTION_TEXT", "")  # given back afterwards
    monkeypatch.setattr(config, "get_option", {"client.showErrorDetails": "none"}.get)
    tell_errors()
    shown = Shown()
    exception.marshall(shown, RuntimeError("/a/path"), apply_show_error_details=True)
    assert shown.message == TEXT
    assert "/a/path" not in str(shown)
