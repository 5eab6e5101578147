"""What the README says works, is there, and is true."""

import re
import shlex
from pathlib import Path

import pytest

from solvers.cli.main import main
from solvers.formats.graph_json import graph_document
from solvers.samples import read_sample, sample_names
from tests.support.root import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_commands_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("placement ")]
    assert len(commands) >= 5
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, command
        told = capsys.readouterr().err.splitlines()
        if " --expressible-in " in command or command.startswith("placement export "):
            # What the restriction costs, and what the framework cannot express.
            assert told, command
            assert all(line.startswith("placement: ") for line in told), command
        else:
            assert not told, command
    compile((tmp_path / "pipeline.py").read_text(encoding="utf-8"), "pipeline.py", "exec")


def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 -- our own text
    assert capsys.readouterr().out.startswith("OPTIMAL ")


def test_files_and_links_exist() -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
    for path in re.findall(r"`((?:solvers|explorer)/[\w/]+(?:\.py|/))`", README):
        assert (ROOT / path).exists(), path


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_counts_and_limits_are_those_of_the_code() -> None:
    from explorer.server.limits import MAX_UPLOAD_MB

    assert f"limited to {MAX_UPLOAD_MB} MB" in README
    assert len(sample_names()) == 17
    assert "seventeen graphs" in README


def test_reproduced_ratios_are_those_of_the_full_tables() -> None:
    tables = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8").split("How many times as fast")[1:3]
    columns = {"human expert": 3, "local search": 4, "PipeDream": 5, "Scotch": 6}  # of: best chain, single, ...
    for label, column in columns.items():
        cells = [cell.strip() for cell in re.findall(rf"^\| {label} \|(.*)\|$", README, re.MULTILINE)[0].split("|")]
        lines = [{line.split("  ")[0]: line.split() for line in table.splitlines()} for table in tables]
        for cell, rows in zip(cells[1:], lines, strict=True):
            mean, largest, count = (rows[name][column] for name in ("mean", "max", "workloads"))
            assert cell == f"{mean} / {largest} ({count})", label
        paper = [lines[0][f"paper: {what}"][column + 1] for what in ("mean", "max")]
        assert cells[0] == " / ".join(paper)


def test_every_field_a_sample_uses_is_documented() -> None:
    documents = [graph_document(*read_sample(name)) for name in sample_names()]
    fields = {key for document in documents for key in document}
    fields |= {key for document in documents for item in (*document["nodes"], *document["edges"]) for key in item}
    assert {field for field in fields if not re.search(rf"`{field}(\[\])?`", README)} == set()
