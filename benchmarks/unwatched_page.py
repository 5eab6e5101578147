"""A page of Chromium on which nobody looks: spoken to by DevTools' protocol, with nothing of it switched on.

Playwright has Chromium note every request and message of a page, which stays in the page's own memory. Here scripts are
evaluated and keys are pressed, no more, so that what is measured is what a user's page takes.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import websockets

from benchmarks.browser_page import SEEN, find_chromium
from benchmarks.server_process import command_of, family_of, private_bytes
from tests.support.fixtures import CHROMIUM_FLAGS
from tests.support.serving import free_port

LOOK_S = 0.05
BOX = "[...document.querySelectorAll('input[type=number]')].find(e => e.getAttribute('aria-label') === '{label}')"


class UnwatchedPage:
    """One page; all by the protocol of DevTools (https://chromedevtools.github.io/devtools-protocol)."""

    def __init__(self, socket: websockets.ClientConnection, browser_pid: int, patience_s: float) -> None:
        self._socket, self._browser_pid, self._patience_s, self._count = socket, browser_pid, patience_s, 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and return its result."""
        self._count += 1
        await self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            message = json.loads(await self._socket.recv())
            if message.get("id") == self._count:
                result: dict[str, Any] = message.get("result", {})
                return result

    async def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; None where it fails."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def wait_for(self, expression: str) -> None:
        """Wait until an expression holds; TimeoutError if it does not in time."""
        ends_s = time.monotonic() + self._patience_s
        while not await self.value(expression):
            if time.monotonic() > ends_s:
                raise TimeoutError(f"in vain for {expression[:100]}; the page says: {await self._text()}")
            await asyncio.sleep(LOOK_S)

    async def set_number(self, label: str, value: int) -> None:
        """Type a number into a box, press Enter and wait until its answer is drawn."""
        box = BOX.format(label=label)
        await self.wait_for(f"!!({box})")
        await self.value(f"(() => {{ const box = {box}; box.focus(); box.select(); }})()")
        await self.call("Input.insertText", text=str(value))
        enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **enter)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **enter)
        await self.wait_for(
            f"(() => {{ const s = ({SEEN})(); return s.isStill && s.metrics.length"
            f" && s.query.slice(1).split('&').includes('{label.lower()}={value}')"
            " && !s.metrics.some(m => m[2].includes('(running)')) && !s.html.some(h => h.includes('<b>Solving</b>')"
            ' || /data-state="(so-far|stale)"/.test(h)); })()'
        )

    def renderer_bytes(self) -> int:
        """Return the private memory of the page's process."""
        return max(private_bytes(pid) for pid in family_of(self._browser_pid) if "--type=renderer" in command_of(pid))

    async def _text(self) -> str:
        return " ".join(str(await self.value("document.body.innerText")).split())[:200]


@asynccontextmanager
async def unwatched_page(address: str, patience_s: float) -> AsyncIterator[UnwatchedPage]:
    """Start a headless Chromium on an address."""
    port = free_port()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = [f"--remote-debugging-port={port}", f"--user-data-dir={folder}", "--window-size=1280,800"]
        command = [find_chromium(), "--headless=new", *CHROMIUM_FLAGS, *options, address]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 -- our own options
        try:
            socket_address = await _address_of_page(port, patience_s)
            async with websockets.connect(socket_address, max_size=None) as socket:
                yield UnwatchedPage(socket, browser.pid, patience_s)
        finally:
            for pid in family_of(browser.pid)[::-1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            browser.wait()


async def _address_of_page(port: int, patience_s: float) -> str:
    ends_s = time.monotonic() + patience_s
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                pages = [one for one in json.load(answer) if one["type"] == "page"]
            return str(pages[0]["webSocketDebuggerUrl"])
        except (OSError, IndexError):
            if time.monotonic() > ends_s:
                raise
            await asyncio.sleep(LOOK_S)
