"""Import an archive of `torch.export`: its graph is read, never its weights, and nothing in it is run."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from solvers.importers.imported import Imported, imported
from solvers.importers.layers import blocks, depths
from solvers.importers.torch_export.archive import read_program
from solvers.importers.torch_export.program import parse_program
from solvers.importers.torch_export.translate import translate
from solvers.importers.workload import Devices, Mode, Workload
from solvers.model.errors import SourceError
from solvers.quantities import count, counted, listed


def import_archive(file: BinaryIO, workload: Workload, devices: Devices, source: str, title: str) -> Imported:
    """Return the graph of the program in an archive (`.pt2`); SourceError, in one sentence, where it cannot be.

    `file` is open for reading at its start; `source` and `title` are names for people: where the archive is from, and
    what the model is called. Shapes are those of the archive, so that a workload's batch and tokens say nothing.
    """
    return import_program(read_program(file), workload, devices, source, title)


def import_program(
    document: Mapping[str, Any], workload: Workload, devices: Devices, source: str, title: str
) -> Imported:
    """Return the same of the JSON object in an archive."""
    _check(workload)
    program = parse_program(document, dict(workload.dims))
    element_bytes = devices.number_format(workload.number_format).element_bytes
    found = translate(program, f"{title}, {workload.mode}", element_bytes, workload.tied)
    said = [
        f"Shapes are those of the archive, written by PyTorch {program.torch_version or 'of an unknown version'}; most "
        f"of its weights are {found.base_format}, and formats are converted as --precision says."
    ]
    if program.symbols:
        sizes = ", ".join(f"{name} = {'unknown' if n is None else n}" for name, n in sorted(program.symbols.items()))
        said.append(f"Open sizes are taken to be {sizes}; --dim NAME=N gives others.")
    if found.unknown:
        said.append(f"Not known, so they cost the bytes they read and write: {listed(list(found.unknown), 20)}.")
    if found.loops:
        said.append(
            f"Operators of subgraphs are one node each ({listed(list(found.loops))}): the branch with more flops, one "
            "turn of a while loop, all steps of a scan."
        )
    if found.num_constants:
        said.append(
            "What depends on no input and no parameter, such as positions and masks, is computed once, and each module "
            f"that reads it holds a copy: the results of {count(found.num_constants)} operators."
        )
    if found.unused_parameters:
        said.append(
            f"Inputs of {count(found.unused_parameters)} parameters are read by no operator, such as a tied matrix "
            "under its other name; they are left out."
        )
    if workload.mode is Mode.TRAINING:
        said.append("The backward pass starts at all outputs of the archive; a loss counts where it is in the model.")
    network = replace(found.network, unit="samples")
    said.append(
        f"A micro-batch is taken to hold {counted(network.micro_batch, 'sample')}, the first size of the inputs."
    )
    candidates = depths(found.modules)
    return imported(network.with_layers(blocks(found.modules)), workload, devices, source, tuple(said), candidates)


def _check(workload: Workload) -> None:
    if workload.mode is Mode.DECODE:
        raise SourceError(
            "An archive holds the one pass that was exported: export a step with its cache, and give --mode prefill."
        )
    for option, value, usual in (
        ("--batch", workload.batch, 1),
        ("--sequence", workload.sequence, None),
        ("--context", workload.context, None),
    ):
        if value != usual:
            raise SourceError(
                f"{option} says nothing here: an archive has the shapes it was exported with; give --dim NAME=N for "
                "those it leaves open."
            )
