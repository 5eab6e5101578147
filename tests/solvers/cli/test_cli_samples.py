"""The command line lists the examples and writes them."""

from pathlib import Path

from solvers.samples import sample_names, sample_text
from tests.support.command_line import Run, assert_refused


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
