"""Knee, Pareto front, measures, and the table of a sweep."""

import csv
import io
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.hardware.prices import PriceBasis, Prices
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.micro_batch import MicroBatch
from solvers.model.result import SolveResult, SolveStatus
from solvers.samples import read_sample
from solvers.solve import solve
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.front import wish_text
from solvers.sweep.measures import Measure, knee, measured, pareto_front
from solvers.sweep.plateau import knee_of, plateau_of, plateau_text
from solvers.sweep.run import run_sweep
from solvers.sweep.spec import Index, SweepSpec
from solvers.sweep.table import NOT_SOLVED, csv_of, parquet_of, sweep_rows, sweep_text
from tests.support.graphs import chain
from tests.support.sweeps import threads


def test_the_knee_of_a_known_curve() -> None:
    """The curve of the Kneedle paper, -1/x + 5 on 0.1 .. 1, is steepest against its chord at sqrt(0.1) = 0.316."""
    xs = [0.1 * i for i in range(1, 11)]
    assert xs[knee(xs, [-1 / x + 5 for x in xs]) or 0] == pytest.approx(0.3)


@pytest.mark.parametrize(
    "ys",
    [[1, 2, 3, 4, 5], [1, 1, 1, 1, 1], [1, 2, 4, 8, 16], [5, 4, 3, 2, 1]],
    ids=["line", "flat", "convex", "falling"],
)
def test_curves_without_a_knee(ys: list[float]) -> None:
    assert knee([1, 2, 3, 4, 5], ys) is None
    assert knee([1, 2], [1, 2]) is None


@given(st.integers(2, 10), st.integers(2, 10), st.floats(0.1, 100), st.floats(-100, 100))
def test_the_knee_of_a_ramp_with_a_plateau_is_its_corner_on_any_scale(
    rise: int, flat: int, factor: float, offset: float
) -> None:
    ys = [float(min(i, rise)) for i in range(rise + flat + 1)]
    assert knee(range(len(ys)), ys) == rise
    assert knee([factor * i + offset for i in range(len(ys))], [factor * y for y in ys]) == rise


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_the_pareto_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    costs, rates = [float(c) for c, _ in points], [float(r) for _, r in points]
    front = pareto_front(costs, rates)

    def beats(a: int, b: int) -> bool:
        return costs[a] <= costs[b] and rates[a] >= rates[b] and (costs[a], rates[a]) != (costs[b], rates[b])

    unbeaten = {(costs[i], rates[i]) for i in range(len(points)) if not any(beats(j, i) for j in range(len(points)))}
    assert {(costs[i], rates[i]) for i in front} == unbeaten
    assert len(front) == len(unbeaten)


def test_measures_of_a_point() -> None:
    spec = SweepSpec(chain([2.0, 2.0], 0.0), Deployment(2, 1), (Axis(Quantity.ACCELERATORS, (0, 1, 2)),))
    found = {answer.index: answer.result for answer in run_sweep(spec, threads)}
    devices, prices = spec.devices_at((2,)), Prices(accelerator=3.0, cpu=0.6)
    of = {m: measured(m, devices, found[(2,)], prices) for m in Measure}
    assert of == {
        Measure.TIME: 2.0,
        Measure.THROUGHPUT: 500.0,
        Measure.PER_DEVICE: 250.0,
        Measure.PER_COST: pytest.approx(500 * 3600 / 6.6),
    }
    assert measured(Measure.PER_DEVICE, spec.devices_at((0,)), found[(0,)], prices) is None
    assert measured(Measure.PER_COST, devices, found[(2,)], Prices(0, 0)) is None
    for price in (-1.0, float("nan"), float("inf")):
        with pytest.raises(PlacementError, match="price"):
            Prices(accelerator=price)


def test_the_table_has_a_row_per_point_also_for_what_is_missing_or_impossible() -> None:
    axes = (Axis(Quantity.ACCELERATORS, (1, 2)), Axis(Quantity.MEMORY, (2.0, 4.0)))
    spec = SweepSpec(chain([1.0] * 4, 0.0), Deployment(1), axes)
    found = {answer.index: answer.result for answer in run_sweep(spec, threads)}
    del found[(1, 1)]
    rows = sweep_rows(spec, found, Prices())
    assert [row["status"] for row in rows] == [
        SolveStatus.INFEASIBLE,
        SolveStatus.OPTIMAL,
        SolveStatus.OPTIMAL,
        NOT_SOLVED,
    ]
    assert [row["accelerators"] for row in rows] == [1, 1, 2, 2]
    assert [row["value_ms"] for row in rows] == [None, 4.0, 2.0, None]
    read = list(csv.DictReader(io.StringIO(csv_of(rows))))
    assert [row["value_ms"] for row in read] == ["", "4.0", "2.0", ""]
    assert float(read[0]["memory_gib"]) * 2**30 == 2.0
    table = pq.read_table(io.BytesIO(parquet_of(rows)))  # type: ignore[no-untyped-call]
    assert table.to_pylist() == [{**row, "status": str(row["status"])} for row in rows]
    text = sweep_text(spec, found, Prices())
    assert "infeasible" in text
    assert "?" in text
    assert "250" in text


def test_the_table_says_what_its_marks_mean_and_writes_numbers_in_full() -> None:
    axes = (Axis(Quantity.ACCELERATORS, (1, 2)), Axis(Quantity.MEMORY, (2.0, 4.0)))
    spec = SweepSpec(chain([1.0] * 4, 0.0), Deployment(1), axes)
    found = {answer.index: answer.result for answer in run_sweep(spec, threads)}
    note = "* not proven optimal: a better plan may exist"
    assert note not in sweep_text(spec, found, Prices())
    found[(1, 1)] = replace(found[(1, 1)], status=SolveStatus.FEASIBLE, value_ms=1e-3)
    text = sweep_text(spec, found, Prices())
    assert "1,000,000*" in text
    assert text.endswith(note)
    assert "No accelerator has a price here" in sweep_text(spec, found, Prices(), Measure.PER_COST)
    assert "No accelerator has a price here" not in sweep_text(spec, found, Prices(2.0), Measure.PER_COST)


def test_a_cost_that_nobody_knows_is_empty_in_exports() -> None:
    classes = (DeviceClass("A100", 1), DeviceClass("T4", 1))
    spec = SweepSpec(chain([2.0, 2.0]), Deployment.of_classes(classes), (Axis(Quantity.COUNT, (1, 2), "T4"),))
    found = {answer.index: answer.result for answer in run_sweep(spec, threads)}
    rows = sweep_rows(spec, found, Prices(of=(("T4", 0.5),)))
    assert [(row["price_per_hour"], row["samples_per_price"]) for row in rows] == [(None, None)] * 2
    assert not any(row["is_on_pareto_front"] for row in rows)
    assert next(csv.DictReader(io.StringIO(csv_of(rows))))["price_per_hour"] == ""


def test_money_has_a_column_where_there_are_prices() -> None:
    spec = SweepSpec(chain([2.0, 2.0], 0.0), Deployment(2), (Axis(Quantity.ACCELERATORS, (1, 2)),))
    found = {answer.index: answer.result for answer in run_sweep(spec, threads)}
    assert "money" not in sweep_text(spec, found, Prices())
    assert "450,000" in sweep_text(spec, found, Prices(2.0))
    bought = sweep_text(spec, found, Prices(250_000.0, basis=PriceBasis.TO_BUY))
    assert "micro-batches/s per 1,000 of money" in bought
    assert [line.split()[-1] for line in bought.splitlines()[1:]] == ["1", "1"]


def test_the_knee_of_a_sweep_is_where_more_devices_stop_helping() -> None:
    """Four nodes of 1 ms: a fifth accelerator has nothing to do."""
    spec = SweepSpec(chain([1.0] * 4, 0.0), Deployment(1), (Axis(Quantity.ACCELERATORS, tuple(range(1, 9))),))
    found = {answer.index: answer.result for answer in run_sweep(spec, threads)}
    assert spec.axes[0].values[knee_of(spec, found) or 0] == 4
    assert "knee" in sweep_text(spec, found, Prices())


def test_rows_say_on_what_they_were_solved() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    own = graph.bandwidth_bytes_per_ms
    assert deployment.memory_bytes is not None
    assert own is not None
    alike = SweepSpec(graph, deployment, (Axis(Quantity.ACCELERATORS, (1, 2)),))
    row = sweep_rows(alike, {}, Prices())[1]
    assert row["graph"] == graph.name
    assert row["devices"] == "2xT4"
    assert row["memory_gib"] == deployment.memory_bytes / 2**30
    assert row["bandwidth_gb_per_s"] == pytest.approx(own / 1e6)
    factors = SweepSpec(graph, deployment, (Axis(Quantity.BANDWIDTH_FACTOR, (1, 2)),))
    assert "bandwidth_gb_per_s" not in sweep_rows(factors, {}, Prices())[0]
    big, small = DeviceClass("big", 2, link_speed=2.0, memory_bytes=2.0**31), DeviceClass("small", 1)
    mixed = SweepSpec(graph, Deployment.of_classes((big, small)), (Axis(Quantity.MEMORY, (2**30, 2**32), "small"),))
    for index, row in enumerate(sweep_rows(mixed, {}, Prices())):
        deployment = mixed.deployment_at((index,))
        assert row["devices"] == "2xbig+1xsmall"
        for one in deployment.classes:
            held = None if one.memory_bytes is None else one.memory_bytes / 2**30
            assert row[f"memory_gib_of_{one.name}"] == held
        assert row["bandwidth_gb_per_s_of_big"] == 2 * row["bandwidth_gb_per_s_of_small"]
    assert parquet_of(sweep_rows(mixed, {}, Prices()))


def swept_over_accelerators(graph: DnnGraph, most: int) -> tuple[SweepSpec, dict[Index, SolveResult]]:
    spec = SweepSpec(graph, Deployment(1), (Axis(Quantity.ACCELERATORS, tuple(range(1, most + 1))),))
    return spec, {answer.index: answer.result for answer in run_sweep(spec, threads)}


def test_a_curve_that_rises_again_has_a_plateau_and_no_knee() -> None:
    """Of twelve equal layers six accelerators take two each, and so do eleven; twelve take one each."""
    spec, found = swept_over_accelerators(chain([1.0] * 12, 0.0), 12)
    assert knee_of(spec, found) is None
    plateau = plateau_of(spec, found)
    assert plateau is not None
    assert [spec.axes[0].values[i] for i in (plateau.first, plateau.last)] == [6, 11]
    assert plateau.rise == pytest.approx(1.0)
    told = plateau_text(spec, plateau)
    assert told.startswith("Plateau from 6 to 11: no knee, since 12 accelerators are 100 % faster.")
    assert "12 equal layers. Where layers are kept whole, one of up to 11 accelerators has 2 or more of them" in told
    assert told.endswith("; of 12 none needs more than 1.")
    table = sweep_text(spec, found, Prices())
    assert told in table
    assert [line.endswith("plateau") for line in table.splitlines()[1:13]] == [False] * 5 + [True] * 6 + [False]
    assert "knee" not in "".join(table.splitlines()[:13])


def test_without_equal_layers_a_plateau_has_no_reason() -> None:
    times = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98, 1.01, 0.99, 1.03, 0.97]
    spec, found = swept_over_accelerators(chain(times, 0.0), 12)
    plateau = plateau_of(spec, found)
    assert plateau is None or plateau.reason == ""


def test_a_curve_that_stays_flat_has_a_knee_and_no_plateau() -> None:
    spec, found = swept_over_accelerators(chain([1.0] * 4, 0.0), 8)
    assert plateau_of(spec, found) is None
    assert knee_of(spec, found) == 3


def test_throughput_is_in_what_micro_batches_hold_and_files_keep_both() -> None:
    """500 micro-batches of two sequences a second are 1,000 sequences."""
    graph = replace(chain([2.0, 2.0], 0.0), micro_batch=MicroBatch(2, "sequences", 1024))
    spec, found = swept_over_accelerators(graph, 2)
    rows = sweep_rows(spec, found, Prices(2.0))
    assert [row["throughput_per_s"] for row in rows] == [250.0, 500.0]
    assert [row["samples_per_s"] for row in rows] == [500.0, 1000.0]
    assert [(row["samples_per_micro_batch"], row["sample_unit"]) for row in rows] == [(2.0, "sequences")] * 2
    assert rows[1]["samples_per_price"] == rows[1]["micro_batches_per_price"] == 500.0 * 3600 / 4
    text = sweep_text(spec, found, Prices(2.0))
    assert "sequences/s" in text
    assert "sequences per unit of money" in text
    assert "1,000" in text.splitlines()[2]
    assert "900,000" in text.splitlines()[2]
    sentence = wish_text(spec, found, Prices(2.0), at_least=600.0, budget=None)[0]
    assert sentence == "Cheapest with at least 600 sequences/s: 2 accelerators (1,000 sequences/s, 4 per hour)."
    plain = sweep_rows(*swept_over_accelerators(chain([2.0, 2.0], 0.0), 2), Prices())[1]
    assert (plain["samples_per_s"], plain["sample_unit"]) == (None, None)


@pytest.mark.parametrize(("cpu_ms", "is_told"), [(2.0, False), (4.0, True)])
def test_equal_layers_are_no_reason_where_a_cpu_may_have_one(cpu_ms: float, is_told: bool) -> None:
    """Of 13 layers of 1 ms a CPU can have one in the 2 ms of the plateau: then no accelerator needs two."""
    graph = chain((1.0,) * 13, 0.0)
    graph = graph.with_nodes(tuple(replace(node, cpu_ms=cpu_ms) for node in graph.nodes))
    counts = tuple(range(7, 14))
    spec = SweepSpec(graph, Deployment(7, 1), (Axis(Quantity.ACCELERATORS, counts),))
    answers = {(i,): solve(graph, Deployment(k, 1)) for i, k in enumerate(counts)}
    assert [answer.value_ms for answer in answers.values()] == [2.0] * 6 + [1.0]
    plateau = plateau_of(spec, answers)
    assert plateau is not None
    assert ("13 equal layers" in plateau_text(spec, plateau)) is is_told
