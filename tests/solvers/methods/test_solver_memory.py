"""What the tables of the DP may take: the usual share, the server's limit, and what is said when it is reached."""

from typing import Any

import pytest

from solvers.cli import main as cli
from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment
from solvers.model.result import SolveResult, SolveStatus
from solvers.problem import table_memory
from solvers.problem.table_memory import LIMIT_VARIABLE, usual_table_bytes
from solvers.solve import solve
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
        "The DP did not prove the optimum in 97.66 KiB of memory (solver memory); method auto goes on with others."
    )
    advised = solve(graph, deployment, method="auto", table_bytes=100_000, time_limit_s=60.0)
    roomy = solve(graph, deployment, method="dp")
    assert roomy.status is advised.status is SolveStatus.OPTIMAL
    assert advised.value_ms == pytest.approx(roomy.value_ms)
    assert "97.66 KiB of memory (solver memory); other methods went on" in advised.message


def test_the_option_reaches_the_solver(placement: Run, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.json"
    write_graph(path, chain((1, 2)), Deployment(2))
    asked: list[Any] = []
    real_solve = cli.solve

    def listen(*arguments: Any, **options: Any) -> SolveResult:
        asked.append(options["table_bytes"])
        return real_solve(*arguments, **options)

    monkeypatch.setattr(cli, "solve", listen)
    assert placement("solve", path).code == placement("solve", path, "--solver-memory", "1.5").code == 0
    assert asked == [None, int(1.5 * GIB)]
    assert placement("solve", path, "--solver-memory", "0").code == 2
