"""Servers for browser tests: started as a user would start them, stopped with everything they started."""

import os
import secrets
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tests.support.root import ROOT

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
    _output: IO[bytes]

    def output(self) -> str:
        """Return what the server has written so far."""
        return os.pread(self._output.fileno(), 2**20, 0).decode(errors="replace")

    @property
    def children(self) -> set[int]:
        """Ids of the processes the server has started and that still run."""
        found = subprocess.run(["pgrep", "-P", str(self.pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return {int(line) for line in found.stdout.split()}

    @property
    def reader(self) -> int:
        """The process that reads a file for the server; 0 while there is none."""
        for pid in self.children:
            found = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603, S607
            if b"explorer.state.read_worker" in found.stdout:
                return pid
        return 0


@contextmanager
def served(
    arguments: list[str],
    port: int,
    tls: ssl.SSLContext | None = None,
    *,
    python: str | Path = sys.executable,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Address]:
    """Run `python ARGUMENTS` until the block ends; yield the address once it answers, by TLS where it is trusted.

    `environment` is added to that of the tests.
    """
    address = Address(f"{'http' if tls is None else 'https'}://localhost:{port}")
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603 -- the arguments are the tests' own
            [python, *arguments],
            cwd=cwd,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            address.pid, address._output = process.pid, output
            _wait_until_healthy(address, process, tls)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _wait_until_healthy(address: Address, process: subprocess.Popen[bytes], tls: ssl.SSLContext | None) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise AssertionError(f"the server ended before it served anything, and wrote:\n{address.output()}")
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2, context=tls):  # noqa: S310 -- our own
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError("the server did not become healthy")
