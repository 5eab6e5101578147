"""Write a schedule in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open.

A device is a process with three threads: compute, receive and send. A slot is a complete event ("X"), a tensor's way
from one device to another a flow ("s" at the sender, "f" at the receiver), and what a device holds a counter ("C").
Slots that run side by side, as nodes on CPUs may, are on threads of their own.

The format wants integer process and thread ids and times in microseconds; micro-batches count from 0. Perfetto counts
in whole nanoseconds, which it gets by cutting off what is beyond, and drops a slice that overlaps another one on its
thread by a single one. So times are whole nanoseconds here, and written so that none is lost when cut off. Thread ids
are unique, and differ from all process ids: Perfetto takes a thread with the id of its process for the main one.

Source: Google, "Trace Event Format" (the document behind chrome://tracing); Perfetto's importer of JSON traces.
"""

import math
from typing import Any

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.schedule.simulate import Schedule, Slot, SlotKind

NANOSECONDS_PER_MS = 1_000_000
THREAD_OF = {SlotKind.COMPUTE: 1, SlotKind.RECEIVE: 2, SlotKind.SEND: 3}
"""Ids start at 1, those of processes too: some viewers take 0 for the idle process of the system."""
THREADS_OF_A_PROCESS = 10_000


def chrome_trace(schedule: Schedule, deployment: Deployment, graph: DnnGraph) -> dict[str, Any]:
    """Return the JSON object of a trace; times in it are microseconds, `args` of a slot repeat them in ms.

    >>> from solvers.model.graph import Node, Edge
    >>> from solvers.schedule.simulate import ScheduleKind, simulate
    >>> from solvers.model.split import Split
    >>> g, split = DnnGraph((Node(1, 2.0, 9.0),), ()), Split((frozenset({1}),))
    >>> trace = chrome_trace(simulate(g, Deployment(1), split, ScheduleKind.INFERENCE, 1), Deployment(1), g)
    >>> [(e["name"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"]
    [('F0', 0.0, 2000.0)]
    """
    threads = _threads(schedule)
    events: list[dict[str, Any]] = []
    for d in sorted({stage.device for stage in schedule.stages}):
        lanes = {threads[i] for i, slot in enumerate(schedule.slots) if slot.device == d}
        events.extend(_names(d, deployment, lanes))
    events.extend(_complete_event(schedule, i, threads[i]) for i in range(len(schedule.slots)))
    events.extend(_flows(schedule, threads))
    events.extend(_counters(schedule))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "graph": graph.name,
            "schedule": schedule.kind.value,
            "micro-batches": schedule.num_micro_batches,
            "makespan ms": schedule.makespan_ms,
            "lower bound ms": schedule.lower_bound_ms,
            "period ms": schedule.period_ms,
            "assumptions": " ".join(schedule.assumptions),
        },
    }


def _nanoseconds(time_ms: float) -> int:
    return round(time_ms * NANOSECONDS_PER_MS)


def _microseconds(nanoseconds: int) -> float:
    """Return the time that gives these nanoseconds when multiplied by 1000 and cut off."""
    time = nanoseconds / 1000
    while int(time * 1000.0) < nanoseconds:
        time = math.nextafter(time, math.inf)
    return time


def _process_of(device: int) -> int:
    return device + 1


def _threads(schedule: Schedule) -> list[int]:
    """Return the thread of each slot: that of its kind, or another one where that is taken."""
    free_ns: dict[tuple[int, SlotKind], list[int]] = {}
    threads: list[int] = []
    for slot in schedule.slots:
        lanes = free_ns.setdefault((slot.device, slot.kind), [])
        start, end = _nanoseconds(slot.start_ms), _nanoseconds(slot.end_ms)
        lane = next((i for i, free in enumerate(lanes) if free <= start), len(lanes))
        lanes[lane : lane + 1] = [end]
        threads.append(THREADS_OF_A_PROCESS * _process_of(slot.device) + len(THREAD_OF) * lane + THREAD_OF[slot.kind])
    return threads


def _names(device: int, deployment: Deployment, threads: set[int]) -> list[dict[str, Any]]:
    pid = _process_of(device)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": deployment.device_name(device)}},
        {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": device}},
    ]
    for kind, first in THREAD_OF.items():
        own = THREADS_OF_A_PROCESS * pid + first
        lanes = sorted({own} | {tid for tid in threads if (tid - own) % len(THREAD_OF) == 0})
        for lane, tid in enumerate(lanes):
            about = {"ph": "M", "pid": pid, "tid": tid}
            name = kind.value if lane == 0 else f"{kind.value} {lane + 1}"
            events.append({**about, "name": "thread_name", "args": {"name": name}})
            events.append({**about, "name": "thread_sort_index", "args": {"sort_index": tid}})
    return events


def _slot_name(slot: Slot) -> str:
    work = f"{slot.direction.letter}{slot.micro_batch}"
    return work if slot.kind is SlotKind.COMPUTE else f"{slot.kind.value} {work}"


def _complete_event(schedule: Schedule, index: int, thread: int) -> dict[str, Any]:
    slot = schedule.slots[index]
    stage = schedule.stages[slot.stage]
    start, end = _nanoseconds(slot.start_ms), _nanoseconds(slot.end_ms)
    return {
        "ph": "X",
        "name": _slot_name(slot),
        "cat": f"{slot.direction.value},{slot.kind.value}",
        "pid": _process_of(slot.device),
        "tid": thread,
        "ts": _microseconds(start),
        "dur": _microseconds(end - start),
        "args": {
            "stage": stage.notation,
            "micro-batch": slot.micro_batch,
            "nodes": len(stage.nodes),
            "ms": slot.end_ms - slot.start_ms,
            "critical": index in schedule.critical,
        },
    }


def _lasts(slot: Slot) -> bool:
    return _nanoseconds(slot.start_ms) < _nanoseconds(slot.end_ms)


def _flows(schedule: Schedule, threads: list[int]) -> list[dict[str, Any]]:
    """Return a pair of events for each stage, micro-batch and stage it receives from.

    A CPU has no transfer slots, so its arrows leave from and arrive at compute slots. A flow belongs to the slot
    that encloses it in time; starts are used, since the end of a slot may already belong to the next. A slot that takes
    no time encloses nothing and has no arrows.
    """
    leaves: dict[tuple[int, int], int] = {}
    arrives: dict[tuple[int, int], int] = {}
    for i, slot in enumerate(schedule.slots):
        # In the order of time: the first slot of a stage takes its inputs in, the last gives its outputs away.
        leaves[slot.stage, slot.micro_batch] = i
        arrives.setdefault((slot.stage, slot.micro_batch), i)

    def place(i: int) -> dict[str, Any]:
        slot = schedule.slots[i]
        return {
            "pid": _process_of(slot.device),
            "tid": threads[i],
            "ts": _microseconds(_nanoseconds(slot.start_ms)),
        }

    events: list[dict[str, Any]] = []
    for (stage, micro_batch), receiver in arrives.items():
        for source in schedule.stages[stage].receives_from:
            sender = leaves[source, micro_batch]
            if not (_lasts(schedule.slots[sender]) and _lasts(schedule.slots[receiver])):
                continue
            about = {"name": "tensors", "cat": "transfer", "id": len(events) // 2}
            events.append({**about, "ph": "s", **place(sender)})
            events.append({**about, "ph": "f", "bp": "e", **place(receiver)})
    return events


def _counters(schedule: Schedule) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for d in sorted({stage.device for stage in schedule.stages}):
        for point in schedule.memory[d]:
            about = {"ph": "C", "pid": _process_of(d), "ts": _microseconds(_nanoseconds(point.time_ms))}
            events.append({**about, "name": "in flight", "args": {"micro-batches": point.in_flight}})
            events.append({**about, "name": "memory", "args": {"bytes": point.memory_bytes}})
    return events
