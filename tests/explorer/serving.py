"""Servers for browser tests: started as a user would start them, stopped with everything they started."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 60


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Address(str):
    """The address of a server, which knows its process."""

    pid: int

    @property
    def children(self) -> set[int]:
        """Ids of the processes the server has started and that still run."""
        found = subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return {int(line) for line in found.stdout.split()}


@contextmanager
def served(arguments: list[str], port: int) -> Iterator[Address]:
    """Run `python ARGUMENTS` until the block ends; yield the address once it answers."""
    process = subprocess.Popen(  # noqa: S603 -- the arguments are the tests' own
        [sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_healthy(port, process)
        address = Address(f"http://localhost:{port}")
        address.pid = process.pid
        yield address
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended before it served anything"
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the server did not become healthy")
