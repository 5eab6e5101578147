"""The command line simulates a schedule, prints it and writes it as a trace."""

import json
from pathlib import Path

import pytest

from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment
from tests.support.command_line import Run, assert_refused
from tests.support.graphs import chain, training_chain


@pytest.fixture
def simulated(tmp_path: Path) -> tuple[Path, Path]:
    """A chain of three nodes on two accelerators: 3 ms and 3 ms of compute, 1 ms of transfer."""
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(graph, chain((1, 2, 3), transfer_ms=1), Deployment(2, 1))
    split.write_text('{"fpgas": [{"nodes": [1, 2]}, {"nodes": [3]}]}')
    return graph, split


def test_simulate_prints_period_makespan_bubbles_and_memory(placement: Run, simulated: tuple[Path, Path]) -> None:
    answer = placement("simulate", *simulated, "--schedule", "inference", "--micro-batches", 10)
    assert (answer.code, answer.err) == (0, "")
    document = answer.json
    assert document["schedule"] == "inference"
    assert document["micro_batches"] == 10
    assert document["period_ms"] == 4
    assert document["makespan_ms"] == 4 * 11
    assert [device["name"] for device in document["devices"]] == ["Accelerator 1", "Accelerator 2", "CPU 1"]
    assert document["devices"][0]["bubble_share"] == pytest.approx(1 / 11)
    assert document["devices"][2]["bubble_share"] is None
    assert [device["peak_memory_bytes"] for device in document["devices"]] == [2, 1, 0]
    assert "slots" not in document


def test_simulate_takes_a_split_with_an_entry_for_an_idle_device(
    placement: Run, simulated: tuple[Path, Path], tmp_path: Path
) -> None:
    graph, padded = simulated[0], tmp_path / "padded.json"
    padded.write_text('{"fpgas": [{"nodes": [1, 2]}, {"nodes": [3]}, {"nodes": []}]}')
    options = ("--devices", "1xa:speed=1+1xb:speed=1", "--schedule", "inference", "--micro-batches", 10)
    answer = placement("simulate", graph, padded, *options)
    assert answer.json == placement("simulate", *simulated, *options).json


def test_simulate_prints_all_slots_when_asked(placement: Run, simulated: tuple[Path, Path]) -> None:
    slots = placement("simulate", *simulated, "--schedule", "inference", "--micro-batches", 3, "--slots").json["slots"]
    assert len(slots) == 3 * 4  # compute and send, receive and compute
    assert {slot["kind"] for slot in slots} == {"compute", "send", "receive"}
    assert max(slot["end_ms"] for slot in slots) == 16
    assert {slot["micro_batch"] for slot in slots} == {0, 1, 2}


@pytest.mark.parametrize("kind", ["gpipe", "1f1b", "pipedream", "zb-h1", "unpipelined"])
def test_simulate_training_schedules(placement: Run, tmp_path: Path, kind: str) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(graph, training_chain((1, 2), (2, 4)), Deployment(2))
    split.write_text('{"fpgas": [{"nodes": [1]}, {"nodes": [2]}]}')
    document = placement("simulate", graph, split, "--schedule", kind, "--micro-batches", 8).json
    assert document["schedule"] == kind
    assert document["makespan_ms"] >= 8 * 6


def test_simulate_refuses_a_schedule_that_does_not_fit_the_graph(
    placement: Run, simulated: tuple[Path, Path], tmp_path: Path
) -> None:
    for kind in ("gpipe", "1f1b"):
        answer = placement("simulate", *simulated, "--schedule", kind, "--micro-batches", 2)
        assert_refused(answer, "no backward nodes")
    graph = tmp_path / "training.json"
    write_graph(graph, training_chain((1, 2, 1), (2, 4, 2)), Deployment(2))
    assert_refused(placement("simulate", graph, simulated[1], "--schedule", "inference", "--micro-batches", 2))


@pytest.mark.parametrize(("kind", "order"), [("interleaved", [0, 1, 0, 1]), ("zb-v", [0, 1, 1, 0])])
def test_simulate_cuts_a_pipeline_into_chunks_and_prints_them(
    placement: Run, tmp_path: Path, kind: str, order: list[int]
) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(graph, training_chain([1] * 4, [2] * 4, transfer_ms=0.5), Deployment(2))
    split.write_text('{"fpgas": [{"nodes": [1, 2]}, {"nodes": [3, 4]}]}')
    answer = placement("simulate", graph, split, "--schedule", kind, "--micro-batches", 8)
    assert (answer.code, answer.err) == (0, "")
    assert [chunk["device"] for chunk in answer.json["chunks"]] == order
    assert [chunk["nodes"] for chunk in answer.json["chunks"]] == [[1, 5], [2, 6], [3, 7], [4, 8]]
    shown = tmp_path / "looped.json"
    shown.write_text(json.dumps(answer.json["split"]))
    assert placement("evaluate", graph, shown).json["max_load_ms"] == answer.json["split"]["maxLoad"]
    assert answer.json["chunks_per_device"] == 2
    assert answer.json["makespan_ms"] >= answer.json["lower_bound_ms"] >= answer.json["load_bound_ms"]


def test_simulate_takes_a_share_of_weight_gradients_and_says_so(placement: Run, tmp_path: Path) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(graph, training_chain((1, 1), (4, 4)), Deployment(2))
    split.write_text('{"fpgas": [{"nodes": [1]}, {"nodes": [2]}]}')
    run = ("simulate", graph, split, "--schedule", "zb-h1", "--micro-batches", 2)
    document = placement(*run, "--weight-gradient-share", 0.25, "--slots").json
    weights = [slot for slot in document["slots"] if "weight-gradient" in slot.values()]
    assert [slot["end_ms"] - slot["start_ms"] for slot in weights] == [1.0] * 4
    assert any("25 %" in sentence for sentence in document["assumptions"])
    assert_refused(placement(*run, "--weight-gradient-share", 2), "give a share from 0 to 1")
    assert_refused(placement(*run, "--chunks", 2), "--chunks is for the schedules interleaved and zb-v, not for zb-h1")


def test_simulate_writes_a_trace_of_the_same_run(placement: Run, simulated: tuple[Path, Path], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    run = ("simulate", *simulated, "--schedule", "single-stream", "--micro-batches", 2, "--trace", trace)
    document = placement(*run).json
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in events) == 1000 * document["makespan_ms"]
    unwritable = placement(*run[:-1], "/dev/full")
    assert unwritable.code == 2
    assert "cannot be written" in unwritable.err
    assert unwritable.json == document
