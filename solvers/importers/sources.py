"""Find what a source names: a file, a folder with a config.json, or a preset; and import it.

What a file is its content tells, not its name.
"""

import json
import re
from pathlib import Path
from typing import BinaryIO

from solvers.importers.hugging_face.config import import_config
from solvers.importers.hugging_face.fields import parse_config
from solvers.importers.hugging_face.presets import preset
from solvers.importers.imported import Imported
from solvers.importers.limits import MAX_FILE_BYTES, MAX_PROFILE_BYTES
from solvers.importers.onnx.wire import is_onnx
from solvers.importers.profiles.pipedream import SIGN, import_pipedream
from solvers.importers.profiles.piper import import_piper, is_piper
from solvers.importers.torch_export.archive import ZIP_MAGIC
from solvers.importers.torch_export.importer import import_archive
from solvers.importers.workload import Devices, SourceKind, Workload
from solvers.model.errors import SourceError

HEAD_BYTES = 4096
"""What is looked at to tell what a file is."""
CONFIG_FIELDS = ("model_type", "architectures")
"""What a config.json has, one of them at least."""


def import_source(source: str, workload: Workload, devices: Devices) -> Imported:
    """Return the graph of a file, of the config.json in a folder, or of a preset; SourceError where there is none.

    A file comes before a preset of the same name. What ends in .json, .onnx, .pt2 or .txt or has a slash is never a
    preset.
    """
    path = Path(source)
    try:
        if path.is_dir():
            path = path / "config.json"
        is_file = path.is_file() or path.suffix in (".json", ".onnx", ".pt2", ".txt") or "/" in source
    except (OSError, ValueError):  # a name too long for a path, or one with a null character
        is_file = False
    if is_file:
        with _opened(path) as file:
            return import_file(file, workload, devices, str(path), title_of(path, path.parent.resolve().name))
    known = preset(source)
    _refuse_dims(workload)
    return import_config(known.config, workload, devices, known.config_source, known.title)


def import_file(file: BinaryIO, workload: Workload, devices: Devices, source: str, title: str = "") -> Imported:
    """Return the graph of an open file of any kind; `source` and `title` are names for people."""
    kind = _kind_of(_read(file, HEAD_BYTES))
    if kind is SourceKind.ARCHIVE:
        file.seek(0)
        return import_archive(file, workload, devices, source, title)
    if kind is SourceKind.ONNX:
        return _import_onnx(file, workload, devices, source, title)
    _refuse_dims(workload)
    if kind is SourceKind.PIPEDREAM:
        return import_pipedream(_read(file, MAX_PROFILE_BYTES), workload, devices, source, title)
    document = parse_config(_read(file, MAX_FILE_BYTES))
    if is_piper(document):
        return import_piper(document, workload, devices, source, title)
    return import_config(document, workload, devices, source, title)


def kind_of_file(path: Path) -> SourceKind | None:
    """Return what a file is by how it starts; None for JSON, and for what is of no kind that is imported."""
    with _opened(path) as file:
        return _kind_of(_read(file, HEAD_BYTES))


def source_kind(content: bytes) -> SourceKind | None:
    """Return what a file is by its content; None for one that is of no kind that is imported, such as our own graphs.

    >>> source_kind(b'{"model_type": "llama"}').value, source_kind(b'{"nodes": [], "edges": []}')
    ('config', None)
    """
    if (kind := _kind_of(content[:HEAD_BYTES])) is not None:
        return kind
    if len(content) > MAX_FILE_BYTES:  # too long for a config, and to be looked through here
        is_profile = re.search(rb'"TMPCs"\s*:', content) and b'"fpgaLatency"' not in content
        return SourceKind.PIPER if is_profile else None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        # A graph of ours says better what is wrong with it: a damaged file is a config where it has nothing of one.
        has_field = any(f'"{name}"'.encode() in content for name in CONFIG_FIELDS)
        return SourceKind.CONFIG if has_field and b'"nodes"' not in content else None
    if not isinstance(document, dict):
        return None
    if is_piper(document):
        return SourceKind.PIPER
    is_config = "nodes" not in document and any(name in document for name in CONFIG_FIELDS)
    return SourceKind.CONFIG if is_config else None


def _kind_of(head: bytes) -> SourceKind | None:
    """Return what a file is that starts so; None for JSON, and for what is none of these."""
    if head.startswith(ZIP_MAGIC):
        return SourceKind.ARCHIVE
    if is_onnx(head):
        return SourceKind.ONNX
    is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return SourceKind.PIPEDREAM if SIGN in head and not is_json else None


def _refuse_dims(workload: Workload) -> None:
    if workload.dims:
        raise SourceError(
            "--dim gives sizes that an ONNX file or an archive of torch.export leaves open, and this is neither; leave "
            "it out."
        )


def _import_onnx(file: BinaryIO, workload: Workload, devices: Devices, source: str, title: str) -> Imported:
    try:
        from solvers.importers.onnx.importer import import_onnx
    except ModuleNotFoundError as error:
        if error.name not in ("onnx", "numpy"):
            raise
        raise SourceError(
            "An ONNX file takes the package onnx; install the extra: pip install 'dnn-placement-explorer[onnx]'."
        ) from None
    return import_onnx(file, workload, devices, source, title)


def title_of(path: Path, folder: str = "") -> str:
    """Return what to call the model of a file: its name, or that of its folder where every model has the same."""
    name = folder if path.name in ("config.json", "model.onnx", "graph.txt") else path.stem
    return "".join(c if c.isprintable() else " " for c in name[:80].encode("utf-8", "replace").decode("utf-8"))


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SourceError(f"{json.dumps(str(path))} cannot be read: {reason or 'not a usable path'}.") from None


def _read(file: BinaryIO, most: int) -> bytes:
    """Return the file from its start, one byte more than `most` at most: a longer one is refused by its reader."""
    try:
        file.seek(0)
        return file.read(most + 1)
    except OSError as error:
        raise SourceError(f"The file cannot be read: {error.strerror or 'it has no start to go back to'}.") from None
