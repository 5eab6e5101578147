"""Ask a web application for a path without a server."""

from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers

from tests.support.awaiting import awaited


def asked(app: Starlette, path: str, method: str = "GET") -> tuple[int, Headers, str]:
    """Return status, headers and text of what is served at a path."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    awaited(app({**scope, "headers": [], "app": app}, receive, send))
    return sent[0]["status"], Headers(raw=sent[0]["headers"]), b"".join(m["body"] for m in sent[1:]).decode()
