"""Write a schedule in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open.

A device is a process with three threads: compute, receive and send. A slot is a complete event ("X"), a tensor's way
from one device to another a flow ("s" at the sender, "f" at the receiver), and what a device holds a counter ("C").
The format wants integer process and thread ids and times in microseconds; micro-batches count from 0.

Source: Google, "Trace Event Format" (the document behind chrome://tracing).
"""

from typing import Any

from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.schedule import Schedule, Slot, SlotKind

MICROSECONDS_PER_MS = 1000.0
THREAD_OF = {SlotKind.COMPUTE: 1, SlotKind.RECEIVE: 2, SlotKind.SEND: 3}
"""Ids start at 1, those of processes too: some viewers take 0 for the idle process of the system."""


def chrome_trace(schedule: Schedule, deployment: Deployment, graph: DnnGraph) -> dict[str, Any]:
    """Return the JSON object of a trace; times in it are microseconds, `args` of a slot repeat them in ms.

    >>> from solvers.graph import Node, Edge
    >>> from solvers.schedule import ScheduleKind, simulate
    >>> from solvers.split import Split
    >>> g, split = DnnGraph((Node(1, 2.0, 9.0),), ()), Split((frozenset({1}),))
    >>> trace = chrome_trace(simulate(g, Deployment(1), split, ScheduleKind.INFERENCE, 1), Deployment(1), g)
    >>> [(e["name"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"]
    [('F0', 0.0, 2000.0)]
    """
    events: list[dict[str, Any]] = []
    for d in sorted({stage.device for stage in schedule.stages}):
        events.extend(_names(d, deployment))
    events.extend(_complete_event(schedule, slot) for slot in schedule.slots)
    events.extend(_flows(schedule))
    events.extend(_counters(schedule))
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "graph": graph.name,
            "schedule": schedule.kind.value,
            "micro-batches": schedule.num_micro_batches,
            "makespan ms": schedule.makespan_ms,
            "period ms": schedule.period_ms,
        },
    }


def _process_of(device: int) -> int:
    return device + 1


def _names(device: int, deployment: Deployment) -> list[dict[str, Any]]:
    pid = _process_of(device)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": deployment.device_name(device)}},
        {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": device}},
    ]
    for kind, tid in THREAD_OF.items():
        about = {"ph": "M", "pid": pid, "tid": tid}
        events.append({**about, "name": "thread_name", "args": {"name": kind.value}})
        events.append({**about, "name": "thread_sort_index", "args": {"sort_index": tid}})
    return events


def _slot_name(slot: Slot) -> str:
    work = f"{slot.direction.letter}{slot.micro_batch}"
    return work if slot.kind is SlotKind.COMPUTE else f"{slot.kind.value} {work}"


def _complete_event(schedule: Schedule, slot: Slot) -> dict[str, Any]:
    stage = schedule.stages[slot.stage]
    return {
        "ph": "X",
        "name": _slot_name(slot),
        "cat": f"{slot.direction.value},{slot.kind.value}",
        "pid": _process_of(slot.device),
        "tid": THREAD_OF[slot.kind],
        "ts": slot.start_ms * MICROSECONDS_PER_MS,
        "dur": (slot.end_ms - slot.start_ms) * MICROSECONDS_PER_MS,
        "args": {
            "stage": stage.notation,
            "micro-batch": slot.micro_batch,
            "nodes": len(stage.nodes),
            "ms": slot.end_ms - slot.start_ms,
        },
    }


def _flows(schedule: Schedule) -> list[dict[str, Any]]:
    """Return a pair of events for each stage, micro-batch and stage it receives from.

    A CPU has no transfer slots, so its arrows leave from and arrive at compute slots. A flow belongs to the slot
    that encloses it in time; starts are used, since the end of a slot may already belong to the next.
    """
    leaves: dict[tuple[int, int], Slot] = {}
    arrives: dict[tuple[int, int], Slot] = {}
    for slot in schedule.slots:
        # In the order of time: the first slot of a stage takes its inputs in, the last gives its outputs away.
        leaves[slot.stage, slot.micro_batch] = slot
        arrives.setdefault((slot.stage, slot.micro_batch), slot)
    events: list[dict[str, Any]] = []
    for (stage, micro_batch), receiver in arrives.items():
        for source in schedule.stages[stage].receives_from:
            sender = leaves[source, micro_batch]
            about = {"name": "tensors", "cat": "transfer", "id": len(events) // 2}
            events.append({**about, "ph": "s", **_place(sender)})
            events.append({**about, "ph": "f", "bp": "e", **_place(receiver)})
    return events


def _place(slot: Slot) -> dict[str, Any]:
    return {"pid": _process_of(slot.device), "tid": THREAD_OF[slot.kind], "ts": slot.start_ms * MICROSECONDS_PER_MS}


def _counters(schedule: Schedule) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for d in sorted({stage.device for stage in schedule.stages}):
        for point in schedule.memory[d]:
            about = {"ph": "C", "pid": _process_of(d), "ts": point.time_ms * MICROSECONDS_PER_MS}
            events.append({**about, "name": "in flight", "args": {"micro-batches": point.in_flight}})
            events.append({**about, "name": "memory", "args": {"bytes": point.memory_bytes}})
    return events
