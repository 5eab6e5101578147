"""How much memory processes take with all they have started."""

import contextlib
import os
from collections.abc import Callable, Collection
from pathlib import Path

import psutil


def memory_of_trees(process_ids: Collection[int]) -> dict[int, int]:
    """Return the resident memory in bytes of each process with its descendants; 0 for one that has ended.

    Pages that processes share count for each of them, so a tree never takes more than is said here.
    """
    if Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return {pid: _memory_of_tree(pid, _children) for pid in process_ids}
    known = _all_children()
    return {pid: _memory_of_tree(pid, lambda parent: known.get(parent, [])) for pid in process_ids}


def _memory_of_tree(root: int, children: Callable[[int], list[int]]) -> int:
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children(pid)
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            total += int(psutil.Process(pid).memory_info().rss)
    return total


def _children(pid: int) -> list[int]:
    """Return what a process has started, as Linux tells it: a look at all processes takes a hundred times as long."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


def _all_children() -> dict[int, list[int]]:
    """Return what each process of the machine has started."""
    found: dict[int, list[int]] = {}
    for process in psutil.process_iter(["ppid"]):
        found.setdefault(process.info["ppid"], []).append(process.pid)
    return found


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
