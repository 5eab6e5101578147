"""The reproduced tables as text: values, ratios to the best free plan beside the paper's, and latencies.

A ratio is v / v*: the value of a method over that of the best valid plan of the exact methods, free splits. The paper
states arithmetic means and maxima over its workloads (Tarnawski et al., NeurIPS 2020, abstract and section 6); for
experts and PipeDream these are the layer graphs. Means here are over the workloads that are there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from solvers.analysis.comparison import EXACT, Contender, Outcome
from solvers.formats.text_table import text_table
from solvers.model.costs import Objective
from solvers.model.split import Family
from solvers.quantities import UNKNOWN, as_published, number, percent
from solvers.reproduction.tables import CORRECTED, LATENCY_QUESTIONS, PUBLISHED, THROUGHPUT_QUESTIONS, Cell

DIGITS_OF_VALUES = 6
"""Values stand beside published ones, from which they may differ in the fifth digit."""

CHAIN, FREE = Contender(EXACT, Family.CHAIN), Contender(EXACT, Family.FREE)

PAPER_MEAN_AND_MAX = {
    "expert": (1.46, 2.0),
    "local_search": (1.29, 2.08),
    "pipedream": (1.10, 1.21),
    "scotch": (1.50, 7.69),
}
"""How many times as fast the paper's non-contiguous splits are, on average and at most."""

LAYER_GRAPHS_ONLY = ("expert", "pipedream")
"""Methods whose mean in the paper is over layer graphs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One workload with the outcomes that are known."""

    name: str
    granularity: str
    outcomes: dict[Contender, Outcome]

    @property
    def best_ms(self) -> float | None:
        """The value of the best valid plan of the exact methods; None until free splits have been solved."""
        if FREE not in self.outcomes:
            return None
        exact = [outcome for question, outcome in self.outcomes.items() if question.is_exact and outcome.is_valid]
        return min((outcome.value_ms for outcome in exact if outcome.value_ms is not None), default=None)

    def ratio(self, question: Contender) -> float | None:
        """How many times as fast the best plan is; None where either is not known."""
        outcome, best = self.outcomes.get(question), self.best_ms
        if outcome is None or outcome.value_ms is None or best is None or best <= 0:
            return None
        return outcome.value_ms / best

    def counts(self, question: Contender) -> bool:
        """Whether the workload is among those the paper's mean for a method is over."""
        return self.granularity == "layer" or question.method not in LAYER_GRAPHS_ONLY


def rows_of(answers: Sequence[tuple[Cell, Outcome]], objective: Objective, units: str) -> list[Row]:
    """Return a row for each workload of a table, in the order of the cells."""
    rows: dict[str, Row] = {}
    for cell, outcome in answers:
        if cell.workload.objective is objective and cell.units == units:
            row = rows.setdefault(cell.workload.name, Row(cell.workload.name, cell.workload.granularity, {}))
            row.outcomes[cell.question] = outcome
    return list(rows.values())


def reproduction_text(answers: Sequence[tuple[Cell, Outcome]]) -> str:
    """Return all tables that have a row, with their titles and notes."""
    parts: list[str] = []
    for units, title in (
        (PUBLISHED, "Throughput, files as published"),
        (CORRECTED, "Throughput, transfers of the layer graphs in ms (published: 1000 times too cheap)"),
    ):
        rows = rows_of(answers, Objective.THROUGHPUT, units)
        if rows:
            parts += [f"{title}: time per sample in ms", _values(rows, THROUGHPUT_QUESTIONS)]
            parts += [
                "How many times as fast the best plan is",
                _ratios(rows, THROUGHPUT_QUESTIONS, PAPER_MEAN_AND_MAX),
            ]
    rows = rows_of(answers, Objective.LATENCY, PUBLISHED)
    if rows:
        parts += ["Latency of one sample in ms", _values(rows, LATENCY_QUESTIONS)]
        parts += ["How many times as fast the best plan is", _ratios(rows, LATENCY_QUESTIONS, {})]
    return "\n\n".join(parts) + "\n"


def _values(rows: list[Row], questions: Sequence[Contender]) -> str:
    """Return the values of all methods, the gap behind those of free splits."""
    behind = 1 + questions.index(FREE)
    header = [question.label for question in questions]
    header.insert(behind, "gap")
    notes: list[str] = []
    lines: list[tuple[str, ...]] = []
    for row in rows:
        cells = [_value(row, question, notes) for question in questions]
        cells.insert(behind, percent(row.outcomes[FREE].gap if FREE in row.outcomes else None))
        lines.append((row.name, *cells))
    return "\n".join((text_table(("", *header), lines), *notes))


def _value(row: Row, question: Contender, notes: list[str]) -> str:
    """Write one value; a note says why there is none, or what its plan breaks."""
    outcome = row.outcomes.get(question)
    if outcome is None:
        return UNKNOWN
    value = number(outcome.value_ms, DIGITS_OF_VALUES)
    reason = outcome.violations[0] if outcome.violations else "" if outcome.is_valid else outcome.message
    if not reason:
        return value
    # The same reason for many workloads, such as a program that is missing, is one note.
    where = "" if outcome.status is None else f"{row.name}, "
    note = f"{where}{question.label}: {reason}"
    texts = [text.partition("] ")[2] for text in notes]
    if note not in texts:
        texts.append(note)
        notes.append(f"[{len(texts)}] {note}")
    return f"{value} [{texts.index(note) + 1}]"


def _ratios(rows: list[Row], questions: Sequence[Contender], paper: Mapping[str, tuple[float, float]]) -> str:
    """Return the ratios of all methods but free splits, their mean and maximum, and the `paper`'s where there are."""
    questions = [question for question in questions if question != FREE]
    lines = [(row.name, *(_ratio(row, question) for question in questions)) for row in rows]
    counted = [
        [ratio for row in rows if row.counts(question) and (ratio := row.ratio(question)) is not None]
        for question in questions
    ]
    lines.append(("mean", *(as_published(fmean(ratios) if ratios else None) for ratios in counted)))
    lines.append(("max", *(as_published(max(ratios, default=None)) for ratios in counted)))
    lines.append(("workloads", *(str(len(ratios)) for ratios in counted)))
    if paper:
        published = [paper.get(question.method) for question in questions]
        lines.append(("paper: mean", *(as_published(pair and pair[0]) for pair in published)))
        lines.append(("paper: max", *(as_published(pair and pair[1]) for pair in published)))
    table = text_table(("", *(question.label for question in questions)), lines)
    explanations = (
        ("(", "In brackets: operator graphs, which the paper's mean for this method is not over."),
        ("!", "!: a plan that violates a constraint, see above."),
    )
    cells = "".join(cell for line in lines for cell in line[1:])
    return "\n".join((table, *(text for mark, text in explanations if mark in cells)))


def _ratio(row: Row, question: Contender) -> str:
    ratio = row.ratio(question)
    if ratio is None:
        return UNKNOWN
    text = f"{as_published(ratio)}{'!' if row.outcomes[question].violations else ''}"
    return text if row.counts(question) else f"({text})"
