"""Training chains with nearly free links and loose memory, where stages under way hardly dominate each other.

    python -m benchmarks.branches

A few layers of long branches (`sample_graphs.synthetic`): about 200 nodes in training, and tens of thousands of ideals
or more within the thresholds of the search. Prints processor seconds of the chain DP until the optimum is proven, the
most ideals of one search, and steps of all of them: a label that meets a block that it may take.
"""

import time

from benchmarks.machine import machine
from sample_graphs.synthetic import layered, trained
from solvers.chain.label_search import ThresholdSearch
from solvers.chain.max_load import ChainSearch
from solvers.model.deployment import Deployment
from solvers.model.result import PROOF_TOLERANCE
from solvers.model.split import Family
from solvers.problem.contraction import contract
from solvers.warm_up import compile_all

SHAPES = ((1, 3, 31), (2, 4, 11), (2, 5, 8), (4, 3, 7))
"""Layers, branches, operators."""
DEVICES = tuple((k, num_cpus) for k in (2, 4, 8) for num_cpus in (0, 1))
TRANSFER_FACTOR = 1e-3


def main() -> None:
    """Run and print."""
    compile_all()
    searches: list[ThresholdSearch] = []
    run = ThresholdSearch.run

    def counted(search: ThresholdSearch, max_bytes: int, max_steps: int | None = None) -> int:
        searches.append(search)
        return run(search, max_bytes, max_steps)

    ThresholdSearch.run = counted  # type: ignore[method-assign]
    print(machine(), "\n\n| layers x branches x operators | k | l | s | proven | ideals | million steps |")
    print("|---|---:|---:|---:|---|---:|---:|")
    for shape in SHAPES:
        graph = trained(layered(*shape)[0], transfer_factor=TRANSFER_FACTOR)
        for k, num_cpus in DEVICES:
            deployment = Deployment(k, num_cpus)
            contraction = contract(graph, Family.CHAIN, deployment)
            searches.clear()
            began = time.process_time()
            answer = ChainSearch(graph, contraction, deployment).run()
            seconds = time.process_time() - began
            proven = "yes" if answer.lower_bound_ms >= answer.value_ms * (1 - PROOF_TOLERANCE) else "no"
            ideals = max(search.num_ideals for search in searches)
            steps = sum(search.num_steps for search in {id(s): s for s in searches}.values()) / 1e6
            name = " x ".join(map(str, shape))
            print(f"| {name} | {k} | {num_cpus} | {seconds:.2f} | {proven} | {ideals:,} | {steps:.1f} |", flush=True)


if __name__ == "__main__":
    main()
