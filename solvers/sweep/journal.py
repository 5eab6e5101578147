"""The answers of a sweep in a file of JSON lines, written as they arrive, so that an interrupted sweep can go on.

The first line says which sweep it is, by its digest, and each further line is the answer of a point with its plan,
which neighbours that are still to be solved start from. A last line that was cut off is dropped; its point is solved
again.
"""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from solvers.formats.result_json import result_document, result_from_document
from solvers.model.errors import PlacementError
from solvers.model.result import SolveResult
from solvers.sweep.run import PointResult
from solvers.sweep.spec import Index, SweepSpec

FORMAT = "dnn-placement-explorer sweep"
VERSION = 1


class SweepFile:
    """The file of one sweep, open for more answers; `known` are those it holds. PlacementError where that fails."""

    def __init__(self, path: Path, spec: SweepSpec) -> None:
        """Open a file of this very sweep, or begin a new one where there is none."""
        self._path, self.known = path, dict[Index, SolveResult]()
        header = {"format": FORMAT, "version": VERSION, "sweep": spec.digest, "points": spec.num_points}
        complete = b""
        try:
            if path.exists():
                text = path.read_bytes()
                complete = text[: text.rfind(b"\n") + 1]
                lines = complete.splitlines()
                if lines:
                    self._read(lines, header, spec)
            self._file = path.open("r+b" if path.exists() else "wb")
            self._file.truncate(len(complete))
            self._file.seek(len(complete))
            if not complete:
                self._write(header)
        except OSError as error:
            raise PlacementError(f"{json.dumps(str(path))} cannot be used: {error.strerror}.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()

    def add(self, answer: PointResult) -> None:
        """Write an answer, unless its workers failed: then it is to be tried again."""
        if answer.is_failed:
            return
        self.known[answer.index] = answer.result
        try:
            self._write({"index": answer.index, **result_document(answer.result)})
        except OSError as error:
            raise PlacementError(f"{json.dumps(str(self._path))} cannot be written: {error.strerror}.") from None

    def _read(self, lines: list[bytes], header: dict[str, Any], spec: SweepSpec) -> None:
        try:
            found = json.loads(lines[0])
            is_ours = found["format"] == FORMAT and found["version"] == VERSION
            answers = [json.loads(line) for line in lines[1:]] if is_ours else []
            points = set(spec.points())
            if is_ours and found == header:
                for answer in answers:
                    index = tuple(answer["index"])
                    if index not in points:
                        raise KeyError
                    self.known[index] = result_from_document(answer)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            is_ours = False
        if not is_ours:
            raise PlacementError(
                f"{json.dumps(str(self._path))} is not a file of a sweep of this version; "
                "name another one, or delete it."
            )
        if found != header:
            raise PlacementError(
                f"{json.dumps(str(self._path))} belongs to another sweep: graph, devices, values or limits differ; "
                "name another file, or delete it."
            )

    def _write(self, document: dict[str, Any]) -> None:
        self._file.write(json.dumps(document, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
