"""The table of inputs: names are told apart, defaults fit, values that are taken are read off again."""

from typing import Any

import pytest

from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.parameters.asked import QUESTION, TABLE, asked, begin, demanded, options
from solvers.parameters.hardware import PER_SERVER, SERVER_LINK_SPEED
from solvers.parameters.parameter import Asked, MemoryOf, Parameter, Scope
from solvers.parameters.question import FAMILY
from solvers.samples import read_sample
from solvers.sweep.axes import PARAMETERS, Quantity
from tests.support.graphs import chain

STARTS = {
    "alike": begin(chain((1.0, 2.0)), Deployment(4, 1)),
    "lone": begin(chain((1.0, 2.0)), Deployment(1)),
    "classes": begin(chain((1.0,)), Deployment.of_classes((DeviceClass("A", 2), DeviceClass("B", 2)))),
    "servers": begin(chain((1.0,)), Deployment(4, accelerators_per_server=2, server_link_speed=3.0)),
    "training": begin(*read_sample("gpt2_xl_layer_training")),
}


@pytest.mark.parametrize("part", ["name", "address", "flag", "json"])
def test_names_are_told_apart(part: str) -> None:
    names = [name for parameter in TABLE if (name := getattr(parameter, part)) is not None]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("parameter", TABLE, ids=repr)
def test_the_option_is_named_like_the_parameter(parameter: Parameter[Any]) -> None:
    assert parameter.flag in (None, "--" + parameter.name.replace("_", "-"))
    assert parameter.help.endswith(".")
    assert parameter.help[0].isupper()


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_defaults_are_allowed_and_change_nothing(start: Asked) -> None:
    plain = asked({}, start)
    assert (plain.values, plain.in_vain) == ({}, {})
    given = {p.name: p.usual(plain.asked) for p in QUESTION if not p.why_not(plain.asked)}
    again = asked(given, start)
    assert (again.values, again.in_vain, again.asked) == ({}, {}, plain.asked)


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("parameter", [p for p in QUESTION if p.codec.one_of], ids=repr)
def test_a_value_that_is_taken_is_read_off_again(parameter: Parameter[Any], start: Asked) -> None:
    for value in parameter.codec.one_of:
        asking = asked({parameter.name: value}, start)
        if parameter.name in asking.in_vain:
            assert parameter.name not in asking.values
        else:
            assert parameter.get(asking.asked) == value


def test_what_says_nothing_is_named_with_its_reason_and_left_out() -> None:
    asking = asked({"server_link_speed": 4.0, "max_replicas": 9, "accelerators": 2}, STARTS["alike"])
    assert asking.in_vain == {
        "server_link_speed": "there are no servers",
        "max_replicas": "give a whole number from 1 to 2",
    }
    assert asking.values == {"accelerators": 2}


def test_servers_begin_with_those_of_the_file_and_else_with_the_usual_links() -> None:
    own = asked({}, STARTS["servers"]).asked
    assert (PER_SERVER.get(own), SERVER_LINK_SPEED.get(own)) == (2, 3.0)
    larger = asked({"accelerators_per_server": 4}, STARTS["servers"]).asked
    assert (PER_SERVER.get(larger), SERVER_LINK_SPEED.get(larger)) == (4, 3.0)
    new = asked({"accelerators_per_server": 4}, STARTS["alike"]).asked
    assert (PER_SERVER.get(new), SERVER_LINK_SPEED.get(new)) == (4, 8.0)
    assert asked({"accelerators_per_server": None}, STARTS["servers"]).asked.deployment == Deployment(4)


def test_what_is_demanded_is_never_left_out() -> None:
    assert demanded({"subgraphs": 3}, STARTS["alike"]).deployment.max_subgraphs == 3
    assert asked({"subgraphs": 3}, STARTS["alike"]).asked.deployment.max_subgraphs == 1


def test_options_ask_again_what_is_not_in_the_file() -> None:
    values = {
        "objective": Objective.GPIPE,
        "communication": Communication.OVERLAPPED,
        "memory_schedule": MemoryOf.PIPEDREAM_2BW,
        "micro_batches": 7,
        "state_factor": 8.0,
        "gap": 0.05,
        "accelerators": 3,
    }
    asking = asked(values, STARTS["training"])
    assert asking.in_vain == {}
    words = options(asking.asked, {Scope.COUNTS, Scope.MODEL})
    assert " ".join(words) == (
        "--communication overlapped --memory-schedule pipedream-2bw --state-factor 8 --micro-batches 7"
    )
    assert options(asking.asked, {Scope.SEARCH}) == ["--objective", "gpipe", "--gap", "0.05"]
    assert options(asked({}, STARTS["servers"]).asked, set(Scope) - {Scope.SCHEDULE}) == []
    replicated = asked({"max_replicas": 2, "sync_bandwidth": 25.0}, STARTS["alike"]).asked
    assert options(replicated, {Scope.MODEL}) == ["--max-replicas", "2", "--sync-bandwidth", "25"]


def test_a_graph_keeps_its_transfers_where_no_link_is_asked_for() -> None:
    graph, deployment = read_sample("teaching_chain")
    start = begin(graph, deployment)
    assert asked({}, start).asked.graph is graph
    faster: DnnGraph = asked({"bandwidth": 3.5}, start).asked.graph
    assert faster.bandwidth_bytes_per_ms == pytest.approx(3.5e6)


def test_every_axis_of_the_table_is_a_quantity_of_sweeps() -> None:
    assert {*PARAMETERS, Quantity.COUNT} == set(Quantity)


def test_split_types_are_read_by_the_papers_names_too() -> None:
    read = FAMILY.codec.read
    assert [read(name) for name in ("contiguous", "non-contiguous", "pipeline")] == [
        Family.CONVEX,
        Family.FREE,
        Family.CHAIN,
    ]
    assert [FAMILY.codec.write(family) for family in Family] == ["chain", "convex", "free"]
