"""Every number of a plan comes from one source: the page, the exports and the command line write the same."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.explore.downloads import subject_of as exported
from explorer.exports.report import report_html
from explorer.figures.subject import result_facts
from explorer.jobs.record import Question
from explorer.picture.dag_view import dag_info
from explorer.picture.gantt_view import gantt_info
from explorer.plan.timeline import plan_run, schedule_of
from explorer.state.choice import ScheduleOptions
from explorer.state.records import LoadedGraph, Plan
from solvers.cli.main import solve_document
from solvers.exporters.csv_tables import csv_tables
from solvers.formats.graph_json import read_graph, split_document, write_graph
from solvers.hardware.prices import Prices
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.micro_batch import throughput_text
from solvers.model.result import SolveResult
from solvers.quantities import factor, milliseconds, number, percent
from solvers.samples import read_sample, sample_names
from solvers.schedule.records import LOOPED_KINDS, TRAINING_KINDS
from solvers.schedule.simulate import ScheduleKind
from solvers.solve import solve
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.measures import Measure, measured_at
from solvers.sweep.spec import SweepSpec
from solvers.sweep.table import sweep_rows
from tests.support.command_line import Run
from tests.support.opened_app import metrics, opened
from tests.support.subjects import subject_of

QUICK = ("teaching_chain", "teaching_tied_embedding", "gpt2_xl_layer_inference", "gnmt_layer_training")
PAPER = ("gnmt_layer_inference", "resnet50_layer_inference", "bert24_layer_inference")
SAMPLES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sample_names()]


def require_agreement(graph: DnnGraph, deployment: Deployment, result: SolveResult) -> None:
    """Compare exports and the row of a sweep with the answer of the solver."""
    assert result.split is not None
    assert result.value_ms is not None
    kind = ScheduleKind.ONE_F_ONE_B if graph.is_training else ScheduleKind.INFERENCE
    subject = subject_of(graph, deployment, result.split, kind, 4, result)
    assert subject.costs.max_load_ms == pytest.approx(result.value_ms, rel=1e-9)
    facts = dict(result_facts(subject))
    assert facts["Time per micro-batch"] == milliseconds(result.value_ms)
    assert facts["Proven lower bound"] == milliseconds(result.lower_bound_ms)
    report = report_html(subject)
    passes_per_s = 1000 / result.value_ms
    for text in (milliseconds(result.value_ms), throughput_text(passes_per_s, graph.micro_batch)):
        assert text in report
    document = solve_document(result, graph, deployment)
    split = document["split"]
    assert split["maxLoad"] == pytest.approx(result.value_ms, rel=1e-9)
    assert max(device["load_ms"] for device in document["devices"]) == split["maxLoad"]
    spec = SweepSpec(graph, deployment, (Axis(Quantity.ACCELERATORS, (deployment.num_accelerators,)),))
    (row,) = sweep_rows(spec, {(0,): result}, Prices())
    assert (row["value_ms"], row["lower_bound_ms"], row["gap"]) == (
        document["value_ms"],
        document["lower_bound_ms"],
        document["gap"],
    )
    assert row["throughput_per_s"] == passes_per_s
    samples_per_s = measured_at(Measure.THROUGHPUT, spec, (0,), result, Prices())
    held = 1.0 if graph.micro_batch is None else graph.micro_batch.samples
    assert samples_per_s == passes_per_s * held
    summary = dict(rows_of(csv_tables(graph, deployment, result.split, subject.costs, result, subject.schedule)))
    assert float(summary["value (ms)"]) == result.value_ms
    assert float(summary["throughput (micro-batches/s)"]) == passes_per_s
    assert document["throughput_per_s"] == passes_per_s
    assert document["samples_per_s"] == (None if graph.micro_batch is None else samples_per_s)


def rows_of(tables: dict[str, str]) -> Iterator[tuple[str, str]]:
    (name,) = (name for name in tables if "summary" in name)
    for row in csv.reader(io.StringIO(tables[name])):
        yield row[0], row[1]


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_page_exports_and_command_line_agree(sample: str, placement: Run, tmp_path: Path) -> None:
    graph, deployment = read_sample(sample)
    result = solve(graph, deployment)
    require_agreement(graph, deployment, result)
    write_graph(tmp_path / "graph.json", graph, deployment)
    printed = placement("solve", tmp_path / "graph.json", "--output", tmp_path / "split.json").json
    assert printed["value_ms"] == pytest.approx(result.value_ms, rel=1e-9)
    evaluated = placement("evaluate", tmp_path / "graph.json", tmp_path / "split.json").json
    assert evaluated["max_load_ms"] == pytest.approx(printed["value_ms"], rel=1e-9)
    explained = placement("explain", tmp_path / "graph.json", tmp_path / "split.json", "--json").json
    assert explained["value_ms"] == pytest.approx(evaluated["max_load_ms"], rel=1e-12)
    assert json.loads((tmp_path / "split.json").read_text())["maxLoad"] == pytest.approx(
        evaluated["max_load_ms"], rel=1e-12
    )
    app = opened(sample)
    shown = metrics(app)
    assert shown["Time per micro-batch"] == milliseconds(printed["value_ms"])
    assert shown["Micro-batches/s"] == number(1000 / printed["value_ms"])
    assert shown["Proven lower bound"] == milliseconds(printed["lower_bound_ms"])
    beside = next(metric.delta for metric in app.metric if metric.label == "Micro-batches/s")
    if graph.micro_batch is not None:
        assert graph.micro_batch.rate_text(1000 / printed["value_ms"]) in beside
    if evaluated["latency_ms"] is not None:
        assert f"latency {milliseconds(evaluated['latency_ms'])}" in beside
    alone_ms = sum(node.accelerator_ms for node in graph.nodes)
    assert shown["Speed-up"] == factor(alone_ms / printed["value_ms"])


@pytest.mark.parametrize("kind", TRAINING_KINDS)
def test_every_schedule_has_one_bubble_memory_and_load_for_each_device(
    kind: ScheduleKind, placement: Run, tmp_path: Path
) -> None:
    graph, deployment = read_sample("gpt2_xl_layer_training")
    result = solve(graph, deployment)
    assert result.split is not None
    options = ScheduleOptions(chunks=2)
    shown = schedule_of(graph, deployment, result.split, kind, 8, options)
    assert shown.schedule is not None
    assert (shown.looped is not None) is (kind in LOOPED_KINDS)
    loaded = LoadedGraph(graph, deployment, "test")
    plan = Plan(Question(graph.digest, deployment), loaded, graph, deployment, result, result.split)
    run = plan_run(plan, shown)
    dag, gantt = dag_info(graph, deployment, shown.split), gantt_info(shown.schedule, deployment)
    subject = exported(plan, shown, options, dag, gantt)
    write_graph(tmp_path / "graph.json", graph, deployment)
    (tmp_path / "split.json").write_text(json.dumps(split_document(result.split)))
    asked = ("--schedule", kind, "--micro-batches", 8)
    printed = placement("simulate", tmp_path / "graph.json", tmp_path / "split.json", *asked).json
    tables = csv_tables(graph, deployment, subject.split, subject.costs, result, shown.schedule)
    (name,) = (name for name in tables if "devices" in name)
    rows = {int(row["device"]): row for row in csv.DictReader(io.StringIO(tables[name]))}
    lanes = {lane.device: lane for lane in gantt.lanes}
    report, view = report_html(subject), {device.device: device for device in dag.devices}
    assert lanes.keys() <= rows.keys()
    assert {d for d, row in rows.items() if float(row["load (ms)"])} == lanes.keys()
    for d, lane in lanes.items():
        assert lane.bubble_fraction is not None
        assert float(rows[d]["bubble share"]) == pytest.approx(lane.bubble_fraction, rel=1e-9)
        assert printed["devices"][d]["bubble_share"] == pytest.approx(lane.bubble_fraction, rel=1e-9)
        assert lane.utilisation == pytest.approx(1 - lane.bubble_fraction, rel=1e-9)
        assert percent(lane.bubble_fraction) in report
        assert printed["devices"][d]["peak_memory_bytes"] == float(rows[d]["peak memory in the schedule (bytes)"])
        assert float(rows[d]["load (ms)"]) == pytest.approx(view[d].load_ms, rel=1e-9)
        busy_ms = sum(slot.end_ms - slot.start_ms for slot in shown.schedule.slots if slot.device == d)
        assert lane.bubble_fraction == pytest.approx(1 - busy_ms / printed["makespan_ms"], abs=1e-9)
        assert busy_ms == pytest.approx(8 * view[d].load_ms, rel=1e-9)
    slowest = max(view[d].load_ms for d in lanes)
    assert run.result.value_ms == pytest.approx(slowest, rel=1e-9)
    assert milliseconds(printed["makespan_ms"]) in report


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_exports_of_the_papers_graphs_agree(name: str, paper_workloads: Path) -> None:
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    require_agreement(graph, deployment, solve(graph, deployment))
