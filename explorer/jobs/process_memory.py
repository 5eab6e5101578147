"""How much memory processes take with all they have started."""

from collections.abc import Collection

import psutil


def memory_of_trees(process_ids: Collection[int]) -> dict[int, int]:
    """Return the resident memory in bytes of each process with its descendants; 0 for one that has ended.

    Pages that processes share count for each of them, so a tree never takes more than is said here.
    """
    children: dict[int, list[psutil.Process]] = {}
    roots: dict[int, psutil.Process] = {}
    for process in psutil.process_iter(["ppid"]):
        children.setdefault(process.info["ppid"], []).append(process)
        if process.pid in process_ids:
            roots[process.pid] = process
    return {pid: _memory_of_tree(roots[pid], children) if pid in roots else 0 for pid in process_ids}


def _memory_of_tree(root: psutil.Process, children: dict[int, list[psutil.Process]]) -> int:
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process.pid, ())
        try:
            total += process.memory_info().rss
        except psutil.Error:  # it has ended meanwhile
            continue
    return total


def memory_of_machine() -> int:
    """Return how much memory this machine has, in bytes; in a container the share that it is limited to."""
    total = int(psutil.virtual_memory().total)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):  # no such limit: "max", or another system
            continue
    return total
