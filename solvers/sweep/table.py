"""The answers of a sweep as a table: rows for CSV, Parquet, JSON and the terminal.

One row per point, in the order of the axes. Units stand in the names of the columns; a value that does not exist is
empty, and so are all values of a point that is not solved yet.
"""

import io
from collections.abc import Mapping
from typing import Any

from solvers.exporters.csv_tables import csv_text
from solvers.formats.text_table import text_table
from solvers.hardware.prices import PriceBasis, Prices
from solvers.model.costs import Objective
from solvers.model.result import SolveResult, SolveStatus
from solvers.quantities import above_bound, number
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.front import MARK, MARK_NOTE, NO_PRICES, front_of, per_money_text
from solvers.sweep.measures import Measure, is_lone, is_unproven, measured_at, measured_in_passes, unit_of
from solvers.sweep.plateau import knee_of, plateau_of, plateau_text
from solvers.sweep.spec import Index, SweepSpec

COLUMNS = {quantity: quantity.traits.column for quantity in Quantity}
"""Names of columns; behind what is of one class stands its name."""

TEXTS = frozenset({"graph", "objective", "splits", "devices", "status", "method", "message", "sample_unit"})
FLAGS = frozenset({"is_on_pareto_front"})
WHOLE = frozenset({"accelerators_used", *(q.traits.column for q in Quantity if q.is_whole and q is not Quantity.COUNT)})

NOT_SOLVED = "NOT SOLVED"
"""The status of a point without an answer."""


def sweep_rows(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices) -> list[dict[str, Any]]:
    """Return a row per point: its place on the axes, its value with proof, and what follows from it.

    Times in ms and seconds, rates in micro-batches per second, money in the currency of the prices, per hour or to buy
    as these are. `samples_per_price` is an old name of `micro_batches_per_price`. What micro-batches hold is in
    `samples_per_micro_batch` and `sample_unit`, and `samples_per_s` the throughput in that unit; None where a graph
    does not say.
    """
    front = {point.index for point in front_of(spec, answers, prices)}
    return [
        {**_row(spec, index, answers.get(index), prices), "is_on_pareto_front": index in front}
        for index in sorted(spec.points())
    ]


def column_of(axis: Axis) -> str:
    """Return the name of the column that has the values of an axis."""
    return COLUMNS[axis.quantity] + (f"_of_{axis.of_class}" if axis.of_class else "")


def _row(spec: SweepSpec, index: Index, result: SolveResult | None, prices: Prices) -> dict[str, Any]:
    devices = spec.devices_at(index)
    place = {
        column_of(axis): axis.quantity.shown(value) for axis, value in zip(spec.axes, spec.values(index), strict=True)
    }

    def of(measure: Measure) -> float | None:
        return None if result is None else measured_in_passes(measure, spec, index, result, prices)

    is_hourly = prices.basis is PriceBasis.PER_HOUR
    objective = place.get("objective", spec.objective)
    split = None if result is None else result.split
    held, passes_per_s, per_cost = spec.graph.micro_batch, of(Measure.THROUGHPUT), of(Measure.PER_COST)
    return {
        **place,
        "accelerators": devices.num_accelerators,
        "cpus": devices.num_cpus,
        **{name: value for name, value in _held(spec, index).items() if name not in place},
        "objective": objective,
        "splits": None if objective == Objective.LATENCY else spec.family,
        "status": NOT_SOLVED if result is None else str(result.status),
        "value_ms": of(Measure.TIME),
        "lower_bound_ms": None if result is None else result.lower_bound_ms,
        "gap": None if result is None else result.gap,
        "accelerators_used": None if split is None else split.num_accelerators_used,
        "throughput_per_s": passes_per_s,
        "throughput_per_accelerator_per_s": of(Measure.PER_DEVICE),
        "price_per_hour" if is_hourly else "price_to_buy": prices.cost(devices),
        "currency": prices.currency or None,
        **(
            {"samples_per_price": per_cost, "micro_batches_per_price": per_cost}
            if is_hourly
            else {"throughput_per_s_per_1000_price": per_cost}
        ),
        "samples_per_micro_batch": None if held is None else held.samples,
        "sample_unit": None if held is None else held.unit,
        "samples_per_s": None if held is None or passes_per_s is None else passes_per_s * held.samples,
        "method": None if result is None else result.method,
        "seconds": None if result is None else round(result.runtime_s, 6),
        "message": None if result is None else result.message,
    }


def _held(spec: SweepSpec, index: Index) -> dict[str, Any]:
    """Return what else there is to know of the graph and the hardware of a point, in the units of axes."""
    deployment, own = spec.deployment_at(index), spec.graph.bandwidth_bytes_per_ms
    of_all = {axis.quantity for axis in spec.axes if not axis.of_class}
    held: dict[str, Any] = {"graph": spec.graph.name}
    if Quantity.DEVICES in of_all:  # which says the rest
        return held
    held["devices"] = "+".join(f"{count}x{name}" for name, count in spec.devices_at(index).accelerators)
    kinds = [(f"_of_{one.name}", one.memory_bytes, one.link_speed) for one in deployment.classes]
    for suffix, memory, speed in kinds or [("", deployment.memory_bytes, 1.0)]:
        held[COLUMNS[Quantity.MEMORY] + suffix] = None if memory is None else Quantity.MEMORY.shown(memory)
        if not of_all & {Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR}:
            held[COLUMNS[Quantity.BANDWIDTH] + suffix] = None if own is None else Quantity.BANDWIDTH.shown(speed * own)
    return held


def csv_of(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV with a head."""
    return csv_text([list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)])


def _cell(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value  # names of an enum as their values


def parquet_of(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a Parquet file; columns of counts are whole numbers, of names text, all others doubles."""
    import pyarrow as pa  # loads in half a second, when it is needed
    import pyarrow.parquet as pq

    def kind(name: str) -> Any:
        if name in FLAGS:
            return pa.bool_()
        is_whole = name in WHOLE or name.startswith(f"{COLUMNS[Quantity.COUNT]}_of_")
        return pa.int64() if is_whole else pa.string() if name in TEXTS else pa.float64()

    columns = {name: pa.array([_cell(row[name]) for row in rows], kind(name)) for name in rows[0]}
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def sweep_text(
    spec: SweepSpec,
    answers: Mapping[Index, SolveResult],
    prices: Prices,
    measure: Measure = Measure.THROUGHPUT,
) -> str:
    """Return the table for a terminal: a row per value of one axis, or a measure with an axis along either side.

    Below it stands what has to be known to read it.
    """
    is_list = len(spec.axes) == 1
    table = _list_text(spec, answers, prices) if is_list else _grid_text(spec, answers, prices, measure)
    notes = []
    if not is_list and any(map(is_unproven, answers.values())):
        notes.append(MARK_NOTE)
    if not is_list and measure is Measure.PER_COST and prices.count_alike:
        notes.append(NO_PRICES)
    shows_rates = is_list or measure is not Measure.TIME
    if shows_rates and (note := latency_note(spec, answers)):
        notes.append(note)
    return "\n".join((table, *notes))


def latency_note(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> str:
    """Say what throughput is of latencies, or that they have none beside pipelines; else empty."""
    if any(is_lone(spec, result) for result in answers.values()):
        return "Latency is that of one micro-batch alone, which has no throughput to compare with a pipeline's."
    if any(result.objective is Objective.LATENCY for result in answers.values()):
        return "Throughput is that of one micro-batch after the other, not of a pipeline."
    return ""


def _list_text(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices) -> str:
    axis = spec.axes[0]
    bend, plateau = knee_of(spec, answers), plateau_of(spec, answers)
    lines = []
    of_money = [] if prices.has_none else [per_money_text(prices, unit_of(spec))]
    for i, row in enumerate(sweep_rows(spec, answers, prices)):
        result = answers.get((i,))
        rate, each, per_cost = (
            None if result is None else measured_at(measure, spec, (i,), result, prices)
            for measure in (Measure.THROUGHPUT, Measure.PER_DEVICE, Measure.PER_COST)
        )
        is_flat = plateau is not None and plateau.first <= i <= plateau.last
        lines.append(
            (
                axis.text(i),
                str(row["status"]),
                number(row["value_ms"]),
                above_bound(row["value_ms"], row["lower_bound_ms"]),
                number(row["accelerators_used"]),
                number(rate),
                number(each),
                *([number(per_cost)] if of_money else []),
                "knee" if i == bend else "plateau" if is_flat else "",
            )
        )
    head = ("", "", "ms", "above bound", "used", f"{unit_of(spec)}/s", "per accelerator", *of_money, "")
    table = text_table(head, lines, left=2)
    return table if plateau is None else f"{table}\n{plateau_text(spec, plateau)}"


def _grid_text(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices, measure: Measure) -> str:
    rows_axis, columns_axis = spec.axes

    def cell(index: Index) -> str:
        result = answers.get(index)
        if result is None:
            return "?"
        if result.status is SolveStatus.INFEASIBLE:
            return "infeasible"
        value = measured_at(measure, spec, index, result, prices)
        return number(value) + MARK * (value is not None and is_unproven(result))

    lines = [
        (rows_axis.text(i), *(cell((i, j)) for j in range(len(columns_axis.values))))
        for i in range(len(rows_axis.values))
    ]
    head = (_units(measure, prices, unit_of(spec)), *(columns_axis.text(j) for j in range(len(columns_axis.values))))
    return text_table(head, lines)


def _units(measure: Measure, prices: Prices, unit: str) -> str:
    return {Measure.TIME: "ms", Measure.THROUGHPUT: f"{unit}/s", Measure.PER_DEVICE: f"{unit}/s each"}.get(
        measure, per_money_text(prices, unit)
    )
