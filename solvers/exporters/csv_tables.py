"""Tables of a plan as CSV (RFC 4180): its summary, devices, nodes, cut tensors and slots.

Units stand in the heads; times are in ms, sizes in bytes, at full precision; an empty cell means that there is no such
number. Names come from files of strangers and spreadsheets run what begins with "=": such a text gets an apostrophe in
front (OWASP, "CSV Injection"), which spreadsheets take as "this is text".
"""

import csv
import io
from collections.abc import Iterable, Mapping

from solvers.model.costs import SplitCosts
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, passes_per_second
from solvers.model.split import Split
from solvers.quantities import as_given
from solvers.schedule.records import Schedule

Cell = str | int | float | bool | None

FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
"""What a spreadsheet may take for the beginning of a formula, full-width forms included."""


def csv_tables(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    costs: SplitCosts,
    result: SolveResult,
    schedule: Schedule | None = None,
) -> Mapping[str, str]:
    """Return the tables by file name; `split` and `costs` are by device of `deployment`.

    Without a schedule there is no table of slots, and stages and peaks of memory are empty.
    """
    tables = {
        "summary.csv": _summary(graph, deployment, result, schedule),
        "devices.csv": _devices(deployment, split, costs, schedule),
        "nodes.csv": _nodes(graph, deployment, split, costs, schedule),
        "cut_tensors.csv": _cut_tensors(graph, deployment, split, costs),
    }
    if schedule is not None:
        tables["slots.csv"] = _slots(deployment, schedule)
    return {name: csv_text(rows) for name, rows in tables.items()}


def csv_text(rows: Iterable[Iterable[Cell]]) -> str:
    """Return rows as CSV, each ended by CR and LF; only text is defused, numbers may be negative.

    >>> csv_text([["name", "time (ms)"], ["=1+1", -0.5], ["a, b", None]]).splitlines()
    ['name,time (ms)', "'=1+1,-0.5", '"a, b",']
    """
    file = io.StringIO()
    writer = csv.writer(file)
    for row in rows:
        writer.writerow([_written(cell) for cell in row])
    return file.getvalue()


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        # What UTF-8 cannot hold, half of a surrogate pair, would make the file unreadable.
        return no_formula(cell.encode("utf-8", "replace").decode())
    return repr(cell)


def no_formula(text: str) -> str:
    """Return a text as a spreadsheet shows it and does not run it.

    >>> no_formula("=1+1"), no_formula("a = 1")
    ("'=1+1", 'a = 1')
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _summary(
    graph: DnnGraph, deployment: Deployment, result: SolveResult, schedule: Schedule | None
) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        ["quantity", "value"],
        ["graph", graph.name],
        ["nodes", len(graph.nodes)],
        ["edges", len(graph.edges)],
        ["accelerators", deployment.num_accelerators],
        ["CPUs", deployment.num_cpus],
        ["memory of an accelerator (bytes)", deployment.memory_bytes],
        ["objective", str(result.objective)],
        ["splits", str(result.family)],
        ["method", result.method],
        ["status", str(result.status)],
        ["value (ms)", result.value_ms],
        ["proven lower bound (ms)", result.lower_bound_ms],
        ["gap", result.gap],
        ["throughput (micro-batches/s)", passes_per_second(result)],
        ["time of the solver (s)", result.runtime_s],
    ]
    if graph.micro_batch is not None:
        rows.append([f"{graph.micro_batch.unit} per micro-batch", graph.micro_batch.samples])
    for c in deployment.classes:
        rows.append(
            [
                f"class {c.name}",
                f"{c.count} accelerators, speed {as_given(c.speed)}, link speed {as_given(c.link_speed)}",
            ]
        )
        rows.append([f"memory of class {c.name} (bytes)", c.memory_bytes])
    if schedule is not None:
        rows += [
            ["schedule", str(schedule.kind)],
            ["micro-batches", schedule.num_micro_batches],
            ["makespan (ms)", schedule.makespan_ms],
            ["period (ms)", schedule.period_ms],
            ["lower bound on the makespan (ms)", schedule.lower_bound_ms],
        ]
        rows += [["assumption", sentence] for sentence in schedule.assumptions]
    return rows


def _devices(deployment: Deployment, split: Split, costs: SplitCosts, schedule: Schedule | None) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        [
            "device", "name", "replicas", "nodes", "compute (ms)", "receive (ms)", "send (ms)", "load (ms)",
            "slowest", "memory (bytes)", "capacity (bytes)", "peak memory in the schedule (bytes)",
            "bubble share",
        ]
    ]  # fmt: skip
    for device, members in zip(costs.devices, split.devices, strict=True):
        d = device.device
        rows.append(
            [
                d, deployment.device_name(d), device.replicas, len(members), device.compute_ms, device.receive_ms,
                device.send_ms, device.load_ms, d == costs.bottleneck, device.memory_bytes,
                deployment.capacity_bytes(d), None if schedule is None else schedule.peak_memory_bytes[d],
                None if schedule is None else schedule.bubble_fraction[d],
            ]
        )  # fmt: skip
    return rows


def _nodes(
    graph: DnnGraph, deployment: Deployment, split: Split, costs: SplitCosts, schedule: Schedule | None
) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        [
            "node", "name", "layer", "pass", "device", "device name", "stage", "time (ms)", "accelerator time (ms)",
            "CPU time (ms)", "memory (bytes)", "output (bytes)", "transfer time of the output at link speed 1 (ms)",
            "output is cut",
        ]
    ]  # fmt: skip
    device_of = split.device_of()
    stage_of = {v: stage.notation for stage in schedule.stages for v in stage.nodes} if schedule is not None else {}
    cut = {tensor.source for tensor in costs.cut_tensors}
    for v in graph.topological_order:
        node, d = graph.node_by_id[v], device_of[v]
        rows.append(
            [
                v, node.name, node.layer, "backward" if node.is_backward else "forward", d, deployment.device_name(d),
                stage_of.get(v), deployment.node_ms(node, d), node.accelerator_ms,
                node.cpu_ms, node.memory_bytes, graph.output_bytes[v], node.output_ms, v in cut,
            ]
        )  # fmt: skip
    return rows


def _cut_tensors(graph: DnnGraph, deployment: Deployment, split: Split, costs: SplitCosts) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        ["node", "name", "tensor", "from", "to", "read by nodes", "send (ms)", "receive (ms)", "size (bytes)"],
    ]
    device_of = split.device_of()
    for tensor in costs.cut_tensors:
        readers = [v for v in graph.tensor_of[tensor.key].readers if device_of[v] != tensor.from_device]
        rows.append(
            [
                tensor.source,
                graph.node_by_id[tensor.source].name,
                tensor.tensor,
                deployment.device_name(tensor.from_device),
                "; ".join(deployment.device_name(d) for d in tensor.to_devices),
                " ".join(map(str, readers)),
                tensor.send_ms,
                "; ".join(map(repr, tensor.receive_ms)),
                tensor.size_bytes,
            ]
        )
    return rows


def _slots(deployment: Deployment, schedule: Schedule) -> list[list[Cell]]:
    rows: list[list[Cell]] = [
        ["device", "device name", "stage", "pass", "micro-batch", "kind", "start (ms)", "end (ms)", "critical"],
    ]
    for i, slot in enumerate(schedule.slots):
        rows.append(
            [
                slot.device, deployment.device_name(slot.device), schedule.stages[slot.stage].notation,
                str(slot.direction), slot.micro_batch, str(slot.kind), slot.start_ms, slot.end_ms,
                i in schedule.critical,
            ]
        )  # fmt: skip
    return rows
