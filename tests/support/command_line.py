"""The command line, run in this process, and its sweeps too.

Each worker process loads all solvers, which takes longer than the small sweeps of tests; that points are solved the
same there is what tests/processes look at.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from solvers.cli import main as cli
from solvers.cli import sweep


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
