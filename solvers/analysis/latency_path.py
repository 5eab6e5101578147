"""What the latency of one micro-batch consists of: the chain of waits that ends last.

A task, a subgraph of an accelerator or a node on a CPU, begins when the last of those it waits for ends
(`solvers.model.costs.single_sample_latency`). Going back from the task that ends last to the one it waited for, and so
on, gives a path without a pause: its times add up to the latency, so nothing but work on it can make the sample faster.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from solvers.model.costs import Task, task_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split


@dataclass(frozen=True, slots=True)
class PathStep:
    """A subgraph of a device on the critical path, or a run of nodes on CPUs; times in ms since the sample began."""

    device: int
    nodes: tuple[int, ...]
    start_ms: float
    receive_ms: float
    compute_ms: float
    send_ms: float

    @property
    def end_ms(self) -> float:
        """When all its outputs exist."""
        return self.start_ms + self.receive_ms + self.compute_ms + self.send_ms


@dataclass(frozen=True, slots=True)
class LatencyPath:
    """The critical path from the first step to the last, and how long each device works on the sample, on it or not.

    `slack_ms` is, per device, by how much any one of its tasks may be late without the sample being late, 0 where one
    of them may not; infinite for a device without work. More than one path may be critical.
    """

    steps: tuple[PathStep, ...]
    busy_ms: tuple[float, ...]
    slack_ms: tuple[float, ...]

    @property
    def latency_ms(self) -> float:
        """When the last step ends."""
        return self.steps[-1].end_ms

    @property
    def compute_ms(self) -> float:
        """Computing on the path."""
        return sum(step.compute_ms for step in self.steps)

    @property
    def transfer_ms(self) -> float:
        """Receiving and sending on the path."""
        return sum(step.receive_ms + step.send_ms for step in self.steps)


def latency_path(graph: DnnGraph, deployment: Deployment, split: Split) -> LatencyPath | None:
    """Return the critical path of one sample; None where latency is not defined for the graph or the split.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> path = latency_path(g, Deployment(2), Split((frozenset({1}), frozenset({2}))))
    >>> [(step.device, step.compute_ms) for step in path.steps], path.transfer_ms
    ([(0, 2.0), (1, 3.0)], 1.0)
    """
    split = split.on(deployment)
    tasks = task_graph(graph, split)
    if graph.is_training or not nx.is_directed_acyclic_graph(tasks):
        return None
    pieces = _pieces(graph, deployment, split)
    start_ms: dict[Task, float] = {}
    waits_for: dict[Task, Task | None] = {}
    for task in nx.topological_sort(tasks):
        last = max(tasks.predecessors(task), key=lambda t: start_ms[t] + _duration(pieces[t]), default=None)
        waits_for[task] = last
        start_ms[task] = 0.0 if last is None else start_ms[last] + _duration(pieces[last])
    path: list[PathStep] = []
    at: Task | None = max(tasks, key=lambda t: start_ms[t] + _duration(pieces[t]))
    slack = _slack_ms(tasks, pieces, start_ms, len(split.devices))
    while at is not None:
        device, nodes, receive, compute, send = pieces[at]
        path.append(PathStep(device, nodes, start_ms[at], receive, compute, send))
        at = waits_for[at]
    busy = [0.0] * len(split.devices)
    for piece in pieces.values():
        busy[piece[0]] += _duration(piece)
    return LatencyPath(_joined(path[::-1], len(split.accelerators)), tuple(busy), slack)


Piece = tuple[int, tuple[int, ...], float, float, float]
"""Device, nodes in the order of the network, and times in ms to receive, compute and send."""


def _duration(piece: Piece) -> float:
    return piece[2] + piece[3] + piece[4]


def _slack_ms(
    tasks: "nx.DiGraph[Task]", pieces: Mapping[Task, "Piece"], start_ms: Mapping[Task, float], num_devices: int
) -> tuple[float, ...]:
    """Return the least slack of each device's tasks: the latest start that makes nothing late, minus the start."""
    over_ms = max(start_ms[task] + _duration(pieces[task]) for task in tasks)
    latest_ms: dict[Task, float] = {}
    slack = [math.inf] * num_devices
    for task in reversed(list(nx.topological_sort(tasks))):
        before = min((latest_ms[later] for later in tasks.successors(task)), default=over_ms)
        latest_ms[task] = before - _duration(pieces[task])
        device = pieces[task][0]
        slack[device] = min(slack[device], max(0.0, latest_ms[task] - start_ms[task]))
    return tuple(slack)


def _pieces(graph: DnnGraph, deployment: Deployment, split: Split) -> Mapping[Task, Piece]:
    position = {v: i for i, v in enumerate(graph.topological_order)}
    node = graph.node_by_id
    place = {v: None if split.is_cpu(d) else d for v, d in split.device_of().items()}
    pieces: dict[Task, Piece] = {}
    for d in range(len(split.accelerators)):
        for i, members in enumerate(split.subgraphs_of(d)):
            needed = {u for v in members for u in graph.inputs[v]} - members
            received = [t for u in needed for t in graph.tensors_of[u] if not members.isdisjoint(t.readers)]
            sent = [t for u in members for t in graph.tensors_of[u] if not members.issuperset(t.readers)]
            pieces["block", d, i] = (
                d,
                tuple(sorted(members, key=position.__getitem__)),
                sum(t.transfer_ms / deployment.transfer_speed(d, (place[t.source],)) for t in received),
                sum(deployment.accelerator_ms(node[v], d) for v in members),
                sum(
                    t.transfer_ms / deployment.transfer_speed(d, (place[v] for v in t.readers if v not in members))
                    for t in sent
                ),
            )
    for c, members in enumerate(split.cpus):
        for v in members:
            pieces["cpu", v, 0] = (len(split.accelerators) + c, (v,), 0.0, node[v].cpu_ms, 0.0)
    return pieces


def _joined(steps: list[PathStep], num_accelerators: int) -> tuple[PathStep, ...]:
    """Make one step of nodes that run on the same CPU one after the other."""
    joined: list[PathStep] = []
    for step in steps:
        last = joined[-1] if joined else None
        if last is not None and last.device == step.device >= num_accelerators:
            joined[-1] = PathStep(
                last.device, last.nodes + step.nodes, last.start_ms, 0.0, last.compute_ms + step.compute_ms, 0.0
            )
        else:
            joined.append(step)
    return tuple(joined)
