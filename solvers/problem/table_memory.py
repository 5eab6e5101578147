"""How much memory the tables of the dynamic programs may take, unless whoever asks says so."""

import os

MACHINE_SHARE, LEAST_BYTES, MOST_SHARE = 1 / 40, 400 * 2**20, 1 / 4
"""Of the machine's memory: the usual share, which is small since sweeps and servers run many solvers at a time; at
least so much; and never more than the last share. While a table grows, half as much again is in use."""

LIMIT_VARIABLE = "PLACEMENT_SOLVER_MEMORY"
"""The variable of the environment in which a server tells its solver processes the bytes that one of them may take."""

LIMIT_SHARE = 1 / 4
"""Of that limit, what tables take: they grow by half, and the rest of a solver takes some hundred MiB."""


def usual_table_bytes() -> int:
    """Return the bytes that a table may take: a share of the server's limit for a solver, else of the machine's."""
    limit = os.environ.get(LIMIT_VARIABLE)
    if limit:
        return int(LIMIT_SHARE * float(limit))
    machine = _machine_bytes()
    return int(min(max(LEAST_BYTES, MACHINE_SHARE * machine), MOST_SHARE * machine))


def _machine_bytes() -> int:
    """Return the memory of this machine, or in a container the share that it is limited to."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):  # no such limit: "max", or another system
            continue
    return total
