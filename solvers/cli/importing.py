"""The command that brings in models of other programs: `placement import`."""

import argparse
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from solvers.cli.commands import add_command
from solvers.cli.hardware import CATALOGUE_HELP
from solvers.cli.input import stdin
from solvers.cli.options import add_parameter, reader
from solvers.cli.output import STREAM, output_path, print_json, print_text, say, tell, write_text
from solvers.formats.graph_json import graph_text
from solvers.formats.text_table import text_table
from solvers.hardware.catalogue import catalogue, read_catalogue
from solvers.importers.hugging_face.config import MODEL_TYPES
from solvers.importers.hugging_face.presets import presets
from solvers.importers.imported import Imported
from solvers.importers.sources import import_file, import_source
from solvers.importers.totals_text import totals_rows
from solvers.model.errors import SourceError
from solvers.parameters.hardware import ACCELERATORS, CPUS, HOST
from solvers.parameters.importing import DIM, MODEL, USUAL_HOST, devices_of, workload_of
from solvers.parameters.parameter import ModelWish, Parameter
from solvers.quantities import in_words


def add_import(commands: Any) -> None:
    """Add the command `import` to the commands of the parser."""
    parser = add_command(
        commands,
        "import",
        "make a graph of a model file, or of a published model by name",
        "import llama-3.1-8b --batch 2 --sequence 4096 --output llama.json",
        description="Reads a Hugging Face config.json, an ONNX file, an archive of torch.export (.pt2), a profile of "
        "PipeDream (graph.txt) or of Piper (JSON); which it is, its content tells. Known types of config.json: "
        f"{', '.join(MODEL_TYPES)}.",
    )
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="File, folder of a config.json, or name of --list")
    parser.add_argument("--list", action="store_true", help="List the published models that need no file")
    parser.add_argument("-o", "--output", type=output_path, metavar="GRAPH.json", help="Write the graph to a file")
    parser.add_argument("--json", action="store_true", help="Print totals and assumptions as JSON")

    for parameter in MODEL:
        usual = getattr(ModelWish(), parameter.name)
        if parameter is DIM:
            add_dim(parser, DIM.help)
        else:
            add_parameter(parser, parameter, default=usual, metavar=_words(parameter))
    add_parameter(parser, HOST, default=USUAL_HOST)
    parser.add_argument(
        "--accelerators",
        type=reader(ACCELERATORS),
        metavar="K",
        help="Number of accelerators; unless given 8, or as many times 8 as memory calls for",
    )
    parser.add_argument("--cpus", type=reader(CPUS), default=0, metavar="L", help="Number of CPUs (default: 0)")
    parser.add_argument("--catalogue", type=Path, metavar="FILE.json", help=CATALOGUE_HELP)
    parser.set_defaults(run=_import)


def add_dim(parser: argparse.ArgumentParser, about: str) -> None:
    """Add the option that gives sizes to dimensions which a file leaves open."""
    parser.add_argument(
        "--dim", type=_dimension, action="append", default=[], metavar="NAME=SIZE", help=f"{about} Repeatable."
    )


def whole(text: str) -> int:
    """Read a whole number of an option."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number") from None


def _words(parameter: Parameter[Any]) -> str:
    """Return the values of an option as its help has them, without the one for not giving it."""
    words = [parameter.codec.write(value) for value in parameter.codec.one_of if value is not None]
    return "{" + ",".join(words) + "}" if words else parameter.metavar


def _dimension(text: str) -> tuple[str, int]:
    """Return name and size of an open dimension."""
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
    values = {parameter.name: getattr(options, parameter.name) for parameter in MODEL}
    known = catalogue() if options.catalogue is None else read_catalogue(options.catalogue)
    devices = devices_of(values, known, options.host, options.accelerators, options.cpus)
    workload = workload_of({**values, DIM.name: tuple(options.dim)})
    if options.source == str(STREAM):
        with tempfile.TemporaryFile() as file:  # a model is read more than once, and may be large
            shutil.copyfileobj(stdin(), file)
            found = import_file(file, workload, devices, "stdin")
    else:
        found = import_source(options.source, workload, devices)
    if options.output is not None:
        write_text(options.output, graph_text(found.graph, found.deployment))
    answer = json.dumps(_document(found), indent=1, allow_nan=False) + "\n" if options.json else _text(found)
    if options.output == STREAM:
        tell(answer, end="")
    else:
        print_text(answer)
    if found.fewest_accelerators > found.deployment.num_accelerators:
        say(
            f"It takes the memory of {found.fewest_accelerators} or more such accelerators, and there are "
            f"{found.deployment.num_accelerators}; give --accelerators."
        )
    return 0


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
        (p.name, p.title, p.config["model_type"], in_words(p.published_parameters), p.config_source) for p in presets()
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
    graph = found.graph
    assumptions = "\n".join(f"- {sentence}" for sentence in found.assumptions)
    table = text_table(("per micro-batch", ""), totals_rows(found.totals, graph))
    return f"{graph.name}\n{found.source}\n\n{table}\n\nAssumed:\n{assumptions}\n"
