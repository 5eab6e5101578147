"""The command that measures a model's operators here: `placement profile`.

It runs the model, and needs PyTorch, or ONNX Runtime for an ONNX file.
"""

import argparse
import importlib.util
import json
from pathlib import Path
from typing import Any

from solvers.cli.commands import add_command, add_graph
from solvers.cli.importing import add_dim, whole
from solvers.cli.input import graph_at
from solvers.cli.output import STREAM, output_path, print_json, tell, write_text
from solvers.formats.graph_json import graph_text
from solvers.hardware.catalogue import catalogue
from solvers.importers.sources import kind_of_file
from solvers.importers.workload import SourceKind, Workload
from solvers.model.errors import SourceError
from solvers.model.graph import DnnGraph
from solvers.parameters.importing import devices_of
from solvers.quantities import count

MOST_REPETITIONS, MOST_THREADS, MOST_NEIGHBOURS = 10_000, 1_024, 64


def add_profile(commands: Any) -> None:
    """Add the command `profile` to the commands of the parser."""
    parser = add_command(
        commands,
        "profile",
        "measure the operators of a model on this machine, and write their times into its graph (needs PyTorch, or "
        "ONNX Runtime for an ONNX file)",
        "profile model.json model.pt2 --output measured.json",
        description="Runs the model, which has to be trusted: torch unpickles parts of a .pt2, and a function is run.",
    )
    add_graph(parser, "Graph that `placement import` made of this model")
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="File .pt2 or .onnx, or module:function that returns (model, args) or (model, args, kwargs); it is run",
    )
    parser.add_argument(
        "-o", "--output", type=output_path, required=True, metavar="MEASURED.json", help="File to write the graph to"
    )
    parser.add_argument(
        "--on", default="cpu", metavar="DEVICE", help="Device of PyTorch, such as cuda:0 (default: %(default)s)"
    )
    parser.add_argument(
        "--threads", type=whole, default=1, metavar="N", help="Threads of the CPU (default: %(default)s)"
    )
    parser.add_argument(
        "--repetitions",
        type=whole,
        default=20,
        metavar="N",
        help="Number of passes through the model (default: %(default)s)",
    )
    parser.add_argument(
        "--warm-up",
        type=whole,
        default=3,
        metavar="N",
        help="Passes before those that are measured (default: %(default)s)",
    )
    parser.add_argument(
        "--neighbours",
        type=whole,
        default=0,
        metavar="N",
        help="Number of processes that run the same model meanwhile, as other stages will (default: %(default)s)",
    )
    parser.add_argument(
        "--into",
        default="accelerator",
        metavar="{accelerator,cpu,TYPE}",
        help="Times to set: those on accelerators, on CPUs, or on a device type (default: %(default)s)",
    )
    add_dim(parser, "Size of a dimension that an ONNX file leaves open, as its graph was imported with.")
    parser.add_argument(
        "--batch", type=whole, default=1, metavar="N", help="Size of an ONNX file's open batch (default: %(default)s)"
    )
    parser.add_argument("--device", default="", metavar="NAME", help="Name of the device in the catalogue")
    parser.add_argument(
        "--link",
        action="store_true",
        help="Measure two processes of this machine, and set transfers to their bandwidth",
    )
    parser.set_defaults(run=_profile)


def _profile(options: argparse.Namespace) -> int:
    for option, value, least, most in (
        ("--threads", options.threads, 1, MOST_THREADS),
        ("--repetitions", options.repetitions, 2, MOST_REPETITIONS),
        ("--warm-up", options.warm_up, 0, MOST_REPETITIONS),
        ("--neighbours", options.neighbours, 0, MOST_NEIGHBOURS),
    ):
        if not least <= value <= most:
            raise SourceError(f"{option} is {value}; give a whole number from {least} to {count(most)}.")
    graph, deployment = graph_at(options.graph)
    if options.device:
        catalogue().accelerator(options.device)  # there is one, or it is said that there is none
    path = Path(options.model)
    is_onnx = path.is_file() and kind_of_file(path) is SourceKind.ONNX
    measured, measured_on = (_by_onnx_runtime if is_onnx else _by_torch)(graph, options)
    document: dict[str, Any] = {
        "measuredOn": measured_on,
        "nodes": len(measured.nodes),
        "times_ms": {
            "accelerator": sum(node.accelerator_ms for node in measured.nodes),
            "cpu": sum(node.cpu_ms for node in measured.nodes),
        },
        "spread_ms": sum(node.spread_ms or 0.0 for node in measured.nodes),
    }
    if options.link:
        _need("torch", "placement profile --link needs PyTorch", "profile")
        from solvers.torch_models.link import measure_link

        link = measure_link(options.warm_up, options.repetitions)
        measured = measured.with_bandwidth(link.bandwidth_bytes_per_ms)
        document["link"] = {"latency_ms": link.latency_ms, "bandwidth_bytes_per_ms": link.bandwidth_bytes_per_ms}
    write_text(options.output, graph_text(measured, deployment))
    if options.output == STREAM:
        tell(json.dumps(document, indent=1, allow_nan=False))
    else:
        print_json(document)
    return 0


def _by_torch(graph: DnnGraph, options: argparse.Namespace) -> tuple[DnnGraph, str]:
    if options.dim or options.batch != 1:
        raise SourceError(
            "--dim and --batch are of ONNX files; the shapes here are those of the example: leave them out."
        )
    _need("torch", "placement profile needs PyTorch", "profile")
    from solvers.torch_models.profile import Profile, profile_model

    asked = Profile(
        options.on,
        options.threads,
        options.warm_up,
        options.repetitions,
        options.into,
        options.device,
        options.neighbours,
    )
    return profile_model(graph, options.model, asked)


def _by_onnx_runtime(graph: DnnGraph, options: argparse.Namespace) -> tuple[DnnGraph, str]:
    if options.on != "cpu" or options.neighbours:
        raise SourceError("--on and --neighbours are of PyTorch; ONNX files are measured on the CPU: leave them out.")
    _need("onnx", "placement profile needs the package onnx for an ONNX file", "onnx")
    _need("onnxruntime", "placement profile needs ONNX Runtime for an ONNX file", "profile-onnx")
    from solvers.onnx_models.profile import RuntimeProfile, profile_file

    asked = RuntimeProfile(
        Workload(batch=options.batch, dims=tuple(options.dim)),
        options.threads,
        options.warm_up,
        options.repetitions,
        options.into,
        options.device,
    )
    return profile_file(graph, Path(options.model), devices_of({}, catalogue()), asked)


def _need(package: str, told: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise SourceError(f"{told}; install it, or this package's extra '{extra}'.")
