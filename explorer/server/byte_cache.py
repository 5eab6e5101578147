"""What can be made anew is remembered while it is used, up to a number of bytes.

A value counts with the size its maker states (`explorer.server.sizes`), goes ten minutes after its last use, and makes
room for newer ones when it is the least recently used. A value that several ask for at once is made once.

Why our own: `functools.lru_cache` and `st.cache_resource` bound how many values there are, whatever their size, and
the caches of `cachetools` expire by the time since a value was made and have no lock per key.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

T = TypeVar("T")

MAX_BYTES = 150 * 2**20
SMALL_BYTES = 4 * 2**20
MAX_BYTES_OF_SMALL = 24 * 2**20
"""Values of up to `SMALL_BYTES` share so much of the room: what a class looks at now, made anew within 0.1 s.

Memory that was full of small objects is not the system's again when they are gone, for each block of it keeps some: of
150 MB of pictures 84 stayed, of 16 MB 18, with as much processor time. Large values take long to make.
"""
SECONDS_KEPT = 600.0
OVERHEAD_BYTES = 500
"""What an entry takes beside its value."""


@dataclass(slots=True)
class Entry:
    """A value with its size and when it was last used."""

    value: Any
    size_bytes: int
    used_s: float


class _Making:
    """A value that one thread makes and others wait for; `outcome` is empty when it could not be made."""

    def __init__(self) -> None:
        self.is_over = threading.Event()
        self.outcome: tuple[Any, ...] = ()


class ByteCache:
    """Values by key, the least recently used first; safe to use from any thread.

    All together take at most `max_bytes`, and those of up to SMALL_BYTES at most `max_bytes_of_small` of them.
    """

    def __init__(
        self,
        max_bytes: int = MAX_BYTES,
        max_bytes_of_small: int = MAX_BYTES_OF_SMALL,
        seconds_kept: float = SECONDS_KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_bytes_of_small = max_bytes_of_small
        self._seconds_kept = seconds_kept
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self._being_made: dict[Hashable, _Making] = {}
        self._size_bytes = self._size_bytes_of_small = 0

    @property
    def size_bytes(self) -> int:
        """Stated size of all that is remembered."""
        return self._size_bytes

    @property
    def size_bytes_of_small(self) -> int:
        """Stated size of the values of up to SMALL_BYTES among it."""
        return self._size_bytes_of_small

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """Return the value of a key, made now if it is not remembered; what `make` raises is not remembered.

        A value larger than all the room is made, and returned to those who wait for it, but not remembered.
        """
        while True:
            with self._lock:
                self._expire()
                entry = self._entries.get(key)
                if entry is not None:
                    entry.used_s = self._clock()
                    self._entries.move_to_end(key)
                    return cast("T", entry.value)
                making = self._being_made.get(key)
                if making is None:
                    mine = self._being_made[key] = _Making()
                    break
            making.is_over.wait()
            if making.outcome:
                return cast("T", making.outcome[0])
            # Whoever made it failed, perhaps because its page was left: the next one tries.
        try:
            value = make()
            mine.outcome = (value,)
            size_bytes = size_of(value) + OVERHEAD_BYTES
            with self._lock:
                self._put(key, value, size_bytes)
            return value
        finally:
            with self._lock:
                del self._being_made[key]
            mine.is_over.set()

    def expire(self) -> int:
        """Forget what was not used for too long, and return its stated size in bytes."""
        with self._lock:
            return self._expire()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._size_bytes = self._size_bytes_of_small = 0

    # All below is called with the lock held.

    def _expire(self) -> int:
        before = self._size_bytes
        end_s = self._clock() - self._seconds_kept
        while self._entries and next(iter(self._entries.values())).used_s <= end_s:
            self._drop(next(iter(self._entries)))
        return before - self._size_bytes

    def _put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        small_bytes = size_bytes if size_bytes <= SMALL_BYTES else 0
        if size_bytes > self.max_bytes or small_bytes > self.max_bytes_of_small:
            return
        while small_bytes and self._size_bytes_of_small + small_bytes > self.max_bytes_of_small:
            self._drop(next(known for known, entry in self._entries.items() if entry.size_bytes <= SMALL_BYTES))
        while self._size_bytes + size_bytes > self.max_bytes:
            self._drop(next(iter(self._entries)))
        self._entries[key] = Entry(value, size_bytes, self._clock())
        self._size_bytes += size_bytes
        self._size_bytes_of_small += small_bytes

    def _drop(self, key: Hashable) -> None:
        size_bytes = self._entries.pop(key).size_bytes
        self._size_bytes -= size_bytes
        self._size_bytes_of_small -= size_bytes if size_bytes <= SMALL_BYTES else 0


VIEWS = ByteCache()
"""What this server remembers of graphs and plans: parsed files, layouts, pictures, schedules."""


def remembered(kind: str, key: tuple[Hashable, ...], make: Callable[[], T], size_of: Callable[[T], int]) -> T:
    """Return a value of a kind by what it was made from; graphs go into the key by their digest.

    >>> remembered("square", (3,), lambda: 9, lambda _: 8)
    9
    """
    return VIEWS.get((kind, *key), make, size_of)
