"""Tests of the file formats: what is kept, what is computed from them, and how nonsense is refused."""

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.formats.graph_json import (
    graph_document,
    parse_graph,
    parse_split,
    read_graph,
    read_split,
    split_document,
    write_graph,
)
from solvers.formats.json_fields import MAX_FILE_BYTES
from solvers.model.deployment import MAX_DEVICES, Deployment
from solvers.model.errors import GraphError, PlacementError, SplitError
from solvers.model.graph import DnnGraph, Edge, Node, Tensor
from solvers.model.split import Split
from tests.support.graphs import random_split, small_graphs

PAPER_GRAPHS = (
    "throughput/bert24_layer_inference",
    "throughput/bert24_layer_training",
    "throughput/bert_l-3_operator_inference",
    "throughput/bert_l-3_operator_training",
    "throughput/bert_l-6_operator_inference",
    "throughput/gnmt_layer_inference",
    "throughput/inceptionv3_layer_inference",
    "throughput/resnet50_layer_inference",
    "throughput/resnet50_layer_training",
    "throughput/resnet50_operator_inference",
    "latency/bert24_layer_inference",
    "latency/bert_l-3_operator_inference",
    "latency/gnmt_layer_inference",
    "latency/resnet50_layer_inference",
)

GRAPH: dict[str, Any] = {
    "version": 1,
    "name": "tiny",
    "maxSizePerFPGA": 100.0,
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "nodes": [
        {
            "id": 1,
            "supportedOnFpga": 1,
            "cpuLatency": 4.0,
            "fpgaLatency": 1.0,
            "isBackwardNode": 0,
            "colorClass": 5,
            "size": 10,
            "name": "conv",
            "layerId": 3,
            "flops": 1e9,
            "parameterBytes": 8,
            "activationBytes": 2,
        },
        {
            "id": 2,
            "supportedOnFpga": False,
            "cpuLatency": 4,
            "fpgaLatency": 2,
            "isBackwardNode": False,
            "layer": "head",
        },
        {"id": 3, "supportedOnFpga": True, "cpuLatency": 4, "fpgaLatency": 2, "isBackwardNode": True},
    ],
    "edges": [
        {"sourceId": 1, "destId": 2, "cost": 0.5, "size": 50},
        {"sourceId": 1, "destId": 3, "cost": 0.5},
    ],
}
SPLIT: dict[str, Any] = {
    "maxLoad": 3.5,
    "fpgas": [{"load": 3.5, "nodes": [1, 3]}, {"load": -1, "nodes": []}],
    "cpus": [{"nodes": [2]}],
}


def changed(document: dict[str, Any], place: str, value: Any) -> str:
    """Return the JSON text of a document with the field at a dotted place set, or deleted where `value` is `...`."""
    result = copy.deepcopy(document)
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    target: Any = result
    for part in path:
        target = target[part]
    if value is ...:
        del target[last]
    elif last == "+":
        target.append(value)
    else:
        target[last] = value
    return json.dumps(result)


def assert_is_a_sentence(message: str) -> None:
    """One line that begins and ends as a sentence, of a length to show, with no trace of Python in it."""
    assert message == message.strip()
    assert message.endswith(".")
    assert len(message) < 400
    assert message.isprintable()
    message.encode()
    for noise in ("<class", "object at 0x", "Traceback", "NoneType", "None", "dict", "sys.", "Error"):
        assert noise not in message


def refusal(parse: Callable[[str | bytes], object], text: str | bytes, error: type[PlacementError]) -> str:
    """The message with which a text is refused, checked to be a sentence."""
    with pytest.raises(error) as caught:
        parse(text)
    assert type(caught.value) is error
    assert_is_a_sentence(str(caught.value))
    return str(caught.value)


def parses_or_is_refused(
    parse: Callable[[str | bytes], object], text: str | bytes, error: type[PlacementError]
) -> None:
    """Whatever the text: an answer, or an error that is a sentence."""
    try:
        parse(text)
    except error as caught:
        message = str(caught)
    else:
        return
    assert_is_a_sentence(message)


# What is kept


@pytest.mark.parametrize("name", PAPER_GRAPHS)
def test_paper_graphs_round_trip_verbatim(paper_workloads: Path, name: str) -> None:
    """The same objects in the same order; true equals 1 and the order of fields is free."""
    path = paper_workloads / f"{name}.json"
    assert graph_document(*read_graph(path)) == json.loads(path.read_text())


@pytest.mark.parametrize("name", PAPER_GRAPHS)
def test_implied_bandwidth_of_the_paper(paper_workloads: Path, name: str) -> None:
    """Layer files for throughput have costs in seconds; those for training have bytes that fit no bandwidth."""
    gigabytes_per_s = 1e6  # in bytes per millisecond
    bandwidth = read_graph(paper_workloads / f"{name}.json")[0].bandwidth_bytes_per_ms
    if name.startswith("throughput") and "layer_training" in name:
        assert bandwidth is None
    else:
        expected = 2147.48 if name.startswith("throughput") and "layer" in name else 2.14748
        assert bandwidth is not None
        assert bandwidth / gigabytes_per_s == pytest.approx(expected, rel=1e-4)


def test_paper_splits_round_trip(paper_workloads: Path) -> None:
    for path in sorted((paper_workloads / "expert_splits").glob("*.json")):
        split = read_split(path)
        document = json.loads(path.read_text())
        for kind, devices in (("fpgas", split.accelerators), ("cpus", split.cpus)):
            assert [set(entry["nodes"]) for entry in document[kind]] == list(map(set, devices))
        assert parse_split(json.dumps(split_document(split))) == split


def test_an_edge_names_its_tensor() -> None:
    document = {
        **GRAPH,
        "edges": [
            {"sourceId": 1, "destId": 2, "cost": 0.5, "size": 50, "tensor": "h"},
            {"sourceId": 1, "destId": 3, "cost": 0.5, "size": 50, "tensor": "h"},
            {"sourceId": 1, "destId": 3, "cost": 2.0},
            {"sourceId": 2, "destId": 3, "cost": 1.0, "tensor": 7},
        ],
    }
    graph, deployment = parse_graph(json.dumps(document))
    assert graph.tensors == (
        Tensor(1, "h", 0.5, 50.0, (2, 3)),
        Tensor(1, "", 2.0, None, (3,)),
        Tensor(2, "7", 1.0, None, (3,)),
    )
    written = graph_document(graph, deployment)
    assert written["edges"][:3] == document["edges"][:3]
    assert written["edges"][3]["tensor"] == "7"
    assert parse_graph(json.dumps(written))[0].digest == graph.digest
    plain = {**GRAPH, "edges": [{"sourceId": 1, "destId": 2, "cost": 1}]}
    assert "tensor" not in json.dumps(graph_document(*parse_graph(json.dumps(plain))))


def test_every_field_is_read() -> None:
    graph, deployment = parse_graph(json.dumps(GRAPH))
    assert deployment == Deployment(2, 1, 100.0)
    assert graph.name == "tiny"
    assert graph.nodes == (
        Node(1, 1.0, 4.0, 10.0, 0.5, True, False, 5, "conv", "3", 1e9, 8.0, 2.0),
        Node(2, 2.0, 4.0, runs_on_accelerator=False, layer="head"),
        Node(3, 2.0, 4.0, is_backward=True),
    )
    assert graph.edges == (Edge(1, 2, 50.0), Edge(1, 3))


@st.composite
def graphs_with_every_field(draw: st.DrawFn) -> tuple[DnnGraph, Deployment]:
    """A small graph whose nodes and edges also have the fields that no solver uses."""
    graph, deployment = draw(small_graphs())
    number = st.none() | st.floats(0, 1e15)
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    nodes = tuple(
        replace(
            node,
            name=draw(text),
            layer=draw(st.none() | text | st.integers(-(10**17), 10**17).map(str)),
            flops=draw(number),
            parameter_bytes=draw(number),
            activation_bytes=draw(number),
            # Transfer times live on edges in a file; a tensor nobody reads has none to keep.
            transfer_ms=node.transfer_ms if (node.id, "") in graph.tensor_of else 0.0,
        )
        for node in graph.nodes
    )
    edges = tuple(replace(edge, size_bytes=draw(number)) for edge in graph.edges)
    return DnnGraph(nodes, edges, draw(text)), deployment


@given(graphs_with_every_field())
def test_superset_round_trips(case: tuple[DnnGraph, Deployment]) -> None:
    graph, deployment = case
    document = graph_document(graph, deployment)
    again, same_deployment = parse_graph(json.dumps(document))
    assert (again.nodes, again.edges, same_deployment) == (graph.nodes, graph.edges, deployment)
    assert again.digest == graph.digest
    if "version" in document:
        assert again.name == graph.name


def test_written_files_are_read_back_and_have_a_line_per_node_and_edge(tmp_path: Path) -> None:
    graph, deployment = parse_graph(json.dumps(GRAPH))
    path = tmp_path / "tiny.json"
    write_graph(path, graph, deployment)
    assert read_graph(path) == (graph, deployment)
    assert json.loads(path.read_text()) == graph_document(graph, deployment)
    lines = path.read_text().splitlines()
    assert sum('"id"' in line for line in lines) == 3
    assert sum('"sourceId"' in line for line in lines) == 2
    write_graph(path, DnnGraph((Node(1, 1.0, 1.0),), ()), Deployment(1))
    assert read_graph(path)[0].name == "tiny"  # the stem, where the file does not say


def test_a_plain_graph_is_written_in_the_release_format_alone() -> None:
    document = graph_document(DnnGraph((Node(1, 1.0, 2.0, layer="7"),), (), "ours"), Deployment(1))
    assert set(document) == {"maxFPGAs", "maxCPUs", "nodes", "edges"}
    assert document["nodes"] == [
        {
            "id": 1,
            "supportedOnFpga": True,
            "cpuLatency": 2.0,
            "fpgaLatency": 1.0,
            "isBackwardNode": False,
            "size": 0.0,
            "layerId": 7,
        }
    ]


@given(small_graphs(), st.integers(0, 99))
def test_splits_round_trip(case: tuple[DnnGraph, Deployment], seed: int) -> None:
    split = random_split(*case, seed)
    loads_ms = tuple(float(d) for d in range(case[1].num_devices))
    document = split_document(split, loads_ms, {"maxLoad": 3.0})
    assert parse_split(json.dumps(document)) == split
    assert document["maxLoad"] == 3.0
    assert [entry["load"] for entry in document["fpgas"] + document["cpus"]] == list(loads_ms)


def test_replicas_are_written_only_where_there_are_several() -> None:
    split = Split((frozenset({1}), frozenset({2})), (frozenset({3}),), (1, 3))
    document = split_document(split)
    assert [entry.get("replicas") for entry in document["fpgas"] + document["cpus"]] == [None, 3, None]
    assert parse_split(json.dumps(document)) == split
    assert parse_split('{"fpgas": [{"nodes": [1], "replicas": 2.0}]}').replicas == (2,)


def test_subgraphs_are_written_only_where_there_are_several() -> None:
    split = Split.from_subgraphs(((frozenset({3}), frozenset({1, 2})), (frozenset({4}),)), (frozenset({5}),))
    document = split_document(split)
    assert [entry.get("subgraphs") for entry in document["fpgas"]] == [[[3], [1, 2]], [[4]]]
    assert "subgraphs" not in document["cpus"][0]
    assert parse_split(json.dumps(document)) == split
    assert all("subgraphs" not in entry for entry in split_document(Split((frozenset({1}),)))["fpgas"])
    assert parse_split('{"fpgas": [{"nodes": [1, 2], "subgraphs": [[1, 2]]}]}').subgraphs == ()


def test_a_split_may_leave_out_loads_and_cpus_but_not_accelerators() -> None:
    assert parse_split('{"fpgas": [{"nodes": [1, 2.0]}]}') == Split((frozenset({1, 2}),))
    assert "no list 'fpgas'" in refusal(parse_split, '{"cpus": []}', SplitError)


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode(),
        lambda text: text.encode("utf-8-sig"),
        lambda text: "\ufeff" + text,
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-32-le"),
        lambda text: f"\r\n\t {text} \n",
    ],
    ids=["UTF-8", "BOM", "BOM in text", "UTF-16", "UTF-32", "blanks"],
)
def test_encodings_of_json_are_read(encode: Callable[[str], str | bytes]) -> None:
    assert parse_graph(encode(json.dumps(GRAPH))) == parse_graph(json.dumps(GRAPH))
    assert parse_split(encode(json.dumps(SPLIT))) == parse_split(json.dumps(SPLIT))


def test_liberties_that_lose_nothing_are_accepted() -> None:
    expected = parse_graph(json.dumps(GRAPH))
    assert parse_graph(changed(GRAPH, "nodes.0.id", 1.0)) == expected
    assert parse_graph(changed(GRAPH, "maxFPGAs", 2.0)) == expected
    assert parse_graph(changed(GRAPH, "edges.1.cost", 0.5 + 1e-7)) == expected  # equal to 1e-6 by the format
    assert parse_graph(changed(GRAPH, "nodes.0.comment", [1])) == expected  # unknown fields are the writer's own
    assert parse_graph(changed(GRAPH, "nodes.1.colorClass", None)) == expected
    assert parse_graph(changed(GRAPH, "maxSizePerFPGA", ...))[1].memory_bytes is None


def test_names_are_kept_as_they_are_but_can_be_written() -> None:
    name = '<img src=x onerror="alert(1)"> & `*`'
    assert parse_graph(changed(GRAPH, "nodes.0.name", name))[0].nodes[0].name == name
    assert parse_graph(changed(GRAPH, "nodes.0.name", 12))[0].nodes[0].name == "12"
    lone = parse_graph(changed(GRAPH, "nodes.0.name", "a\ud800b"))[0].nodes[0].name
    assert lone == "a?b"
    assert parse_graph(changed(GRAPH, "name", ...), name="a\udcff")[0].name == "a?"  # a file's name in another encoding


# What is refused


def with_edges(*edges: tuple[int, int, float, str]) -> str:
    """Return the text of the tiny graph with these edges: source, target, cost and tensor."""
    fields = ("sourceId", "destId", "cost", "tensor")
    return json.dumps({**GRAPH, "edges": [dict(zip(fields, edge, strict=True)) for edge in edges]})


MALFORMED_GRAPHS: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "The graph is empty; give a JSON object."),
    "blanks": (b" \n\t", "The graph is empty; give a JSON object."),
    "truncated": (json.dumps(GRAPH)[:200], "The graph is not valid JSON: "),
    "truncated in a text": ('{"name": "ab', "Unterminated string starting at line 1, column 10; check that the file"),
    "two documents": ("{} {}", "The graph is not valid JSON: Extra data at line 1, column 4;"),
    "not JSON": ("graph G {}", "The graph is not valid JSON: Expecting value at line 1, column 1;"),
    "bad escape": (r'{"\x": 1}', "The graph is not valid JSON: Invalid \\escape at line 1"),
    "not text": (b"\x89PNG\r\n\x1a\n\xff", "The graph is not text: byte 0 is not UTF-8; give a JSON file."),
    "nested lists": ("[" * 100_000, "The graph is nested too deeply to be a graph; give a JSON object."),
    "nested objects": ('{"a":' * 100_000, "The graph is nested too deeply to be a graph; give a JSON object."),
    "long number": ('{"maxFPGAs": 1' + "0" * 5000 + "}", "The graph has a number of thousands of digits;"),
    "list": ("[]", "The graph is a list; it must be an object with named fields."),
    "null": ("null", "The graph is null; it must be an object with named fields."),
    "long name": (
        changed(GRAPH, "nodes.1.name", "x" * 1001),
        "nodes[1] (id 2): 'name' has a name of 1,001 characters; give up to 1,000.",
    ),
    "long layer": (
        changed(GRAPH, "nodes.1.layer", "x" * 10_000),
        "nodes[1] (id 2): 'layer' has a name of 10,000 characters; give up to 1,000.",
    ),
    "long name of the graph": (
        changed(GRAPH, "name", "x" * 10_000),
        "the file: 'name' has a name of 10,000 characters; give up to 1,000.",
    ),
    "long class": (
        changed(GRAPH, "nodes.1.classLatency", {"x" * 10_000: 1}),
        "nodes[1] (id 2): 'classLatency' has a name of 10,000 characters; give up to 1,000.",
    ),
    "many classes": (
        changed(GRAPH, "nodes.1.classLatency", {f"class {i}": 1 for i in range(65)}),
        "nodes[1] (id 2): 'classLatency' has times on 65 device types; give up to 64.",
    ),
    "twice": ('{"nodes": [], "nodes": []}', 'The graph has an object that names the field "nodes" twice; keep one.'),
    "other version": (changed(GRAPH, "version", 2), "The file says version 2; this program reads version 1."),
    "odd version": (changed(GRAPH, "version", {}), "The file says version an object; this program reads version 1."),
    "no nodes": (changed(GRAPH, "nodes", ...), "The file's 'nodes' is missing; give a list."),
    "no edges": (changed(GRAPH, "edges", ...), "The file's 'edges' is missing; give a list."),
    "nodes are no list": (changed(GRAPH, "nodes", {}), "The file's 'nodes' is an object and not a list; give a list."),
    "empty graph": (
        json.dumps({**GRAPH, "nodes": [], "edges": []}),
        "The graph has no nodes; give it at least one.",
    ),
    "node is no object": (changed(GRAPH, "nodes.+", 7), "nodes[3] is not an object; give a node with named fields."),
    "edge is no object": (changed(GRAPH, "edges.+", 7), "edges[2] is not an object; give an edge with named fields."),
    "no id": (changed(GRAPH, "nodes.1.id", ...), "nodes[1]: 'id' is missing; add it."),
    "id is a text": (changed(GRAPH, "nodes.1.id", "2"), "nodes[1]: 'id' is \"2\"; give a whole number"),
    "id is true": (changed(GRAPH, "nodes.0.id", True), "nodes[0]: 'id' is true; give a whole number"),
    "id is a fraction": (changed(GRAPH, "nodes.0.id", 1.5), "nodes[0]: 'id' is 1.5; give a whole number"),
    "id is huge": (changed(GRAPH, "nodes.0.id", 2**53), "nodes[0]: 'id' is 9007199254740992; give a whole number"),
    "id is NaN": (changed(GRAPH, "nodes.0.id", math.nan), "nodes[0]: 'id' is NaN; give a whole number"),
    "duplicate id": (changed(GRAPH, "nodes.1.id", 1), "node 1: its id is used twice; ids must differ."),
    "no time": (changed(GRAPH, "nodes.1.cpuLatency", ...), "nodes[1] (id 2): 'cpuLatency' is missing; add it."),
    "time is a text": (
        changed(GRAPH, "nodes.1.cpuLatency", "4"),
        "nodes[1] (id 2): 'cpuLatency' is \"4\"; give a numb",
    ),
    "time is true": (changed(GRAPH, "nodes.1.fpgaLatency", True), "nodes[1] (id 2): 'fpgaLatency' is true; give a num"),
    "time is null": (changed(GRAPH, "nodes.1.fpgaLatency", None), "nodes[1] (id 2): 'fpgaLatency' is null; give a num"),
    "time is negative": (
        changed(GRAPH, "nodes.1.fpgaLatency", -0.5),
        "nodes[1] (id 2): 'fpgaLatency' is -0.5; give a finite number from 0 to 1e15.",
    ),
    "time is NaN": (changed(GRAPH, "nodes.1.fpgaLatency", math.nan), "'fpgaLatency' is NaN; give a finite number"),
    "time is infinite": (changed(GRAPH, "nodes.1.cpuLatency", math.inf), "'cpuLatency' is Infinity; give a finite"),
    "time is enormous": (changed(GRAPH, "nodes.1.cpuLatency", 1e308), "'cpuLatency' is 1e+308; give a finite number"),
    "time has 400 digits": (changed(GRAPH, "nodes.1.cpuLatency", 10**400), "'cpuLatency' is 1000"),
    "size is negative": (changed(GRAPH, "nodes.0.size", -1), "nodes[0] (id 1): 'size' is -1; give a finite number"),
    "class is a text": (
        changed(GRAPH, "nodes.0.colorClass", "x"),
        "nodes[0] (id 1): 'colorClass' is \"x\"; give a who",
    ),
    "flag is a text": (
        changed(GRAPH, "nodes.0.supportedOnFpga", "yes"),
        "nodes[0] (id 1): 'supportedOnFpga' is \"yes\"; give true or false (or 1 or 0).",
    ),
    "flag is a list": (changed(GRAPH, "nodes.0.isBackwardNode", [0]), "'isBackwardNode' is a list; give true or false"),
    "no flag": (changed(GRAPH, "nodes.0.isBackwardNode", ...), "nodes[0] (id 1): 'isBackwardNode' is missing; add it."),
    "name is a list": (changed(GRAPH, "nodes.0.name", ["a"]), "nodes[0] (id 1): 'name' is a list; give a text."),
    "layer is an object": (changed(GRAPH, "nodes.1.layer", {}), "nodes[1] (id 2): 'layer' is an object; give a text."),
    "layerId is a text": (changed(GRAPH, "nodes.0.layerId", "a"), "nodes[0] (id 1): 'layerId' is \"a\"; give a whole"),
    "flops are negative": (changed(GRAPH, "nodes.0.flops", -1), "nodes[0] (id 1): 'flops' is -1; give a finite number"),
    "unknown id": (
        changed(GRAPH, "edges.0.destId", 9),
        "edge 1 -> 9: there is no node 9; add the node or remove the edge.",
    ),
    "no end": (changed(GRAPH, "edges.0.destId", ...), "edges[0]: 'destId' is missing; add it."),
    "no cost": (changed(GRAPH, "edges.1.cost", ...), "edges[1]: 'cost' is missing; add it."),
    "cost is NaN": (changed(GRAPH, "edges.1.cost", math.nan), "edges[1]: 'cost' is NaN; give a finite number"),
    "edge size is negative": (changed(GRAPH, "edges.0.size", -1), "edges[0]: 'size' is -1; give a finite number"),
    "two costs": (
        changed(GRAPH, "edges.1.cost", 0.75),
        "edges[1] out of node 1 costs 0.75 ms, but edges[0] out of the same node costs 0.5 ms; "
        "a tensor is sent once, so give both the same cost, or name different tensors in 'tensor'.",
    ),
    "two costs of a tensor": (
        with_edges((1, 2, 1.0, "h"), (1, 3, 2.0, "h")),
        "edges[1] out of tensor 'h' of node 1 costs 2.0 ms, but edges[0] out of the same tensor costs 1.0 ms; a tensor "
        "is sent once, so give both the same cost",
    ),
    "tensor is a list": (changed(GRAPH, "edges.0.tensor", ["h"]), "edges[0]: 'tensor' is a list; give a text."),
    "tensor is empty": (
        changed(GRAPH, "edges.0.tensor", ""),
        "edges[0]: 'tensor' is empty; give the tensor a name, or leave it out.",
    ),
    "tensor is long": (
        changed(GRAPH, "edges.0.tensor", "h" * 1001),
        "edges[0]: 'tensor' has a name of 1,001 characters; give up to 1,000.",
    ),
    "tensor twice": (
        with_edges((1, 2, 1.0, "h"), (1, 2, 1.0, "h")).replace('"tensor": "h"}]', '"tensor": "h", "size": 5}]'),
        "edge 1 -> 2 of tensor 'h' is listed twice; keep one.",
    ),
    "edge twice": (changed(GRAPH, "edges.1.destId", 2), "edge 1 -> 2 is listed twice; keep one."),
    "cycle": (
        changed(GRAPH, "edges.+", {"sourceId": 3, "destId": 1, "cost": 1}),
        "The graph has a cycle: 1 -> 3 -> 1; a network graph must be acyclic, so remove one of these edges.",
    ),
    "self-loop": (changed(GRAPH, "edges.+", {"sourceId": 3, "destId": 3, "cost": 1}), "has a cycle: 3 -> 3;"),
    "no devices": (changed(GRAPH, "maxFPGAs", ...), "the file: 'maxFPGAs' is missing; add it."),
    "half a device": (changed(GRAPH, "maxCPUs", 0.5), "the file: 'maxCPUs' is 0.5; give a whole number"),
    "negative devices": (changed(GRAPH, "maxCPUs", -1), "The file's devices are not usable: -1 CPUs: give a number"),
    "too many devices": (
        changed(GRAPH, "maxFPGAs", 10**6),
        "not usable: 1000000 accelerators: give a number from 0 to",
    ),
    "memory is infinite": (changed(GRAPH, "maxSizePerFPGA", math.inf), "the file: 'maxSizePerFPGA' is Infinity; give"),
    "file name is a list": (changed(GRAPH, "name", []), "the file: 'name' is a list; give a text."),
}

MALFORMED_SPLITS: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "The split is empty; give a JSON object."),
    "truncated": (json.dumps(SPLIT)[:50], "The split is not valid JSON: "),
    "not text": (b"\x80", "The split is not text: byte 0 is not UTF-8; give a JSON file."),
    "list": ("[]", "The split is a list; it must be an object with named fields."),
    "nested": ("[" * 100_000, "The split is nested too deeply to be a split; give a JSON object."),
    "a graph": (json.dumps(GRAPH), "The split has no list 'fpgas'; give one entry with 'nodes' per device."),
    "subgraphs of what": (
        '{"fpgas": [{"nodes": [1], "subgraphs": [1]}]}',
        "fpgas[0]: 'subgraphs' must be lists of node ids, in the order they run.",
    ),
    "subgraphs of other nodes": (
        '{"fpgas": [{"nodes": [1, 2], "subgraphs": [[1], [3]]}]}',
        "fpgas[0]: 'subgraphs' must list each id of 'nodes' once, and no other.",
    ),
    "subgraphs of a CPU": (
        '{"fpgas": [], "cpus": [{"nodes": [1], "subgraphs": [[1]]}]}',
        "cpus[0]: CPUs run node by node; leave 'subgraphs' out.",
    ),
    "no replicas": (
        '{"fpgas": [{"nodes": [1], "replicas": 0}]}',
        "fpgas[0]: 'replicas' is 0; it must be a whole number",
    ),
    "half a replica": (
        '{"fpgas": [{"nodes": [1], "replicas": 1.5}]}',
        "fpgas[0]: 'replicas' is 1.5; it must be a whole",
    ),
    "replicated CPU": (
        '{"fpgas": [], "cpus": [{"nodes": [1], "replicas": 2}]}',
        "cpus[0]: 'replicas' is 2; it must be",
    ),
    "cpus are no list": (changed(SPLIT, "cpus", 1), "The split has no list 'cpus'; give one entry"),
    "device is a list": (changed(SPLIT, "fpgas.1", [1]), "fpgas[1]: 'nodes' must be a list of node ids."),
    "no nodes": (changed(SPLIT, "cpus.0.nodes", ...), "cpus[0]: 'nodes' must be a list of node ids."),
    "id is a text": (changed(SPLIT, "fpgas.0.nodes.+", "4"), "fpgas[0]: 'nodes' must be a list of node ids."),
    "id is huge": (changed(SPLIT, "fpgas.0.nodes.+", 1e300), "fpgas[0]: 'nodes' must be a list of node ids."),
    "id is NaN": (changed(SPLIT, "fpgas.0.nodes.+", math.nan), "fpgas[0]: 'nodes' must be a list of node ids."),
    "twice": (changed(SPLIT, "fpgas.0.nodes.+", 1), "fpgas[0]: a node is listed twice; keep one."),
    "too many devices": (
        changed(SPLIT, "fpgas", [{"nodes": []}] * (MAX_DEVICES + 1)),
        "The split lists 1025 'fpgas'; up to 1024 are read.",
    ),
}


@pytest.mark.parametrize("case", MALFORMED_GRAPHS)
def test_a_malformed_graph_is_refused_with_its_place(case: str) -> None:
    text, expected = MALFORMED_GRAPHS[case]
    assert expected in refusal(parse_graph, text, GraphError)


@pytest.mark.parametrize("case", MALFORMED_SPLITS)
def test_a_malformed_split_is_refused_with_its_place(case: str) -> None:
    text, expected = MALFORMED_SPLITS[case]
    assert expected in refusal(parse_split, text, SplitError)


MEGABYTES_50 = 50 * 10**6


@pytest.mark.parametrize(
    ("begin", "middle", "end"),
    [
        pytest.param(b"", b"x", b"", id="letters"),
        pytest.param(b"", b"\x00", b"", id="zeros"),
        pytest.param(b"", b"[", b"", id="brackets"),
        pytest.param(b'{"nodes": "', b"a", b"", id="text"),
        pytest.param(b'{"nodes": [', b"1,", b"1]}", id="numbers", marks=pytest.mark.slow),
        pytest.param(b'{"nodes": [', b"{" + b" " * 27 + b"},", b'{}], "edges": []}', id="objects"),
    ],
)
def test_fifty_megabytes_of_nonsense_are_refused(begin: bytes, middle: bytes, end: bytes) -> None:
    text = begin + middle * (MEGABYTES_50 // len(middle)) + end
    refusal(parse_graph, text, GraphError)
    refusal(parse_split, text, SplitError)


def test_a_file_that_is_too_long_is_refused_unparsed(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    with path.open("wb") as file:
        file.truncate(2 * MAX_FILE_BYTES)  # a hole: no disk is used
    assert refusal(lambda _: read_graph(path), "", GraphError) == "The graph is too long; up to 64 MiB are read."
    assert "too long" in refusal(parse_split, " " * (MAX_FILE_BYTES + 1), SplitError)


@pytest.mark.parametrize("name", ["absent.json", "", "a\x00b", "line\nbreak"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    assert "cannot be read: " in refusal(lambda _: read_graph(tmp_path / name), "", GraphError)
    assert "cannot be read: " in refusal(lambda _: read_split(tmp_path / name), "", SplitError)


ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**310)
    | st.floats()
    | st.text(st.characters(), max_size=60)
    | st.sampled_from(["\ud800", "\n", "\u2028", "<b>", 2**53, -0.0, 5e-324]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, prefix: str = "") -> list[str]:
    """The dotted places of all fields and items of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[str] = []
    for key, inner in items:
        found += [f"{prefix}{key}", *places(inner, f"{prefix}{key}.")]
    return found


@given(st.sampled_from(places(GRAPH)), ANY_JSON | st.just(...))
def test_any_value_anywhere_in_a_graph_is_read_or_refused(place: str, value: Any) -> None:
    parses_or_is_refused(parse_graph, changed(GRAPH, place, value), GraphError)


@given(st.sampled_from(places(SPLIT)), ANY_JSON | st.just(...))
def test_any_value_anywhere_in_a_split_is_read_or_refused(place: str, value: Any) -> None:
    parses_or_is_refused(parse_split, changed(SPLIT, place, value), SplitError)


@given(st.binary(max_size=200) | st.text(st.characters(), max_size=200) | ANY_JSON.map(json.dumps))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    parses_or_is_refused(parse_graph, text, GraphError)
    parses_or_is_refused(parse_split, text, SplitError)


@given(st.integers(0, len(json.dumps(GRAPH)) - 1), st.integers(0, 255), st.booleans())
def test_a_truncated_or_damaged_file_is_read_or_refused(place: int, byte: int, truncate: bool) -> None:
    for document, parse, error in ((GRAPH, parse_graph, GraphError), (SPLIT, parse_split, SplitError)):
        text = json.dumps(document).encode()
        place %= len(text)
        if truncate:
            refusal(parse, text[:place], error)
        else:
            parses_or_is_refused(parse, text[:place] + bytes([byte]) + text[place + 1 :], error)
