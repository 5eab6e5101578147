"""Addresses, project files and commands keep their meaning: each gives the question that it gave when it was written.

The corpus in tests/corpus was recorded once, before inputs had one table. An entry changes only where the question it
had was wrong, and the commit says why.
"""

import json
from typing import Any

import pytest

from tests.support.questions import cases, command_question, explore_question, sweep_question


def name_of(case: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in case.items() if key != "question"})


@pytest.mark.parametrize("case", cases("explore") + cases("projects"), ids=name_of)
def test_explore_asks_what_it_asked(case: dict[str, Any]) -> None:
    assert explore_question(case) == case["question"]


@pytest.mark.parametrize("case", cases("sweep"), ids=name_of)
def test_sweep_asks_what_it_asked(case: dict[str, Any]) -> None:
    assert sweep_question(case) == case["question"]


@pytest.mark.parametrize("case", cases("commands"), ids=name_of)
def test_commands_ask_what_they_asked(case: dict[str, Any]) -> None:
    assert command_question(case["command"]) == case["question"]
