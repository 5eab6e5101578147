"""The command `simulate`: a split run over micro-batches, as JSON, and as a trace for Perfetto."""

import argparse
import json
from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Any

from solvers.cli.commands import CHECKING, add_command, add_graph, add_split
from solvers.cli.input import split_at
from solvers.cli.options import add_device_options, add_parameter, add_strict, read_question
from solvers.cli.output import STREAM, VIOLATED, output_path, print_json, say, write_text
from solvers.exporters.chrome_trace import chrome_trace
from solvers.formats.graph_json import split_document
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split, check_split, complete_split
from solvers.parameters.schedule import MICRO_BATCHES, NUM_CHUNKS, SCHEDULE, WEIGHT_GRADIENTS
from solvers.quantities import binary_sizes
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import LOOPED_KINDS, ZERO_BUBBLE_KINDS, LoopedSplit
from solvers.schedule.simulate import Schedule, ScheduleError, ScheduleKind, simulate


def add_simulate(commands: Any) -> None:
    """Add the command `simulate` to the commands of the parser."""
    parser = add_command(
        commands,
        "simulate",
        "run a split over micro-batches",
        "simulate gpt2.json plan.json --accelerators 4 --schedule inference --micro-batches 8",
        CHECKING,
    )
    add_graph(parser)
    add_split(parser)
    add_parameter(parser, SCHEDULE, required=True)
    add_parameter(parser, MICRO_BATCHES, required=True)
    add_parameter(parser, NUM_CHUNKS, help_text=f"{NUM_CHUNKS.help} For interleaved and zb-v; 2 unless said.")
    add_parameter(parser, WEIGHT_GRADIENTS, help_text=f"{WEIGHT_GRADIENTS.help} From 0 to 1; 0.5 unless said.")
    parser.add_argument("--slots", action="store_true", help="Also print every timeline event")
    parser.add_argument(
        "--trace", type=output_path, metavar="TRACE.json", help="File to write a trace to, for Perfetto"
    )
    add_device_options(parser)
    add_strict(parser)
    parser.set_defaults(run=_simulate)


def _simulate(options: argparse.Namespace) -> int:
    kind: ScheduleKind = options.schedule
    for name, value, kinds in (
        (NUM_CHUNKS.flag, options.chunks, LOOPED_KINDS),
        (WEIGHT_GRADIENTS.flag, options.weight_gradient_share, ZERO_BUBBLE_KINDS),
    ):
        if value is not None and kind not in kinds:
            raise ScheduleError(f"{name} is for the schedules {' and '.join(kinds)}, not for {kind}; leave it out.")
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    split = complete_split(graph, split_at(options.split)).on(deployment)
    violations = check_split(graph, deployment, split)
    say(*(violation.message for violation in violations))
    deployment = _shape(split, deployment)
    looped = None
    if kind in LOOPED_KINDS:
        looped = looped_split(graph, deployment, split, asked.chunks, kind, asked.num_micro_batches)
        if looped.note:
            say(looped.note)
    share = asked.weight_gradient_share
    schedule = simulate(graph, deployment, looped or split, kind, asked.num_micro_batches, weight_gradient_share=share)
    document = schedule_document(schedule, deployment, with_slots=options.slots)
    if looped is not None:
        document |= _looped_document(looped, graph, deployment)
    known = {violation.device for violation in violations if violation.rule == "memory"}
    overflows = tuple(_overflows(schedule, deployment, known))
    say(*overflows)
    try:
        if options.trace != STREAM:
            print_json(document)
    finally:
        if options.trace is not None:
            write_text(options.trace, json.dumps(chrome_trace(schedule, deployment, graph), allow_nan=False) + "\n")
    return VIOLATED if options.strict and (violations or overflows) else 0


def _overflows(schedule: Schedule, deployment: Deployment, known: Container[int | None]) -> Iterator[str]:
    """Yield a sentence for each device, but those of which it is known, that the schedule has hold too much."""
    for d, peak_bytes in enumerate(schedule.peak_memory_bytes):
        capacity = deployment.capacity_bytes(d)
        if d not in known and capacity is not None and peak_bytes > deployment.memory_limit_of(d):
            held, size = binary_sizes([peak_bytes, capacity])
            yield f"{deployment.device_name(d)} holds up to {held} under this schedule, but {size} are available."


def _shape(split: Split, deployment: Deployment) -> Deployment:
    """Return the deployment, or a larger one if the split lists more devices than there are."""
    return replace(
        deployment,
        num_accelerators=max(deployment.num_accelerators, len(split.accelerators)),
        num_cpus=max(deployment.num_cpus, len(split.cpus)),
    )


def _looped_document(looped: LoopedSplit, graph: DnnGraph, deployment: Deployment) -> dict[str, Any]:
    """Return the split that was run, in the format of the paper's release, and its chunks."""
    costs = split_costs(graph, deployment, looped.split)
    loads = tuple(device.load_ms for device in costs.devices)
    return {
        "split": split_document(looped.split, loads, {"maxLoad": costs.max_load_ms}),
        "chunks": [
            {"device": d, "nodes": sorted(chunk)} for d, chunk in zip(looped.devices, looped.chunks, strict=True)
        ],
    }


def schedule_document(schedule: Schedule, deployment: Deployment, *, with_slots: bool) -> dict[str, Any]:
    """Return the JSON object that `placement simulate` prints, but for the split of a looped schedule."""
    document: dict[str, Any] = {
        "schedule": str(schedule.kind),
        "micro_batches": schedule.num_micro_batches,
        "chunks_per_device": schedule.chunks_per_device,
        "period_ms": schedule.period_ms,
        "makespan_ms": schedule.makespan_ms,
        "warm_up_ms": schedule.warm_up_ms,
        "drain_start_ms": schedule.drain_start_ms,
        "load_bound_ms": schedule.load_bound_ms,
        "critical_path_bound_ms": schedule.critical_path_bound_ms,
        "lower_bound_ms": schedule.lower_bound_ms,
        "devices": [
            {
                "device": d,
                "name": deployment.device_name(d),
                "bubble_share": schedule.bubble_fraction[d],
                "peak_in_flight": schedule.peak_in_flight[d],
                "weight_versions": schedule.weight_versions[d],
                "peak_memory_bytes": schedule.peak_memory_bytes[d],
                "capacity_bytes": deployment.capacity_bytes(d),
            }
            for d in range(deployment.num_devices)
        ],
        "assumptions": list(schedule.assumptions),
    }
    if with_slots:
        document["slots"] = [
            {
                "device": slot.device,
                "stage": slot.stage,
                "pass": str(slot.direction),
                "micro_batch": slot.micro_batch,
                "kind": str(slot.kind),
                "start_ms": slot.start_ms,
                "end_ms": slot.end_ms,
                "critical": i in schedule.critical,
            }
            for i, slot in enumerate(schedule.slots)
        ]
    return document
