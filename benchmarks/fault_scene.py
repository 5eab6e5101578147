"""A page with a long solve on a real server, its processes, and the line that tells what a fault did to them."""

import asyncio
import re
import time
from dataclasses import dataclass

from benchmarks.explorer_page import answer_of, seen_by
from benchmarks.http_door import Door, PageError
from benchmarks.server_process import Server, command_of, cpu_s, family_of, state_of
from benchmarks.streamlit_client import StreamlitClient
from benchmarks.visitors import upload_of

PATIENCE_S = 90.0
GRACE_S = 10.0
"""After that long nothing of a solve that has ended may run."""
LIMIT_S = 20
OVER_LIMIT_S = 15.0
"""How long after its limit a stopped solver is waited for."""
DP_GRAPH, LARGE_GRAPH = "10x4x40-0", "40x2x24-5"
IP_QUERY = "sample=bert_base_operator_inference&splits=convex&solver=ip"
"""Programs large enough for every limit of memory."""
SWEEP = f"{IP_QUERY}&over=accelerators&values=7:8&limit=40"
CLUSTER_SWEEP = f"{IP_QUERY}&over=accelerators&values=3:8&limit=8"
"""Six points, the first of which is soon there."""


@dataclass(frozen=True, slots=True)
class Case:
    """A solve that takes long: its address, the graph to upload first if any, and whose process does the work."""

    name: str
    query: str
    upload: str = ""
    worker: str = "explorer.jobs.worker"
    page: str = ""


CASES = (
    Case("DP", f"solver=dp&limit={LIMIT_S}", DP_GRAPH),
    Case("IP", f"{IP_QUERY}&accelerators=8&limit={LIMIT_S}"),
    Case("CP-SAT", f"sample=inception_v3_operator_inference&objective=latency&limit={LIMIT_S}", worker="cp_sat"),
    Case("sweep", SWEEP, page="sweep"),
)


@dataclass
class Outcome:
    """One line of the report."""

    fault: str
    before: str = ""
    after: str = ""
    says: str = ""
    is_alive: bool = False
    left: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        """Return it as a row."""
        cells = (self.fault, self.is_alive, self.says, self.before, self.after, f"{self.seconds:.0f}", self.left)
        return f"| {' | '.join('yes' if c is True else 'NO' if c is False else str(c) for c in cells)} |"


class Scene:
    """A page with a long solve, and the processes of its server."""

    def __init__(self, one: Server, case: Case) -> None:
        self.one, self.case = one, case
        self.page = StreamlitClient(Door(one.address))
        self.seen: set[int] = set()
        self.ready: set[int] = set()
        """Workers that were there before the solve: a later one only warms up, which is work, too."""

    async def begin(self) -> None:
        """Open the page and start the solve; wait until it works."""
        page, case = self.page, self.case
        if case.upload:
            await page.open("")
            await page.run(page.segment("source", "Upload"))
            content, digest = upload_of(case.upload)
            await page.run(await page.upload("upload", f"{case.upload}.json", content))
            await page.wait(lambda: digest[:12] in page.query, PATIENCE_S)
            if page.has_widget("button", "cancel"):
                await page.run(page.press("cancel"))
            await page.run(page.option("Solver", "Dynamic programming (DP)"), page.number("Limit (s)", LIMIT_S))
        else:
            await page.open(case.query, page=case.page)
        await asyncio.sleep(5.0)  # for a worker that warms up
        self.ready = set(self.workers())
        await page.run(page.press("start_sweep" if case.page else "solve"))
        await asyncio.wait_for(self._works(), PATIENCE_S)

    async def _works(self) -> None:
        while not (self.is_running() and self.workers() and (self.case.page or answer_of(seen_by(self.page)).value)):
            await asyncio.sleep(0.2)

    def is_running(self) -> bool:
        """Whether the page shows a solve or a sweep at work."""
        if self.case.page:
            return self.page.has_widget("button", "cancel_sweep")
        return any("<b>Solving</b>" in text for text in self.page.texts("html"))

    def processes(self) -> list[int]:
        """Return all processes that the server has started."""
        found = [pid for pid in family_of(self.one.pid) if pid != self.one.pid]
        self.seen |= set(found)
        return found

    def workers(self) -> list[int]:
        """Return the processes that do the work, the busiest first."""
        fitting = [pid for pid in self.processes() if self.case.worker in command_of(pid)]
        return sorted(fitting, key=lambda pid: -cpu_s([pid]))

    async def busiest(self) -> int:
        """Return the process of the case that works hardest now."""
        workers = [pid for pid in self.workers() if pid in self.ready] or self.workers()
        before = {pid: cpu_s([pid]) for pid in workers}
        await asyncio.sleep(1.0)
        used = {pid: cpu_s([pid]) - was for pid, was in before.items()}
        return max(used, key=lambda pid: used[pid])

    def plan(self) -> str:
        """Return value and bound as the page shows them; of a sweep how far it is."""
        if self.case.page:
            texts = [*self.page.texts("markdown"), *(p.text for p in self.page.tree.elements("progress"))]
            told = [text for text in texts if re.search(r"\d+ of \d+ points|\d+ points in", text)]
            return told[-1].replace("\\", "")[-70:] if told else "nothing"
        answer = answer_of(seen_by(self.page))
        return f"{answer.value or '-'}, bound {answer.bound or '-'}, {answer.state}"

    def says(self) -> str:
        """Return the sentences of the page that are about the solve."""
        strips = [re.sub(r"<[^>]*>", " ", h.split("<style>")[0]) for h in self.page.texts("html") if "solve-strip" in h]
        texts = [*self.page.texts("alert"), *(" ".join(strip.split()) for strip in strips), *self.page.exceptions]
        return " / ".join(text.replace("\\", "").replace("|", ";")[:220] for text in texts) or "nothing"

    async def is_over(self, patience_s: float) -> bool:
        """Wait until the page shows no solve at work; whether that came."""
        end_s = time.monotonic() + patience_s
        while time.monotonic() < end_s:
            if self.page.is_connected and self.page.is_still and not self.is_running():
                return True
            await asyncio.sleep(0.1)
        return False

    async def is_page_alive(self) -> bool:
        """Whether the page still answers, and says so without an exception."""
        try:
            await self.page.run(patience_s=20.0)
        except (PageError, TimeoutError):
            return False
        return self.one.is_alive() and not self.page.exceptions

    async def left(self) -> str:
        """Return what should not run any more, GRACE_S after the end."""
        self.processes()
        await asyncio.sleep(GRACE_S)
        family = set(family_of(self.one.pid))
        before = {pid: cpu_s([pid]) for pid in self.seen}
        await asyncio.sleep(1.0)
        found = []
        for pid in self.seen:
            state, command = state_of(pid), command_of(pid)[-60:]
            if not state:
                continue
            if pid not in family:
                found.append(f"orphan {pid} ({command})")
            elif state in "TtZ":
                found.append(f"{state} {pid} ({command})")
            elif cpu_s([pid]) - before[pid] > 0.3:
                found.append(f"still busy {pid} ({command})")
        return "; ".join(found) or "none"
