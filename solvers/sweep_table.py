"""The answers of a sweep as a table: rows for CSV, Parquet, JSON and the terminal.

One row per point, in the order of the axes. Units stand in the names of the columns; a value that does not exist is
empty, and so are all values of a point that is not solved yet.
"""

import io
import math
from collections.abc import Mapping
from typing import Any

from solvers.exporters.csv_tables import csv_text
from solvers.result import SolveResult, SolveStatus
from solvers.sweep_analysis import Measure, Prices, knee, measured, throughput
from solvers.sweep_axes import Quantity
from solvers.sweep_plan import Index, SweepSpec
from solvers.text_table import number_text, share_text, text_table

COLUMNS = {
    Quantity.ACCELERATORS: "accelerators",
    Quantity.CPUS: "cpus",
    Quantity.MEMORY: "memory_gib",
    Quantity.BANDWIDTH: "bandwidth_gb_per_s",
    Quantity.BANDWIDTH_FACTOR: "bandwidth_factor",
    Quantity.MICRO_BATCHES: "micro_batches",
    Quantity.OBJECTIVE: "objective",
    Quantity.DEVICES: "devices",
}

NOT_SOLVED = "NOT SOLVED"
"""The status of a point without an answer."""


def sweep_rows(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices) -> list[dict[str, Any]]:
    """Return a row per point: its place on the axes, its value with proof, and what follows from it.

    Times in ms and seconds, rates per second, money per hour in the currency of the prices.
    """
    return [_row(spec, index, answers.get(index), prices) for index in sorted(spec.points())]


def _row(spec: SweepSpec, index: Index, result: SolveResult | None, prices: Prices) -> dict[str, Any]:
    deployment = spec.deployment_at(index)
    place = {
        COLUMNS[axis.quantity]: axis.quantity.shown(value)
        for axis, value in zip(spec.axes, spec.values(index), strict=True)
    }

    def of(measure: Measure) -> float | None:
        return None if result is None else measured(measure, deployment, result, prices)

    return {
        **place,
        "status": NOT_SOLVED if result is None else str(result.status),
        "value_ms": of(Measure.TIME),
        "lower_bound_ms": None if result is None else result.lower_bound_ms,
        "gap": None if result is None else result.gap,
        "throughput_per_s": of(Measure.THROUGHPUT),
        "throughput_per_accelerator_per_s": of(Measure.PER_DEVICE),
        "price_per_hour": prices.per_hour(deployment),
        "samples_per_price": of(Measure.PER_COST),
        "method": None if result is None else result.method,
        "seconds": None if result is None else round(result.runtime_s, 6),
        "message": None if result is None else result.message,
    }


def csv_of(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV with a head."""
    return csv_text([list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)])


def _cell(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value  # names of an enum as their values


def parquet_of(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a Parquet file; columns of counts are whole numbers, of names text, all others doubles."""
    import pyarrow as pa  # loads in half a second, when it is needed
    import pyarrow.parquet as pq

    whole = {COLUMNS[quantity] for quantity in Quantity if quantity.is_whole}
    texts = {COLUMNS[Quantity.OBJECTIVE], COLUMNS[Quantity.DEVICES], "status", "method", "message"}
    columns = {
        name: pa.array(
            [_cell(row[name]) for row in rows],
            pa.int64() if name in whole else pa.string() if name in texts else pa.float64(),
        )
        for name in rows[0]
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def sweep_text(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices) -> str:
    """Return the table for a terminal: a row per value of one axis, or throughputs with an axis along either side."""
    return _list_text(spec, answers, prices) if len(spec.axes) == 1 else _grid_text(spec, answers)


def _list_text(spec: SweepSpec, answers: Mapping[Index, SolveResult], prices: Prices) -> str:
    axis = spec.axes[0]
    bend = knee_of(spec, answers)
    lines = []
    for i, row in enumerate(sweep_rows(spec, answers, prices)):
        lines.append(
            (
                axis.quantity.text(axis.values[i]),
                str(row["status"]),
                number_text(row["value_ms"]),
                share_text(row["gap"]),
                number_text(row["throughput_per_s"], 5),
                number_text(row["throughput_per_accelerator_per_s"], 5),
                number_text(row["samples_per_price"], 5),
                "knee" if i == bend else "",
            )
        )
    head = ("", "", "ms/sample", "gap", "samples/s", "per accelerator", "per unit of money", "")
    return text_table(head, lines, left=2)


def _grid_text(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> str:
    rows_axis, columns_axis = spec.axes
    lines = [
        (
            rows_axis.quantity.text(rows_axis.values[i]),
            *(_grid_cell(answers.get((i, j))) for j in range(len(columns_axis.values))),
        )
        for i in range(len(rows_axis.values))
    ]
    head = ("samples/s", *(columns_axis.quantity.text(value) for value in columns_axis.values))
    return text_table(head, lines)


def _grid_cell(result: SolveResult | None) -> str:
    if result is None:
        return "?"
    if result.status is SolveStatus.INFEASIBLE:
        return "infeasible"
    mark = "" if result.status is SolveStatus.OPTIMAL or result.value_ms is None else "*"
    return number_text(throughput(result), 5) + mark


def knee_of(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> int | None:
    """Return the index of the knee of throughput over the only axis of a sweep, on the axis as it is drawn."""
    if len(spec.axes) != 1 or not spec.axes[0].quantity.is_monotone:
        return None
    axis = spec.axes[0]
    found = [
        (i, rate)
        for i in range(len(axis.values))
        if (i,) in answers and (rate := throughput(answers[(i,)])) is not None
    ]
    if axis.quantity.is_easier_when_less or not found:
        return None
    xs = [float(axis.values[i]) for i, _ in found]
    bend = knee([math.log(x) for x in xs] if axis.is_logarithmic else xs, [rate for _, rate in found])
    return None if bend is None else found[bend][0]
