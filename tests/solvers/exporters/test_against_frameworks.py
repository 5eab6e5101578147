"""Exports as the frameworks' own code reads and runs them, where these are installed.

IMPORT_TORCH_PYTHON names a Python that has torch and transformers, and those of accelerate, megatron-core, torchtitan
and deepspeed that are to be asked; nothing is downloaded.
"""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from solvers.exporters.frameworks import Framework, exported, expressible_graph
from solvers.exporters.plan import planned
from solvers.importers.workload import Level, Mode, Tied
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.schedule.records import ScheduleKind
from solvers.solve import solve
from tests.support import pipelined_models
from tests.support.importing import import_fields, python_with_transformers
from tests.support.layer_stacks import cut_after
from tests.support.root import ROOT
from tests.support.small_models import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.torch]

# The package of tests imports pytest, which that Python need not have.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT / "tests" / "support"),
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


def ask(what: str, argument: dict[str, Any]) -> Any:
    """Return what a framework says; skips the test where the Python named lacks it."""
    done = subprocess.run(  # noqa: S603
        [python_with_transformers(), str(ROOT / "tests" / "support" / "framework_checks.py")],
        input=json.dumps([[what, argument]]),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (answer,) = json.loads(done.stdout)
    if answer is None:
        pytest.skip(f"the Python of IMPORT_TORCH_PYTHON lacks a package: {done.stderr.strip().splitlines()[-1]}")
    return answer


def training_llama(num_layers: int = 8) -> DnnGraph:
    fields = pipelined_models.LLAMA | {"num_hidden_layers": num_layers}
    return import_fields(fields, mode=Mode.TRAINING, tied=Tied.COPY, sequence=pipelined_models.TOKENS).graph


def best(graph: DnnGraph, framework: Framework, num_accelerators: int) -> Split:
    split = solve(expressible_graph(graph, framework), Deployment(num_accelerators)).split
    assert split is not None
    return split.on(Deployment(num_accelerators))


def text_of(
    graph: DnnGraph,
    framework: Framework,
    num_accelerators: int,
    kind: ScheduleKind | None = None,
    micro_batches: int = 4,
) -> str:
    """Return the export of the best plan that a framework can express."""
    whole = expressible_graph(graph, framework)
    split = best(graph, framework, num_accelerators)
    return exported(planned(graph, Deployment(num_accelerators), split, kind, 4, 2, whole), framework).text


@pytest.mark.parametrize("kind", [ScheduleKind.ONE_F_ONE_B, ScheduleKind.INTERLEAVED])
def test_megatron_core_reads_the_layout(kind: ScheduleKind) -> None:
    words = text_of(training_llama(), Framework.MEGATRON, 2, kind).split()
    layout = words[words.index("--pipeline-model-parallel-layout") + 1].strip("'")
    read = ask("megatron", {"layout": layout, "ranks": 2, "num_layers": 8, "predicting": 0})
    chunks = 1 if kind is ScheduleKind.ONE_F_ONE_B else 2
    assert [len(rank) for rank in read] == [chunks] * 2
    in_order = [layer for chunk in range(chunks) for rank in read for layer in rank[chunk]]
    assert in_order == ["embedding", *["decoder"] * 8, "loss"]
    if chunks == 1:
        graph = training_llama()
        first = best(graph, Framework.MEGATRON, 2).accelerators[0]
        layers = {node.layer for node in graph.nodes if node.id in first}
        assert len(read[0][0]) == len(layers)


def test_accelerate_takes_the_device_map_of_every_known_model() -> None:
    gpt2 = "gpt2 of another inner width"
    names = ("llama", "qwen3", "gemma2", gpt2, "gpt_neox", "phi3", "mixtral", "bert", "roberta")
    asked = []
    for name in names:
        graph = import_fields(SMALL[name], tied=Tied.COPY, sequence=16).graph
        read = json.loads(text_of(DnnGraph(graph.nodes, graph.edges, name=name), Framework.DEVICE_MAP, 2))
        asked.append({"config": SMALL[name] | {"tie_word_embeddings": False}, "map": read})
    for name, answer in zip(names, ask("device_maps", {"maps": asked}), strict=True):
        assert answer["unknown"] == [], name
        assert set(answer["devices"]) == {0, 1}, name


@pytest.mark.parametrize(
    "kind", [ScheduleKind.ONE_F_ONE_B, ScheduleKind.INTERLEAVED, ScheduleKind.GPIPE, ScheduleKind.ZB_V]
)
def test_torchtitan_splits_a_model_into_the_parts(kind: ScheduleKind) -> None:
    read = tomllib.loads(text_of(training_llama(), Framework.TORCHTITAN, 2, kind))
    answer = ask("torchtitan", {**read, "num_layers": 8})
    parts = read["parallelism"]["module_fqns_per_model_part"]
    assert answer["left"] == [sorted(part) for part in parts]
    assert sorted(name for part in parts for name in part) == sorted(
        ["tok_embeddings", *(f"layers.{i}" for i in range(8)), "norm", "lm_head"]
    )
    expected = {ScheduleKind.ZB_V: [[0, 3], [1, 2]], ScheduleKind.INTERLEAVED: [[0, 2], [1, 3]]}
    assert answer["ranks"] == expected.get(kind, [[0], [1]])


def test_deepspeed_builds_the_stages() -> None:
    graph = training_llama()
    text = text_of(graph, Framework.DEEPSPEED, 3)
    read = ask("deepspeed", {"text": text, "stages": 3, "num_layers": 10})
    split = best(graph, Framework.DEEPSPEED, 3)
    layers = [len({graph.node_by_id[v].layer for v in members} - {"loss"}) for members in split.accelerators]
    assert [len(stage) for stage in read] == layers
    assert read == [[s] * count for s, count in enumerate(layers)]


def run_script(text: str, model: str, num_processes: int, folder: Path) -> dict[str, float]:
    """Run a script of ours with processes over gloo; return what its check prints, the largest of each kind."""
    script = folder / "pipeline.py"
    script.write_text(text, encoding="utf-8")
    done = subprocess.run(  # noqa: S603
        [
            python_with_transformers(), "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node", str(num_processes), str(script), f"pipelined_models:{model}", "--check",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, float] = {}
    for what, number in re.findall(r"^(loss|largest difference of .*): (\S+)$", done.stdout, re.MULTILINE):
        kind = "gradients" if what.endswith("gradients") else what.rpartition(" ")[2]
        found[kind] = max(found.get(kind, 0.0), float(number))
    return found


@pytest.mark.parametrize("kind", [ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B, ScheduleKind.INTERLEAVED])
def test_two_processes_train_like_the_whole_model(kind: ScheduleKind, tmp_path: Path) -> None:
    graph = training_llama(4)
    found = run_script(text_of(graph, Framework.TORCH_PIPELINING, 2, kind), "llama", 2, tmp_path)
    assert found["outputs"] < 1e-5
    assert found["gradients"] < 1e-4


@pytest.mark.parametrize("model", ["llama", "gpt2"])
def test_a_cut_inside_a_block_changes_no_output(model: str, tmp_path: Path) -> None:
    config = {"llama": pipelined_models.LLAMA, "gpt2": pipelined_models.GPT2}[model]
    graph = import_fields(config, level=Level.OPERATORS, tied=Tied.COPY, sequence=pipelined_models.TOKENS).graph
    named = DnnGraph(graph.nodes, graph.edges, name=model)
    up = next(node.id for node in graph.nodes if node.name == "2 feed-forward up")
    deployment = Deployment(2)
    plan = planned(named, deployment, cut_after(graph, up - 1).on(deployment), None, 4)
    text = exported(plan, Framework.TORCH_PIPELINING).text
    assert ".mlp." in text
    assert run_script(text, model, 2, tmp_path)["outputs"] < 1e-5


@pytest.mark.parametrize("model", ["residual", "swapped"])
@pytest.mark.parametrize("kind", [ScheduleKind.ONE_F_ONE_B, ScheduleKind.INTERLEAVED])
def test_nodes_of_an_exported_graph_with_connections_that_skip(kind: ScheduleKind, model: str, tmp_path: Path) -> None:
    names = ask("export_names", {"model": model})
    ids = {name: v for v, (name, _) in enumerate(names)}
    count = len(names)
    forward = [Node(v, 1.0, 9.0, colocation_class=v, name=name) for name, v in ids.items()]
    backward = [Node(v + count, 1.0, 9.0, is_backward=True, colocation_class=v) for v in range(count)]
    edges = [Edge(ids[u], ids[name]) for name, inputs in names for u in inputs if u in ids]
    edges += [Edge(v, v + count) for v in range(count)]
    edges += [Edge(edge.target + count, edge.source + count) for edge in edges[: len(edges) - count]]
    graph = DnnGraph((*forward, *backward), tuple(edges))
    half = frozenset(range(count // 2))
    first = half | {v + count for v in half}
    deployment = Deployment(2)
    split = Split((first, frozenset(graph.node_by_id) - first)).on(deployment)
    text = exported(planned(graph, deployment, split, kind, 4, 2), Framework.TORCH_PIPELINING).text
    found = run_script(text, model, 2, tmp_path)
    assert found["outputs"] < 1e-5
    assert found["gradients"] < 1e-4


@pytest.mark.parametrize("num_first", [2, 6])
def test_layers_of_an_encoder_and_a_decoder_are_cut_by_the_paths_of_their_modules(
    num_first: int, tmp_path: Path
) -> None:
    """The cut is inside the encoder, whose last layer the whole decoder reads, or inside the decoder."""
    layers = ("embed_tokens", "block.0", "block.1", "final_layer_norm")
    names = [f"t5.{half}.{layer}" for half in ("encoder", "decoder") for layer in layers]
    nodes = tuple(Node(v, 1.0, 9.0, name=name, layer=name) for v, name in enumerate([*names, "t5.lm_head"]))
    edges = [Edge(v, v + 1) for v in range(8) if v != 3] + [Edge(3, v) for v in (5, 6)]
    graph = DnnGraph(nodes, tuple(edges))
    deployment = Deployment(2)
    plan = planned(graph, deployment, cut_after(graph, num_first).on(deployment), None, 4)
    text = exported(plan, Framework.TORCH_PIPELINING).text
    assert run_script(text, "t5", 2, tmp_path)["outputs"] < 1e-5
