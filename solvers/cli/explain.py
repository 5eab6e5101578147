"""The command that says why a split is as fast as it is: `placement explain`."""

import argparse
from typing import Any

from solvers.analysis.binding import SPLIT_TYPE, Price, binding_text, price, price_document, relaxations
from solvers.analysis.explanation import explain, explanation_document
from solvers.analysis.explanation_text import Paragraph, explanation_text, plain_text
from solvers.cli.commands import add_command, add_graph, add_split
from solvers.cli.input import split_at
from solvers.cli.options import add_device_options, add_model_options, add_parameter, read_question, table_bytes_of
from solvers.cli.output import print_json, print_text
from solvers.model.costs import Objective
from solvers.model.result import PROOF_TOLERANCE, SolveResult
from solvers.model.split import Family, Split, complete_split, family_of
from solvers.parameters.parameter import Asked
from solvers.parameters.question import DEFAULT_TIME_LIMIT_S, FAMILY, OBJECTIVE, SOLVER_MEMORY, TIME_LIMIT
from solvers.solve import solve

QUICK_BOUND = (
    "  This bound was found without solving the problem. With --constraints it is solved, and a better bound may be "
    "proven.\n"
)


def add_explain(commands: Any) -> None:
    """Add the command `explain` to the commands of the parser."""
    parser = add_command(
        commands,
        "explain",
        "say what limits a split, and how far it may be from the best",
        "explain gpt2.json plan.json --accelerators 4",
    )
    add_graph(parser)
    add_split(parser)
    add_parameter(parser, OBJECTIVE, default=Objective.THROUGHPUT)
    add_parameter(parser, FAMILY, help_text="Splits it competes with (default: the narrowest family it belongs to)")
    add_device_options(parser)
    add_model_options(parser)
    parser.add_argument("--json", action="store_true", help="Print the facts as JSON instead of sentences")
    parser.add_argument(
        "--constraints",
        action="store_true",
        help="Also solve the problem without one constraint at a time (memory, colocation, support, split type), and "
        "say what each costs",
    )
    add_parameter(parser, TIME_LIMIT, default=DEFAULT_TIME_LIMIT_S, help_text="Seconds for each solve of --constraints")
    add_parameter(parser, SOLVER_MEMORY)
    parser.set_defaults(run=_explain)


def _explain(options: argparse.Namespace) -> int:
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    split = complete_split(graph, split_at(options.split))
    family = family_of(graph, split) if options.family is None else options.family
    prices: tuple[Price, ...] = ()
    proven_ms = wider = None
    if options.constraints:
        base, prices, wider = _prices(asked, split, family, table_bytes_of(options))
        proven_ms = base.lower_bound_ms
    explanation = explain(
        graph, deployment, split, objective=asked.objective, family=family, lower_bound_ms=proven_ms, wider=wider
    )
    if options.json:
        constraints = {"constraints": list(map(price_document, prices))} if options.constraints else {}
        print_json({**explanation_document(explanation), **constraints})
        return 0
    print_text(plain_text(explanation_text(explanation, graph)))
    if options.constraints:
        print_text(plain_text((Paragraph("Which constraints limit the best plan", binding_text(prices)),)))
    elif not explanation.violations and (explanation.gap or 0.0) > PROOF_TOLERANCE:
        print_text(QUICK_BOUND)
    return 0


def _prices(
    asked: Asked, split: Split, family: Family, table_bytes: int | None
) -> tuple[SolveResult, tuple[Price, ...], SolveResult | None]:
    """Solve the problem as it is, and without each constraint that it has; a plan that is known starts each.

    The last is the answer for splits of every type, None where the split type is no constraint.
    """
    objective, limit_s = asked.objective, asked.time_limit_s
    base = solve(
        asked.graph,
        asked.deployment,
        objective=objective,
        family=family,
        time_limit_s=limit_s,
        start=split,
        table_bytes=table_bytes,
    )
    found, wider = [], None
    for change in relaxations(asked.graph, asked.deployment, objective, family):
        answer = solve(
            change.graph,
            change.deployment,
            objective=objective,
            family=change.family,
            time_limit_s=limit_s,
            start=base.split or split,
            table_bytes=table_bytes,
        )
        found.append(price(change, base, answer))
        if change.key == SPLIT_TYPE:
            wider = answer
    return base, tuple(found), wider
