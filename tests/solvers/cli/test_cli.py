"""The command line keeps its contract: JSON on stdout, sentences on stderr, exit codes 0, 2, 3 and 4."""

import json
import math
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solvers.cli import main as cli
from solvers.formats.graph_json import graph_document, read_split, split_document, write_graph
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph
from solvers.model.result import Progress, SolveCancelled, SolveResult, SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.samples import read_sample, sample_names, sample_text
from tests.support.command_line import Answer, Run
from tests.support.graphs import chain, dag, diamond, divided, training_chain

GIB = 2.0**30


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    """A diamond with times 1, 2, 3, 4 on two accelerators of 3 GiB, one GiB a node, and a CPU."""
    path = tmp_path / "diamond.json"
    write_graph(path, diamond_of_gibs(), Deployment(2, 1, 3 * GIB))
    return path


def diamond_of_gibs() -> DnnGraph:
    graph = diamond()
    return DnnGraph(tuple(replace(node, memory_bytes=GIB) for node in graph.nodes), graph.edges)


def assert_refused(answer: Answer, words: str = "") -> None:
    """Bad input: code 2, nothing on stdout, one sentence on stderr that holds `words`."""
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("placement")
    assert answer.err.endswith((".\n", ".)\n"))
    assert "Traceback" not in answer.err
    assert len(answer.err) < 700
    assert words in answer.err


# solve


def test_solve_prints_the_fields_of_the_contract(placement: Run, graph_file: Path) -> None:
    answer = placement("solve", graph_file)
    assert answer.code == 0
    assert answer.err == ""
    document = answer.json
    assert {"status", "method", "objective", "value_ms", "lower_bound_ms", "gap", "runtime_s", "split"} <= set(document)
    assert document["status"] == "OPTIMAL"
    assert document["method"] == "dp"
    assert document["objective"] == "throughput"
    assert document["lower_bound_ms"] == pytest.approx(document["value_ms"], rel=1e-6)
    assert 0 <= document["gap"] <= 1e-6
    assert 0 <= document["runtime_s"] < 60
    assert [len(document["split"][kind]) for kind in ("fpgas", "cpus")] == [2, 1]
    placed = [v for kind in ("fpgas", "cpus") for device in document["split"][kind] for v in device["nodes"]]
    assert sorted(placed) == [1, 2, 3, 4]
    assert document["split"]["maxLoad"] == document["value_ms"]
    loads = [device["load"] for kind in ("fpgas", "cpus") for device in document["split"][kind]]
    assert max(loads) == document["value_ms"]


def test_a_baselines_plan_that_breaks_a_rule_is_told_apart_from_an_answer(
    placement: Run, graph_file: Path, tmp_path: Path
) -> None:
    answer = placement("solve", graph_file, "--method", "single", "--memory", "2", "--accelerators", "3")
    assert answer.code == 4
    assert answer.json["split"] is None
    assert answer.json["rejected"]["value_ms"] == 10.0
    assert [violation["rule"] for violation in answer.json["rejected"]["violations"]] == ["memory"]
    assert "short by" in answer.err

    split = tmp_path / "expert.json"
    split.write_text('{"fpgas": [{"nodes": [1, 2]}, {"nodes": [3, 4]}], "cpus": []}', encoding="utf-8")
    answer = placement("solve", graph_file, "--method", "expert", "--expert", split)
    assert (answer.code, answer.json["rejected"]) == (0, None)
    assert [device["nodes"] for device in answer.json["split"]["fpgas"]] == [[1, 2], [3, 4]]
    assert_refused(placement("solve", graph_file, "--method", "expert"), "--expert SPLIT.json")
    assert_refused(placement("solve", graph_file, "--expert", split), "--method expert")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ("dp", "throughput", "chain")),
        (("--method", "dp"), ("dp", "throughput", "chain")),
        (("--method", "ip"), ("ip", "throughput", "chain")),
        (("--family", "convex"), ("ip", "throughput", "convex")),
        (("--family", "free", "--method", "ip"), ("ip", "throughput", "free")),
        (("--objective", "latency"), ("ip", "latency", "free")),
        (("--objective", "latency", "--method", "ip", "--family", "chain"), ("ip", "latency", "free")),
    ],
)
def test_options_reach_the_solver(
    placement: Run, graph_file: Path, options: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    document = placement("solve", graph_file, *options).json
    assert (document["method"], document["objective"], document["family"]) == expected
    assert document["status"] == "OPTIMAL"


def test_gpipe_of_a_training_graph(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "training.json"
    write_graph(path, training_chain((1, 2, 3), (2, 4, 6)), Deployment(2))
    document = placement("solve", path, "--objective", "gpipe").json
    assert document["value_ms"] == 3 + 6


def test_device_options_replace_what_the_file_says(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    write_graph(path, chain((4, 4, 4, 4), transfer_ms=1), Deployment(4, 0, 100.0))

    def value(*options: str) -> float:
        return float(placement("solve", path, *options).json["value_ms"])

    assert value() == 6.0  # a middle node, receiving and sending
    assert value("--accelerators", "2") == 9.0
    assert value("--accelerators", "2", "--bandwidth", "2x") == 8.5
    assert value("--accelerators", "2", "--bandwidth", "0.5X") == 10.0
    assert value("--accelerators", "1") == 16.0
    assert value("--accelerators", "0", "--cpus", "1") == 64.0
    assert value("--accelerators", "1", "--memory", str(2 / GIB), "--cpus", "1") == 4 * 2 * 4
    assert len(placement("solve", path, "--accelerators", "7", "--cpus", "2").json["split"]["fpgas"]) == 7


def test_subgraphs_on_the_command_line(placement: Run, tmp_path: Path) -> None:
    graph = chain((2, 1, 2), transfer_ms=0.5)
    nodes = tuple(replace(node, runs_on_accelerator=node.id != 2) for node in graph.nodes)
    path, output = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(path, DnnGraph(nodes, graph.edges), Deployment(1, 1))
    assert placement("solve", path, "--objective", "latency").json["value_ms"] == 2 + 0.5 + 4 + 8
    answer = placement("solve", path, "--objective", "latency", "--subgraphs", "2", "--output", output)
    assert answer.json["value_ms"] == 2 + 0.5 + 4 + 0.5 + 2
    assert json.loads(output.read_text())["fpgas"][0]["subgraphs"] == [[1], [3]]
    assert placement("evaluate", path, output, "--subgraphs", "2").json["latency_ms"] == 9.0
    assert "1 are allowed" in placement("evaluate", path, output).out


def test_bandwidth_in_gb_per_second(placement: Run, tmp_path: Path) -> None:
    graph = chain((4, 4), transfer_ms=1)
    edges = tuple(replace(edge, size_bytes=2e6) for edge in graph.edges)  # 2 MB in 1 ms: 2 GB/s
    path = tmp_path / "bytes.json"
    write_graph(path, DnnGraph(graph.nodes, edges), Deployment(2))
    assert placement("solve", path).json["value_ms"] == 5.0
    assert placement("solve", path, "--bandwidth", "2").json["value_ms"] == pytest.approx(5.0)
    assert placement("solve", path, "--bandwidth", "4").json["value_ms"] == pytest.approx(4.5)


def test_bandwidth_without_bytes_names_the_remedy(placement: Run, graph_file: Path) -> None:
    assert_refused(placement("solve", graph_file, "--bandwidth", "16"), "such as 2x")


def test_infeasible_is_3_with_its_reason_and_a_null_value(placement: Run, graph_file: Path) -> None:
    answer = placement("solve", graph_file, "--memory", "1.5", "--cpus", "0")
    assert answer.code == 3
    assert answer.err == "placement: The graph needs 4 GiB, 2 × 1.5 GiB available; add accelerators, memory or a CPU.\n"
    document = answer.json
    assert document["status"] == "INFEASIBLE"
    assert [document[key] for key in ("value_ms", "lower_bound_ms", "gap", "split")] == [None] * 4
    assert document["message"] in answer.err


def test_infeasible_writes_no_split(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "split.json"
    assert placement("solve", graph_file, "--memory", "1.5", "--cpus", "0", "--output", output).code == 3
    assert not output.exists()


def test_nothing_found_in_time_is_4(
    placement: Run, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(graph: DnnGraph, deployment: Deployment, **options: Any) -> SolveResult:
        return SolveResult(
            SolveStatus.UNKNOWN, "ip", options["objective"], options["family"], None, None, 2.5, 0.1, "Nothing in time."
        )

    monkeypatch.setattr(cli, "solve", give_up)
    answer = placement("solve", graph_file, "--output", tmp_path / "split.json")
    assert answer.code == 4
    assert answer.err == "placement: Nothing in time.\n"
    assert answer.json["status"] == "UNKNOWN"
    assert answer.json["lower_bound_ms"] == 2.5
    assert answer.json["split"] is None
    assert not (tmp_path / "split.json").exists()


def test_a_real_search_that_finds_nothing_in_time_is_4(placement: Run, tmp_path: Path) -> None:
    # Bin packing without slack: 8 accelerators must be filled to the last byte.
    sizes = [(37 * i) % 61 + 40.0 for i in range(32)]
    graph = dag((1.0,) * 32, [(i, i + 1) for i in range(1, 32)], memory_bytes=sizes)
    path = tmp_path / "tight.json"
    write_graph(path, graph, Deployment(8, 0, math.ceil(sum(sizes) / 8)))
    answer = placement("solve", path, "--family", "free", "--time-limit", "1e-6")
    assert answer.code == 4
    assert answer.json["status"] == "UNKNOWN"
    assert answer.json["value_ms"] is None
    assert answer.err.startswith("placement: No plan was found in time")


def test_time_limit_and_gap_reach_the_solver(placement: Run, graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    real_solve = cli.solve

    def listen(*arguments: Any, **options: Any) -> SolveResult:
        asked.update(options)
        return real_solve(*arguments, **options)

    monkeypatch.setattr(cli, "solve", listen)
    placement("solve", graph_file)
    assert (asked["time_limit_s"], asked["gap"]) == (60.0, 0.0)
    placement("solve", graph_file, "--time-limit", "2.5", "--gap", "0.01")
    assert (asked["time_limit_s"], asked["gap"]) == (2.5, 0.01)


def test_progress_goes_to_stderr(placement: Run, graph_file: Path) -> None:
    answer = placement("solve", graph_file, "--progress")
    assert answer.code == 0
    assert "value 8 ms" in answer.err
    assert answer.json["status"] == "OPTIMAL"


def test_output_is_a_split_that_evaluates_to_the_same_value(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "split.json"
    solved = placement("solve", graph_file, "--output", output)
    assert json.loads(output.read_text()) == solved.json["split"]
    evaluated = placement("evaluate", graph_file, output)
    assert evaluated.code == 0
    assert evaluated.err == ""
    assert evaluated.json["max_load_ms"] == solved.json["value_ms"]
    assert evaluated.json["violations"] == []


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


# evaluate


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


# simulate


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


# samples


def test_samples_lists_all(placement: Run) -> None:
    listed = placement("samples").json
    assert [sample["name"] for sample in listed] == list(sample_names())
    assert all(sample["title"] and sample["description"] for sample in listed)


def test_samples_prints_or_writes_one(placement: Run, tmp_path: Path) -> None:
    text = sample_text("teaching_chain").decode()
    assert placement("samples", "teaching_chain").out == text
    path = tmp_path / "sample.json"
    answer = placement("samples", "teaching_chain", "--output", path)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert path.read_text() == text


def test_samples_refuses_what_it_cannot_do(placement: Run, tmp_path: Path) -> None:
    assert_refused(placement("samples", "no_such"), "no sample 'no_such'")
    assert_refused(placement("samples", "--output", tmp_path / "f"), "needs the name of an example")
    assert_refused(placement("samples", "teaching_chain", "--output", tmp_path), "cannot be written")


# Files that are no graphs


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


# Options


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


def test_help_of_every_command_names_its_options(placement: Run) -> None:
    for command, word in (
        ((), "samples"),
        (("solve",), "--bandwidth GB/S"),
        (("evaluate",), "SPLIT.json"),
        (("simulate",), "--micro-batches M"),
        (("samples",), "--output FILE"),
    ):
        answer = placement(*command, "--help")
        assert answer.code == 0
        assert word in answer.out


def test_bugs_travel(graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> SolveResult:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "solve", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["solve", str(graph_file)])


# Ctrl-C and pipes


def test_first_interrupt_ends_the_solve_with_what_is_known(
    placement: Run, graph_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_solve = cli.solve
    handler = signal.getsignal(signal.SIGINT)

    def interrupted(*arguments: Any, on_progress: Callable[[Progress], None], **options: Any) -> SolveResult:
        def report(progress: Progress) -> None:
            if progress.incumbent_ms is not None:
                os.kill(os.getpid(), signal.SIGINT)
            on_progress(progress)

        return real_solve(*arguments, on_progress=report, **options)

    monkeypatch.setattr(cli, "solve", interrupted)
    answer = placement("solve", graph_file, "--method", "ip", "--family", "free")
    assert answer.code == 0
    assert answer.err == "placement: Cancelled; the best plan so far is kept.\n"
    assert answer.json["split"] is not None
    assert signal.getsignal(signal.SIGINT) is handler


def test_second_interrupt_ends_the_program(placement: Run, graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any, on_progress: Callable[[Progress], None], **__: Any) -> SolveResult:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(SolveCancelled):
            on_progress(Progress(0.0, None, None, "busy"))
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second Ctrl-C interrupts")

    monkeypatch.setattr(cli, "solve", busy)
    answer = placement("solve", graph_file)
    assert (answer.code, answer.out, answer.err) == (4, "", "placement: interrupted.\n")


# communication, replicas, memory


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


# Real devices.


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    path = tmp_path / "llama.json"
    path.write_bytes(sample_text("llama3_8b_layer_inference"))
    return path


def test_a_graph_is_solved_on_a_device_of_the_catalogue(placement: Run, llama: Path) -> None:
    on_t4 = placement("solve", llama, "--accelerators", 8)
    on_h100 = placement("solve", llama, "--accelerators", 8, "--device", "h100-sxm", "--link", "nvlink4")
    assert (on_t4.code, on_h100.code) == (0, 0)
    assert on_h100.json["devices"][0]["capacity_bytes"] == 80e9
    # Faster by no less than the bandwidths and no more than the peaks and what links add.
    assert 3350 / 320 < on_t4.json["value_ms"] / on_h100.json["value_ms"] < 1.1 * 989.4 / 65
    assert on_h100.err.splitlines() == [
        "placement: Times on H100-SXM (fp16): roofline at 50 % of peak FLOP/s and 75 % of memory bandwidth.",
        "placement: Transfers over NVLink 4 (H100, H200) at 450 GB/s, its raw speed.",
    ]
    assert "placement: Times" not in on_t4.err
    assert on_h100.json["hardware"] == [line.removeprefix("placement: ") for line in on_h100.err.splitlines()]
    assert "hardware" not in on_t4.json


def test_a_cluster_is_evaluated_with_the_times_of_each_kind(placement: Run, llama: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.json"
    assert placement("solve", llama, "--accelerators", 2, "--memory", 90, "--output", split).code == 0
    cluster = "1xA100-80:link=nvlink3+1xT4:link=pcie3-x16"
    on = placement("evaluate", llama, split, "--devices", cluster).json["devices"]
    relative = placement("evaluate", llama, split, "--devices", "1xbig:speed=4+1xsmall:speed=1,memory=16GB").json
    assert [device["name"] for device in on] == ["A100-80 1", "T4 1", "CPU 1"]
    assert [device["capacity_bytes"] for device in on] == [80e9, 16e9, None]
    assert [device["capacity_bytes"] for device in relative["devices"]] == [None, 16e9, None]
    times = [device["compute_ms"] for device in on[:2]]
    alone = [
        placement("evaluate", llama, split, "--device", name).json["devices"][d]["compute_ms"]
        for d, name in enumerate(("A100-80", "T4"))
    ]
    assert times == pytest.approx(alone)
    assert relative["devices"][0]["compute_ms"] * 4 == pytest.approx(
        placement("evaluate", llama, split).json["devices"][0]["compute_ms"]
    )


def test_devices_relative_to_the_files_times_say_so(placement: Run, llama: Path) -> None:
    answer = placement("solve", llama, "--cpus", 0, "--devices", "2xbig:memory=80GB+2xsmall:speed=0.25")
    said = "Devices relative to the file's times: big 1 times as fast, small 0.25 times; no memory limit for small."
    assert answer.err == f"placement: {said}\n"
    assert answer.json["hardware"] == [said]


def test_the_speed_of_links_is_said_unless_bandwidth_sets_it(placement: Run, llama: Path) -> None:
    def said(*options: str) -> str:
        return placement("solve", llama, "--cpus", 0, "--device", "H100-SXM", *options).err

    kept = "Transfers of H100-SXM over links as in the file, 12.6 GB/s; name one of its own"
    assert kept in said()
    assert "Transfers" not in said("--bandwidth", "25")
    assert kept in said("--bandwidth", "2x")
    assert said("--bandwidth", "2x").endswith("placement: --bandwidth multiplies the speeds of these links.\n")
    assert "stay those of the file, in fp16" in said("--precision", "fp8")
    assert "does not list nvlink3 for H100-SXM" in said("--link", "nvlink3")


def test_all_links_of_a_cluster_may_be_a_multiple_of_theirs(placement: Run, llama: Path, tmp_path: Path) -> None:
    split, cluster = tmp_path / "split.json", "1xA100-80:link=nvlink3+1xT4:link=pcie3-x16"
    assert placement("solve", llama, "--devices", cluster, "--output", split).code == 0
    once, twice = (
        [
            (device["in_ms"], device["out_ms"])
            for device in placement("evaluate", llama, split, "--devices", cluster, *factor).json["devices"]
        ]
        for factor in ((), ("--bandwidth", "2x"))
    )
    assert twice == [(pytest.approx(a / 2), pytest.approx(b / 2)) for a, b in once]
    assert any(a + b for a, b in once)


def test_options_beat_what_a_device_brings(placement: Run, llama: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.json"
    asked = ("--device", "A100-80", "--memory", 20, "--accelerators", 2, "--precision", "tf32")
    solved = placement("solve", llama, *asked, "--output", split)
    assert solved.json["devices"][0]["capacity_bytes"] == 20 * GIB
    again = placement("evaluate", llama, split, *asked)
    assert again.json["max_load_ms"] == pytest.approx(solved.json["value_ms"])
    assert "(tf32)" in again.err


def test_a_file_of_ones_own_devices(placement: Run, llama: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"accelerators": [{"name": "T4", "memoryGB": 99}]}', encoding="utf-8")
    solved = placement("solve", llama, "--device", "T4", "--catalogue", mine)
    assert solved.json["devices"][0]["capacity_bytes"] == 99e9
    assert "given by the user" in placement("devices", "T4", "--catalogue", mine).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "X9"], 'There is no accelerator "X9" in the catalogue; it has V100-16'),
        (["--device", "T4", "--precision", "bf16"], "T4 has no published peak in bf16"),
        (["--device", "T4", "--precision", "fp12"], '"fp12" is no precision'),
        (["--device", "T4", "--link", "rope"], 'There is no link "rope"'),
        (["--device", "T4", "--link", "nvlink3", "--bandwidth", "3"], "--link and --bandwidth both set"),
        (["--link", "nvlink3"], "--link says nothing without --device"),
        (["--host", "Xeon-6148", "--link", "nvlink3"], "--link says nothing without --device"),
        (["--devices", "2xT4+"], '"" is not a device type'),
        (["--devices", "2xT4", "--device", "T4"], "leave --device out"),
        (["--devices", "2xT4", "--accelerators", "3"], "leave --accelerators out"),
        (["--devices", "2xT4", "--memory", "3"], "leave --memory out"),
        (["--devices", "2xT4:link=pcie3-x16", "--bandwidth", "3"], "give one, or a multiple such as 2x"),
        (
            ["--devices", "2xH100"],
            'no accelerator "H100" in the catalogue; the nearest names are H100-SXM and H100-PCIe',
        ),
        (["--devices", "2xA100-80+4xT5"], 'no accelerator "T5" in the catalogue'),
        (["--devices", "2xH100+4xL40"], 'no accelerator "H100" in the catalogue'),
        (["--devices", "2xA100-80:speed=2"], "A100-80 has its times from the catalogue; leave its speed out"),
        (["--devices", "2xfoo:speed=1", "--roofline"], "--roofline says nothing without a device of the catalogue"),
        (["--devices", "2xT4", "--precision", "bf16"], "T4 has no published peak in bf16"),
        (["--efficiency", "0.4"], "--efficiency says nothing without --device, --devices or --host"),
        (["--roofline"], "--roofline says nothing without"),
        (["--device", "T4", "--efficiency", "1.5"], "give a share above 0 and up to 1"),
        (["--device", "T4", "--measured-on", "X9"], 'There is no accelerator "X9"'),
        (["--device", "T4", "--measured-on", "T4@bf16"], "T4 has no published peak in bf16"),
        (["--host", "T4"], 'There is no host CPU "T4"'),
        (["--device", "T4", "--catalogue", "/none.json"], "cannot be read: No such file"),
    ],
)
def test_what_a_device_cannot_be_is_said_in_one_sentence(
    placement: Run, llama: Path, options: list[str], message: str
) -> None:
    answer = placement("solve", llama, *options)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1


def test_times_of_an_unknown_device_are_scaled_once_it_is_named(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    write_graph(path, chain((4, 2), transfer_ms=0.1), Deployment(2))
    refused = placement("solve", path, "--device", "A100-80")
    assert refused.code == 2
    assert "does not say which device its times were measured on" in refused.err
    solved = placement("solve", path, "--device", "A100-80", "--measured-on", "T4@fp16")
    assert solved.json["devices"][0]["compute_ms"] in (pytest.approx(4 * 65 / 312), pytest.approx(2 * 65 / 312))


def test_the_catalogue_is_listed_with_figures_and_sources(placement: Run) -> None:
    listed = placement("devices").out
    for text in ("H100-SXM", "Xeon-6148", "nvlink4", "989.4", "-", "flops/byte"):
        assert text in listed
    assert max(map(len, listed.splitlines())) <= 120
    one = placement("devices", "pcie4-x16")
    assert "24.8 GB/s" in one.out
    assert "https://forums.developer.nvidia.com" in one.out
    document = placement("devices", "--json").json
    assert {figure["verified"] for kind in document.values() for entry in kind for figure in entry["figures"]} <= {
        "yes",
        "second-hand",
        "from memory",
    }
    unknown = placement("devices", "X9")
    assert (unknown.code, unknown.out) == (2, "")
    assert 'There is no device "X9"' in unknown.err
