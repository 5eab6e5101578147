"""What a project file says of itself, read without the app: whether it is one, and its parts as JSON.

`explorer.state.project` says what the parts mean.
"""

import json
import re
from typing import Any

from solvers.formats.json_fields import parse_object
from solvers.model.errors import PlacementError

FORMAT = "dnn-placement-explorer project"
VERSION = 1


class ProjectError(PlacementError):
    """A file that is no project of this program; the text says in one sentence what is wrong."""


def is_project(text: bytes) -> bool:
    """Whether a file says of itself that it is a project; it may still be damaged."""
    return re.match(rb'\s*\{\s*"format"\s*:\s*"dnn-placement-explorer', text.removeprefix(b"\xef\xbb\xbf")) is not None


def project_fields(text: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of a project and the graph file in it; ProjectError, in one sentence, for what is none."""
    fields = parse_object(text, "project", ProjectError)
    if fields.get("format") != FORMAT:
        raise ProjectError("The file is no project of the DNN Placement Explorer.")
    if fields.get("version") != VERSION:
        raise ProjectError(
            f"The project is of version {_short(fields.get('version'))}; this program reads version {VERSION}."
        )
    described = checked_object(fields.get("graph"), "project's 'graph'")
    return fields, checked_object(described.get("file"), "project's graph file")


def checked_object(value: Any, what: str) -> dict[str, Any]:
    """Return a part that must be an object; ProjectError for any other."""
    if not isinstance(value, dict):
        raise ProjectError(f"The {what} is missing or no JSON object; take a file as the program wrote it.")
    return value


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 30 else text[:27] + "..."
