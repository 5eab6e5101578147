"""Totals of an import as rows for people."""

from collections.abc import Callable
from typing import TypeVar

from solvers.importers.imported import Totals
from solvers.model.graph import DnnGraph
from solvers.quantities import count, count_in_words, decimal_size, flops, milliseconds

T = TypeVar("T")


def totals_rows(totals: Totals, graph: DnnGraph) -> list[tuple[str, str]]:
    """Return the totals of a graph, each with its name and unit; those that its source does not tell are left out."""
    rows: list[tuple[str, str]] = []

    def row(what: str, value: T | None, written: Callable[[T], str]) -> None:
        if value is not None:
            rows.append((what, written(value)))

    row("parameters", totals.parameters, count_in_words)
    if totals.active_parameters != totals.parameters:
        row("parameters that a token meets", totals.active_parameters, count_in_words)
    row("flops forwards", totals.forward_flops, flops)
    row("flops backwards", totals.backward_flops or None, flops)
    row("time forwards", totals.forward_ms, milliseconds)
    row("time backwards", totals.backward_ms, milliseconds)
    row("memory traffic", totals.traffic_bytes, decimal_size)
    row("weights", totals.weight_bytes, decimal_size)
    row("activations kept" if graph.is_training else "cache", totals.kept_bytes, decimal_size)
    row("memory in all", totals.memory_bytes, decimal_size)
    row("largest operator's tensors", totals.working_bytes, decimal_size)
    row("nodes", len(graph.nodes), count)
    row("edges", len(graph.edges), count)
    return rows
