"""vLLM: the numbers of decoder layers on each rank of its pipeline.

`VLLM_PP_LAYER_PARTITION` is a list of numbers, one for each of --pipeline-parallel-size ranks, that add up to the
number of hidden layers (vllm/distributed/utils.py, `get_pp_indices`). The embedding is on the first rank, the final
norm and the output on the last (vllm/model_executor/models/llama.py), so that these ranks have layers too.
"""

from solvers.exporters.layer_stages import devices_note, layer_stages
from solvers.exporters.module_names import ModelNames
from solvers.exporters.plan import Exported, ExportError, Plan

TITLE, FLAG = "vLLM", "vllm"


def vllm(plan: Plan, _names: ModelNames) -> Exported:
    """Return the environment variable and the option, on one line."""
    require_serving(plan, TITLE)
    placed = layer_stages(plan, TITLE, FLAG)
    for s, count in enumerate(placed.counts):
        if not count:
            raise ExportError(
                f"{TITLE} has decoder layers on every rank, and stage {s + 1} of this plan has none; "
                f"solve with --expressible-in {FLAG}."
            )
    partition = ",".join(map(str, placed.counts))
    text = f"VLLM_PP_LAYER_PARTITION={partition} vllm serve MODEL --pipeline-parallel-size {len(placed.counts)}\n"
    notes = (
        "Put the model's name in the place of MODEL.",
        "A model whose embedding is its output matrix has a copy of it on the last rank too.",
        "vLLM batches requests by itself: micro-batches and schedule of the plan are not given to it.",
        devices_note(plan, placed.stages, "rank"),
    )
    return Exported(text, tuple(filter(None, notes)))


def require_serving(plan: Plan, title: str) -> None:
    """Raise ExportError for a graph of training."""
    if plan.graph.is_training:
        raise ExportError(
            f"{title} serves models, and this is a graph of training; import the model with --mode prefill or decode."
        )
