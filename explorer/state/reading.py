"""Reading an uploaded file: a small one at once, a large one in a process of its own that can be watched and cancelled.

A model of another program's is imported by such a process always, however small its file is. Parsing 60,000 nodes
takes seconds in which every other session of the server would be slow, and several times the memory that the graph
takes in the end. The process that does it is limited in memory and time (`explorer.state.read_worker`); the graph comes
back in parts of a few milliseconds each. Nothing here calls Streamlit.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from explorer.jobs.worker import deployment_from_document
from explorer.server.byte_cache import remembered
from explorer.server.limits import limits
from explorer.server.packed_graph import IncompleteError, unpacked_graph
from explorer.server.sizes import graph_bytes
from explorer.state.project import Project, parse_project, project_from
from explorer.state.project_file import is_project
from explorer.state.read_worker import too_large
from explorer.state.records import ImportFacts, LoadedGraph, ModelSource
from solvers.formats.graph_json import parse_graph
from solvers.importers.imported import Totals
from solvers.model.errors import GraphError, PlacementError
from solvers.processes.child import Cause, Child
from solvers.quantities import count

LARGE_BYTES = 2**20
"""Files beyond are read by a process of their own; a file of this size holds some 3,000 nodes and takes 0.1 s."""
MEMORY_BYTES = 2 * 2**30
SECONDS = 90
"""What the process may take: the largest upload takes a fifth of this memory and a tenth of this time."""
AT_ONCE = 2
"""Files that are read at the same time; others wait."""
NICENESS = 5
"""How much lower its priority is than the server's."""
GRACE_SECONDS = 10.0
"""A reading ends when its session has been away for so long."""

_turns = threading.BoundedSemaphore(AT_ONCE)

Outcome = LoadedGraph | Project


@dataclass(frozen=True, slots=True)
class Request:
    """How a model is imported: names for people, and what is asked of it as an address writes it."""

    key: str
    origin: str
    title: str
    values: tuple[tuple[str, str], ...]


class Reading:
    """A file that is read, or was: `outcome` is what it holds, `error` one sentence that says why it was not read."""

    def __init__(self, file_id: str, name: str, request: Request | None = None) -> None:
        self.file_id = file_id
        self.name = name
        self.request = request
        self.outcome: Outcome | None = None
        self.error = ""
        self.num_made = self.num_nodes = self.num_edges = 0
        self.is_waiting = False
        self.is_next = False
        """Whether the page goes on with the outcome when it runs next."""
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._why = ""

    @property
    def is_over(self) -> bool:
        """Whether there is an outcome or an error."""
        return self._over.is_set()

    @property
    def share(self) -> float:
        """How much of the nodes and edges is made, 0 to 1; 0 while it is not known how many there are."""
        total = self.num_nodes + self.num_edges
        return min(1.0, self.num_made / total) if total else 0.0

    @property
    def state(self) -> str:
        """One phrase on how far it is."""
        if self.is_waiting:
            return "Waiting: other files are being read"
        if not self.num_nodes:
            return "Reading the file"
        if self.num_made >= self.num_nodes + self.num_edges:
            return f"Checking {count(self.num_nodes)} nodes and {count(self.num_edges)} edges"
        if self.num_made < self.num_nodes:
            return f"{count(self.num_made)} of {count(self.num_nodes)} nodes"
        return f"{count(self.num_made - self.num_nodes)} of {count(self.num_edges)} edges"

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is over, or for a time; return whether it is."""
        return self._over.wait(timeout_s)

    def cancel(self) -> None:
        """End it now; does nothing when it is over."""
        self._end("The reading was cancelled; choose the file again to read it after all.")

    def _end(self, why: str, cause: Cause = Cause.DROPPED) -> None:
        with self._lock:
            self._why = self._why or why
            if self._child is not None:
                self._child.kill(cause)

    def _finish(self, outcome: Outcome | None, error: str = "") -> None:
        self.outcome, self.error = outcome, error
        self._over.set()


def read(
    text: bytes, file_id: str, name: str, session: str = "", is_open: Callable[[str], bool] = lambda _: True
) -> Reading:
    """Begin to read a file for a session; a small one, or one that is remembered, is over at once."""
    reading = Reading(file_id, name)
    if len(text) <= LARGE_BYTES:
        try:
            reading._finish(_remembered(text, name, None, lambda: _read_here(text, name)))
        except PlacementError as error:
            reading._finish(None, str(error))
        return reading
    _begin(reading, text, session, is_open)
    return reading


def _begin(reading: Reading, text: bytes, session: str, is_open: Callable[[str], bool]) -> None:
    """Read a file by a process of its own, which ends when its session has left."""

    def work() -> None:
        try:
            outcome = _remembered(text, reading.name, reading.request, lambda: _read_elsewhere(reading, text))
            reading._finish(outcome)
        except PlacementError as error:
            reading._finish(None, str(error))
        except Exception as error:  # the page must not wait for ever
            reading._finish(None, f"Reading it failed ({type(error).__name__}); this is a fault of the program.")
            raise

    def watch() -> None:
        away_s = 0.0
        while not reading.wait(0.5):
            away_s = 0.0 if is_open(session) else away_s + 0.5
            if away_s >= GRACE_SECONDS:
                reading._end("Its page was closed.")

    threading.Thread(target=work, name="reading", daemon=True).start()
    threading.Thread(target=watch, name="reading watch", daemon=True).start()


def read_model(
    source: ModelSource,
    values: tuple[tuple[str, str], ...],
    session: str = "",
    is_open: Callable[[str], bool] = lambda _: True,
) -> Reading:
    """Begin to import a model for a session; one that is remembered is over at once."""
    request = Request(source.key, source.origin, source.title, values)
    reading = Reading(source.key, source.origin, request)
    _begin(reading, source.content, session, is_open)
    return reading


def _remembered(text: bytes, name: str, request: Request | None, make: Callable[[], Outcome]) -> Outcome:
    key = (hashlib.sha256(text).digest(), name, request)
    return remembered("file", key, make, lambda made: graph_bytes(_loaded(made).graph))


def _loaded(outcome: Outcome) -> LoadedGraph:
    return outcome.loaded if isinstance(outcome, Project) else outcome


def _read_here(text: bytes, name: str) -> Outcome:
    most = limits()

    def check(_: int, num_nodes: int, num_edges: int) -> None:
        if problem := too_large(num_nodes, num_edges, most.max_nodes, most.max_edges):
            raise GraphError(problem)

    if is_project(text):
        return parse_project(text, check)
    notes: list[str] = []
    graph, deployment = parse_graph(text, name.removesuffix(".json"), check, notes.append)
    return LoadedGraph(graph, deployment, name, notes=tuple(notes))


def _read_elsewhere(reading: Reading, text: bytes) -> Outcome:
    reading.is_waiting = True
    while not _turns.acquire(timeout=0.1):
        if reading._why:
            raise GraphError(reading._why)
    reading.is_waiting = False
    try:
        return _read_by_process(reading, text)
    finally:
        _turns.release()


def _read_by_process(reading: Reading, text: bytes) -> Outcome:
    most = limits()
    numbers = map(str, (MEMORY_BYTES, SECONDS, most.max_nodes, most.max_edges))
    with reading._lock:
        if reading._why:
            raise GraphError(reading._why)
        request = [] if reading.request is None else [json.dumps(asdict(reading.request))]
        program = ("explorer.state.read_worker", *numbers, _writable(reading.name), *request)
        child = reading._child = Child(*program, niceness=NICENESS)
    late = f"It took longer than {SECONDS} s to read. {REMEDY}"
    timer = threading.Timer(SECONDS, reading._end, [late, Cause.SILENCE])
    timer.daemon = True
    timer.start()
    child.send(lambda: text)
    try:
        outcome = _outcome(reading, _Answer(child, reading))
    finally:
        timer.cancel()
        child.kill()
        child.end()
    if outcome is None:
        raise GraphError(reading._why or f"The process that read it was ended; most likely it took too much. {REMEDY}")
    return outcome


REMEDY = "Fold each layer of the network into one node, or try again when the machine is less busy."


class _Answer:
    """What the process sends; progress goes to the reading, the parts of the graph are passed on one by one."""

    def __init__(self, child: Child, reading: Reading) -> None:
        self._child = child
        self._reading = reading
        self.last: Any = None

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the graph; GraphError when the process says why there is none."""
        while self.last is None and (message := self._child.receive()) is not None:
            kind, content = message[:1], message[1:]
            if kind == b"g":
                yield content
                # Making records of one part takes some milliseconds; let others have their turn.
                time.sleep(0)
            elif kind == b"p":
                self._reading.num_made, self._reading.num_nodes, self._reading.num_edges = json.loads(content)
            elif kind == b"e":
                raise GraphError(content.decode())
            else:
                self.last = json.loads(content)


def _outcome(reading: Reading, answer: _Answer) -> Outcome | None:
    """Return what the process sends; None when it ends before the graph does."""
    parts = answer.parts()
    try:
        graph = unpacked_graph(parts)
    except IncompleteError:
        return None
    for _ in parts:
        pass
    if answer.last is None:
        return None
    deployment = deployment_from_document(answer.last["deployment"])
    if answer.last["project"] is not None:
        return project_from(answer.last["project"], graph, deployment)
    if reading.request is not None:
        totals, assumptions = Totals(**answer.last["totals"]), tuple(answer.last["assumptions"])
        facts = ImportFacts(reading.request.key, reading.request.values, totals, assumptions)
        return LoadedGraph(graph, deployment, graph.name, facts)
    return LoadedGraph(graph, deployment, reading.name, notes=tuple(answer.last["notes"]))


def _writable(name: str) -> str:
    """Return a file's name as an argument may be: without null characters or halves of surrogate pairs."""
    return name.replace("\0", " ").encode("utf-8", "replace").decode()
