"""Find what a source names: a file, a folder with one, or a preset; and import it."""

import json
from pathlib import Path

from solvers.importers.hugging_face.config import import_config
from solvers.importers.hugging_face.presets import preset
from solvers.importers.imported import Imported
from solvers.importers.limits import MAX_FILE_BYTES
from solvers.importers.torch_export.archive import ZIP_MAGIC
from solvers.importers.torch_export.importer import import_archive
from solvers.importers.workload import Devices, Workload
from solvers.model.errors import SourceError


def import_source(source: str, workload: Workload, devices: Devices) -> Imported:
    """Return the graph of a torch.export archive, of a config.json, of the one in a folder, or of a preset.

    What a file is its content tells, not its name. SourceError where nothing is found, or it cannot be imported.

    A file comes before a preset of the same name. What ends in .json or has a slash is never a preset.
    """
    path = Path(source)
    try:
        if path.is_dir():
            path = path / "config.json"
        is_file = path.is_file() or path.suffix == ".json" or "/" in source
    except (OSError, ValueError):  # a name too long for a path, or one with a null character
        is_file = False
    if is_file and _starts_with(path, ZIP_MAGIC):
        with path.open("rb") as file:
            return import_archive(file, workload, devices, str(path), _title(path))
    if workload.dims:
        raise SourceError(
            "--dim gives sizes that an archive of torch.export leaves open, and this is none; leave it out."
        )
    if is_file:
        return import_config(_read(path), workload, devices, str(path), _title(path))
    known = preset(source)
    return import_config(known.config, workload, devices, known.config_source, known.title)


def _starts_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except (OSError, ValueError):  # said where it is read
        return False


def _title(path: Path) -> str:
    """Return what to call the model of a file: its name, or that of its folder where every model has the same."""
    name = path.parent.resolve().name if path.name == "config.json" else path.stem
    return "".join(c if c.isprintable() else " " for c in name[:80].encode("utf-8", "replace").decode("utf-8"))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)  # one byte too many is refused like any other long text
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SourceError(f"{json.dumps(str(path))} cannot be read: {reason or 'not a usable path'}.") from None
