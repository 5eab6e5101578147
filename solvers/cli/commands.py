"""How every command of the command line is declared: what it does, an example that runs, exit codes, its files."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solvers.cli.output import BAD_INPUT, EXIT_CODES, VIOLATED
from solvers.model.result import SolveStatus

MEANINGS = {
    0: "done",
    BAD_INPUT: "bad input, or an output that cannot be written",
    EXIT_CODES[SolveStatus.INFEASIBLE]: "infeasible",
    EXIT_CODES[SolveStatus.UNKNOWN]: "nothing found in time",
    VIOLATED: "with --strict, the split violates a constraint or a memory overflows",
}
"""What each exit code says."""

SOLVING = (0, BAD_INPUT, *(EXIT_CODES[status] for status in (SolveStatus.INFEASIBLE, SolveStatus.UNKNOWN)))
CHECKING = (0, BAD_INPUT, VIOLATED)
OTHERS = (0, BAD_INPUT)


class _Paragraphs(argparse.HelpFormatter):
    """Wraps each paragraph by itself, and leaves indented ones as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            part if part.startswith("  ") else super(_Paragraphs, self)._fill_text(part, width, indent)
            for part in text.split("\n\n")
        )


def add_command(
    commands: Any, name: str, what: str, example: str, codes: Sequence[int] = OTHERS, *, description: str = ""
) -> argparse.ArgumentParser:
    """Add a command: what it does, in words that begin with a verb, and an example of its use, as one would type it.

    Examples of all commands are one story: each reads files that those of `samples`, `solve` and `import` write.
    """
    told = "; ".join(f"{code} {MEANINGS[code]}" for code in codes)
    sentence = f"{what[:1].upper()}{what[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{sentence}\n\n{description}" if description else sentence,
        epilog=f"Example:\n\n  placement {example}\n\nExit codes: {told}.",
        formatter_class=_Paragraphs,
    )
    return parser


def as_help(told: str, default: str = "") -> str:
    """Return the words on a parameter as help has them: a full stop only after several sentences, or its default."""
    if default:
        return f"{told.removesuffix('.')} (default: {default})"
    return told if ". " in told else told.removesuffix(".")


def add_graph(parser: Any, told: str = "Graph of the network; `-` reads it from stdin") -> None:
    """Add the file of the graph."""
    parser.add_argument("graph", type=Path, metavar="GRAPH.json", help=told)


def add_split(parser: Any) -> None:
    """Add the file of a split."""
    parser.add_argument(
        "split", type=Path, metavar="SPLIT.json", help="Split of its nodes, or what `solve` prints; `-` reads stdin"
    )
