"""The solver process beside the app: it is sent questions and calls and sends answers, each a JSON object.

    python -m explorer.jobs.worker MODULE:SOLVE [MODULE:WARM_UP ...]

In:  {"run", "graph" (text of a file), "deployment", "objective", "method", "family", "time_limit_s", "gap", "start",
      "lower_bound_ms", "pins"} for a question, {"run", "call" ("module:function"), "argument" (packed)} for a call
Out: {"kind": "ready"} once warm, then per run any number of {"kind": "progress", "run", "progress"} and one of
     {"kind": "result", "run", "result", "reusable"} and {"kind": "failure", "run", "error", "traceback", "reusable"},
     or for a call {"kind": "value", "run", "value" (packed: whether it succeeded, and what it returned or raised),
     "reusable"}.

One question is solved at a time, on the main thread.
"""

import base64
import contextlib
import json
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from importlib import import_module
from typing import Any

from solvers.formats.graph_json import parse_graph, parse_split, split_document
from solvers.formats.result_json import result_document
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, DeviceClass, InFlight, Replication, TrainingMemory
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import Progress, SolveResult
from solvers.model.split import Family, Split
from solvers.problem.background import is_any_left
from solvers.problem.pins import Pins
from solvers.processes.child import Owner
from solvers.processes.outcome import outcome_of

SECONDS_BETWEEN_REPORTS = 0.1
"""Progress without a new plan is passed on at most this often; a new plan is passed on at once."""

MAX_REMEMBERED = 1_000_000
"""Characters of the text of a graph that a process remembers: about 4,000 nodes, which take it about 5 MB."""

Send = Callable[[dict[str, Any]], None]


def main(arguments: list[str]) -> None:
    """Answer as long as there is an owner; `arguments` name the solve function and any warm-up functions.

    A warm-up function that its module does not have is passed over.
    """
    owner = Owner()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # when memory runs out, Linux shall end this process rather than the app

    def send(message: dict[str, Any]) -> None:
        owner.send(json.dumps(message).encode())

    solve, *warm_ups = (_function(name) for name in arguments)
    for warm_up in warm_ups:
        if warm_up is not None:
            warm_up()
    if solve is None:
        raise LookupError(f"There is no function {arguments[0]}.")
    send({"kind": "ready"})
    while True:
        request = json.loads(owner.receive())
        if "call" in request:
            _answer_call(request, send)
        else:
            _answer(request, solve, send)


def packed(value: Any) -> str:
    """Return anything that can be pickled as text for the pipe between the app and its own processes."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """Return what `packed` wrote, at the other end of the same pipe."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 -- from our own process, or from the one that started us


def deployment_document(deployment: Deployment) -> dict[str, Any]:
    """Return a deployment as a JSON object."""
    return asdict(deployment)


def deployment_from_document(document: dict[str, Any]) -> Deployment:
    """Return the deployment that `deployment_document` wrote."""
    memory, replication = document["training_memory"], document["replication"]
    return Deployment(
        **{
            **document,
            "communication": Communication(document["communication"]),
            "training_memory": memory and TrainingMemory(**{**memory, "schedule": InFlight(memory["schedule"])}),
            "replication": replication and Replication(**replication),
            "classes": tuple(DeviceClass(**device_class) for device_class in document["classes"]),
        }
    )


def split_from_document(document: dict[str, Any] | None) -> Split | None:
    """Return the split that `solvers.formats.graph_json.split_document` wrote, None for None."""
    return None if document is None else parse_split(json.dumps(document))


def pins_document(pins: Pins) -> dict[str, Any]:
    """Return pins as a JSON object."""
    return {"devices": pins.devices, "together": pins.together}


def pins_from_document(document: dict[str, Any]) -> Pins:
    """Return the pins that `pins_document` wrote."""
    return Pins(tuple((v, d) for v, d in document["devices"]), tuple(map(tuple, document["together"])))


def progress_document(progress: Progress) -> dict[str, Any]:
    """Return a progress report as a JSON object; times in seconds and ms as in the report."""
    return {
        "seconds": progress.seconds,
        "incumbent_ms": progress.incumbent_ms,
        "lower_bound_ms": progress.lower_bound_ms,
        "phase": progress.phase,
        "split": progress.split and split_document(progress.split),
    }


def progress_from_document(document: dict[str, Any]) -> Progress:
    """Return the report that `progress_document` wrote."""
    return Progress(**{**document, "split": split_from_document(document["split"])})


class Reporter:
    """Passes progress on: a new plan at once, other reports at most every `SECONDS_BETWEEN_REPORTS`.

    A report that is held back is sent when its time comes, unless a newer one was sent meanwhile: the last word
    before a long silence is never lost.
    """

    def __init__(self, send: Callable[[Progress], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._next_s = -float("inf")
        self._held_back: Progress | None = None
        self._timer: threading.Timer | None = None
        self._closed = False

    def __call__(self, progress: Progress) -> None:
        """Send or hold back one report; after `close` do nothing."""
        with self._lock:
            wait_s = self._next_s - time.monotonic()
            if self._closed:
                return
            if progress.split is not None or wait_s <= 0:
                self._send_now(progress)
                return
            self._held_back = progress
            if self._timer is None:
                self._timer = threading.Timer(wait_s, self._send_held_back)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Drop what is held back: the answer follows."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()

    def _send_held_back(self) -> None:
        with self._lock:
            self._timer = None
            if self._held_back is not None and not self._closed:
                self._send_now(self._held_back)

    def _send_now(self, progress: Progress) -> None:
        self._held_back = None
        self._next_s = time.monotonic() + SECONDS_BETWEEN_REPORTS
        self._send(progress)


def _function(name: str) -> Callable[..., Any] | None:
    """Return the function of a dotted name `module:function`; None when the module has no such function."""
    module, function = name.split(":")
    found: Callable[..., Any] | None = getattr(import_module(module), function, None)
    return found


def _reporter(run: int, send: Send) -> Reporter:
    return Reporter(lambda progress: send({"kind": "progress", "run": run, "progress": progress_document(progress)}))


def _graph(text: str) -> DnnGraph:
    """Return the graph of a text; the next questions are about the same one as a rule."""
    return _small_graph(text) if len(text) <= MAX_REMEMBERED else parse_graph(text)[0]


@lru_cache(maxsize=4)
def _small_graph(text: str) -> DnnGraph:
    return parse_graph(text)[0]


def _answer(request: dict[str, Any], solve: Callable[..., Any], send: Send) -> None:
    run = request["run"]
    reporter = _reporter(run, send)
    try:
        result: SolveResult = solve(
            _graph(request.pop("graph")),
            deployment_from_document(request["deployment"]),
            objective=Objective(request["objective"]),
            method=request["method"],
            family=Family(request["family"]),
            time_limit_s=request["time_limit_s"],
            gap=request["gap"],
            start=split_from_document(request["start"]),
            **({"lower_bound_ms": bound_ms} if (bound_ms := request["lower_bound_ms"]) is not None else {}),
            **({"pins": pins_from_document(request["pins"])} if request["pins"] else {}),
            on_progress=reporter,
        )
        answer = {"kind": "result", "run": run, "result": result_document(result), "reusable": not is_any_left()}
    except Exception as error:
        answer = {
            "kind": "failure",
            "run": run,
            "error": _sentence(error),
            "traceback": traceback.format_exc(),
            # After any other error nobody knows what state the solver's libraries are in.
            "reusable": isinstance(error, PlacementError) and not is_any_left(),
        }
    reporter.close()
    send(answer)


def _answer_call(request: dict[str, Any], send: Send) -> None:
    run = request["run"]
    reporter = _reporter(run, send)

    def call() -> Any:
        function = _function(request["call"])
        if function is None:
            raise LookupError(f"There is no function {request['call']}.")
        return function(unpacked(request["argument"]), on_progress=reporter)

    outcome, error = outcome_of(call)
    reporter.close()
    reusable = (error is None or isinstance(error, PlacementError)) and not is_any_left()
    send({"kind": "value", "run": run, "value": base64.b64encode(outcome).decode(), "reusable": reusable})


def _sentence(error: Exception) -> str:
    """Say in one sentence why a solve failed."""
    if isinstance(error, PlacementError):
        return str(error)
    if isinstance(error, MemoryError):
        return "The solver ran out of memory; try another method, or a smaller graph."
    reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".:")
    reason = reason if len(reason) <= 200 else reason[:197] + "..."
    return f"The solver failed unexpectedly ({reason}); this is a fault of the program, the details tell where."


if __name__ == "__main__":
    main(sys.argv[1:])
