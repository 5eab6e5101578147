"""Servers for browser tests: started as a user would start them, stopped with everything they started."""

import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
START_SECONDS = 60


PORTS = range(20_000, 32_000)
"""Ports of servers: below those that a system gives to connections, which would take one before its server has it."""


def free_port() -> int:
    """Return a port that nothing listens on, another one each time, also in tests that run beside these."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


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
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603 -- the arguments are the tests' own
            [sys.executable, *arguments], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_healthy(port, process, output)
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


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            output.seek(0)
            raise AssertionError(f"the server ended before it served anything, and wrote:\n{output.read().decode()}")
        try:
            with urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the server did not become healthy")
