"""What each framework reads, on plans whose export is known, and the sentence where a plan does not fit."""

import json
import struct
import tomllib
from itertools import accumulate

import pytest

from solvers.exporters.frameworks import FORMATS, Framework, exported, expressible_graph
from solvers.exporters.module_names import ModelNames
from solvers.exporters.plan import ExportError, planned
from solvers.importers.workload import Level, Mode, Tied
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.schedule.records import ScheduleKind
from tests.support.importing import import_fields
from tests.support.layer_stacks import cut_after, plain_stack, random_stack
from tests.support.small_models import SMALL

STACK = plain_stack(8)
THREE = Deployment(3, 1)
"""On accelerators 0 .. 2: embedding and blocks 1 to 3, blocks 4 to 6, blocks 7 and 8 and the output."""
PLAN = cut_after(STACK, 3, 6)
TRAINING = random_stack(3, 4, training=True)


def written(split: Split, framework: Framework, graph: DnnGraph = STACK, deployment: Deployment = THREE) -> str:
    return exported(planned(graph, deployment, split.on(deployment)), framework).text


def refusal(split: Split, framework: Framework, graph: DnnGraph = STACK, deployment: Deployment = THREE) -> str:
    with pytest.raises(ExportError) as raised:
        written(split, framework, graph, deployment)
    message = str(raised.value)
    assert message.endswith(".")
    return message


def test_megatron_has_a_letter_for_each_layer() -> None:
    assert "'Et*3|t*3|t*2L'" in written(PLAN, Framework.MEGATRON)
    assert "'E|t*8|L'" in written(cut_after(STACK, 0, 8), Framework.MEGATRON)
    assert "--num-layers 8 --pipeline-model-parallel-size 3 " in written(PLAN, Framework.MEGATRON)


def test_megatron_has_virtual_stages_in_the_order_of_the_pipeline() -> None:
    model = import_fields(SMALL["llama"] | {"num_hidden_layers": 8}, mode=Mode.TRAINING, tied=Tied.COPY).graph
    blocks = {node.id: int(node.layer.split()[1]) for node in model.nodes if node.layer and "block" in node.layer}
    first = frozenset(node.id for node in model.nodes if node.layer == "embedding" or blocks.get(node.id, 9) <= 4)
    split = Split((first, frozenset(node.id for node in model.nodes) - first))
    plan = planned(model, Deployment(2), split, ScheduleKind.INTERLEAVED, 4, 2)
    assert plan.looped is not None
    assert plan.looped.devices == (0, 1, 0, 1)
    text = exported(plan, Framework.MEGATRON).text
    layout = text.split("'")[1]
    assert "--pipeline-model-parallel-size 2 " in text
    assert layout.count("|") == 3
    assert [layout[0], layout[-1]] == ["E", "L"]


def test_vllm_has_a_number_of_layers_for_each_rank() -> None:
    assert written(PLAN, Framework.VLLM).startswith(
        "VLLM_PP_LAYER_PARTITION=3,3,2 vllm serve MODEL --pipeline-parallel-size 3"
    )
    assert "stage 1 of this plan has none" in refusal(cut_after(STACK, 0, 4), Framework.VLLM)


def test_deepspeed_has_boundaries_of_its_list_of_layers() -> None:
    assert "PARTS = [0, 4, 7, 10]" in written(PLAN, Framework.DEEPSPEED)


def test_torchtitan_names_the_modules_of_every_part() -> None:
    split = cut_after(STACK, 3, 6)
    refused = refusal(split, Framework.TORCHTITAN)
    assert "trains" in refused
    model = import_fields(SMALL["llama"], mode=Mode.TRAINING, tied=Tied.COPY).graph
    whole = Split((frozenset(node.id for node in model.nodes),))
    read = tomllib.loads(written(whole, Framework.TORCHTITAN, model, Deployment(1)))["parallelism"]
    count = SMALL["llama"]["num_hidden_layers"]
    assert read["module_fqns_per_model_part"] == [
        ["tok_embeddings", *(f"layers.{i}" for i in range(count)), "norm", "lm_head"]
    ]


def test_a_device_map_has_every_module_once() -> None:
    cpu_last = Split((frozenset(range(5)), frozenset({9}), frozenset()), (frozenset(range(5, 9)),))
    read = json.loads(written(cpu_last, Framework.DEVICE_MAP))
    assert read["model.embed_tokens"] == read["model.rotary_emb"] == read["model.layers.3"] == 0
    assert [read["model.layers.4"], read["model.layers.7"]] == ["cpu", "cpu"]
    assert [read["model.norm"], read["lm_head"]] == [1, 1]
    gpt2 = exported(planned(STACK, THREE, PLAN), Framework.DEVICE_MAP, ModelNames.GPT2).text
    assert json.loads(gpt2)["transformer.h.7"] == 2


def layers_of_llama_cpp(text: str, num_layers: int) -> list[int | None]:
    """Return the device of every layer and of the output, by the rule of llama.cpp in its single precision.

    As in `load_tensors` of src/llama-model.cpp: None is the CPU, numbers are those of --tensor-split.
    """

    def single(x: float) -> float:
        return float(struct.unpack("f", struct.pack("f", x))[0])

    words = text.split()
    offloaded = int(words[words.index("--n-gpu-layers") + 1])
    if not offloaded:
        return [None] * (num_layers + 1)
    shares = [single(float(x)) for x in words[words.index("--tensor-split") + 1].split(",")]
    points = [single(x / single(sum(shares))) for x in accumulate(shares)]
    start = max(num_layers + 1 - offloaded, 0)
    found: list[int | None] = []
    for i in range(num_layers + 1):
        at = single(single(i - start) / offloaded)
        found.append(None if i < start else next(d for d, point in enumerate(points) if point > at))
    return found


@pytest.mark.parametrize("num_blocks", [8, 32, 61, 126])
@pytest.mark.parametrize("cuts", [(3, 6), (1, 2), (2, 7)])
def test_llama_cpp_puts_layers_where_the_plan_has_them(num_blocks: int, cuts: tuple[int, int]) -> None:
    graph = plain_stack(num_blocks)
    split = cut_after(graph, *cuts)
    placed = layers_of_llama_cpp(written(split, Framework.LLAMA_CPP, graph), num_blocks)
    assert placed == [d for d, members in enumerate(split.accelerators) for v in sorted(members) if v]


def test_llama_cpp_keeps_first_layers_on_the_cpu_and_moves_others_there() -> None:
    first = Split((frozenset(range(4, 7)), frozenset(range(7, 10))), (frozenset(range(4)),))
    text = written(first, Framework.LLAMA_CPP)
    assert layers_of_llama_cpp(text, 8) == [None, None, None, 0, 0, 0, 1, 1, 1]
    assert "--override-tensor" not in text
    between = Split((frozenset({0, 1, 2, 3, 6}), frozenset({7, 8, 9})), (frozenset({4, 5}),))
    text = written(between, Framework.LLAMA_CPP)
    assert "--override-tensor 'blk\\.(3|4)\\..*=CPU'" in text
    assert layers_of_llama_cpp(text, 8) == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    swapped = Split((frozenset({0, 1, 2, 5}), frozenset({3, 4, 6, 7, 8, 9})))
    assert "blk\\.(4)\\..*=CUDA0" in written(swapped, Framework.LLAMA_CPP)


@pytest.mark.parametrize("framework", [f for f, form in FORMATS.items() if form.is_pipeline and not form.trains_only])
def test_what_does_not_fit_is_refused_with_the_remedy(framework: Framework) -> None:
    on_cpu = Split((frozenset(range(5)),), (frozenset(range(5, 10)),))
    replicated = Split((frozenset(range(5)), frozenset(range(5, 10))), replicas=(2, 1))
    circle = Split((frozenset({0, 1, 2, 5, 6}), frozenset({3, 4, 7, 8, 9})))
    for split, what in ((on_cpu, "CPU"), (replicated, "2 replicas"), (circle, "circle")):
        if framework is Framework.LLAMA_CPP and split is not replicated:
            continue  # it takes layers on CPUs, and in any order
        message = refusal(split, framework)
        assert what in message
        assert f"--expressible-in {framework}" in message


@pytest.mark.parametrize("framework", list(Framework))
def test_a_cut_layer_is_named(framework: Framework) -> None:
    trains = FORMATS[framework].trains_only
    graph = random_stack(5, 3, training=trains)
    block = [node for node in graph.nodes if node.layer == "block 2" and not node.is_backward]
    assert len(block) > 1
    first = {node.id for node in graph.nodes if not node.is_backward and node.id < block[-1].id}
    classes = {graph.node_by_id[v].colocation_class for v in first} - {None}
    first |= {node.id for node in graph.nodes if node.colocation_class in classes}
    split = Split((frozenset(first), frozenset(graph.node_by_id) - first))
    message = refusal(split, framework, graph, Deployment(2))
    if framework is Framework.TORCH_PIPELINING:
        assert "neither a node of a graph that torch.export made nor a module" in message
    else:
        assert "block 2 is cut between Accelerator 1 and Accelerator 2" in message
    assert f"--expressible-in {framework}" in message


@pytest.mark.parametrize(
    "framework", [Framework.MEGATRON, Framework.DEEPSPEED, Framework.TORCHTITAN, Framework.TORCH_PIPELINING]
)
def test_schedules_that_a_framework_lacks_are_refused(framework: Framework) -> None:
    split = Split((frozenset(TRAINING.node_by_id),))
    plan = planned(TRAINING, Deployment(1), split, ScheduleKind.PIPEDREAM)
    with pytest.raises(ExportError, match=r"not with pipedream|not pipedream|no schedule pipedream"):
        exported(plan, framework)
    with pytest.raises(ExportError, match="not one of training"):
        planned(TRAINING, Deployment(1), split, ScheduleKind.INFERENCE)


def test_graphs_that_are_no_stack_of_layers_are_refused() -> None:
    def stack(names: tuple[str, ...], edges: tuple[tuple[int, int], ...]) -> DnnGraph:
        nodes = tuple(Node(v, 1.0, 1.0, layer=name) for v, name in enumerate(names))
        return DnnGraph(nodes, tuple(Edge(u, v) for u, v in edges))

    row = ((0, 1), (1, 2), (2, 3))
    for names, edges, what in (
        (("encoder 1", "encoder 2", "decoder 1", "decoder 2"), row, "several rows of blocks"),
        (("a", "b", "c", "d"), row, "no row of blocks"),
        (("block 1", "block 2", "block 4", "output"), row, "some left out"),
        (("block 1", "block 2", "block 3", "output"), (*row, (0, 2)), "block 3 reads block 1"),
    ):
        graph = stack(names, edges)
        message = refusal(Split((frozenset(range(4)),)), Framework.MEGATRON, graph, Deployment(1))
        assert what in message


def test_devices_that_differ_are_told_by_rank() -> None:
    mixed = Deployment.of_classes((DeviceClass("A100", 2), DeviceClass("T4", 1)))
    notes = exported(planned(STACK, mixed, PLAN), Framework.MEGATRON).notes
    assert any("0 A100 1, 1 A100 2, 2 T4 1" in note for note in notes)
    assert not any(
        "processes in this order" in note for note in exported(planned(STACK, THREE, PLAN), Framework.VLLM).notes
    )


def test_modules_that_predict_further_tokens_stand_before_the_output() -> None:
    graph = plain_stack(2)
    more = DnnGraph((*graph.nodes, Node(4, 1.0, 1.0, layer="prediction module 1")), (*graph.edges, Edge(2, 4)))
    split = Split((frozenset({0, 1}), frozenset({2, 3, 4})))
    assert "Et|tmL" in written(split, Framework.MEGATRON, more, Deployment(2))


def test_cuts_inside_a_block_name_modules() -> None:
    graph = import_fields(SMALL["llama"], level=Level.OPERATORS, tied=Tied.COPY, sequence=16).graph
    up = next(node.id for node in graph.nodes if node.name == "1 feed-forward gate")
    text = written(cut_after(graph, up - 1), Framework.TORCH_PIPELINING, graph, Deployment(2))
    assert "'model.layers.0.mlp.gate_proj': 1," in text
    assert "'model.layers.0.self_attn.o_proj': 0," in text
    add = next(node.id for node in graph.nodes if node.name == "1 attention add")
    message = refusal(cut_after(graph, add - 1), Framework.TORCH_PIPELINING, graph, Deployment(2))
    assert "(1 attention add), which is no module, with the last of its inputs" in message


def test_names_of_an_exported_graph_are_taken_as_they_are() -> None:
    nodes = tuple(Node(v, 1.0, 1.0, name=name, layer="net") for v, name in enumerate(("linear", "relu", "linear_1")))
    graph = DnnGraph(nodes, (Edge(0, 1), Edge(1, 2)))
    text = written(cut_after(graph, 1), Framework.TORCH_PIPELINING, graph, Deployment(2))
    assert "'linear': 0,\n    'relu': 0,\n    'linear_1': 1," in text


def test_layers_of_an_exported_model_are_named_by_the_paths_of_their_modules() -> None:
    """An encoder and a decoder are no one row of blocks, so every layer is named."""
    names = ("encoder.embed", "encoder.block.0", "decoder.embed", "decoder.block.0", "head")
    nodes = tuple(Node(v, 1.0, 1.0, name=name, layer=name) for v, name in enumerate(names))
    graph = DnnGraph(nodes, (Edge(0, 1), Edge(2, 3), Edge(1, 3), Edge(3, 4)))
    plan = planned(graph, Deployment(2), cut_after(graph, 2))
    found = exported(plan, Framework.TORCH_PIPELINING)
    assert "'decoder.embed': 0,\n    'decoder.block.0': 1,\n    'head': 1," in found.text
    assert "those of modules of the exported model" in found.notes[0]
    expressible = expressible_graph(graph, Framework.TORCH_PIPELINING)
    assert expressible.colocation_members == graph.colocation_members
