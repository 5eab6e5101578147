"""What the server keeps so that a reload loses nothing: uploads, plans, solves, for the browser that made them.

A browser is known by its cookie (`explorer.server.visitor`), a tab of it by a small number that its address names: with
another cookie the number means nothing. As long as a session is there its record only points at what the session holds
anyway. A minute after it has left the record is frozen to compressed bytes, so that a day of visits takes little room.
It ends a day after the last visit, or when newer things need the room.

Records are in memory, and every few seconds what has changed is written to a shelf (`explorer.state.shelf`), if there
is one: from there a server that is started again has them.
"""

import atexit
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from explorer.state.frozen import StillAtWorkError, frozen, thawed
from explorer.state.shelf import Shelf

HOURS_KEPT = 24.0
FREEZE_AFTER_S = 60.0
"""A page that is loaded again is back long before; until then nothing need be written and read."""
SHELVE_SECONDS = 5.0
MAX_RECORDS = 1_000
MAX_RECORDS_OF_VISITOR = 20
MAX_BYTES = 100 * 2**20
MAX_BYTES_OF_VISITOR = 30 * 2**20
"""Of frozen records: about ten graphs of 60,000 nodes."""
NUMBERS = range(1_000, 10_000)
"""Numbers of tabs. They are drawn at random, so that a stranger's number is seldom one of one's own."""


@dataclass(slots=True)
class Record:
    """What is kept of one tab: live values by name, or the same as bytes, and the session that had them last.

    `is_shelved` says that they are written, and that nothing in them is at work that may change them.
    """

    session: str
    values: dict[str, Any] | None
    frozen: bytes
    used_s: float
    left_s: float | None = None
    is_shelved: bool = False

    @property
    def size_bytes(self) -> int:
        """Exact size of what is frozen; live values belong to a session."""
        return len(self.frozen)


@dataclass(frozen=True, slots=True)
class Kept:
    """Values that were kept, and the session that had them last."""

    values: dict[str, Any]
    session: str


class Keeper:
    """Records by browser and number, the least recently used first; safe to use from any thread.

    `is_open` tells whether a session is there; on the `shelf` is what a server before this one kept.
    """

    def __init__(
        self,
        is_open: Callable[[str], bool],
        *,
        max_records: int = MAX_RECORDS,
        max_records_of_visitor: int = MAX_RECORDS_OF_VISITOR,
        max_bytes: int = MAX_BYTES,
        max_bytes_of_visitor: int = MAX_BYTES_OF_VISITOR,
        hours_kept: float = HOURS_KEPT,
        shelf: Shelf | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_open = is_open
        self._max_records = max_records
        self._max_records_of_visitor = max_records_of_visitor
        self._max_bytes = max_bytes
        self._max_bytes_of_visitor = max_bytes_of_visitor
        self._seconds_kept = hours_kept * 3600
        self._shelf = shelf
        self._clock = clock
        self._lock = threading.Lock()
        self._records: OrderedDict[tuple[str, int], Record] = OrderedDict()

    @property
    def size_bytes(self) -> int:
        """Bytes of all frozen records."""
        with self._lock:
            return sum(record.size_bytes for record in self._records.values())

    def put(self, visitor: str, number: int | None, session: str, values: dict[str, Any]) -> int:
        """Keep values of a session in place of those before, and return their number; a new one for None."""
        with self._lock:
            if number is None:
                taken = {known for owner, known in self._records if owner == visitor}
                taken |= set() if self._shelf is None else self._shelf.numbers_of(visitor)
                number = secrets.choice([free for free in NUMBERS if free not in taken])
            self._records[visitor, number] = Record(session, dict(values), b"", self._clock())
            self._records.move_to_end((visitor, number))
            self._forget()
            return number

    def get(self, visitor: str, number: int) -> Kept | None:
        """Return what a browser has under a number; None when there is nothing any more."""
        with self._lock:
            self._forget()
            record = self._records.get((visitor, number))
            if record is None:
                values = None if self._shelf is None else self._shelf.read(visitor, number)
                return None if values is None else Kept(values, "")
            record.used_s = self._clock()
            self._records.move_to_end((visitor, number))
            values, data, session = record.values, record.frozen, record.session
        return Kept(dict(values) if values is not None else thawed(data), session)

    def tidy(self) -> int:
        """Freeze the records of sessions that have left, forget what is too old; return how many were frozen."""
        with self._lock:
            self._forget()
            live = {key: record for key, record in self._records.items() if record.values is not None}
        now_s, num_frozen = self._clock(), 0
        for key, record in live.items():
            if self._is_open(record.session):
                record.left_s = None
                continue
            record.left_s = now_s if record.left_s is None else record.left_s
            if now_s - record.left_s < FREEZE_AFTER_S:
                continue
            try:
                data = frozen(record.values)
            except StillAtWorkError:
                continue
            with self._lock:
                if self._records.get(key) is record:  # nobody has come back meanwhile
                    record.values, record.frozen = None, data
                    num_frozen += 1
                    self._forget()
        return num_frozen

    def shelve(self) -> int:
        """Write what has changed to the shelf; return how many records."""
        if self._shelf is None:
            return 0
        self._shelf.tidy()
        with self._lock:
            changed = {
                key: record
                for key, record in self._records.items()
                if record.values is not None and not record.is_shelved
            }
        num_written = 0
        for (visitor, number), record in changed.items():
            assert record.values is not None
            try:
                is_at_work = self._shelf.write(visitor, number, record.values)
            except RuntimeError:  # changed while it was written: next time
                continue
            record.is_shelved = not is_at_work
            num_written += 1
        return num_written

    def shelve_again_and_again(self) -> None:
        """Shelve every `SHELVE_SECONDS` seconds while the process runs, and once more when it ends."""
        atexit.register(self.shelve)
        threading.Thread(target=self._keep_shelving, name="shelf", daemon=True).start()

    def _keep_shelving(self) -> None:
        pause, log, is_told = threading.Event(), logging.getLogger(__name__), False
        while not pause.wait(SHELVE_SECONDS):
            try:
                self.shelve()
                is_told = False
            except Exception as error:  # tried again in a while, as when a full disk has room again
                if not is_told:
                    log.warning("What visitors have cannot be written; a restart would lose it. %s", error)
                is_told = True

    def _forget(self) -> None:
        """Drop what is too old or too much: called with the lock held."""
        now_s = self._clock()
        size_bytes = sum(record.size_bytes for record in self._records.values())
        count_of: dict[str, int] = {}
        bytes_of: dict[str, int] = {}
        for (visitor, _), record in self._records.items():
            count_of[visitor] = count_of.get(visitor, 0) + 1
            bytes_of[visitor] = bytes_of.get(visitor, 0) + record.size_bytes
        for (visitor, number), record in list(self._records.items()):
            is_old = record.values is None and now_s - record.used_s > self._seconds_kept
            too_many = len(self._records) > self._max_records or count_of[visitor] > self._max_records_of_visitor
            too_large = size_bytes > self._max_bytes or bytes_of[visitor] > self._max_bytes_of_visitor
            if is_old or too_many or (too_large and record.size_bytes):
                del self._records[visitor, number]
                size_bytes -= record.size_bytes
                count_of[visitor] -= 1
                bytes_of[visitor] -= record.size_bytes
