"""What a plan costs, device by device on sets, as the definition says it: shares nothing with the evaluator."""

from dataclasses import dataclass

from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph, Node
from tests.support.reference import tensors


@dataclass(frozen=True)
class Part:
    """One device in one pass, or in both, in ms per micro-batch; its transfers are what it pays at its own end."""

    compute_ms: float
    receive_ms: float
    send_ms: float

    def load_ms(self, communication: Communication) -> float:
        """Compute and transfers, as far as they are not hidden."""
        transfers_ms = self.receive_ms + self.send_ms
        return {
            Communication.SUM: self.compute_ms + transfers_ms,
            Communication.OVERLAPPED: max(self.compute_ms, transfers_ms),
            Communication.FULL_DUPLEX: self.compute_ms + max(self.receive_ms, self.send_ms),
        }[communication]


@dataclass(frozen=True)
class Entry:
    """One device of a plan, or several that take turns."""

    name: str
    nodes: frozenset[int]
    replicas: int
    both: Part
    forward: Part
    backward: Part
    sync_ms: float
    load_ms: float
    forward_ms: float
    backward_ms: float
    memory_bytes: float
    capacity_bytes: float | None


@dataclass(frozen=True)
class Device:
    """What is known of one device."""

    name: str
    class_name: str | None
    speed: float
    link_speed: float
    capacity_bytes: float | None
    is_cpu: bool

    def node_ms(self, node: Node) -> float:
        """Time of a node."""
        if self.is_cpu:
            return node.cpu_ms
        return dict(node.class_ms).get(self.class_name or "", node.accelerator_ms / self.speed)


def devices_of(deployment: Deployment) -> list[Device]:
    """Return all devices by number: the accelerators type by type, then the CPUs."""
    found = [
        Device(f"{one.name} {i + 1}", one.name, one.speed, one.link_speed, one.memory_bytes, False)
        for one in deployment.classes
        for i in range(one.count)
    ]
    if not deployment.classes:
        found = [
            Device(f"Accelerator {i + 1}", None, 1.0, 1.0, deployment.memory_bytes, False)
            for i in range(deployment.num_accelerators)
        ]
    return found + [Device(f"CPU {i + 1}", None, 1.0, 1.0, None, True) for i in range(deployment.num_cpus)]


def entries_of(graph: DnnGraph, deployment: Deployment, split: dict[str, list[dict[str, object]]]) -> list[Entry]:
    """Return the devices of a split document with what each does; those beyond its lists are idle.

    Memory is the sum of sizes: not for plans that count micro-batches in flight. Not within servers either.
    """
    devices, k = devices_of(deployment), deployment.num_accelerators
    placed: list[tuple[Device, frozenset[int], int]] = []
    first = 0
    for entry in split["fpgas"]:
        replicas = int(str(entry.get("replicas", 1)))
        if first < k:
            name = devices[first].name if replicas == 1 else ""
            placed.append((devices[first], frozenset(map(int, entry["nodes"])), replicas))  # type: ignore[call-overload]
            assert name is not None
        else:
            assert not entry["nodes"]
        first += replicas
    placed += [(devices[d], frozenset[int](), 1) for d in range(first, k)]
    on_cpus = [frozenset(map(int, entry["nodes"])) for entry in split["cpus"]]  # type: ignore[call-overload]
    on_cpus += [frozenset[int]()] * (deployment.num_cpus - len(on_cpus))
    placed += [(device, nodes, 1) for device, nodes in zip(devices[k:], on_cpus, strict=True)]
    return [_entry(graph, deployment, *one) for one in placed]


def _entry(graph: DnnGraph, deployment: Deployment, device: Device, nodes: frozenset[int], replicas: int) -> Entry:
    backward = {node.id for node in graph.nodes if node.is_backward}
    compute, receive, send = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
    for v in nodes:
        compute[v in backward] += device.node_ms(graph.node_by_id[v])
    for u, readers, ms in tensors(graph) if not device.is_cpu else ():
        if u in nodes and readers - nodes:
            send[u in backward] += ms / device.link_speed
        if u not in nodes and readers & nodes:
            receive[readers & nodes <= backward] += ms / device.link_speed
    parts = [Part(compute[i], receive[i], send[i]) for i in (0, 1)]
    both = Part(sum(compute), sum(receive), sum(send))
    sync_ms = _sync_ms(graph, deployment, nodes, replicas)
    forward_ms, backward_ms, load_ms = (part.load_ms(deployment.communication) / replicas for part in (*parts, both))
    memory_bytes = sum(graph.node_by_id[v].memory_bytes for v in nodes)
    return Entry(
        device.name, nodes, replicas, both, parts[0], parts[1], sync_ms, load_ms + sync_ms, forward_ms,
        backward_ms + sync_ms, memory_bytes, device.capacity_bytes,
    )  # fmt: skip


def _sync_ms(graph: DnnGraph, deployment: Deployment, nodes: frozenset[int], replicas: int) -> float:
    """The all-reduce of gradients in a ring; sizes count as weights, so not for graphs that tell their parameters."""
    if replicas == 1 or not graph.is_training:
        return 0.0
    assert all(node.parameter_bytes is None for node in graph.nodes)
    assert deployment.replication is not None
    bandwidth = deployment.replication.bandwidth_bytes_per_ms
    assert bandwidth is not None
    weights = sum(graph.node_by_id[v].memory_bytes for v in nodes)
    return 2 * (replicas - 1) / replicas * weights / bandwidth


def pipelined_ms(entries: list[Entry], objective: Objective) -> float:
    """Return the time per micro-batch of the plan run as a pipeline: GPipe's where that is the objective."""
    if objective is Objective.GPIPE:
        return max(one.forward_ms for one in entries) + max(one.backward_ms for one in entries)
    return max(one.load_ms for one in entries)
