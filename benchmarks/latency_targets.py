"""How far single-sample latency gets in a minute on the paper's four latency files; prints a table in Markdown.

Run `python -m benchmarks.latency_targets [--time-limit S] [--subgraphs Q] [--memory SHARE ...]`; the files are looked
for in `../shared/paper_workloads/latency` beside the repository. A share scales the accelerators' memory, so that more
of the graph must be cut or run on CPUs.
"""

import argparse
import os
from dataclasses import replace

from benchmarks.workloads import PAPER_WORKLOADS
from solvers.formats.graph_json import read_graph
from solvers.model.costs import Objective
from solvers.solve import solve
from solvers.warm_up import compile_all

HEADER = """| graph | q | memory | latency, ms | lower bound, ms | gap | status | s | processor s |
|---|---:|---:|---:|---:|---:|---|---:|---:|"""


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
    options = parser.parse_args()
    compile_all()
    print(HEADER)
    for path in sorted(PAPER_WORKLOADS.glob("latency/*.json")):
        graph, deployment = read_graph(path)
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
                path.stem,
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
