"""torchtitan and NeMo AutoModel: names of modules for every part of a model (`module_fqns_per_model_part`).

torchtitan 0.3 has it in `ParallelismConfig` (torchtitan/config/configs.py) and splits by it in
torchtitan/distributed/pipeline_parallel.py, `_split_module`; NeMo AutoModel in `PipelineConfig`
(nemo_automodel/components/distributed/pipelining/config.py, functional.py: `split_model_into_stages`). Part s of P runs
on rank s mod P, or along the ranks and back where the schedule is a V.
"""

import json

from solvers.exporters.layer_stages import LayerStages, devices_note, layer_stages
from solvers.exporters.module_names import ModelNames, NamedStack, named_stack, torchtitan_stack
from solvers.exporters.plan import Exported, ExportError, Plan
from solvers.schedule.records import ScheduleKind

SCHEDULES = {
    ScheduleKind.GPIPE: "GPipe",
    ScheduleKind.ONE_F_ONE_B: "1F1B",
    ScheduleKind.INTERLEAVED: "Interleaved1F1B",
    ScheduleKind.ZB_V: "ZBVZeroBubble",
}
"""Names of torch.distributed.pipelining.schedules.get_schedule_class (torch 2.13)."""


def torchtitan(plan: Plan, _names: ModelNames) -> Exported:
    """Return the fields of torchtitan's ParallelismConfig as TOML."""
    title, flag = "torchtitan", "torchtitan"
    schedule = _schedule(plan, title)
    placed = layer_stages(plan, title, flag)
    named = torchtitan_stack(placed.stack)
    parts = module_parts(placed, named)
    rows = "".join(f"  {json.dumps(part)},\n" for part in parts)
    text = (
        "[parallelism]\n"
        f"pipeline_parallel_degree = {len(placed.stages) // plan.chunks_per_device}\n"
        f'pipeline_parallel_schedule = "{schedule}"\n'
        f"module_fqns_per_model_part = [\n{rows}]\n"
    )
    batch = (
        f"{plan.num_micro_batches} micro-batches: local_batch_size is {plan.num_micro_batches} x "
        "pipeline_parallel_microbatch_size."
    )
    return Exported(text, _notes(plan, placed, named, batch))


def nemo_automodel(plan: Plan, names: ModelNames) -> Exported:
    """Return the fields of NeMo AutoModel's PipelineConfig as YAML."""
    title, flag = "NeMo AutoModel", "nemo-automodel"
    schedule = _schedule(plan, title)
    placed = layer_stages(plan, title, flag)
    named = named_stack(plan.graph, placed.stack, names)
    parts = [[*part, *named.everywhere] for part in module_parts(placed, named)]
    rows = "".join(f"  - {json.dumps(part)}\n" for part in parts)
    text = f"pp_schedule: {json.dumps(schedule)}\nmodule_fqns_per_model_part:\n{rows}"
    ranks = len(placed.stages) // plan.chunks_per_device
    batch = (
        f"{plan.num_micro_batches} micro-batches on {ranks} ranks: pp_batch_size is {plan.num_micro_batches} x "
        "pp_microbatch_size."
    )
    return Exported(text, _notes(plan, placed, named, batch))


def module_parts(placed: LayerStages, named: NamedStack) -> list[list[str]]:
    """Return the names of modules in each stage, in the order of the pipeline."""
    parts: list[list[str]] = [[] for _ in placed.stages]
    parts[placed.front] += named.front
    for name, stage in zip(named.blocks, placed.blocks, strict=True):
        parts[stage].append(name)
    parts[placed.back] += named.back
    return parts


def _schedule(plan: Plan, title: str) -> str:
    if not plan.graph.is_training:
        raise ExportError(f"{title} trains, and this is a graph of inference.")
    if plan.schedule not in SCHEDULES:
        raise ExportError(
            f"{title} runs {', '.join(SCHEDULES.values())}, not {plan.schedule}; choose one of --schedule "
            f"{', '.join(SCHEDULES)}."
        )
    return SCHEDULES[plan.schedule]


def _notes(plan: Plan, placed: LayerStages, named: NamedStack, batch: str) -> tuple[str, ...]:
    notes = [
        named.note,
        batch,
        "Stages pass hidden states to the next one only; rotary embeddings and masks every stage recomputes, while the "
        "plan sends them.",
        devices_note(plan, placed.stages, "rank"),
    ]
    if placed.stack.num_prediction_modules:
        notes.append(
            "Modules that predict further tokens are not named; add them to the last part where the model has them."
        )
    return tuple(filter(None, notes))
