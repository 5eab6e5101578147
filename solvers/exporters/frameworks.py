"""All frameworks that plans are written for, and the graph of the splits that each can express.

A framework that places whole layers expresses those splits that keep every layer together, so that the best of them is
the best split of a graph with more colocation classes: one for the front of a stack of layers, one for each block and
one for the back (`solvers.exporters.layers`), joined with the classes that are there already. Node ids, times and
tensors stay as they are, so that any split costs in this graph what it costs in the other; a proof in it is one about
all splits that can be expressed, within the family of splits that it was solved in.

For PyTorch it is one about somewhat fewer where a graph has operators of the importer: one that is no module runs with
the last of its inputs, whichever that is in a split, and here goes with the last of them in the order of the graph.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from networkx.utils import UnionFind

from solvers.exporters import (
    deepspeed,
    device_map,
    llama_cpp,
    megatron,
    torch_pipelining,
    torchtitan,
    vllm,
)
from solvers.exporters.layers import LayerStack, layer_stack
from solvers.exporters.module_names import ModelNames, operator_names
from solvers.exporters.plan import Exported, ExportError, Plan
from solvers.model.graph import DnnGraph
from solvers.model.split import forward_edges


class Framework(StrEnum):
    """A format that a plan is written in, by its name on the command line."""

    TORCH_PIPELINING = "torch-pipelining"
    TORCHTITAN = "torchtitan"
    NEMO_AUTOMODEL = "nemo-automodel"
    MEGATRON = "megatron"
    DEEPSPEED = "deepspeed"
    DEVICE_MAP = "device-map"
    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"


@dataclass(frozen=True, slots=True)
class Format:
    """How plans are written for a framework.

    `title` is its name in sentences, `reads` what it reads, `file_name` the ending of a file. `write` raises
    ExportError for a plan that does not fit. `serves_only` says that it takes no graphs of training, `trains_only` the
    reverse, `is_pipeline` that it runs chain splits. `joins_ends` tells which ends of the stack it keeps with the
    blocks beside them: the front, the back.
    """

    framework: Framework
    title: str
    reads: str
    file_name: str
    mime: str
    write: Callable[[Plan, ModelNames], Exported]
    serves_only: bool = False
    trains_only: bool = False
    is_pipeline: bool = True
    joins_ends: tuple[bool, bool] = (False, False)
    takes_cpus: bool = False


FORMATS = {
    one.framework: one
    for one in (
        Format(
            Framework.TORCH_PIPELINING,
            "PyTorch pipelining",
            "A script for torchrun: torch.distributed.pipelining cuts your model and runs the schedule.",
            "pipeline.py",
            "text/x-python",
            torch_pipelining.torch_pipelining,
        ),
        Format(
            Framework.TORCHTITAN,
            "torchtitan",
            "module_fqns_per_model_part and the schedule, for ParallelismConfig.",
            "torchtitan.toml",
            "application/toml",
            torchtitan.torchtitan,
            trains_only=True,
        ),
        Format(
            Framework.NEMO_AUTOMODEL,
            "NeMo AutoModel",
            "module_fqns_per_model_part and the schedule, for PipelineConfig.",
            "nemo_automodel.yaml",
            "application/yaml",
            torchtitan.nemo_automodel,
            trains_only=True,
        ),
        Format(
            Framework.MEGATRON,
            "Megatron-LM",
            "Options with --pipeline-model-parallel-layout, virtual stages among them.",
            "megatron.txt",
            "text/plain",
            megatron.megatron,
        ),
        Format(
            Framework.DEEPSPEED,
            "DeepSpeed",
            "A PipelineModule with the boundaries of the plan.",
            "deepspeed.py",
            "text/x-python",
            deepspeed.deepspeed,
        ),
        Format(
            Framework.DEVICE_MAP,
            "Device map",
            "device_map of transformers and accelerate.",
            "device_map.json",
            "application/json",
            device_map.device_map,
            is_pipeline=False,
            takes_cpus=True,
        ),
        Format(
            Framework.VLLM,
            "vLLM",
            "VLLM_PP_LAYER_PARTITION and --pipeline-parallel-size.",
            "vllm.txt",
            "text/plain",
            vllm.vllm,
            serves_only=True,
            joins_ends=(True, True),
        ),
        Format(
            Framework.LLAMA_CPP,
            "llama.cpp",
            "--n-gpu-layers, --tensor-split and --override-tensor.",
            "llama_cpp.txt",
            "text/plain",
            llama_cpp.llama_cpp,
            serves_only=True,
            joins_ends=(True, False),
        ),
    )
}


def exported(plan: Plan, framework: Framework, names: ModelNames = ModelNames.AUTOMATIC) -> Exported:
    """Return a plan as a framework reads it; ExportError with the reason where it cannot express the plan."""
    return FORMATS[framework].write(plan, names)


def expressible_graph(graph: DnnGraph, framework: Framework) -> DnnGraph:
    """Return the graph whose splits a framework can express; ExportError where its layers form no stack.

    >>> from solvers.model.graph import Edge, Node
    >>> names = ("block 1", "block 1", "block 2")
    >>> nodes = tuple(Node(v, 1.0, 1.0, layer=name) for v, name in enumerate(names))
    >>> graph = expressible_graph(DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(2))), Framework.MEGATRON)
    >>> [node.colocation_class for node in graph.nodes]
    [0, 0, None]
    """
    if framework is Framework.TORCH_PIPELINING:
        return _together(graph, _operators_of_torch(graph))
    stack = layer_stack(graph)
    return _together(graph, _layers(stack, *FORMATS[framework].joins_ends))


def why_none_expressible(graph: DnnGraph, framework: Framework) -> str:
    """Say in a sentence why a framework can express no split of a graph; empty where it can express some."""
    known = _known_reasons(graph.digest)
    if framework not in known:
        known[framework] = _why_none_expressible(graph, framework)
    return known[framework]


@lru_cache(maxsize=512)
def _known_reasons(_digest: str) -> dict[Framework, str]:
    """Return what was said of a graph: whoever asks which frameworks fit a question does so many times."""
    return {}


def _why_none_expressible(graph: DnnGraph, framework: Framework) -> str:
    form = FORMATS[framework]
    if form.serves_only and graph.is_training:
        return (
            f"{form.title} serves models, and this is a graph of training; import the model with --mode prefill or "
            "decode."
        )
    if form.trains_only and not graph.is_training:
        return f"{form.title} trains models, and this is a graph of inference; import it with --mode training."
    try:
        if framework is Framework.TORCH_PIPELINING:
            _operators_of_torch(graph)
        else:
            layer_stack(graph)
    except ExportError as error:
        return str(error)
    return ""


def _layers(stack: LayerStack, joins_front: bool, joins_back: bool) -> list[frozenset[int]]:
    groups = [stack.front, *stack.blocks, stack.back]
    if joins_front:
        groups.append(stack.front | stack.blocks[0])
    if joins_back:
        groups.append(stack.back | stack.blocks[-1])
    return groups


def _operators_of_torch(graph: DnnGraph) -> list[frozenset[int]]:
    """Return what a script for torch keeps together: nothing where every node has a name in the exported graph."""
    try:
        stack: LayerStack | None = layer_stack(graph)
    except ExportError:
        stack = None
    try:
        plain = operator_names(graph, stack, ModelNames.AUTOMATIC).plain
    except ExportError:
        if stack is None:
            raise
        return _layers(stack, joins_front=False, joins_back=False)
    # What is no module runs with the last of its inputs: the last in any order of the stages.
    place = {v: i for i, v in enumerate(graph.topological_order)}
    inputs: dict[int, list[int]] = {}
    for u, v in forward_edges(graph):
        inputs.setdefault(v, []).append(u)
    return [frozenset({v, max(inputs[v], key=place.__getitem__)}) for v in plain if v in inputs]


def _together(graph: DnnGraph, groups: Iterable[frozenset[int]]) -> DnnGraph:
    """Return the graph with each group in one colocation class, joined with the classes that it touches."""
    found = UnionFind([node.id for node in graph.nodes])
    for ids in (*graph.colocation_members.values(), *map(sorted, groups)):
        if ids:
            found.union(*ids)
    class_of: dict[int, int] = {}
    for members in found.to_sets():
        if len(members) > 1:
            class_of.update(dict.fromkeys(members, min(members)))
    return graph.with_nodes(tuple(replace(node, colocation_class=class_of.get(node.id)) for node in graph.nodes))
