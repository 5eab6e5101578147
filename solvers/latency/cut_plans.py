"""Plans made of the cheapest cuts that the bound of latency finds: where annealing may begin.

A cut (`solvers.latency.cuts`) says of the nodes of a part of the graph in which task each is and where that runs. Tasks
are numbered in the order in which they can run. A node that was left out joins the task of its latest input, or the
first one behind it, where that has room; else it goes to a CPU between the two. Numbers never fall along edges, so no
tasks wait for each other in a circle.

Cuts keep to the memory of each subgraph, but know nothing of nodes left out, nor of more tasks on accelerators than a
price of memory asks for: a plan may exceed what an accelerator holds. Annealing mends that.
"""

import math
from collections.abc import Sequence

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.problem.accelerator_kinds import AcceleratorKind

Task = tuple[frozenset[int], int | None]
"""Nodes, and the number of the kind of accelerator that they run on; None is a CPU."""


def plan_of_cut(
    graph: DnnGraph, deployment: Deployment, kinds: Sequence[AcceleratorKind], tasks: Sequence[Task]
) -> Split | None:
    """Return a plan of all nodes that has the tasks of a cut, in their order; None where a node could not run.

    Tasks for which no subgraph of an accelerator of their kind is left go to the CPUs.
    """
    q = deployment.max_subgraphs
    left = [[(d, i) for d in reversed(kind.devices) for i in reversed(range(q))] for kind in kinds]
    level: dict[int, float] = {}
    slot_of: dict[int, tuple[int, int] | None] = {}
    slot_at: dict[float, tuple[int, int] | None] = {}
    used: dict[int, float] = {}
    for number, (ids, kind) in enumerate(tasks):
        slot = left[kind].pop() if kind is not None and left[kind] else None
        slot_at[number] = slot
        for v in ids:
            level[v], slot_of[v] = number, slot
            if slot is not None:
                used[slot[0]] = used.get(slot[0], 0.0) + graph.node_by_id[v].memory_bytes
    first_behind: dict[int, float] = {}
    for v in reversed(graph.topological_order):
        first_behind[v] = level[v] if v in level else min((first_behind[r] for r in graph.readers[v]), default=math.inf)
    for v in graph.topological_order:
        if v in level:
            continue
        node = graph.node_by_id[v]
        before = max((level[u] for u in graph.inputs[v]), default=-1.0)
        joined = [n for n in (before, first_behind[v]) if slot_at.get(n) is not None and n >= before]

        def has_room(number: float, needed: float = node.memory_bytes) -> bool:
            slot = slot_at[number]
            assert slot is not None
            return used.get(slot[0], 0.0) + needed <= deployment.memory_limit_of(slot[0])

        roomy = [n for n in joined if node.runs_on_accelerator and has_room(n)]
        is_enclosed = before == first_behind[v] and bool(joined)
        if is_enclosed and not node.runs_on_accelerator:
            return None
        if roomy or is_enclosed:
            level[v] = roomy[0] if roomy else before
            slot_of[v] = slot = slot_at[level[v]]
            assert slot is not None
            used[slot[0]] = used.get(slot[0], 0.0) + node.memory_bytes
        else:
            # Behind an accelerator's task, and before what comes next.
            level[v] = before + 0.5 if slot_at.get(before) is not None else before
            slot_of[v] = None
    if not deployment.num_cpus and None in slot_of.values():
        return None
    members: dict[tuple[int, int] | None, set[int]] = {}
    for v, slot in slot_of.items():
        members.setdefault(slot, set()).add(v)
    subgraphs = tuple(
        tuple(frozenset(members.get((d, i), ())) for i in range(q)) for d in range(deployment.num_accelerators)
    )
    cpus = [frozenset(members.get(None, ()))] + [frozenset[int]()] * (deployment.num_cpus - 1)
    return Split.from_subgraphs(subgraphs, tuple(cpus) if deployment.num_cpus else ())
