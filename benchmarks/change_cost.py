"""What a change of an input costs the server, in processor time: no clock is read, so that a busy machine matters less.

`python -m benchmarks.change_cost [--visitors 6] [--changes 20]` starts the server and has visitors change an input one
after the other, first to values that nobody had (the plan is solved), then to values that another visitor has had (the
answer is known, all else is done). Then all stay and change nothing. It prints for each part, by change or by second:
the server's own processor time and that of its solvers, runs of the page and of its fragments, and bytes sent.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.explorer_page import settled
from benchmarks.http_door import Door, query_string
from benchmarks.machine import machine
from benchmarks.server_process import Server, cpu_s, family_of, own_cpu_s, server
from benchmarks.streamlit_client import StreamlitClient

SAMPLES = ("gnmt_layer_inference", "bert_base_operator_training", "inception_v3_operator_inference")
IDLE_S = 20.0
PATIENCE_S = 60.0
VALUES = (9, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
"""Memories in GiB that are asked for: a change of it makes no other graph."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What has been used so far, or between two moments."""

    server_s: float
    solvers_s: float
    runs: int
    fragments: int
    sent_bytes: int

    def since(self, before: "Cost") -> "Cost":
        """Return what was used since an earlier moment."""
        return Cost(
            self.server_s - before.server_s,
            self.solvers_s - before.solvers_s,
            self.runs - before.runs,
            self.fragments - before.fragments,
            self.sent_bytes - before.sent_bytes,
        )

    def row(self, what: str, unit: str, count: float) -> str:
        """Return a row of the table, of what one of `count` costs."""
        return (
            f"| {what} | {unit} | {1000 * self.server_s / count:.0f} | {1000 * self.solvers_s / count:.0f} | "
            f"{self.runs / count:.2f} | {self.fragments / count:.2f} | {self.sent_bytes / count / 1000:.0f} |"
        )


def _cost(one: Server, pages: list[StreamlitClient]) -> Cost:
    own_s = own_cpu_s(one.pid)
    return Cost(
        own_s,
        cpu_s(family_of(one.pid)) - own_s,
        sum(page.runs_finished for page in pages),
        sum(page.fragments_finished for page in pages),
        sum(page.bytes_received for page in pages),
    )


async def _change(page: StreamlitClient, gib: int) -> None:
    before = page.runs_finished
    await page.send(page.number("Memory (GiB)", gib))
    await settled(page, lambda parts: parts.get("memory") == str(gib), PATIENCE_S, before)


async def trial(one: Server, visitors: int, changes: int) -> None:
    """Print the table."""
    print(f"{machine()}; {visitors} visitors\n")
    print("| what | for each | server, ms | solvers, ms | runs | fragments | kB sent |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for sample in SAMPLES:
        await _trial_on(one, sample, [StreamlitClient(Door(one.address)) for _ in range(visitors)], changes)


async def _trial_on(one: Server, sample: str, pages: list[StreamlitClient], changes: int) -> None:
    """Print the rows of one graph."""

    async def measured(what: str, unit: str, count: float, do: Callable[[], Awaitable[None]]) -> None:
        before = _cost(one, pages)
        await do()
        print(_cost(one, pages).since(before).row(f"{sample}: {what}", unit, count), flush=True)

    async def come() -> None:
        for page in pages:
            await page.open(query_string({"sample": sample}))
            await settled(page, lambda _: True, PATIENCE_S, 0)

    async def change(changing: list[StreamlitClient]) -> None:
        for page in changing:
            for i in range(changes):
                await _change(page, VALUES[i % len(VALUES)] + 100 * (i // len(VALUES)))

    first, others = pages[:1], pages[1:]
    await measured("come", "visitor", len(pages), come)
    await measured("change, solved", "change", changes, lambda: change(first))
    await measured("change, known", "change", changes * len(others), lambda: change(others))
    await measured("nobody does anything", "second", IDLE_S, lambda: asyncio.sleep(IDLE_S))
    for page in pages:
        await page.close()


def main() -> None:
    """Start the server and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.change_cost")
    parser.add_argument("--visitors", type=int, default=6)
    parser.add_argument("--changes", type=int, default=20)
    options = parser.parse_args()
    began_s = time.monotonic()
    Path("build").mkdir(exist_ok=True)
    with server(Path("build/change_cost_server.log")) as one:
        asyncio.run(trial(one, options.visitors, options.changes))
    print(f"\n{time.monotonic() - began_s:.0f} s in all")


if __name__ == "__main__":
    main()
