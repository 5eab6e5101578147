"""DOT and Model Explorer files, parsed again: complete, true to the plan, safe whatever nodes are called."""

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import pydot
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from explorer.exports.archive import zip_bytes
from explorer.exports.dot import device_dot, placed_dot
from explorer.exports.model_explorer import GRAPH_ID, model_explorer_files
from explorer.exports.report import report_html
from explorer.figures.figure import figure_svg
from explorer.figures.subject import Subject, file_stem
from solvers.exporters.csv_tables import csv_tables
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.split import Split
from tests.support.examples import examples
from tests.support.graphs import chain, divided, one_node_per_device
from tests.support.subjects import HOSTILE, named, sample_subject, subject_of, without_schedule

# pydot still calls its own parser by old names.
pytestmark = pytest.mark.filterwarnings("ignore::pyparsing.warnings.PyparsingDeprecationWarning")

NASTY = [
    "a:b",
    'say "hi"',
    "back\\slash",
    "new\nline",
    "<b>bold</b>",
    HOSTILE,
    "\\N",
    "]; evil [",
    "end\\",
    "</script>",
]


def dot_of(subject: Subject) -> str:
    return placed_dot(subject.graph, subject.deployment, subject.split)


def parsed_dot(text: str) -> Any:
    graphs = pydot.graph_from_dot_data(text)
    assert graphs is not None
    assert len(graphs) == 1
    return graphs[0]


def own_nodes(graph: Any) -> list[Any]:
    return [node for node in graph.get_nodes() if node.get_name() not in ("node", "edge", "graph", '"\\n"')]


def test_dot_has_every_node_and_edge_and_marks_what_is_cut() -> None:
    subject = sample_subject("gnmt_layer_inference")
    graph = parsed_dot(dot_of(subject))
    assert len(own_nodes(graph)) == 41
    assert len(graph.get_edges()) == len(subject.graph.edges)
    device_of = subject.split.device_of()
    cut = [e for e in subject.graph.edges if device_of[e.source] != device_of[e.target]]
    assert len([edge for edge in graph.get_edges() if edge.get("penwidth")]) == len(cut)


@pytest.mark.parametrize("name", NASTY)
def test_no_name_becomes_dot(name: str) -> None:
    subject = named(name, name, "c", graph_name=name)
    graph = parsed_dot(dot_of(subject))
    assert {node.get_name() for node in own_nodes(graph)} == {'"node 1"', '"node 2"', '"node 3"'}
    assert {(e.get_source(), e.get_destination()) for e in graph.get_edges()} == {
        ('"node 1"', '"node 2"'),
        ('"node 2"', '"node 3"'),
    }
    label = str(own_nodes(graph)[0].get("label"))
    assert label.startswith('"')  # HTML-like labels begin with an angle bracket
    escapes = {'"': '"', "\\": "\\", "n": "\n"}
    unquoted = re.sub(r'\\(["\\n])', lambda match: escapes[match[1]], label[1:-1])
    assert unquoted == f"{name}\nAccelerator 1"


@pytest.mark.parametrize("name", [name for name in NASTY if name.isprintable()])
def test_no_device_type_becomes_more_than_text(name: str) -> None:
    """Neither in the graph of nodes, that of devices, the files of Model Explorer nor tables for spreadsheets."""
    subject = named("a", "b", device_type=name)
    placed = parsed_dot(dot_of(subject))
    assert {node.get_name() for node in own_nodes(placed)} == {'"node 1"', '"node 2"'}
    devices = parsed_dot(str(device_dot(subject.costs, subject.deployment, subject.split).source))
    assert len(own_nodes(devices)) == 2
    assert len(devices.get_edges()) == 1
    for graph in (placed, devices):
        assert all(str(node.get("label")).startswith('"') for node in own_nodes(graph))
    told = [value for document in documents(subject).values() for value in texts_of(document)]
    assert any(f"{name} 1" in text for text in told), "as it is, for JSON is read by a program"
    svg = figure_svg(subject)
    assert "<img" not in svg
    assert "<b>" not in svg


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(1)", '=HYPERLINK("http://example.org")'])
def test_no_device_type_is_a_formula(name: str) -> None:
    subject = named("a", "b", device_type=name)
    tables = csv_tables(subject.graph, subject.deployment, subject.split, subject.costs, subject.result)
    cells = [cell for text in tables.values() for row in csv.reader(io.StringIO(text)) for cell in row]
    assert any(name in cell for cell in cells)
    assert not any(cell.startswith(name) for cell in cells)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
@examples(30, deadline=None)
def test_any_name_leaves_the_dot_whole(name: str) -> None:
    graph = parsed_dot(dot_of(named(name, "b", graph_name=name)))
    assert len(own_nodes(graph)) == 2


def test_the_graph_of_devices_says_what_passes_between_them() -> None:
    subject = named("a", "b")
    graph = parsed_dot(str(device_dot(subject.costs, subject.deployment, subject.split).source))
    assert len(own_nodes(graph)) == 2
    (edge,) = graph.get_edges()
    assert "0.25 ms" in edge.get("label")
    assert "976.6 KiB" in edge.get("label")


def test_every_export_tells_what_each_end_of_a_tensor_pays() -> None:
    deployment = Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1, link_speed=0.25)))
    graph = chain((2, 3), transfer_ms=1.0)
    subject = subject_of(graph, deployment, one_node_per_device(graph))
    exports = {
        "graph of devices": str(device_dot(subject.costs, deployment, subject.split).source),
        "Model Explorer": model_explorer_files(subject)[f"{subject.stem}.json"],
        "report": report_html(subject),
        "figure": figure_svg(subject),
    }
    assert {name: "send 1 ms, receive 4 ms" in text for name, text in exports.items()} == dict.fromkeys(exports, True)


def test_every_export_names_the_tensors_of_a_node() -> None:
    deployment = Deployment(2)
    subject = subject_of(divided(), deployment, Split((frozenset({1, 2}), frozenset({3}))))
    labels = [str(edge.get("label")) for edge in parsed_dot(dot_of(subject)).get_edges()]
    assert [all(part in label for part in ("right", "300 B", "3 ms")) for label in labels] == [False, True]
    (graph,) = documents(subject)[f"{subject.stem}.json"]["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    outputs = [{fact["key"]: fact["value"] for fact in one["attrs"]} for one in nodes["1"]["outputsMetadata"]]
    assert [(one["tensor"], one["size"]) for one in outputs] == [("left", "100 B"), ("right", "300 B")]
    assert [nodes[v]["incomingEdges"][0]["sourceNodeOutputId"] for v in ("2", "3")] == ["0", "1"]
    (overlays,) = graph["tasksData"]["edgeOverlaysDataListLeftPane"]
    assert [(e["sourceNodeId"], e["targetNodeId"]) for e in overlays["overlays"][0]["edges"]] == [("1", "3")]
    assert "<th" in report_html(subject)
    assert ">right<" in report_html(subject)


def texts_of(document: Any) -> Iterator[str]:
    """Yield every text of a JSON document."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, list | dict):
        for value in document.values() if isinstance(document, dict) else document:
            yield from texts_of(value)


def documents(subject: Subject) -> dict[str, Any]:
    files = model_explorer_files(subject)
    return {name: json.loads(text) for name, text in files.items() if name.endswith(".json")}


def test_model_explorer_gets_the_graph_and_data_for_each_node() -> None:
    subject = sample_subject("gpt2_xl_layer_training")
    files = documents(subject)
    collection = files.pop(f"{subject.stem}.json")
    (graph,) = collection["graphs"]
    ids = {str(node.id) for node in subject.graph.nodes}
    assert {node["id"] for node in graph["nodes"]} == ids
    edges = {(edge["sourceNodeId"], node["id"]) for node in graph["nodes"] for edge in node["incomingEdges"]}
    assert edges == {(str(edge.source), str(edge.target)) for edge in subject.graph.edges}
    assert {name.rsplit("_", 1)[-1] for name in files} == {"device.json", "time.json", "memory.json", "stage.json"}
    for document in files.values():
        assert set(document) == {GRAPH_ID} == {graph["id"]}
        assert set(document[GRAPH_ID]["results"]) == ids
    times = files[f"{subject.stem}_node_data_time.json"][GRAPH_ID]["results"]
    total = sum(device.compute_ms for device in subject.costs.devices)
    assert sum(result["value"] for result in times.values()) == pytest.approx(total)
    stops = [item["stop"] for item in files[f"{subject.stem}_node_data_time.json"][GRAPH_ID]["gradient"]]
    assert (stops[0], stops[-1]) == (0, 1)
    (overlays,) = graph["tasksData"]["edgeOverlaysDataListLeftPane"]
    device_of = subject.split.device_of()
    cut = {(str(e.source), str(e.target)) for e in subject.graph.edges if device_of[e.source] != device_of[e.target]}
    assert {(e["sourceNodeId"], e["targetNodeId"]) for e in overlays["overlays"][0]["edges"]} == cut


def test_types_are_those_of_model_explorer() -> None:
    """Of `graph_builder.py` and `node_data_builder.py`: ids, keys and attributes are text, nothing is unknown."""
    for document in documents(named(HOSTILE, "b", layer="a//b/")).values():
        for graph in document.get("graphs", []):
            for node in graph["nodes"]:
                assert set(node) <= {
                    "id", "label", "namespace", "subgraphIds", "attrs", "incomingEdges", "outputsMetadata",
                    "inputsMetadata", "style", "config",
                }  # fmt: skip
                assert node["namespace"] == "a/b"
                assert all(isinstance(node[key], str) for key in ("id", "label", "namespace"))
                assert all(isinstance(pair[key], str) for pair in node["attrs"] for key in ("key", "value"))
        for data in (document.get(GRAPH_ID) or {"results": {}})["results"].values():
            assert set(data) <= {"value", "bgColor", "textColor"}


def test_without_a_schedule_there_is_no_data_of_stages() -> None:
    subject = without_schedule(named("a", "b"))
    assert not any("stage" in name for name in documents(subject))


@given(st.text(max_size=100))
@example("../../etc/passwd")
@example("con\x00.json")
def test_file_names_are_plain(name: str) -> None:
    stem = file_stem(name)
    assert stem
    assert len(stem) <= 60
    assert all(c.isascii() and (c.isalnum() or c in "_-") for c in stem)


def test_archives_of_equal_files_are_equal() -> None:
    files = {"a.txt": "Größe", "b.bin": b"\x00\x01"}
    assert zip_bytes(files) == zip_bytes(dict(files))
    with zipfile.ZipFile(io.BytesIO(zip_bytes(files))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "a.txt": "Größe".encode(),
            "b.bin": b"\x00\x01",
        }
