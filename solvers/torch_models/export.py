"""Make a graph of a PyTorch model in memory: exported on the meta device, so that its weights are never needed."""

import copy
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from solvers.importers.imported import Imported
from solvers.importers.torch_export.importer import import_archive
from solvers.importers.workload import Devices, Workload


def graph_of(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    devices: Devices,
    workload: Workload | None = None,
    dynamic_shapes: Any = None,
) -> Imported:
    """Return the graph of a model for one call `model(*args, **kwargs)`; the model itself stays as it is.

    Only shapes and formats of weights and arguments count, which may lie on any device, the meta device too.
    `dynamic_shapes` are those of `torch.export.export`. SourceError where the program cannot be imported; errors of
    `torch.export` are torch's own.
    """
    program = export_on_meta(model, args, kwargs, dynamic_shapes)
    archive = io.BytesIO()
    torch.export.save(program, archive)
    archive.seek(0)
    name = type(model).__name__
    return import_archive(archive, workload or Workload(), devices, f"a {name} in memory", name)


def export_on_meta(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, dynamic_shapes: Any = None
) -> torch.export.ExportedProgram:
    """Return the exported program of a call, made with a copy of the model that has no numbers."""
    # deepcopy takes what the memo has for an object, so that weights are never copied and tied ones stay tied.
    memo: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        without = tensor.detach().to("meta")
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        memo[id(tensor)] = torch.nn.Parameter(without, tensor.requires_grad) if is_parameter else without
    plain = copy.deepcopy(model, memo)

    def on_meta(value: Any) -> Any:
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    placed_args, placed_kwargs = torch.utils._pytree.tree_map(on_meta, (tuple(args), dict(kwargs or {})))
    with torch.no_grad():
        return torch.export.export(plain, placed_args, placed_kwargs, dynamic_shapes=dynamic_shapes, strict=False)
