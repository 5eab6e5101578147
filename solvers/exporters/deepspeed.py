"""DeepSpeed: the boundaries of a PipelineModule, as the subclass that sets them.

`PipelineModule(layers, num_stages)` cuts its list of layers at `self.parts`, which `_partition_layers` finds for the
methods uniform, parameters and type:regex (DeepSpeed 0.19, deepspeed/runtime/pipe/module.py). None of them takes
boundaries, so a subclass does. Stages run 1F1B (deepspeed/runtime/pipe/schedule.py, `TrainSchedule`) with as many
micro-batches as `gradient_accumulation_steps`, or a forward pipeline (`InferenceSchedule`).
"""

from itertools import accumulate

from solvers.exporters.layer_stages import devices_note, layer_stages
from solvers.exporters.module_names import ModelNames
from solvers.exporters.plan import Exported, ExportError, Plan
from solvers.schedule.records import ScheduleKind

TITLE, FLAG = "DeepSpeed", "deepspeed"
KINDS = (ScheduleKind.ONE_F_ONE_B, ScheduleKind.INFERENCE)

SCRIPT = '''"""A PipelineModule that is cut where the plan is: {counts} layers on {stages} stages.

The list of layers that it takes is {items}.
"""

from deepspeed.pipe import PipelineModule

PARTS = {parts}
GRADIENT_ACCUMULATION_STEPS = {micro_batches}


class PlannedPipelineModule(PipelineModule):
    """PipelineModule(layers, num_stages={stages}) with the boundaries PARTS."""

    def _partition_layers(self, method="planned"):
        if self.num_stages != len(PARTS) - 1 or self._num_layers != PARTS[-1]:
            raise ValueError(
                f"The plan is for {{PARTS[-1]}} layers on {{len(PARTS) - 1}} stages, not for {{self._num_layers}} on "
                f"{{self.num_stages}}."
            )
        self.parts = list(PARTS)
        self._set_bounds(start=self.parts[self.stage_id], stop=self.parts[self.stage_id + 1])
'''


def deepspeed(plan: Plan, _names: ModelNames) -> Exported:
    """Return a Python module with the subclass."""
    if plan.schedule not in KINDS:
        raise ExportError(f"{TITLE} trains with 1F1B, not with {plan.schedule}; choose --schedule 1f1b.")
    placed = layer_stages(plan, TITLE, FLAG)
    counts = list(placed.counts)
    items = f"the {placed.stack.num_blocks} blocks"
    if placed.stack.back:
        counts[placed.back] += 1
        items += " and the output with its norm as one"
    if placed.stack.front:
        counts[placed.front] += 1
        items = f"the embedding as one, {items}"
    parts = [0, *accumulate(counts)]
    text = SCRIPT.format(
        counts=parts[-1], stages=len(counts), items=items, parts=parts, micro_batches=plan.num_micro_batches
    )
    notes = (
        "partition_method cannot give boundaries, so the subclass sets them.",
        f"{plan.num_micro_batches} micro-batches: set gradient_accumulation_steps of DeepSpeed's configuration to "
        "GRADIENT_ACCUMULATION_STEPS.",
        "Each layer passes its output to the next one only; masks and rotary embeddings go along as a tuple or are "
        "recomputed.",
        devices_note(plan, placed.stages, "rank"),
    )
    return Exported(text, tuple(filter(None, notes)))
