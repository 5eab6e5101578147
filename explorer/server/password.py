"""One password for a class or a team: what stands between the network and the page when the operator asks for it.

Who has given the password gets a cookie, which is derived from it by a slow function: it tells nobody the password, it
cannot be made without it, and it is still good when the server is started again with the same one. The first address
may carry a token instead, derived likewise, to be handed out as a link.
"""

import hashlib
import hmac
import ipaddress
import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from urllib.parse import parse_qs, parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from explorer.server.hosts import POLICY_VIOLATION
from explorer.server.login_page import CONTENT_SECURITY_POLICY, login_page

OPEN = ("/_stcore/health",)
"""What answers without a password: that the server runs."""
MIN_LENGTH = 8
DAYS_KEPT = 7
MAX_FORM_BYTES = 4096
WINDOW_S = 60.0
TRIES = 5
"""Wrong passwords in a minute from one client address."""
TRIES_OF_ALL = 100
"""Wrong passwords in a minute from all of them; an address with the token, and who is in already, pass nevertheless."""
# The same at every start, so that a cookie lasts. What it would keep apart, servers with the same password, have in
# common only that one cookie opens both.
SALT = b"dnn-placement-explorer"


class Password:
    """A password as this server knows it: only what is derived from it."""

    def __init__(self, password: str) -> None:
        key = hashlib.scrypt(password.encode(), salt=SALT, n=2**15, r=8, p=1, maxmem=2**26, dklen=32)

        def derived(what: str) -> str:
            return hmac.digest(key, what.encode(), "sha256").hex()

        self._digest = hashlib.sha256(password.encode()).digest()
        # Cookies go to every port of a host: one more server, with another password, has one of another name.
        self.cookie_name = f"placement_{derived('name')[:8]}"
        self.cookie = derived("cookie")
        self.token = derived("token")[:32]

    def is_right(self, given: str) -> bool:
        """Whether this is the password; takes as long for every one that is not."""
        return hmac.compare_digest(hashlib.sha256(given.encode("utf-8", "replace")).digest(), self._digest)

    def is_cookie(self, given: str) -> bool:
        """Whether this is the cookie that the password gives."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.cookie.encode())

    def is_token(self, given: str) -> bool:
        """Whether this is the token of the first address: 128 bits, which nobody finds by trying."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class WrongTries:
    """The wrong passwords of the last minute: no more of them than `TRIES_OF_ALL`, whoever sends them."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._tries: deque[tuple[float, str]] = deque(maxlen=TRIES_OF_ALL)
        self._now_s = now_s
        self._lock = threading.Lock()

    def wait_s(self, client: str) -> int:
        """Return after how many whole seconds a client may try again; 0 for now."""
        with self._lock:
            while self._tries and self._tries[0][0] <= self._now_s() - WINDOW_S:
                self._tries.popleft()
            own = [at_s for at_s, who in self._tries if who == client]
            since = [own[-TRIES]] if len(own) >= TRIES else []
            since += [self._tries[0][0]] if len(self._tries) >= TRIES_OF_ALL else []
            return max((math.ceil(at_s + WINDOW_S - self._now_s()) for at_s in since), default=0)

    def add(self, client: str) -> None:
        """Remember a wrong password."""
        with self._lock:
            self._tries.append((self._now_s(), client))


class PasswordGate:
    """Lets in who has the cookie, and asks everybody else for the password."""

    def __init__(self, app: ASGIApp, password: Password, tries: WrongTries | None = None) -> None:
        self._app = app
        self._password = password
        self._tries = tries or WrongTries()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes with the cookie, and answer the rest."""
        if scope["type"] not in ("http", "websocket") or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        is_in = self._password.is_cookie(_cookies(scope).get(self._password.cookie_name, ""))
        has_token = scope["type"] == "http" and scope["method"] == "GET" and "token" in _query(scope)
        if is_in and not has_token:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocketClose(POLICY_VIOLATION)(scope, receive, send)
        else:
            answer = self._by_token(scope, is_in) if has_token else await self._by_form(Request(scope, receive))
            answer.headers["Cache-Control"] = "no-store"
            await answer(scope, receive, send)

    def _by_token(self, scope: Scope, is_in: bool) -> Response:
        if self._password.is_token(_query(scope)["token"]):
            return self._let_in(scope)
        if is_in:
            return RedirectResponse(_address(scope), 303)
        return _page("The token of this address is not, or no longer, valid. Give the password instead.", 401)

    async def _by_form(self, request: Request) -> Response:
        if request.url.path.startswith(("/_stcore/", "/static/", "/media/", "/component/")):
            return PlainTextResponse("Give the password of this server first: open its page.", 401)
        if request.method != "POST":
            return _page("", 401)
        client = _network_of(request.client.host if request.client else "")
        if wait_s := self._tries.wait_s(client):
            return _wait_page(wait_s)
        form = b""
        async for chunk in request.stream():
            form += chunk
            if len(form) > MAX_FORM_BYTES:
                return _page("That is too long for a password.", 413)
        # Asked again, now that nothing comes between the answer and the password: of requests that wait with their last
        # byte until all of them are past the question above, each would be one more try.
        if wait_s := self._tries.wait_s(client):
            return _wait_page(wait_s)
        given = parse_qs(form.decode("utf-8", "replace")).get("password", [""])[0]
        if self._password.is_right(given):
            return self._let_in(request.scope)
        self._tries.add(client)
        return _page("That is not the password of this server. Check it and try again.", 401)

    def _let_in(self, scope: Scope) -> Response:
        """Return to what was asked for, now with the cookie."""
        answer = RedirectResponse(_address(scope), 303)
        answer.set_cookie(
            self._password.cookie_name,
            self._password.cookie,
            max_age=DAYS_KEPT * 24 * 3600,
            httponly=True,
            secure=scope["scheme"] in ("https", "wss"),
            samesite="lax",  # strict would ask again whoever follows a link from a mail
        )
        return answer


def _page(problem: str, status: int) -> HTMLResponse:
    return HTMLResponse(login_page(problem), status, {"Content-Security-Policy": CONTENT_SECURITY_POLICY})


def _wait_page(wait_s: int) -> HTMLResponse:
    page = _page(f"Too many wrong passwords. Try again in {wait_s} second{'s' * (wait_s != 1)}.", 429)
    page.headers["Retry-After"] = str(wait_s)
    return page


def _cookies(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        if name == b"cookie":
            for part in value.decode("latin-1").split(";"):
                key, _, text = part.strip().partition("=")
                found.setdefault(key, text)
    return found


def _query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def _address(scope: Scope) -> str:
    """Return path and query that were asked for, without the token: always one of this server, in plain characters."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = "/" + re.sub(rb"[^!-~]", b"", raw).decode("ascii").lstrip("/\\")
    text = scope["query_string"].decode("latin-1")
    query = [(name, value) for name, value in parse_qsl(text, keep_blank_values=True) if name != "token"]
    return f"{path}?{urlencode(query)}" if query else path


def _network_of(client: str) -> str:
    """Return an address as it is counted: of IPv6 the network, of which one client has all addresses."""
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return client[:64]  # a proxy may say anything
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), 64), strict=False))
