"""Plans for latency where a network has branches side by side: each accelerator has whole branches.

A node that all others come before or after is a joint. Between two joints that follow each other, before the first and
after the last, lie branches that wait for nothing of each other. The plans here take the place between joints with the
most work, share its branches out, the longest first to the accelerator with the least, and leave what comes before and
after to accelerators of their own, or to those with the first and the last of the branches. Annealing comes to such
plans by moving branches one by one; of thousands of nodes it does not in a minute.
"""

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import Contraction, contract


def branch_splits(graph: DnnGraph, deployment: Deployment) -> Iterator[Split]:
    """Yield plans of whole branches, what is before and after them apart or not; none where there is one branch.

    They may exceed memory. There are none, either, where an accelerator cannot run a node.
    """
    blocks = contract(graph, Family.CHAIN, deployment, join_idle=False)
    kinds = accelerator_kinds(graph, deployment)
    devices = [d for kind in kinds for d in kind.devices]
    if len(devices) < 2 or not all(np.isfinite(kind.block_ms(blocks)).all() for kind in kinds):
        return
    begin, end, branches = _widest(blocks)
    if len(branches) < 2:
        return
    ms_on = {d: kind.block_ms(blocks) for kind in kinds for d in kind.devices}
    has_before, has_after = begin > 0, end < blocks.num_blocks
    for is_before_apart, is_after_apart in product({has_before, False}, {has_after, False}):
        at_work = devices[int(is_before_apart) : len(devices) - int(is_after_apart)]
        if len(at_work) < 2:
            continue
        device_of = dict.fromkeys(range(begin), devices[0]) | dict.fromkeys(range(end, blocks.num_blocks), devices[-1])
        load_ms = dict.fromkeys(at_work, 0.0)
        for branch in branches:
            after_ms = {d: load_ms[d] + float(ms_on[d][branch].sum()) for d in at_work}
            least = min(after_ms, key=after_ms.__getitem__)
            device_of |= dict.fromkeys(branch, least)
            load_ms[least] = after_ms[least]
        yield Split.from_device_of(blocks.device_of(device_of), deployment)


def _widest(blocks: Contraction) -> tuple[int, int, list[list[int]]]:
    """Return where the place between two joints with the most work begins and ends, and its branches, longest first.

    Blocks are in topological order.
    """
    places = [(a + 1, b) for a, b in pairwise([-1, *_joints(blocks), blocks.num_blocks]) if a + 1 < b]
    work = np.concatenate([[0.0], np.cumsum(blocks.accelerator_ms)])
    begin, end = max(places, key=lambda place: float(work[place[1]] - work[place[0]]), default=(0, 0))
    top = list(range(end - begin))

    def root(b: int) -> int:
        while top[b] != b:
            top[b] = top[top[b]]
            b = top[b]
        return b

    for source, target in blocks.edges:
        if begin <= source and target < end:
            top[root(source - begin)] = root(target - begin)
    branches: dict[int, list[int]] = {}
    for b in range(begin, end):
        branches.setdefault(root(b - begin), []).append(b)
    return begin, end, sorted(branches.values(), key=lambda branch: -float(blocks.accelerator_ms[branch].sum()))


def _joints(blocks: Contraction) -> list[int]:
    """Return the blocks that all others come before or after, in their order."""
    n = blocks.num_blocks
    inputs: list[list[int]] = [[] for _ in range(n)]
    readers: list[list[int]] = [[] for _ in range(n)]
    for source, target in blocks.edges:
        inputs[target].append(source)
        readers[source].append(target)
    # Up to each block: how many of those before it, and it, none of these reads; and how many could come next.
    num_unread, is_read = 0, [False] * n
    num_awaited = [len(one) for one in inputs]
    num_ready = num_awaited.count(0)
    joints = []
    for b in range(n):
        for source in inputs[b]:
            num_unread -= not is_read[source]
            is_read[source] = True
        num_unread += 1
        if num_unread == num_ready == 1:
            joints.append(b)
        num_ready -= 1
        for target in readers[b]:
            num_awaited[target] -= 1
            num_ready += num_awaited[target] == 0
    return joints
