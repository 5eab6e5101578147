"""The paper's tables, run on its released workloads: which solves they take, and keeping what is done.

A cell is one method on one graph. Finished cells are written to a file under a key of everything their result depends
on, and not run again, so that a long run can be interrupted and resumed. A cell that was cut short by an interrupt, or
could not run because a program is missing, is not kept.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solvers.analysis.comparison import EXACT, Contender, Outcome, ask, refused
from solvers.formats.graph_json import read_graph, read_split
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError, PlacementError, SplitError
from solvers.model.graph import DnnGraph
from solvers.model.result import OnProgress, SolveStatus
from solvers.model.split import Family, Split, complete_split
from solvers.problem.solving import MethodError
from solvers.reproduction.files import Workload, corrected, find_workloads

VERSION = 1
PUBLISHED, CORRECTED = "as published", "corrected"

THROUGHPUT_QUESTIONS = (
    Contender(EXACT, Family.CHAIN),
    Contender(EXACT, Family.FREE),
    *(
        Contender(name, Family.FREE)
        for name in ("single", "expert", "local_search", "pipedream", "scotch", "linearised")
    ),
)
LATENCY_QUESTIONS = (
    Contender(EXACT, Family.FREE),
    *(Contender(name, Family.FREE) for name in ("greedy_latency", "max_load_latency", "expert")),
)


@dataclass(frozen=True)
class Cell:
    """One method on one workload in one system of units; the graph is in these units already."""

    workload: Workload
    units: str
    question: Contender
    graph: DnnGraph
    deployment: Deployment
    expert: Split | None
    time_limit_s: float

    @property
    def key(self) -> str:
        """Everything the result depends on, equal for equal cells however the files are named."""
        d = self.deployment
        expert = ""
        if self.question.method == "expert" and self.expert is not None:
            devices = [sorted(members) for members in self.expert.devices]
            expert = " split=" + hashlib.sha256(repr(devices).encode()).hexdigest()[:16]
        return (
            f"{self.graph.digest} k={d.num_accelerators} l={d.num_cpus} memory={d.memory_bytes} "
            f"{self.workload.objective} {self.question.method} {self.question.family} "
            f"limit={self.time_limit_s:g}{expert}"
        )


def plan(folder: Path, time_limit_s: float) -> tuple[Cell, ...]:
    """Return the cells of all tables for the workloads in a folder: as published, corrected, latency.

    Raises GraphError or SplitError for a folder without workloads or a file that cannot be read.
    """
    published: list[Cell] = []
    in_ms: list[Cell] = []
    latency: list[Cell] = []
    for workload in find_workloads(folder):
        with _naming(workload.graph):
            graph, deployment = read_graph(workload.graph)
        expert = None
        if workload.expert is not None:
            with _naming(workload.expert):
                expert = complete_split(graph, read_split(workload.expert))
        is_latency = workload.objective is Objective.LATENCY
        for units, table, in_units in (
            (PUBLISHED, latency if is_latency else published, graph),
            (CORRECTED, in_ms, None if is_latency else corrected(graph)),
        ):
            for question in LATENCY_QUESTIONS if is_latency else THROUGHPUT_QUESTIONS:
                if in_units is not None and (expert is not None or question.method != "expert"):
                    table.append(Cell(workload, units, question, in_units, deployment, expert, time_limit_s))
    return (*published, *in_ms, *latency)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say of which of the many files what is wrong."""
    try:
        yield
    except (GraphError, SplitError) as error:
        if str(path) in str(error):
            raise
        raise type(error)(f'"{path}": {error}') from None


def _finite(text: str) -> float:
    """Return the number in a text; ValueError for what JSON cannot hold, though Python's reader takes it."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


class ResultFile:
    """Outcomes by the key of their cell, in a JSON file that is rewritten after each."""

    def __init__(self, path: Path) -> None:
        """Read what is there; PlacementError if it is no file of results, or cannot be written."""
        self._path = path
        self._cells: dict[str, Any] = {}
        self._outcomes: dict[str, Outcome] = {}
        if path.exists():
            try:
                document = json.loads(path.read_text(encoding="utf-8"), parse_float=_finite, parse_constant=_finite)
                if document["version"] != VERSION:
                    raise KeyError
                self._cells = dict(document["cells"])
                self._outcomes = {key: Outcome.from_document(cell) for key, cell in self._cells.items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise PlacementError(
                    f'"{path}" is not a file of results of this version; name another one, or delete it.'
                ) from None
        self._write()

    def get(self, cell: Cell) -> Outcome | None:
        """Return what is known of a cell."""
        return self._outcomes.get(cell.key)

    def put(self, cell: Cell, outcome: Outcome) -> None:
        """Keep an outcome, on disk too."""
        self._outcomes[cell.key] = outcome
        self._cells[cell.key] = {
            "workload": cell.workload.name,
            "units": cell.units,
            "objective": str(cell.workload.objective),
            "asked": cell.question.label,
            **outcome.document(),
        }
        self._write()

    def _write(self) -> None:
        """Replace the file in one step, so that an interrupt leaves the old one or the new one."""
        temporary = self._path.with_name(self._path.name + ".part")
        try:
            text = json.dumps({"version": VERSION, "cells": self._cells}, indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8", newline="\n")
            os.replace(temporary, self._path)
        except OSError as error:
            raise PlacementError(f'"{self._path}" cannot be written: {error.strerror}.') from None


def run(
    cells: tuple[Cell, ...],
    results: ResultFile,
    *,
    table_bytes: int | None = None,
    on_progress: Callable[[Cell], OnProgress] | None = None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Cell, Outcome, bool]]:
    """Yield each cell with its outcome and whether it was known before; ends early once `is_interrupted()`.

    `table_bytes` is what the tables of the DP may take. `on_progress` is called with each cell that is about to run and
    returns what watches it.
    """
    for cell in cells:
        known = results.get(cell)
        if known is not None:
            yield cell, known, True
            continue
        if is_interrupted():
            return
        try:
            outcome, _ = ask(
                cell.graph,
                cell.deployment,
                cell.question,
                objective=cell.workload.objective,
                time_limit_s=cell.time_limit_s,
                table_bytes=table_bytes,
                start=cell.expert if cell.question.method == "expert" else None,
                on_progress=None if on_progress is None else on_progress(cell),
            )
        except MethodError as error:
            outcome = refused(cell.question, error)
        if is_interrupted() and outcome.status is not SolveStatus.OPTIMAL:
            return
        if outcome.status is not None:
            results.put(cell, outcome)
        yield cell, outcome, False
