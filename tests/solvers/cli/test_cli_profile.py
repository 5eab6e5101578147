"""`placement profile`: what it refuses; that it measures is tested where PyTorch is."""

import importlib.util
from pathlib import Path

import pytest

from solvers.formats.graph_json import write_graph
from tests.support.archives import two_blocks
from tests.support.command_line import Run


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    found = two_blocks().imported()
    path = tmp_path / "graph.json"
    write_graph(path, found.graph, found.deployment)
    return path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--threads", 0), "--threads is 0; give a whole number from 1 to 1,024."),
        (("--repetitions", 1), "--repetitions is 1; give a whole number from 2"),
        (("--warm-up", -1), "--warm-up is -1; give a whole number from 0"),
        (("--device", "H1000"), "There is no accelerator"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(
    placement: Run, graph_file: Path, tmp_path: Path, arguments: tuple[object, ...], told: str
) -> None:
    answer = placement("profile", graph_file, "model.pt2", "--output", tmp_path / "measured.json", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed here")
def test_without_pytorch_it_says_what_is_missing(placement: Run, graph_file: Path, tmp_path: Path) -> None:
    answer = placement("profile", graph_file, "model.pt2", "--output", tmp_path / "measured.json")
    assert (answer.code, answer.out) == (2, "")
    assert "placement profile needs PyTorch" in answer.err
