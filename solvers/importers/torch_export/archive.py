"""Find the graph in an archive of `torch.export`: a zip file with JSON, read without unpickling and without weights.

Where it lies depends on the PyTorch that wrote it (`torch/export/__init__.py` of 2.5 to 2.7,
`torch/export/pt2_archive/_package.py` since 2.8):

* 2.5 to 2.7: `serialized_exported_program.json` at the root.
* 2.8 and later: `NAME/models/model.json`, NAME being that of the file it was saved as; a package of several models has
  one such file for each of them.

Weights are other members of the archive and stay unread. Memory is bounded by `MAX_DIRECTORY_BYTES` for the list of
members and by `MAX_PROGRAM_BYTES` for the graph, however large the file is.
"""

import re
import struct
import zipfile
import zlib
from typing import Any, BinaryIO

from solvers.importers.checked import parse_object
from solvers.importers.limits import MAX_DIRECTORY_BYTES, MAX_PROGRAM_BYTES
from solvers.model.errors import SourceError
from solvers.quantities import binary_size, count, listed

ZIP_MAGIC = b"PK\x03\x04"
"""How an archive starts."""

REMEDY = "save the model again with torch.export.save"

_OLD_PROGRAM = re.compile(r"serialized_exported_program\.json")
_PROGRAM = re.compile(r"(?:[^/]+/)?models/([^/]+)\.json")
_COMPILED = re.compile(r"(?:[^/]+/)?data/aotinductor/.*")


def read_program(file: BinaryIO) -> dict[str, Any]:
    """Return the JSON object of the one exported program in an archive; SourceError where there is none, or several."""
    bounded = _Bounded(file, MAX_DIRECTORY_BYTES, "list of members")
    try:
        with zipfile.ZipFile(bounded) as archive:
            member = _member(archive)
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise SourceError(f"The archive's graph is packed in a way that PyTorch does not use; {REMEDY}.")
            bounded.most, bounded.what = MAX_PROGRAM_BYTES + 1, "graph"
            with archive.open(member) as content:
                text = content.read(MAX_PROGRAM_BYTES + 1)  # one byte too many is refused like any other long text
    except SourceError:
        raise
    # What zipfile raises for damaged archives, by its documentation and by trial.
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, OverflowError, RuntimeError, struct.error):
        raise SourceError(f"The archive is damaged or incomplete, or no zip file; {REMEDY}.") from None
    return parse_object(text, "archive's graph", REMEDY, MAX_PROGRAM_BYTES)


def _member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return the member that holds the graph."""
    members = archive.infolist()
    found = [member for member in members if _OLD_PROGRAM.fullmatch(member.filename)]
    found += [member for member in members if _PROGRAM.fullmatch(member.filename)]
    if not found:
        if any(_COMPILED.fullmatch(member.filename) for member in members):
            raise SourceError(f"The archive is compiled by AOTInductor and has no graph any more; {REMEDY} instead.")
        raise SourceError(f"The archive has no program of torch.export in it; {REMEDY}.")
    if len(found) > 1:
        names = [member.filename.rpartition("/")[2].removesuffix(".json")[:40] for member in found[:5]]
        raise SourceError(
            f"The archive has {count(len(found))} models, such as {listed(names)}; save the one to import by itself."
        )
    return found[0]


class _Bounded:
    """A file of which at most `most` bytes are read at once: zipfile reads the whole list of members in one go."""

    def __init__(self, file: BinaryIO, most: int, what: str) -> None:
        self.file, self.most, self.what = file, most, what

    def read(self, size: int = -1) -> bytes:
        if size > self.most:
            raise SourceError(f"The archive's {self.what} is too long; up to {binary_size(self.most)} are read.")
        content = self.file.read(self.most + 1 if size < 0 else size)
        if len(content) > self.most:
            raise SourceError(f"The archive's {self.what} is too long; up to {binary_size(self.most)} are read.")
        return content

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True
