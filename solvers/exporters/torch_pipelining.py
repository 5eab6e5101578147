"""PyTorch: a script that cuts a model with torch.distributed.pipelining and runs the plan's schedule.

`pipeline(module, mb_args, split_policy=...)` exports a model, has the policy put marks into the exported graph, and
cuts it there (torch 2.13, torch/distributed/pipelining/_IR.py). The script knows the stages of nodes of that graph by
their names, or by those of the modules they belong to; nodes that it does not know (views, scales, additions) run where
the last of their inputs is, and constants (masks, positions) on every stage that reads them. So a cut between whole
layers is the name of the first module behind it, as in a `split_spec` with SplitPoint.BEGINNING; which is not used,
because torch 2.13 then fails on models of transformers 5: it groups the nodes of a stage by module again, and mistakes
one with a part under no_grad, the rotary embedding, for two.
Tensors that a later stage reads go there directly, or from stage to stage where devices run several, which torch asks
for. A weight that several stages use is copied to each.
"""

from importlib.resources import files

from solvers.exporters.layer_stages import LayerStages, devices_note, layer_stages, pipeline_stages
from solvers.exporters.layers import layer_stack
from solvers.exporters.module_names import ModelNames, named_stack, operator_names
from solvers.exporters.plan import Exported, ExportError, Plan, Stage
from solvers.model.split import forward_edges
from solvers.schedule.records import ScheduleKind

TITLE, FLAG = "torch.distributed.pipelining", "torch-pipelining"
SCHEDULES = {
    ScheduleKind.GPIPE: "ScheduleGPipe",
    ScheduleKind.ONE_F_ONE_B: "Schedule1F1B",
    ScheduleKind.INTERLEAVED: "ScheduleInterleaved1F1B",
    ScheduleKind.INFERENCE: "ScheduleGPipe",
}
"""Classes of torch.distributed.pipelining; GPipe without a loss runs forward passes alone.

ScheduleZBVZeroBubble is left out: on stages that `pipeline` made torch 2.13 has a process send to itself, and fails.
"""


def torch_pipelining(plan: Plan, names: ModelNames) -> Exported:
    """Return the script."""
    if plan.schedule not in SCHEDULES:
        kinds = [kind for kind in SCHEDULES if (kind is ScheduleKind.INFERENCE) != plan.graph.is_training]
        raise ExportError(f"{TITLE} has no schedule {plan.schedule}; choose one of --schedule {', '.join(kinds)}.")
    stages = pipeline_stages(plan, TITLE, FLAG)
    placed = _whole_layers(plan)
    module_stages: dict[str, int] = {}
    node_stages: dict[str, int] = {}
    if placed is not None:
        named = named_stack(plan.graph, placed.stack, names)
        module_stages = {_first_module(placed, named.blocks, named.back, s): s for s in range(1, len(stages))}
        how = "Every cut lies between whole layers."
        note = named.note
    else:
        module_stages, node_stages, whose = _stages_by_name(plan, stages, names)
        how = "Cuts are put into the exported graph by the names of its nodes or modules."
        note = f"{how} The names are those of {whose}."
    ranks = len(stages) // plan.chunks_per_device
    template = files("solvers.exporters").joinpath("torch_pipelining.py.txt").read_text(encoding="utf-8")
    settings = {
        "NUM_RANKS": ranks,
        "NUM_STAGES": len(stages),
        "NUM_MICRO_BATCHES": plan.num_micro_batches,
        "SCHEDULE": SCHEDULES[plan.schedule],
        "IS_TRAINING": plan.graph.is_training,
        "STAGES_OF_RANK": _stages_of_ranks(stages),
        "STAGE_OF_MODULE": module_stages,
        "STAGE_OF_NODE": node_stages,
    }
    written = "\n".join(f"{name} = {_literal(value)}" for name, value in settings.items())
    text = template.replace("@RANKS@", str(ranks)).replace("@HOW@", how).replace("@SETTINGS@", written)
    notes = [
        note,
        "A tensor that several stages read is sent to each from where it was made; the plan sends it once."
        if plan.chunks_per_device == 1
        else "A tensor that later stages read is passed on by every stage between; the plan sends it once.",
        "A weight that several stages use is copied to each, and its gradients are not added up among them.",
        devices_note(plan, stages, "rank"),
    ]
    return Exported(text, tuple(filter(None, notes)))


def _whole_layers(plan: Plan) -> LayerStages | None:
    """Return where whole layers are; None where a layer is cut, or the graph is no row of layers."""
    try:
        return layer_stages(plan, TITLE, FLAG)
    except ExportError:
        return None


def _first_module(placed: LayerStages, blocks: tuple[str, ...], back: tuple[str, ...], stage: int) -> str:
    return blocks[placed.first_block(stage)] if placed.counts[stage] else back[0]


def _stages_of_ranks(stages: tuple[Stage, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the stages of each rank; ranks are the devices in the order of their first stages."""
    of_device: dict[int, list[int]] = {}
    for s, stage in enumerate(stages):
        of_device.setdefault(stage.device, []).append(s)
    return tuple(map(tuple, of_device.values()))


def _stages_by_name(
    plan: Plan, stages: tuple[Stage, ...], names: ModelNames
) -> tuple[dict[str, int], dict[str, int], str]:
    """Return the stages of modules and of nodes of the exported graph, and whose names they are."""
    try:
        stack = layer_stack(plan.graph)
    except ExportError:
        stack = None
    known = operator_names(plan.graph, stack, names)
    stage_of = {v: s for s, stage in enumerate(stages) for v in stage.nodes}
    latest: dict[int, int] = {}
    for u, v in forward_edges(plan.graph):
        latest[v] = max(latest.get(v, 0), stage_of[u])
    for v in sorted(known.plain):
        if stage_of[v] != latest.get(v, stage_of[v]):
            raise ExportError(
                f"{TITLE} runs {plan.graph.node_by_id[v].label}, which is no module, with the last of its inputs, and "
                f"this plan has it on {plan.device_name(stages[stage_of[v]].device)}; solve with --expressible-in "
                f"{FLAG}."
            )
    modules = {path: stage_of[v] for v, path in known.modules.items()}
    return modules, {name: stage_of[v] for v, name in known.nodes.items()}, known.whose


def _literal(value: object) -> str:
    """Write a setting as Python, a long one with an entry on each line."""
    if isinstance(value, dict) and value:
        rows = "".join(f"    {key!r}: {entry!r},\n" for key, entry in value.items())
        return "{\n" + rows + "}"
    if isinstance(value, tuple) and len(value) > 1:
        return "(\n" + "".join(f"    {entry!r},\n" for entry in value) + ")"
    return repr(value)
