"""The app's server under trial: started as a user starts it, its log kept, its processes measured by /proc."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.support.serving import free_port

ROOT = Path(__file__).resolve().parents[1]
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
START_S = 90
MIB = 2.0**20


@dataclass
class Server:
    """One running server; `command` starts it again after `kill`."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    command: list[str]
    environment: dict[str, str]

    @property
    def address(self) -> str:
        """Return its address."""
        return f"http://localhost:{self.port}"

    @property
    def pid(self) -> int:
        """Return the id of the server's own process."""
        return self.process.pid

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End it at once, with no chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """Start it on the same port."""
        self.process = _started(self.command, self.log, self.environment)
        _wait_until_healthy(self)

    def log_text(self) -> str:
        """Return all it has written."""
        return self.log.read_text(errors="replace")

    def faults(self) -> list[str]:
        """Return the lines of its log that tell of a fault: tracebacks' last lines, errors."""
        lines = self.log_text().splitlines()
        return [line for line in lines if re.match(r"Traceback|\w*(\.\w+)*(Error|Exception)\b|.*\bERROR\b", line)]


@contextmanager
def server(
    log: Path, options: tuple[str, ...] = (), environment: dict[str, str] | None = None, prefix: tuple[str, ...] = ()
) -> Iterator[Server]:
    """Serve the app on a free port until the block ends; `prefix` is a command that runs what follows it."""
    signal.signal(signal.SIGTERM, _leave)  # so that the server ends with a trial that is ended
    port = free_port()
    command = [*prefix, sys.executable, "-m", "explorer.launch", "--headless", "--port", str(port), *options]
    log.write_bytes(b"")
    with tempfile.TemporaryDirectory() as state:  # of what visitors have, not in that of whoever runs the trial
        environment = {**os.environ, "XDG_STATE_HOME": state, **(environment or {})}
        one = Server(_started(command, log, environment), port, log, command, environment)
        try:
            _wait_until_healthy(one)
            yield one
        finally:
            one.process.terminate()
            try:
                one.process.wait(15)
            except subprocess.TimeoutExpired:
                one.kill()


def _leave(*_: object) -> None:
    sys.exit("The trial was ended from outside.")


def _started(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=environment)  # noqa: S603


def _wait_until_healthy(one: Server) -> None:
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        if not one.is_alive():
            sys.exit(f"The server ended before it served anything, and wrote:\n{one.log_text()}")
        try:
            with urlopen(f"{one.address}/_stcore/health", timeout=2):  # noqa: S310
                return
        except (URLError, OSError):
            time.sleep(0.1)
    sys.exit("The server did not become healthy.")


# Processes.


def family_of(pid: int) -> list[int]:
    """Return a process and all that descend from it, as far as they live."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _stat(int(entry))) is not None:
            children.setdefault(int(stat[1]), []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        if Path(f"/proc/{one}").exists():
            found.append(one)
        todo += children.get(one, [])
    return found


def pss_bytes(pids: list[int]) -> float:
    """Return the proportional set size of processes: private pages, and of each shared page this process's share."""
    return sum(_smaps_bytes(pid, "Pss") for pid in pids)


def private_bytes(pid: int) -> float:
    """Return the pages that are a process's alone: a number that other processes of the same program do not change."""
    return _smaps_bytes(pid, "Private_Clean") + _smaps_bytes(pid, "Private_Dirty")


def _smaps_bytes(pid: int, name: str) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (OSError, ValueError):
        return 0.0
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return 1024.0 * int(found[1]) if found else 0.0


def cpu_s(pids: list[int]) -> float:
    """Return the processor time that living processes and their children that have ended have used."""
    total = 0.0
    for pid in pids:
        if (stat := _stat(pid)) is not None:
            total += sum(map(int, stat[11:15])) / TICKS_PER_S
    return total


def own_cpu_s(pid: int) -> float:
    """Return the processor time that a living process has used itself."""
    stat = _stat(pid)
    return 0.0 if stat is None else sum(map(int, stat[11:13])) / TICKS_PER_S


def command_of(pid: int) -> str:
    """Return the command line of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def state_of(pid: int) -> str:
    """Return the letter of a process's state (R, S, T, Z); empty when it has ended."""
    stat = _stat(pid)
    return stat[0] if stat else ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on: state, parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
