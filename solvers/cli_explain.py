"""The command that says why a split is as fast as it is: `placement explain`."""

import argparse
from pathlib import Path
from typing import Any

from solvers.cli_options import add_device_options, add_model_options, names_of, one_of, read_problem, with_model
from solvers.cli_output import print_json, print_text
from solvers.costs import Objective
from solvers.explanation import explain, explanation_document
from solvers.explanation_text import explanation_text, plain_text
from solvers.graph_json import read_split
from solvers.split import Family, complete_split, family_of


def add_explain(commands: Any) -> None:
    """Add the command `explain` to the commands of the parser."""
    parser = commands.add_parser("explain", help="say what limits a split, and how far it may be from the best")
    parser.add_argument("graph", type=Path, metavar="GRAPH.json")
    parser.add_argument("split", type=Path, metavar="SPLIT.json")
    parser.add_argument(
        "--objective", type=one_of(Objective), metavar=names_of(Objective), default=Objective.THROUGHPUT
    )
    parser.add_argument(
        "--family",
        type=one_of(Family),
        metavar=names_of(Family),
        help="the splits it competes with (default: the narrowest family it belongs to)",
    )
    add_device_options(parser)
    add_model_options(parser)
    parser.add_argument("--json", action="store_true", help="print the facts as JSON instead of sentences")
    parser.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    graph, deployment = with_model(options, *read_problem(options))
    split = complete_split(graph, read_split(options.split))
    family = family_of(graph, split) if options.family is None else options.family
    explanation = explain(graph, deployment, split, objective=options.objective, family=family)
    if options.json:
        print_json(explanation_document(explanation))
    else:
        print_text(plain_text(explanation_text(explanation, graph)))
    return 0
