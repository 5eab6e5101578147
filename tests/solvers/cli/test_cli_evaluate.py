"""The command line evaluates a split: costs, memory, latency and what it violates."""

import json
from pathlib import Path

import pytest

from solvers.formats.graph_json import read_split, split_document, write_graph
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.split import Family, Split, check_split
from solvers.samples import read_sample, sample_names
from tests.support.command_line import GIB, Run, assert_refused
from tests.support.graphs import chain, divided, training_chain


def test_evaluate_tells_what_each_end_of_a_cut_tensor_pays(placement: Run, tmp_path: Path) -> None:
    path, output = tmp_path / "graph.json", tmp_path / "split.json"
    deployment = Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1, link_speed=0.25)))
    write_graph(path, chain((4, 4)), deployment)
    output.write_text(json.dumps(split_document(Split((frozenset({1}), frozenset({2}))))))
    evaluated = placement("evaluate", path, output).json
    (tensor,) = evaluated["cut_tensors"]
    assert (tensor["out_ms"], tensor["in_ms"]) == (1.0, [4.0])
    assert [device["load_ms"] for device in evaluated["devices"]] == [4.0 + 1.0, 4.0 + 4.0]


def test_evaluate_and_explain_name_the_tensors_of_a_node(placement: Run, tmp_path: Path) -> None:
    path, output = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(path, divided(), Deployment(2))
    output.write_text(json.dumps(split_document(Split((frozenset({1, 2}), frozenset({3}))))))
    (tensor,) = placement("evaluate", path, output).json["cut_tensors"]
    assert (tensor["source"], tensor["tensor"], tensor["out_ms"]) == (1, "right", 3.0)
    assert "tensor 'right' of node 1 to" in placement("explain", path, output).out
    solved = placement("solve", path, "--accelerators", "2", "--family", "free").json
    assert solved["value_ms"] == 7.0


@pytest.mark.parametrize("name", sample_names())
def test_every_sample_solves_and_evaluates_to_the_same_value(placement: Run, tmp_path: Path, name: str) -> None:
    graph_path, split_path = tmp_path / "graph.json", tmp_path / "split.json"
    assert placement("samples", name, "--output", graph_path).code == 0
    solved = placement("solve", graph_path, "--output", split_path)
    assert solved.code == 0
    assert solved.err == ""
    assert solved.json["status"] == "OPTIMAL"
    evaluated = placement("evaluate", graph_path, split_path, "--family", "chain")
    assert evaluated.code == 0
    assert evaluated.json["max_load_ms"] == pytest.approx(solved.json["value_ms"], rel=1e-12)
    assert evaluated.json["violations"] == []
    graph, deployment = read_sample(name)
    split = read_split(split_path)
    assert not check_split(graph, deployment, split, Family.CHAIN)
    assert objective_value(graph, deployment, split, Objective.THROUGHPUT) == pytest.approx(solved.json["value_ms"])


def test_evaluate_prints_costs_memory_and_latency(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.json"
    split.write_text('{"fpgas": [{"nodes": [1, 2]}, {"nodes": [3]}], "cpus": [{"nodes": [4]}]}')
    document = placement("evaluate", graph_file, split).json
    # Accelerator 1 sends the outputs of 1 and 2; accelerator 2 receives that of 1 and sends that of 3.
    assert [(d["compute_ms"], d["in_ms"], d["out_ms"], d["load_ms"]) for d in document["devices"]] == [
        (3, 0, 2, 5),
        (3, 1, 1, 5),
        (16, 0, 0, 16),
    ]
    assert [d["memory_bytes"] for d in document["devices"]] == [2 * GIB, GIB, GIB]
    assert [d["capacity_bytes"] for d in document["devices"]] == [3 * GIB, 3 * GIB, None]
    assert document["max_load_ms"] == 16
    assert document["bottleneck"] == "CPU 1"
    assert document["latency_ms"] == 5 + 5 + 16
    assert document["gpipe_ms"] is None
    assert document["violations"] == []


def test_evaluate_names_violations_and_still_evaluates(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.json"
    split.write_text('{"fpgas": [{"nodes": [1, 4]}, {"nodes": [2, 3]}]}')
    answer = placement("evaluate", graph_file, split, "--family", "chain", "--memory", "1.5")
    assert answer.code == 0
    assert [violation["rule"] for violation in answer.json["violations"]] == ["memory", "memory", "chain"]
    assert answer.json["latency_ms"] is None  # the accelerators wait for each other
    assert answer.err.count("\n") == 3
    assert "Accelerator 1 is short by 0.5 GiB" in answer.err


def test_violations_name_the_devices_that_evaluate_lists(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    """Entries for idle devices may be left out of a split, and replicas take several accelerators."""
    split = tmp_path / "split.json"
    split.write_text('{"fpgas": [{"nodes": [2, 3]}], "cpus": [{"nodes": [1, 4]}]}')
    document = placement("evaluate", graph_file, split, "--accelerators", "4", "--family", "convex").json
    (violation,) = document["violations"]
    assert document["devices"][violation["device"]]["name"] == "CPU 1"
    split.write_text('{"fpgas": [{"nodes": [1, 2], "replicas": 3}, {"nodes": [3, 4]}]}')
    options = ("--accelerators", "4", "--cpus", "0", "--max-replicas", "3", "--memory", "1.5")
    answer = placement("evaluate", graph_file, split, *options)
    names = [device["name"] for device in answer.json["devices"]]
    assert names == ["Accelerators 1-3", "Accelerator 4"]
    assert "Each of accelerators 1-3 is short by 0.5 GiB" in answer.err
    assert "Accelerator 4 is short by 0.5 GiB" in answer.err
    answer = placement("evaluate", graph_file, split, *options[:4], "--max-replicas", "2")
    assert "Accelerators 1-3 are 3 replicas of one stage; up to 2 are allowed." in answer.err


def test_evaluate_a_training_graph_from_its_forward_part(placement: Run, tmp_path: Path) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(graph, training_chain((1, 2), (2, 4)), Deployment(2))
    split.write_text('{"fpgas": [{"nodes": [1]}, {"nodes": [2]}]}')
    document = placement("evaluate", graph, split).json
    assert (document["max_load_ms"], document["gpipe_ms"], document["latency_ms"]) == (6, 6, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"fpgas": [{"nodes": [1, 2, 3]}]}', "leaves out node 4"),
        ('{"fpgas": [{"nodes": [1, 2, 3, 4, 5]}]}', "places node 5, which the graph does not have"),
        ('{"fpgas": [{"nodes": [1, 2, 3, 4]}, {"nodes": [4]}]}', "on two devices"),
        ('{"fpgas": [{"nodes": [1, 1]}]}', "listed twice"),
        ('{"fpgas": {}}', "no list 'fpgas'"),
        ("[]", "must be an object"),
        ("", "is empty"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "simulate"])
def test_splits_that_do_not_fit_the_graph_are_refused(
    placement: Run, graph_file: Path, tmp_path: Path, command: str, text: str, words: str
) -> None:
    split = tmp_path / "split.json"
    split.write_text(text)
    options = ("--schedule", "inference", "--micro-batches", 2) if command == "simulate" else ()
    assert_refused(placement(command, graph_file, split, *options), words)
