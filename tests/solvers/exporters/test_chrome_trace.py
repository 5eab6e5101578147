"""Chrome traces: what Perfetto makes of them agrees with the schedule they show.

Perfetto's own trace processor is a program that its Python package downloads when it is first used. Where there is none
(`trace_processor_shell` on the path, or named by TRACE_PROCESSOR), `imported` stands in: it follows the importer of
JSON traces in what makes that drop or move events, and refuses what the format does not know.
"""

import csv
import json
import math
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.exporters.chrome_trace import chrome_trace
from solvers.model.deployment import Deployment
from solvers.model.split import Split
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import LOOPED_KINDS, LoopedSplit
from solvers.schedule.simulate import Schedule, ScheduleKind, SlotKind, simulate
from tests.support.graphs import (
    chain,
    one_node_per_device,
    random_chain_split,
    random_dag,
    random_split,
    random_training_graph,
    training_chain,
)
from tests.support.schedules import AnyCase, any_cases

TRAINING, INFERENCE = random_training_graph(7, 8), random_dag(7, 9, 0.2)
DEPLOYMENT = Deployment(3, 1)
KINDS = (ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B, ScheduleKind.SINGLE_STREAM, *LOOPED_KINDS)


@pytest.fixture(params=KINDS)
def schedule(request: pytest.FixtureRequest) -> Schedule:
    return schedule_of(request.param)


def schedule_of(kind: ScheduleKind) -> Schedule:
    if kind is ScheduleKind.SINGLE_STREAM:
        order = INFERENCE.topological_order
        split = Split.from_device_of({v: 0 if v == order[0] else 3 for v in order}, DEPLOYMENT)
        return simulate(INFERENCE, DEPLOYMENT, split, kind, 5)
    if kind in LOOPED_KINDS:
        looped = looped_split(TRAINING, DEPLOYMENT, random_chain_split(TRAINING, DEPLOYMENT, 7), 2, kind)
        return simulate(TRAINING, DEPLOYMENT, looped, kind, 2 * len(looped.order))
    return simulate(TRAINING, DEPLOYMENT, random_split(TRAINING, DEPLOYMENT, 7), kind, 5)


@pytest.fixture
def trace(schedule: Schedule) -> dict[str, Any]:
    return read_back(schedule, DEPLOYMENT)


def read_back(schedule: Schedule, deployment: Deployment) -> dict[str, Any]:
    graph = INFERENCE if schedule.kind is ScheduleKind.SINGLE_STREAM else TRAINING
    loaded: dict[str, Any] = json.loads(json.dumps(chrome_trace(schedule, deployment, graph), allow_nan=False))
    return loaded


KEYS = {
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "s": {"ph", "name", "cat", "pid", "tid", "ts", "id"},
    "f": {"ph", "name", "cat", "pid", "tid", "ts", "id", "bp"},
    "C": {"ph", "name", "pid", "ts", "args"},
}
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def imported(trace: dict[str, Any]) -> tuple[dict[tuple[int, int], list[tuple[int, int, str]]], int]:
    """Return the slices of each thread as (start, duration, name) in ns, and the number of flows.

    Times are cut off to ns; a slice that overlaps another on its thread, or a flow outside of any, is an error.
    """
    assert set(trace) <= {"traceEvents", "displayTimeUnit", "otherData", "metadata"}
    for event in trace["traceEvents"]:
        assert type(event["pid"]) is int
        if event["ph"] == "M":
            assert event["name"] in METADATA
            assert type(event.get("tid", 0)) is int
            assert set(event["args"]) == {"name" if event["name"].endswith("_name") else "sort_index"}
            continue
        assert set(event) == KEYS[event["ph"]]
        assert type(event.get("tid", 0)) is int
        assert math.isfinite(event["ts"])
        assert event["ts"] >= 0
        if event["ph"] == "C":
            assert all(type(value) in (int, float) for value in event["args"].values())
    timed = [event for event in trace["traceEvents"] if event["ph"] in "Xsf"]
    timed.sort(key=lambda event: int(event["ts"] * 1000.0))  # stable, as Perfetto's sorter is
    slices: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    stacks: dict[tuple[int, int], list[int]] = {}
    ends: dict[int, list[str]] = {}
    for event in timed:
        thread = event["pid"], event["tid"]
        start = int(event["ts"] * 1000.0)
        stack = stacks.setdefault(thread, [])
        while stack and stack[-1] <= start:
            stack.pop()
        if event["ph"] == "X":
            duration = int(event["dur"] * 1000.0)
            assert not stack, f"{event['name']} overlaps another slice"
            stack.append(start + duration)
            slices.setdefault(thread, []).append((start, duration, event["name"]))
        else:
            assert stack, f"flow {event['id']} belongs to no slice"
            ends.setdefault(event["id"], []).append(event["ph"])
    assert all(pair == ["s", "f"] for pair in ends.values())
    return slices, len(ends)


@given(any_cases())
def test_perfetto_keeps_every_slice_of_every_schedule_to_the_nanosecond(case: AnyCase) -> None:
    graph, deployment, split, kind, count = case
    assert isinstance(split, Split | LoopedSplit)
    schedule = simulate(graph, deployment, split, kind, count)
    trace = json.loads(json.dumps(chrome_trace(schedule, deployment, graph), allow_nan=False))
    slices, _ = imported(trace)
    found = Counter((pid - 1, *piece) for (pid, _), pieces in slices.items() for piece in pieces)
    expected: Counter[tuple[int, int, int, str]] = Counter()
    for slot in schedule.slots:
        start, end = round(slot.start_ms * 1e6), round(slot.end_ms * 1e6)
        name = f"{slot.direction.letter}{slot.micro_batch}"
        name = name if slot.kind is SlotKind.COMPUTE else f"{slot.kind.value} {name}"
        expected[slot.device, start, end - start, name] += 1
    assert found == expected


@given(st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=5), st.integers(1, 6))
def test_times_that_no_binary_fraction_holds_are_not_lost(times: list[float], count: int) -> None:
    graph = chain(times, [time / 3 for time in times])
    split = one_node_per_device(graph)
    run = simulate(graph, Deployment(len(times)), split, ScheduleKind.INFERENCE, count)
    slices, flows = imported(chrome_trace(run, Deployment(len(times)), graph))
    assert sum(map(len, slices.values())) == len(run.slots)
    assert flows <= count * (len(times) - 1)
    last = max(start + duration for pieces in slices.values() for start, duration, _ in pieces)
    assert abs(last - run.makespan_ms * 1e6) <= 1


def test_the_real_trace_processor_finds_the_same_slices_flows_and_counters(
    schedule: Schedule, trace: dict[str, Any], tmp_path: Path
) -> None:
    program = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if program is None:
        pytest.skip("no trace_processor_shell; set TRACE_PROCESSOR to the one of https://perfetto.dev")
    (tmp_path / "trace.json").write_text(json.dumps(trace))

    def rows(query: str) -> list[list[str]]:
        (tmp_path / "query.sql").write_text(query)
        command = [program, "-q", str(tmp_path / "query.sql"), str(tmp_path / "trace.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
        return list(csv.reader(done.stdout.splitlines()))[1:]

    found = sorted((int(ts), int(dur), name) for ts, dur, name in rows("select ts, dur, name from slice;"))
    slices, flows = imported(trace)
    assert found == sorted(piece for pieces in slices.values() for piece in pieces)
    assert sum(dur for _, dur, _ in found) == pytest.approx(
        1e6 * sum(slot.end_ms - slot.start_ms for slot in schedule.slots)
    )
    assert int(rows("select count(*) from flow;")[0][0]) == flows
    counters = sum(event["ph"] == "C" for event in trace["traceEvents"])
    assert int(rows("select count(*) from counter;")[0][0]) == counters
    dropped = "select count(*) from stats where severity in ('error', 'data_loss') and value > 0;"
    assert int(rows(dropped)[0][0]) == 0


def events(trace: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def test_every_slot_is_a_complete_event_of_the_same_duration(schedule: Schedule, trace: dict[str, Any]) -> None:
    complete = events(trace, "X")
    seen: list[dict[str, Any]] = []
    assert len(complete) == len(schedule.slots)
    for slot, event in zip(schedule.slots, complete, strict=True):
        assert event["ts"] == pytest.approx(1000 * slot.start_ms)
        assert event["dur"] == pytest.approx(1000 * (slot.end_ms - slot.start_ms))
        assert event["args"]["critical"] is (len(seen) in schedule.critical)
        seen.append(event)
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
    assert {kind: threads[kind.value] for kind in SlotKind} == dict.fromkeys(SlotKind, len(used))
    assert {e["pid"] for e in events(trace, "X")} == set(names)


def test_a_flow_leads_from_the_end_of_one_stage_to_the_start_of_another(
    schedule: Schedule, trace: dict[str, Any]
) -> None:
    starts = {e["id"]: e for e in events(trace, "s")}
    finishes = {e["id"]: e for e in events(trace, "f")}
    assert starts.keys() == finishes.keys()
    assert len(starts) == schedule.num_micro_batches * sum(len(stage.receives_from) for stage in schedule.stages)
    slots = {(e["pid"], e["tid"], e["ts"]) for e in events(trace, "X")}
    for flow, start in starts.items():
        finish = finishes[flow]
        assert (start["name"], start["cat"]) == (finish["name"], finish["cat"])
        assert finish["bp"] == "e"
        assert start["pid"] != finish["pid"] or schedule.kind is ScheduleKind.SINGLE_STREAM
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


def test_nodes_side_by_side_on_cpus_have_threads_of_their_own() -> None:
    run = schedule_of(ScheduleKind.SINGLE_STREAM)
    names = [e["args"]["name"] for e in events(read_back(run, DEPLOYMENT), "M") if e["name"] == "thread_name"]
    assert "compute 2" in names
    assert len(names) == len(set(names)) + 3  # compute, receive and send, of the accelerator and of the CPU


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
