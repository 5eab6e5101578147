"""Which names this server answers to, and the middleware that refuses every other.

A page of a stranger may have its own name resolve to 127.0.0.1 after it is loaded (DNS rebinding): the browser then
takes this server for the stranger's, and sends it requests whose Host and Origin agree. So the Host must be a name that
is served here. An IP address written out is no name that anybody could have resolved to something else, and a name that
DNS tells us, such as that of a reverse look-up, is not one to trust: none is asked for.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9._-]{1,253}))(?::[0-9]{1,5})?")
NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,62}[a-z0-9_])?)*")
EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 -- named, not bound to
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True)
class ServedHosts:
    """Names in lower case, besides localhost and its addresses; `any_address` admits every IP address."""

    names: frozenset[str] = frozenset()
    any_address: bool = False

    def admits(self, host: str | None) -> bool:
        """Whether a Host header names this server, at any port.

        >>> hosts = ServedHosts(frozenset({"classroom.example.org"}))
        >>> [hosts.admits(text) for text in ("localhost:8501", "[::1]", "Classroom.example.org", "localhost.evil.com")]
        [True, True, True, False]
        """
        found = HOST.fullmatch(host or "")
        if found is None:
            return False
        name = (found["ipv6"] or found["name"]).lower()
        name = name.removesuffix(".")  # the root: a name in full
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return found["ipv6"] is None and (name == "localhost" or name in self.names)
        return self.any_address or address.is_loopback or str(address) in self.names


def served_hosts(bound_to: str, allowed: Iterable[str] = ()) -> ServedHosts:
    """Return the hosts of a server bound to an address, with those an operator allows; ValueError names a wrong one."""
    names = set()
    for name in allowed:
        plain = name.strip().lower().removesuffix(".").removeprefix("[").removesuffix("]")
        if not NAME.fullmatch(plain) and not _is_address(plain):
            raise ValueError(f'"{name}" is no name of a host; give one such as classroom.example.org, without a port.')
        names.add(_written(plain))
    if bound_to in EVERY_ADDRESS:
        own = socket.gethostname().lower()
        short = own.partition(".")[0]
        return ServedHosts(frozenset(names | {own, short, f"{short}.local"}), any_address=True)
    return ServedHosts(frozenset(names | {_written(bound_to.lower())}))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _written(host: str) -> str:
    """Return an address as Python writes it, and a name as it is."""
    return str(ipaddress.ip_address(host)) if _is_address(host) else host


class HostGuard:
    """Refuses what is for another host, and what another page's script sends: before anything else sees it."""

    def __init__(self, app: ASGIApp, hosts: ServedHosts) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is for this server and of its own pages."""
        if scope["type"] in ("http", "websocket") and (why := self._refusal(scope)) is not None:
            refused: Any = (
                PlainTextResponse(why[1], why[0])
                if scope["type"] == "http"
                else WebSocketClose(POLICY_VIOLATION)  # before it is accepted: the browser gets a 403
            )
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the sentence with which a request is refused; None where it is not."""
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if not scope["path"].startswith("/"):
            return 400, "Give the path alone in the first line of a request."
        if len(hosts) != 1 or not self._hosts.admits(hosts[0]):
            return 421, (
                "This server does not answer to that name. Open it by the address it printed when it started, or have "
                "it started with --allow-host and the name."
            )
        if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
            return None
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        # A program that is no browser sends none. Browsers write both in the same way, so that they can be compared.
        if origins and origins not in ([f"http://{hosts[0]}"], [f"https://{hosts[0]}"]):
            return 403, "This request comes from another page. Open the app by its own address."
        return None
