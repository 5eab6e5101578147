"""`placement need`: a table or JSON, an exit code for what cannot be had, and one sentence for what cannot be asked."""

from pathlib import Path

import pytest

from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment, DeviceClass
from tests.support.command_line import Run
from tests.support.graphs import chain


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    write_graph(path, chain([1.0, 2.0, 3.0, 4.0]), Deployment(4, memory_bytes=2.0**30))
    return path


def test_the_least_of_each_quantity_as_a_table(placement: Run, graph: Path) -> None:
    answer = placement("need", graph, "--within", 5.0)
    assert answer.code == 0
    assert answer.out.startswith("At most 5 ms per micro-batch, with all else as given:")
    rows = {line.split("  ")[0]: line for line in answer.out.splitlines()}
    assert rows["Accelerators"].split()[1:3] == ["3", "2"]
    assert rows["Accelerators"].endswith("the least, proven")


def test_as_json_a_throughput_is_counted_in_micro_batches(placement: Run, graph: Path) -> None:
    answer = placement("need", graph, "--at-least", 200, "--of", "accelerators", "--json")
    assert answer.json["within_ms"] == 5.0
    (need,) = answer.json["needs"]
    assert (need["least"], need["not_enough"], need["proven"]) == (3, 2, True)
    assert need["value_ms"] <= 5.0


def test_what_no_hardware_reaches_has_the_exit_code_of_the_infeasible(placement: Run, graph: Path) -> None:
    answer = placement("need", graph, "--within", 3.5)
    assert answer.code == 3
    assert "none is enough, proven" in answer.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "one of the arguments --at-least --within is required"),
        (("--within", 0), "is out of range"),
        (("--within", 5, "--of", "money"), "none of accelerators, memory, links"),
        (("--at-least", 5, "--objective", "latency"), "give --within MS instead of --at-least"),
        (("--within", 5, "--at-least", 5), "not allowed with"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    placement: Run, graph: Path, arguments: tuple[object, ...], sentence: str
) -> None:
    answer = placement("need", graph, *arguments)
    assert answer.code == 2
    assert sentence in answer.err
    assert not answer.out


def test_a_method_that_proves_nothing_says_so(placement: Run, graph: Path) -> None:
    answer = placement("need", graph, "--within", 5, "--method", "single", "--of", "accelerators")
    assert answer.code == 4
    assert "proves nothing" in answer.out


def test_links_of_device_types_that_nothing_tells_of_are_refused(placement: Run, tmp_path: Path) -> None:
    types = (DeviceClass("fast", 1), DeviceClass("slow", 1, 0.5))
    write_graph(tmp_path / "typed.json", chain([1.0, 2.0]), Deployment.of_classes(types))
    answer = placement("need", tmp_path / "typed.json", "--within", 1.0, "--of", "links")
    assert answer.code == 2
    assert "ask for accelerators or memory" in answer.err
