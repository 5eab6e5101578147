"""What the page says and keeps when something breaks: one fault after the other against a real server.

`python -m benchmarks.faults [NAME ...]` prints a line for each fault: whether page and server live, what the page said,
value and bound before and after, and what is left of processes 10 s later. Faults of the solver: killed (SIGKILL),
stopped (SIGSTOP), out of memory, each in DP, IP, CP-SAT and a sweep; of the machine: a full temporary directory; of the
network: a server that is killed and comes back, a page that is offline, a Dask scheduler that goes.
"""

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Error as BrowserError
from streamlit.proto.WidgetStates_pb2 import WidgetState

from benchmarks.explorer_page import Answer, answer_of, seen_by
from benchmarks.fault_scene import (
    CASES,
    CLUSTER_SWEEP,
    LARGE_GRAPH,
    LIMIT_S,
    OVER_LIMIT_S,
    PATIENCE_S,
    Case,
    Outcome,
    Scene,
)
from benchmarks.http_door import Door, PageError
from benchmarks.machine import machine
from benchmarks.network_faults import killed_server, offline_page
from benchmarks.server_process import ROOT, Server, server, state_of
from benchmarks.streamlit_client import StreamlitClient
from benchmarks.visitors import upload_of
from tests.support.serving import free_port


async def with_signal(one: Server, case: Case, number: signal.Signals) -> Outcome:
    """Send a signal to the process that works on a case."""
    outcome, scene = Outcome(f"{number.name} in {case.name}"), Scene(one, case)
    try:
        await scene.begin()
        pid = await scene.busiest()
        outcome.before = scene.plan()
        os.kill(pid, number)
        began_s = time.monotonic()
        is_over = await scene.is_over(PATIENCE_S if case.page else LIMIT_S + OVER_LIMIT_S)
        outcome.seconds = time.monotonic() - began_s
        outcome.after, outcome.says = scene.plan(), ("" if is_over else "STILL RUNNING: ") + scene.says()
        outcome.is_alive = await scene.is_page_alive()
        if not is_over:
            await scene.page.run(scene.page.press("cancel_sweep" if case.page else "cancel"))
        outcome.left = await scene.left()
        if number == signal.SIGSTOP and state_of(pid) == "T":
            os.kill(pid, signal.SIGKILL)  # not to hold up what follows
    except (PageError, TimeoutError, ValueError) as error:
        outcome.says = f"the trial failed: {type(error).__name__} {error}; {scene.says()}"[:300]
    await scene.page.close()
    return outcome


async def to_its_end(one: Server, case: Case, fault: str) -> Outcome:
    """Let a case run as it is, under whatever the server lacks."""
    outcome, scene = Outcome(f"{fault}: {case.name}"), Scene(one, case)
    began_s = time.monotonic()
    try:
        try:
            await scene.begin()
            outcome.before = scene.plan()
        except TimeoutError:
            outcome.before = "no plan seen"
        is_over = await scene.is_over(PATIENCE_S)
        outcome.says = ("" if is_over else "STILL RUNNING: ") + scene.says()
        outcome.after, outcome.seconds = scene.plan(), time.monotonic() - began_s
        outcome.is_alive, outcome.left = await scene.is_page_alive(), await scene.left()
    except PageError as error:
        outcome.says = f"{error}"[:300]
    await scene.page.close()
    return outcome


async def killed_solvers(one: Server) -> AsyncIterator[Outcome]:
    """Kill the process at work."""
    for case in CASES:
        yield await with_signal(one, case, signal.SIGKILL)


async def stopped_solvers(one: Server) -> AsyncIterator[Outcome]:
    """Stop the process at work."""
    for case in CASES:
        yield await with_signal(one, case, signal.SIGSTOP)


async def every_case(one: Server, fault: str) -> AsyncIterator[Outcome]:
    """Run all cases on a server that lacks something."""
    for case in CASES:
        yield await to_its_end(one, case, fault)


async def large_upload(one: Server) -> Outcome:
    """Upload a file that is too large to be held in memory while it comes in."""
    outcome, page = Outcome("full temporary directory: upload of 4 MB"), StreamlitClient(Door(one.address))
    began_s = time.monotonic()
    try:
        await page.open("")
        await page.run(page.segment("source", "Upload"))
        content = upload_of(LARGE_GRAPH)[0]
        await page.run(await page.upload("upload", "large.json", content + b" " * 4_000_000))
        outcome.says = " / ".join(page.texts("alert")) or "nothing"
    except (PageError, TimeoutError) as error:
        outcome.says = f"{error}"
    answer: Answer = answer_of(seen_by(page))
    outcome.after, outcome.is_alive = f"{answer.value}, {answer.state}", one.is_alive() and not page.exceptions
    outcome.seconds, outcome.left = time.monotonic() - began_s, "none"
    await page.close()
    return outcome


async def lost_scheduler(log: Path) -> Outcome:
    """Kill the Dask scheduler in the middle of a sweep."""
    outcome = Outcome("Dask scheduler lost in a sweep")
    port = free_port()
    dask = [str(Path(sys.executable).with_name("dask"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment, "cwd": ROOT}
    address = f"tcp://127.0.0.1:{port}"
    options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    scheduler = subprocess.Popen([*dask, "scheduler", *options], **quiet)  # type: ignore[call-overload]  # noqa: S603
    worker = subprocess.Popen([*dask, "worker", address, "--no-nanny", "--no-dashboard"], **quiet)  # type: ignore[call-overload]  # noqa: S603
    try:
        has_option = has_server_option("--dask")
        with server(log, ("--dask", address) if has_option else ()) as one:
            scene = Scene(one, Case("sweep", CLUSTER_SWEEP, worker="", page="sweep"))
            page = scene.page
            await page.open(CLUSTER_SWEEP, page="sweep")
            await page.run(_cluster(page, address) if has_option else page.text("Dask scheduler", address))
            await page.run(page.press("start_sweep"))
            await page.wait(lambda: re.search(r"\b[1-9]\d* of 6 points", scene.plan()), PATIENCE_S)
            outcome.before = scene.plan()
            scheduler.kill()
            began_s = time.monotonic()
            is_over = await scene.is_over(2 * PATIENCE_S)
            outcome.seconds, outcome.after = time.monotonic() - began_s, scene.plan()
            outcome.says = ("" if is_over else "STILL RUNNING: ") + scene.says()
            outcome.is_alive, outcome.left = await scene.is_page_alive(), await scene.left()
            await page.close()
    except (PageError, TimeoutError) as error:
        outcome.says = f"the trial failed: {type(error).__name__} {error}"[:300]
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    return outcome


def _cluster(page: StreamlitClient, address: str) -> WidgetState:
    """Return the widget that offers the operator's cluster, with that chosen."""
    for box in page.tree.elements("selectbox"):
        for option in box.options:
            if address in option or "Dask" in option:
                return page.option(box.label, option)
    for box in page.tree.elements("checkbox"):
        if "Dask" in box.label or "cluster" in box.label:
            return WidgetState(id=box.id, bool_value=True)
    raise PageError("The page offers no Dask cluster, though the server was given one.")


def has_server_option(name: str) -> bool:
    """Whether placement-explorer has an option."""
    command = [sys.executable, "-m", "explorer.launch", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout  # noqa: S603
    return name in told


@asynccontextmanager
async def full_temporary_directory(log: Path) -> AsyncIterator[tuple[Server, str]]:
    """Start a server whose temporary directory is full but for 8 kB, or one it may not write to.

    Where there is no room at all Python takes another directory.
    """
    with tempfile.TemporaryDirectory(prefix="full") as folder:
        script = f'mount -t tmpfs -o size=64k tmpfs {folder} && head -c 56k /dev/zero > {folder}/full; exec "$@"'
        can_mount = subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0  # noqa: S607
        how, prefix = "full temporary directory", ("unshare", "-m", "sh", "-c", script, "sh")
        if not can_mount:
            how, prefix = "temporary directory without write permission (no right to mount)", ()
            os.chmod(folder, 0o500)
        with server(log, environment={"TMPDIR": folder}, prefix=prefix) as one:
            yield one, how


async def run(names: list[str], memory_gib: float, log: Path) -> None:
    """Run the faults of these names, all if there are none, and print their lines."""

    def wanted(name: str) -> bool:
        return not names or name in names

    print("| fault | alive | the page says | before | after | seconds | processes left |")
    print("|---|---|---|---|---|---:|---|", flush=True)
    groups: dict[str, Callable[[Server], AsyncIterator[Outcome]]] = {"kill": killed_solvers, "stop": stopped_solvers}
    for name, group in groups.items():
        if wanted(name):
            with server(log) as one:
                async for outcome in group(one):
                    print(outcome.line(), flush=True)
                _tell_faults(one)
    if wanted("memory"):
        if not has_server_option("--solver-memory"):
            print("| memory limit: skipped, this server has no --solver-memory yet | | | | | | |")
        else:
            with server(log, ("--solver-memory", f"{memory_gib:g}")) as one:
                async for outcome in every_case(one, f"{memory_gib:g} GiB per solver"):
                    print(outcome.line(), flush=True)
                _tell_faults(one)
    if wanted("full"):
        async with full_temporary_directory(log) as (one, how):
            async for outcome in every_case(one, how):
                print(outcome.line(), flush=True)
            print((await large_upload(one)).line(), flush=True)
            _tell_faults(one)
    last: dict[str, Callable[[Path], Awaitable[Outcome]]] = {
        "restart": killed_server,
        "offline": offline_page,
        "dask": lost_scheduler,
    }
    for name, fault in last.items():
        if wanted(name):
            try:
                print((await fault(log)).line(), flush=True)
            except (BrowserError, TimeoutError) as error:
                print(Outcome(name, says=f"the trial failed: {error}".splitlines()[0]).line(), flush=True)


def _tell_faults(one: Server) -> None:
    if faults := one.faults():
        print(f"\nfaults in the log: {len(faults)}", *sorted(set(faults))[:5], "", sep="\n")


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults")
    parser.add_argument("names", nargs="*", help="kill, stop, memory, full, restart, offline, dask; all by default")
    parser.add_argument("--memory-gib", type=float, default=0.6, help="limit of a solver for the fault memory")
    options = parser.parse_args()
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    print(machine() + "\n")
    asyncio.run(run(options.names, options.memory_gib, folder / "faults_server.log"))


if __name__ == "__main__":
    main()
