"""Problems of networks that others measured: profiles of PipeDream, which are not part of this project.

`profiler/` of https://github.com/msr-fiddle/pipedream has them as `profiles/NETWORK/graph.txt`. A folder may hold them
so, or as NETWORK.txt. CPUs, which a profile does not tell, take CPU_FACTOR times as long as its GPU.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from solvers.hardware.catalogue import catalogue
from solvers.importers.sources import import_source
from solvers.importers.workload import Devices, Workload
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family

LINK_BYTES_PER_MS = 12.6e6
"""PCIe 3.0, in one direction."""
CPU_FACTOR = 8.0
COUNTS = (2, 4, 8)


def problems_of_profiles(folder: Path) -> Iterator[tuple[str, Family, DnnGraph, Deployment]]:
    """Yield name, family, graph and deployment of each problem, of the training step and of its forward pass."""
    known = catalogue()
    # Times and sizes are those of the profile, the speed of the link is set below: these tell the memory alone.
    devices = Devices(known.accelerator("H100-SXM"), known.link("pcie3-x16"), known.host("Xeon-8480"))
    for path in sorted([*folder.glob("*.txt"), *folder.glob("*/graph.txt")]):
        network = path.parent.name if path.name == "graph.txt" else path.stem
        training = _with_cpu_times(import_source(str(path), Workload(), devices).graph)
        for mode, graph in (("inference", forward_pass(training)), ("training", training)):
            linked = graph.with_bandwidth(LINK_BYTES_PER_MS)
            for family in Family:
                for count in COUNTS:
                    for num_cpus in (0, 1):
                        name = f"profiles/{network}/{mode}/{family}/{count}+{num_cpus}"
                        yield name, family, linked, Deployment(count, num_cpus)


def forward_pass(graph: DnnGraph) -> DnnGraph:
    """Return the forward nodes of a training graph, each free to go where it likes."""
    nodes = tuple(replace(node, colocation_class=None) for node in graph.nodes if not node.is_backward)
    kept = {node.id for node in nodes}
    edges = tuple(edge for edge in graph.edges if edge.source in kept and edge.target in kept)
    return replace(graph, nodes=nodes, edges=edges)


def _with_cpu_times(graph: DnnGraph) -> DnnGraph:
    return graph.with_nodes(tuple(replace(node, cpu_ms=CPU_FACTOR * node.accelerator_ms) for node in graph.nodes))
