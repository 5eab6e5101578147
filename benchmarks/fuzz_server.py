"""Hostile files and addresses against the running server, while a bystander works.

`python -m benchmarks.fuzz_server [--files 20000] [--minutes 30]` has several sessions upload mutated graphs and
projects one after the other and open mutated addresses. It looks for tracebacks in the log and on pages, for a page
that takes more than 10 s, and for a plan of the bystander that takes more than 2 s. A fault is told with its number,
from which `benchmarks.mutations` makes the same file again.
"""

import argparse
import asyncio
import itertools
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.explorer_page import sentences
from benchmarks.http_door import Door, PageError, query_string
from benchmarks.load import quantile
from benchmarks.machine import machine
from benchmarks.mutations import hostile_address, hostile_file
from benchmarks.server_process import MIB, Server, family_of, own_cpu_s, pss_bytes, server
from benchmarks.streamlit_client import StreamlitClient
from benchmarks.visitors import Record, Visitor
from explorer.state.project import FORMAT, VERSION
from solvers.formats.graph_json import graph_document, split_document
from solvers.model.split import Split
from solvers.samples import read_sample

START = "sample=teaching_chain"
HANG_S = 10.0
GIVE_UP_S = 60.0
BYSTANDER_S = 2.0
RELOAD_EVERY = 400
"""Files in one session; then the tab is closed and another opened."""
WHOLE_PAGE_EVERY = 10
"""After a file that is refused the rest of the page is as before; it is waited for now and then only."""
NEW_TAB_EVERY = 10
"""One of so many addresses is opened in a new tab, the others as with Back and Forward."""


@dataclass
class Found:
    """What the trial has found so far."""

    done: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    sentences: set[str] = field(default_factory=set)
    server_cpu_s: float = 0.0


class Attacker:
    """One session after the other that takes numbers and sends what they stand for."""

    def __init__(self, one: Server, numbers: Iterator[int], found: Found) -> None:
        self._one, self._numbers, self._found = one, numbers, found
        self._page = StreamlitClient(Door(one.address, GIVE_UP_S))
        self._known: set[str] = set()

    async def attack(self, end_s: float) -> None:
        """Go on until the time or the numbers are over."""
        await self._reopen()
        for count, number in enumerate(self._numbers, start=1):
            if time.monotonic() > end_s:
                break
            if not self._page.is_connected or count % RELOAD_EVERY == 0:
                await self._reopen()
            await self._send(number)
        await self._page.close()

    async def _send(self, number: int) -> None:
        kind = "address" if number % 5 == 0 else "project" if number % 5 == 1 else "graph"
        what = ""
        began_s = time.monotonic()
        try:
            if kind == "address":
                what = await self._open_address(number)
            else:
                what, content = hostile_file(number, project() if kind == "project" else None)
                await self._upload(number, f"{kind}{number}.json", content)
        except (PageError, TimeoutError, OSError) as error:
            self._found.faults.append(f"{kind} {number} ({what}): {type(error).__name__} {error}"[:300])
            await self._page.close()
        seconds = time.monotonic() - began_s
        self._found.done[kind] += 1
        self._found.seconds.append(seconds)
        if seconds > HANG_S:
            self._found.hangs.append(f"{kind} {number} ({what}): {seconds:.0f} s")
        if new := set(self._page.exceptions) - self._known:
            self._known |= new
            self._found.faults += [f"{kind} {number} ({what}): on the page: {text}"[:300] for text in new]
        self._found.sentences |= {re.sub(r"\S*\d\S*", "N", text)[:200] for text in self._page.texts("alert")}

    async def _open_address(self, number: int) -> str:
        what, query = hostile_address(number, edits())
        if number % (5 * NEW_TAB_EVERY):
            before = self._page.runs_finished
            await self._page.send(query=query)
            await self._page.wait(lambda: self._page.runs_finished > before, GIVE_UP_S)
        else:
            async with StreamlitClient(Door(self._one.address, GIVE_UP_S)) as tab:
                await tab.open(query, page=("", "compare", "sweep", "nowhere")[number % 4], patience_s=GIVE_UP_S)
        return what

    async def _upload(self, number: int, name: str, content: bytes) -> None:
        page = self._page
        if not page.has_widget("file_uploader", "upload"):
            await page.run(page.segment("source", "Upload"), patience_s=GIVE_UP_S)
        state, before = await page.upload("upload", name, content), page.runs_finished
        await page.send(state)

        def is_done() -> bool:
            told = any(name in text.replace("\\", "") for text in page.texts("alert"))
            return (told and number % WHOLE_PAGE_EVERY) or (page.runs_finished > before and page.is_still)

        await page.wait(is_done, GIVE_UP_S)

    async def _reopen(self) -> None:
        await self._page.close()
        self._page, self._known = StreamlitClient(Door(self._one.address, GIVE_UP_S)), set()
        await self._page.open(START, patience_s=GIVE_UP_S)


def edits() -> dict[str, Any]:
    """Return a valid document of edits of the sample that addresses open."""
    graph, _ = read_sample("teaching_chain")
    ids = [node.id for node in graph.nodes]
    step = {"what": "Moved", "moved": {"accelerator 2": str(ids[-1])}, "pinned": str(ids[0]), "together": []}
    base = {"accelerator 1": ",".join(map(str, ids))}
    return {"version": 1, "graph": graph.digest, "base": base, "steps": [step], "at": 1}


def project() -> dict[str, Any]:
    """Return a valid project file."""
    graph, deployment = read_sample("teaching_chain")
    ids = [node.id for node in graph.nodes]
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": {"origin": "a chain", "file": {"name": "chain", **graph_document(graph, deployment)}},
        "inputs": {"accelerators": "2", "memory": "4"},
        "plan": {"split": split_document(Split((frozenset(ids[:3]), frozenset(ids[3:]))))},
        "edits": edits(),
    }


async def trial(options: argparse.Namespace, one: Server) -> tuple[Found, Record, float]:
    """Run the attack beside a bystander; what was found, what the bystander saw, and the seconds it took."""
    found, record = Found(), Record()
    numbers = iter(range(options.first, options.first + options.files))
    began_s = time.monotonic()
    end_s = began_s + 60 * options.minutes
    bystander = Visitor(300, one.address, record, kind="bystander")
    watching = asyncio.create_task(bystander.visit(end_s + 3600, (1.5, 3.0)))
    attackers = [Attacker(one, numbers, found) for _ in range(options.clients)]
    reports = asyncio.create_task(_tell(one, found, began_s))
    before_s = own_cpu_s(one.pid)
    ended = await asyncio.gather(*(attacker.attack(end_s) for attacker in attackers), return_exceptions=True)
    found.faults += [f"an attacker gave up: {error!r}" for error in ended if isinstance(error, BaseException)]
    seconds, found.server_cpu_s = time.monotonic() - began_s, own_cpu_s(one.pid) - before_s
    watching.cancel()
    reports.cancel()
    await asyncio.gather(watching, reports, return_exceptions=True)
    await bystander.leave()
    return found, record, seconds


async def _tell(one: Server, found: Found, began_s: float) -> None:
    for _ in itertools.count():
        await asyncio.sleep(60.0)
        done, memory = sum(found.done.values()), pss_bytes(family_of(one.pid)) / MIB
        print(
            f"{time.monotonic() - began_s:.0f} s: {done} done, {len(found.faults)} faults, {memory:.0f} MiB", flush=True
        )


def tracebacks(log: str) -> Counter[str]:
    """Return how often each fault ends a traceback in a log, with the line of the project it went through last."""
    found: Counter[str] = Counter()
    for part in log.split("Traceback (most recent call last)")[1:]:
        places = re.findall(r'File "\S*?/((?:explorer|solvers)/\S+\.py)", line (\d+)', part)
        ends = re.findall(r"^(?:\S+ )*?(\w[\w.]*(?:Error|Exception|Warning|Interrupt)\b.*)$", part, re.MULTILINE)
        place = ":".join(places[-1]) if places else "outside the project"
        found[f"{(ends[0] if ends else part.strip()[-120:])[:160]} at {place}"] += 1
    return found


def report(found: Found, record: Record, seconds: float, one: Server) -> bool:
    """Print what was found; whether all is as it should be."""
    times = [shown.seconds for shown in record.shown]
    log = one.log_text()
    ends = tracebacks(log)
    done = sum(found.done.values())
    print(f"\n{done} files and addresses ({dict(found.done)}) in {seconds:.0f} s: {done / seconds:.1f} a second")
    print(f"- the server used {1000 * found.server_cpu_s / max(1, done):.0f} ms of processor time for each")
    if found.seconds:
        print(f"- a page took p50 {quantile(found.seconds, 0.5):.2f} s, p95 {quantile(found.seconds, 0.95):.2f} s")
        print(f"  and {max(found.seconds):.1f} s at most; over {HANG_S:.0f} s: {len(found.hangs)}")
    slow = sum(value > BYSTANDER_S for value in times) + len(record.late)
    if times:
        print(f"- the bystander's {len(times)} plans took p50 {quantile(times, 0.5):.2f} s,", end=" ")
        print(f"p95 {quantile(times, 0.95):.2f} s, {max(times):.2f} s at most;", end=" ")
        print(f"over {BYSTANDER_S:.0f} s: {slow} (of which never: {len(record.late)})")
    print(f"- faults on pages: {len(found.faults)}; tracebacks in the log: {sum(ends.values())};", end=" ")
    print(f"alive: {one.is_alive()}")
    for text in found.hangs[:20] + found.faults[:20] + record.errors[:5]:
        print(f"  - {text}")
    for text, count in ends.most_common(20):
        print(f"  - log, {count} times: {text}")
    print(f"- {len(found.sentences)} sentences on the pages, such as:")
    for text in sentences(found.sentences)[:12]:
        print(f"  - {text}")
    return not (found.hangs or found.faults or ends or slow) and one.is_alive()


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_server")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--server-options", default="", help="options of placement-explorer")
    options = parser.parse_args()
    folder = Path("build")
    folder.mkdir(exist_ok=True)
    print(machine(), query_string({"clients": options.clients}))
    with server(folder / "fuzz_server.log", tuple(shlex.split(options.server_options))) as one:
        found, record, seconds = asyncio.run(trial(options, one))
        is_fine = report(found, record, seconds, one)
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
