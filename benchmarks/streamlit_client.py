"""A visitor without a browser: speaks the protocol of Streamlit 1.67 over a websocket.

It does what the browser does and nothing that costs more: it keeps the page's tree, the values of its widgets and the
large elements that the server need not send twice, runs fragments at their intervals, and uploads files by HTTP with
the token against forged requests. Nothing here knows the explorer.

    async with StreamlitClient(Door("http://localhost:8501")) as page:
        await page.open("sample=teaching_chain")
        await page.run(page.number("Accelerators", 4))
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Self
from uuid import uuid4

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import FileURLs, UploadedFileInfo
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

from benchmarks.element_tree import ElementTree
from benchmarks.http_door import USUAL_PATIENCE_S, XSRF_COOKIE, Door, PageError
from benchmarks.widget_values import VALUE_FIELDS, default_value, given_value

SPARE_RUNS = 20
"""For how many runs a message is kept after the server is no longer told that it is known."""


class StreamlitClient:
    """One visitor with one page."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.tree = ElementTree()
        self.query = ""
        self.session_id = ""
        self.runs_finished = 0
        """Full runs of the page that came to their end."""
        self.fragments_finished = 0
        """Runs of a part of the page that came to their end."""
        self.is_still = False
        """Whether no full run is under way: while one is, the page shows some of its elements and some of the last."""
        self.exceptions: list[str] = []
        """Exceptions shown on the page since it was opened, each once."""
        self.bytes_received = 0
        self._socket: websockets.ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._values: dict[str, WidgetState] = {}
        self._cached: dict[str, tuple[ForwardMsg, int]] = {}
        self._max_age = 2
        self._page_name = ""
        self._page_hash = ""
        self._full_run = ""
        self._news = asyncio.Event()
        self._file_urls: dict[str, asyncio.Future[FileURLs]] = {}
        self._operations: dict[str, asyncio.Future[Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, query: str = "", page: str = "", patience_s: float = USUAL_PATIENCE_S) -> None:
        """Load the page as a browser does and wait for its first run to end."""
        self.query, self._page_name = query, page
        path = "/" + page
        await asyncio.to_thread(self.door.request, "GET", path + (f"?{self.door.query}" if self.door.query else ""))
        for part in ("health", "host-config"):  # the first sets the cookie against forged requests
            await asyncio.to_thread(self.door.request, "GET", f"/_stcore/{part}")
        await self.connect()
        await self.run(patience_s=patience_s)

    async def connect(self) -> None:
        """Open the websocket, as a new session or as the last one again."""
        tokens = [self.door.cookies.get(XSRF_COOKIE, "PLACEHOLDER_AUTH_TOKEN"), *filter(None, [self.session_id])]
        self._socket = await websockets.connect(
            f"ws://{self.door.host}/_stcore/stream",
            origin=f"http://{self.door.host}",  # type: ignore[arg-type]
            subprotocols=["streamlit", *tokens],  # type: ignore[list-item]
            additional_headers=self.door.cookie_header(),
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=self.door.patience_s,
        )
        self._reader = asyncio.create_task(self._read(self._socket))

    async def close(self) -> None:
        """Leave, as by closing the tab."""
        self._cancel_timers()
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)
        self.door.close()

    @property
    def is_connected(self) -> bool:
        """Whether the server still listens."""
        return self._reader is not None and not self._reader.done()

    # What is on the page.

    def widget(self, kind: str, name: str) -> Any:
        """Return the widget of a kind with this label or key; PageError when there is none."""
        for element in self.tree.elements(kind):
            if element.label == name or element.id.endswith(f"-{name}"):
                return element
        known = [element.label or element.id[-40:] for element in self.tree.elements(kind)]
        raise PageError(f"There is no {kind} {name!r}, only {known}; {self.texts('alert')[:2]}")

    def has_widget(self, kind: str, name: str) -> bool:
        """Whether there is a widget of a kind with this label or key."""
        return any(e.label == name or e.id.endswith(f"-{name}") for e in self.tree.elements(kind))

    def holds(self, state: WidgetState) -> bool:
        """Whether a widget still has the value that was given to it: a server may take it back."""
        return self._values.get(state.id) == state

    def texts(self, kind: str) -> list[str]:
        """Return the texts of all alerts, markdown or html elements."""
        return [element.body for element in self.tree.elements(kind)]

    # What a user does.

    def number(self, name: str, value: float) -> WidgetState:
        """Return a number box with another value."""
        return WidgetState(id=self.widget("number_input", name).id, double_value=value)

    def option(self, name: str, text: str) -> WidgetState:
        """Return a select box with another option chosen; PageError when it has none of that name."""
        box = self.widget("selectbox", name)
        if text not in box.options:
            raise PageError(f"{name} has no option {text!r}, only {list(box.options)}")
        return WidgetState(id=box.id, string_value=text)

    def text(self, name: str, value: str) -> WidgetState:
        """Return a text box with another text."""
        return WidgetState(id=self.widget("text_input", name).id, string_value=value)

    def segment(self, name: str, option: str) -> WidgetState:
        """Return a segmented control with an option chosen."""
        state = WidgetState(id=self.widget("button_group", name).id)
        state.string_array_value.data.append(option)
        return state

    def press(self, name: str) -> WidgetState:
        """Return a pressed button; it is pressed for one run only."""
        return WidgetState(id=self.widget("button", name).id, trigger_value=True)

    async def upload(self, name: str, file_name: str, content: bytes) -> WidgetState:
        """Send a file to the server and return the box with it; what the box had before is deleted."""
        box = self.widget("file_uploader", name)
        answer: asyncio.Future[FileURLs] = asyncio.get_running_loop().create_future()
        request = uuid4().hex
        self._file_urls[request] = answer
        message = BackMsg()
        message.file_urls_request.request_id = request
        message.file_urls_request.file_names.append(file_name)
        message.file_urls_request.session_id = self.session_id
        await self._send(message)
        urls = await asyncio.wait_for(answer, self.door.patience_s)
        await asyncio.to_thread(self.door.put_file, urls.upload_url, file_name, content)
        if (before := self._values.get(box.id)) is not None:
            for old in before.file_uploader_state_value.uploaded_file_info:
                await asyncio.to_thread(self.door.delete_file, old.file_urls.delete_url, self.session_id)
        info = UploadedFileInfo(name=file_name, size=len(content), file_id=urls.file_id, file_urls=urls)
        state = WidgetState(id=box.id)
        state.file_uploader_state_value.uploaded_file_info.append(info)
        return state

    async def download(self, name: str) -> bytes:
        """Return the file behind a download button, which the server makes now."""
        button = self.widget("download_button", name)
        url = button.url
        if button.deferred_file_id:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            message, request_id = BackMsg(), uuid4().hex
            self._operations[request_id] = answer
            request = message.backend_operation_request
            request.request_id, request.session_id = request_id, self.session_id
            request.deferred_file.file_id = button.deferred_file_id
            await self._send(message)
            response = await asyncio.wait_for(answer, self.door.patience_s)
            if response.error_msg:
                raise PageError(f"{name} could not be downloaded: {response.error_msg}")
            url = response.deferred_file.url
        return await asyncio.to_thread(self.door.request, "GET", url)

    async def run(self, *changes: WidgetState, patience_s: float = USUAL_PATIENCE_S, waits: bool = True) -> None:
        """Send changes of widgets, and wait for a run of the page to end after that: it need not know of them yet."""
        before = self.runs_finished
        await self.send(*changes)
        if waits:
            await self.wait(lambda: self.runs_finished > before and self.is_still, patience_s)

    async def send(self, *changes: WidgetState, fragment_id: str = "", query: str | None = None) -> None:
        """Ask for a run of the page, or of a fragment, with these changes."""
        if query is not None:
            self.query = query
        triggers = [
            state for state in changes if state.trigger_value or state.WhichOneof("value") == "json_trigger_value"
        ]
        self._values |= {state.id: state for state in changes if state not in triggers}
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string = self.query
        rerun.page_script_hash, rerun.page_name = self._page_hash, "" if self._page_hash else self._page_name
        rerun.fragment_id, rerun.is_auto_rerun = fragment_id, bool(fragment_id)
        oldest = self.runs_finished - self._max_age
        rerun.cached_message_hashes.extend(key for key, (_, used) in self._cached.items() if used >= oldest)
        rerun.context_info.timezone, rerun.context_info.locale = "UTC", "en"
        rerun.context_info.url = f"http://{self.door.host}/{self._page_name}"
        rerun.context_info.color_scheme = "light"
        rerun.widget_states.widgets.extend([*self._states(), *triggers])
        await self._send(message)

    async def wait(self, condition: Callable[[], Any], patience_s: float = USUAL_PATIENCE_S) -> Any:
        """Wait until a condition holds after a message of the server, and return it; TimeoutError when it does not."""
        async with asyncio.timeout(patience_s):
            while not (value := condition()):
                if not self.is_connected:
                    raise PageError("The server has ended the connection.")
                self._news.clear()
                await self._news.wait()
        return value

    # How it is done.

    def _states(self) -> Iterable[WidgetState]:
        for kind in VALUE_FIELDS:
            for element in self.tree.elements(kind):
                state = self._values.get(element.id) or default_value(kind, element)
                if state is not None:
                    yield state
        for element in self.tree.elements("bidi_component"):
            if (state := self._values.get(element.id)) is not None:
                yield state

    async def _send(self, message: BackMsg) -> None:
        if self._socket is None:
            raise PageError("There is no connection.")
        try:
            await self._socket.send(message.SerializeToString())
        except websockets.ConnectionClosed as error:
            raise PageError(f"The server has ended the connection: {error}") from error

    async def _read(self, socket: websockets.ClientConnection) -> None:
        try:
            async for data in socket:
                self.bytes_received += len(data)
                self._take(ForwardMsg.FromString(data if isinstance(data, bytes) else data.encode()))
        except websockets.ConnectionClosed:
            pass
        finally:
            self._cancel_timers()
            self._news.set()

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "ref_hash":
            cached, _ = self._cached[message.ref_hash]
            self._cached[message.ref_hash] = cached, self.runs_finished
            self._take_delta(cached, tuple(message.metadata.delta_path))
        elif kind == "delta":
            if message.metadata.cacheable:
                self._cached[message.hash] = message, self.runs_finished
            self._take_delta(message, tuple(message.metadata.delta_path))
        elif kind == "new_session":
            self._begin_run(message)
        elif kind == "script_finished":
            self._end_run(message)
        elif kind == "navigation":
            self._page_hash = message.navigation.page_script_hash
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "auto_rerun":
            self._start_timer(message.auto_rerun.fragment_id, message.auto_rerun.interval)
        elif kind == "stop_auto_rerun":
            for fragment_id in message.stop_auto_rerun.fragment_ids:
                self._cancel_timer(fragment_id)
        elif kind == "file_urls_response":
            answer = self._file_urls.pop(message.file_urls_response.response_id, None)
            if answer is not None and not answer.done():
                answer.set_result(message.file_urls_response.file_urls[0])
        elif kind == "backend_operation_response":
            waiting = self._operations.pop(message.backend_operation_response.request_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message.backend_operation_response)
        elif kind == "session_event" and message.session_event.HasField("script_compilation_exception"):
            self.exceptions.append(message.session_event.script_compilation_exception.message)

    def _begin_run(self, message: ForwardMsg) -> None:
        new, run = message.new_session, message.metadata.run
        self.session_id = new.initialize.session_id or self.session_id
        if not run.fragment_ids:
            self.is_still, self._full_run = False, run.script_run_id
            self._cancel_timers()
            self._max_age = new.config.max_cached_message_age
            if self._page_hash and new.page_script_hash != self._page_hash:
                self.tree.clear()
            self._page_hash = new.page_script_hash
        self.tree.begin(run.script_run_id)

    def _end_run(self, message: ForwardMsg) -> None:
        run, status = message.metadata.run, message.script_finished
        if status != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            self.tree.end(run.script_run_id, tuple(run.fragment_ids))
        if status == ForwardMsg.FINISHED_SUCCESSFULLY and not run.fragment_ids:
            self.runs_finished += 1
            self.is_still = self.is_still or run.script_run_id == self._full_run
            # A run that was asked for before the last one ended may still name what was known then.
            oldest = self.runs_finished - self._max_age - SPARE_RUNS
            self._cached = {key: entry for key, entry in self._cached.items() if entry[1] >= oldest}
        self.fragments_finished += bool(run.fragment_ids)
        self._news.set()

    def _take_delta(self, message: ForwardMsg, path: tuple[int, ...]) -> None:
        delta, now_s = message.delta, time.monotonic()
        kind = delta.WhichOneof("type")
        if kind == "add_block":
            self.tree.set_block(path, delta.add_block, delta.fragment_id, now_s)
        elif kind == "new_element":
            element = delta.new_element
            self.tree.set_element(path, element, delta.fragment_id, now_s)
            if element.HasField("alert"):
                self._news.set()
            what = element.WhichOneof("type")
            if what in VALUE_FIELDS:
                widget = getattr(element, what)
                if (given := given_value(what, widget)) is not None:
                    self._values[widget.id] = given
            elif what == "exception" and (told := element.exception.message) not in self.exceptions:
                self.exceptions.append(told)

    def _start_timer(self, fragment_id: str, interval_s: float) -> None:
        if fragment_id in self._timers:
            return

        async def keep_asking() -> None:
            while True:
                await asyncio.sleep(interval_s)
                await self.send(fragment_id=fragment_id)

        self._timers[fragment_id] = asyncio.create_task(keep_asking())

    def _cancel_timer(self, fragment_id: str) -> None:
        if (timer := self._timers.pop(fragment_id, None)) is not None:
            timer.cancel()

    def _cancel_timers(self) -> None:
        for fragment_id in list(self._timers):
            self._cancel_timer(fragment_id)
