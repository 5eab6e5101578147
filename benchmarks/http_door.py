"""A server as a browser meets it by HTTP: pages, cookies, uploads."""

import http.client
import json
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

XSRF_COOKIE = "_streamlit_xsrf"
USUAL_PATIENCE_S = 120.0


class PageError(Exception):
    """The page does not have what was looked for, or the connection has ended."""


class Door:
    """A server as a browser meets it by HTTP: cookies are kept, and sent with everything."""

    def __init__(self, address: str, patience_s: float = USUAL_PATIENCE_S) -> None:
        parts = urlsplit(address)
        self.host, self.query, self.patience_s = parts.netloc, parts.query, patience_s
        self.cookies: dict[str, str] = {}
        self._connection: http.client.HTTPConnection | None = None

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        """Return the body of an answer; PageError for a status from 400 on."""
        sent = {"Origin": f"http://{self.host}", **self.cookie_header(), **(headers or {})}
        if self._connection is not None:
            try:
                response, content = self._exchange(self._connection, method, path, body, sent)
            except (http.client.HTTPException, OSError):  # a server closes connections that were idle
                self.close()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self.host, timeout=self.patience_s)
            try:
                response, content = self._exchange(self._connection, method, path, body, sent)
            except (http.client.HTTPException, OSError) as error:
                self.close()
                raise PageError(f"{method} {path[:60]}: {error or type(error).__name__}") from error
        for line in response.headers.get_all("Set-Cookie") or ():
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
        if response.status >= 400:
            raise PageError(f"{method} {path[:60]}: {response.status} {content[:200]!r}")
        return content

    def put_file(self, path: str, name: str, content: bytes) -> None:
        """Upload a file, with the token against forged requests."""
        body, content_type = multipart(name, content)
        self.request("PUT", path, body, {"Content-Type": content_type, **self._token()})

    def delete_file(self, path: str, session_id: str) -> None:
        """Delete an uploaded file."""
        body = json.dumps({"sessionId": session_id}).encode()
        self.request("DELETE", path, body, {"Content-Type": "application/json", **self._token()})

    def _token(self) -> dict[str, str]:
        return {"X-Xsrftoken": self.cookies.get(XSRF_COOKIE, "")}

    @staticmethod
    def _exchange(
        connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response, response.read()

    def cookie_header(self) -> dict[str, str]:
        """Return the header with all cookies, if there are any."""
        return {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())} if self.cookies else {}

    def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def multipart(file_name: str, content: bytes) -> tuple[bytes, str]:
    """Return the body of a form with one file, and its type."""
    boundary = uuid4().hex
    safe = file_name.replace('"', "%22").replace("\r", "").replace("\n", "")
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{safe}"\r\n'
    head += "Content-Type: application/json\r\n\r\n"
    return head.encode(
        errors="replace"
    ) + content + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def query_string(parts: dict[str, Any]) -> str:
    """Return the query of an address from its parts."""
    return urlencode({name: value for name, value in parts.items() if value is not None})
