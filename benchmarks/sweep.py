"""A sweep against separate solves: 12 x 12 points of two samples, on one and two workers, and `placement solve` calls.

    python -m benchmarks.sweep [--calls 12]

Wall and processor seconds, the latter of all processes. Of the 144 separate calls every twelfth or so is run
(`--calls`), and their mean counts 144 times. Values of the sweep and of the calls must agree.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from solvers.model.result import SolveResult
from solvers.processes.worker_processes import WorkerProcesses
from solvers.samples import read_sample, sample_text
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.run import run_sweep
from solvers.sweep.spec import Index, SweepSpec

SAMPLES = ("bert_base_operator_inference", "inception_v3_operator_inference")
ACCELERATORS = tuple(range(2, 14))
FACTORS = tuple(2.0 ** ((i - 5) / 2) for i in range(12))


def processor_seconds() -> float:
    """Return what this process and its ended children have used."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def swept(spec: SweepSpec, num_workers: int) -> tuple[dict[Index, SolveResult], float, float]:
    """Return the answers of a sweep, with the starts of its processes in wall and processor seconds."""
    began, used = time.perf_counter(), processor_seconds()
    answers = {
        answer.index: answer.result
        for answer in run_sweep(spec, lambda: WorkerProcesses(num_workers), at_once=2 * num_workers)
    }
    return answers, time.perf_counter() - began, processor_seconds() - used


def called(graph: Path, spec: SweepSpec, index: Index) -> tuple[float, float, float]:
    """Return the value in ms of one `placement solve`, its wall and its processor seconds."""
    k, factor = spec.values(index)
    began, used = time.perf_counter(), processor_seconds()
    answer = subprocess.run(  # noqa: S603 -- our own program
        [
            sys.executable,
            "-m",
            "solvers.cli",
            "solve",
            graph,
            "--accelerators",
            str(k),
            "--bandwidth",
            f"{factor!r}x",
        ],
        capture_output=True,
        check=True,
    )
    return json.loads(answer.stdout)["value_ms"], time.perf_counter() - began, processor_seconds() - used


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=12, help="separate calls to run of 144 (default: 12)")
    calls = parser.parse_args().calls
    print("| graph | what | wall, s | processor, s | wall against calls |")
    print("|---|---|---:|---:|---:|")
    for name in SAMPLES:
        graph, deployment = read_sample(name)
        axes = (Axis(Quantity.ACCELERATORS, ACCELERATORS), Axis(Quantity.BANDWIDTH_FACTOR, FACTORS))
        spec = SweepSpec(graph, deployment, axes)
        points = sorted(spec.points())
        runs = {num: swept(spec, num) for num in (1, 2)}
        assert {i: r.value_ms for i, r in runs[1][0].items()} == {i: r.value_ms for i, r in runs[2][0].items()}
        # A step that is coprime to 12 goes through rows and columns alike.
        chosen = [points[(i * 13 * max(1, 144 // (13 * calls))) % 144] for i in range(calls)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.json"
            path.write_bytes(sample_text(name))
            single = [called(path, spec, index) for index in chosen]
        for index, (value, _, _) in zip(chosen, single, strict=True):
            assert abs(value - (runs[1][0][index].value_ms or 0)) <= 1e-6 * value, index
        wall, used = (sum(column) / calls * 144 for column in list(zip(*single, strict=True))[1:])
        print(f"| {name} | 144 calls (from {calls}) | {wall:.1f} | {used:.1f} | 1 |")
        for num, (_, seconds, processor) in runs.items():
            what = f"sweep, {num} worker{'s' * (num > 1)}"
            print(f"| {name} | {what} | {seconds:.1f} | {processor:.1f} | {wall / seconds:.1f} |")
    print(f"\nLoad of the machine at the end: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
