"""How far single-sample latency gets in a minute on the paper's four latency files; prints a table in Markdown.

Run `python -m benchmarks.latency_targets [--time-limit S] [--subgraphs Q] [--memory SHARE ...]`; the files are looked
for in `../shared/paper_workloads/latency` beside the repository. A share scales the accelerators' memory, so that more
of the graph must be cut or run on CPUs. `--beds` takes other graphs that nothing was tuned for: the paper's files for
throughput and networks of `benchmarks.testbeds`, on accelerators that hold 1.6 times the graph together, as there.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.testbeds import NETWORKS, testbed
from benchmarks.workloads import PAPER_WORKLOADS
from solvers.formats.graph_json import read_graph
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.solve import solve
from solvers.warm_up import compile_all

HEADER = """| graph | q | memory | latency, ms | lower bound, ms | gap | status | s | processor s |
|---|---:|---:|---:|---:|---:|---|---:|---:|"""


BEDS = {
    "bert_l-6_operator_inference": (4, 1.0),
    "resnet50_operator_inference": (8, 1.0),
    "inceptionv3_layer_inference": (10, 1000.0),
    "densenet121": (6, 1.0),
    "resnext50": (6, 1.0),
    "nasnet_mobile": (6, 1.0),
}
"""Accelerators, and how many times slower links are than the file says, whose unit is wrong for layers."""
HELD = 1.6
"""Memory of all accelerators, as a multiple of what the graph takes."""
NUM_CPUS = 8


def beds() -> Iterator[tuple[str, DnnGraph, Deployment]]:
    """Yield the problems of `--beds`."""
    for name, (count, slower) in BEDS.items():
        if name in NETWORKS:
            graph = testbed(name, training=False, link="pcie")
        elif (path := PAPER_WORKLOADS / "throughput" / f"{name}.json").exists():
            graph = read_graph(path)[0].with_bandwidth_factor(1 / slower)
        else:
            continue
        total_bytes = sum(node.memory_bytes for node in graph.nodes)
        yield name, graph, Deployment(count, NUM_CPUS, HELD * total_bytes / count)


def papers() -> Iterator[tuple[str, DnnGraph, Deployment]]:
    """Yield the paper's latency files."""
    for path in sorted(PAPER_WORKLOADS.glob("latency/*.json")):
        yield path.stem, *read_graph(path)


def _processor_seconds() -> float:
    """Return the processor time of this process and of the children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    """Solve each file and print its row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--subgraphs", type=int, default=1)
    parser.add_argument("--memory", type=float, nargs="+", default=[1.0])
    parser.add_argument("--beds", action="store_true", help="other graphs, in place of the paper's latency files")
    options = parser.parse_args()
    compile_all()
    print(HEADER)
    for name, graph, deployment in beds() if options.beds else papers():
        for share in options.memory:
            assert deployment.memory_bytes is not None
            changed = replace(deployment, memory_bytes=share * deployment.memory_bytes, max_subgraphs=options.subgraphs)
            began = _processor_seconds()
            result = solve(graph, changed, objective=Objective.LATENCY, time_limit_s=options.time_limit)
            assert result.value_ms is not None
            assert result.lower_bound_ms is not None
            assert result.gap is not None
            spent = _processor_seconds() - began
            cells = (
                name,
                options.subgraphs,
                f"{share:g}",
                f"{result.value_ms:.3f}",
                f"{result.lower_bound_ms:.3f}",
                f"{result.gap:.2%}",
                result.status,
                f"{result.runtime_s:.1f}",
                f"{spent:.1f}",
            )
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
