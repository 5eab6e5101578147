"""What `--help` says: every command has an example that runs, its exit codes, and a word for every argument."""

import argparse
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from solvers.analysis.comparison import Contender, Outcome
from solvers.cli import tables
from solvers.cli.main import command_parser
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from tests.support.command_line import Run

PARSER = command_parser()
COMMANDS: dict[str, argparse.ArgumentParser] = next(
    action.choices for action in PARSER._actions if isinstance(action, argparse._SubParsersAction)
)
STORY = ["samples", *(name for name in COMMANDS if name not in ("samples", "profile", "reproduce"))]
"""Commands in an order in which each finds the files of those before; two need PyTorch and the paper's release."""


def example_of(name: str) -> list[str]:
    found = re.search(r"^  placement (.*)$", COMMANDS[name].format_help(), re.MULTILINE)
    assert found is not None, name
    return shlex.split(found.group(1))


def test_examples_run_one_after_the_other(placement: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in STORY:
        arguments = example_of(name)
        assert arguments[0] == name
        answer = placement(*arguments)
        assert answer.code == 0, (arguments, answer.err)
        files = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--output"]
        assert all(os.path.getsize(file) for file in files), arguments
        assert files or answer.out


@pytest.mark.parametrize("name", ["profile", "reproduce"])
def test_other_examples_are_at_least_understood(name: str) -> None:
    assert PARSER.parse_args(example_of(name)).run is not None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_has_its_words(name: str) -> None:
    for action in COMMANDS[name]._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        told = COMMANDS[name]._get_formatter()._expand_help(action) if action.help else ""
        called = f"{name} {action.option_strings or action.dest}: {told}"
        assert re.match(r"[A-Z]", told), called
        has_sentences = bool(re.search(r"\. [A-Z-]", told))
        assert told.endswith(".") == has_sentences or (has_sentences and told.endswith(")")), called


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("solve", "gpt2.json", "--accelerators", "1", "--cpus", "0", "--memory", "0.0001"), 3),
        (("solve", "nothing.json"), 2),
        (("need", "gpt2.json", "--within", "0.001", "--of", "accelerators"), 3),
        (("sweep", "gpt2.json", "--accelerators", "1,2", "--cpus", "0", "--memory", "0.0001"), 3),
        (("compare", "gpt2.json", "--accelerators", "1", "--cpus", "0", "--memory", "0.0001", "--family", "chain"), 3),
        (("explain", "gpt2.json", "nothing.json"), 2),
    ],
    ids=lambda value: value if isinstance(value, int) else " ".join(value),
)
def test_exit_codes_are_those_that_are_told(
    arguments: tuple[str, ...], code: int, placement: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    placement(*example_of("samples"))
    assert placement(*arguments).code == code
    told = COMMANDS[arguments[0]].format_help().split("Exit codes:")[1]
    assert re.search(rf"\b{code}\b", told)


@pytest.mark.parametrize(("status", "code"), [(SolveStatus.UNKNOWN, 4), (SolveStatus.INFEASIBLE, 3)])
def test_what_no_pipeline_can_do_another_split_may(
    status: SolveStatus, code: int, placement: Run, graph_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(*_: object, **__: object) -> Iterator[tuple[Contender, Outcome]]:
        for family in Family:
            told = status if family is Family.FREE else SolveStatus.INFEASIBLE
            yield Contender("auto", family), Outcome("auto", family, told, None, None, 1.0, None, (), "No plan.")

    monkeypatch.setattr(tables, "compare", answers)
    assert placement("compare", graph_file).code == code


def test_whatever_writes_a_file_takes_the_short_option() -> None:
    writing = [
        action.option_strings
        for parser in COMMANDS.values()
        for action in parser._actions
        if "--output" in action.option_strings
    ]
    assert len(writing) >= 5
    assert all("-o" in names for names in writing)


def test_help_of_every_command_names_its_options(placement: Run) -> None:
    for command, word in (
        ((), "samples"),
        (("solve",), "--bandwidth GB/S"),
        (("evaluate",), "SPLIT.json"),
        (("simulate",), "--micro-batches M"),
        (("samples",), "--output FILE"),
    ):
        answer = placement(*command, "--help")
        assert answer.code == 0
        assert word in answer.out
