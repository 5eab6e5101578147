"""Profile a model's operators on this machine, and put the times into a graph that was imported from it."""

import importlib
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from solvers.importers.measured import processor
from solvers.importers.torch_export.archive import ZIP_MAGIC, read_program
from solvers.importers.torch_export.measured import with_measured_times
from solvers.model.errors import SourceError
from solvers.model.graph import DnnGraph, TimesKind, TimesOrigin
from solvers.torch_models.neighbours import busy_neighbours
from solvers.torch_models.operators import measure_program

FORMATS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float64: "fp64"}


@dataclass(frozen=True, slots=True)
class Profile:
    """What to measure, and how: `device` is one of PyTorch's, `into` says where times go.

    `accelerator` is the device's name in the catalogue, empty where it has none. `neighbours` other processes run the
    same model meanwhile.
    """

    device: str = "cpu"
    threads: int = 1
    warm_up: int = 3
    repetitions: int = 20
    into: str = "accelerator"
    accelerator: str = ""
    neighbours: int = 0


def profile_model(graph: DnnGraph, model: str, asked: Profile) -> tuple[DnnGraph, str]:
    """Return the graph with times of the operators of a model, measured here, and what they were measured on.

    `model` is an archive of `torch.export`, which `torch.export.load` reads and which has to be trusted since torch
    unpickles parts of it, or `module:function`, whose function returns (model, args) or (model, args, kwargs).
    """
    return profile_program(graph, lambda: _program(model), asked)


def profile_program(
    graph: DnnGraph, program_of: Callable[[], torch.export.ExportedProgram], asked: Profile
) -> tuple[DnnGraph, str]:
    """Return the same for an exported program, which is asked for once the device is known to be there."""
    torch.set_num_threads(asked.threads)
    try:
        device = torch.device(asked.device)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")[:200]
        raise SourceError(f"PyTorch has no device {asked.device!r} here: {reason}.") from None
    program = program_of()
    trains = graph.is_training
    with busy_neighbours(program, device, asked.neighbours, threads=asked.threads, is_training=trains):
        timings = measure_program(
            program, device, warm_up=asked.warm_up, repetitions=asked.repetitions, is_training=trains
        )
    archive = io.BytesIO()
    torch.export.save(program, archive)
    archive.seek(0)
    weights = list(program.state_dict.values())
    precision = FORMATS.get(max(weights, key=lambda w: w.numel()).dtype, "") if weights else ""
    beside = f", {asked.neighbours} busy beside it" if asked.neighbours else ""
    measured_on = f"{_device_name(device)}{beside}, torch {torch.__version__}, median of {asked.repetitions} passes"
    origin = TimesOrigin(asked.accelerator, precision, kind=TimesKind.MEASURED, measured_on=measured_on)
    measured = with_measured_times(graph, read_program(archive), timings, into=asked.into, origin=origin)
    return measured, measured_on


def _device_name(device: torch.device) -> str:
    if device.type != "cpu":
        module = getattr(torch, device.type)
        return str(module.get_device_name(device)) if hasattr(module, "get_device_name") else device.type
    return processor(torch.get_num_threads())


def _program(model: str) -> torch.export.ExportedProgram:
    path = Path(model)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
                raise SourceError(f"{model[:80]!r} is no archive of torch.export; give one, or module:function.")
            file.seek(0)
            read_program(file)  # refuses in a sentence what is damaged, before torch reads it
        try:
            return torch.export.load(path)
        except Exception as error:  # torch says in many ways that an archive is of another version, or damaged
            reason = f"{type(error).__name__}: {str(error)[:200]}".replace("\n", " ").rstrip(".")
            raise SourceError(f"PyTorch {torch.__version__} cannot load {model[:80]!r}: {reason}.") from error
    module, colon, name = model.partition(":")
    if not colon:
        raise SourceError(f"{model[:80]!r} is no file and not module:function.")
    return _exported(_called(module, name), model)


def _called(module: str, name: str) -> Any:
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SourceError(f"There is no {module[:60]}:{name[:60]}: {str(error)[:200].rstrip('.')}.") from None
    finally:
        sys.path.pop(0)
    return function()


def _exported(returned: Any, model: str) -> torch.export.ExportedProgram:
    if not (isinstance(returned, tuple) and len(returned) in (2, 3) and isinstance(returned[0], torch.nn.Module)):
        raise SourceError(f"{model[:80]} returned no (model, args) or (model, args, kwargs); give such a function.")
    own, args, *kwargs = returned
    with torch.no_grad():
        return torch.export.export(own, tuple(args), *kwargs, strict=False)
