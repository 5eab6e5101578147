"""Minimise single-sample latency by integer programming, with a bound from chains of nodes that needs no solver.

A plan puts every node on one of the accelerators 0 .. k-1, each of which runs once (q = 1), or on a CPU; CPUs are as
many as needed. Accelerator d starts at S_d when all its outside inputs exist, and takes the transfers of the tensors
its nodes share with nodes elsewhere plus their compute time; then all its outputs exist. (Tarnawski et al., "Efficient
Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020, section 5, which assigns nodes to subgraphs and
times each subgraph with big-M rows; here order comes from prefix variables instead.)

Levels. An acyclic plan runs its accelerators in some order; number them in it. Accelerator d has level 2d + 1, and a
CPU node some even level: 2d + 2 if accelerator d is the last one it waits for. Along an edge levels never fall, and
they rise where data enters or leaves an accelerator. Conversely, in a circle of waiting tasks some level would rise
and none could fall. So levels exclude circles, even those of tasks that take no time, and they also number identical
accelerators. With

    a[v, i] = 1      the level of v is less than i, for i = 0 .. 2k + 1;   a[v, 0] = 0, a[v, 2k + 1] = 1

    a[v, i] <= a[v, i + 1]                     levels are counted up
    a[u, i] >= a[v, i]                         edge u -> v: data flows upwards
    x[v, d] = a[v, 2d + 2] - a[v, 2d + 1]      v is on accelerator d; equal within a colocation class
    y[v]    = 1 - sum_d x[v, d]                v is on a CPU
    a[v, i] = a[v, i + 1]                      for levels i that v cannot have: no CPU, or no accelerator for v
    sum_v m_v x[v, d] <= M                     memory
    x[v, d + 1] <= used[d] <= sum_u x[u, d]    accelerators are used from the first on

and times in units near the optimum

    minimise T   subject to   T >= F_v
    F_v >= F_u + q_v y[v]                              edge u -> v
    S_d >= F_u - U_u (1 - x[v, d] + x[u, d])           edge u -> v: v on accelerator d waits for u elsewhere
    E_d  = S_d + sum_v p_v x[v, d] + sum_e w_e cut[e, d]
    F_v >= E_d - (U - head_v) (1 - x[v, d])            all outputs of an accelerator exist at its end
    head_v <= F_v <= U_v,   E_d <= U

where U bounds the optimum from above, head_v is the longest path up to v with every node on its faster device, and U_v
is U, or what is left of it after the longest path behind v if v runs on CPUs only. HiGHS's relaxation of the big-M rows
is weak: its bound often stays where `latency_bound` has put it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pulp

from solvers.contraction import Contraction
from solvers.deployment import Deployment
from solvers.graph import DnnGraph, Node
from solvers.split import Split

Expression = Any
"""An affine expression of PuLP variables."""

MAX_CHAIN = 600
MAX_CHAIN_GRAPH = 5000
"""Chains of more nodes, and graphs of more nodes, get the critical path alone: time grows with their squares."""

SLACK = 1e-3
"""The model allows plans this much worse than the incumbent, so that rounding cannot cut the incumbent off."""


def latency_bound(graph: DnnGraph, deployment: Deployment) -> float:
    """Return a proven lower bound in ms on the latency of every plan of an inference graph.

    The longest path with every node on its faster device, or better: take one path P of the graph. An accelerator
    that holds nodes of P holds a segment of it, all of one piece, or data would come back to it. It then also holds
    every node on a path between two of the segment, for the same reason, and their colocation classes: the hull. It
    takes at least the compute time of the hull and the transfers of every tensor that the hull shares with nodes of P
    outside. The segments and the CPU nodes of P run one after the other, so the cheapest way to cut P into at most k
    segments that fit in memory, and CPU nodes, is a bound; dynamic programming over P finds it. Several paths are
    tried: the longest by time, memory and transfers. Time O(|P|^2 (k + tensors at the ends)) each.

    >>> from solvers.graph import Edge
    >>> nodes = (Node(1, 2.0, 9.0, 1.0, transfer_ms=0.5), Node(2, 3.0, 9.0, 1.0))
    >>> latency_bound(DnnGraph(nodes, (Edge(1, 2),)), Deployment(2, 1, memory_bytes=1.0))
    6.0
    """
    times = _times(graph, deployment)
    head, _ = _head_and_tail(graph, times)
    bound = max(head.values())
    if len(graph.nodes) > MAX_CHAIN_GRAPH or not deployment.num_accelerators:
        return bound
    hulls = _Hulls(graph, deployment, times)
    for path in _long_paths(graph, times):
        if len(path) <= MAX_CHAIN:
            bound = max(bound, _cheapest_cut(path, hulls, times, deployment.num_accelerators))
    return bound


Times = dict[int, tuple[float, float]]
"""Each node's time on an accelerator and on a CPU, infinite where it cannot run."""


def _times(graph: DnnGraph, deployment: Deployment) -> Times:
    capacity = deployment.memory_limit_bytes

    def fits(ids: tuple[int, ...]) -> bool:
        nodes = [graph.node_by_id[v] for v in ids]
        return all(node.runs_on_accelerator for node in nodes) and sum(node.memory_bytes for node in nodes) <= capacity

    class_fits = {c: fits(ids) for c, ids in graph.colocation_members.items()}
    times: Times = {}
    for node in graph.nodes:
        c = node.colocation_class
        may_accelerate = deployment.num_accelerators > 0 and (fits((node.id,)) if c is None else class_fits[c])
        times[node.id] = (
            node.accelerator_ms if may_accelerate else np.inf,
            node.cpu_ms if deployment.num_cpus else np.inf,
        )
    return times


def _head_and_tail(graph: DnnGraph, times: Times) -> tuple[dict[int, float], dict[int, float]]:
    """Return the least time in ms until each node's output exists, and from then to the end."""
    head: dict[int, float] = {}
    tail: dict[int, float] = {}
    for v in graph.topological_order:
        head[v] = min(times[v]) + max((head[u] for u in graph.inputs[v]), default=0.0)
    for u in reversed(graph.topological_order):
        tail[u] = max((min(times[v]) + tail[v] for v in graph.readers[u]), default=0.0)
    return head, tail


def _long_paths(graph: DnnGraph, times: Times) -> Iterator[tuple[int, ...]]:
    """Yield different paths that are the longest by some weight; of equal ones, those of more nodes."""
    nodes = graph.node_by_id
    weights = (
        {v: min(times[v]) for v in nodes},
        {v: node.cpu_ms for v, node in nodes.items()},
        {v: node.memory_bytes for v, node in nodes.items()},
        {v: node.transfer_ms for v, node in nodes.items()},
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


class _Hulls:
    """Node sets as bits of an integer, and what a set of nodes on an accelerator needs."""

    def __init__(self, graph: DnnGraph, deployment: Deployment, times: Times) -> None:
        self.bit = {v: 1 << i for i, v in enumerate(graph.topological_order)}
        self.node_at = [graph.node_by_id[v] for v in graph.topological_order]
        self.accelerator_ms = [times[v][0] for v in graph.topological_order]
        self.capacity = deployment.memory_limit_bytes
        self.up: dict[int, int] = {}
        self.down: dict[int, int] = {}
        for v in graph.topological_order:
            self.up[v] = self.bit[v]
            for u in graph.inputs[v]:
                self.up[v] |= self.up[u]
        for u in reversed(graph.topological_order):
            self.down[u] = self.bit[u]
            for v in graph.readers[u]:
                self.down[u] |= self.down[v]
        self.mates = {c: sum(self.bit[v] for v in ids) for c, ids in graph.colocation_members.items()}
        self.ends = {u: self.bit[u] | sum(self.bit[v] for v in graph.readers[u]) for u in graph.node_by_id}
        self.tensors = {v: (v, *graph.inputs[v]) for v in graph.node_by_id}

    def grow(self, members: int, above: int, below: int, v: int) -> tuple[int, int, int]:
        """Return the hull of `members` and v, and the nodes above and below some node of it."""
        waiting = self.bit[v]
        while waiting:
            i = waiting.bit_length() - 1
            waiting ^= 1 << i
            if members >> i & 1:
                continue
            node = self.node_at[i]
            members |= 1 << i
            above |= self.up[node.id]
            below |= self.down[node.id]
            waiting |= above & below & ~members
            if node.colocation_class is not None:
                waiting |= self.mates[node.colocation_class] & ~members
        return members, above, below

    def nodes(self, members: int) -> Iterator[tuple[Node, float]]:
        """Yield the nodes of a set with their accelerator times."""
        while members:
            i = members.bit_length() - 1
            members ^= 1 << i
            yield self.node_at[i], self.accelerator_ms[i]


def _cheapest_cut(path: tuple[int, ...], hulls: _Hulls, times: Times, k: int) -> float:
    """Return the least time in ms of a path cut into at most k accelerator segments, and CPU nodes."""
    on_path = sum(hulls.bit[v] for v in path)
    ends = {u: mask & on_path for u, mask in hulls.ends.items()}
    # least[j, t]: the first j nodes of the path done, with at most t segments.
    least = np.full((len(path) + 1, k + 1), np.inf)
    least[0] = 0.0
    for i in range(len(path)):
        least[i + 1] = np.minimum(least[i + 1], least[i] + times[path[i]][1])
        members = above = below = segment = 0
        compute_ms = size = 0.0
        open_tensors: dict[int, float] = {}
        for j in range(i, len(path)):
            segment |= hulls.bit[path[j]]
            before = members
            members, above, below = hulls.grow(members, above, below, path[j])
            for node, accelerator_ms in hulls.nodes(members & ~before):
                compute_ms += accelerator_ms
                size += node.memory_bytes
                for u in hulls.tensors[node.id]:
                    open_tensors[u] = hulls.node_at[hulls.bit[u].bit_length() - 1].transfer_ms
            if compute_ms == np.inf or size > hulls.capacity:
                break
            open_tensors = {u: ms for u, ms in open_tensors.items() if ends[u] & ~members and ms > 0}
            if members & on_path == segment:
                cost = compute_ms + sum(open_tensors.values())
                least[j + 1, 1:] = np.minimum(least[j + 1, 1:], least[i, :-1] + cost)
    return float(least[-1].min())


@dataclass
class LatencyModel:
    """The integer program of one graph: run it, then read a split from its variables.

    `problem` minimises latency / `scale_ms`; `level[v]` are the a[v, 0 .. 2k + 1] of the formulation.
    """

    problem: pulp.LpProblem
    scale_ms: float
    graph: DnnGraph
    deployment: Deployment
    level: dict[int, list[pulp.LpVariable]]

    def start_values(self, split: Split) -> dict[pulp.LpVariable, float]:
        """Return values of the integer variables that describe a split whose accelerators can run in some order."""
        level_of = _levels(self.graph, split)
        return {a[i]: float(level_of[v] < i) for v, a in self.level.items() for i in range(len(a))}

    def read_split(self, value: Any) -> Split:
        """Return the split described by `value(variable)`; CPU nodes share the first CPU."""
        k = self.deployment.num_accelerators
        device_of: dict[int, int] = {}
        for v, a in self.level.items():
            level = next(i for i in range(len(a)) if value(a[i]) > 0.5) - 1
            device_of[v] = level // 2 if level % 2 else k
        return Split.from_device_of(device_of, self.deployment)


def _levels(graph: DnnGraph, split: Split) -> dict[int, int]:
    """Return the level of each node of a split: 2d + 1 on the d-th accelerator to start, even on CPUs."""
    device_of = split.device_of()
    k = len(split.accelerators)
    members = {d: ids for d, ids in enumerate(split.accelerators) if ids}
    waits_for = {d: {u for v in ids for u in graph.inputs[v] if device_of[u] != d} for d, ids in members.items()}
    level: dict[int, int] = {}
    num_started = 0
    while len(level) < len(graph.nodes):
        known = len(level)
        for v in graph.topological_order:
            if v not in level and device_of[v] >= k and all(u in level for u in graph.inputs[v]):
                least = max((level[u] for u in graph.inputs[v]), default=0)
                level[v] = least + least % 2
        ready = next((d for d, inputs in waits_for.items() if all(u in level for u in inputs)), None)
        if ready is not None:
            del waits_for[ready]
            level.update(dict.fromkeys(members[ready], 2 * num_started + 1))
            num_started += 1
        assert len(level) > known, "the accelerators of a valid plan do not wait for each other in a circle"
    return level


def latency_model(
    graph: DnnGraph,
    deployment: Deployment,
    contraction: Contraction,
    *,
    incumbent_ms: float | None,
    lower_bound_ms: float,
) -> LatencyModel:
    """Return the program of the module's formulation, for plans not worse than the incumbent if there is one.

    The graph has no backward nodes, the deployment an accelerator; `contraction` is that of the free family with
    idle blocks kept apart, `lower_bound_ms` a proven bound.
    """
    scale = incumbent_ms or lower_bound_ms or 1.0
    problem = pulp.LpProblem("latency", pulp.LpMinimize)
    model = LatencyModel(problem, scale, graph, deployment, {})
    times = _times(graph, deployment)
    x = _add_levels(model, contraction, times)
    _add_memory(model, x)
    upper_ms = _serial_time(graph, deployment) if incumbent_ms is None else incumbent_ms
    _add_times(model, contraction, times, x, lower_bound_ms / scale, upper_ms * (1 + SLACK) / scale)
    return model


def _serial_time(graph: DnnGraph, deployment: Deployment) -> float:
    """Return an upper bound in ms on the latency of every plan: all tasks and transfers one after the other."""
    k = deployment.num_accelerators
    return sum(
        max(node.accelerator_ms, node.cpu_ms) + node.transfer_ms * min(k, 1 + len(graph.readers[node.id]))
        for node in graph.nodes
    )


def _add_levels(model: LatencyModel, contraction: Contraction, times: Times) -> dict[int, list[Expression]]:
    """Prefix variables of the levels; return x, a column per accelerator for each node."""
    problem, graph, k = model.problem, model.graph, model.deployment.num_accelerators
    last = 2 * k + 1
    for row, node in enumerate(graph.nodes):
        # Integers, not binaries: PuLP would open the bounds of the first and the last to 0 and 1.
        a = [
            problem.add_variable(f"a_{row}_{i}", int(i == last), int(i > 0), cat=pulp.LpInteger)
            for i in range(last + 1)
        ]
        model.level[node.id] = a
        for i in range(last):
            if times[node.id][(i + 1) % 2] == np.inf:
                # No node on an accelerator that cannot run it, or on a CPU if there is none.
                problem += a[i] == a[i + 1], f"empty_{row}_{i}"
            else:
                # A node below level i is below level i + 1.
                problem += a[i] <= a[i + 1], f"prefix_{row}_{i}"
    for e, edge in enumerate(graph.edges):
        for i in range(1, last):
            # Data flows upwards.
            problem += model.level[edge.source][i] >= model.level[edge.target][i], f"order_{e}_{i}"
    x = {v: [a[2 * d + 2] - a[2 * d + 1] for d in range(k)] for v, a in model.level.items()}
    for b, members in enumerate(contraction.members):
        for i, v in enumerate(members[1:], start=1):
            for d in range(k):
                # A colocation class shares a device; on CPUs its nodes may have different levels.
                problem += x[v][d] == x[members[0]][d], f"together_{b}_{i}_{d}"
    for d in range(k - 1):
        # Accelerators are used from the first on.
        used = problem.add_variable(f"used_{d}", 0, 1)
        problem += used <= pulp.lpSum(x[v][d] for v in x), f"used_{d}"
        for row, v in enumerate(x):
            problem += x[v][d + 1] <= used, f"used_{d}_before_{row}"
    return x


def _add_memory(model: LatencyModel, x: dict[int, list[Expression]]) -> None:
    """The nodes on an accelerator fit in its memory."""
    memory = model.deployment.memory_bytes
    if memory is None:
        return
    sizes = {node.id: node.memory_bytes for node in model.graph.nodes if node.memory_bytes > 0}
    for d in range(model.deployment.num_accelerators):
        if memory > 0:
            used = pulp.lpSum(size / memory * x[v][d] for v, size in sizes.items())
            model.problem += used <= 1, f"memory_{d}"
        else:
            model.problem += pulp.lpSum(x[v][d] for v in sizes) <= 0, f"memory_{d}"


def _add_times(
    model: LatencyModel,
    contraction: Contraction,
    times: Times,
    x: dict[int, list[Expression]],
    least: float,
    most: float,
) -> None:
    """Start and end of accelerators, finish of nodes, and the objective; `least` and `most` bound the optimum."""
    problem, graph, scale = model.problem, model.graph, model.scale_ms
    head, tail = _head_and_tail(graph, times)
    # On an accelerator a node's output may wait for the nodes behind it in the same block.
    latest = {v: most if times[v][0] < np.inf else most - tail[v] / scale for v in tail}
    latency = problem.add_variable("T", least)
    problem += latency
    finish = {
        node.id: problem.add_variable(f"F_{row}", head[node.id] / scale, latest[node.id])
        for row, node in enumerate(graph.nodes)
    }
    for row, v in enumerate(finish):
        problem += latency >= finish[v], f"latency_{row}"
        if times[v][1] < np.inf:
            on_cpu = 1 - pulp.lpSum(x[v])
            # A CPU node runs when its inputs exist.
            problem += finish[v] >= times[v][1] / scale * on_cpu, f"cpu_{row}"
            for i, u in enumerate(graph.inputs[v]):
                problem += finish[v] >= finish[u] + times[v][1] / scale * on_cpu, f"cpu_{row}_input_{i}"
    for d in range(model.deployment.num_accelerators):
        start, end = problem.add_variable(f"S_{d}", 0, most), problem.add_variable(f"E_{d}", 0, most)
        load = [times[v][0] / scale * x[v][d] for v in x if 0 < times[v][0] < np.inf]
        for e, hyperedge in enumerate(contraction.hyperedges):
            # A tensor is transferred when some of the blocks that share it are here and some are not.
            cut = problem.add_variable(f"cut_{e}_{d}", 0, 1)
            writer, *readers = (x[contraction.members[b][0]][d] for b in hyperedge.blocks)
            for r, reader in enumerate(readers):
                problem += cut >= writer - reader, f"out_{e}_{d}_{r}"
                problem += cut >= reader - writer, f"in_{e}_{d}_{r}"
            load.append(hyperedge.weight_ms / scale * cut)
        problem += end == start + pulp.lpSum(load), f"end_{d}"
        for e, edge in enumerate(graph.edges):
            # An accelerator starts when all its outside inputs exist.
            u, v = edge.source, edge.target
            problem += start >= finish[u] - latest[u] * (1 - x[v][d] + x[u][d]), f"start_{d}_{e}"
        for row, v in enumerate(x):
            # All its outputs exist at its end.
            problem += finish[v] >= end - (most - head[v] / scale) * (1 - x[v][d]), f"finish_{d}_{row}"
