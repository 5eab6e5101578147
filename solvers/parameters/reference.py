"""The reference page of all inputs, written from the table: see `HEAD` for how."""

import sys

from solvers.parameters.asked import TABLE
from solvers.parameters.parameter import Parameter, Range

HEAD = """# Inputs

Every input of a question: its option on the command line, its key in addresses and project files, and its field in a
graph's file. This page is written from the table in `solvers/parameters` by
`python -m solvers.parameters.reference > docs/reference/inputs.md`.

"""


def reference_text() -> str:
    """Return the page as Markdown."""
    return HEAD + "\n".join(_section(parameter) for parameter in TABLE)


def _section(parameter: Parameter[object]) -> str:
    where = [
        f"option `{parameter.flag}`" if parameter.flag else "",
        f"address `{parameter.address}`",
        f"graph file `{parameter.json}`" if parameter.json else "",
        f"sweep axis `{parameter.axis.name}`" if parameter.axis else "",
    ]
    lines = [f"## {parameter.label}", "", ", ".join(filter(None, where)) + ".", "", parameter.help]
    codec = parameter.codec
    if codec.one_of:
        lines += ["", f"Values: {', '.join(f'`{codec.write(value)}`' for value in codec.one_of)}."]
    elif isinstance(parameter.limits, tuple):
        lines += ["", f"Values: {', '.join(f'`{value}`' for value in parameter.limits)}."]
    elif isinstance(parameter.limits, Range):
        unit = f" {parameter.unit}" if parameter.unit not in ("", "%") else ""
        beside = "; `none` for none" if codec.is_optional else ""
        lines += ["", f"{parameter.wanted[0].upper()}{parameter.wanted[1:]}{unit}{beside}."]
    if parameter.flag_codec is not None and parameter.unit == "%":
        lines += ["", "A share on the command line, percent in addresses and forms."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference_text())
