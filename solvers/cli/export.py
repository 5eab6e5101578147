"""The command that takes a plan to a framework: `placement export`."""

import argparse
from typing import Any

from solvers.cli.commands import add_command, add_graph, add_split
from solvers.cli.input import split_at
from solvers.cli.options import add_device_options, add_parameter, member_of, read_question
from solvers.cli.output import STREAM, output_path, say, write_text
from solvers.exporters.frameworks import FORMATS, Framework, exported, expressible_graph, why_none_expressible
from solvers.exporters.module_names import ModelNames
from solvers.exporters.plan import planned
from solvers.model.split import check_split, complete_split
from solvers.parameters.schedule import MICRO_BATCHES, NUM_CHUNKS, SCHEDULE
from solvers.schedule.records import LOOPED_KINDS, ScheduleError


def add_export(commands: Any) -> None:
    """Add the command `export` to the commands of the parser."""
    formats = "\n".join(f"  {form.framework}: {form.reads}" for form in FORMATS.values())
    parser = add_command(
        commands,
        "export",
        "write a plan for a framework that runs it",
        "export gpt2.json plan.json --accelerators 4 --to megatron --micro-batches 8",
        description=f"{formats}\n\nWhat a framework cannot express is said on stderr.",
    )
    add_graph(parser)
    add_split(parser)
    parser.add_argument(
        "--to",
        type=member_of(Framework),
        required=True,
        metavar="{" + ",".join(Framework) + "}",
        help="Framework to write the plan for",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=output_path,
        default=STREAM,
        metavar="FILE",
        help="File to write the configuration to (default: stdout)",
    )
    parser.add_argument(
        "--modules",
        type=member_of(ModelNames),
        default=ModelNames.AUTOMATIC,
        metavar="{" + ",".join(ModelNames) + "}",
        help="Model of transformers whose module names to use; auto tells by the graph's name, or takes those of Llama "
        "(default: auto)",
    )
    add_parameter(parser, SCHEDULE, help_text=f"{SCHEDULE.help} 1f1b in training unless said.")
    add_parameter(parser, MICRO_BATCHES, help_text="Number of micro-batches of a step; 1 unless said.")
    add_parameter(parser, NUM_CHUNKS, help_text=f"{NUM_CHUNKS.help} For interleaved and zb-v; 2 unless said.")
    add_device_options(parser)
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    if options.chunks is not None and options.schedule not in LOOPED_KINDS:
        raise ScheduleError(f"{NUM_CHUNKS.flag} is for the schedules {' and '.join(LOOPED_KINDS)}; leave it out.")
    asked = read_question(options)
    split = complete_split(asked.graph, split_at(options.split))
    say(*(violation.message for violation in check_split(asked.graph, asked.deployment, split)))
    plan = planned(
        asked.graph,
        asked.deployment,
        split.on(asked.deployment),
        options.schedule,
        options.micro_batches or 1,
        asked.chunks,
        None if why_none_expressible(asked.graph, options.to) else expressible_graph(asked.graph, options.to),
    )
    written = exported(plan, options.to, options.modules)
    if plan.looped is not None and plan.looped.note:
        say(plan.looped.note)
    say(*written.notes)
    write_text(options.output, written.text)
    return 0
