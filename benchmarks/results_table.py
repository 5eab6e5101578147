"""Markdown of a run of the suite: `python -m benchmarks.results_table RUN.json > benchmarks/RESULTS.md`."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from solvers.model.result import PROOF_TOLERANCE


def results(run: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of one table per group of a pytest-benchmark report."""
    yield "# The last run of `make benchmark`"
    yield ""
    yield machine()
    yield ""
    yield f"Commit `{run['commit_info']['id'][:7]}`, {run['datetime'][:10]}. Shortest and median of the rounds."
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for benchmark in run["benchmarks"]:
        groups[benchmark["group"]].append(benchmark)
    for group, benchmarks in groups.items():
        is_solve = "status" in benchmarks[0]["extra_info"]
        yield ""
        yield f"## {group[0].upper()}{group[1:]}"
        yield ""
        yield "| graph | nodes | shortest, s | median, s |" + (" status | gap | peak MB |" if is_solve else "")
        yield "|---|---:|---:|---:|" + ("---|---:|---:|" if is_solve else "")
        for benchmark in sorted(benchmarks, key=lambda b: -b["stats"]["min"]):
            extra, stats = benchmark["extra_info"], benchmark["stats"]
            line = f"| {benchmark['param']} | {extra['nodes']} | {stats['min']:.3g} | {stats['median']:.3g} |"
            if is_solve:
                is_proven = extra["gap"] is not None and extra["gap"] <= PROOF_TOLERANCE
                gap = "–" if extra["gap"] is None else "0" if is_proven else f"{100 * extra['gap']:.2g} %"
                line += f" {extra['status']} | {gap} | {extra['peak_mb']} |"
            yield line


if __name__ == "__main__":
    print("\n".join(results(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
