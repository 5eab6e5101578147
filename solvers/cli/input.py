"""What the commands of the command line read: graphs and splits from files, or one of them from stdin."""

import argparse
import sys
from pathlib import Path
from typing import BinaryIO

from solvers.cli.output import STREAM, say
from solvers.formats.graph_json import parse_graph, parse_split, read_graph, read_split
from solvers.formats.json_fields import MAX_FILE_BYTES
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.split import Split

INPUTS = ("graph", "split", "expert", "source")
"""Options that name what is read, and take `-` for stdin."""


def require_one_stream(options: argparse.Namespace) -> None:
    """Raise PlacementError where more than one input is to be read from stdin."""
    if sum(str(getattr(options, name, "")) == str(STREAM) for name in INPUTS) > 1:
        raise PlacementError("stdin holds only one file; give the other one by its name instead of -.")


def graph_at(path: Path) -> tuple[DnnGraph, Deployment]:
    """Return the graph and the deployment of a file, or of stdin for `-`; say what there is to be said of it."""
    return parse_graph(stdin_bytes(), on_note=say) if path == STREAM else read_graph(path, on_note=say)


def split_at(path: Path) -> Split:
    """Return the split of a file, or of stdin for `-`."""
    return parse_split(stdin_bytes()) if path == STREAM else read_split(path)


def stdin_bytes() -> bytes:
    """Return what stdin holds; if that is too long to be read, enough of it that it is refused."""
    return stdin().read(MAX_FILE_BYTES + 1)


def stdin() -> BinaryIO:
    """Return what stdin is read from; PlacementError where the shell has closed it."""
    if sys.stdin is None:
        raise PlacementError("stdin is closed; give a file by its name instead of -.")
    return sys.stdin.buffer
