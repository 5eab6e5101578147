"""What this server takes and holds at most, and where: one place for all numbers, set once when it starts.

Nothing here imports anything of the app, so that whoever needs a limit can have it.
"""

from dataclasses import dataclass
from pathlib import Path

MAX_UPLOAD_MB = 32
"""Largest upload; a graph of 20,000 nodes takes about 6 MB."""

EDGES_PER_NODE = 4
"""A graph may have so many edges for each node that it may have; those of neural networks have about one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an operator may set on the command line; None leaves it to the machine.

    `solvers` solves that were asked for run at a time, each for at most `longest_solve_s` seconds and with at most
    `solver_memory_bytes` of memory. A graph may have `max_nodes` nodes and `max_edges` edges.
    What visitors would lose when the server is started again is written to the folder `keep_in`; None: it is lost.
    """

    solvers: int | None = None
    longest_solve_s: float = 3600.0
    solver_memory_bytes: float | None = None
    max_nodes: int = 100_000
    max_edges: int = EDGES_PER_NODE * 100_000
    keep_in: Path | None = None


_limits = Limits()


def limits() -> Limits:
    """Return the limits of this server."""
    return _limits


def set_limits(value: Limits) -> None:
    """Have the server keep to these limits; call it before it starts."""
    global _limits
    _limits = value


def longest_limit_s() -> int:
    """Return the longest time limit of a solve on this server, in whole seconds."""
    return max(1, int(_limits.longest_solve_s))
