"""`placement explain` from the command line: sentences, facts as JSON, and bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from solvers.cli.main import main
from solvers.formats.graph_json import split_document, write_graph
from solvers.model.deployment import Deployment
from solvers.model.split import Split
from tests.support.graphs import chain


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two nodes on two accelerators: 2 + 0.5 ms and 3 + 0.5 ms."""
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(graph, chain((2, 3), transfer_ms=0.5), Deployment(2))
    split.write_text(json.dumps(split_document(Split((frozenset({1}), frozenset({2}))))), encoding="utf-8")
    return str(graph), str(split)


def test_sentences(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *files]) == 0
    text = capsys.readouterr().out
    assert "Accelerator 2 is the bottleneck with 3.5 ms per micro-batch.\n" in text
    assert "No pipeline split takes less than 3 ms, so this one is at most 16.7 % above the optimum.\n" in text
    assert "With --constraints it is solved" in text


def test_a_plan_that_a_solve_proves_optimal_is_called_so(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *files, "--constraints"]) == 0
    text = capsys.readouterr().out
    assert "above the optimum" not in text
    assert "Optimal: no pipeline split" in text
    assert "With --constraints" not in text


def test_what_constraints_proves_of_other_split_types_is_not_left_open(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *files]) == 0
    assert "Contiguity costs nothing" not in capsys.readouterr().out
    assert main(["explain", *files, "--constraints"]) == 0
    text = capsys.readouterr().out
    assert "Split type is not binding" in text
    assert "Contiguity costs nothing: no non-contiguous split is faster either." in text
    assert "might be faster" not in text


def test_facts_as_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *files, "--json", "--communication", "overlapped"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (facts["value_ms"], facts["family"], facts["optimal"]) == (3.0, "chain", True)
    (bottleneck,) = facts["limits"][0]["bottlenecks"]
    assert (bottleneck["compute_ms"], bottleneck["receive_ms"], bottleneck["hidden_receive_ms"]) == (3.0, 0.0, 0.5)


def test_latency(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *files, "--objective", "latency"]) == 0
    assert "Accelerator 1 from 0 ms to 2.5 ms (1 node), then Accelerator 2 from 2.5 ms" in capsys.readouterr().out


def test_too_few_devices_are_told_first(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *files, "--accelerators", "1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("What this plan breaks\n  The split uses 2 accelerators; 1 are available.\n")
    assert "balanced" not in text


def test_a_split_of_another_graph_is_bad_input(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(split_document(Split((frozenset({1, 7}),)))), encoding="utf-8")
    assert main(["explain", files[0], str(other)]) == 2
    assert "node 7" in capsys.readouterr().err
