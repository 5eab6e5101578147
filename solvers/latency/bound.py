"""Proven lower bounds on single-sample latency: the cheapest way to cut a part of the graph into tasks, along a path.

A plan's tasks are the subgraphs on its accelerators and its CPU nodes. Tasks do not wait for each other in a circle, so
in the order in which they can run, the nodes of the first i tasks are an ideal (closed under predecessors), and a task
is a difference of two ideals. Let P be any path of the graph. Tasks that hold nodes of P run one after the other, so

    latency >= sum of the durations of the tasks that meet P
            >= min over chains of ideals {} = I_0 < I_1 < ... < I_r = all nodes of  sum_i  cost(I_i minus I_{i-1})

where a set S of at most M bytes costs its load on an accelerator if it meets P, else nothing, a single node v may cost
q_v instead if it is on P, else nothing, and at most k q sets are on accelerators (q subgraphs on each of k). Shortest
paths over ideals find the minimum: what memory forces onto CPUs, or apart, is in it, for nodes off P as well. Where
accelerators are of several kinds a set has the times, links and memory of one of them, and at most k_g q sets are on
those of kind g: a state of the shortest path is then an ideal with how many there are on each.

The same holds for a mixture of several paths, where a set costs its duration times the share of paths it meets: the
cheapest way to cut may make any one path short, but hardly all of them. The mixture for which cutting costs most is
found by cutting planes (`solvers.latency.mixture`), and every mixture on the way gives a bound.

Where the ideals are too many, nodes are left out. Tasks restricted to a set W of nodes are differences of ideals of
the order restricted to W, and cost no more. So every W gives a bound, and larger ones better bounds: W grows by memory,
time and transfers as long as its ideals stay few enough. What is certain of the nodes left out, wherever they are,
counts (`solvers.latency.left_out`): those between two nodes of a task are in it, and tensors go on through them. Graphs
whose parallel branches rejoin have few ideals. For q = 1 an accelerator holds all of a colocation class or nothing, so
nodes left out count where a node of their class counts.

For q > 1 an accelerator's memory holds for its subgraphs together. Of that the bound keeps that all of them take at
most k M bytes, with a multiplier: for every mu >= 0, min (cost + mu bytes on accelerators) - mu k M is a bound. With
several kinds bytes count as shares of the memory of one of theirs, of which all accelerators have k.

Time O(pairs of ideals whose difference fits in memory x degree) for each mixture and W, and times k q where the
cheapest cut has too many sets on accelerators. The first mixtures are single paths, the longest by time, memory and
transfers; each W begins with the best mixture of the W before. Sums are in floating point; bounds are lowered by what
rounding can do.

Before that there is a bound that knows total work and memory, but neither transfers nor the order of tasks
(`solvers.latency.work_bound`): for graphs of many branches side by side it is far better.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from solvers.latency.cut_plans import plans_of_cut
from solvers.latency.cuts import EPSILON, PartCuts, Times
from solvers.latency.parts import GraphOrder
from solvers.latency.work_bound import work_bound
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.problem.accelerator_kinds import AcceleratorKind, accelerator_kinds

IDEAL_LIMITS = (200, 2_000, 10_000, 40_000)
"""Ideals of the parts of the graph that are tried one after the other."""

MAX_GRAPH = 5_000
"""Larger graphs get no bounds from parts of them: choosing one takes time quadratic in their nodes."""


def latency_bound(graph: DnnGraph, deployment: Deployment, most_ideals: int = IDEAL_LIMITS[-1]) -> float:
    """Return a proven lower bound in ms on the latency of every plan of an inference graph, infinite if none exists.

    >>> from solvers.model.graph import Edge, Node
    >>> nodes = (Node(1, 2.0, 9.0, 1.0, transfer_ms=0.5), Node(2, 3.0, 9.0, 1.0))
    >>> round(latency_bound(DnnGraph(nodes, (Edge(1, 2),)), Deployment(2, 1, memory_bytes=1.0)), 6)
    6.0
    """
    return max(latency_bounds(graph, deployment, most_ideals))


def latency_bounds(
    graph: DnnGraph,
    deployment: Deployment,
    most_ideals: int = IDEAL_LIMITS[-1],
    known_ms: Callable[[], float | None] = lambda: None,
    on_plan: Callable[[Split], object] | None = None,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[float]:
    """Yield proven lower bounds in ms, none below the one before, about once a second; infinite if there is no plan.

    `known_ms` tells the latency of the best plan known by then: the search for bounds leaves out what takes longer, and
    ends when it is proven that no plan is better. `on_plan` gets the plans that the cheapest cuts found on the way
    stand for; they may hold too much or break other rules. `goes_on` is asked where a bound may take long, and says
    whether to go on.
    """
    kinds = accelerator_kinds(graph, deployment)
    by_kind = [node_times(graph, deployment, kind) for kind in kinds] or [node_times(graph, deployment)]
    times: Times = {v: (min(one[v][0] for one in by_kind), on_cpu) for v, (_, on_cpu) in by_kind[0].items()}
    bound = critical_path(graph, times) * (1 - len(graph.nodes) * EPSILON)
    yield bound
    if not deployment.num_accelerators or bound == np.inf:
        return
    if bound < _or_infinite(known_ms()):
        bound = max(bound, work_bound(graph, kinds, by_kind, goes_on))
        yield bound
    if len(graph.nodes) > MAX_GRAPH:
        return
    order = GraphOrder(graph)
    paths = list(_long_paths(graph, times))
    mixture: Mapping[tuple[int, ...], int] = {}
    known: list[int] = []
    for limit in (limit for limit in IDEAL_LIMITS if limit <= most_ideals):
        best: tuple[tuple[int, ...], PartCuts] | None = None
        upper = _or_infinite(known_ms())
        for path in paths:
            kept = yield from order.part(path, _importance(graph, deployment, times, bound), limit, bound)
            if not kept or kept == known:
                continue
            part = PartCuts(order, deployment, kinds, by_kind, kept, limit)
            if not mixture or deployment.max_subgraphs > 1:
                for better in part.along(path, upper):
                    bound = max(bound, min(better, upper))
                    yield bound
            if bound >= upper:
                return
            if best is None or part.bound_ms > best[1].bound_ms:
                best = path, part
        if best is None:
            continue
        path, part = best
        for better in part.mixed(upper, mixture or {path: 1}):
            bound = max(bound, min(better, upper))
            yield bound
            if on_plan is not None and better > -np.inf and part.cut is not None:
                for plan in plans_of_cut(part, part.cut):
                    on_plan(plan)
        if bound >= upper:
            return
        paths, mixture, known = [path], part.best_paths, part.kept


def _or_infinite(value: float | None) -> float:
    return np.inf if value is None else value


def node_times(graph: DnnGraph, deployment: Deployment, kind: AcceleratorKind | None = None) -> Times:
    """Return each node's times in ms, infinite where it or its colocation class cannot run.

    `kind` tells of which accelerators where they are of several kinds.
    """
    capacity = deployment.memory_limit_bytes if kind is None else kind.memory_limit_bytes

    def fits(ids: tuple[int, ...]) -> bool:
        nodes = [graph.node_by_id[v] for v in ids]
        return all(node.runs_on_accelerator for node in nodes) and sum(node.memory_bytes for node in nodes) <= capacity

    class_fits = {c: fits(ids) for c, ids in graph.colocation_members.items()}
    times: Times = {}
    for node in graph.nodes:
        c = node.colocation_class
        may_accelerate = deployment.num_accelerators > 0 and (fits((node.id,)) if c is None else class_fits[c])
        times[node.id] = (
            (node.accelerator_ms if kind is None else kind.node_ms(node)) if may_accelerate else np.inf,
            node.cpu_ms if deployment.num_cpus else np.inf,
        )
    return times


def critical_path(graph: DnnGraph, times: Times) -> float:
    """Return the length in ms of the longest path with every node on its faster device."""
    finish: dict[int, float] = {}
    for v in graph.topological_order:
        finish[v] = min(times[v]) + max((finish[u] for u in graph.inputs[v]), default=0.0)
    return max(finish.values())


def _long_paths(graph: DnnGraph, times: Times) -> Iterator[tuple[int, ...]]:
    """Yield different paths that are the longest by some weight; of equal ones, those of more nodes."""
    nodes = graph.node_by_id
    weights = (
        {v: min(times[v]) for v in nodes},
        {v: node.cpu_ms for v, node in nodes.items()},
        {v: node.memory_bytes for v, node in nodes.items()},
        {v: node.output_ms for v, node in nodes.items()},
        dict.fromkeys(nodes, 1.0),
    )
    seen: set[tuple[int, ...]] = set()
    for weight in weights:
        length: dict[int, tuple[float, int]] = {}
        step: dict[int, int] = {}
        for v in graph.topological_order:
            before = max(graph.inputs[v], key=length.__getitem__, default=None)
            ms, count = (0.0, 0) if before is None else length[before]
            length[v] = ms + weight[v], count + 1
            if before is not None:
                step[v] = before
        path = [max(length, key=length.__getitem__)]
        while path[-1] in step:
            path.append(step[path[-1]])
        if tuple(path) not in seen:
            seen.add(tuple(path))
            yield tuple(reversed(path))


def _importance(graph: DnnGraph, deployment: Deployment, times: Times, bound: float) -> dict[int, float]:
    """Return how much each node may matter: memory of all accelerators, time of the bound, transfers."""
    memory = deployment.memory_limit_bytes or 1.0
    scale = bound or 1.0
    return {
        v: node.memory_bytes / memory
        + 10 * min(times[v]) / scale
        + 10 * (node.output_ms if graph.readers[v] else 0.0) / scale
        for v, node in graph.node_by_id.items()
    }
