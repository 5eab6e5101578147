"""The command line refuses files that are no graphs and options that make no sense in one sentence."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from solvers.cli import main as cli
from solvers.formats.graph_json import graph_document, write_graph
from solvers.model.deployment import Deployment
from solvers.model.result import SolveResult
from tests.support.command_line import Run, assert_refused
from tests.support.graphs import diamond, training_chain


def changed(change: Callable[[dict[str, Any]], None]) -> str:
    document = graph_document(diamond(), Deployment(2))
    change(document)
    return json.dumps(document)


def set_node(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["nodes"][0].update(fields)


def set_edge(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["edges"][0].update(fields)


WHOLE = json.dumps(graph_document(diamond(), Deployment(2)))


MALFORMED: dict[str, tuple[str, str]] = {
    "truncated": (WHOLE[: len(WHOLE) // 2], "not valid JSON"),
    "empty file": ("", "is empty"),
    "no object": ("[1, 2]", "must be an object"),
    "text": ("hello", "not valid JSON"),
    "cycle": (
        changed(lambda d: d["edges"].append({"sourceId": 4, "destId": 1, "cost": 1.0})),
        "cycle",
    ),
    "edge to itself": (changed(set_edge(destId=1)), "cycle: 1 -> 1"),
    "unknown id": (changed(set_edge(destId=99)), "there is no node 99"),
    "duplicate id": (changed(set_node(id=2)), "used twice"),
    "duplicate edge": (changed(set_edge(destId=3, size=1.0)), "listed twice"),
    "negative time": (changed(set_node(fpgaLatency=-1)), "finite number from 0"),
    "NaN time": (changed(set_node(cpuLatency=math.nan)), "finite number from 0"),
    "infinite time": (changed(set_node(cpuLatency=math.inf)), "finite number from 0"),
    "huge number": (WHOLE.replace('"fpgaLatency": 1.0', '"fpgaLatency": 1e999', 1), "finite number from 0"),
    "time as text": (changed(set_node(fpgaLatency="1")), "give a number"),
    "negative size": (changed(set_node(size=-5)), "finite number from 0"),
    "negative cost": (changed(set_edge(cost=-1)), "finite number from 0"),
    "missing field": (changed(lambda d: d["nodes"][0].pop("cpuLatency")), "'cpuLatency' is missing"),
    "missing edges": (changed(lambda d: d.pop("edges")), "'edges' is missing"),
    "missing devices": (changed(lambda d: d.pop("maxFPGAs")), "'maxFPGAs' is missing"),
    "negative devices": (changed(lambda d: d.update(maxFPGAs=-1)), "number from 0"),
    "different costs": (changed(set_edge(cost=7)), "the same cost"),
    "empty graph": (changed(lambda d: d.update(nodes=[], edges=[])), "no nodes"),
    "id as text": (changed(set_node(id="one")), "whole number"),
    "nested deeply": ("[" * 100_000, "nested too deeply"),
    "field twice": ('{"nodes": [], "nodes": []}', "twice"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_graphs_are_refused_in_one_sentence(placement: Run, tmp_path: Path, name: str) -> None:
    text, words = MALFORMED[name]
    path = tmp_path / "graph.json"
    path.write_text(text)
    assert_refused(placement("solve", path), words)


@pytest.mark.parametrize("command", ["solve", "evaluate", "simulate"])
def test_files_that_cannot_be_read_are_refused(placement: Run, tmp_path: Path, command: str) -> None:
    others: tuple[object, ...] = ()
    if command != "solve":
        others = (tmp_path / "split.json",)
    if command == "simulate":
        others += ("--schedule", "inference", "--micro-batches", "2")
    assert_refused(placement(command, tmp_path / "missing.json", *others), "No such file")
    assert_refused(placement(command, tmp_path, *others), "directory")
    assert_refused(placement(command, "graph\0.json", *others), "not a usable path")
    binary = tmp_path / "binary.json"
    binary.write_bytes(bytes(range(128, 256)))
    assert_refused(placement(command, binary, *others))


@pytest.mark.parametrize("piece", [b"x", b"[", b'{"nodes": ', b"1", b" ", b"\0", b"[1],"])
def test_50_megabytes_of_nonsense_are_refused(placement: Run, tmp_path: Path, piece: bytes) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(piece * (50_000_000 // len(piece)))
    assert_refused(placement("solve", path))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "required: COMMAND"),
        (("place",), "invalid choice"),
        (("solve",), "required: GRAPH.json"),
        (("solve", "GRAPH", "--objective", "speed"), '"speed" is none of throughput, gpipe, latency'),
        (("solve", "GRAPH", "--method", "magic"), '"magic" is none of auto, dp, ip'),
        (("solve", "GRAPH", "--family", "tree"), '"tree" is none of chain, convex, free'),
        (("solve", "GRAPH", "--accelerators", "-1"), "whole number from 0 to 1,024"),
        (("solve", "GRAPH", "--accelerators", "2.5"), "whole number from 0 to 1,024"),
        (("solve", "GRAPH", "--accelerators", "9" * 5000), "whole number from 0 to 1,024"),
        (("solve", "GRAPH", "--cpus", "1025"), "whole number from 0 to 1,024"),
        (("solve", "GRAPH", "--subgraphs", "0"), "whole number from 1 to 64"),
        (("solve", "GRAPH", "--memory", "nan"), "give a number from 0"),
        (("solve", "GRAPH", "--memory", "lots"), "give a number from 0"),
        (("solve", "GRAPH", "--memory", "1e300"), "give a number from 0"),
        (("solve", "GRAPH", "--bandwidth", "x"), "such as 2x"),
        (("solve", "GRAPH", "--bandwidth=-2x"), "such as 2x"),
        (("solve", "GRAPH", "--bandwidth", "infx"), "such as 2x"),
        (("solve", "GRAPH", "--bandwidth", "1e-320x"), "it must be a number from 0"),
        (("solve", "GRAPH", "--time-limit", "0"), "give a number above 0"),
        (("solve", "GRAPH", "--gap", "1"), "share from 0"),
        (("solve", "GRAPH", "--gap", "-0.1"), "share from 0"),
        (("solve", "GRAPH", "--magic"), "--magic"),
        (("solve", "GRAPH", "--objective", "gpipe"), "no backward nodes"),
        (("solve", "GRAPH", "--objective", "latency", "--method", "dp"), "does not solve objective latency"),
        (("solve", "GRAPH", "--family", "free", "--method", "dp"), "pipeline splits"),
        (("evaluate", "GRAPH"), "required: SPLIT.json"),
        (("simulate", "GRAPH", "S"), "required: --schedule, --micro-batches"),
        (("simulate", "GRAPH", "S", "--schedule", "fast", "--micro-batches", "1"), '"fast" is none of'),
        (("simulate", "GRAPH", "S", "--schedule", "gpipe", "--micro-batches", "0"), "whole number from 1 to 10,000"),
        (("simulate", "GRAPH", "S", "--schedule", "gpipe", "--micro-batches", "1e9"), "whole number from 1 to 10,000"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    placement: Run, graph_file: Path, options: tuple[str, ...], words: str
) -> None:
    assert_refused(placement(*(graph_file if option == "GRAPH" else option for option in options)), words)


def test_latency_of_a_training_graph_is_refused(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    write_graph(path, training_chain((1,), (1,)), Deployment(1))
    assert_refused(placement("solve", path, "--objective", "latency"), "defined for inference graphs")


def test_bugs_travel(graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> SolveResult:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "solve", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["solve", str(graph_file)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sync-bandwidth", "10"), "--sync-bandwidth says nothing without --max-replicas"),
        (("--micro-batches", "4"), "--micro-batches says nothing without --memory-schedule"),
        (("--state-factor", "4"), "--state-factor says nothing without --memory-schedule"),
        (("--memory-schedule", "gpipe"), "--memory-schedule says nothing without --micro-batches"),
        (("--communication", "telepathy"), '"telepathy" is none of sum, overlapped, full-duplex'),
        (("--max-replicas", "0"), "out of range"),
        (("--memory-schedule", "gpipe", "--micro-batches", "4", "--state-factor", "0.5"), "give a number from 1"),
    ],
)
def test_model_options_that_make_no_sense_are_refused(
    placement: Run, graph_file: Path, options: tuple[str, ...], words: str
) -> None:
    assert_refused(placement("solve", graph_file, *options), words)
