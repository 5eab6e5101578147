"""The independent evaluator: what a split costs, computed from the original nodes and edges alone.

All traffic goes through host memory. An accelerator pays c_u once if it needs the output of u from elsewhere,
however many of its nodes read it, and once if any reader of its own u is elsewhere; CPUs pay nothing:

    load(accelerator, S) = sum_{v in S} p_v + sum_u c_u [ {u} + readers(u) is cut by S ]
    load(cpu, S)         = sum_{v in S} q_v

(Tarnawski et al., NeurIPS 2020, section 3.) Where a node produces several tensors the second sum has a term for each,
with the readers of its own. For an accelerator of a class p_v is the class's time and c_u is
divided by its link speed (`solvers.model.deployment`). The second sum is in + out: what is received and what is sent.
Devices that overlap transfers with compute take max(compute, in + out) instead, full-duplex ones compute + max(in, out)
(`solvers.model.deployment.Communication`). Every solver's answer is judged here, so nothing in this module is shared
with a solver or tuned for speed.

In training a transfer belongs to a pass: sending belongs to the pass of the sender, receiving to the forward pass
if a forward node on the device reads the tensor and to the backward pass otherwise. The GPipe time combines compute, in
and out within each pass, since the passes are apart in time; max-load combines the totals of both passes, since a
device that runs them in turn overlaps the transfers of one with the compute of the other.

An entry of the split that r accelerators run by turns takes 1/r of its time per micro-batch, and in training the
all-reduce of its gradients besides (`solvers.model.memory.sync_ms`), which counts with the backward pass. The latency
of one micro-batch is that of one alone: it is received, computed and sent in this order whatever overlaps in a
pipeline, and by one accelerator.
"""

from dataclasses import dataclass
from enum import StrEnum

import networkx as nx

from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import sync_bandwidth, sync_ms, weight_bytes
from solvers.model.split import Split, device_memory_bytes


class Objective(StrEnum):
    """What to minimise, in ms: see `SplitCosts.value`."""

    THROUGHPUT = "throughput"
    GPIPE = "gpipe"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class PassCosts:
    """One device's time per micro-batch in one pass, in ms; the transfers of a CPU are free."""

    compute_ms: float = 0.0
    receive_ms: float = 0.0
    send_ms: float = 0.0

    def total_ms(self, communication: Communication) -> float:
        """Compute and transfers together, as far as they do not overlap."""
        if communication is Communication.OVERLAPPED:
            return max(self.compute_ms, self.receive_ms + self.send_ms)
        if communication is Communication.FULL_DUPLEX:
            return self.compute_ms + max(self.receive_ms, self.send_ms)
        return self.compute_ms + self.receive_ms + self.send_ms


@dataclass(frozen=True, slots=True)
class DeviceCosts:
    """What one device does per micro-batch and what it holds; with `replicas`, what each of its accelerators holds.

    Compute and transfers are those of a sample, whichever replica it meets; `sync_ms` is the all-reduce among replicas.
    """

    device: int
    forward: PassCosts
    backward: PassCosts
    memory_bytes: float
    communication: Communication = Communication.SUM
    replicas: int = 1
    sync_ms: float = 0.0

    @property
    def load_ms(self) -> float:
        """Time per micro-batch: compute and transfers of both passes, shared by the replicas, and their sync."""
        both = PassCosts(self.compute_ms, self.receive_ms, self.send_ms)
        return both.total_ms(self.communication) / self.replicas + self.sync_ms

    @property
    def forward_ms(self) -> float:
        """Time per micro-batch of the forward pass alone, transfers included."""
        return self.forward.total_ms(self.communication) / self.replicas

    @property
    def backward_ms(self) -> float:
        """Time per micro-batch of the backward pass alone, transfers and the sync of replicas included."""
        return self.backward.total_ms(self.communication) / self.replicas + self.sync_ms

    @property
    def compute_ms(self) -> float:
        """Compute time per micro-batch over both passes."""
        return self.forward.compute_ms + self.backward.compute_ms

    @property
    def receive_ms(self) -> float:
        """Time per micro-batch spent receiving, over both passes."""
        return self.forward.receive_ms + self.backward.receive_ms

    @property
    def send_ms(self) -> float:
        """Time per micro-batch spent sending, over both passes."""
        return self.forward.send_ms + self.backward.send_ms


@dataclass(frozen=True, slots=True)
class CutTensor:
    """A tensor of node `source`, read on devices other than its own, and what its transfer adds to each load.

    `send_ms` is what its own device pays, `receive_ms` what each of `to_devices` does, on its own link; CPUs pay 0.
    `tensor` is its name among the tensors of the node, empty for the one without.
    """

    source: int
    from_device: int
    to_devices: tuple[int, ...]
    send_ms: float
    receive_ms: tuple[float, ...]
    size_bytes: float | None
    tensor: str = ""

    @property
    def key(self) -> tuple[int, str]:
        """Its node and its name, as in `DnnGraph.tensor_of`."""
        return self.source, self.tensor

    @property
    def most_ms(self) -> float:
        """The most that any of its devices pays."""
        return max(self.send_ms, *self.receive_ms)

    def ms_on(self, device: int) -> float:
        """What a device pays that sends or receives it."""
        return self.send_ms if device == self.from_device else self.receive_ms[self.to_devices.index(device)]


@dataclass(frozen=True, slots=True)
class SplitCosts:
    """All devices of a split, idle ones included, and all its cut tensors, the dearest (at either end) first."""

    devices: tuple[DeviceCosts, ...]
    cut_tensors: tuple[CutTensor, ...]

    @property
    def max_load_ms(self) -> float:
        """The largest load: the time per micro-batch of the pipeline in steady state."""
        return max((d.load_ms for d in self.devices), default=0.0)

    @property
    def gpipe_ms(self) -> float:
        """max_i FW_i + max_i BW_i: the time per micro-batch of a GPipe schedule."""
        return max((d.forward_ms for d in self.devices), default=0.0) + max(
            (d.backward_ms for d in self.devices), default=0.0
        )

    @property
    def bottleneck(self) -> int:
        """Number of the device with the largest load."""
        return max(self.devices, key=lambda d: d.load_ms).device


def split_costs(graph: DnnGraph, deployment: Deployment, split: Split) -> SplitCosts:
    """Return the costs per device and per cut tensor of a complete split.

    A split that lists fewer devices than `deployment` leaves the others idle. Raises DeploymentError where replicas
    exchange gradients over a bandwidth that nothing tells.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> split_costs(g, Deployment(2), Split((frozenset({1}), frozenset({2})))).max_load_ms
    3.5
    """
    padded = split.on(deployment)
    device_of = padded.device_of()
    num_accelerators = len(padded.accelerators)
    accelerator_of = [padded.first_accelerator(d) for d in range(num_accelerators)]
    place = [*accelerator_of, *[None] * len(padded.cpus)]
    compute: dict[tuple[int, bool], float] = {}
    receive: dict[tuple[int, bool], float] = {}
    send: dict[tuple[int, bool], float] = {}
    cut_tensors: list[CutTensor] = []
    for u, node in graph.node_by_id.items():
        home = device_of[u]
        on_cpu = home >= num_accelerators
        time_ms = node.cpu_ms if on_cpu else deployment.accelerator_ms(node, accelerator_of[home])
        key = (home, node.is_backward)
        compute[key] = compute.get(key, 0.0) + time_ms
    for tensor in graph.tensors:
        home = device_of[tensor.source]
        abroad = sorted({device_of[v] for v in tensor.readers} - {home})
        if not abroad:
            continue
        send_ms, receive_ms = 0.0, dict.fromkeys(abroad, 0.0)
        if home < num_accelerators:
            key = (home, graph.node_by_id[tensor.source].is_backward)
            send_ms = tensor.transfer_ms / deployment.transfer_speed(accelerator_of[home], (place[d] for d in abroad))
            send[key] = send.get(key, 0.0) + send_ms
        for d in abroad:
            if d < num_accelerators:
                local_readers = [v for v in tensor.readers if device_of[v] == d]
                in_backward = all(graph.node_by_id[v].is_backward for v in local_readers)
                receive_ms[d] = tensor.transfer_ms / deployment.transfer_speed(accelerator_of[d], (place[home],))
                receive[d, in_backward] = receive.get((d, in_backward), 0.0) + receive_ms[d]
        ends_ms = send_ms, tuple(receive_ms.values())
        cut_tensors.append(CutTensor(tensor.source, home, tuple(abroad), *ends_ms, tensor.size_bytes, tensor.name))

    def pass_costs(d: int, is_backward: bool) -> PassCosts:
        key = (d, is_backward)
        return PassCosts(compute.get(key, 0.0), receive.get(key, 0.0), send.get(key, 0.0))

    def sync_of_replicas_ms(d: int) -> float:
        weights = sum(weight_bytes(graph)[v] for v in padded.devices[d]) if padded.num_replicas(d) > 1 else 0.0
        if not weights:
            return 0.0
        return sync_ms(weights, padded.num_replicas(d), sync_bandwidth(graph, deployment, accelerator_of[d]))

    memory_bytes = device_memory_bytes(graph, deployment, padded)
    devices = tuple(
        DeviceCosts(
            device=d,
            forward=pass_costs(d, False),
            backward=pass_costs(d, True),
            memory_bytes=memory_bytes[d],
            communication=deployment.communication,
            replicas=padded.num_replicas(d),
            sync_ms=sync_of_replicas_ms(d),
        )
        for d in range(len(padded.devices))
    )
    return SplitCosts(devices, tuple(sorted(cut_tensors, key=lambda t: (-t.most_ms, t.source, t.tensor))))


Task = tuple[str, int, int]
"""("cpu", v, 0): node v on a CPU; ("block", d, i): the i-th subgraph of accelerator d."""


def single_sample_latency(graph: DnnGraph, deployment: Deployment, split: Split) -> float | None:
    """Return the finish time in ms of one sample when each accelerator runs its subgraphs one after the other.

    A subgraph starts when its accelerator is free and all its outside inputs exist, takes in-transfers + compute +
    out-transfers, and then all its outputs exist at once. Data between two subgraphs goes through host memory, on one
    accelerator too: the first pays for sending it, the second for receiving it. CPUs are as many as needed: a CPU node
    starts when its inputs exist. Transfers add to compute whatever the deployment says about communication. None where
    latency is not defined: a training graph, or subgraphs that wait for each other in a circle.

    (Tarnawski et al., NeurIPS 2020, section 5; the released program `latency-ip` counts the transfers of each subgraph
    like this. An accelerator without subgraphs listed runs all its nodes as one.)
    """
    if graph.is_training:
        return None
    task_of = _task_of(split)
    tasks = task_graph(graph, split)
    if not nx.is_directed_acyclic_graph(tasks):
        return None

    def accelerator(task: Task) -> int:
        return split.first_accelerator(task[1])

    duration_ms: dict[Task, float] = dict.fromkeys(tasks, 0.0)
    for u, node in graph.node_by_id.items():
        home = task_of[u]
        duration_ms[home] += node.cpu_ms if home[0] == "cpu" else deployment.accelerator_ms(node, accelerator(home))
    for tensor in graph.tensors:
        home = task_of[tensor.source]
        abroad = {task_of[v] for v in tensor.readers} - {home}
        for task in abroad | {home} if abroad else ():
            if task[0] == "block":
                others = abroad if task == home else {home}
                places = (None if other[0] == "cpu" else accelerator(other) for other in others)
                duration_ms[task] += tensor.transfer_ms / deployment.transfer_speed(accelerator(task), places)
    finish_ms: dict[Task, float] = {}
    for task in nx.topological_sort(tasks):
        start_ms = max((finish_ms[t] for t in tasks.predecessors(task)), default=0.0)
        finish_ms[task] = start_ms + duration_ms[task]
    return max(finish_ms.values())


def task_graph(graph: DnnGraph, split: Split) -> "nx.DiGraph[Task]":
    """Return which task of one sample waits for which: for data, or for the subgraph before it on its accelerator."""
    task_of = _task_of(split)
    tasks: nx.DiGraph[Task] = nx.DiGraph()
    tasks.add_nodes_from(task_of[node.id] for node in graph.nodes)
    for edge in graph.edges:
        if task_of[edge.source] != task_of[edge.target]:
            tasks.add_edge(task_of[edge.source], task_of[edge.target])
    for d in range(len(split.accelerators)):
        for i in range(1, len(split.subgraphs_of(d))):
            tasks.add_edge(("block", d, i - 1), ("block", d, i))
    return tasks


def _task_of(split: Split) -> dict[int, Task]:
    task_of: dict[int, Task] = {v: ("cpu", v, 0) for members in split.cpus for v in members}
    for d in range(len(split.accelerators)):
        for i, members in enumerate(split.subgraphs_of(d)):
            task_of.update(dict.fromkeys(members, ("block", d, i)))
    return task_of


def objective_value(graph: DnnGraph, deployment: Deployment, split: Split, objective: Objective) -> float | None:
    """Return the value in ms of a complete split; None where the objective is not defined for it."""
    if objective is Objective.LATENCY:
        return single_sample_latency(graph, deployment, split)
    costs = split_costs(graph, deployment, split)
    return costs.max_load_ms if objective is Objective.THROUGHPUT else costs.gpipe_ms
