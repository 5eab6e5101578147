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

import psutil

from tests.support.root import ROOT
from tests.support.waiting import eventually

START_SECONDS = 60
READER = "explorer.state.read_worker"


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
        return {child.pid for child in psutil.Process(self.pid).children()}

    @property
    def readers(self) -> list[psutil.Process]:
        """The processes that read a file for the server."""
        return [psutil.Process(pid) for pid in self.children if _reads(pid)]


open_servers: list[Address] = []
"""Those that run now for the tests of this process."""


def _reads(pid: int) -> bool:
    try:
        return READER in psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return False


def held_reader(address: Address) -> psutil.Process:
    """Wait until a process is to read a file for a server with `hold_readers`; it goes on when it is resumed."""
    return eventually(lambda: next((r for r in address.readers if r.status() == psutil.STATUS_STOPPED), None))


def hold_readers(folder: Path) -> dict[str, str]:
    """Return what a server's environment needs for each process that reads a file to stop itself before it begins.

    A test that stops it from outside may come too late on a busy machine: the file is read by then.
    """
    (folder / "sitecustomize.py").write_text(
        f"import os, signal, sys\nif {READER!r} in sys.orig_argv:\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    return {"PYTHONPATH": str(folder)}


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
        address.pid, address._output = process.pid, output
        open_servers.append(address)
        try:
            _wait_until_healthy(address, process, tls)
            yield address
        finally:
            open_servers.remove(address)
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
