"""What happens to an upload on its way into the server's memory, and how much of it is held there."""

import asyncio
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartParser
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from explorer.server.limits import MAX_UPLOAD_MB
from explorer.server.mends.uploads import (
    AT_ONCE,
    AT_ONCE_OF_SESSION,
    PLACES_PER_SESSION,
    UploadGuard,
    UploadPlaces,
    keep_in_memory,
)
from tests.support.awaiting import awaited
from tests.support.examples import examples

BOUNDARY = "0123456789"
MOST = 100
"""Bytes of all files in these tests."""


def request_with(content: bytes) -> Request:
    """A request as a browser sends a file in it."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="g.json"\r\n\r\n'.encode()
    body = head + content + f"\r\n--{BOUNDARY}--\r\n".encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", f"multipart/form-data; boundary={BOUNDARY}".encode())]
    return Request({"type": "http", "method": "PUT", "path": "/", "headers": headers}, receive)


async def file_of(request: Request) -> bytes:
    async with request.form() as form:
        upload = form["file"]
        assert isinstance(upload, UploadFile)
        return await upload.read()


def test_an_upload_needs_no_room_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_room)
    monkeypatch.setattr(MultiPartParser, "spool_max_size", MultiPartParser.spool_max_size)  # given back after the test
    content = b"x" * (MAX_UPLOAD_MB * 2**20 - 1)
    with pytest.raises(OSError, match="No space left"):
        awaited(file_of(request_with(content)))
    keep_in_memory()
    assert awaited(file_of(request_with(content))) == content


# What is held.


def watched() -> tuple[MemoryUploadedFileManager, UploadPlaces]:
    manager, places = MemoryUploadedFileManager("/upload_file"), UploadPlaces(MOST)
    places.watch(manager)
    return manager, places


def uploaded(manager: MemoryUploadedFileManager, session: str, size: int) -> str:
    """Upload a file as a page does, and return its id."""
    (place,) = manager.get_upload_urls(session, ["g.json"])
    manager.add_file(session, UploadedFileRec(place.file_id, "g.json", "application/json", b"x" * size))
    return place.file_id


def held(manager: MemoryUploadedFileManager) -> dict[str, list[int]]:
    """Return the sizes of the files of each session that has any."""
    return {session: [len(file.data) for file in files.values()] for session, files in manager.file_storage.items()}


def test_who_has_the_most_gives_way() -> None:
    manager, places = watched()
    mine = uploaded(manager, "one", 20)
    first = uploaded(manager, "greedy", 30)
    for _ in range(3):
        uploaded(manager, "greedy", 30)
    assert held(manager) == {"one": [20], "greedy": [30, 30]}
    assert places.are_of("one", mine)
    assert not places.are_of("greedy", first)


def test_a_file_in_place_of_itself_counts_once() -> None:
    manager, _ = watched()
    file_id = uploaded(manager, "one", 60)
    other = uploaded(manager, "other", 30)
    manager.add_file("one", UploadedFileRec(file_id, "g.json", "application/json", b"x" * 70))
    assert held(manager) == {"one": [70], "other": [30]}
    assert [file.file_id for file in manager.get_files("other", [other])] == [other]


def test_a_file_that_comes_after_its_place_has_gone_is_not_held() -> None:
    manager, _ = watched()
    (slow,) = manager.get_upload_urls("one", ["g.json"])
    for _ in range(PLACES_PER_SESSION):
        uploaded(manager, "one", 1)
    manager.add_file("one", UploadedFileRec(slow.file_id, "g.json", "application/json", b"x" * 90))
    assert held(manager) == {"one": [1] * PLACES_PER_SESSION}


def test_so_many_files_are_on_their_way_at_once() -> None:
    statuses = awaited(sent_at_once({"one": AT_ONCE_OF_SESSION + 1, "two": 1}))
    assert statuses == {"one": [204] * AT_ONCE_OF_SESSION + [503], "two": [204]}
    many = awaited(sent_at_once({f"session {i}": 1 for i in range(AT_ONCE + 2)}))
    assert [status for (status,) in many.values()] == [204] * AT_ONCE + [503] * 2


async def sent_at_once(numbers: dict[str, int]) -> dict[str, list[int]]:
    """Send so many files of each session, all of which wait for their last byte; return the statuses."""
    manager, places = watched()
    all_sent = asyncio.Event()

    async def keeping(scope: Scope, receive: Receive, send: Send) -> None:
        await all_sent.wait()
        await Response(status_code=204)(scope, receive, send)

    async def nothing() -> Message:
        return {"type": "http.request"}

    guard = UploadGuard(keeping, places)

    async def put(path: str) -> int:
        answers: list[Message] = []

        async def send(message: Message) -> None:
            answers.append(message)

        await guard({"type": "http", "method": "PUT", "path": path, "headers": []}, nothing, send)
        status: int = answers[0]["status"]
        return status

    waiting = {
        session: [
            asyncio.create_task(put(f"/_stcore{place.upload_url}"))
            for place in manager.get_upload_urls(session, ["g.json"] * number)
        ]
        for session, number in numbers.items()
    }
    await asyncio.sleep(0)
    all_sent.set()
    statuses = {session: [await task for task in tasks] for session, tasks in waiting.items()}
    for session in numbers:  # what was on its way is no more
        (place,) = manager.get_upload_urls(session, ["g.json"])
        assert await put(f"/_stcore{place.upload_url}") == 204
    return statuses


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, MOST), st.booleans()), max_size=40)


@given(STEPS)
@examples(100)
def test_no_order_of_uploads_takes_more_than_the_bounds(steps: list[tuple[str, int, bool]]) -> None:
    manager, places = watched()
    for session, size, leaves in steps:
        file_id = uploaded(manager, session, size)
        assert places.are_of(session, file_id)
        assert [len(file.data) for file in manager.get_files(session, [file_id])] == [size]
        assert sum(map(sum, held(manager).values())) <= MOST
        assert all(len(sizes) <= PLACES_PER_SESSION for sizes in held(manager).values())
        if leaves:
            manager.remove_session_files(session)
