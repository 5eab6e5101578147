"""The command line, run in this process, and its sweeps too.

Each worker process loads all solvers, which takes longer than the small sweeps of tests; that points are solved the
same there is what tests/processes look at.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from solvers.cli import main as cli
from solvers.cli import sweep
from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from tests.support.graphs import diamond

GIB = 2.0**30


@dataclass
class Answer:
    """What one run of the command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        def refuse(constant: str) -> float:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


Run = Callable[..., Answer]


@pytest.fixture
def placement(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process; argparse leaves by SystemExit, which is an exit code too."""
    monkeypatch.setattr(sweep, "WorkerProcesses", ThreadPoolExecutor)

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


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
