"""What the benchmarks ran on, in one line."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("highspy", "numba", "numpy", "PuLP")


def machine() -> str:
    """Return processor, cores, system and the versions of what does the work."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = lines[0] if lines else model
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {packages}"
