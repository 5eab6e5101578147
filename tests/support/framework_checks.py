"""Exported plans as the frameworks themselves read them; run by a Python that has them.

Reads a JSON list of questions on stdin, each [what, argument], and prints a JSON list of answers; null where this
Python lacks the package.
"""

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any


def megatron(argument: dict[str, Any]) -> Any:
    """Return the layers that Megatron Core reads from a layout, [rank][virtual stage], checked by it."""
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

    layout = PipelineParallelLayerLayout(argument["layout"], argument["ranks"])
    layout.validate_layer_layout(argument["num_layers"], argument["predicting"])
    return [[[layer.name for layer in stage] for stage in rank] for rank in layout.layout]


def device_maps(argument: dict[str, Any]) -> Any:
    """Return the devices of the parameters of models, after accelerate has checked that each map covers its model."""
    import accelerate
    import torch
    import transformers

    answers = []
    for asked in argument["maps"]:
        fields, of_modules = dict(asked["config"]), asked["map"]
        kind, architecture = fields.pop("model_type"), fields["architectures"][0]
        with torch.device("meta"):
            model = getattr(transformers, architecture)(transformers.AutoConfig.for_model(kind, **fields))
        accelerate.utils.modeling.check_device_map(model, of_modules)
        modules = dict(model.named_modules())
        devices = []
        for name, _ in model.named_parameters():
            (prefix,) = [p for p in of_modules if name == p or name.startswith(f"{p}.")]
            devices.append(of_modules[prefix])
        answers.append({"devices": devices, "unknown": [p for p in of_modules if p not in modules]})
    return answers


def torchtitan(argument: dict[str, Any]) -> Any:
    """Return what torchtitan's splitter leaves of a model in each part, and which parts each rank has."""
    import torch
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torchtitan.config.configs import ParallelismConfig
    from torchtitan.distributed.pipeline_parallel import _get_pp_rank_to_stage_indices_mapping, _split_module

    config = ParallelismConfig(**argument["parallelism"])
    model = torch.nn.Module()
    model.tok_embeddings, model.norm, model.lm_head = (torch.nn.Identity() for _ in range(3))
    model.layers = torch.nn.ModuleDict({str(i): torch.nn.Identity() for i in range(argument["num_layers"])})
    parts = config.module_fqns_per_model_part or []
    left = []
    for part in parts:
        modules = _split_module(model, part).named_modules()
        left.append(sorted(name for name, one in modules if name not in ("", "layers")))
    ranks = [
        _get_pp_rank_to_stage_indices_mapping(
            rank, config.pipeline_parallel_degree, config.pipeline_parallel_schedule, len(parts)
        )
        for rank in range(config.pipeline_parallel_degree)
    ]
    get_schedule_class(config.pipeline_parallel_schedule)
    return {"left": left, "ranks": ranks}


def deepspeed(argument: dict[str, Any]) -> Any:
    """Return the layers that a PipelineModule with the exported boundaries builds on each of its stages."""
    import torch
    from deepspeed.pipe import PipelineModule

    names: dict[str, Any] = {}
    exec(argument["text"], names)  # noqa: S102 -- our own export
    kind = names["PlannedPipelineModule"]
    assert issubclass(kind, PipelineModule)
    found = []
    for stage in range(argument["stages"]):
        module = kind.__new__(kind)
        torch.nn.Module.__init__(module)
        module.num_stages, module.stage_id = argument["stages"], stage
        module._num_layers = argument["num_layers"]
        module._layer_specs = [torch.nn.Identity() for _ in range(argument["num_layers"])]
        module._partition_layers(method="parameters")
        found.append([module.stage_owner(i) for i in range(module._local_start, module._local_stop)])
    return found


def export_names(argument: dict[str, Any]) -> Any:
    """Return the names of the nodes that torch.export makes of a model, with those of their inputs."""
    import pipelined_models
    import torch

    model, args, *_ = getattr(pipelined_models, argument["model"])()
    graph = torch.export.export(model, args).graph
    return [[node.name, [u.name for u in node.all_input_nodes]] for node in graph.nodes if node.op == "call_function"]


CHECKS: dict[str, Callable[[dict[str, Any]], Any]] = {
    check.__name__: check for check in (megatron, device_maps, torchtitan, deepspeed, export_names)
}


def main() -> None:
    """Answer the questions; what the packages print goes to stderr."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    questions = json.load(sys.stdin)
    out, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    answers = []
    for what, argument in questions:
        try:
            answers.append(CHECKS[what](argument))
        except ModuleNotFoundError as error:
            print(error, file=sys.stderr)
            answers.append(None)
    json.dump(answers, out)
    out.flush()


if __name__ == "__main__":
    main()
