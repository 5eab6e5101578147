"""The process that reads one large file: it is sent the bytes, and sends the graph back in parts.

    python -m explorer.state.read_worker MEMORY_BYTES SECONDS MAX_NODES MAX_EDGES FILE_NAME [REQUEST]

REQUEST is JSON {"key", "origin", "title", "values": [[address, text], ...]} for a model of another program's, which is
imported with these values of `solvers.parameters.importing`.

A message is its kind (one letter) and its content: "p" JSON [records made, nodes, edges]; "g" a part of the graph, see
`explorer.server.packed_graph`; "d" JSON {"deployment", "project"}, the latter the parts of a project without its graph,
null for a plain graph, "notes" of one, and "totals" and "assumptions" of an import; or "e", a sentence that says why
the file was not read.
The process takes at most so much memory and processor time: whatever a file holds, the server goes on.
"""

import contextlib
import io
import json
import sys
from dataclasses import asdict
from typing import Any

from explorer.jobs.worker import deployment_document
from explorer.server.packed_graph import packed_graph
from explorer.state.project_file import is_project, project_fields
from explorer.words.known_devices import known_devices
from solvers.formats.graph_json import OnProgress, graph_from_document, parse_graph
from solvers.importers.sources import import_file
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError, PlacementError
from solvers.model.graph import DnnGraph
from solvers.parameters.asked import BY_ADDRESS
from solvers.parameters.importing import devices_of, workload_of
from solvers.processes.child import Owner
from solvers.quantities import binary_size, count


def too_large(num_nodes: int, num_edges: int, max_nodes: int, max_edges: int) -> str:
    """Say that a graph is larger than this server takes; empty for one that is not."""
    if num_nodes <= max_nodes and num_edges <= max_edges:
        return ""
    return (
        f"The graph has {count(num_nodes)} nodes and {count(num_edges)} edges; this server takes up to "
        f"{count(max_nodes)} nodes and {count(max_edges)} edges. Fold each layer of the network into one node, or ask "
        "whoever runs the server for a higher --largest-graph."
    )


def main(arguments: list[str]) -> None:
    """Read the file, and write what it holds or why it cannot be read."""
    memory_bytes, seconds, max_nodes, max_edges = map(int, arguments[:4])
    _limit(memory_bytes, seconds)
    owner = Owner()

    def report(num_made: int, num_nodes: int, num_edges: int) -> None:
        if problem := too_large(num_nodes, num_edges, max_nodes, max_edges):
            raise GraphError(problem)
        owner.send(b"p" + json.dumps([num_made, num_nodes, num_edges]).encode())

    try:
        text = owner.receive()
        if len(arguments) > 5:
            _import(owner, text, json.loads(arguments[5]), report)
            return
        fields: dict[str, Any] | None = None
        notes: list[str] = []
        if is_project(text):
            fields, file = project_fields(text)
            fields["graph"] = {**fields["graph"], "file": None}
            graph, deployment = graph_from_document(file, on_progress=report)
        else:
            graph, deployment = parse_graph(text, arguments[4].removesuffix(".json"), report, notes.append)
        del text
        _answer(owner, graph, deployment, {"project": fields, "notes": notes})
    except PlacementError as error:
        owner.send(b"e" + str(error).encode())
    except MemoryError:
        owner.send(
            f"eReading it takes more than the {binary_size(memory_bytes)} of memory a file is given. Fold each "
            "layer of the network into one node.".encode()
        )


def _import(owner: Owner, content: bytes, request: dict[str, Any], report: OnProgress) -> None:
    """Import a model and write its graph; PlacementError where it cannot be."""
    values: dict[str, Any] = {}
    for address, text in request["values"]:
        parameter = BY_ADDRESS[address]
        values[parameter.name] = parameter.codec.read(text)
    devices = devices_of(values, known_devices())
    found = import_file(io.BytesIO(content), workload_of(values), devices, request["origin"], request["title"])
    report(0, len(found.graph.nodes), len(found.graph.edges))
    facts = {"project": None, "totals": asdict(found.totals), "assumptions": found.assumptions}
    _answer(owner, found.graph, found.deployment, facts)


def _answer(owner: Owner, graph: DnnGraph, deployment: Deployment, others: dict[str, Any]) -> None:
    for part in packed_graph(graph):
        owner.send(b"g" + part)
    owner.send(b"d" + json.dumps({"deployment": deployment_document(deployment), **others}).encode())


def _limit(memory_bytes: int, seconds: int) -> None:
    """Have the system end this process when it takes too much; where a system has no such limits, its owner does."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
