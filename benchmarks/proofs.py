"""Value, bound and gap over time on problems that nothing was tuned for, compared with an earlier run.

`python -m benchmarks.proofs RUN.json ['*/free/4+*' ...] [--limit 60] [--before EARLIER.json]` solves the cases of
`benchmarks.testbeds` whose names match a pattern, writes what it found to RUN.json after each, goes on where such a
file ends, and prints one markdown table. `--sample` takes some of the cases that nobody chose, `--workloads` adds the
paper's files, for free splits, and `--profiles FOLDER` problems of PipeDream's profiles (`benchmarks.profiles`).
Distances are in per cent of the best value known (`best_known.json`), in which `--keep` enters better ones that a run
found.
"""

import argparse
import json
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.profiles import problems_of_profiles
from benchmarks.testbeds import cases, sample
from benchmarks.workloads import PAPER_WORKLOADS, read_workload
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE, Progress, relative_gap
from solvers.model.split import Family
from solvers.solve import solve
from solvers.warm_up import compile_all

BEST_KNOWN = Path(__file__).with_name("best_known.json")
SECONDS = (10.0,)
"""When value and bound are looked at, beside the end."""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="file of this run")
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of cases, with * and ?")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each case")
    parser.add_argument("--sample", action="store_true", help="51 of each family alone, by turns")
    parser.add_argument("--before", type=Path, help="file of an earlier run")
    parser.add_argument("--workloads", action="store_true", help="the paper's files as well, for free splits")
    parser.add_argument("--profiles", type=Path, help="folder of PipeDream's profiles, to be solved as well")
    parser.add_argument("--keep", metavar="HOW", help="enter better values in best_known.json, found in this way")
    arguments = parser.parse_args()
    compile_all()
    run: dict[str, Any] = json.loads(arguments.run.read_text()) if arguments.run.exists() else {}
    run.setdefault("machine", machine())
    run.setdefault("cases", {})
    for name, family, graph, deployment in _problems(
        arguments.patterns, sampled=arguments.sample, workloads=arguments.workloads, profiles=arguments.profiles
    ):
        if name not in run["cases"]:
            run["cases"][name] = measured(graph, deployment, family, arguments.limit)
            arguments.run.write_text(json.dumps(run, indent=1))
    best: dict[str, Any] = json.loads(BEST_KNOWN.read_text()) if BEST_KNOWN.exists() else {}
    if arguments.keep:
        best = with_better(best, run["cases"], arguments.keep)
        BEST_KNOWN.write_text(json.dumps(best, indent=1, sort_keys=True) + "\n")
    before = json.loads(arguments.before.read_text())["cases"] if arguments.before else {}
    print("\n".join(table(run["cases"], before, best)))


def _problems(
    patterns: list[str], *, sampled: bool, workloads: bool, profiles: Path | None
) -> Iterator[tuple[str, Family, DnnGraph, Deployment]]:
    for case in sample() if sampled else cases():
        if any(fnmatch(case.name, pattern) for pattern in patterns):
            yield case.name, case.family, case.graph(), case.deployment
    if workloads:
        for path in sorted(PAPER_WORKLOADS.glob("throughput/*.json")):
            yield f"paper/{path.stem}/free", Family.FREE, *read_workload(f"paper/{path.stem}")
    if profiles is not None:
        for problem in problems_of_profiles(profiles):
            if any(fnmatch(problem[0], pattern) for pattern in patterns):
                yield problem


def measured(graph: DnnGraph, deployment: Deployment, family: Family, limit_s: float) -> dict[str, Any]:
    """Solve once; return what came out, and value and bound whenever one of them had changed."""
    reports: list[Progress] = []
    begun = time.process_time()
    result = solve(graph, deployment, family=family, time_limit_s=limit_s, on_progress=reports.append)
    trace: list[list[float | None]] = []
    for report in reports:
        state = [report.incumbent_ms, report.lower_bound_ms]
        if not trace or trace[-1][1:] != state:
            trace.append([round(report.seconds, 2), *state])
    return {
        "status": str(result.status),
        "value_ms": result.value_ms,
        "bound_ms": result.lower_bound_ms,
        "seconds": round(result.runtime_s, 2),
        "processor_seconds": round(time.process_time() - begun, 2),
        "limit_s": limit_s,
        "message": result.message,
        "trace": trace,
    }


def with_better(best: dict[str, Any], solved: dict[str, Any], how: str) -> dict[str, Any]:
    """Return the best values known with those of a run where they are better; proven optima say so."""
    best = dict(best)
    for name, answer in solved.items():
        value = answer["value_ms"]
        if value is None:
            continue
        is_proven = answer["status"] == "OPTIMAL"
        known = best.get(name)
        if known is None or value < known["value_ms"] * (1 - PROOF_TOLERANCE) or (is_proven and not known["proven"]):
            best[name] = {"value_ms": value, "proven": is_proven, "how": how}
    return best


def table(solved: dict[str, Any], before: dict[str, Any], best: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table, and a summary for each family."""
    after = [f"{s:.0f} s" for s in SECONDS]
    heads = [f"{what} {when}" for when in (*after, "end") for what in ("value +%", "gap %")]
    old = [f"{what} before" for what in ("value +%", "gap %", "s")] if before else []
    yield "| case | best known, ms | " + " | ".join([*heads, "s", *old]) + " |"
    yield "|---|" + "---:|" * (2 + len(heads) + len(old))
    for name, answer in sorted(solved.items()):
        known = best.get(name, {}).get("value_ms") or answer["value_ms"]
        cells = [_number(known)]
        for seconds in SECONDS:
            cells += _distances(*_state_after(answer, seconds), known)
        cells += [*_distances(answer["value_ms"], answer["bound_ms"], known), f"{answer['seconds']:.1f}"]
        if before:
            earlier = before.get(name)
            cells += (
                ["", "", ""]
                if earlier is None
                else [*_distances(earlier["value_ms"], earlier["bound_ms"], known), f"{earlier['seconds']:.1f}"]
            )
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    for family in Family:
        for title, answers in (("now", solved), ("before", before)):
            gaps = [
                relative_gap(answer["value_ms"], answer["bound_ms"])
                for name, answer in answers.items()
                if str(family) in name.split("/")[-2:] and name in solved
            ]
            known_gaps = [gap for gap in gaps if gap is not None]
            if known_gaps:
                yield (
                    f"{family}, {title}: {sum(g <= PROOF_TOLERANCE for g in known_gaps)} proven, "
                    f"{sum(g <= 0.01 for g in known_gaps)} within 1 %, {sum(g <= 0.05 for g in known_gaps)} within "
                    f"5 % of {len(gaps)}, worst {100 * max(known_gaps):.1f} %"
                )


def _state_after(answer: dict[str, Any], seconds: float) -> tuple[float | None, float | None]:
    if answer["seconds"] <= seconds:
        return answer["value_ms"], answer["bound_ms"]
    until = [state for state in answer["trace"] if state[0] <= seconds]
    return (until[-1][1], until[-1][2]) if until else (None, None)


def _distances(value: float | None, bound: float | None, best: float | None) -> list[str]:
    """Return the distance of a value to the best one, and its gap, in per cent."""
    gap = relative_gap(value, bound)
    over = "" if value is None or not best else f"{100 * (value / best - 1):+.2f}"
    return [over, "" if gap is None else "0" if gap <= PROOF_TOLERANCE else f"{100 * gap:.2g}"]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


if __name__ == "__main__":
    main()
