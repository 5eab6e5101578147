"""Chrome traces: valid JSON of the format's shape, in agreement with the schedule they show."""

import json
from collections import Counter
from typing import Any

import pytest

from solvers.chrome_trace import chrome_trace
from solvers.deployment import Deployment
from solvers.schedule import Schedule, ScheduleKind, SlotKind, simulate
from solvers.split import Split
from tests.graphs import chain, one_node_per_device, random_split, random_training_graph, training_chain

GRAPH = random_training_graph(7, 8)
DEPLOYMENT = Deployment(3, 1)


@pytest.fixture(params=[ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B])
def schedule(request: pytest.FixtureRequest) -> Schedule:
    return simulate(GRAPH, DEPLOYMENT, random_split(GRAPH, DEPLOYMENT, 7), request.param, 5)


@pytest.fixture
def trace(schedule: Schedule) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(chrome_trace(schedule, DEPLOYMENT, GRAPH), allow_nan=False))
    return loaded


def events(trace: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def test_every_slot_is_a_complete_event_of_the_same_duration(schedule: Schedule, trace: dict[str, Any]) -> None:
    complete = events(trace, "X")
    assert len(complete) == len(schedule.slots)
    for slot, event in zip(schedule.slots, complete, strict=True):
        assert event["ts"] == pytest.approx(1000 * slot.start_ms)
        assert event["dur"] == pytest.approx(1000 * (slot.end_ms - slot.start_ms))
        assert event["args"]["ms"] == slot.end_ms - slot.start_ms
        assert event["args"]["micro-batch"] == slot.micro_batch
        assert event["args"]["stage"] == schedule.stages[slot.stage].notation


def test_ids_are_integers_and_threads_do_not_overlap(trace: dict[str, Any]) -> None:
    last_end: dict[tuple[int, int], float] = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["pid"], int)
        if event["ph"] in "Xsf":
            assert isinstance(event["tid"], int)
    for event in events(trace, "X"):
        assert event["ts"] >= last_end.get((event["pid"], event["tid"]), 0.0) - 1e-6
        last_end[event["pid"], event["tid"]] = event["ts"] + event["dur"]


def test_processes_and_threads_have_names(schedule: Schedule, trace: dict[str, Any]) -> None:
    metadata = events(trace, "M")
    names = {e["pid"]: e["args"]["name"] for e in metadata if e["name"] == "process_name"}
    used = sorted({slot.device for slot in schedule.slots})
    assert list(names.values()) == [DEPLOYMENT.device_name(d) for d in used]
    assert {e["args"]["sort_index"] for e in metadata if e["name"] == "process_sort_index"} == set(used)
    threads = Counter(e["args"]["name"] for e in metadata if e["name"] == "thread_name")
    assert threads == {kind.value: len(used) for kind in SlotKind}
    assert {e["pid"] for e in events(trace, "X")} == set(names)


def test_a_flow_leads_from_the_end_of_one_stage_to_the_start_of_another(
    schedule: Schedule, trace: dict[str, Any]
) -> None:
    starts = {e["id"]: e for e in events(trace, "s")}
    finishes = {e["id"]: e for e in events(trace, "f")}
    assert starts.keys() == finishes.keys()
    assert len(starts) == 5 * sum(len(stage.receives_from) for stage in schedule.stages)
    slots = {(e["pid"], e["tid"], e["ts"]) for e in events(trace, "X")}
    for flow, start in starts.items():
        finish = finishes[flow]
        assert (start["name"], start["cat"]) == (finish["name"], finish["cat"])
        assert finish["bp"] == "e"
        assert start["pid"] != finish["pid"]
        assert start["ts"] <= finish["ts"]
        for end in (start, finish):
            assert (end["pid"], end["tid"], end["ts"]) in slots


def test_names_and_flow_of_a_small_pipeline() -> None:
    graph = training_chain((1, 1), (2, 2), transfer_ms=0.5)
    split = one_node_per_device(graph)
    run = simulate(graph, Deployment(2), split, ScheduleKind.ONE_F_ONE_B, 1)
    trace = chrome_trace(run, Deployment(2), graph)
    assert [(e["pid"], e["name"], e["ts"], e["dur"]) for e in events(trace, "X")] == [
        (1, "F0", 0.0, 1000.0),
        (1, "send F0", 1000.0, 500.0),
        (2, "receive F0", 1500.0, 500.0),
        (2, "F0", 2000.0, 1000.0),
        (2, "B0", 3000.0, 2000.0),
        (2, "send B0", 5000.0, 500.0),
        (1, "receive B0", 5500.0, 500.0),
        (1, "B0", 6000.0, 2000.0),
    ]
    assert [(e["ph"], e["pid"], e["ts"]) for e in trace["traceEvents"] if e["ph"] in "sf"] == [
        ("s", 1, 1000.0),
        ("f", 2, 1500.0),
        ("s", 2, 5000.0),
        ("f", 1, 5500.0),
    ]


def test_counters_show_what_is_in_flight_and_held(schedule: Schedule, trace: dict[str, Any]) -> None:
    in_flight = [e for e in events(trace, "C") if e["name"] == "in flight"]
    memory = [e for e in events(trace, "C") if e["name"] == "memory"]
    assert len(in_flight) == len(memory) == sum(len(points) for points in schedule.memory if len(points) > 1)
    peak: dict[int, int] = {}
    for event in in_flight:
        peak[event["pid"]] = max(peak.get(event["pid"], 0), event["args"]["micro-batches"])
    assert peak == {d + 1: count for d, count in enumerate(schedule.peak_in_flight) if count}


def test_a_cpu_without_transfer_slots_still_has_flows() -> None:
    split = Split((frozenset({1}),), (frozenset({2}),))
    graph = chain((1, 1))
    run = simulate(graph, Deployment(1, 1), split, ScheduleKind.INFERENCE, 2)
    trace = chrome_trace(run, Deployment(1, 1), graph)
    assert [e["pid"] for e in events(trace, "f")] == [2, 2]
    assert trace["otherData"]["micro-batches"] == 2
