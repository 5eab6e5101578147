"""How soon free splits of the paper's workloads are good and proven: value and bound after 2, 10 and 60 s.

`python -m benchmarks.free_targets [NAME ...]` prints a markdown table. Distances are in per cent: of the value to the
best value that the workloads' own record knows (negative: better), and the gap that is proven.
"""

import json
import sys

from benchmarks.workloads import PAPER_WORKLOADS, read_workload
from solvers.model.result import Progress, relative_gap
from solvers.model.split import Family
from solvers.solve import solve
from solvers.warm_up import compile_all

SECONDS = (2.0, 10.0, 60.0)
PROVEN = 1e-6


def main(names: list[str]) -> None:
    """Print the table."""
    compile_all()
    known = json.loads((PAPER_WORKLOADS / "known_results.json").read_text())["throughput"]
    after = " | ".join(f"value after {s:.0f} s | gap" for s in SECONDS)
    print(f"| graph | best known, ms | value, ms | bound, ms | {after} | ended after, s |")
    print("|---|" + "---:|" * (4 + 2 * len(SECONDS)))
    for name in names or sorted(known):
        print(row(name, known[name]["free_best_known_ms"]), flush=True)


def row(name: str, best_known_ms: float) -> str:
    """Return the line of one workload."""
    graph, deployment = read_workload(f"paper/{name}")
    reports: list[Progress] = []
    result = solve(graph, deployment, family=Family.FREE, time_limit_s=SECONDS[-1], on_progress=reports.append)
    assert result.value_ms is not None
    assert result.lower_bound_ms is not None
    cells: list[str] = []
    for seconds in SECONDS:
        if seconds >= result.runtime_s or seconds == SECONDS[-1]:
            value, bound = result.value_ms, result.lower_bound_ms
        else:
            until = [p for p in reports if p.seconds <= seconds and p.incumbent_ms is not None]
            if not until:
                cells += ["none", ""]
                continue
            value, bound = until[-1].incumbent_ms, until[-1].lower_bound_ms or 0.0
        gap = relative_gap(value, bound)
        assert gap is not None
        cells += [f"{100 * (value / best_known_ms - 1):+.2f}", "0" if gap <= PROVEN else f"{100 * gap:.2g}"]
    numbers = f"{best_known_ms:.4f} | {result.value_ms:.4f} | {result.lower_bound_ms:.4f}"
    return f"| {name} | {numbers} | {' | '.join(cells)} | {result.runtime_s:.1f} |"


if __name__ == "__main__":
    main(sys.argv[1:])
