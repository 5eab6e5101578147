"""Plans written for frameworks from the command line, and solved for them."""

import json
import re
import shlex
from pathlib import Path

import pytest

from solvers.exporters.frameworks import Framework
from solvers.formats.graph_json import graph_text, split_document
from solvers.importers.hugging_face.presets import presets
from solvers.model.deployment import Deployment
from tests.support.command_line import Run
from tests.support.layer_stacks import cut_after, plain_stack, random_stack
from tests.support.root import ROOT

STACK = plain_stack(6)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return the files of a stack of six blocks on two accelerators and of a plan that it has."""
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    graph.write_text(graph_text(STACK, Deployment(2)), encoding="utf-8")
    split.write_text(json.dumps(split_document(cut_after(STACK, 3))), encoding="utf-8")
    return graph, split


@pytest.mark.parametrize("framework", [f for f in Framework if f not in ("torchtitan", "nemo-automodel")])
def test_the_export_is_all_there_is_on_stdout(placement: Run, files: tuple[Path, Path], framework: Framework) -> None:
    answer = placement("export", *files, "--to", framework)
    assert answer.code == 0
    assert answer.out
    assert "placement:" not in answer.out
    assert all(line.startswith("placement: ") for line in answer.err.splitlines())


def test_the_export_goes_to_a_file(placement: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "map.json"
    answer = placement("export", *files, "--to", "device-map", "--output", target, "--modules", "gpt2")
    assert (answer.code, answer.out) == (0, "")
    assert json.loads(target.read_text(encoding="utf-8"))["transformer.h.3"] == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "megatron", "--schedule", "1f1b"), "The schedule 1f1b is not one of inference; choose one of"),
        (("--to", "torchtitan"), "torchtitan trains, and this is a graph of inference.\n"),
        (("--to", "caffe"), '"caffe" is none of torch-pipelining'),
        (("--to", "vllm", "--chunks", "2"), "--chunks is for the schedules interleaved and zb-v; leave it out."),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(
    placement: Run, files: tuple[Path, Path], arguments: tuple[str, ...], told: str
) -> None:
    answer = placement("export", *files, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err
    assert answer.err.count("\n") == 1


def test_a_plan_solved_for_a_framework_can_be_exported_and_has_a_price(placement: Run, tmp_path: Path) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    graph.write_text(graph_text(random_stack(8, 5), Deployment(3, 2)), encoding="utf-8")
    plain = placement("solve", graph)
    answer = placement("solve", graph, "--expressible-in", "megatron", "--output", split)
    price = answer.json["expressible_in"]
    assert price["framework"] == "megatron"
    assert price["unrestricted_value_ms"] == pytest.approx(plain.json["value_ms"])
    assert price["most_share"] == pytest.approx(answer.json["value_ms"] / plain.json["value_ms"] - 1, abs=1e-6)
    assert answer.err == f"placement: {price['text']}\n"
    assert not any(device["name"].startswith("CPU") for device in answer.json["devices"])
    assert placement("export", graph, split, "--to", "megatron").code == 0


def test_what_a_framework_that_runs_pipelines_is_compared_with_are_these(placement: Run, tmp_path: Path) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(graph_text(random_stack(8, 5), Deployment(3, 2)), encoding="utf-8")
    best = placement("solve", graph, "--expressible-in", "megatron").json["value_ms"]
    compared = placement("compare", graph, "--expressible-in", "megatron", "--time-limit", 5, "--json")
    assert compared.json["best_ms"] == pytest.approx(best)
    assert "Megatron-LM runs pipelines, and the plans of other methods may be none." in compared.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--expressible-in", "vllm", "--family", "free"),
            "vLLM runs pipelines; choose split type pipeline (chain), for throughput.",
        ),
        (("--expressible-in", "vllm", "--max-replicas", "2"), "vLLM replicates no single stage of a pipeline"),
        (
            ("--expressible-in", "vllm", "--method", "local_search"),
            "vLLM runs pipelines, and a plan of method local_search may be none; choose auto, dp or ip.",
        ),
        (("--expressible-in", "torchtitan"), "torchtitan trains models, and this is a graph of inference"),
        (("--expressible-in", "tpu"), '"tpu" is none of none, torch-pipelining'),
    ],
)
def test_questions_that_no_framework_answers_are_refused(
    placement: Run, files: tuple[Path, Path], arguments: tuple[str, ...], told: str
) -> None:
    answer = placement("solve", files[0], *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert told in answer.err


def test_the_page_on_exports_has_true_commands_and_output(
    placement: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (config,) = (preset.config for preset in presets() if preset.name == "llama-3.1-8b")
    Path("config.json").write_text(json.dumps(dict(config)), encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "export-a-plan.md").read_text(encoding="utf-8")
    first, second = re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    price, options = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    answers = [placement(*shlex.split(command)[1:]) for command in first.splitlines()]
    assert [answer.code for answer in answers] == [0, 0, 0]
    assert answers[1].err == price
    assert answers[2].out == options
    script = placement(*shlex.split(second.splitlines()[0])[1:])
    assert script.code == 0
    assert "'model.layers.6': 1," in Path("pipeline.py").read_text(encoding="utf-8")
    assert all(f"| `{framework}` |" in page for framework in Framework)
