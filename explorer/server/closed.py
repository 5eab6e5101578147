"""Streamlit's routes that this app has no use for: they answer as if they were not there."""

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

CLOSED = (
    "/_stcore/metrics",
    "/_stcore/script-health-check",
    "/_stcore/agent",
    "/auth",
    "/oauth2callback",
    "/app/static",
)
"""Figures of all sessions, a run of the page for whoever asks, remote control of it, and logins by other services."""


class ClosedRoutes:
    """Answers 404 for what is closed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is open."""
        if scope["type"] == "http" and is_closed(scope["path"]):
            await PlainTextResponse("Not found.", 404)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_closed(path: str) -> bool:
    """Whether a path is closed, or lies below one that is.

    >>> is_closed("/_stcore/agent/mcp"), is_closed("/_stcore/health"), is_closed("/authors")
    (True, False, False)
    """
    return any(path == one or path.startswith(f"{one}/") for one in CLOSED)
