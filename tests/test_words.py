"""The words that readers see are the field's: none that a review found to mislead, in the app, the help or the docs."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

INSTEAD = {
    r"\bdearest\b": "most expensive",
    r"\biso-?lines?\b": "contour lines",
    r"\bsplits allowed\b": "split type",
    r"\bsets? the pace\b": "is the bottleneck",
    r"\bperfect balance\b|\beven share\b": "ideal (balanced) load",
    r"\btaken for alike\b": "assumed identical",
    r"\bsync bandwidth\b": "all-reduce bandwidth",
    r"\bstate factor\b": "weight + optimizer-state multiplier",
    r"\bof another age\b": "a fragment on a different micro-batch",
    r"\btakes? turns at\b": "round-robin",
    r"\bmemory schedule\b": "in-flight activation memory",
    r"\bcontents diagram\b": "decision diagram",
    r"\bbreaks a rule\b|\bmended\b": "violates a constraint, repaired",
    r"\bseveral classes\b|\bdevice class(es)?\b": "heterogeneous, device type",
    r"\bsamples? per (second|money)\b|\bsamples/s\b": "micro-batches/s, or what a micro-batch holds",
    r"\bchain splits?\b|\bfree splits?\b|\bconvex splits?\b": "pipeline, non-contiguous, contiguous splits",
    r"\boptimiser\b": "optimizer",
    r"\b(nodes|node) (are|is) whole\b": "cannot be divided",
    r"\bcould not be used\b": "ignored, and what is allowed",
}
"""Patterns and what to write, from the review of all texts."""

ADDRESSED = ("explorer", "solvers")
"""Trees whose strings people read."""


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that may be shown: not docstrings, keys, patterns or names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(id(node.value))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
            and " " in node.value
        ):
            yield node.lineno, node.value


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Return every text that a reader may see, with its place."""
    return tuple(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for tree in ADDRESSED:
        for path in sorted((ROOT / tree).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            for line, text in strings(path):
                yield f"{name}:{line}", text
        for path in sorted((ROOT / tree).rglob("*.js")):
            for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                for shown in re.findall(r'"([^"\n]* [^"\n]*)"|`([^`\n]* [^`\n]*)`', text):
                    yield f"{path.relative_to(ROOT).as_posix()}:{line}", "".join(shown)
    for path in sorted((ROOT / "explorer" / "lessons" / "course").glob("*.json")):
        yield path.name, json.dumps(json.loads(path.read_text(encoding="utf-8")), ensure_ascii=False)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            yield f"{path.relative_to(ROOT).as_posix()}:{line}", re.sub(r"`[^`]*`", "", text)


@pytest.mark.parametrize("pattern", INSTEAD)
def test_no_reader_meets_a_word_that_misleads(pattern: str) -> None:
    found = [f"{place}: {text.strip()[:100]}" for place, text in texts() if re.search(pattern, text, re.IGNORECASE)]
    assert found == [], f"write {INSTEAD[pattern]}"
