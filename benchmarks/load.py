"""A class of thirty on one server: are the answers right, how quickly do they come, how much memory does it take.

`python -m benchmarks.load [--minutes 10] [--visitors 30] [--server-options "..."]` starts the server as a user does,
sends visitors to it, and holds every answer that was shown as final against the library's own. It prints a table and
writes `build/load.json`. The comparison takes longer than the trial; `--judge` takes one up again that was broken off.
Processor time of the visitors is reported beside that of the server, for they share cores.
"""

import argparse
import asyncio
import json
import os
import pickle
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.browser_page import chromium
from benchmarks.explorer_page import Asked, sentences
from benchmarks.http_door import Door, query_string
from benchmarks.library_answers import fault_of, library_answers
from benchmarks.machine import machine
from benchmarks.server_process import MIB, Server, cpu_s, family_of, own_cpu_s, pss_bytes, server
from benchmarks.streamlit_client import StreamlitClient
from benchmarks.visitors import (
    UPLOADS,
    BrowserVisitor,
    FreeSolver,
    Record,
    Sweeper,
    Uploader,
    Visitor,
    rows_of,
    upload_of,
)

MEASURE_EVERY_S = 2.0
LONG_SOLVES = 4
LONG_QUERY = {"sample": "mixtral_8x7b_layer_inference", "splits": "free", "limit": 60}
IDLE_BETWEEN_S = (1.5, 3.0)
COME_DOWN_S = 120.0
NUM_SLOWEST = 12
MOST_TREE_MIB, MOST_RISE = 2500.0, 0.10
REPORT, TRIAL = Path("build/load.json"), Path("build/load.pickle")


async def trial(options: argparse.Namespace, one: Server) -> dict[str, Any]:
    """Run all phases against a server and return what was found."""
    record, found = Record(), {"machine": machine(), "visitors": options.visitors, "minutes": options.minutes}
    for name in UPLOADS:
        upload_of(name)
    await _warm_up(one)
    found["memory_mib"] = {"at start": _memory(one)}
    peaks = {"tree": 0.0, "server": 0.0}
    measuring = asyncio.create_task(_measure(one, peaks))
    before, began_s = _processor(one), time.monotonic()
    after = await _crowd(options, one, record)
    seconds = time.monotonic() - began_s
    found["processor_share"] = {name: round((now - before[name]) / seconds, 3) for name, now in after.items()}
    idle = Record()
    if options.long_solves:
        await _long_solves(one, idle)
    measuring.cancel()
    found["memory_mib"]["peak"] = {name: round(peak) for name, peak in peaks.items()}
    await asyncio.sleep(options.come_down)
    found["memory_mib"]["after all have left"] = _memory(one)
    found["alive"] = one.is_alive()
    found |= {"seconds": _seconds(record, idle), "late": record.late + idle.late, "errors": record.errors + idle.errors}
    found["slowest live plans"] = _slowest(record)
    found["live plans by minute"] = _by_minute(record, began_s)
    found["lost changes"] = record.lost + idle.lost
    found["exceptions on pages"] = sorted(record.exceptions | idle.exceptions)
    found["alerts"] = sentences(record.alerts | idle.alerts)
    found["pressed Solve for a live plan"] = record.pressed_for_live + idle.pressed_for_live
    faults = one.faults()
    found["log"] = {"lines": len(one.log_text().splitlines()), "faults": len(faults), "first": sorted(set(faults))[:8]}
    record.shown += idle.shown
    TRIAL.write_bytes(pickle.dumps((found, record)))  # the library takes its time for what is left
    return found | _judged(record)


async def _warm_up(one: Server) -> None:
    async with StreamlitClient(Door(one.address)) as page:
        await page.open()
        await asyncio.sleep(3.0)
    await asyncio.sleep(10.0)


async def _crowd(options: argparse.Namespace, one: Server, record: Record) -> dict[str, float]:
    """Have all visitors at work at once for the whole time; they come within the first 10 s.

    Return the processor time used when they end, before they leave.
    """
    number_of = {FreeSolver: options.visitors // 3, Sweeper: options.visitors // 10, Uploader: options.visitors // 8}
    kinds: list[type[Visitor]] = [kind for kind, count in number_of.items() for _ in range(count)]
    kinds += [Visitor] * max(0, options.visitors - len(kinds) - options.browsers)
    visitors = [kind(i, one.address, record) for i, kind in enumerate(kinds)]
    end_s = time.monotonic() + 60 * options.minutes

    async def come(i: int, visitor: Visitor) -> None:
        await asyncio.sleep(10.0 * i / len(visitors))
        await visitor.visit(end_s)

    async with chromium() as browser:
        pages = [BrowserVisitor(100 + i, browser, one.address, record) for i in range(options.browsers)]
        work = [come(i, visitor) for i, visitor in enumerate(visitors)] + [page.visit(end_s) for page in pages]
        for ended in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(ended, BaseException):
                record.errors.append(f"a visitor gave up: {type(ended).__name__}: {ended}"[:300])
        used = _processor(one)
    await asyncio.gather(*(visitor.leave() for visitor in visitors), return_exceptions=True)
    return used


async def _long_solves(one: Server, record: Record) -> None:
    """Have one session change inputs while others solve long."""
    await asyncio.sleep(10.0)
    pages = [StreamlitClient(Door(one.address)) for _ in range(LONG_SOLVES)]
    for i, page in enumerate(pages):
        await page.open(query_string({**LONG_QUERY, "accelerators": 4 + i}))
        await page.run(page.press("solve"))
    visitor = Visitor(200, one.address, record, kind="live plan beside four long solves")
    await visitor.visit(time.monotonic() + LONG_QUERY["limit"] - 5, IDLE_BETWEEN_S)  # type: ignore[operator]
    await asyncio.gather(*(page.close() for page in pages), visitor.leave())


async def _measure(one: Server, peaks: dict[str, float]) -> None:
    while True:
        await asyncio.sleep(MEASURE_EVERY_S)
        tree = await asyncio.to_thread(family_of, one.pid)
        of_tree, of_server = await asyncio.to_thread(pss_bytes, tree), await asyncio.to_thread(pss_bytes, [one.pid])
        peaks["tree"], peaks["server"] = max(peaks["tree"], of_tree / MIB), max(peaks["server"], of_server / MIB)


def _memory(one: Server) -> dict[str, int]:
    return {"tree": round(pss_bytes(family_of(one.pid)) / MIB), "server": round(pss_bytes([one.pid]) / MIB)}


def _processor(one: Server) -> dict[str, float]:
    """Return the seconds of processor time used so far by the server alone, its tree, visitors, and browsers."""
    own = os.getpid()
    theirs = [pid for pid in family_of(own) if pid not in {own, *family_of(one.pid)}]
    return {
        "server": own_cpu_s(one.pid),
        "server and solvers": cpu_s(family_of(one.pid)),
        "visitors without a browser": time.process_time(),
        "browsers": cpu_s(theirs),
    }


def _seconds(*records: Record) -> dict[str, dict[str, float]]:
    """Return number, median and 95th percentile by kind of answer, in seconds from the change to the new value."""
    by_kind: dict[str, list[float]] = {}
    for record in records:
        for shown in record.shown:
            by_kind.setdefault(shown.kind, []).append(shown.seconds)
        for name, times in (("free split, first plan", record.first_plans), ("sweep", record.sweep_seconds)):
            if times:
                by_kind.setdefault(name, []).extend(times)
    return {
        kind: {"number": len(times), "p50": quantile(times, 0.5), "p95": quantile(times, 0.95), "most": max(times)}
        for kind, times in sorted(by_kind.items())
    }


def _slowest(record: Record) -> list[str]:
    """Return the live plans that took longest, with what they were for and how they came about."""
    live = sorted((one for one in record.shown if one.kind.startswith("live")), key=lambda one: -one.seconds)
    return [
        f"{one.seconds:.1f} s: {one.asked.upload} {dict(one.asked.parts)}: {one.answer.how}"
        for one in live[:NUM_SLOWEST]
    ]


def _by_minute(record: Record, began_s: float) -> list[tuple[float, float]]:
    """Return median and 95th percentile of the seconds of live plans, by the minute in which they came."""
    minutes: dict[int, list[float]] = {}
    for one in record.shown:
        if one.kind.startswith("live"):
            minutes.setdefault(int((one.answer.came_s - began_s) / 60), []).append(one.seconds)
    return [(quantile(minutes[i], 0.5), quantile(minutes[i], 0.95)) for i in sorted(minutes)]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values is not above.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([1.0], 0.95)
    (2.0, 1.0)
    """
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, round(share * (len(ranked) - 1)))]


def _judged(record: Record) -> dict[str, Any]:
    """Hold all that was shown against the library."""
    points = [
        (Asked(tuple(sorted({"sample": name, "accelerators": row["accelerators"]}.items()))), row)
        for name, table in record.sweeps
        for row in rows_of(table)
    ]
    known = library_answers([shown.asked for shown in record.shown] + [asked for asked, _ in points])
    wrong = [
        {"kind": shown.kind, "asked": asdict(shown.asked), "shown": asdict(shown.answer), "fault": fault}
        for shown in record.shown
        if (fault := fault_of(shown.asked, shown.answer, known[shown.asked]))
    ]
    for asked, row in points:
        right_ms = known[asked].value_ms
        if right_ms is not None and (not row["value_ms"] or abs(float(row["value_ms"]) - right_ms) > 1e-6 * right_ms):
            wrong.append({"kind": "sweep", "asked": asdict(asked), "shown": row, "fault": f"{right_ms:.7g} is right"})
    states = Counter(shown.answer.state for shown in record.shown)
    return {"compared": len(record.shown) + len(points), "states": dict(states), "wrong": wrong}


def text_of(found: dict[str, Any]) -> str:
    """Return the report as markdown."""
    memory = found["memory_mib"]
    by_minute = ", ".join(f"{p50:.1f}/{p95:.1f}" for p50, p95 in found["live plans by minute"])
    start, after = memory["at start"], memory["after all have left"]
    lines = [
        f"{found['machine']}; {found['visitors']} visitors for {found['minutes']:g} minutes",
        "",
        "| from change to new value | answers | p50, s | p95, s | most, s |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind, numbers in found["seconds"].items():
        lines.append(
            f"| {kind} | {numbers['number']} | {numbers['p50']:.2f} | {numbers['p95']:.2f} | {numbers['most']:.1f} |"
        )
    lines += ["", f"Live plans by the minute, p50/p95 in s: {by_minute}."]
    lines += ["", "| memory (PSS), MiB | server and solvers | server |", "|---|---:|---:|"]
    lines += [f"| {when} | {sizes['tree']:,} | {sizes['server']:,} |" for when, sizes in memory.items()]
    lines += ["", "| processor, cores | |", "|---|---:|"]
    lines += [f"| {who} | {share:.2f} |" for who, share in found["processor_share"].items()]
    rise, rise_of_tree = after["server"] / start["server"] - 1, after["tree"] / start["tree"] - 1
    log = found["log"]
    lines += [
        "",
        f"- answers compared: {found['compared']} ({found['states']}); wrong: {len(found['wrong'])} (target 0)",
        *[f"  - {one['kind']}: {one['fault']}; {one['asked']}" for one in found["wrong"][:10]],
        f"- peak of the tree {memory['peak']['tree']:,} MiB (target under {MOST_TREE_MIB:,.0f}); "
        f"after all have left server {rise:+.0%}, tree {rise_of_tree:+.0%} (target {MOST_RISE:+.0%})",
        f"- no answer in time: {len(found['late'])}; errors: {len(found['errors'])}; exceptions on pages: "
        f"{len(found['exceptions on pages'])}; faults in the log: {log['faults']} of {log['lines']} lines",
        f"- Solve had to be pressed for a live plan: {found['pressed Solve for a live plan']} times",
        f"- changes that the page took back by itself: {len(found['lost changes'])} (target 0)",
        *[f"  - {text}" for text in found["lost changes"][:5]],
        *[f"  - {text}" for text in (found["late"] + found["errors"] + found["exceptions on pages"])[:12]],
        *[f"  - log: {line[:160]}" for line in found["log"]["first"]],
        "- the slowest live plans:",
        *[f"  - {text}" for text in found["slowest live plans"]],
        "- sentences on the pages:",
        *[f"  - {text}" for text in found["alerts"][:25]],
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the trial and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--browsers", type=int, default=3, help="visitors among them with a real Chromium")
    parser.add_argument(
        "--come-down", type=float, default=COME_DOWN_S, help="seconds from the last visit to the measure"
    )
    parser.add_argument("--no-long-solves", dest="long_solves", action="store_false")
    parser.add_argument("--server-options", default="", help="options of placement-explorer")
    parser.add_argument("--judge", action="store_true", help=f"go on with the comparison of the last trial ({TRIAL})")
    options = parser.parse_args()
    REPORT.parent.mkdir(exist_ok=True)
    if options.judge:
        if not TRIAL.exists():
            parser.error(f"there is no trial to judge ({TRIAL}); run one without --judge first")
        found, record = pickle.loads(TRIAL.read_bytes())  # noqa: S301 -- written by this program
        found |= _judged(record)
    else:
        with server(REPORT.parent / "load_server.log", tuple(shlex.split(options.server_options))) as one:
            found = asyncio.run(trial(options, one))
    REPORT.write_text(json.dumps(found, indent=1))
    print(text_of(found))
    sys.exit(1 if found["wrong"] or found["lost changes"] or not found["alive"] else 0)


if __name__ == "__main__":
    main()
