"""Words of the page: what has changed between two questions is always named."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from explorer.jobs.pool import Question
from explorer.words.wording import differences, plain, proof, unbroken
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, DeviceClass, InFlight, Replication, TrainingMemory
from solvers.model.graph import TimesOrigin
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.problem.pins import pins_of
from solvers.quantities import bandwidth, binary_size, decimal_size, factor, flops, milliseconds, percent, seconds
from tests.support.graphs import chain

GRAPH = chain((1.0, 2.0))
DEPLOYMENT = Deployment(2, 1, 16 * 2.0**30)
IN_FLIGHT = TrainingMemory(InFlight.GPIPE, 8)
QUESTION = Question(GRAPH.digest, DEPLOYMENT, time_limit_s=60.0)


def on(**changes: Any) -> Question:
    return replace(QUESTION, deployment=replace(DEPLOYMENT, **changes))


@pytest.mark.parametrize(
    ("other", "phrase"),
    [
        (on(num_accelerators=3), "accelerators 2 → 3"),
        (on(num_cpus=0), "CPUs 1 → 0"),
        (on(memory_bytes=None), "memory 16 GiB → no limit"),
        (on(memory_bytes=16 * 2.0**30 + 1), "memory"),
        (on(communication=Communication.OVERLAPPED), "transfers one after the other → overlapped with compute"),
        (on(replication=Replication(2)), "replicas none → up to 2"),
        (on(training_memory=replace(IN_FLIGHT, num_micro_batches=1)), "memory of one micro-batch → GPipe"),
        (on(max_subgraphs=2), "subgraphs 1 → 2"),
        (replace(QUESTION, objective=Objective.LATENCY), "objective throughput → latency"),
        (replace(QUESTION, family=Family.FREE), "split type pipeline → non-contiguous"),
        (replace(QUESTION, method="ip"), "solver automatic → IP"),
        (replace(QUESTION, time_limit_s=5.0), "time limit 60 s → 5 s"),
        (replace(QUESTION, gap=0.01), "gap 0 % → 1 %"),
        (replace(QUESTION, pins=pins_of({1: 0})), "pins 0 → 1"),
    ],
)
def test_every_change_of_a_question_is_named_and_nothing_else(other: Question, phrase: str) -> None:
    assert differences((QUESTION, GRAPH), (other, GRAPH)) == [phrase]


def test_what_is_the_same_is_not_named_and_another_bandwidth_is() -> None:
    assert differences((QUESTION, GRAPH), (QUESTION, GRAPH)) == []
    faster_links, slower_nodes = GRAPH.with_bandwidth_factor(2), chain((1.0, 3.0))
    assert differences((QUESTION, GRAPH), (QUESTION, faster_links)) == ["link bandwidth"]
    assert differences((QUESTION, GRAPH), (QUESTION, slower_nodes)) == ["node times"]
    assert differences((QUESTION, GRAPH), (QUESTION, slower_nodes.with_bandwidth_factor(2))) == [
        "node times",
        "link bandwidth",
    ]


def test_nodes_that_must_share_a_device_now_are_named_and_no_change_of_a_graph_goes_without_a_name() -> None:
    tied = GRAPH.with_nodes(tuple(replace(node, colocation_class=1) for node in GRAPH.nodes))
    assert differences((QUESTION, GRAPH), (QUESTION, tied)) == ["what must share a device"]
    assert differences((QUESTION, GRAPH), (QUESTION, replace(GRAPH, times=TimesOrigin("T4")))) == ["the graph"]


def test_classes_of_accelerators_are_told_apart() -> None:
    one = replace(QUESTION, deployment=Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1)), 1))
    other = replace(QUESTION, deployment=Deployment.of_classes((DeviceClass("A", 1), DeviceClass("C", 1)), 1))
    faster = replace(QUESTION, deployment=Deployment.of_classes((DeviceClass("A", 1, 2.0), DeviceClass("B", 1)), 1))
    assert differences((one, GRAPH), (other, GRAPH)) == ["device types 1 × A, 1 × B → 1 × A, 1 × C"]
    assert differences((one, GRAPH), (faster, GRAPH)) == ["device types"]


def test_a_plan_far_above_its_bound_is_not_called_near_the_optimum() -> None:
    """76.5 % of 10.13 ms lie above the bound; the optimum may be less than a quarter of it."""
    found = SolveResult(SolveStatus.FEASIBLE, "auto", Objective.THROUGHPUT, Family.FREE, None, 10.13, 2.38, 1.0)
    assert proof(found) == "at most 4.26 × the optimum"
    assert proof(replace(found, status=SolveStatus.OPTIMAL, lower_bound_ms=10.13)) == "optimal (proven)"
    assert proof(replace(found, lower_bound_ms=0.0)) == "no useful bound"
    assert proof(replace(found, lower_bound_ms=None)) == "no bound yet"


@pytest.mark.parametrize(
    "write",
    [bandwidth, binary_size, decimal_size, factor, flops, milliseconds, percent, seconds],
    ids=lambda f: f.__name__,
)
def test_no_line_ends_between_a_number_and_its_unit(write: Callable[[float], str]) -> None:
    for value in (0.0, 1e-9, 0.5, 1.0, 17.5, 1023.0, 1e6, 2.5e9, 1e13):
        assert " " not in unbroken(write(value))
        assert unbroken(write(value)).replace("\xa0", " ") == write(value)
        assert " " not in plain(write(value))
    assert unbroken("11.8 sequences/s, 4 nodes of 2 devices") == "11.8\xa0sequences/s, 4 nodes of 2 devices"
