"""Every number of a plan comes from one source: the page, the files it offers and the command line write the same."""

import csv
import io
import json
from html import unescape
from pathlib import Path

import pytest

from explorer.explore.downloads import subject_of as exported
from explorer.explore.downloads import tables as written
from explorer.exports.report import report_html
from explorer.figures.figure import figure_svg
from explorer.jobs.record import Question
from explorer.picture.dag_view import dag_info
from explorer.picture.gantt_view import gantt_info
from explorer.plan.timeline import plan_run, schedule_of
from explorer.state.choice import ScheduleOptions
from explorer.state.records import LoadedGraph, Plan
from explorer.words.wording import proof
from solvers.cli.main import solve_document
from solvers.formats.graph_json import read_graph, split_document, write_graph
from solvers.hardware.prices import Prices
from solvers.quantities import milliseconds, percent
from solvers.samples import read_sample, sample_names
from solvers.schedule.records import LOOPED_KINDS, TRAINING_KINDS
from solvers.schedule.simulate import ScheduleKind
from solvers.solve import solve
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.measures import Measure, measured_at
from solvers.sweep.spec import SweepSpec
from solvers.sweep.table import sweep_rows
from tests.support.command_line import Run
from tests.support.number_check import NumberCheck, told
from tests.support.random_problems import random_problem
from tests.support.shown_plan import Report, Shown, shown_sample, shown_upload

QUICK = ("teaching_chain", "teaching_tied_embedding", "gpt2_xl_layer_inference", "gnmt_layer_training")
SAMPLES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in sample_names()]
PAPER = ("gnmt_layer_inference", "resnet50_layer_inference", "bert24_layer_inference")
QUESTIONS = (
    {"sample": "teaching_chain", "objective": "latency", "subgraphs": "2"},
    {"sample": "gnmt_layer_inference", "splits": "free", "accelerators": "3", "limit": "2"},
    {"sample": "unet_operator_training", "objective": "gpipe", "schedule": "gpipe", "micro_batches": "9", "limit": "2"},
    {"sample": "teaching_chain", "transfers": "overlapped", "splits": "convex", "cpus": "1"},
    {"sample": "teaching_convex_beats_chain", "transfers": "full-duplex", "replicas": "2", "accelerators": "4"},
)
RANDOM = range(12)


def require_agreement(shown: Shown, placement: Run, folder: Path) -> None:
    """Compare everything that is written of the plan on the page."""
    plan = shown.app.session_state["plan"]
    compared = NumberCheck(shown, plan.graph, plan.question.deployment).run(placement, folder)
    assert compared.disagreements == [], told(compared)
    assert compared.count > 50


@pytest.mark.parametrize("sample", SAMPLES)
def test_page_files_and_command_line_agree(sample: str, placement: Run, tmp_path: Path) -> None:
    require_agreement(shown_sample(sample=sample), placement, tmp_path)


@pytest.mark.parametrize("query", QUESTIONS)
def test_they_agree_on_other_questions(query: dict[str, str], placement: Run, tmp_path: Path) -> None:
    require_agreement(shown_sample(**query), placement, tmp_path)


@pytest.mark.parametrize("seed", RANDOM)
def test_they_agree_on_random_problems(seed: int, placement: Run, tmp_path: Path) -> None:
    problem = random_problem(seed)
    loaded = LoadedGraph(problem.graph, problem.deployment, "random.json")
    shown = shown_upload(loaded, **problem.query)
    if shown is not None:
        require_agreement(shown, placement, tmp_path)


@pytest.mark.parametrize("name", PAPER)
def test_they_agree_on_the_papers_graphs(name: str, paper_workloads: Path, placement: Run, tmp_path: Path) -> None:
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    shown = shown_upload(LoadedGraph(graph, deployment, f"{name}.json"))
    assert shown is not None
    require_agreement(shown, placement, tmp_path)


@pytest.mark.parametrize("sample", QUICK)
def test_a_point_of_a_sweep_agrees_with_the_answer_of_a_solve(sample: str) -> None:
    graph, deployment = read_sample(sample)
    result = solve(graph, deployment)
    document = solve_document(result, graph, deployment)
    spec = SweepSpec(graph, deployment, (Axis(Quantity.ACCELERATORS, (deployment.num_accelerators,)),))
    (row,) = sweep_rows(spec, {(0,): result}, Prices())
    for name in ("value_ms", "lower_bound_ms", "gap", "throughput_per_s", "samples_per_s", "sample_unit"):
        assert row[name] == document[name], name
    samples_per_s = measured_at(Measure.THROUGHPUT, spec, (0,), result, Prices())
    assert samples_per_s == document["throughput_per_s" if graph.micro_batch is None else "samples_per_s"]


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
    tables = written(subject)
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
    summary = {row["quantity"]: row["value"] for row in csv.DictReader(io.StringIO(tables["summary.csv"]))}
    assert (float(summary["value (ms)"]), summary["status"]) == (run.result.value_ms, run.result.status)
    facts, drawn = Report(report).headline, unescape(figure_svg(subject)).replace("\xa0", " ")
    for label, fact in (
        ("Time per micro-batch", milliseconds(run.result.value_ms)),
        ("Proven lower bound", milliseconds(run.result.lower_bound_ms)),
        ("Proof", proof(run.result)),
    ):
        assert facts[label] == fact
        assert fact in drawn
    assert milliseconds(printed["makespan_ms"]) in report
