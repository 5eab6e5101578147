"""What the visitors of a server under load do, and the record of what each of them was shown.

A visitor changes an input every 4 to 8 s, counted from change to change; while no answer has come it waits, for at most
`PATIENCE_S`. Numbers are such that an address tells them apart from the last few asked.
"""

import asyncio
import csv
import io
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamlit.proto.WidgetStates_pb2 import WidgetState

from benchmarks.browser_page import seen_on, set_number, settled_in_browser
from benchmarks.explorer_page import Answer, Asked, answer_of, asked_of, seen_by, settled
from benchmarks.http_door import Door, PageError, query_string
from benchmarks.library_answers import generated
from benchmarks.streamlit_client import StreamlitClient
from solvers.formats.graph_json import graph_document, parse_graph
from solvers.model.split import Family
from solvers.parameters.question import FAMILY
from solvers.samples import read_sample, sample_info

PATIENCE_S = 60.0
LONG_PATIENCE_S = 240.0
BETWEEN_CHANGES_S = (4.0, 8.0)
LIVE_SAMPLES = (
    "gnmt_layer_inference",
    "resnet50_operator_inference",
    "inception_v3_operator_inference",
    "gpt2_xl_layer_inference",
    "unet_operator_training",
    "bert_base_operator_training",
)
FREE_SAMPLES = {
    "resnet50_operator_inference": (2, 3, 5),
    "gnmt_layer_inference": (2, 4),
    "unet_operator_inference": (2, 4),
}
UPLOADS = ("125x2x7-1", "125x2x7-2", "40x2x24-3", "40x2x24-4")
"""Generated graphs of 2,000 nodes, see `library_answers.generated`."""
FREE_LIMIT_S = 10
MEMORIES_GIB = (9, 12, 20, 24, 32)
LINKS_GB_S = (4, 6, 9, 20, 25, 40)


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer shown as final, the question it was for, and how long it took from the change, in seconds."""

    kind: str
    visitor: int
    asked: Asked
    answer: Answer
    seconds: float


@dataclass
class Record:
    """What all visitors saw."""

    shown: list[Shown] = field(default_factory=list)
    sweeps: list[tuple[str, str]] = field(default_factory=list)
    sweep_seconds: list[float] = field(default_factory=list)
    first_plans: list[float] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Changes that the page took back by itself: the box shows another number than the user typed."""
    errors: list[str] = field(default_factory=list)
    alerts: set[str] = field(default_factory=set)
    exceptions: set[str] = field(default_factory=set)
    pressed_for_live: int = 0
    uploads: dict[str, str] = field(default_factory=dict)

    def see(self, page: StreamlitClient) -> None:
        """Note what a page says."""
        self.alerts |= set(page.texts("alert"))
        self.exceptions |= set(page.exceptions)


class Visitor:
    """One session that changes inputs; `kind` names its answers in the report."""

    def __init__(self, number: int, address: str, record: Record, kind: str = "live plan") -> None:
        self.number, self.record, self.kind = number, record, kind
        self.page = StreamlitClient(Door(address))
        self._random = random.Random(number)  # noqa: S311 -- the same visitor every time
        self._recent: list[float] = []
        self._upload = ""

    async def visit(self, end_s: float, between_s: tuple[float, float] = BETWEEN_CHANGES_S) -> None:
        """Open the page and change inputs until `end_s` on the monotonic clock."""
        sample = self._random.choice(LIVE_SAMPLES)
        await self._enter(lambda: self.page.open(query_string({"sample": sample})))
        while time.monotonic() < end_s:
            began_s = time.monotonic()
            await self._enter(self.change)
            pause_s = self._random.uniform(*between_s) - (time.monotonic() - began_s)
            await asyncio.sleep(max(0.5, pause_s))

    async def change(self) -> None:
        """Change one input and take note of the answer."""
        what = self._random.choices(("accelerators", "memory", "bandwidth", "sample"), (5, 2, 2, 1))[0]
        await self.change_input(what)

    async def change_input(self, what: str) -> None:
        """Change the input of this name to a value that was not there lately."""
        page = self.page
        if what == "bandwidth" and not page.has_widget("number_input", "Link (GB/s)"):
            what = "accelerators"
        if what == "sample":
            name = self._random.choice([n for n in LIVE_SAMPLES if f"sample={n}" not in page.query])
            state, part = page.option("sample", sample_info(name).title), ("sample", name)
        elif what == "memory":
            state, part = self._number("Memory (GiB)", what, MEMORIES_GIB)
        elif what == "bandwidth":
            state, part = self._number("Link (GB/s)", what, LINKS_GB_S)
        else:
            state, part = self._number("Accelerators", what, range(1, 11))
        await self._ask(state, part)

    async def _ask(self, state: WidgetState, part: tuple[str, str]) -> None:
        before, sent_s = self.page.runs_finished, time.monotonic()
        await self.page.send(state)
        await self.take_answer(part, before, sent_s, self.kind, state=state)

    def _number(self, label: str, part: str, values: Sequence[int]) -> tuple[WidgetState, tuple[str, str]]:
        own = self.page.widget("number_input", label)
        free = [v for v in values if v not in self._recent and v != own.default]
        value = self._random.choice(free)
        self._recent = [*self._recent[-2:], value]
        return self.page.number(label, value), (part, str(value))

    async def take_answer(
        self,
        part: tuple[str, str],
        before: int,
        sent_s: float,
        kind: str,
        patience_s: float = PATIENCE_S,
        state: WidgetState | None = None,
    ) -> Answer | None:
        """Wait for the answer to an address with this part and note it; None when none came in time."""
        try:
            answer, query = await settled(self.page, lambda parts: parts.get(part[0]) == part[1], patience_s, before)
            if answer.state == "press" and kind != "free split":
                self.record.pressed_for_live += 1
                before = self.page.runs_finished
                await self.page.send(self.page.press("solve"))
                await self.page.wait(lambda: self.page.runs_finished > before, patience_s)
                answer, query = await settled(self.page, lambda _: True, patience_s, before)
        except TimeoutError:
            answer = answer_of(seen_by(self.page))
            if self._is_lost(state, part):
                return None
            late = f"visitor {self.number}, {kind}: {part[0]}={part[1]} has no answer after {patience_s:.0f} s"
            shows = f"the page shows {answer.value or 'nothing'} as {answer.state} for {self.page.query}"
            self.record.late.append(f"{late}; {shows}")
            self.record.see(self.page)
            return None
        if self._is_lost(state, part):
            return None
        seconds = (answer.came_s if answer.state == "final" else time.monotonic()) - sent_s
        asked = asked_of(query, self.record.uploads)
        self.record.shown.append(Shown(kind, self.number, asked, answer, seconds))
        self.record.see(self.page)
        return answer

    def _is_lost(self, state: WidgetState | None, part: tuple[str, str]) -> bool:
        if state is None or self.page.holds(state):
            return False
        self.record.lost.append(f"visitor {self.number}: {part[0]}={part[1]} was taken back; address {self.page.query}")
        return True

    async def _enter(self, do: Callable[[], Awaitable[None]]) -> None:
        """Do something; note where it fails, and load the page again as a user would."""
        try:
            await do()
        except (PageError, TimeoutError, OSError) as error:
            self.record.errors.append(f"visitor {self.number}, {self.kind}: {type(error).__name__}: {error}"[:300])
            await asyncio.sleep(2.0)
            if not self.page.is_connected:
                try:
                    await self.page.open(self.page.query)
                except (PageError, TimeoutError, OSError) as again:
                    self.record.errors.append(f"visitor {self.number} could not come back: {again}"[:200])
        self.record.see(self.page)

    async def leave(self) -> None:
        """Close the tab."""
        await self.page.close()


class FreeSolver(Visitor):
    """Solves a free split of 10 s now and then, and changes inputs in between."""

    async def change(self) -> None:
        """Change one input, or solve a free split."""
        if self._random.random() > 0.3:
            await super().change()
            return
        page = self.page
        name = self._random.choice(list(FREE_SAMPLES))
        if f"sample={name}" not in page.query:
            await page.run(page.option("sample", sample_info(name).title))
        own = read_sample(name)[1].num_accelerators
        count = self._random.choice([k for k in FREE_SAMPLES[name] if k != own])
        await page.run(page.number("Accelerators", count))
        await page.run(page.option("Split type", FAMILY.names[Family.FREE]), page.number("Limit (s)", FREE_LIMIT_S))
        await page.wait(lambda: f"limit={FREE_LIMIT_S}" in page.query and "splits=free" in page.query, PATIENCE_S)
        before, sent_s = page.runs_finished, time.monotonic()
        await page.send(page.press("solve"))
        plan = asyncio.create_task(self._first_plan(before, sent_s))
        # The run that hears of the button may still show the plan of before: the answer is that of a later one.
        await page.wait(lambda: page.runs_finished > before, LONG_PATIENCE_S)
        await self.take_answer(
            ("splits", "free"), page.runs_finished - 1, sent_s, "free split", patience_s=LONG_PATIENCE_S
        )
        plan.cancel()
        await page.run(page.option("Split type", FAMILY.names[Family.CHAIN]))

    async def _first_plan(self, before: int, sent_s: float) -> None:
        def look() -> bool:
            return self.page.runs_finished > before and answer_of(seen_by(self.page)).state in ("so-far", "final")

        await self.page.wait(look, LONG_PATIENCE_S)
        self.record.first_plans.append(time.monotonic() - sent_s)


class Uploader(Visitor):
    """Uploads graphs of 2,000 nodes now and then, and changes the devices they run on."""

    async def change(self) -> None:
        """Change the devices, or upload another graph."""
        if self._upload and self._random.random() > 0.25:
            await self.change_input("accelerators")
            return
        page = self.page
        name = self._random.choice([n for n in UPLOADS if n != self._upload])
        if not page.has_widget("file_uploader", "upload"):
            await page.run(page.segment("source", "Upload"))
        content, digest = upload_of(name)
        self.record.uploads[digest[:12]] = self._upload = name
        before, sent_s = page.runs_finished, time.monotonic()
        await page.send(await page.upload("upload", f"{name}.json", content))
        await self.take_answer(("graph", digest[:12]), before, sent_s, "upload of 2,000 nodes")


class Sweeper(Visitor):
    """Sweeps a sample over accelerators now and then, and takes the table home."""

    async def visit(self, end_s: float, between_s: tuple[float, float] = (15.0, 30.0)) -> None:
        """Open the page and sweep until `end_s`, every 15 to 30 s."""
        name = self._random.choice(("gnmt_layer_inference", "resnet50_operator_inference"))
        query = query_string({"sample": name, "over": "accelerators", "values": "1:4"})
        await self._enter(lambda: self.page.open(query, page="sweep"))
        while time.monotonic() < end_s:
            await self._enter(lambda: self._sweep(name))
            await asyncio.sleep(self._random.uniform(*between_s))

    async def _sweep(self, name: str) -> None:
        page, most = self.page, self._random.randrange(4, 9)
        await page.run(page.text("Values of Accelerators", f"1:{most}"))
        sent_s = time.monotonic()
        before = page.runs_finished
        await page.send(page.press("start_sweep"))

        def is_over() -> bool:
            told = any(f" {most} points in" in text.replace("\\", "") for text in page.texts("markdown"))
            return page.runs_finished > before and told and page.has_widget("download_button", "sweep_csv")

        await page.wait(is_over, LONG_PATIENCE_S)
        self.record.sweep_seconds.append(time.monotonic() - sent_s)
        self.record.sweeps.append((name, (await self._table()).decode()))

    async def _table(self) -> bytes:
        """Return the CSV; its file is gone if the page runs between click and download, so click again then."""
        for _ in range(2):
            try:
                return await self.page.download("sweep_csv")
            except PageError:
                await asyncio.sleep(1.0)
        return await self.page.download("sweep_csv")


class BrowserVisitor:
    """A visitor with a real Chromium who changes the number of accelerators."""

    def __init__(self, number: int, browser: object, address: str, record: Record) -> None:
        self.number, self.record, self._browser, self._address = number, record, browser, address
        self._random = random.Random(number)  # noqa: S311

    async def visit(self, end_s: float) -> None:
        """Open the page and change inputs until `end_s`."""
        context = await self._browser.new_context(viewport={"width": 1280, "height": 800})  # type: ignore[attr-defined]
        page = await context.new_page()
        page.on("pageerror", lambda error: self.record.errors.append(f"browser {self.number}: {error}"[:300]))
        sample, recent = self._random.choice(LIVE_SAMPLES), [read_sample(LIVE_SAMPLES[0])[1].num_accelerators]
        await page.goto(f"{self._address}/?sample={sample}", timeout=1000 * PATIENCE_S)
        await page.get_by_role("spinbutton", name="Accelerators", exact=True).wait_for(timeout=1000 * PATIENCE_S)
        own = read_sample(sample)[1].num_accelerators
        while time.monotonic() < end_s:
            count = self._random.choice([k for k in range(1, 11) if k not in recent[-3:] and k != own])
            recent.append(count)
            sent_s = time.monotonic()
            await self._change(page, count, sent_s)
            await asyncio.sleep(max(0.5, self._random.uniform(*BETWEEN_CHANGES_S) - (time.monotonic() - sent_s)))
        await context.close()

    async def _change(self, page: Any, count: int, sent_s: float) -> None:
        try:
            await set_number(page, "Accelerators", count)
            answer, query = await settled_in_browser(page, "accelerators", str(count), PATIENCE_S)
        except TimeoutError:
            answer, (seen, query, _) = None, await seen_on(page)
        box = await page.get_by_role("spinbutton", name="Accelerators", exact=True).input_value()
        if box != str(count):
            self.record.lost.append(f"browser {self.number}: {count} typed, the box shows {box}; {query}")
        elif answer is None:
            self.record.late.append(
                f"browser {self.number}: accelerators={count} has no answer, {query}, {seen.alerts}"
            )
        else:
            asked, seconds = asked_of(query, self.record.uploads), answer.came_s - sent_s
            self.record.shown.append(Shown("live plan, Chromium", self.number, asked, answer, seconds))


_made: dict[str, tuple[bytes, str]] = {}


def upload_of(name: str) -> tuple[bytes, str]:
    """Return the file of a generated graph and its digest as the server will know it."""
    if name not in _made:
        graph, deployment = generated(name)
        content = json.dumps(graph_document(graph, deployment)).encode()
        _made[name] = content, parse_graph(content, name=name)[0].digest
    return _made[name]


def rows_of(table: str) -> list[dict[str, str]]:
    """Return the rows of a sweep's CSV."""
    return list(csv.DictReader(io.StringIO(table)))
