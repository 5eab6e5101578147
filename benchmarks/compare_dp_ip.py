"""Compare two ways to the chain optimum in one run: the DP over ideals and the integer program with prefix variables.

`python -m benchmarks.compare_dp_ip` prints a markdown table of seconds until the optimum is proven. Neither gets a
start from the other. Both solve the same graph right after each other, so a busy machine slows both.

Every graph is solved with the devices of its file and again with its accelerators alone: a CPU gives each stage of the
integer program a kind to choose, which costs it far more than it costs the DP, and one number would hide that.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

from benchmarks.machine import machine
from benchmarks.workloads import read_workload, workload_names
from solvers.milp.highs import run_highs
from solvers.milp.throughput import throughput_model
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE, SolveStatus, relative_gap
from solvers.model.split import Family
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import contract
from solvers.solve import solve
from solvers.warm_up import warm_up

GRAPHS = (
    "bert_base_operator_inference",
    "resnet50_operator_inference",
    "unet_operator_inference",
    "gnmt_layer_inference",
    "gpt2_xl_layer_inference",
    "llama3_8b_layer_inference",
    "paper/bert_l-3_operator_inference",
    "paper/gnmt_layer_inference",
    "paper/resnet50_layer_inference",
    "paper/inceptionv3_layer_inference",
)
TIME_LIMIT_S = 10.0
REPEATS = 3
"""The shortest of so many runs counts; a method that takes over a second runs once, and has noise to itself."""


def main() -> None:
    """Print the machine and the table."""
    warm_up()
    print(machine())
    print()
    print("| graph | nodes | k | l | optimum, ms | DP, s | IP, s | IP / DP |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in GRAPHS:
        if name in workload_names():
            graph, deployment = read_workload(name)
            for num_cpus in sorted({deployment.num_cpus, 0}, reverse=True):
                print(row(name, graph, replace(deployment, num_cpus=num_cpus)), flush=True)


def row(name: str, graph: DnnGraph, deployment: Deployment) -> str:
    """Return the line of one graph on some devices."""
    start = f"| {name} | {len(graph.nodes)} | {deployment.num_accelerators} | {deployment.num_cpus} |"
    dp = solve(graph, deployment, method="dp")
    if dp.status is SolveStatus.INFEASIBLE:
        return f"{start} infeasible | | | |"
    assert dp.value_ms is not None
    dp_seconds, _ = shortest(lambda: solve(graph, deployment, method="dp").value_ms)
    ip_seconds, ip_value = shortest(lambda: prove_by_ip(graph, deployment))
    if ip_value is None:
        proved = f"not in {TIME_LIMIT_S:.0f} | over {one_digit(TIME_LIMIT_S / dp_seconds)}"
    else:
        assert abs(ip_value - dp.value_ms) <= PROOF_TOLERANCE * dp.value_ms
        proved = f"{ip_seconds:.2f} | {one_digit(ip_seconds / dp_seconds)}"
    return f"{start} {dp.value_ms:.3f} | {dp_seconds:.3f} | {proved} |"


def one_digit(ratio: float) -> str:
    """Return a ratio with its first digit, the others 0: no more of it repeats. Rounded down, for 'over' to be true."""
    unit = 10 ** math.floor(math.log10(ratio))
    return f"{math.floor(ratio / unit) * unit:g}"


def shortest(run: Callable[[], float | None]) -> tuple[float, float | None]:
    """Return the shortest time in seconds of some runs, and what the last of them returned."""
    seconds: list[float] = []
    value: float | None = None
    while len(seconds) < REPEATS and (not seconds or min(seconds) < 1):
        started = time.perf_counter()
        value = run()
        seconds.append(time.perf_counter() - started)
    return min(seconds), value


def prove_by_ip(graph: DnnGraph, deployment: Deployment) -> float | None:
    """Return the chain optimum in ms by the integer program alone; None if it is not proven in time."""
    contraction = contract(graph, Family.CHAIN, deployment)
    bound = work_bound(contraction, deployment)
    model = throughput_model(
        graph, deployment, contraction, Family.CHAIN, Objective.THROUGHPUT, scale_ms=bound, lower_bound_ms=bound
    )
    outcome = run_highs(model.problem, time_limit_s=TIME_LIMIT_S, gap=0.0)
    if outcome.solution is None or outcome.bound is None:
        return None
    value = split_costs(graph, deployment, model.read_split(outcome.solution)).max_load_ms
    gap = relative_gap(value, outcome.bound * model.scale_ms)
    return value if gap is not None and gap <= PROOF_TOLERANCE else None


if __name__ == "__main__":
    main()
