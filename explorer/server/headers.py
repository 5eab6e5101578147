"""What every answer tells the browser: what it may load, and who may show it."""

import base64
import hashlib
import re
from pathlib import Path

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def content_security_policy() -> str:
    """Return what Streamlit's page and the pictures in it need, and nothing else.

    The one script within Streamlit's page is named by its digest, so that no other can stand there. Its styles are
    made while it runs, its messages read with a little WebAssembly, and the picture's script handed over as a blob.
    Text is never run as a script ('unsafe-eval').
    """
    page = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = [hashlib.sha256(text.encode()).digest() for text in INLINE_SCRIPT.findall(page)]
    digests = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in scripts]
    return "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src 'self' blob: 'wasm-unsafe-eval'", *digests)),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "frame-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'self'",
            "form-action 'self'",
        )
    )


HEADERS = {
    "Content-Security-Policy": content_security_policy(),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: with that, browsers send the Origin "null" with a form, as a stranger's page would.
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    """Adds these headers to every answer; an answer that has one of its own keeps it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
