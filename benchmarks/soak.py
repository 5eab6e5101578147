"""Whether memory stays flat: many changes in one session, many sessions one after the other, many changes in Chromium.

`python -m benchmarks.soak [--changes 1000] [--sessions 200] [--browser-changes 1000]` measures the server's memory (its
own pages, and PSS with its solvers) at twenty points of each part, and of one page of Chromium the heap of its scripts
after a forced collection and its renderer's own pages, before and after Chromium is told that memory is short; at each
point the page shows the same plan. Flat means: after the first tenth no point of a part is more than 10 % above the one
at the end of that tenth. Memory with the solvers is told, not judged: it goes by how many of them are alive. So is that
of the renderer, beside what a bare page of Streamlit does after as many changes: Chromium keeps pages of its heap in
which nothing is left.
"""

import argparse
import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.explorer_page import Answer, parts_of, settled
from benchmarks.http_door import Door, PageError, query_string
from benchmarks.machine import machine
from benchmarks.server_process import MIB, Server, family_of, private_bytes, pss_bytes, server
from benchmarks.streamlit_client import StreamlitClient
from benchmarks.unwatched_page import unwatched_page
from tests.support.serving import free_port, served

SAMPLE = "gnmt_layer_inference"
PATIENCE_S = 60.0
POINTS = 20
MOST_RISE = 0.10
SETTLE_S = 2.0
COUNTS = tuple(range(1, 6)) + tuple(range(7, 33))
"""Numbers of accelerators, without that of the sample, which is not in the address."""
LINKS_GB_S = tuple(range(2, 12)) + tuple(range(13, 53))
"""With the counts 1,550 questions: more than the pool of solvers remembers, so that each change is solved."""


SHOWN, MOST_MORE = 7, 25
"""The plan that the page of Chromium shows when it is measured, in accelerators, and how many more at most it shows."""
WITH_SOLVERS, RENDERER, RENDERER_SHORT = "server and solvers", "renderer", "renderer, when memory is short"


def is_flat(values: list[float]) -> bool:
    """Whether no value after the first tenth is more than 10 % above the one at its end.

    >>> is_flat([50.0, 100.0, 104.0, 109.0]), is_flat([50.0, 100.0, 104.0, 111.0])
    (True, False)
    """
    base = values[max(1, len(values) // 10)] if len(values) > 1 else values[0]
    return all(value <= base * (1 + MOST_RISE) for value in values[max(1, len(values) // 10) :])


async def change(page: StreamlitClient, i: int) -> Answer:
    """Ask the i-th question and wait for its answer; every second change keeps the number and moves the link."""
    if i % 2:
        name, value, state = "bandwidth", LINKS_GB_S[i % len(LINKS_GB_S)], "Link (GB/s)"
    else:
        name, value, state = "accelerators", COUNTS[i % len(COUNTS)], "Accelerators"
    before = page.runs_finished
    await page.send(page.number(state, value))
    answer, _ = await settled(page, lambda parts: parts.get(name) == str(value), PATIENCE_S, before)
    return answer


async def one_session(one: Server, changes: int) -> list[dict[str, float]]:
    """Make many changes in one session; the memory at points on the way."""
    async with StreamlitClient(Door(one.address)) as page:
        await page.open(query_string({"sample": SAMPLE}))

        async def step(i: int) -> None:
            await change(page, i)

        return await measured(changes, step, lambda: of_server(one))


async def many_sessions(one: Server, sessions: int) -> list[dict[str, float]]:
    """Open one session after the other, each with two changes; the memory at points on the way."""

    async def step(i: int) -> None:
        async with StreamlitClient(Door(one.address)) as page:
            await page.open(query_string({"sample": SAMPLE, "accelerators": COUNTS[i % len(COUNTS)]}))
            await settled(page, lambda parts: "accelerators" in parts, PATIENCE_S, 0)
            await change(page, 2 * i + 1)
            assert "bandwidth" in parts_of(page.query)

    return await measured(sessions, step, lambda: of_server(one))


async def in_chromium(address: str, changes: int) -> list[dict[str, float]]:
    """Make many changes in a page of Chromium; heap and renderer's memory at points on the way, in MiB."""
    async with unwatched_page(f"{address}/?sample={SAMPLE}", PATIENCE_S) as page:

        async def step(i: int) -> None:
            await page.set_number("Accelerators", SHOWN + 1 + i % MOST_MORE)

        async def of_page() -> dict[str, float]:
            await page.set_number("Accelerators", SHOWN)
            of_renderer = page.renderer_bytes()
            # What Chromium keeps as long as the machine has room for it is no growth of the page's.
            await page.call("Memory.simulatePressureNotification", level="critical")
            for _ in range(2):
                await page.call("HeapProfiler.collectGarbage")
            await asyncio.sleep(SETTLE_S)
            counters = await page.call("Memory.getDOMCounters")
            return {
                "heap": (await page.call("Runtime.getHeapUsage"))["usedSize"] / MIB,
                RENDERER: of_renderer / MIB,
                RENDERER_SHORT: page.renderer_bytes() / MIB,
                "nodes of the document": counters["nodes"],
            }

        return await measured(changes, step, of_page)


async def of_server(one: Server) -> dict[str, float]:
    """Return the memory of a server in MiB."""
    tree = await asyncio.to_thread(family_of, one.pid)
    return {"server": private_bytes(one.pid) / MIB, WITH_SOLVERS: pss_bytes(tree) / MIB}


async def measured(
    count: int, step: Callable[[int], Awaitable[None]], measure: Callable[[], Awaitable[dict[str, float]]]
) -> list[dict[str, float]]:
    """Do a step many times and return what is measured before the first and at equal distances."""
    found = [await measure()]
    every = max(1, count // POINTS)
    for i in range(count):
        try:
            await step(i)
        except (PageError, TimeoutError) as error:
            print(f"step {i}: {type(error).__name__}: {error}"[:200], flush=True)
        if (i + 1) % every == 0:
            await asyncio.sleep(SETTLE_S)
            found.append(await measure())
    return found


def report(what: str, points: list[dict[str, float]]) -> bool:
    """Print a part; whether all that was measured is flat."""
    print(f"\n{what}")
    flat = True
    for name in points[0]:
        values = [point[name] for point in points]
        is_judged = name not in (WITH_SOLVERS, RENDERER, RENDERER_SHORT)
        is_fine = is_flat(values)
        flat &= is_fine or not is_judged
        base = values[max(1, len(values) // 10)]
        rise = values[-1] / base - 1
        verdict = ("flat" if is_fine else "RISES") if is_judged else "not judged"
        print(f"- {name}: {verdict} ({rise:+.1%}, {values[-1] - base:+.0f} after the first tenth): ", end="")
        print(" ".join(f"{value:.0f}" for value in values), flush=True)
    return flat


async def soak(options: argparse.Namespace, one: Server) -> dict[str, list[dict[str, float]]]:
    """Run all parts."""
    async with StreamlitClient(Door(one.address)) as page:
        await page.open()
    parts: dict[str, list[dict[str, float]]] = {}
    if options.changes:
        parts[f"{options.changes} changes in one session, MiB"] = await one_session(one, options.changes)
    if options.sessions:
        parts[f"{options.sessions} sessions one after the other, MiB"] = await many_sessions(one, options.sessions)
    if options.browser_changes:
        name = f"{options.browser_changes} changes in Chromium, MiB"
        parts[name] = await in_chromium(one.address, options.browser_changes)
        port = free_port()
        bare = ["-m", "streamlit", "run", "benchmarks/bare_page.py", "--server.headless=true", f"--server.port={port}"]
        with served(bare, port) as address:
            parts[f"{name}, of a bare page of Streamlit"] = await in_chromium(address, options.browser_changes)
    return parts


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--browser-changes", type=int, default=1000)
    parser.add_argument("--server-options", default="", help="options of placement-explorer")
    options = parser.parse_args()
    folder = Path("build")
    folder.mkdir(exist_ok=True)
    print(machine())
    with server(folder / "soak_server.log", tuple(shlex.split(options.server_options))) as one:
        parts: dict[str, Any] = asyncio.run(soak(options, one))
        faults = one.faults()
    flat = [report(what, points) for what, points in parts.items()]
    print(f"\nfaults in the log: {len(faults)}", *faults[:5], sep="\n")
    (folder / "soak.json").write_text(json.dumps(parts, indent=1))
    sys.exit(0 if all(flat) and not faults else 1)


if __name__ == "__main__":
    main()
