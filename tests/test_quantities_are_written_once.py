"""Numbers become words in `solvers.quantities` alone, and in its copy for the picture.

No other module has a format for numbers: in an f-string, for `format`, `%` or `str.format`, in a template of Plotly or
Vega, or by `round` within a text. The exceptions are exact too: what is not, or no longer, one fails.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.root import ROOT

WRITER = "solvers/quantities.py"

COORDINATES = "lengths of CSS and coordinates of SVG"
FOR_PROGRAMS = "a number that a program reads again: in an address, a file, a command or a name"
CLEANED = "a number without what binary fractions add to it, not a text"
INPUTS = "the format of a box, in which the user types the number: Streamlit takes no function"

EXCEPTIONS = {
    "explorer/elements/html_table.py": COORDINATES,
    "explorer/elements/load_bars.py": COORDINATES,
    "explorer/explore/needs.py": INPUTS,
    "explorer/exports/commands.py": FOR_PROGRAMS,
    "explorer/figures/svg.py": COORDINATES,
    "explorer/form/devices.py": f"{FOR_PROGRAMS}; {CLEANED}; {INPUTS}",
    "explorer/form/widget.py": f"{CLEANED}; {INPUTS}",
    "explorer/lessons/course/beat_the_solver.py": f"{FOR_PROGRAMS}, a CSV",
    "explorer/lessons/questions.py": INPUTS,
    "explorer/lessons/scene.py": COORDINATES,
    "explorer/sweep/address.py": FOR_PROGRAMS,
    "explorer/sweep/choice.py": CLEANED,
    "explorer/sweep/inputs.py": f"{FOR_PROGRAMS}; {INPUTS}",
    "explorer/sweep/prices.py": INPUTS,
    "explorer/sweep/what_to_buy.py": INPUTS,
    "explorer/elements/convergence.py": "ticks of Vega, which takes no function: as many digits as the writer has",
    "solvers/importers/cost_model.py": CLEANED,
    "solvers/parameters/codecs.py": FOR_PROGRAMS,
    "solvers/reproduction/tables.py": FOR_PROGRAMS,
    "solvers/sweep/axes.py": FOR_PROGRAMS,
    "solvers/sweep/ranges.py": FOR_PROGRAMS,
}

NUMERIC = re.compile(r"[-+ ]?#?0?\d*[,_]?(\.\d+)?[~]?[eEfFgGn%]|[-+ ]?\d*,d?|[-+ ]?0?\d*,?\.\d+")
"""Format specifications of numbers: with a type, with thousands apart, or with a precision."""

IN_TEMPLATES = re.compile(r"%[-+0]?\d*(\.\d+)?[efgEFG]|\{[\w.\[\]]*:[-+ ]?,?(\.\d+)?~?[efgEFG%]\}|:,\}")
"""The same within templates: of `%`, of `str.format` and of Plotly."""

JS_FORMATS = re.compile(r"\.(toFixed|toPrecision|toExponential|toLocaleString)\(|Intl\.NumberFormat")


def docstrings(tree: ast.Module) -> set[int]:
    """The nodes of constants that stand alone, which nobody formats."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def literal(node: ast.AST | None) -> str | None:
    """The text of a format specification, without what is put in; None where there is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
    return None


def formats(tree: ast.Module) -> Iterator[int]:
    """Yield the lines on which a module formats a number by itself."""
    passed = docstrings(tree)
    passed |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant)
    }
    for node in ast.walk(tree):
        spec: str | None = None
        if isinstance(node, ast.FormattedValue):
            spec = literal(node.format_spec)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "format":
            spec = literal(node.args[1]) if len(node.args) > 1 else None
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            if IN_TEMPLATES.search(node.value):
                yield node.lineno
            # Vega and pandas take a bare specification.
            spec = node.value if re.fullmatch(r",?\.\d+~?[efg%]", node.value) else None
        if spec is not None and NUMERIC.fullmatch(spec):
            yield node.lineno


def sources() -> dict[str, Path]:
    found = [path for tree in ("explorer", "solvers") for path in (ROOT / tree).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path for path in sorted(found)}


def test_only_the_writer_formats_numbers() -> None:
    found: dict[str, list[int]] = {}
    for name, path in sources().items():
        if name != WRITER:
            lines = sorted(set(formats(ast.parse(path.read_text(encoding="utf-8")))))
            if lines:
                found[name] = lines
    unlisted = {name: lines for name, lines in found.items() if name not in EXCEPTIONS}
    assert unlisted == {}, "write these numbers by solvers.quantities"
    assert sorted(EXCEPTIONS.keys() - found.keys()) == [], "these exceptions are no longer needed, so drop them"


def test_only_the_writer_of_the_picture_formats_numbers() -> None:
    folder = ROOT / "explorer"
    users = {path.name for path in folder.rglob("*.js") if JS_FORMATS.search(path.read_text(encoding="utf-8"))}
    assert users == {"quantities.js"}


def test_formats_are_found_however_they_are_written() -> None:
    """The rule can fail: each of these spellings is one."""
    spellings = (
        'f"{x:.3g} ms"', 'f"{x:,}"', 'f"{x:,.2f}"', 'f"{x:g}"', 'f"{x:+.1%}"', 'f"{x:.{digits}f}"', 'f"{x:7.2f}"',
        'f"{x:.2}"', 'format(x, ".3f")', '"%.2f s" % x', '"{:.3g}".format(x)', 't("%{x:.4g} ms")', 't(".5~g")',
    )  # fmt: skip
    for text in spellings:
        assert set(formats(ast.parse(f"y = {text}"))) == {1}, text
    for text in ('f"{x}"', 'f"{name:>10}"', 'f"{n:03d}"', 'f"{n:x}"', '"50 % of it"', '"a: b, c"'):
        assert not set(formats(ast.parse(f"y = {text}"))), text
