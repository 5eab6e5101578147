"""Faults between page and server, seen in a real Chromium: the server is killed and comes back; the page is offline."""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

from benchmarks.browser_page import chromium, seen_on, settled_in_browser
from benchmarks.explorer_page import answer_of
from benchmarks.fault_scene import PATIENCE_S, Outcome
from benchmarks.server_process import Server, family_of, server
from explorer.state.keeper import SHELVE_SECONDS
from tests.support.serving import free_port

SLOW = "sample=mixtral_8x7b_layer_inference&splits=free&limit=60"
LIVE = "sample=gnmt_layer_inference&accelerators=4"
OFFLINE_S = 20.0
ANSWER_S = 45.0
STATE = "document.querySelector('[data-testid=stApp]').dataset.testConnectionState"


async def killed_server(log: Path) -> Outcome:
    """Kill the server while pages are open, one of them with a solve, and start it again on the same port."""
    outcome = Outcome("server killed, started again 10 s later")
    with server(log) as one:
        async with chromium() as browser:
            live, solving = await _opened(browser, one, LIVE), await _opened(browser, one, SLOW)
            await _solve(solving)
            await solving.wait_for_timeout(1000 * (SHELVE_SECONDS + 1))  # what is younger is lost, as is documented
            outcome.before = f"live: {await _told(live)}; solving: {await _told(solving)}"
            children = [pid for pid in family_of(one.pid) if pid != one.pid]
            one.kill()
            await live.wait_for_timeout(3000)
            said = await _words(live)
            gone = [pid for pid in children if Path(f"/proc/{pid}").exists()]
            await live.wait_for_timeout(7000)
            one.start_again()
            began_s = time.monotonic()
            await live.wait_for_function(f"() => {STATE} === 'CONNECTED'", timeout=1000 * PATIENCE_S)
            outcome.seconds = time.monotonic() - began_s
            await live.wait_for_timeout(8000)
            outcome.says = f"while away: {said}; then live: {await _words(live)}; solving: {await _words(solving)}"
            outcome.after = f"live: {await _told(live)}; solving: {await _told(solving)}"
            box = live.get_by_role("spinbutton", name="Accelerators", exact=True)
            await box.fill("3")
            await box.press("Enter")
            try:
                answer, _ = await settled_in_browser(live, "accelerators", "3", ANSWER_S)
                outcome.is_alive = answer.state == "final"
            except TimeoutError:
                outcome.says += f"; typed 3 and got no answer: box {await box.input_value()}, {live.url}, "
                outcome.says += f"{await live.evaluate(STATE)}: {await _words(live)}"
            outcome.left = f"{len(gone)} of {len(children)} solvers 3 s after the kill"
    return outcome


async def offline_page(log: Path) -> Outcome:
    """Take the network from a page for 20 s while it solves.

    Chromium's own switch leaves open websockets alone, so the page comes through a relay that is cut, too.
    """
    outcome = Outcome(f"page offline for {OFFLINE_S:.0f} s during a solve")
    with server(log) as one:
        async with Relay(one.port) as relay, chromium() as browser:
            page = await _opened(browser, relay, SLOW)
            await _solve(page)
            outcome.before = await _told(page)
            relay.cut()
            await page.context.set_offline(True)
            began_s = time.monotonic()
            await page.wait_for_timeout(1000 * OFFLINE_S / 2)
            said, state = await _words(page), await page.evaluate(STATE)
            await page.wait_for_timeout(1000 * OFFLINE_S / 2)
            relay.is_cut = False
            await page.context.set_offline(False)
            await page.wait_for_function(f"() => {STATE} === 'CONNECTED'", timeout=1000 * PATIENCE_S)
            await page.wait_for_timeout(3000)
            back = await _told(page)
            await page.get_by_role("button", name="Hide", exact=True).wait_for(timeout=1000 * PATIENCE_S)
            outcome.seconds = time.monotonic() - began_s
            outcome.says = f"offline ({state}): {said}; in the end: {await _words(page)}"
            outcome.after = f"back: {back}; in the end: {await _told(page)}"
            outcome.is_alive, outcome.left = one.is_alive(), "not looked for"
    return outcome


class Relay:
    """A port that passes connections on to a server, until it is cut."""

    def __init__(self, port: int) -> None:
        self._port, self.is_cut = port, False
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> "Relay":
        self._own = free_port()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._own)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    @property
    def address(self) -> str:
        """Return the address to use in the server's place."""
        return f"http://localhost:{self._own}"

    def cut(self) -> None:
        """End all connections, and those to come at once, until `is_cut` is false again."""
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        there, here = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, here}
        await asyncio.gather(self._pass_on(reader, here), self._pass_on(there, writer), return_exceptions=True)
        self._writers -= {writer, here}

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


async def _opened(browser: Any, one: Server | Relay, query: str) -> Any:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    page = await context.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    await page.goto(f"{one.address}/?{query}")
    await page.locator(".st-key-solve").get_by_role("button").wait_for()
    await page.wait_for_timeout(2000)
    return page


async def _solve(page: Any) -> None:
    await page.locator(".st-key-solve").get_by_role("button").click()
    await page.get_by_text("Best plan so far").wait_for()
    await page.get_by_text("(running)").first.wait_for()


async def _told(page: Any) -> str:
    answer = answer_of((await seen_on(page))[0])
    return f"{answer.value or '-'}, bound {answer.bound or '-'}, {answer.state}"


async def _words(page: Any) -> str:
    """Return alerts, dialogs and the strip of a solve, as they stand on the page."""
    found: list[str] = await page.evaluate(
        "() => [...document.querySelectorAll('[data-testid=stAlert], [role=dialog], .solve-strip,"
        " [data-testid=stConnectionStatus], [data-testid=stStatusWidget]')].map(e => e.innerText)"
    )
    return " / ".join(" ".join(text.split()).replace("|", ";") for text in found if text.strip())[:400] or "nothing"
