"""Greedy plans for latency: fill accelerators in topological order.

It is what the paper compares with (Tarnawski et al., NeurIPS 2020, section 6): walk a topological order, fill one
accelerator after the other up to its memory, leave the rest to CPUs. Here it is tried with every number of
accelerators, none included. Where they are of several kinds it is tried with the kinds in every order.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice, permutations

import numpy as np

from solvers.model.costs import single_sample_latency
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split, check_split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import Contraction, contract

MAX_ORDERS = 24
"""Orders of the kinds of accelerators that are tried."""

MAX_VARIANTS = 16
"""With more accelerators greedy tries only this many different numbers of them."""


def greedy_latency_split(graph: DnnGraph, deployment: Deployment) -> Split | None:
    """Return the best of the greedy plans of an inference graph; None where none is valid.

    >>> from solvers.model.graph import Edge, Node
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> greedy_latency_split(g, Deployment(2, 1)).accelerators
    (frozenset({1, 2}), frozenset())
    """
    best: tuple[float, Split] | None = None
    for split in greedy_latency_splits(graph, deployment):
        if not check_split(graph, deployment, split):
            value = single_sample_latency(graph, deployment, split)
            if value is not None and (best is None or value < best[0]):
                best = value, split
    return best[1] if best is not None else None


def greedy_latency_splits(graph: DnnGraph, deployment: Deployment) -> Iterator[Split]:
    """Yield a plan for each number of accelerators to fill, in each order of their kinds.

    Without a CPU the last one may hold too much.
    """
    # Blocks of the chain family come in a topological order.
    blocks = contract(graph, Family.CHAIN, deployment, join_idle=False)
    k = deployment.num_accelerators
    counts = range(k + 1) if deployment.num_cpus else range(1, k + 1)
    if len(counts) > MAX_VARIANTS:
        counts = range(counts[0], k + 1, -(-k // MAX_VARIANTS))
    for kinds in islice(permutations(accelerator_kinds(graph, deployment)), MAX_ORDERS):
        order = [d for kind in kinds for d in kind.devices]
        for num_filled in counts:
            device_of = _fill(blocks, deployment, order[:num_filled])
            yield Split.from_device_of(blocks.device_of(device_of), deployment)


def _fill(blocks: Contraction, deployment: Deployment, order: Sequence[int]) -> dict[int, int]:
    """Return the device of each block after filling these accelerators, one after the other, in topological order."""
    cpu = deployment.num_accelerators if deployment.num_cpus else None
    capacity = [deployment.memory_limit_of(d) for d in order]
    num_filled = len(order)
    ahead: dict[int, list[int]] = {}
    for a, b in blocks.edges:
        ahead.setdefault(b, []).append(a)
    device_of: dict[int, int] = {}
    # An accelerator d has level 2d + 1, a CPU node the level 2d + 2 of the accelerator it comes after: along edges
    # levels never fall, and data that left an accelerator never comes back to it.
    level: dict[int, int] = {}
    used = [0.0] * num_filled
    current = 0
    for b in range(blocks.num_blocks):
        least = max((level[a] for a in ahead.get(b, ())), default=0)
        size = float(blocks.memory_bytes[b])
        # 2d + 1 >= least: accelerator d is not behind us.
        first = max(current, least // 2)
        largest = max(capacity[first:], default=math.inf)
        if cpu is None or (np.isfinite(blocks.accelerator_ms[b]) and size <= largest):
            # What fits nowhere, and has no CPU to go to, takes an accelerator of its own.
            while first < num_filled and used[first] + size > capacity[first] and (used[first] or size <= largest):
                first += 1
            current = first if cpu is not None else min(first, num_filled - 1)
            if current < num_filled:
                used[current] += size
                device_of[b], level[b] = order[current], 2 * current + 1
                continue
        assert cpu is not None
        device_of[b], level[b] = cpu, least + least % 2
    return device_of
