"""The log: no lines for what is expected whenever somebody leaves a page, and no lines that a visitor has written.

Streamlit logs what a browser sent as it came, ids of files and of sessions among it. A line break in them would begin
an entry that looks like any other, and an escape sequence is one to the operator's terminal.
"""

import logging
from typing import Any

SESSION_LOGGER = "streamlit.runtime.app_session"
WEBSOCKET_LOGGER = "streamlit.web.server.starlette.starlette_websocket"
GONE = ("websocket.close", "close message has been sent", "WebSocket is not connected", "websocket.send")


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a record is more than a part of a page, or a page, that has gone in the meantime."""
    if record.name == SESSION_LOGGER:
        # A part of the page that polls asks once more when the page has just been left.
        return not str(record.msg).startswith("The fragment with id %s does not exist anymore")
    if record.msg == "Error sending websocket payload" and record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        is_gone = isinstance(error, RuntimeError) and any(text in str(error) for text in GONE)
        return not (is_gone or isinstance(error, ConnectionError))
    return True


INDENT = "    "
"""Before each further line of an entry: only the first one begins with a date."""


class PrintableRecord(logging.LogRecord):
    """An entry of the log in printable characters, whose further lines are indented."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = INDENT + _printable(logging.Formatter().formatException(self.exc_info))

    def getMessage(self) -> str:  # noqa: N802 -- the name of what it overrides
        """Return the message with its arguments."""
        return _printable(super().getMessage())


def _printable(text: str) -> str:
    r"""Return a text with escapes for what is not printable.

    >>> _printable("a\x1b[31m\nb\r")
    'a\\x1b[31m\n    b\\r'
    """
    lines = ("".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in text.split("\n"))
    return f"\n{INDENT}".join(lines)


def keep_in_order() -> None:
    """Have all entries written in printable characters, and Streamlit's loggers leave out what is expected."""
    logging.setLogRecordFactory(PrintableRecord)
    for name in (SESSION_LOGGER, WEBSOCKET_LOGGER):
        logger = logging.getLogger(name)
        if _is_worth_a_line not in logger.filters:
            logger.addFilter(_is_worth_a_line)
