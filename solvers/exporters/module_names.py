"""The names that modules have in PyTorch models, for the layers and operators of a graph.

Graphs of `solvers.importers.hugging_face` have names for people; those of classes of transformers are here
(transformers 5.23, `models/*/modeling_*.py`), and those of torchtitan 0.3 (`distributed/pipeline_parallel.py`,
`_generate_llm_fqn_per_model_part`). Layers that are paths of modules themselves, such as "model.layers.0", are taken as
they are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from solvers.exporters.layers import LayerStack
from solvers.exporters.plan import ExportError
from solvers.model.graph import DnnGraph, Node


class ModelNames(StrEnum):
    """Whose names of modules to use; automatic tells by the name of the graph."""

    AUTOMATIC = "auto"
    LLAMA = "llama"
    GPT2 = "gpt2"
    GPT_NEOX = "gpt-neox"
    BERT = "bert"
    ROBERTA = "roberta"


@dataclass(frozen=True, slots=True)
class Modules:
    """Paths of modules: of the front, of block i ("{}" is its number), of the back, and of what every stage has.

    `operators` has the path within a block of each operator of the importer that is a module of its own, `outside`
    those before and after the blocks; `plain` are the operators that are none, such as additions.
    """

    front: tuple[str, ...]
    block: str
    back: tuple[str, ...]
    everywhere: tuple[str, ...] = ()
    operators: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    plain: frozenset[str] = frozenset()


_PLAIN = frozenset(
    {
        "attention",
        "attention add",
        "embedding sum",
        "feed-forward activation",
        "feed-forward add",
        "key rotary",
        "loss",
        "output loss",
        "query rotary",
    }
)

NAMES = {
    ModelNames.LLAMA: Modules(
        ("model.embed_tokens",),
        "model.layers.{}",
        ("model.norm", "lm_head"),
        ("model.rotary_emb",),
        {
            "norm 1": "input_layernorm",
            "query": "self_attn.q_proj",
            "key": "self_attn.k_proj",
            "value": "self_attn.v_proj",
            "attention output": "self_attn.o_proj",
            "norm 2": "post_attention_layernorm",
            "feed-forward gate": "mlp.gate_proj",
            "feed-forward up": "mlp.up_proj",
            "feed-forward down": "mlp.down_proj",
        },
        {"token embedding": "model.embed_tokens", "final norm": "model.norm", "output": "lm_head"},
        _PLAIN,
    ),
    ModelNames.GPT2: Modules(
        ("transformer.wte", "transformer.wpe", "transformer.drop"),
        "transformer.h.{}",
        ("transformer.ln_f", "lm_head"),
        (),
        {
            "norm 1": "ln_1",
            "query, key, value": "attn.c_attn",
            "attention output": "attn.c_proj",
            "norm 2": "ln_2",
            "feed-forward up": "mlp.c_fc",
            "feed-forward down": "mlp.c_proj",
        },
        {
            "token embedding": "transformer.wte",
            "position embedding": "transformer.wpe",
            "final norm": "transformer.ln_f",
            "output": "lm_head",
        },
        _PLAIN,
    ),
    ModelNames.GPT_NEOX: Modules(
        ("gpt_neox.embed_in", "gpt_neox.emb_dropout"),
        "gpt_neox.layers.{}",
        ("gpt_neox.final_layer_norm", "lm_head"),
        ("gpt_neox.rotary_emb",),
    ),
    ModelNames.BERT: Modules(("bert.embeddings",), "bert.encoder.layer.{}", ("cls",)),
    ModelNames.ROBERTA: Modules(("roberta.embeddings",), "roberta.encoder.layer.{}", ("lm_head",)),
}
TORCHTITAN = Modules(("tok_embeddings",), "layers.{}", ("norm", "lm_head"))
GUESSES = (
    (r"gpt[-_]?2", ModelNames.GPT2),
    (r"gpt[-_]?neox", ModelNames.GPT_NEOX),
    (r"roberta", ModelNames.ROBERTA),
    (r"bert", ModelNames.BERT),
)
"""How the names of graphs begin whose models are not like Llama."""

MODULE_PATH = re.compile(r"\w+(\.\w+)+", flags=re.ASCII)
"""A path that names a module for sure: a word without dots could as well be a layer's name in any graph."""
EXPORTED_NODE = re.compile(r"(?:\w+(?:\.\w+)* )?([A-Za-z_]\w*)", flags=re.ASCII)
PATH = re.compile(r"\w+(\.\w+)*", flags=re.ASCII)
"""Any path, also of a module that is in no other, such as lm_head."""
NO_NODE = re.compile(r"^input \w+$| fork of ", flags=re.ASCII)


def model_names(graph: DnnGraph, names: ModelNames) -> ModelNames:
    """Return whose names a graph has; where nothing tells, those of Llama, which most decoders share."""
    if names is not ModelNames.AUTOMATIC:
        return names
    return next((kind for start, kind in GUESSES if re.match(start, graph.name, re.IGNORECASE)), ModelNames.LLAMA)


@dataclass(frozen=True, slots=True)
class NamedStack:
    """The paths of modules of a stack of layers: of the front, of each block, of the back, and of every stage."""

    front: tuple[str, ...]
    blocks: tuple[str, ...]
    back: tuple[str, ...]
    everywhere: tuple[str, ...]
    note: str


def named_stack(graph: DnnGraph, stack: LayerStack, names: ModelNames) -> NamedStack:
    """Return the paths of modules for the layers of a graph."""
    if all(MODULE_PATH.fullmatch(name) for name in stack.names[1]):
        return NamedStack(*stack.names, (), "Names of modules are those of the graph's layers.")
    kind = model_names(graph, names)
    modules = NAMES[kind]
    note = (
        f"Names of modules are those of {kind} in transformers ({modules.block.format(0)} for {stack.names[1][0]}); "
        "`placement export --modules` gives others."
    )
    return _named(modules, stack, note)


def torchtitan_stack(stack: LayerStack) -> NamedStack:
    """Return the paths of modules in torchtitan's models."""
    return _named(TORCHTITAN, stack, "Names of modules are those of torchtitan's decoders, such as llama3.")


def _named(modules: Modules, stack: LayerStack, note: str) -> NamedStack:
    blocks = tuple(modules.block.format(i) for i in range(stack.num_blocks))
    return NamedStack(modules.front, blocks, modules.back, modules.everywhere, note)


@dataclass(frozen=True, slots=True)
class OperatorNames:
    """What the forward nodes of a graph are in an exported model.

    `modules` has the path of a node's module, `nodes` the name of the node of the exported graph, and `plain` are nodes
    that are operators without a module, which run where the last of their inputs is. Forks of the importer, which stand
    for what a layer receives once, are in none of them. `whose` says whose names they are.
    """

    modules: Mapping[int, str]
    nodes: Mapping[int, str]
    plain: frozenset[int]
    whose: str


def operator_names(graph: DnnGraph, stack: LayerStack | None, names: ModelNames) -> OperatorNames:
    """Return what the nodes of a graph are called in an exported model; ExportError where one has no such name.

    A name that is an identifier, such as linear_3, is that of a node that torch.export made, and so is the last word of
    "layers.3.up linear_3", as archives are imported. Inputs and forks are no such nodes. Names with dots throughout,
    such as encoder.block.0 beside lm_head, are paths of modules, as layers of archives have them.
    """
    forward = [node for node in graph.nodes if not node.is_backward and not NO_NODE.search(node.name)]
    exported = {node.id: EXPORTED_NODE.fullmatch(node.name) for node in forward}
    if all(exported.values()):
        ends = {v: found[1] for v, found in exported.items() if found}
        return OperatorNames({}, ends, frozenset(), "nodes that torch.export made")
    if all(PATH.fullmatch(node.name) for node in forward):
        return OperatorNames({node.id: node.name for node in forward}, {}, frozenset(), "modules of the exported model")
    forward = [node for node in graph.nodes if not node.is_backward]
    known = NAMES[model_names(graph, names)]
    block_of = {} if stack is None else {v: i for i, block in enumerate(stack.blocks) for v in block}
    modules: dict[int, str] = {}
    plain: set[int] = set()
    for node in forward:
        what = re.sub(r"^\d+ ", "", node.name)
        if " fork of " in what:
            continue
        if what in known.plain:
            plain.add(node.id)
        elif node.id in block_of and what in known.operators:
            modules[node.id] = f"{known.block.format(block_of[node.id])}.{known.operators[what]}"
        elif node.id not in block_of and what in known.outside:
            modules[node.id] = known.outside[what]
        else:
            raise _unnamed(node, stack)
    return OperatorNames(modules, {}, frozenset(plain), "modules of transformers")


def _unnamed(node: Node, stack: LayerStack | None) -> ExportError:
    remedy = (
        "import the model from an archive of torch.export (.pt2), which has the names of its nodes"
        if stack is None
        else "solve with --expressible-in torch-pipelining, which cuts between layers"
    )
    return ExportError(
        f"{node.label[0].upper()}{node.label[1:]} is neither a node of a graph that torch.export made nor a module of "
        f"a known model, so no cut inside a layer can name it; {remedy}."
    )
