"""The sample graphs that ship with the program, by name, with what a menu says about each.

The files are data of the package `sample_graphs`; its generators are never imported here.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from solvers.formats.graph_json import parse_graph
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError
from solvers.model.graph import DnnGraph


@dataclass(frozen=True, slots=True)
class SampleInfo:
    """One sample: `name` is its key, `title` and the one-line `description` are for menus."""

    name: str
    title: str
    description: str


@cache
def samples() -> tuple[SampleInfo, ...]:
    """Return all samples in the order of a menu.

    >>> samples()[0].title
    'Teaching: a chain'
    """
    index = json.loads((files("sample_graphs") / "index.json").read_text(encoding="utf-8"))
    return tuple(SampleInfo(entry["name"], entry["title"], entry["description"]) for entry in index["samples"])


def sample_names() -> tuple[str, ...]:
    """Return the names of all samples in the order of a menu."""
    return tuple(sample.name for sample in samples())


def sample_info(name: str) -> SampleInfo:
    """Return what a menu says about a sample; GraphError for a name that is none."""
    for sample in samples():
        if sample.name == name:
            return sample
    raise GraphError(f"There is no sample '{name}'; the samples are {', '.join(sample_names())}.")


def sample_text(name: str) -> bytes:
    """Return the JSON file of a sample as it is; GraphError for a name that is none."""
    return (files("sample_graphs") / f"{sample_info(name).name}.json").read_bytes()


def read_sample(name: str) -> tuple[DnnGraph, Deployment]:
    """Return the graph and the default deployment of a sample; GraphError for a name that is none.

    >>> graph, deployment = read_sample("teaching_chain")
    >>> len(graph.nodes), deployment.num_accelerators
    (6, 3)
    """
    return parse_graph(sample_text(name), name=name)
