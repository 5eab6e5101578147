"""Peak memory of one solve in a fresh process: `python -m benchmarks.peak_memory NAME '{"method": "dp"}'` prints MB."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.workloads import read_workload
from solvers.solve import solve


def peak_mb(name: str, options: dict[str, Any]) -> float:
    """Return the peak memory in MB of a process that reads a workload and solves it with these options.

    Importing the solvers is part of it, as it is for everyone who runs them.
    """
    command = [sys.executable, "-m", "benchmarks.peak_memory", name, json.dumps(options)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 -- our own module


def own_peak_mb() -> float:
    """Return the largest resident size in MB so far of this process, or of one that it started and that has ended.

    Read from /proc: what `getrusage` says of a process itself begins with the memory of the one it was forked from.
    """
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    own_kb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return max(own_kb, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


if __name__ == "__main__":
    graph, deployment = read_workload(sys.argv[1])
    solve(graph, deployment, **json.loads(sys.argv[2]))
    print(own_peak_mb())
