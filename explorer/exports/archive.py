"""Several files as one: a ZIP archive that is the same whenever it is made of the same files."""

import io
import zipfile
from collections.abc import Mapping

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time a ZIP archive can hold; the time of export would make equal archives differ."""


def zip_bytes(files: Mapping[str, str | bytes]) -> bytes:
    """Return the archive of files by name; text is UTF-8."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, content in files.items():
            data = content.encode("utf-8", "replace") if isinstance(content, str) else content
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            writer.writestr(info, data)
    return archive.getvalue()
