"""The command that says why a split is as fast as it is: `placement explain`."""

import argparse
from pathlib import Path
from typing import Any

from solvers.analysis.explanation import explain, explanation_document
from solvers.analysis.explanation_text import explanation_text, plain_text
from solvers.cli.input import split_at
from solvers.cli.options import add_device_options, add_model_options, add_parameter, read_question
from solvers.cli.output import print_json, print_text
from solvers.model.costs import Objective
from solvers.model.split import complete_split, family_of
from solvers.parameters.question import FAMILY, OBJECTIVE


def add_explain(commands: Any) -> None:
    """Add the command `explain` to the commands of the parser."""
    parser = commands.add_parser("explain", help="say what limits a split, and how far it may be from the best")
    parser.add_argument("graph", type=Path, metavar="GRAPH.json")
    parser.add_argument("split", type=Path, metavar="SPLIT.json")
    add_parameter(parser, OBJECTIVE, default=Objective.THROUGHPUT)
    add_parameter(parser, FAMILY, help_text="Splits it competes with (default: the narrowest family it belongs to)")
    add_device_options(parser)
    add_model_options(parser)
    parser.add_argument("--json", action="store_true", help="print the facts as JSON instead of sentences")
    parser.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    split = complete_split(graph, split_at(options.split))
    family = family_of(graph, split) if options.family is None else options.family
    explanation = explain(graph, deployment, split, objective=asked.objective, family=family)
    if options.json:
        print_json(explanation_document(explanation))
    else:
        print_text(plain_text(explanation_text(explanation, graph)))
    return 0
