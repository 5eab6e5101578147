"""How much of the table of the dynamic program the production solver keeps, counted by the solver as it runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.lessons.desk import Desk
from explorer.lessons.example_graphs import loaded
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.quantities import count, number
from solvers.samples import read_sample
from solvers.teaching.ideals import num_ideals


@dataclass(frozen=True)
class Network:
    """A network on accelerators: a graph of a lesson, or a bundled one by its name."""

    title: str
    accelerators: int
    graph: DnnGraph | None = None
    sample: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """The cells of the plain table, a row for each number of devices from none, and what the solver kept."""

    title: str
    nodes: int
    ideals: int
    cells: int
    kept: int


@cache
def _size_of(network: Network) -> tuple[int, int]:
    """Return how many nodes and ideals a network has."""
    graph = read_sample(network.sample)[0] if network.graph is None else network.graph
    return len(graph.nodes), num_ideals(graph)


def kept_on(desk: Desk, network: Network) -> Kept | None:
    """Have the production solver answer and return what its DP kept; None while it is at work."""
    setting = {"accelerators": str(network.accelerators), "cpus": "0", "memory": "none"}
    before = desk.own
    try:
        if network.graph is None:
            setting["sample"] = network.sample
        else:
            desk.own = loaded(network.graph, Deployment(network.accelerators))
        result = desk.answer(setting)
    finally:
        desk.own = before
    if result is None or result.num_kept is None:
        return None
    nodes, ideals = _size_of(network)
    return Kept(network.title, nodes, ideals, ideals * (network.accelerators + 1), result.num_kept)


def kept_text(known: Sequence[Kept]) -> str:
    """Say what the counts show, of the smallest network and of the one of which the least is kept."""
    first, least = known[0], min(known, key=lambda one: one.kept / one.cells)
    fraction = f"one in {count(round(least.cells / least.kept))}" if least.kept else "none"
    return (
        "A cell of the table is an ideal on so many devices. The solver of this app counts those that it keeps. It "
        "searches several times, for plans within one limit on the load after the other, and all of its searches are "
        f"counted. On {first.title[0].lower()}{first.title[1:]} it keeps {count(first.kept)}, and the table has "
        f"{count(first.cells)} cells: there is nothing to gain on so small a network. On {least.title}, it keeps "
        f"{count(least.kept)} where the table has {count(least.cells)}: **{fraction}**."
    )


def show_kept_table(known: Sequence[Kept]) -> None:
    """Show the counts."""
    names = ("Nodes", "Ideals", "Cells of the table", "Kept by the solver", "Kept, of cells")
    header = [Cell("Network, on three accelerators"), *(Cell(name, "number") for name in names)]
    rows = []
    for one in known:
        texts = [count(value) for value in (one.nodes, one.ideals, one.cells, one.kept)]
        texts.append(f"{number(100 * one.kept / one.cells)} %")
        rows.append([Cell(one.title), *(Cell(text, "number") for text in texts)])
    st.html(html_table("What the table has and what the solver of this app keeps", header, rows, width_rem=58))
