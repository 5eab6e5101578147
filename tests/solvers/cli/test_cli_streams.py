"""Pipes, files that cannot be written, and what a run says of memory that does not suffice."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from solvers.cli import main as cli
from solvers.formats.graph_json import graph_text, write_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.samples import sample_text
from tests.support.command_line import Answer, Run
from tests.support.graphs import chain, training_chain

GIB = 2.0**30
GRAPH, DEPLOYMENT = chain((1, 2, 3), transfer_ms=1), Deployment(2, 1)
Type = Callable[[str], None]


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    write_graph(path, GRAPH, DEPLOYMENT)
    return path


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Type:
    """Have stdin give a text."""

    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


def assert_refused(answer: Answer, words: str) -> None:
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
    assert words in answer.err


# Pipes


def test_a_graph_is_read_from_a_pipe(placement: Run, graph_file: Path, typed: Type) -> None:
    typed(graph_text(GRAPH, DEPLOYMENT))
    piped, read = placement("solve", "-"), placement("solve", graph_file)
    assert piped.code == 0
    assert {**piped.json, "runtime_s": 0} == {**read.json, "runtime_s": 0}


@pytest.mark.parametrize("command", ["evaluate", "explain", "simulate"])
def test_a_split_is_read_from_a_pipe_as_it_is_or_within_an_answer(
    placement: Run, graph_file: Path, tmp_path: Path, typed: Type, command: str
) -> None:
    answer = placement("solve", graph_file, "--cpus", 0)
    (tmp_path / "split.json").write_text(json.dumps(answer.json["split"]))
    (tmp_path / "answer.json").write_text(answer.out)
    options = ("--schedule", "inference", "--micro-batches", 2) if command == "simulate" else ()
    plain = placement(command, graph_file, tmp_path / "split.json", *options)
    assert plain.code == 0
    assert placement(command, graph_file, tmp_path / "answer.json", *options) == plain
    typed(answer.out)
    assert placement(command, graph_file, "-", *options) == plain


def test_an_answer_without_a_plan_is_no_split(placement: Run, tmp_path: Path) -> None:
    path, answer = tmp_path / "graph.json", tmp_path / "answer.json"
    write_graph(
        path, DnnGraph(tuple(replace(node, memory_bytes=1.0) for node in GRAPH.nodes), ()), Deployment(1, 0, 2.0)
    )
    solved = placement("solve", path)
    assert solved.code == 3
    answer.write_text(solved.out)
    assert_refused(placement("evaluate", path, answer), 'without a split, its status "INFEASIBLE"')


def test_only_one_file_is_on_stdin(placement: Run, typed: Type) -> None:
    typed("{}")
    assert_refused(placement("evaluate", "-", "-"), "only one")
    typed("")
    assert_refused(placement("solve", "-"), "graph is empty")


@pytest.mark.parametrize("command", ["solve", "import"])
def test_a_closed_stdin_is_said(placement: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert_refused(placement(command, "-"), "stdin is closed; give a file by its name")


def test_what_would_be_a_file_goes_into_a_pipe(
    placement: Run, graph_file: Path, tmp_path: Path, typed: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert placement("samples", "teaching_chain", "--output", "-").out == sample_text("teaching_chain").decode()

    split = placement("solve", graph_file, "--output", "-")
    assert split.json == placement("solve", graph_file).json["split"]
    assert '"max_load_ms"' in evaluated(placement, graph_file, split.out, typed).out

    run = ("simulate", graph_file, "-", "--schedule", "inference", "--micro-batches", 2, "--trace", "-")
    typed(split.out)
    assert next(iter(placement(*run).json)) == "traceEvents"

    imported = placement("import", "gpt2-xl", "--output", "-")
    assert "nodes" in imported.json
    assert "parameters" in imported.err  # the totals that else are the answer

    swept = placement("sweep", graph_file, "--accelerators", "1:2", "--out", "-")
    assert swept.out.splitlines()[0].startswith("accelerators,")
    assert len(swept.out.splitlines()) == 3
    refused = placement("sweep", graph_file, "--accelerators", "1:2", "--out", "-", "--resume")
    assert_refused(refused, "--resume needs --output FILE")
    assert_refused(placement("reproduce", tmp_path, "--output", "-"), "a file")
    assert not Path("-").exists()


def evaluated(placement: Run, graph: Path, split: str, typed: Type) -> Answer:
    typed(split)
    return placement("evaluate", graph, "-")


def test_a_config_is_imported_from_a_pipe(placement: Run, typed: Type, tmp_path: Path) -> None:
    config = tmp_path / "model" / "config.json"
    config.parent.mkdir()
    config.write_text(
        json.dumps(
            {
                "model_type": "gpt2", "vocab_size": 100, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2,
            }
        )
    )  # fmt: skip
    read = placement("import", config, "--json").json
    typed(config.read_text())
    piped = placement("import", "-", "--json").json
    assert piped["totals"] == read["totals"]


# What cannot be written


@pytest.mark.parametrize("what", ["solve", "sweep", "simulate", "export", "import", "samples", "reproduce"])
def test_where_nothing_can_be_written_nothing_is_begun(
    placement: Run, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    split = tmp_path / "split.json"
    split.write_text(json.dumps(placement("solve", graph_file).json["split"]))

    def begun(*_: Any, **__: Any) -> Any:
        raise AssertionError("begun")

    monkeypatch.setattr(cli, "solve", begun)
    monkeypatch.setattr("solvers.cli.sweep.run_sweep", begun)
    monkeypatch.setattr("solvers.cli.simulate.simulate", begun)
    command: dict[str, tuple[object, ...]] = {
        "solve": ("solve", graph_file, "--output"),
        "sweep": ("sweep", graph_file, "--accelerators", "1:2", "--out"),
        "simulate": ("simulate", graph_file, split, "--schedule", "inference", "--micro-batches", 2, "--trace"),
        "export": ("export", graph_file, split, "--to", "torch-pipelining", "--output"),
        "import": ("import", "gpt2-xl", "--output"),
        "samples": ("samples", "teaching_chain", "--output"),
        "reproduce": ("reproduce", tmp_path, "--output"),
    }
    (tmp_path / "folder.csv").mkdir()
    for path, reason in (
        (tmp_path / "none" / "file.csv", "No such file or directory"),
        (tmp_path / "folder.csv", "Is a directory"),
        (tmp_path / "graph.json" / "file.csv", "Not a directory"),
        ("file\0.csv", "not a usable path"),
    ):
        answer = placement(*command[what], path)
        assert_refused(answer, "cannot be written")
        assert reason in answer.err


def test_a_full_device_loses_neither_answer_nor_sentence(placement: Run, graph_file: Path) -> None:
    answer = placement("solve", graph_file, "--output", "/dev/full")
    assert answer.code == 2
    assert answer.json["status"] == "OPTIMAL"
    assert answer.err == 'placement: "/dev/full" cannot be written: No space left on device.\n'


# Memory


def test_memory_that_overflows_is_said_and_strict_has_its_own_code(placement: Run, tmp_path: Path) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    nodes = tuple(replace(node, memory_bytes=GIB) for node in GRAPH.nodes)
    write_graph(graph, DnnGraph(nodes, GRAPH.edges), Deployment(2, 0, 1.5 * GIB))
    split.write_text('{"fpgas": [{"nodes": [1, 2]}, {"nodes": [3]}]}')
    run = ("simulate", graph, split, "--schedule", "inference", "--micro-batches", 3)
    for command in (("evaluate", graph, split), run):
        plain, strict = placement(*command), placement(*command, "--strict")
        assert (plain.code, strict.code) == (0, 5)
        assert (plain.out, plain.err) == (strict.out, strict.err)
        assert "holds 2 GiB" in plain.err
        assert "1.5 GiB" in plain.err
        assert [placement(*command, "--memory", 2, *strict) for strict in ((), ("--strict",))] == [
            Answer(0, placement(*command, "--memory", 2).out, "")
        ] * 2


def test_memory_that_only_the_schedule_overflows_is_said(placement: Run, tmp_path: Path) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    training = training_chain((1, 2), (2, 4))
    nodes = tuple(replace(node, memory_bytes=GIB, activation_bytes=GIB / 2) for node in training.nodes)
    write_graph(graph, replace(training, nodes=nodes), Deployment(2, 0, 3 * GIB))
    split.write_text('{"fpgas": [{"nodes": [1, 3]}, {"nodes": [2, 4]}]}')
    assert placement("evaluate", graph, split, "--strict").code == 0
    answer = placement("simulate", graph, split, "--schedule", "gpipe", "--micro-batches", 8, "--strict")
    assert answer.code == 5
    # One GiB of weights, the backward node's GiB, and half a GiB for each of eight micro-batches.
    assert answer.err.splitlines() == [
        f"placement: Accelerator {d} holds up to 5.5 GiB under this schedule, but 3 GiB are available." for d in (1, 2)
    ]
    assert [device["peak_memory_bytes"] for device in answer.json["devices"]] == [5.5 * GIB] * 2


# Others


def test_version(placement: Run) -> None:
    answer = placement("--version")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"placement {version('dnn-placement-explorer')}\n"


def test_identical_edges_are_joined_and_said(placement: Run, graph_file: Path) -> None:
    once = placement("solve", graph_file).json
    document = json.loads(graph_file.read_text())
    document["edges"].append(document["edges"][0])
    graph_file.write_text(json.dumps(document))
    twice = placement("solve", graph_file)
    assert (twice.code, twice.json["value_ms"]) == (0, once["value_ms"])
    assert twice.err == "placement: 1 repeated edge with the same numbers counts once: edges[2] from 1 to 2.\n"
    document["edges"] += document["edges"]
    graph_file.write_text(json.dumps(document))
    assert placement("solve", graph_file).err == (
        "placement: 4 repeated edges with the same numbers count once: edges[2] from 1 to 2, and others.\n"
    )
    document["edges"][-1] = {**document["edges"][-1], "size": 5.0}
    graph_file.write_text(json.dumps(document))
    assert "edge 1 -> 2 is listed twice" in placement("solve", graph_file).err
