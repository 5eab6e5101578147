"""Uploads only to where the server itself said: a session that is open, and a file id that it handed out for it.

Streamlit checks the session and takes any file id, so that whoever has a page open could fill the memory with files
that no page ever uses. It keeps a file in memory in any case; that nothing of it is written to the disk on the way
there makes uploads work where the temporary directory is full, and leaves nothing behind.
"""

import re
import threading
from collections import Counter, OrderedDict
from typing import Any

from starlette.formparsers import MultiPartParser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from explorer.server.limits import MAX_UPLOAD_MB

UPLOAD = re.compile(r"/_stcore/upload_file/([^/]+)/([^/]+)")
PLACES_PER_SESSION = 8
"""How many files a session may have; a page holds one, and what it puts in place of another it deletes."""
MAX_BYTES = 2**30
"""Of all files that are held, beside those on their way. A page whose file goes keeps what was read of it."""
AT_ONCE, AT_ONCE_OF_SESSION = 32, 2
"""Files on their way, which take memory before their last byte is there; a page that lets one go begins the next."""


def keep_in_memory() -> None:
    """Have files of up to `MAX_UPLOAD_MB` come in without a temporary file."""
    MultiPartParser.spool_max_size = MAX_UPLOAD_MB * 2**20


class UploadPlaces:
    """The file ids handed out to the sessions that are open, with the bytes held of each; the oldest go first.

    When all files together are too many bytes, files of those sessions go that have the most of them.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._of: dict[str, OrderedDict[str, int]] = {}
        self._lock = threading.Lock()

    def watch(self, manager: Any) -> None:
        """Remember what Streamlit's manager of uploads hands out, and forget what it removes."""
        hand_out, remove_file, remove_all = manager.get_upload_urls, manager.remove_file, manager.remove_session_files
        add_file = manager.add_file

        def get_upload_urls(session_id: str, file_names: list[str]) -> Any:
            places = hand_out(session_id, file_names[-PLACES_PER_SESSION:])
            for old in self._remember(session_id, [place.file_id for place in places]):
                remove_file(session_id, old)
            return places

        def add(session_id: str, file: Any) -> None:
            gone = self._make_room(session_id, file.file_id, len(file.data))
            if gone is None:  # its place went while it was on its way
                return
            for session, old in gone:
                remove_file(session, old)
            add_file(session_id, file)

        def remove_session_files(session_id: str) -> None:
            with self._lock:
                self._of.pop(session_id, None)
            remove_all(session_id)

        def remove_one(session_id: str, file_id: str) -> None:
            with self._lock:
                self._of.get(session_id, OrderedDict()).pop(file_id, None)
            remove_file(session_id, file_id)

        manager.get_upload_urls = get_upload_urls
        manager.add_file = add
        manager.remove_file = remove_one
        manager.remove_session_files = remove_session_files

    def are_of(self, session_id: str, file_id: str) -> bool:
        """Whether this file id was handed out to this session."""
        with self._lock:
            return file_id in self._of.get(session_id, ())

    def _remember(self, session_id: str, file_ids: list[str]) -> list[str]:
        """Return the file ids that go for new ones."""
        with self._lock:
            places = self._of.setdefault(session_id, OrderedDict())
            places.update(dict.fromkeys(file_ids, 0))
            return [places.popitem(last=False)[0] for _ in range(len(places) - PLACES_PER_SESSION)]

    def _size_bytes(self) -> int:
        return sum(size for places in self._of.values() for size in places.values())

    def _make_room(self, session_id: str, file_id: str, size_bytes: int) -> list[tuple[str, str]] | None:
        """Count a file that comes, and return the session and file id of each that goes; None if it has no place."""
        gone: list[tuple[str, str]] = []
        with self._lock:
            if file_id not in (mine := self._of.get(session_id, OrderedDict())):
                return None
            mine[file_id] = size_bytes
            while self._size_bytes() > self._max_bytes:
                old_of = {
                    session: old
                    for session, places in self._of.items()
                    if (old := next((known for known, size in places.items() if size and known != file_id), None))
                }
                if not old_of:  # it takes more than all the room
                    break
                most = max(old_of, key=lambda session: sum(self._of[session].values()))
                del self._of[most][old_of[most]]
                gone.append((most, old_of[most]))
        return gone


class UploadGuard:
    """Refuses to write or delete a file at an id that was not handed out, and more files at once than are taken."""

    def __init__(self, app: ASGIApp, places: UploadPlaces) -> None:
        self._app = app
        self._places = places
        self._on_their_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on everything but writing and deleting elsewhere."""
        if scope["type"] == "http" and scope["path"].startswith("/_stcore/upload_file"):
            place = UPLOAD.fullmatch(scope["path"])
            is_known = place is not None and self._places.are_of(place[1], place[2])
            if scope["method"] not in ("HEAD", "OPTIONS") and not is_known:
                await PlainTextResponse("There is no such place for an upload.", 404)(scope, receive, send)
                return
            if place is not None and scope["method"] == "PUT":
                await self._put(place[1], scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _put(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a file; on the thread of the server alone, so that nothing comes between looking and counting."""
        if self._on_their_way[session_id] >= AT_ONCE_OF_SESSION or self._on_their_way.total() >= AT_ONCE:
            await PlainTextResponse("Other files are on their way; try again.", 503)(scope, receive, send)
            return
        self._on_their_way[session_id] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._on_their_way[session_id] -= 1
            if not self._on_their_way[session_id]:
                del self._on_their_way[session_id]
