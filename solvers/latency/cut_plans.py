"""Plans made of the cheapest cuts of a part of a graph: good starts for a search, found while bounds are proven.

A cut tells the task of each node that the part keeps. The others join a task so that tasks still run one after the
other: each the last task of its inputs, or else the first of its readers. Where there are more tasks than accelerators
of a kind, those that save least time run on CPUs.
"""

from collections.abc import Iterator

from solvers.latency.cuts import Cut, PartCuts
from solvers.model.split import Split


def plans_of_cut(part: PartCuts, cut: Cut) -> Iterator[Split]:
    """Yield plans that a cut stands for; their accelerators may hold more than their memory. None without room."""
    graph = part.graph
    kept_in = {v: int(cut.task_of[i]) for v, i in part.row.items()}
    early, late = dict(kept_in), dict(kept_in)
    for v in graph.topological_order:
        if v not in kept_in:
            early[v] = max((early[u] for u in graph.inputs[v]), default=-1)
    for v in reversed(graph.topological_order):
        if v not in kept_in:
            late[v] = min((late[w] for w in graph.readers[v]), default=len(cut.place))
    for task_of in (early, late):
        split = _plan(part, cut, task_of)
        if split is not None:
            yield split


def _plan(part: PartCuts, cut: Cut, task_of: dict[int, int]) -> Split | None:
    """Return the plan with these tasks; None where too many of them must be on accelerators."""
    deployment, times = part.deployment, part.times
    cpu = deployment.num_accelerators if deployment.num_cpus else None
    members: dict[int, list[int]] = {}
    for v, task in task_of.items():
        members.setdefault(task, []).append(v)
    saved_ms: dict[int, list[tuple[float, int]]] = {g: [] for g in range(len(part.kinds))}
    for task, place in enumerate(cut.place):
        if place and task in members:
            runs_there = [v for v in members[task] if times[place - 1][v][0] < float("inf")]
            on_cpus_ms = sum(times[0][v][1] for v in runs_there)
            saved_ms[place - 1].append((on_cpus_ms - cut.duration_ms[task], task))
    device_of: dict[int, int | None] = dict.fromkeys(task_of, cpu)
    for g, ranked in saved_ms.items():
        ranked.sort(reverse=True)
        for device, (_, task) in zip(part.kinds[g].devices, ranked, strict=False):
            device_of.update((v, device) for v in members[task] if times[g][v][0] < float("inf"))
    found = {v: d for v, d in device_of.items() if d is not None}
    return Split.from_device_of(found, deployment) if len(found) == len(device_of) else None
