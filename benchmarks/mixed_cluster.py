"""How well the samples are solved on a cluster of several classes: value, proven bound and seconds.

`python -m benchmarks.mixed_cluster [--devices SPEC] [--cpus L] [--family chain|convex|free] [--seconds S] [NAME ...]`
prints a markdown table. Times on the devices are those of `placement solve --devices SPEC`.
"""

import argparse
import time
from dataclasses import replace

from solvers.hardware.catalogue import catalogue
from solvers.hardware.device_list import groups, parse_devices
from solvers.hardware.equipment import Equipment, equip
from solvers.model.result import relative_gap
from solvers.model.split import Family
from solvers.samples import read_sample, sample_names
from solvers.solve import solve
from solvers.warm_up import compile_all

DEVICES = "2xA100-80:link=nvlink3+4xT4:link=pcie3-x16"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--devices", default=DEVICES)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--family", type=Family, default=Family.CHAIN)
    parser.add_argument("--seconds", type=float, default=40.0)
    asked = parser.parse_args()
    compile_all()
    print("| graph | value, ms | bound, ms | gap | status | s | processor s |")
    print("|---|---:|---:|---:|---|---:|---:|")
    for name in asked.names or [name for name in sample_names() if not name.startswith("teaching")]:
        print(row(name, asked.devices, asked.cpus, asked.family, asked.seconds), flush=True)


def row(name: str, devices: str, num_cpus: int, family: Family, seconds: float) -> str:
    """Return the line of one sample."""
    graph, deployment = read_sample(name)
    kinds = groups(parse_devices(devices), catalogue(), graph.times)
    on = equip(graph, replace(deployment, num_cpus=num_cpus), Equipment(kinds), catalogue())
    wall, processor = time.perf_counter(), time.process_time()
    result = solve(on.graph, on.deployment, family=family, time_limit_s=seconds)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    gap = relative_gap(result.value_ms, result.lower_bound_ms)
    numbers = ["" if ms is None else f"{ms:.4f}" for ms in (result.value_ms, result.lower_bound_ms)]
    numbers.append("" if gap is None else f"{100 * gap:.2f} %")
    return f"| {name} | {' | '.join(numbers)} | {result.status.name} | {wall:.1f} | {processor:.1f} |"


if __name__ == "__main__":
    main()
