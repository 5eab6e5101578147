"""An address asks one question: what Sweep starts from is what Explore shows for it."""

from typing import Any

import pytest

from tests.support.questions import cases, explore_question, sweep_question

CONVEX = {"sample": "teaching_convex_beats_chain", "accelerators": "4"}


@pytest.mark.parametrize(
    "case",
    [
        {"query": {**CONVEX, "per_server": "4"}},
        {"query": {**CONVEX, "per_server": "2", "server_links": "4"}},
        {"query": {}, "file": "servers.json"},
        {"query": {"per_server": "4"}, "file": "servers.json"},
        {"query": {"server_links": "6"}, "file": "servers.json"},
        {"query": {"per_server": "none"}, "file": "servers.json"},
        {"query": {}, "file": "class_servers.json"},
    ],
    ids=str,
)
def test_servers_of_an_address_or_a_file_are_the_same_on_sweep_as_on_explore(case: dict[str, Any]) -> None:
    explore, sweep = explore_question(case), sweep_question(case)
    assert sweep["subject"]["deployment"] == explore["deployment"]
    assert sweep["sweep"]["deployment"] == explore["deployment"]


QUESTION = ("graph", "deployment", "objective", "family", "method", "time_limit_s")
OF_SWEEP = {"over", "values", "and", "and_values", "show", "prices", "cpu_price", "pay", "at_least", "budget"}


@pytest.mark.parametrize("case", [*cases("sweep")[:25], *cases("sweep")[-52:]], ids=str)
def test_what_else_an_address_asks_is_the_same_too(case: dict[str, Any]) -> None:
    asked = {name: text for name, text in case["query"].items() if name not in OF_SWEEP}
    explore, sweep = explore_question({**case, "query": asked}), sweep_question(case)
    assert sweep["subject"] == {name: explore[name] for name in QUESTION}
