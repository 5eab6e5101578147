"""The command that brings in models of other programs: `placement import`."""

import argparse
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

from solvers.cli.options import member_of, reader
from solvers.cli.output import print_json, print_text, write_text
from solvers.formats.graph_json import graph_text
from solvers.formats.text_table import text_table
from solvers.hardware.catalogue import catalogue, read_catalogue
from solvers.hardware.devices import GB, CatalogueError
from solvers.importers.hugging_face.config import MODEL_TYPES
from solvers.importers.hugging_face.presets import presets
from solvers.importers.imported import Imported
from solvers.importers.sources import import_source
from solvers.importers.workload import USUAL_NODES, Devices, Level, Mode, NumberFormat, Tied, Workload
from solvers.model.errors import SourceError
from solvers.parameters.hardware import ACCELERATORS, CPUS

USUAL_ACCELERATOR, USUAL_HOST = "H100-SXM", "Xeon-8480"


def add_import(commands: Any) -> None:
    """Add the command `import` to the commands of the parser."""
    parser = commands.add_parser(
        "import",
        help="make a graph of a Hugging Face config.json, a torch.export archive, or a published model by name",
        description=f"Known types of config.json: {', '.join(MODEL_TYPES)}.",
    )
    parser.add_argument(
        "source", nargs="?", metavar="SOURCE", help="a config.json, its folder, a .pt2, or a name of --list"
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
    parser.add_argument(
        "--dim", action="append", type=_dim, default=[], metavar="NAME=N", help="a size that an archive leaves open"
    )
    parser.add_argument("--batch", type=whole, default=1, metavar="B", help="sequences or images of a micro-batch")
    parser.add_argument("--sequence", type=whole, metavar="T", help="tokens of a sequence (default: up to 2048)")
    parser.add_argument(
        "--context", type=whole, metavar="N", help="with decode: tokens in the cache (default: up to 2048)"
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
    parser.add_argument("--catalogue", type=Path, metavar="FILE.json", help="more devices, or other figures of these")
    parser.set_defaults(run=_import)


def whole(text: str) -> int:
    """Read a whole number of an option."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number") from None


def _dim(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not number or not name.isidentifier() or len(name) > 100:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not NAME=N, such as s0=8")
    return name, whole(number)


def _import(options: argparse.Namespace) -> int:
    if options.list:
        if options.source is not None:
            raise SourceError("--list lists all; leave the source out.")
        _print_list(options.json)
        return 0
    if options.source is None:
        raise SourceError("Give a config.json, its folder, a .pt2, or a name that `placement import --list` has.")
    workload = Workload(
        options.mode,
        options.level,
        options.batch,
        options.sequence,
        options.context,
        options.precision,
        options.tied,
        tuple(options.dim),
        options.nodes,
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
    return Devices(accelerator, known.link(link), known.host(options.host), options.accelerators, options.cpus)


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
        (p.name, p.title, p.config["model_type"], _counted(p.published_parameters), p.config_source) for p in presets()
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
    rows = [("parameters", f"{totals.parameters:,}")]
    if totals.active_parameters != totals.parameters:
        rows.append(("parameters that a token meets", f"{totals.active_parameters:,}"))
    rows.append(("flops forwards", _counted(totals.forward_flops)))
    if totals.backward_flops:
        rows.append(("flops backwards", _counted(totals.backward_flops)))
    kept = "activations kept" if totals.backward_flops else "cache"
    rows += [
        ("memory traffic", _bytes(totals.traffic_bytes)),
        ("weights", _bytes(totals.weight_bytes)),
        (kept, _bytes(totals.kept_bytes)),
        ("memory in all", _bytes(totals.memory_bytes)),
        ("largest operator's tensors", _bytes(totals.working_bytes)),
        ("nodes", f"{len(graph.nodes):,}"),
        ("edges", f"{len(graph.edges):,}"),
    ]
    assumptions = "\n".join(f"- {sentence}" for sentence in found.assumptions)
    return f"{graph.name}\n{found.source}\n\n{text_table(('per micro-batch', ''), rows)}\n\nAssumed:\n{assumptions}\n"


def _counted(value: float) -> str:
    """Write a large number in four digits, by thousands.

    >>> _counted(8.03e9), _counted(124439808), _counted(0.0)
    ('8.03 G', '124.4 M', '0')
    """
    for factor, letter in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= factor:
            return f"{value / factor:,.4g} {letter}"
    return f"{value:,.4g}"


def _bytes(value: float) -> str:
    return f"{value / GB:,.4g} GB"
