"""transformers and accelerate: a `device_map`, from names of modules to devices, as JSON.

`AutoModel.from_pretrained(..., device_map=...)` and `accelerate.dispatch_model` take it: values are numbers of
accelerators or "cpu", and every parameter lies under one key (accelerate 1.15, utils/modeling.py, `check_device_map`).
Hooks move hidden states from device to device, so that layers may lie in any order; a layer is kept whole, for its
residual sum reads what several of its modules write.
"""

import json

from solvers.exporters.layer_stages import require_whole_devices
from solvers.exporters.layers import layer_stack
from solvers.exporters.module_names import ModelNames, named_stack
from solvers.exporters.plan import Exported, ExportError, Plan

TITLE, FLAG = "A device map of transformers", "device-map"


def device_map(plan: Plan, names: ModelNames) -> Exported:
    """Return the map as JSON."""
    remedy = f"solve with --expressible-in {FLAG}"
    require_whole_devices(plan, TITLE, remedy)
    stack = layer_stack(plan.graph)
    named = named_stack(plan.graph, stack, names)
    of_modules: dict[str, int | str] = {}

    def put(modules: tuple[str, ...], nodes: frozenset[int], what: str) -> None:
        devices = sorted({plan.device_of[v] for v in nodes})
        if len(devices) > 1:
            where = " and ".join(map(plan.device_name, devices))
            raise ExportError(f"{TITLE} places whole layers, and {what} is cut between {where}; {remedy}.")
        device = devices[0]
        place: int | str = "cpu" if plan.is_cpu(device) else plan.placed.first_accelerator(device)
        of_modules.update(dict.fromkeys(modules, place))

    first, last = stack.blocks[0], stack.blocks[-1]
    put((*named.front, *named.everywhere), stack.front or first, "the part before the blocks")
    for name, nodes, layer in zip(named.blocks, stack.blocks, stack.names[1], strict=True):
        put((name,), nodes, layer)
    put(named.back, stack.back or last, "the part after the blocks")
    notes = [
        named.note,
        "Devices run one after the other, each batch on one device at a time: the plan's throughput, micro-batches and "
        "schedule are not reached, the latency of one batch is.",
        "Numbers are those of the plan's devices in CUDA_VISIBLE_DEVICES, and all CPUs are one.",
    ]
    if stack.num_prediction_modules:
        notes.append("Modules that predict further tokens are left out, as transformers leaves them out.")
    return Exported(json.dumps(of_modules, indent=1) + "\n", tuple(notes))
