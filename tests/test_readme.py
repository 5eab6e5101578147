"""What the README says works, is there, and is true."""

import itertools
import re
import shlex
from pathlib import Path

import pytest

from solvers.cli.main import main
from solvers.model.result import SolveStatus
from solvers.samples import read_sample
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
        assert command.startswith("placement export ") or not capsys.readouterr().err, command


def test_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {})  # noqa: S102 -- our own text
    assert capsys.readouterr().out.startswith("OPTIMAL ")


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_plan_that_it_names_is_that_of_the_solver() -> None:
    from solvers.solve import solve

    result = solve(*read_sample("gpt2_xl_layer_training"))
    assert result.status is SolveStatus.OPTIMAL
    assert f"takes {result.value_ms:.1f} ms per" in README


def test_it_is_short() -> None:
    prose = re.sub(r"```.*?```|\]\([^)]*\)", " ", README, flags=re.DOTALL)
    assert len(prose.split()) <= 1100


def test_reproduced_ratios_are_those_of_the_full_tables() -> None:
    page = (ROOT / "docs" / "explanation" / "reproduction.md").read_text(encoding="utf-8")
    tables = page.split("## Every table")[1].split("How many times as fast")[1:3]
    columns = {"human expert": 3, "local search": 4, "PipeDream": 5, "Scotch": 6}  # of: best chain, single, ...
    for text, (label, column) in itertools.product((README, page), columns.items()):
        cells = [cell.strip() for cell in re.findall(rf"^\| {label} \|(.*)\|$", text, re.MULTILINE)[0].split("|")]
        lines = [{line.split("  ")[0]: line.split() for line in table.splitlines()} for table in tables]
        for cell, rows in zip(cells[1:], lines, strict=True):
            mean, largest, count = (rows[name][column] for name in ("mean", "max", "workloads"))
            assert cell == f"{mean} / {largest} ({count})", label
        paper = [lines[0][f"paper: {what}"][column + 1] for what in ("mean", "max")]
        assert cells[0] == " / ".join(paper)
