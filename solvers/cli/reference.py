"""The reference page of the command line, written from the parsers: `python -m solvers.cli.reference`."""

import argparse
import sys
from textwrap import dedent

from solvers.cli.main import command_parser

HEAD = """# Command line

Written by `python -m solvers.cli.reference > docs/reference/command-line.md` from what `placement COMMAND --help` says.
`placement` prints JSON or tables on stdout and messages on stderr. Exit codes: 0 solved, 2 bad input or an output that
cannot be written, 3 infeasible, 4 nothing found in time, 5 with `--strict` where a split violates a constraint. `-` for
a file means stdin or stdout, and what `solve` prints can be read as a split: `placement solve bert.json | placement
evaluate bert.json -`. Ctrl-C or SIGTERM ends a solve with its best plan. Limits and file fields of options:
[Inputs](inputs.md).
"""


def command_line_text() -> str:
    """Return the page as Markdown: a section for each command, with a table of its arguments."""
    (commands,) = (action for action in command_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return HEAD + "".join(_section(name, parser) for name, parser in commands.choices.items())


def _markdown(text: str) -> str:
    """Return the paragraphs of a help text; what stands indented there is code."""
    parts = text.split("\n\n")
    return "\n\n".join(f"```\n{dedent(part)}\n```" if part.startswith("  ") else part for part in parts)


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    lines = ["", f"## placement {name}"]
    for text in (parser.description, parser.epilog):
        lines += ["", _markdown(text)] if text else []
    lines += ["", "| Argument | Meaning |", "|---|---|"]
    lines += [_row(parser, action) for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    return "\n".join(lines) + "\n"


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = parser._get_formatter()
    value = formatter._format_args(action, action.dest.upper()) if action.nargs != 0 else ""
    argument = " ".join(filter(None, (", ".join(action.option_strings), value)))
    told = formatter._expand_help(action) if action.help else ""
    return "| `{}` | {} |".format(*(text.replace("|", "\\|") for text in (argument, told)))


if __name__ == "__main__":
    sys.stdout.write(command_line_text())
