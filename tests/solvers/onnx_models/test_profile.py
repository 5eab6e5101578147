"""`placement profile` of ONNX files: every operator's time in its place, and sums of these in layers."""

import json
from pathlib import Path

import pytest

from solvers.formats.graph_json import write_graph
from solvers.importers.imported import Imported
from solvers.importers.measured import Spread
from solvers.importers.sources import import_source
from solvers.importers.workload import Level, Mode, Workload
from solvers.model.errors import SourceError
from solvers.model.graph import TimesKind
from tests.support.command_line import Run
from tests.support.importing import usual_devices

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from solvers.onnx_models import profile  # noqa: E402
from solvers.onnx_models.profile import RuntimeProfile, profile_file  # noqa: E402
from tests.support.onnx_models import loop, model, op, perceptrons, tensor, whole, with_function  # noqa: E402

LAYERS = 3


def saved(path: Path, made: "onnx.ModelProto") -> Path:
    made.ir_version = 10
    onnx.save(made, path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return saved(tmp_path / "model.onnx", perceptrons(LAYERS, 64))


def found_in(file: Path, **asked: object) -> Imported:
    return import_source(str(file), Workload(**asked), usual_devices())  # type: ignore[arg-type]


def asked(repetitions: int = 3, **workload: object) -> RuntimeProfile:
    return RuntimeProfile(Workload(**workload), warm_up=1, repetitions=repetitions)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [Level.OPERATORS, Level.LAYERS])
def test_every_operator_is_measured_and_nothing_else_changes(file: Path, level: Level) -> None:
    graph = found_in(file, batch=4, level=level).graph
    measured, measured_on = profile_file(graph, file, usual_devices(), asked(batch=4))
    assert "ONNX Runtime" in measured_on
    assert measured.times is not None
    assert (measured.times.kind, measured.times.measured_on) == (TimesKind.MEASURED, measured_on)
    for before, after in zip(graph.nodes, measured.nodes, strict=True):
        assert after.accelerator_ms > 0 or "Add" in after.name or "Relu" in after.name  # may be less than a microsecond
        assert after.spread_ms is not None
        assert (after.cpu_ms, after.transfer_ms, after.memory_bytes, after.flops) == (
            before.cpu_ms, before.transfer_ms, before.memory_bytes, before.flops,
        )  # fmt: skip
    assert measured.edges == graph.edges


def test_a_layer_takes_the_sum_of_its_operators(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operator i of the file takes 2**i ms, so that a sum tells what is in it."""
    count = 3 * LAYERS
    monkeypatch.setattr(profile, "_measured", lambda *_: {i: Spread(2.0**i, 0.5) for i in range(count)})
    by_operator, by_layer = (
        profile_file(found_in(file, level=level).graph, file, usual_devices(), asked())[0]
        for level in (Level.OPERATORS, Level.LAYERS)
    )
    assert {node.name: node.accelerator_ms for node in by_operator.nodes} == {
        f"/model/layers.{i}/mlp/{kind}": 2.0 ** (3 * i + j)
        for i in range(LAYERS)
        for j, kind in enumerate(("MatMul", "Add", "Relu"))
    }
    assert [(node.accelerator_ms, node.spread_ms) for node in by_layer.nodes] == [
        (7.0 * 8**i, 1.5) for i in range(LAYERS)
    ]


def test_passes_of_the_warm_up_are_left_out() -> None:
    events = [
        {"cat": "Node", "name": f"operator {number}_kernel_time", "dur": micros}
        for micros in (9000, 1000, 2000, 3000)
        for number in (0, 12)
    ]
    events += [
        {"cat": "Node", "name": "inner_kernel_time", "dur": 5},
        {"cat": "Session", "name": "operator 0", "dur": 7},
    ]
    taken = profile._taken(events)
    assert taken == {0: [9.0, 1.0, 2.0, 3.0], 12: [9.0, 1.0, 2.0, 3.0]}
    assert profile._spread(taken[0][1:]) == Spread(2.0, 1.0)


def test_a_loop_is_one_operator_with_all_that_runs_in_it(tmp_path: Path) -> None:
    file = saved(tmp_path / "loop.onnx", loop(500, 64))
    graph = found_in(file, level=Level.OPERATORS).graph
    measured, _ = profile_file(graph, file, usual_devices(), asked())
    (whole_loop,) = (node for node in measured.nodes if node.name == "loop")
    assert whole_loop.accelerator_ms > 0


def test_what_cannot_be_measured_is_refused_in_a_sentence(file: Path, tmp_path: Path) -> None:
    graph = found_in(file).graph
    training = found_in(file, mode=Mode.TRAINING).graph
    other = saved(tmp_path / "other.onnx", perceptrons(LAYERS + 1, 64))
    functions = saved(tmp_path / "functions.onnx", with_function())
    shapes = [op("Reshape", "x shape", "y", name="a"), op("Relu", "y", "z", name="b")]
    never = saved(tmp_path / "never.onnx", model(shapes, [tensor("x", [2, 3])], [whole("shape", 5, 5)]))
    for graph_of_it, path, told in (
        (training, file, "forward passes alone"),
        (graph, other, "are not those of this model"),
        (found_in(functions).graph, functions, "inline_local_functions"),
        (graph, never, "cannot"),
    ):
        with pytest.raises(SourceError) as refused:
            profile_file(graph_of_it, path, usual_devices(), asked())
        assert told in str(refused.value)
        assert "\n" not in str(refused.value)


def test_the_command_measures_a_file(placement: Run, file: Path, tmp_path: Path) -> None:
    found = found_in(file, batch=2)
    graph, output = tmp_path / "graph.json", tmp_path / "measured.json"
    write_graph(graph, found.graph, found.deployment)
    answer = placement("profile", graph, file, "--batch", 2, "--repetitions", 2, "--output", output)
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["nodes"] == LAYERS
    assert json.loads(output.read_text())["times"]["kind"] == "measured"
    for wrong, told in (
        (("--on", "cuda:0"), "--on"),
        (("--neighbours", 1), "--neighbours"),
        (("--dim", "n=2"), "dimension n"),
    ):
        answer = placement("profile", graph, file, "--output", output, *wrong)
        assert (answer.code, answer.out) == (2, "")
        assert told in answer.err
