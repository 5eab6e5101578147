"""A thread that forgets what nobody uses any more, and gives the memory back to the system.

What expires on the next look only would stay for ever on a server that everyone has left. Memory that Python has freed
is not the system's again by itself: cycles wait for a full collection, and the C library keeps pages for later.
"""

import contextlib
import ctypes
import gc
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, cast

from streamlit import runtime

from explorer.server.byte_cache import VIEWS
from explorer.server.mends.media import collect

EVERY_SECONDS = 20.0
SECONDS_ALONE = 60.0
"""What a page has to come back before what was remembered for it goes."""
LARGE_BYTES = 32 * 2**20
"""So much more memory than after the last collection is worth another one, which holds up every thread.

In a class a collection takes about a second; with 8 MiB there was one in every round.
"""
M_ARENA_MAX, M_MMAP_THRESHOLD = -8, -3
"""Of mallopt(3): each thread of a server would else keep freed memory in an arena of its own, and what is as large as a
message to the canvas would come from there, too."""
LARGE_BLOCK_BYTES = 64 * 2**10
"""Blocks of this size and more are the system's again once they are free."""

FORGETTERS: list[Callable[[], object]] = []
"""What else forgets what is over, each round: whoever keeps anything adds its function."""
FORGETTERS_WHEN_ALONE: list[Callable[[], object]] = []
"""What else forgets what may be made anew, in each round in which nobody has been there for a minute."""


class Janitor:
    """Tidies up again and again until the process ends."""

    def __init__(self) -> None:
        self._rounds_alone = 0
        self._after_collection = 0
        self._sessions: frozenset[str] = frozenset()
        self._is_due = False
        self._libc = _glibc()

    def tidy(self) -> None:
        """Forget what is over, and give back what it took."""
        if runtime.exists():
            self._end_sessions()
            collect(runtime.get_instance().media_file_mgr)
        VIEWS.expire()
        is_over = self._forget_if_alone()
        for forget in tuple(FORGETTERS):
            forget()
        if is_over or self._is_due or abs(_resident_bytes() - self._after_collection) > LARGE_BYTES:
            self._is_due = False
            gc.collect()
            if self._libc is not None:
                self._libc.malloc_trim(0)
            self._after_collection = _resident_bytes()

    def _forget_if_alone(self) -> bool:
        """Forget what is remembered for all when nobody has been there for a minute; whether that was just now.

        Nobody waits for it, and all is made anew.
        """
        self._rounds_alone = self._rounds_alone + 1 if _num_sessions() == 0 else 0
        rounds = int(SECONDS_ALONE / EVERY_SECONDS) + 1
        if self._rounds_alone >= rounds:
            VIEWS.clear()
            for forget in tuple(FORGETTERS_WHEN_ALONE):
                forget()
        return self._rounds_alone == rounds

    def note_sessions(self, sessions: frozenset[str]) -> None:
        """Take in which sessions there are, with those that may yet come back.

        What one that has gone held refers to itself in circles, and takes its memory until a full collection finds it.
        """
        self._is_due |= bool(self._sessions - sessions)
        self._sessions = sessions

    def _end_sessions(self) -> None:
        """End the sessions that cannot come back any more, on the thread that Streamlit's sessions belong to."""
        instance = cast("Any", runtime.get_instance())
        manager = instance._session_mgr

        def end() -> None:
            reap(manager._session_storage)
            self.note_sessions(frozenset(info.session.id for info in manager.list_sessions()))

        instance._get_async_objs().eventloop.call_soon_threadsafe(end)

    def run(self) -> None:
        """Tidy up every `EVERY_SECONDS` seconds, for ever."""
        pause = threading.Event()
        while not pause.wait(EVERY_SECONDS):
            try:
                self.tidy()
            except Exception:  # tried again in a while; without a janitor memory would only grow
                logging.getLogger(__name__).exception("Could not tidy up")


def leave_out_what_is_loaded() -> None:
    """Have collections pass over all there is now: for once the app is loaded, and before anybody's session begins.

    What is imported stays in any case, and is most of what a full collection would walk. Nothing of a session may be
    among it, for that could never be collected again.
    """
    gc.collect()
    gc.freeze()


def start_janitor() -> None:
    """Have a thread tidy up while the process runs."""
    if (libc := _glibc()) is not None:
        libc.mallopt(M_ARENA_MAX, 1)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
    threading.Thread(target=Janitor().run, name="janitor", daemon=True).start()


def reap(storage: Any) -> None:
    """Have Streamlit's storage of disconnected sessions drop those whose time is over.

    By itself it does so only when the next session disconnects: what the last one held, its uploaded file included,
    would stay until then. There is no public call for it; a test tells when this one goes.
    """
    storage._cache.expire()


def _num_sessions() -> int | None:
    """Return how many browsers show a session; None without a server, as in tests."""
    if not runtime.exists():
        return None
    return int(cast("Any", runtime.get_instance())._session_mgr.num_active_sessions())


def _glibc() -> ctypes.CDLL | None:
    """Return the C library if it is one whose allocator can be told to give memory back."""
    with contextlib.suppress(OSError):
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim") and hasattr(library, "mallopt"):
            return library
    return None


def _resident_bytes() -> int:
    """Return how much memory this process has; 0 on systems that do not tell."""
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
