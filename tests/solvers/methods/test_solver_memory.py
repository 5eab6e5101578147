"""What the tables of the DP may take: the usual share, the server's limit, and what is said when it is reached."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from solvers.analysis import comparison
from solvers.chain import device_states, label_search, stage_search
from solvers.chain.label_kernel import STOPPED
from solvers.cli import explain, sweep
from solvers.cli import main as cli
from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.result import SolveResult, SolveStatus
from solvers.problem import table_memory
from solvers.problem.table_memory import LIMIT_VARIABLE, usual_table_bytes
from solvers.solve import solve
from solvers.sweep import run as points
from tests.support.command_line import Run
from tests.support.graphs import chain, random_dag

GIB = 2**30


@pytest.mark.parametrize(
    ("machine", "limit", "expected"),
    [
        (15 * GIB, None, 400 * 2**20),
        (400 * GIB, None, 10 * GIB),
        (GIB, None, GIB // 4),
        (400 * GIB, "4294967296", GIB),
        (GIB, "4294967296", GIB),
    ],
)
def test_the_usual_memory_is_a_share(
    monkeypatch: pytest.MonkeyPatch, machine: int, limit: str | None, expected: int
) -> None:
    monkeypatch.setattr(table_memory, "_machine_bytes", lambda: machine)
    monkeypatch.delenv(LIMIT_VARIABLE, raising=False)
    if limit is not None:
        monkeypatch.setenv(LIMIT_VARIABLE, limit)
    assert usual_table_bytes() == expected


def test_where_memory_ends_the_dp_the_limit_is_said_and_the_advice_holds() -> None:
    graph, deployment = random_dag(3, num_nodes=24, edge_probability=0.05), Deployment(4)
    cramped = solve(graph, deployment, method="dp", table_bytes=100_000)
    assert cramped.status is not SolveStatus.OPTIMAL
    assert cramped.message == (
        "The DP did not prove the optimum in 97.66 KiB of memory (solver memory, --solver-memory on the command line); "
        "method auto goes on with others."
    )
    advised = solve(graph, deployment, method="auto", table_bytes=100_000, time_limit_s=60.0)
    roomy = solve(graph, deployment, method="dp")
    assert roomy.status is advised.status is SolveStatus.OPTIMAL
    assert advised.value_ms == pytest.approx(roomy.value_ms)
    assert "The DP did not end in 97.66 KiB of memory (solver memory, " in advised.message


def test_where_ideals_or_mixes_end_the_dp_it_does_not_blame_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_dag(3, num_nodes=24, edge_probability=0.05)
    monkeypatch.setattr(label_search, "MAX_IDEALS", 500)
    monkeypatch.setattr(label_search, "FIRST_ROWS", 64)
    usual = usual_table_bytes()
    ended = solve(graph, Deployment(4), method="dp").message
    assert ended.startswith("The DP did not prove the optimum with 500 ideals, the most for ")
    assert "--solver-memory" in ended
    roomier = solve(graph, Deployment(4), method="dp", table_bytes=2 * usual)
    assert roomier.status is SolveStatus.OPTIMAL or "with 1,000 ideals, the most for" in roomier.message
    assert solve(graph, Deployment(4), method="dp", table_bytes=10_000 * usual).status is SolveStatus.OPTIMAL
    for module in (device_states, label_search, stage_search):
        monkeypatch.setattr(module, "MAX_STATES", 8)
    types = Deployment.of_classes((DeviceClass("a", 2, 1.0), DeviceClass("b", 2, 0.5)), 1)
    for deployment in (types, replace(types, communication=Communication.OVERLAPPED)):
        assert "devices of several types can be mixed in more than 8 ways; method auto goes on with others." in (
            solve(graph, deployment, method="dp", time_limit_s=30.0).message
        )


def test_where_time_ends_the_dp_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.chain.max_load.ThresholdSearch.run", lambda *_: STOPPED)
    graph = random_dag(3, num_nodes=24, edge_probability=0.05)
    start = solve(graph, Deployment(4), method="single").split
    assert solve(graph, Deployment(4), method="dp", start=start).message == (
        "The DP did not prove the optimum in time; method auto goes on with others."
    )


@pytest.mark.parametrize(
    "command",
    [
        ("solve", "GRAPH"),
        ("compare", "GRAPH", "--family", "chain"),
        ("explain", "GRAPH", "SPLIT", "--constraints"),
        ("sweep", "GRAPH", "--accelerators", "1,2", "--workers", "1"),
    ],
)
def test_the_option_reaches_the_solver(
    placement: Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    path, split = tmp_path / "graph.json", tmp_path / "split.json"
    graph = chain((1, 2))
    write_graph(path, graph, Deployment(2, memory_bytes=2.0))
    split.write_text(json.dumps({"fpgas": [{"nodes": [1]}, {"nodes": [2]}], "cpus": []}))
    files = {"GRAPH": path, "SPLIT": split}
    words = [files.get(word, word) for word in command]
    asked: set[Any] = set()
    real_solve = cli.solve

    def listen(*arguments: Any, **options: Any) -> SolveResult:
        asked.add(options["table_bytes"])
        return real_solve(*arguments, **options)

    for module in (cli, explain, comparison, points):
        monkeypatch.setattr(module, "solve", listen)
    # Points are solved in this process, where they can be listened to.
    monkeypatch.setattr(sweep, "_executor", lambda *_: (lambda: ThreadPoolExecutor(1), 1))
    assert placement(*words).code == placement(*words, "--solver-memory", "1.5").code == 0
    assert asked == {None, int(1.5 * GIB)}
    assert placement(*words, "--solver-memory", "0").code == 2
