"""Every number of a plan comes from one source: the page, the exports and the command line write the same."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.exports.report import report_html
from explorer.figures.subject import result_facts
from solvers.cli.main import solve_document
from solvers.exporters.csv_tables import csv_tables
from solvers.formats.graph_json import read_graph, write_graph
from solvers.hardware.prices import Prices
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.micro_batch import throughput_text
from solvers.model.result import SolveResult
from solvers.quantities import factor, milliseconds, number
from solvers.samples import read_sample, sample_names
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


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_exports_of_the_papers_graphs_agree(name: str, paper_workloads: Path) -> None:
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    require_agreement(graph, deployment, solve(graph, deployment))
