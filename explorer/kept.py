"""What the server keeps so that a reload loses nothing: uploads, plans, running solves, by an unguessable id.

A page's address names the id; whoever has the address has what it keeps, nobody else. Everything is in memory: it ends
with the server, and before that when it was not looked at for a day or when newer things need the room.
"""

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HOURS_KEPT = 24.0
MAX_RECORDS = 200
MAX_BYTES = 400 * 2**20
"""Of uploaded files; what is made of them takes several times as much."""


@dataclass(slots=True)
class Record:
    """What is kept of one session: any values by name, the size of its upload, and when it was last used."""

    values: dict[str, Any]
    size_bytes: int
    used_s: float


class Keeper:
    """Records by id, the least recently used first; safe to use from any thread."""

    def __init__(
        self,
        *,
        max_records: int = MAX_RECORDS,
        max_bytes: int = MAX_BYTES,
        hours_kept: float = HOURS_KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._seconds_kept = hours_kept * 3600
        self._clock = clock
        self._lock = threading.Lock()
        self._records: OrderedDict[str, Record] = OrderedDict()

    def new_id(self) -> str:
        """Return an id that nobody can guess."""
        return uuid.uuid4().hex

    def put(self, keep_id: str, values: dict[str, Any], size_bytes: int) -> None:
        """Keep values under an id in place of those before; the oldest records go when room is short."""
        with self._lock:
            self._records[keep_id] = Record(dict(values), size_bytes, self._clock())
            self._records.move_to_end(keep_id)
            self._forget()

    def get(self, keep_id: str) -> dict[str, Any] | None:
        """Return the values kept under an id; None when there are none any more."""
        with self._lock:
            self._forget()
            record = self._records.get(keep_id)
            if record is None:
                return None
            record.used_s = self._clock()
            self._records.move_to_end(keep_id)
            return dict(record.values)

    def _forget(self) -> None:
        now_s = self._clock()
        size_bytes = sum(record.size_bytes for record in self._records.values())
        for keep_id, record in list(self._records.items()):
            is_old = now_s - record.used_s > self._seconds_kept
            is_one_too_many = len(self._records) > self._max_records or size_bytes > self._max_bytes
            # The newest stays, however large: an upload has a limit of its own.
            if not is_old and not (is_one_too_many and len(self._records) > 1):
                return
            del self._records[keep_id]
            size_bytes -= record.size_bytes
