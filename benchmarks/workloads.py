"""The graphs that are timed: the samples, and the paper's workloads where they are beside the repository."""

from pathlib import Path

from solvers.formats.graph_json import read_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.samples import read_sample, sample_names

PAPER_WORKLOADS = Path(__file__).resolve().parents[1].parent / "shared" / "paper_workloads"


def workload_names() -> list[str]:
    """Return the names of all graphs there are here; those of the paper start with 'paper/' or 'paper-latency/'."""
    return [
        *sample_names(),
        *(f"paper/{path.stem}" for path in sorted(PAPER_WORKLOADS.glob("throughput/*.json"))),
        *(f"paper-latency/{path.stem}" for path in sorted(PAPER_WORKLOADS.glob("latency/*.json"))),
    ]


def read_workload(name: str) -> tuple[DnnGraph, Deployment]:
    """Return the graph and the deployment of a name."""
    for prefix, folder in (("paper/", "throughput"), ("paper-latency/", "latency")):
        if name.startswith(prefix):
            return read_graph(PAPER_WORKLOADS / folder / f"{name.removeprefix(prefix)}.json")
    return read_sample(name)
