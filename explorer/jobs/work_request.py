"""A piece of work as a solver process is told of it, and the outcome of a call as its asker gets it."""

import json
import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from explorer.jobs.record import CallRecord, RunRecord, Work
from explorer.jobs.worker import deployment_document, packed, pins_document
from explorer.server.byte_cache import remembered
from solvers.formats.graph_json import graph_document, split_document
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.processes.outcome import settle


def request_of(work: Work) -> Callable[[], bytes]:
    """Return a function that writes down what a process is to do, which takes a while where the graph is large.

    It uses what is known now; after a pause the work goes on from what was found before.
    """
    if isinstance(work, CallRecord):
        number, function, argument = work.number, work.function, work.argument
        return lambda: _message({"run": number, "call": function, "argument": packed(argument)})
    assert isinstance(work, RunRecord)
    assert work.graph is not None
    graph, question, start = work.graph, work.question, work.best_split or work.start
    left_s = work.limit_s - work.worked_s
    settings = {
        "run": work.number,
        "objective": question.objective,
        "method": question.method,
        "family": question.family,
        "time_limit_s": left_s if math.isfinite(left_s) else None,
        "gap": question.gap,
        "lower_bound_ms": work.lower_bound_ms,
    }
    return lambda: _message(
        settings
        | {
            "graph": graph_message(graph),
            "deployment": deployment_document(question.deployment),
            "start": start and split_document(start),
            "pins": pins_document(question.pins) if question.pins else None,
        }
    )


def graph_message(graph: DnnGraph) -> str:
    """Return a graph as the text of a file; the deployment in it means nothing.

    A page asks several questions about one graph for each change of an input, so its text is written once.
    """
    return remembered(
        "graph for solvers", (graph.digest,), lambda: json.dumps(graph_document(graph, Deployment(1))), len
    )


def _message(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def set_outcome(future: Future[Any], value: tuple[bool, Any]) -> None:
    """Give a future what its call returned or raised, unless nobody waits for it any more."""
    if future.set_running_or_notify_cancel():
        settle(future, value)
