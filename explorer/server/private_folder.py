"""A folder that only the user who runs the server may enter."""

import os
from pathlib import Path


class NotOursError(ValueError):
    """A folder that others may write to, or that belongs to somebody else: what lies there is not to be believed."""


def make_private(folder: Path) -> None:
    """Make a folder for this user alone, if it is not there.

    Raises OSError when that is not possible, NotOursError when others could have written there; a system without owners
    is believed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise NotOursError("It belongs to another user, or others may write to it.")
    if not os.access(folder, os.W_OK):
        raise PermissionError("Nothing can be written to it.")
