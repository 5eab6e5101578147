"""What the docs name is there, and what they count is so."""

import re
from pathlib import Path

import pytest

from solvers.cli.reference import command_line_text
from solvers.formats.graph_json import graph_document
from solvers.parameters.reference import reference_text
from solvers.samples import read_sample, sample_names
from tests.support.root import ROOT

PAGES = [ROOT / "README.md", ROOT / "sample_graphs" / "README.md", ROOT / "benchmarks" / "README.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def text_of(*parts: str) -> str:
    return ROOT.joinpath("docs", *parts).read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """Headings as the addresses that GitHub gives them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target
    for path in re.findall(r"`((?:solvers|explorer|tests|benchmarks)/[\w/]+(?:\.py|/))`", text):
        assert (ROOT / path).exists(), path


def test_every_page_can_be_reached_from_the_readme() -> None:
    linked: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in linked and page.suffix == ".md":
            linked.add(page)
            targets = re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8"))
            ahead += [(page.parent / target).resolve() for target in targets]
    assert set(PAGES) <= linked


def test_pages_of_the_parameters_and_of_the_command_line_are_current() -> None:
    assert text_of("reference", "inputs.md") == reference_text()
    assert text_of("reference", "command-line.md") == command_line_text()


def test_every_field_an_example_uses_is_documented() -> None:
    documents = [graph_document(*read_sample(name)) for name in sample_names()]
    fields = {key for document in documents for key in document}
    fields |= {key for document in documents for item in (*document["nodes"], *document["edges"]) for key in item}
    page = text_of("reference", "graph-format.md")
    assert {field for field in fields if not re.search(rf"`{field}(\[\])?`", page)} == set()


def test_counts_and_limits_are_those_of_the_code() -> None:
    from explorer.server.limits import MAX_UPLOAD_MB

    assert f"limited to {MAX_UPLOAD_MB} MB" in text_of("explanation", "limits.md")
    assert f"limited to {MAX_UPLOAD_MB} MB" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(sample_names()) == 17
    assert "seventeen graphs" in text_of("reference", "graph-format.md")


def test_keys_are_those_of_the_picture() -> None:
    """Every letter and sign that the picture's own list shows stands in the docs."""
    source = (ROOT / "explorer" / "canvas" / "app" / "keys.js").read_text(encoding="utf-8")
    shown = " ".join(re.findall(r'shown: "([^"]*)"', source))
    page = " ".join(re.findall(r"`([^`]*)`", text_of("reference", "keys-and-search.md").split("## Search")[0]))
    keys = set(re.findall(r"[\w+]+|[^\w\s]", shown)) - {"then", "arrows", ",", "–", "−", "+", ".", "?"}
    assert {key for key in keys if key not in page} == set()
