"""The timeline's part of the message to the canvas component: what `gantt_info` decided, as plain values and arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.picture.dag_view import DagInfo
from explorer.picture.gantt_view import NO_PERIOD, GanttInfo, GanttLane
from explorer.picture.palette import MICRO_BATCH_FILLS
from solvers.schedule.simulate import Pass, PipelineStage, SlotKind

SLOT_KINDS = (SlotKind.RECEIVE, SlotKind.COMPUTE, SlotKind.SEND)
"""As numbered in `bar.kind`."""
PASS_LETTERS = ("F", "B", "I", "W")
"""As numbered in `bar.pass` and a stage's `passIndex`."""

AddArray = Callable[[str, Any, str], None]
"""Takes the name of an array, its numbers, and its type (f4, f8, i4, u1)."""


def gantt_message(view: GanttInfo, graph_view: DagInfo | None, add: AddArray) -> dict[str, Any]:
    """Return the header's part of the timeline; bars, the nodes of stages and memory go into arrays."""
    _add_bars(view, add)
    _add_nodes(view, graph_view, add)
    _add_memory(view, add)
    idle = [view.deployment.device_name(d) for d in view.idle_devices]
    shown = ", ".join(idle[:8]) + (f" and {len(idle) - 8} more" if len(idle) > 8 else "")
    mark = view.period_mark
    return {
        "title": view.title,
        "summary": view.summary,
        "lanes": [_lane(lane) for lane in view.lanes],
        "isByDevice": view.is_by_device,
        "idle": f"Idle: {shown}." if idle else "",
        "numMicroBatches": view.num_micro_batches,
        "makespanMs": view.makespan_ms,
        "loadBoundMs": view.load_bound_ms,
        "criticalPathBoundMs": view.critical_path_bound_ms,
        "lowerBoundMs": view.lower_bound_ms,
        "hasBounds": view.has_bounds,
        "periodMs": view.period_ms,
        "periodText": view.period_name if view.period_ms is not None else NO_PERIOD,
        "periodMark": None if mark is None else {"lane": mark.lane, "startMs": mark.start_ms, "endMs": mark.end_ms},
        "warmUpMs": view.warm_up_ms,
        "drainStartMs": view.drain_start_ms,
        "hasBackward": any(stage.direction is not Pass.FORWARD for stage in view.stages),
        "pieceName": view.piece_name,
        "tellsMemory": view.tells_memory,
        "notes": view.notes,
        "microBatchFills": [{"fill": fill.fill, "text": fill.text} for fill in MICRO_BATCH_FILLS],
        "stages": [
            {
                "number": stage.number,
                "notation": stage.notation,
                "pass": str(stage.direction),
                "passIndex": _pass(stage),
                "device": stage.device,
                "backward": int(stage.direction is not Pass.FORWARD),
                "piece": piece.piece,
                "numPieces": piece.num_pieces,
                "receivesFrom": stage.receives_from,
            }
            for stage, piece in zip(view.stages, view.pieces, strict=True)
        ],
    }


def _lane(lane: GanttLane) -> dict[str, Any]:
    return {
        "device": lane.device,
        "name": lane.name,
        "bubbleFraction": lane.bubble_fraction,
        "utilisation": lane.utilisation,
        "peakMemoryBytes": lane.peak_memory_bytes,
        "peakInFlight": lane.peak_in_flight,
        "weightVersions": lane.weight_versions,
        "capacityBytes": lane.capacity_bytes,
        "isOverMemory": lane.is_over_memory,
    }


def _pass(stage: PipelineStage) -> int:
    return PASS_LETTERS.index(stage.direction.letter)


def _add_bars(view: GanttInfo, add: AddArray) -> None:
    bars = view.bars
    kind_number = {kind: i for i, kind in enumerate(SLOT_KINDS)}
    passes = [_pass(stage) for stage in view.stages]
    add("bar.lane", [bar.lane for bar in bars], "i4")
    add("bar.start", [bar.start_ms for bar in bars], "f8")
    add("bar.end", [bar.end_ms for bar in bars], "f8")
    add("bar.stage", [bar.stage for bar in bars], "i4")
    add("bar.micro_batch", [bar.micro_batch for bar in bars], "i4")
    add("bar.kind", [kind_number[bar.kind] for bar in bars], "u1")
    add("bar.pass", [passes[bar.stage] for bar in bars], "u1")
    add("bar.critical", [bar.is_critical for bar in bars], "u1")


def _add_nodes(view: GanttInfo, graph_view: DagInfo | None, add: AddArray) -> None:
    """Add the nodes of each stage, in the order they run, by their place in the graph's part, and their times."""
    nodes = () if graph_view is None else graph_view.nodes
    index = {node.id: i for i, node in enumerate(nodes)}
    members = [[index[v] for v in stage.nodes if v in index] for stage in view.stages]
    is_cpu = [view.deployment.is_cpu(stage.device) for stage in view.stages]
    add("stage.node", [i for own in members for i in own], "i4")
    add("stage.node_end", np.cumsum([len(own) for own in members], dtype=int), "i4")
    add(
        "stage.node_ms",
        [
            nodes[i].cpu_ms if cpu else nodes[i].accelerator_ms
            for own, cpu in zip(members, is_cpu, strict=True)
            for i in own
        ],
        "f4",
    )


def _add_memory(view: GanttInfo, add: AddArray) -> None:
    """Add the steps of each lane's memory, lane after lane: from `memory.time` on it holds `memory.bytes`."""
    points = [point for lane in view.lanes for point in lane.memory]
    add("memory.end", np.cumsum([len(lane.memory) for lane in view.lanes], dtype=int), "i4")
    add("memory.time", [point.time_ms for point in points], "f8")
    add("memory.bytes", [point.memory_bytes for point in points], "f8")
    add("memory.in_flight", [point.in_flight for point in points], "i4")
