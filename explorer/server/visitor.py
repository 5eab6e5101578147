"""Who comes back: each browser has a random cookie, and what the server keeps of a visit is found with it alone.

The cookie is set with the page itself, before its websocket opens; scripts of the page cannot read it, and other sites'
pages cannot send it along. It says nothing of anybody and is compared with nothing but what this server keeps.
"""

import re
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "placement_visitor"
HEADER = "X-Placement-Visitor"
"""By this header, which no client can send, Streamlit is told of the cookie: it gives a session back to nobody else."""
SECONDS = 30 * 24 * 3600
"""How long a browser keeps the cookie after its last visit; what the server keeps goes long before."""
_SHAPE = re.compile(r"[A-Za-z0-9_-]{32}")


class VisitorCookie:
    """ASGI middleware that gives a browser its cookie with each page it loads, a new one if it has none.

    A websocket is marked with the cookie it came with. A page that was cut off names the session it had; who has read
    that name in the log of a proxy is another browser, and gets a session of its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and add the cookie to the answer if that is a page."""
        if scope["type"] == "websocket":
            await self._app(_marked(scope), receive, send)
            return
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope)
        takes_page = "text/html" in asked.get("accept", "")

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                # A page that has not changed is answered without its type.
                is_page = headers.get("content-type", "").startswith("text/html")
                if is_page or (message["status"] == 304 and takes_page):
                    visitor = _visitor_in(asked.get("cookie", "")) or secrets.token_urlsafe(24)
                    headers.append("set-cookie", _cookie(visitor, is_secure=scope.get("scheme") == "https"))
            await send(message)

        await self._app(scope, receive, send_with_cookie)


def current_visitor() -> str | None:
    """Return the id of the browser that shows this session; None where it has no cookie, as in tests."""
    return checked(st.context.cookies.get(COOKIE))


def checked(value: Any) -> str | None:
    """Return a cookie's value if it can be one of ours.

    >>> checked("a" * 32) == "a" * 32, checked("a" * 31), checked("../" * 12)
    (True, None, None)
    """
    return value if isinstance(value, str) and _SHAPE.fullmatch(value) else None


def _marked(scope: Scope) -> Scope:
    """Return the scope of a websocket with the cookie of its browser as a header of ours, whatever it sent as that."""
    visitor = _visitor_in(Headers(scope=scope).get("cookie", ""))
    name = HEADER.lower().encode()
    headers = [(key, value) for key, value in scope["headers"] if key.lower() != name]
    return {**scope, "headers": [*headers, (name, (visitor or "").encode())]}


def _visitor_in(header: str) -> str | None:
    try:
        morsel = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return None if morsel is None else checked(morsel.value)


def _cookie(visitor: str, *, is_secure: bool) -> str:
    secure = "; Secure" if is_secure else ""
    return f"{COOKIE}={visitor}; Path=/; Max-Age={SECONDS}; HttpOnly; SameSite=Lax{secure}"
