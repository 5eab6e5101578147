"""The cookie that a browser is known by: given with a page, kept if it is one of ours, readable by no script."""

import re
from typing import Any

import pytest
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from explorer.server.visitor import COOKIE, VisitorCookie
from tests.support.awaiting import awaited

OURS = "Ab-_" * 8
PAGE, SAME, SCRIPT = HTMLResponse("page"), Response(status_code=304), PlainTextResponse("script")


def cookie_of(
    answer: Response, *, sent: str = "", accept: str = "text/html", scheme: str = "http", method: str = "GET"
) -> str | None:
    """Return the cookie that comes with an answer, and what is said of it."""
    headers = [(b"accept", accept.encode())]
    if sent:
        headers.append((b"cookie", sent.encode("latin-1")))
    scope = {"type": "http", "method": method, "path": "/", "scheme": scheme, "headers": headers}
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        messages.append(message)

    awaited(VisitorCookie(answer)(scope, receive, send))
    return next((value.decode() for name, value in messages[0]["headers"] if name == b"set-cookie"), None)


def test_a_page_gives_a_cookie_that_no_script_reads_and_no_other_site_sends() -> None:
    first = cookie_of(PAGE)
    assert first is not None
    assert re.fullmatch(rf"{COOKIE}=[\w-]{{32}}; Path=/; Max-Age=\d+; HttpOnly; SameSite=Lax", first)
    assert cookie_of(PAGE) != first


def test_under_tls_it_is_sent_under_tls_only() -> None:
    assert (cookie_of(PAGE, scheme="https") or "").endswith("; Secure")


@pytest.mark.parametrize("answer", [PAGE, SAME], ids=["new", "unchanged"])
def test_a_browser_stays_the_same(answer: Response) -> None:
    assert (cookie_of(answer, sent=f"a=1; {COOKIE}={OURS}; b=2") or "").startswith(f"{COOKIE}={OURS};")


@pytest.mark.parametrize(
    "value", ["", "short", "x" * 33, "x" * 9_000, "../" * 12, '"' + "x" * 30 + '"', "x" * 31 + "\xe9", "x\x00" * 16]
)
def test_what_cannot_be_ours_is_replaced(value: str) -> None:
    header = cookie_of(PAGE, sent=f"{COOKIE}={value}")
    assert header is not None
    assert re.match(rf"{COOKIE}=[\w-]{{32}};", header)
    assert not header.startswith(f"{COOKIE}={value};")


def test_nothing_but_pages_gives_it() -> None:
    assert cookie_of(SCRIPT) is None
    assert cookie_of(SAME, accept="*/*") is None
    assert cookie_of(PAGE, method="POST") is None
