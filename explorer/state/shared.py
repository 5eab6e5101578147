"""Uploaded graphs that their owners share for a time, by links with an unguessable token.

A share is what a project file holds (graph, inputs, plan, edits), as it was when it was shared, in compressed bytes.
It outlasts the session that made it and ends at its time, when its owner takes it back, or with the server. Who opened
it before has a copy.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import cast

from explorer.state.frozen import frozen, thawed
from explorer.state.project import Project
from solvers.model.errors import PlacementError

MAX_SHARES = 200
MAX_SHARES_OF_OWNER = 10
MAX_BYTES = 100 * 2**20
MAX_BYTES_OF_OWNER = 30 * 2**20

NOT_HERE = (
    "The graph of this address is an uploaded file that was not shared: only the browser it was uploaded in can open "
    "it, for a day after the last visit. Ask for a shared link or a project file, or open the file again if it is "
    "yours."
)
"""What is said of an address whose graph this browser has not uploaded, or not any more."""
OVER = (
    "This link does not share a graph any more: its time is over, its owner has stopped it, or the server was "
    "restarted. Ask for a new link or a project file."
)


class ShareError(PlacementError):
    """There is no room for a further share; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Share:
    """A shared graph; times are in seconds since the epoch."""

    token: str
    owner: str
    digest: str
    origin: str
    began_s: float
    until_s: float
    data: bytes
    num_opened: int = 0


class Shares:
    """What is shared on this server; safe to use from any thread."""

    def __init__(
        self,
        *,
        max_shares: int = MAX_SHARES,
        max_shares_of_owner: int = MAX_SHARES_OF_OWNER,
        max_bytes: int = MAX_BYTES,
        max_bytes_of_owner: int = MAX_BYTES_OF_OWNER,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_shares = max_shares
        self._max_shares_of_owner = max_shares_of_owner
        self._max_bytes = max_bytes
        self._max_bytes_of_owner = max_bytes_of_owner
        self._clock = clock
        self._lock = threading.Lock()
        self._shares: dict[str, Share] = {}

    def add(self, owner: str, project: Project, seconds: float) -> Share:
        """Share a project for some seconds; ShareError when its owner, or the server, shares too much already."""
        data = frozen(project)
        loaded, now_s = project.loaded, self._clock()
        share = Share(
            secrets.token_urlsafe(24), owner, loaded.graph.digest, loaded.origin, now_s, now_s + seconds, data
        )
        with self._lock:
            self._forget()
            mine = [known for known in self._shares.values() if known.owner == owner]
            if len(mine) >= self._max_shares_of_owner or _size(mine) + len(data) > self._max_bytes_of_owner:
                raise ShareError("This browser shares as much as it may; stop sharing a graph first.")
            if len(self._shares) >= self._max_shares or _size(self._shares.values()) + len(data) > self._max_bytes:
                raise ShareError("This server shares as much as it can hold; pass on a project file instead.")
            self._shares[share.token] = share
        return share

    def open(self, token: str) -> Project | None:
        """Return what a token shares, and count the visit; None when it shares nothing, or not any more."""
        with self._lock:
            self._forget()
            share = self._shares.get(token)
            if share is None:
                return None
            self._shares[token] = replace(share, num_opened=share.num_opened + 1)
        return cast("Project", thawed(share.data))

    def of(self, owner: str) -> tuple[Share, ...]:
        """Return what an owner shares, the oldest first."""
        with self._lock:
            self._forget()
            return tuple(share for share in self._shares.values() if share.owner == owner)

    def stop(self, owner: str, token: str) -> None:
        """Take a share back; only its owner can."""
        with self._lock:
            share = self._shares.get(token)
            if share is not None and share.owner == owner:
                del self._shares[token]

    def tidy(self) -> int:
        """Forget what is over; return how many shares that were."""
        with self._lock:
            before = len(self._shares)
            self._forget()
            return before - len(self._shares)

    def _forget(self) -> None:
        now_s = self._clock()
        self._shares = {token: share for token, share in self._shares.items() if share.until_s > now_s}


def _size(shares: Iterable[Share]) -> int:
    return sum(len(share.data) for share in shares)
