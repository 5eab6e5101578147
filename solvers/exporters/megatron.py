"""Megatron-LM: the options of a pipeline with a layout of its own, and of its virtual stages.

`--pipeline-model-parallel-layout` is a string with a letter for each layer, in the order of the pipeline, "|" between
stages: E embedding, t decoder layer, m module that predicts further tokens, L output and loss; t*3 stands for ttt
(`PipelineParallelLayerLayout` in megatron/core/transformer/pipeline_parallel_layer_layout.py, Megatron Core 0.16, and
"Custom Pipeline Model Parallel Layout" in its user guide). Of P stages s runs on rank s mod P, so that v chunks on each
of p ranks are v p stages in the order of interleaved 1F1B. The final norm is built with L
(`TransformerBlock.has_final_layernorm_in_this_stage`), as the back of a graph has it.
"""

import shlex

from solvers.exporters.layer_stages import LayerStages, devices_note, layer_stages
from solvers.exporters.module_names import ModelNames
from solvers.exporters.plan import Exported, ExportError, Plan
from solvers.schedule.records import INFERENCE_KINDS, ScheduleKind

TITLE, FLAG = "Megatron-LM", "megatron"
KINDS = (ScheduleKind.ONE_F_ONE_B, ScheduleKind.INTERLEAVED, ScheduleKind.INFERENCE)


def megatron(plan: Plan, _names: ModelNames) -> Exported:
    """Return the options of a launch, on one line."""
    if plan.schedule not in KINDS:
        raise ExportError(
            f"{TITLE} trains with 1F1B and interleaved 1F1B, not with {plan.schedule}; choose --schedule 1f1b or "
            "interleaved."
        )
    placed = layer_stages(plan, TITLE, FLAG)
    layout = layout_of(placed)
    ranks = len(placed.stages) // plan.chunks_per_device
    words = [
        "--num-layers",
        str(placed.stack.num_blocks),
        "--pipeline-model-parallel-size",
        str(ranks),
        "--pipeline-model-parallel-layout",
        layout,
    ]
    notes = [
        "E stands for all that comes before the blocks, L for all that follows them.",
        "Stages pass hidden states to the next one only; rotary embeddings and masks each rank recomputes, while the "
        "plan sends them.",
        devices_note(plan, placed.stages, "rank"),
    ]
    if plan.schedule not in INFERENCE_KINDS:
        notes.append(
            f"{plan.num_micro_batches} micro-batches: give --global-batch-size {plan.num_micro_batches} x "
            "--micro-batch-size x data-parallel replicas."
        )
    if plan.chunks_per_device > 1 and plan.num_micro_batches % ranks:
        notes.append(f"Interleaved 1F1B wants a multiple of {ranks} micro-batches.")
    return Exported(" ".join(map(shlex.quote, words)) + "\n", tuple(filter(None, notes)))


def layout_of(placed: LayerStages) -> str:
    """Return the layout string of stages in the order of the pipeline."""
    letters: list[str] = []
    for s, count in enumerate(placed.counts):
        blocks = "" if not count else "t" if count == 1 else f"t*{count}"
        back = "m" * placed.stack.num_prediction_modules + "L" if s == placed.back else ""
        letters.append(("E" if s == placed.front else "") + blocks + back)
    return "|".join(letters)
