"""The commands that run many methods and print tables: `placement compare` and `placement reproduce`."""

import argparse
from pathlib import Path
from typing import Any

from solvers.analysis.comparison import Contender, Outcome, best_value_ms, compare, gain, questions
from solvers.cli.commands import SOLVING, add_command, add_graph
from solvers.cli.input import split_at
from solvers.cli.options import (
    add_device_options,
    add_model_options,
    add_parameter,
    read_question,
    table_bytes_of,
)
from solvers.cli.output import BAD_INPUT, EXIT_CODES, first_interrupt, output_file, print_json, print_text, say, tell
from solvers.cli.watching import watcher
from solvers.exporters.frameworks import FORMATS
from solvers.formats.text_table import text_table
from solvers.model.costs import Objective
from solvers.model.result import OnProgress, SolveStatus
from solvers.model.split import Family
from solvers.parameters.question import DEFAULT_TIME_LIMIT_S, FAMILY, OBJECTIVE, SOLVER_MEMORY, TIME_LIMIT
from solvers.quantities import UNKNOWN, above_bound, factor, milliseconds, number, proven_distance, seconds
from solvers.reproduction.tables import PUBLISHED, Cell, ResultFile, plan, run
from solvers.reproduction.text import reproduction_text


def add_compare(commands: Any) -> None:
    """Add the command `compare` to the commands of the parser."""
    parser = add_command(
        commands,
        "compare",
        "run every method that applies on one graph",
        "compare gpt2.json --accelerators 4 --family chain --time-limit 5",
        SOLVING,
    )
    add_graph(parser)
    add_parameter(parser, OBJECTIVE, default=Objective.THROUGHPUT)
    add_parameter(parser, FAMILY, help_text="Splits to find the best of (default: the best of each family)")
    parser.add_argument("--expert", type=Path, metavar="SPLIT.json", help="Split made by hand, to compare with")
    add_device_options(parser)
    add_model_options(parser)
    add_parameter(parser, TIME_LIMIT, default=DEFAULT_TIME_LIMIT_S, help_text="Seconds for each method")
    add_parameter(parser, SOLVER_MEMORY)
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    expert = None if options.expert is None else split_at(options.expert)
    families = tuple(Family) if options.family is None else (options.family,)
    if asked.expressible_in is not None and FORMATS[asked.expressible_in].is_pipeline:
        families = (Family.CHAIN,)
        say(f"{FORMATS[asked.expressible_in].title} runs pipelines, and the plans of other methods may be none.")
    answers: list[tuple[Contender, Outcome]] = []
    with first_interrupt() as is_interrupted:

        def watch(question: Contender) -> OnProgress:
            tell(f"{question.label} ...")
            return watcher(is_interrupted)

        for answer in compare(
            graph,
            deployment,
            objective=asked.objective,
            families=families,
            expert=expert,
            time_limit_s=asked.time_limit_s,
            table_bytes=table_bytes_of(options),
            on_progress=watch,
            is_interrupted=is_interrupted,
        ):
            answers.append(answer)
            tell(f"  {outcome_text(answer[1])}")
        complete = not is_interrupted()
    best_ms = best_value_ms(answers)
    if options.json:
        print_json(
            {
                "objective": str(options.objective),
                "best_ms": best_ms,
                "complete": complete,
                "methods": [{**outcome.document(), "gain": gain(outcome, best_ms)} for _, outcome in answers],
            }
        )
    else:
        print_text(comparison_text(answers, best_ms))
    if not complete:
        say("interrupted; these are the methods that ran.")
    if best_ms is not None:
        return EXIT_CODES[SolveStatus.OPTIMAL]
    widest = [question for question in questions(asked.objective, families, with_expert=False) if question.is_exact][-1]
    is_infeasible = any(outcome.status is SolveStatus.INFEASIBLE for question, outcome in answers if question == widest)
    return EXIT_CODES[SolveStatus.INFEASIBLE if is_infeasible else SolveStatus.UNKNOWN]


def outcome_text(outcome: Outcome) -> str:
    """Say in one line what a method answered."""
    if outcome.value_ms is None:
        return outcome.message
    marks = f", but violates a constraint: {outcome.violations[0]}" if outcome.violations else f", {outcome.status}"
    is_open = outcome.gap is not None and outcome.status is not SolveStatus.OPTIMAL
    distance = f", {proven_distance(outcome.value_ms, outcome.lower_bound_ms)}" if is_open else ""
    return f"{milliseconds(outcome.value_ms)}{distance}, {seconds(outcome.runtime_s)}{marks}"


def comparison_text(answers: list[tuple[Contender, Outcome]], best_ms: float | None) -> str:
    """Return the table of a comparison with its notes."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for question, outcome in answers:
        mark = ""
        if outcome.violations or outcome.status is None or outcome.value_ms is None:
            why = outcome.violations[0] if outcome.violations else outcome.message
            notes.append(f"[{len(notes) + 1}] {question.label}: {why}")
            mark = f" [{len(notes)}]"
        ratio = gain(outcome, best_ms)
        memory = outcome.largest_memory_bytes
        rows.append(
            (
                question.label + mark,
                UNKNOWN if outcome.value_ms is None else str(outcome.family),
                number(outcome.value_ms),
                number(outcome.lower_bound_ms),
                UNKNOWN if outcome.gap is None else above_bound(outcome.value_ms, outcome.lower_bound_ms),
                "violates a constraint" if outcome.violations else str(outcome.status or "not run"),
                number(outcome.runtime_s, 3),
                number(None if memory is None else memory / 2**30),
                factor(ratio),
            )
        )
    header = ("method", "splits", "value ms", "bound ms", "above bound", "status", "s", "GiB", "best is")
    table = text_table(header, rows, left=2)
    explanation = (
        "GiB: memory of the accelerator that holds most. best is: how many times as fast the best proven plan is."
    )
    return "\n".join((table, "", explanation, *notes)) + "\n"


def add_reproduce(commands: Any) -> None:
    """Add the command `reproduce` to the commands of the parser."""
    parser = add_command(
        commands,
        "reproduce",
        "run the paper's tables on the files of its release",
        "reproduce release/ --output reproduction.json --time-limit 60",
        (0, BAD_INPUT, EXIT_CODES[SolveStatus.UNKNOWN]),
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="Folder where the release's files are")
    parser.add_argument(
        "-o",
        "--output",
        type=output_file,
        default=Path("reproduction.json"),
        metavar="RESULTS.json",
        help="File of results; what is in it is not run again (default: %(default)s)",
    )
    add_parameter(
        parser, TIME_LIMIT, default=DEFAULT_TIME_LIMIT_S, help_text="Seconds for each method on each workload"
    )
    add_parameter(parser, SOLVER_MEMORY)
    parser.set_defaults(run=_reproduce)


def _reproduce(options: argparse.Namespace) -> int:
    cells = plan(options.folder, options.time_limit)
    results = ResultFile(options.output)
    answers: list[tuple[Cell, Outcome]] = []
    with first_interrupt() as is_interrupted:

        def watch(cell: Cell) -> OnProgress:
            units = "" if cell.units == PUBLISHED else f", {cell.units}"
            label = f"{cell.workload.name}, {cell.workload.objective}{units}, {cell.question.label}"
            tell(f"[{len(answers) + 1}/{len(cells)}] {label} ...")
            return watcher(is_interrupted)

        num_known = 0
        for cell, outcome, was_known in run(
            cells,
            results,
            table_bytes=table_bytes_of(options),
            on_progress=watch,
            is_interrupted=is_interrupted,
        ):
            answers.append((cell, outcome))
            num_known += was_known
            if not was_known:
                tell(f"  {outcome_text(outcome)}")
    print_text(reproduction_text(answers))
    if num_known:
        say(f"{num_known} of {len(cells)} results come from {options.output}.")
    if len(answers) == len(cells):
        return EXIT_CODES[SolveStatus.OPTIMAL]
    say(f"interrupted after {len(answers)} of {len(cells)} results; the same command goes on from there.")
    return EXIT_CODES[SolveStatus.UNKNOWN]
