"""The command that brings in models of other programs: `placement import`."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from solvers.cli.hardware import CATALOGUE_HELP
from solvers.cli.options import member_of, reader
from solvers.cli.output import print_json, print_text, write_text
from solvers.formats.graph_json import graph_text
from solvers.formats.text_table import text_table
from solvers.hardware.catalogue import catalogue, read_catalogue
from solvers.hardware.devices import CatalogueError
from solvers.importers.hugging_face.config import MODEL_TYPES
from solvers.importers.hugging_face.presets import presets
from solvers.importers.imported import Imported
from solvers.importers.sources import import_source
from solvers.importers.workload import USUAL_NODES, Devices, Level, Mode, NumberFormat, Tied, TimeUnit, Workload
from solvers.model.errors import SourceError
from solvers.parameters.hardware import ACCELERATORS, CPUS
from solvers.quantities import count, decimal_size, flops, milliseconds, number

T = TypeVar("T")
USUAL_ACCELERATOR, USUAL_HOST = "H100-SXM", "Xeon-8480"


def add_import(commands: Any) -> None:
    """Add the command `import` to the commands of the parser."""
    parser = commands.add_parser(
        "import",
        help="make a graph of a model file, or of a published model by name",
        description="Reads a Hugging Face config.json, an ONNX file, an archive of torch.export (.pt2), a profile of "
        "PipeDream (graph.txt) or of Piper (JSON); which it is, its content tells. Known types of config.json: "
        f"{', '.join(MODEL_TYPES)}.",
    )
    parser.add_argument(
        "source", nargs="?", metavar="SOURCE", help="a file, a config.json's folder, or a name of --list"
    )
    parser.add_argument("--list", action="store_true", help="list the published models that need no file")
    parser.add_argument("--output", type=Path, metavar="GRAPH.json", help="write the graph to a file")
    parser.add_argument("--json", action="store_true", help="print totals and assumptions as JSON")

    def choice(option: str, enum: type[StrEnum], usual: StrEnum | None, text: str) -> None:
        default = "" if usual is None else f" (default: {usual})"
        parser.add_argument(
            option, type=member_of(enum), metavar="{" + ",".join(enum) + "}", default=usual, help=text + default
        )

    choice("--mode", Mode, Mode.PREFILL, "read a prompt, generate one token, or train")
    choice("--level", Level, Level.LAYERS, "what a node is; auto: the finest level with at most --nodes nodes")
    parser.add_argument(
        "--nodes", type=whole, default=USUAL_NODES, metavar="N", help="with auto: nodes at most (default: %(default)s)"
    )
    parser.add_argument("--batch", type=whole, default=1, metavar="B", help="sequences or images of a micro-batch")
    parser.add_argument("--sequence", type=whole, metavar="T", help="tokens of a sequence (default: up to 2048)")
    parser.add_argument(
        "--context", type=whole, metavar="N", help="with decode: tokens in the cache (default: up to 2048)"
    )
    parser.add_argument(
        "--dim",
        type=_dimension,
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="size of a dimension that an ONNX file or an archive leaves open, such as batch=8; again for each",
    )
    parser.add_argument(
        "--time-unit", type=member_of(TimeUnit), metavar="{" + ",".join(TimeUnit) + "}", help="of a profile's times"
    )
    choice("--precision", NumberFormat, None, "how weights are stored (default: bf16 where the device computes in it)")
    choice("--tied", Tied, Tied.SHARE, "layers with one matrix share a device, or have a copy each")
    parser.add_argument(
        "--device",
        default=USUAL_ACCELERATOR,
        metavar="NAME",
        help="accelerators of the catalogue (default: %(default)s)",
    )
    parser.add_argument("--link", metavar="NAME", help="their link (default: the fastest they have)")
    parser.add_argument(
        "--host", default=USUAL_HOST, metavar="NAME", help="CPUs of the catalogue (default: %(default)s)"
    )
    parser.add_argument(
        "--accelerators", type=reader(ACCELERATORS), default=8, metavar="K", help="how many (default: %(default)s)"
    )
    parser.add_argument("--cpus", type=reader(CPUS), default=0, metavar="L", help="how many (default: none)")
    parser.add_argument("--catalogue", type=Path, metavar="FILE.json", help=CATALOGUE_HELP)
    parser.set_defaults(run=_import)


def whole(text: str) -> int:
    """Read a whole number of an option."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number") from None


def _dimension(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} names no size; give one, such as batch=8")
    return name, whole(size)


def _import(options: argparse.Namespace) -> int:
    if options.list:
        if options.source is not None:
            raise SourceError("--list lists all; leave the source out.")
        _print_list(options.json)
        return 0
    if options.source is None:
        raise SourceError("Give a file, the folder of a config.json, or a name that `placement import --list` has.")
    workload = Workload(
        options.mode,
        options.level,
        options.batch,
        options.sequence,
        options.context,
        options.precision,
        options.tied,
        tuple(options.dim),
        nodes=options.nodes,
        time_unit=options.time_unit,
    )
    found = import_source(options.source, workload, _devices(options))
    if options.output is not None:
        write_text(options.output, graph_text(found.graph, found.deployment))
    if options.json:
        print_json(_document(found))
    else:
        print_text(_text(found))
    if found.fewest_accelerators > found.deployment.num_accelerators:
        print(
            f"placement: it takes the memory of {found.fewest_accelerators} or more such accelerators, and there are "
            f"{found.deployment.num_accelerators}; give --accelerators.",
            file=sys.stderr,
        )
    return 0


def _devices(options: argparse.Namespace) -> Devices:
    known = catalogue() if options.catalogue is None else read_catalogue(options.catalogue)
    accelerator = known.accelerator(options.device)
    link = options.link or next(iter(accelerator.links), None)
    if link is None:
        raise CatalogueError(f"{accelerator.name} has no link in the catalogue; give --link, such as ethernet-100.")
    return Devices(
        accelerator,
        known.link(link),
        known.host(options.host),
        options.accelerators,
        options.cpus,
        is_usual_link=options.link is None,
    )


def _print_list(as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "name": p.name,
                    "title": p.title,
                    "model_type": p.config["model_type"],
                    "config_source": p.config_source,
                    "published_parameters": p.published_parameters,
                    "published_source": p.published_source,
                    "remark": p.remark,
                }
                for p in presets()
            ]
        )
        return
    rows = [
        (p.name, p.title, p.config["model_type"], number(p.published_parameters), p.config_source) for p in presets()
    ]
    left = max(len(row[4]) for row in rows)
    padded = [(*row[:4], row[4].ljust(left)) for row in rows]
    print_text(text_table(("name", "model", "type", "parameters", "config".ljust(left)), padded, left=3) + "\n")


def _document(found: Imported) -> dict[str, Any]:
    return {
        "source": found.source,
        "name": found.graph.name,
        "nodes": len(found.graph.nodes),
        "edges": len(found.graph.edges),
        "totals": asdict(found.totals),
        "fewest_accelerators": found.fewest_accelerators,
        "assumptions": list(found.assumptions),
    }


def _text(found: Imported) -> str:
    """Write totals and assumptions for people."""
    totals, graph = found.totals, found.graph
    rows: list[tuple[str, str]] = []

    def row(what: str, value: T | None, written: Callable[[T], str]) -> None:
        if value is not None:
            rows.append((what, written(value)))

    row("parameters", totals.parameters, count)
    if totals.active_parameters != totals.parameters:
        row("parameters that a token meets", totals.active_parameters, count)
    row("flops forwards", totals.forward_flops, flops)
    row("flops backwards", totals.backward_flops or None, flops)
    row("time forwards", totals.forward_ms, milliseconds)
    row("time backwards", totals.backward_ms, milliseconds)
    row("memory traffic", totals.traffic_bytes, decimal_size)
    row("weights", totals.weight_bytes, decimal_size)
    row("activations kept" if graph.is_training else "cache", totals.kept_bytes, decimal_size)
    row("memory in all", totals.memory_bytes, decimal_size)
    row("largest operator's tensors", totals.working_bytes, decimal_size)
    row("nodes", len(graph.nodes), count)
    row("edges", len(graph.edges), count)
    assumptions = "\n".join(f"- {sentence}" for sentence in found.assumptions)
    return f"{graph.name}\n{found.source}\n\n{text_table(('per micro-batch', ''), rows)}\n\nAssumed:\n{assumptions}\n"
