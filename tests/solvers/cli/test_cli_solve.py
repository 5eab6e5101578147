"""The command line solves: JSON on stdout, sentences on stderr, exit codes 0, 2, 3 and 4, and Ctrl-C."""

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
from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import Progress, SolveCancelled, SolveResult, SolveStatus
from tests.support.command_line import GIB, Run, assert_refused
from tests.support.graphs import chain, dag, training_chain


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
