"""The paper's tables on tiny folders: both namings, units, resuming, interrupts, and the laws of the ratios."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from solvers.analysis import comparison
from solvers.analysis.comparison import EXACT, Contender, Outcome
from solvers.cli.main import main
from solvers.formats.graph_json import write_graph
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError, PlacementError, SplitError
from solvers.model.graph import DnnGraph, Edge
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.reproduction.files import corrected, find_workloads, implied_bandwidth
from solvers.reproduction.tables import CORRECTED, PUBLISHED, ResultFile, plan, run
from solvers.reproduction.text import CHAIN, FREE, PAPER_MEAN_AND_MAX, reproduction_text, rows_of
from tests.support.graphs import chain, diamond, training_chain

SECONDS = 30.0


def with_bytes(graph: DnnGraph, bytes_per_ms: float) -> DnnGraph:
    edges = tuple(replace(e, size_bytes=graph.node_by_id[e.source].transfer_ms * bytes_per_ms) for e in graph.edges)
    return DnnGraph(graph.nodes, edges, graph.name)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder named like the release: two layer graphs in seconds, an operator graph in ms, and one for latency."""
    folder = tmp_path / "release"
    for name, graph in (
        ("throughput-inputs/LayerGraphs/toy_inference.json", with_bytes(chain((4, 3, 2, 1)), 2e9)),
        ("throughput-inputs/LayerGraphs/toy_training.json", with_bytes(training_chain((1, 2), (2, 4), 1.0), 2e9)),
        ("throughput-inputs/OperatorGraphs/Toy_L-3_inference.json", with_bytes(diamond(), 2e6)),
        ("latency-inputs/LayerGraphs/toy_inference.json", with_bytes(chain((4, 3, 2, 1)), 2e6)),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_graph(path, graph, Deployment(2, 1, 100.0))
    (folder / "throughput-inputs/LayerGraphs/notes.json").write_text("{}", encoding="utf-8")
    experts = folder / "human-experts"
    experts.mkdir()
    document = {"fpgas": [{"load": -1, "nodes": [1, 2]}, {"load": -1, "nodes": [3, 4]}], "cpus": [], "maxLoad": -1}
    (experts / "toy_inference_expert.json").write_text(json.dumps(document), encoding="utf-8")
    document["fpgas"] = [{"nodes": [1]}, {"nodes": [2]}]
    (experts / "toy_training_expert.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


@pytest.fixture
def renamed(release: Path, tmp_path: Path) -> Path:
    """The same files under the other names; the expert's training split is missing."""
    folder = tmp_path / "renamed"
    for old, new in (
        ("throughput-inputs/LayerGraphs/toy_inference.json", "throughput/toy_layer_inference.json"),
        ("throughput-inputs/LayerGraphs/toy_training.json", "throughput/toy_layer_training.json"),
        ("throughput-inputs/OperatorGraphs/Toy_L-3_inference.json", "throughput/toy_l-3_operator_inference.json"),
        ("latency-inputs/LayerGraphs/toy_inference.json", "latency/toy_layer_inference.json"),
        ("human-experts/toy_inference_expert.json", "expert_splits/toy_layer_inference.json"),
    ):
        path = folder / new
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((release / old).read_bytes())
    return folder


def all_answers(folder: Path, results: Path) -> list[tuple[str, str, str, Outcome, bool]]:
    return [
        (cell.workload.name, cell.units, cell.question.label, outcome, was_known)
        for cell, outcome, was_known in run(plan(folder, SECONDS), ResultFile(results))
    ]


def test_both_namings_are_the_same_workloads(release: Path, renamed: Path) -> None:
    names = [(workload.objective, workload.name, workload.granularity) for workload in find_workloads(release)]
    assert names == [
        (Objective.THROUGHPUT, "toy_l-3_operator_inference", "operator"),
        (Objective.THROUGHPUT, "toy_layer_inference", "layer"),
        (Objective.THROUGHPUT, "toy_layer_training", "layer"),
        (Objective.LATENCY, "toy_layer_inference", "layer"),
    ]
    assert names == [(w.objective, w.name, w.granularity) for w in find_workloads(renamed)]
    experts = {(w.objective, w.name): w.expert and w.expert.name for w in find_workloads(release)}
    assert list(experts.values()) == [
        None,
        "toy_inference_expert.json",
        "toy_training_expert.json",
        "toy_inference_expert.json",
    ]
    # The expert's split of the inference graph serves for training where there is no other.
    assert [w.expert and w.expert.name for w in find_workloads(renamed)][2] == "toy_layer_inference.json"


def test_a_folder_without_workloads_is_told(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(GraphError, match="holds none of the paper's workloads"):
            find_workloads(folder)


def test_an_expert_split_of_another_graph_is_told_before_anything_runs(release: Path) -> None:
    path = release / "human-experts" / "toy_inference_expert.json"
    path.write_text('{"fpgas": [{"nodes": [1, 2, 3, 99]}], "cpus": []}', encoding="utf-8")
    with pytest.raises(SplitError, match=r"toy_inference_expert\.json.*node 99"):
        plan(release, SECONDS)


def test_a_graph_that_is_cut_short_is_named(release: Path) -> None:
    path = release / "throughput-inputs/OperatorGraphs/Toy_L-3_inference.json"
    path.write_text('{"nodes": [', encoding="utf-8")
    with pytest.raises(GraphError, match=r"Toy_L-3_inference\.json.*not valid JSON"):
        plan(release, SECONDS)


def test_units_are_corrected_where_the_implied_bandwidth_says_so() -> None:
    assert corrected(with_bytes(chain((1, 1)), 2e6)) is None
    assert corrected(chain((1, 1))) is None  # no bytes, no verdict
    fast = with_bytes(chain((1, 1)), 2e9)
    assert implied_bandwidth(fast) == 2e9
    slow = corrected(fast)
    assert slow is not None
    assert implied_bandwidth(slow) == pytest.approx(2e6)
    # Files of training graphs have tensors with bytes but without a cost, and so no one bandwidth.
    free_tensor = replace(fast.nodes[1], id=7, transfer_ms=0.0)
    uneven = DnnGraph((free_tensor, *fast.nodes), (*fast.edges, Edge(7, 1, 10.0)))
    assert uneven.bandwidth_bytes_per_ms is None
    assert corrected(uneven) is not None


def test_tables_and_their_laws(release: Path, tmp_path: Path) -> None:
    cells = plan(release, SECONDS)
    answers = [(cell, outcome) for cell, outcome, _ in run(cells, ResultFile(tmp_path / "results.json"))]
    assert [cell for cell, _ in answers] == list(cells)
    for units, names in (
        (PUBLISHED, ["toy_l-3_operator_inference", "toy_layer_inference", "toy_layer_training"]),
        (CORRECTED, ["toy_layer_inference", "toy_layer_training"]),
    ):
        rows = rows_of(answers, Objective.THROUGHPUT, units)
        assert [row.name for row in rows] == names
        for row in rows:
            assert row.best_ms == row.outcomes[FREE].value_ms
            assert row.outcomes[CHAIN].status is SolveStatus.OPTIMAL
            for question, outcome in row.outcomes.items():
                ratio = row.ratio(question)
                if outcome.is_valid:
                    assert ratio is not None
                    assert ratio >= 1 - 1e-9
                    assert ratio * row.best_ms == pytest.approx(outcome.value_ms)
    text = reproduction_text(answers)
    titles = ("files as published: time per sample", "transfers of the layer graphs in ms", "Latency of one sample")
    assert all(title in text for title in titles)
    # The mean for experts is over the layer graphs that are there.
    expert = Contender("expert", Family.FREE)
    rows = rows_of(answers, Objective.THROUGHPUT, PUBLISHED)
    ratios = [row.ratio(expert) for row in rows if row.granularity == "layer"]
    assert len(ratios) == 2
    assert None not in ratios
    ratio_table = text.split("How many times as fast")[1].splitlines()
    column = ratio_table[2].split("  ")  # the header: methods stand in the order of the questions
    assert [name.strip() for name in column if name] == [
        "best pipeline",
        "single",
        "expert",
        "local search",
        "pipedream",
        "scotch",
        "linearised",
    ]
    mean = next(line for line in ratio_table if line.startswith("mean")).split()
    assert mean[3] == f"{sum(ratio for ratio in ratios if ratio) / 2:.2f}"
    counts = next(line for line in ratio_table if line.startswith("workloads")).split()
    assert counts[1:6] == ["3", "3", "2", "3", "2"]
    paper = next(line for line in ratio_table if line.startswith("paper: mean")).split()
    assert paper[4:8] == [f"{PAPER_MEAN_AND_MAX[m][0]:.2f}" for m in ("expert", "local_search", "pipedream", "scotch")]


def test_finished_cells_are_not_run_again(release: Path, renamed: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    first = all_answers(release, results)
    assert not any(was_known for *_, was_known in first)
    second = all_answers(release, results)
    can_run = [answer for answer in second if answer[3].status is not None]
    assert all(was_known for *_, was_known in can_run)
    assert [answer[:4] for answer in second] == [
        (*answer[:3], replace(answer[3], runtime_s=round(answer[3].runtime_s, 6))) for answer in first
    ]
    # The key knows content, not file names; the training expert is another split here.
    third = all_answers(renamed, results)
    fresh = [answer[:3] for answer in third if not answer[4] and answer[3].status is not None]
    assert {name for name, _, _ in fresh} == {"toy_layer_training"}
    assert {label for _, _, label in fresh} == {"expert"}


def test_other_options_are_other_cells(release: Path) -> None:
    keys = [cell.key for cell in plan(release, SECONDS)]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & {cell.key for cell in plan(release, 2 * SECONDS)}


def interrupt_at(monkeypatch: pytest.MonkeyPatch, call: int) -> list[str]:
    """Send Ctrl-C when the `call`-th solve begins; return the list of methods that were solved."""
    import signal

    solved: list[str] = []
    real_solve: Callable[..., object] = comparison.solve

    def solve(*arguments: object, **options: object) -> object:
        solved.append(str(options["method"]))
        if len(solved) == call:
            signal.raise_signal(signal.SIGINT)
        return real_solve(*arguments, **options)

    monkeypatch.setattr(comparison, "solve", solve)
    return solved


def test_an_interrupted_run_goes_on_where_it_was(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results.json"
    arguments = ["reproduce", str(release), "--output", str(results), "--time-limit", str(SECONDS)]
    with monkeypatch.context() as patch:
        solved = interrupt_at(patch, 4)
        assert main(arguments) == 4
    captured = capsys.readouterr()
    assert len(solved) == 4
    assert "interrupted after" in captured.err
    assert "toy_l-3_operator_inference" in captured.out
    kept = json.loads(results.read_text(encoding="utf-8"))["cells"]
    assert [cell["method"] for cell in kept.values()][:3] == [EXACT, EXACT, "single"]
    assert len(kept) in (3, 4)  # what was running is kept only if it was finished and proven

    with monkeypatch.context() as patch:
        solved = interrupt_at(patch, 10**9)
        assert main(arguments) == 0
    captured = capsys.readouterr()
    cells = plan(release, SECONDS)
    assert len(solved) == len(cells) - len(kept)
    assert f"{len(kept)} of {len(cells)} results come from" in captured.err
    assert f"[{len(cells)}/{len(cells)}]" in captured.err
    assert "Latency of one sample" in captured.out


def test_without_scotch_the_column_says_so(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for path in (release / "throughput-inputs/LayerGraphs").glob("toy_*"):
        path.unlink()
    results = tmp_path / "results.json"
    assert main(["reproduce", str(release), "--output", str(results), "--time-limit", "30"]) == 0
    out = capsys.readouterr().out
    assert out.count("scotch: Method scotch needs the program scotch_gpart, which is not installed") == 1
    assert "scotch" not in {
        cell["method"] for cell in json.loads(results.read_text(encoding="utf-8"))["cells"].values()
    }


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 99, "cells": {}}', '{"version": 1, "cells": {"a": 1}}', "[" * 100_000],
)
def test_a_file_that_holds_no_results_is_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlacementError, match="not a file of results"):
        ResultFile(path)
    assert path.read_text(encoding="utf-8") == text


CELL: dict[str, object] = {
    **Outcome("single", Family.CHAIN, SolveStatus.FEASIBLE, 2.0, 1.0, 0.1, 4.0, (), "").document(),
    "workload": "toy",
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("value_ms", "2"),
        ("value_ms", -1.0),
        ("value_ms", True),
        ("value_ms", math.nan),
        ("gap", math.inf),
        ("runtime_s", None),
        ("runtime_s", 10**400),
        ("violations", "abc"),
        ("violations", [1]),
        ("message", 5),
        ("method", None),
        ("status", "SOLVED"),
    ],
)
def test_results_of_another_kind_are_refused(field: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"version": 1, "cells": {"a": CELL}}), encoding="utf-8")
    ResultFile(path)
    text = json.dumps({"version": 1, "cells": {"a": {**CELL, field: value}}})
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlacementError, match="not a file of results"):
        ResultFile(path)
    assert path.read_text(encoding="utf-8") == text


def test_a_file_that_cannot_be_written_is_told_at_once(release: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["reproduce", str(release), "--output", str(tmp_path / "missing" / "results.json")])
    with pytest.raises(PlacementError, match="cannot be written"):
        ResultFile(tmp_path / "missing" / "results.json")


def test_the_papers_folder_is_understood(paper_workloads: Path) -> None:
    cells = plan(paper_workloads, SECONDS)
    in_seconds = {cell.workload.name for cell in cells if cell.units == CORRECTED}
    throughput = [w for w in find_workloads(paper_workloads) if w.objective is Objective.THROUGHPUT]
    assert in_seconds == {w.name for w in throughput if w.granularity == "layer"}
    assert all((w.expert is not None) == (w.granularity == "layer") for w in throughput)
