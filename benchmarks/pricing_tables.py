"""Bounds alone at the best value known, with all nodes of a diagram in tables of loads and with those that count.

    python -m benchmarks.pricing_tables [--seconds 10]

For each split the gap that the bound leaves to the best value known, in per cent, after half of the seconds and after
all of them, and how many tables were filled. Both ways take the same diagrams, and everything else is the same.
"""

import argparse
import json
import time
from functools import partial
from typing import Any
from unittest.mock import patch

from benchmarks.machine import machine
from benchmarks.proofs import BEST_KNOWN
from benchmarks.testbeds import Case, cases
from solvers.free import pricing, within
from solvers.free.bounds import FreeBounds
from solvers.model.split import Family
from solvers.problem.contraction import contract
from solvers.warm_up import compile_all

SPLITS = (
    "nasnet_mobile/inference/pcie/convex/8+0",
    "nasnet_mobile/training/pcie/convex/8+0",
    "nasnet_large/inference/pcie/convex/4+1",
    "nasnet_large/training/pcie/convex/4+1",
    "amoebanet/inference/pcie/convex/8+0",
    "amoebanet/inference/pcie/convex/8+1",
    "amoebanet/inference/pcie/free/8+1",
    "randwire/inference/pcie/free/4+1",
    "hrnet/inference/pcie/free/8+1",
)


def gaps(case: Case, value_ms: float, seconds: float) -> tuple[float, float]:
    """Return the gap in per cent after half of the seconds and after all of them."""
    graph = case.graph()
    convex_in = graph if case.family is Family.CONVEX else None
    bounds = FreeBounds(contract(graph, case.family, case.deployment), case.deployment, 0.0, convex_in)
    began, half = time.perf_counter(), [0.0]

    def seconds_left() -> float:
        return seconds - (time.perf_counter() - began)

    def watch() -> bool:
        if seconds_left() > 0.5 * seconds:
            half[0] = bounds.lower_bound_ms
        return seconds_left() > 0

    bounds.raise_by_cuts(value_ms, watch)
    bounds.raise_by_work(value_ms, watch)
    bounds.raise_by_prices(lambda: value_ms, 0.0, watch, seconds_left)
    if seconds_left() > 0.5 * seconds:
        half[0] = bounds.lower_bound_ms
    return 100 * (1 - half[0] / value_ms), 100 * (1 - bounds.lower_bound_ms / value_ms)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    seconds = parser.parse_args().seconds
    compile_all()
    count = 0

    def table(*args: Any, is_whole: bool) -> within.Within:
        nonlocal count
        count += 1
        return within.within(*args[:7]) if is_whole else within.within(*args)

    known = json.loads(BEST_KNOWN.read_text())
    print(machine(), f"\n\n| split | all nodes: {seconds / 2:g} s | {seconds:g} s | tables |", end="")
    print(f" those that count: {seconds / 2:g} s | {seconds:g} s | tables |\n|---|" + "---:|" * 6)
    for case in (case for case in cases() if case.name in SPLITS):
        row = []
        for is_whole in (True, False):
            count = 0
            with patch.object(pricing, "within", partial(table, is_whole=is_whole)):
                half, end = gaps(case, known[case.name]["value_ms"], seconds)
            row += [f"{half:.2g}", f"{end:.2g}", str(count)]
        print(f"| {case.name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
