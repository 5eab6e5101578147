"""The command line takes links of servers, overlap, replicas and the memory of a schedule."""

import json
from pathlib import Path

import pytest

from solvers.formats.graph_json import read_split, write_graph
from solvers.model.deployment import Deployment
from solvers.samples import read_sample
from tests.support.command_line import GIB, Run
from tests.support.graphs import chain


def test_links_within_servers_are_between_fast_and_slow_ones(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    output, devices = tmp_path / "split.json", ("--accelerators", "4", "--cpus", "0")
    servers = ("--accelerators-per-server", "2", "--server-link-speed", "4")
    slow = placement("solve", graph_file, *devices).json["value_ms"]
    fast = placement("solve", graph_file, *devices, "--bandwidth", "4x").json["value_ms"]
    solved = placement("solve", graph_file, *devices, *servers, "--output", output)
    assert fast * (1 - 1e-6) <= solved.json["lower_bound_ms"] <= solved.json["value_ms"] <= slow
    assert fast < slow
    evaluated = placement("evaluate", graph_file, output, *devices, *servers).json
    assert evaluated["max_load_ms"] == solved.json["value_ms"]
    refused = placement("solve", graph_file, *devices, *servers[:2])
    assert (refused.code, "--server-link-speed" in refused.err) == (2, True)


def test_a_file_that_has_servers_may_be_given_one_of_the_two(placement: Run, tmp_path: Path) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    deployment = Deployment(4, 0, accelerators_per_server=2, server_link_speed=2.0)
    write_graph(graph, chain((1.0, 1.0), transfer_ms=8.0), deployment)
    split.write_text('{"fpgas": [{"nodes": [1]}, {"nodes": [2]}]}')
    loads = [
        placement("evaluate", graph, split, *options).json["max_load_ms"]
        for options in ((), ("--server-link-speed", 8), ("--accelerators-per-server", 1))
    ]
    assert loads == [5.0, 2.0, 9.0]


def test_none_takes_the_limit_of_a_file_away(placement: Run, graph_file: Path) -> None:
    small = placement("solve", graph_file, "--accelerators", 2, "--cpus", 0, "--memory", 1.5)
    assert small.code == 3
    free = placement("solve", graph_file, "--accelerators", 1, "--cpus", 0, "--memory", "none")
    assert (free.code, free.json["devices"][0]["capacity_bytes"]) == (0, None)


def test_overlap_is_solved_and_evaluated(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "split.json"
    values = {}
    for communication in ("sum", "overlapped", "full-duplex"):
        solved = placement("solve", graph_file, "--communication", communication, "--output", output)
        assert (solved.code, solved.json["status"]) == (0, "OPTIMAL")
        evaluated = placement("evaluate", graph_file, output, "--communication", communication).json
        assert evaluated["max_load_ms"] == values.setdefault(communication, solved.json["value_ms"])
        assert evaluated["devices"] == solved.json["devices"]
    # The CPU takes 1, an accelerator {2, 3}: 5 ms of compute, 1 ms received, 2 ms sent; the other one 4.
    assert values == {"sum": 8, "overlapped": 5, "full-duplex": 7}


def test_replicas_are_evaluated_under_the_names_of_their_accelerators(
    placement: Run, graph_file: Path, tmp_path: Path
) -> None:
    split = tmp_path / "split.json"
    split.write_text('{"fpgas": [{"nodes": [1]}, {"nodes": [2, 3], "replicas": 2}], "cpus": [{"nodes": [4]}]}')
    answer = placement("evaluate", graph_file, split, "--accelerators", "4", "--max-replicas", "2")
    assert answer.json["violations"] == []
    devices = answer.json["devices"]
    assert [d["name"] for d in devices] == ["Accelerator 1", "Accelerators 2-3", "Accelerator 4", "CPU 1"]
    assert [d["replicas"] for d in devices] == [1, 2, 1, 1]
    # 2 and 3 compute 5 ms, receive the output of 1, send those of 2 and 3; nothing to sync in an inference graph
    assert [d["load_ms"] for d in devices] == [2, 4, 0, 16]
    assert [d["capacity_bytes"] for d in devices] == [3 * GIB, 3 * GIB, 3 * GIB, None]
    too_many = placement("evaluate", graph_file, split, "--accelerators", "2", "--max-replicas", "2")
    assert [violation["rule"] for violation in too_many.json["violations"]] == ["device count"]
    alone = placement("evaluate", graph_file, split, "--accelerators", "4")
    assert [violation["rule"] for violation in alone.json["violations"]] == ["replicas"]


def test_sync_bandwidth_reaches_the_evaluator(placement: Run, tmp_path: Path) -> None:
    graph_path, split = tmp_path / "graph.json", tmp_path / "split.json"
    placement("samples", "unet_operator_training", "--output", graph_path)
    ids = [node.id for node in read_sample("unet_operator_training")[0].nodes]
    split.write_text(json.dumps({"fpgas": [{"nodes": ids, "replicas": 2}]}))
    weights = sum(node.parameter_bytes or 0.0 for node in read_sample("unet_operator_training")[0].nodes)
    for options, gigabytes_per_s in ((("--sync-bandwidth", "50"), 50.0), ((), 12.6), (("--bandwidth", "2x"), 25.2)):
        answer = placement("evaluate", graph_path, split, "--max-replicas", "2", *options)
        assert answer.json["devices"][0]["sync_ms"] == pytest.approx(weights / (gigabytes_per_s * 1e6))


def test_a_schedules_memory_is_solved_and_shown(placement: Run, tmp_path: Path) -> None:
    graph_path, split_path = tmp_path / "graph.json", tmp_path / "split.json"
    placement("samples", "gpt2_xl_layer_training", "--output", graph_path)
    schedule = ("--memory-schedule", "1f1b", "--micro-batches", "8")
    plain = placement("solve", graph_path, "--output", split_path)
    evaluated = placement("evaluate", graph_path, split_path, *schedule)
    held = [device["memory_bytes"] for device in evaluated.json["devices"]]
    sizes = [device["memory_bytes"] for device in plain.json["devices"]]
    assert all(more >= less for more, less in zip(held, sizes, strict=True))
    assert sum(held) > sum(sizes)
    factor = placement("evaluate", graph_path, split_path, *schedule, "--state-factor", "8")
    assert [device["memory_bytes"] for device in factor.json["devices"]] == pytest.approx(held)
    inference = tmp_path / "inference.json"
    placement("samples", "unet_operator_inference", "--output", inference)
    answer = placement("solve", inference, *schedule)
    assert answer.json["status"] == "OPTIMAL"
    assert "no backward nodes" in answer.err


def test_replicated_stages_are_found_written_and_compared(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    options = ("--accelerators", "4", "--cpus", "0", "--memory", "8", "--max-replicas", "2")
    output = tmp_path / "split.json"
    solved = placement("solve", graph_file, *options, "--output", output).json
    assert solved["status"] == "OPTIMAL"
    assert max(device["replicas"] for device in solved["devices"]) == 2
    assert read_split(output).replicas == tuple(d["replicas"] for d in solved["devices"])
    assert placement("evaluate", graph_file, output, *options).json["max_load_ms"] == solved["value_ms"]
    compared = placement("compare", graph_file, *options, "--family", "chain", "--json").json
    assert compared["best_ms"] == solved["value_ms"]
    assert placement("solve", graph_file, *options[:-2]).json["value_ms"] > solved["value_ms"]
