"""The devices to place on: accelerators, all alike or in several classes, and l CPUs without a memory limit.

Besides their number a deployment says how devices communicate, whether a stage may be replicated, and what a training
schedule keeps in memory; the defaults are the model of Tarnawski et al. (NeurIPS 2020): k identical accelerators of
memory M. With classes an accelerator of class c takes `class_ms` of a node for it where the node knows one, and else
p_v / speed_c; it pays c_u / link_speed_c for each tensor it receives or sends, for all traffic passes host memory and
each end pays on its own link; and it holds the memory of its class.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from solvers.model.errors import DeploymentError
from solvers.model.graph import MAX_BYTES, Node
from solvers.quantities import as_given

MAX_DEVICES = 1024
"""More devices than any graph here has use for; a larger number is a typing error."""

MAX_SUBGRAPHS = 64
"""More subgraphs per accelerator than any plan has use for: each pays for its transfers."""

MAX_MICRO_BATCHES = 10_000
"""Far beyond where a schedule becomes steady; each micro-batch takes memory for every stage."""

MAX_CLASSES = 16
"""More classes of accelerators than any cluster here has; a search has states for every mix of them."""

MAX_CLASS_NAME = 60
"""Longest name of a class, in characters."""

LEAST_FACTOR, LARGEST_FACTOR = 1e-6, 1e6
"""Speeds and link speeds beyond are typing errors, and would swamp all other times."""

MEMORY_TOLERANCE = 1e-9
"""Relative excess over a capacity that counts as none; no real capacity is that exact."""


class Communication(StrEnum):
    """How an accelerator's load combines its compute time with the times it receives (in) and sends (out).

    sum          compute + in + out: one after the other
    overlapped   max(compute, in + out): transfers run beside the compute
    full duplex  compute + max(in, out): receiving runs beside sending
    """

    SUM = "sum"
    OVERLAPPED = "overlapped"
    FULL_DUPLEX = "full-duplex"


class InFlight(StrEnum):
    """A training schedule as far as memory goes: see `TrainingMemory`."""

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    PIPEDREAM = "pipedream"
    PIPEDREAM_2BW = "pipedream-2bw"


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Memory of a stage under a training schedule of m micro-batches (Narayanan et al., SOSP 2019 and ICML 2021).

    A stage that has a stages after it keeps the activations of f micro-batches and w versions of its weights:

    gpipe          f = m              w = 1
    1f1b           f = min(m, a + 1)  w = 1
    pipedream      f = a + 1          w = a + 1
    pipedream-2bw  f = a + 1          w = 2

    and takes state + (w - 1) weights + f activations bytes, where `state` is the weights with their gradients and
    optimiser state: `state_factor` times the weights, or, where that is None, what the nodes' memory holds beyond the
    activations of one micro-batch. `solvers.model.memory` says which nodes' bytes count as what.
    """

    schedule: InFlight
    num_micro_batches: int
    state_factor: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.num_micro_batches <= MAX_MICRO_BATCHES:
            raise DeploymentError(
                f"{self.num_micro_batches} micro-batches: give a number from 1 to {MAX_MICRO_BATCHES}."
            )
        if self.state_factor is not None and not (math.isfinite(self.state_factor) and self.state_factor >= 1):
            raise DeploymentError(
                f"A state of {self.state_factor} times the weights: give 1 or more, "
                "such as 8 for Adam in mixed precision."
            )

    def in_flight(self, stages_after: int) -> int:
        """Micro-batches whose activations a stage keeps, given the number of stages after it."""
        if self.schedule is InFlight.GPIPE:
            return self.num_micro_batches
        if self.schedule is InFlight.ONE_F_ONE_B:
            return min(self.num_micro_batches, stages_after + 1)
        return stages_after + 1

    def weight_versions(self, stages_after: int) -> int:
        """Versions of its weights that a stage keeps."""
        if self.schedule is InFlight.PIPEDREAM:
            return stages_after + 1
        return 2 if self.schedule is InFlight.PIPEDREAM_2BW else 1


@dataclass(frozen=True, slots=True)
class Replication:
    """Stages may run on several accelerators that process micro-batches round-robin (data parallelism in the pipeline).

    A stage on r accelerators takes (compute + transfers) / r per micro-batch, and for training the ring all-reduce of
    its gradients, 2 (r - 1) / r x weight bytes / bandwidth (Tarnawski et al., NeurIPS 2020, appendix; Patarasuk and
    Yuan, "Bandwidth optimal all-reduce algorithms", 2009). `bandwidth_bytes_per_ms` is that of the all-reduce; None
    means the bandwidth that the graph's own transfers imply.
    """

    max_replicas: int
    bandwidth_bytes_per_ms: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.max_replicas <= MAX_DEVICES:
            raise DeploymentError(f"{self.max_replicas} replicas: give a number from 1 to {MAX_DEVICES}.")
        bandwidth = self.bandwidth_bytes_per_ms
        if bandwidth is not None and not (math.isfinite(bandwidth) and bandwidth > 0):
            raise DeploymentError(f"A bandwidth of {bandwidth} bytes/ms is not usable; give a positive number.")


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """So many accelerators of one make: times are divided by `speed`, transfer times by `link_speed`.

    Both are relative to the times of the graph, which are those of speed 1; `memory_bytes` is what one of them holds,
    None means no limit. A class may count no devices. Raises DeploymentError for values that make no sense.
    """

    name: str
    count: int
    speed: float = 1.0
    memory_bytes: float | None = None
    link_speed: float = 1.0

    def __post_init__(self) -> None:
        if not self.name.strip() or self.name != self.name.strip() or not self.name.isprintable():
            raise DeploymentError(f"A device type is named {self.name[:80]!r}; give it a name of printable characters.")
        if len(self.name) > MAX_CLASS_NAME:
            raise DeploymentError(
                f"A device type has a name of {len(self.name)} characters; give up to {MAX_CLASS_NAME}."
            )
        if self.name.casefold() == "cpu":
            raise DeploymentError("CPUs are counted apart from the device types; choose another name.")
        if not 0 <= self.count <= MAX_DEVICES:
            raise DeploymentError(f"Class {self.name}: {self.count} devices; give a number from 0 to {MAX_DEVICES}.")
        for what, factor in (("speed", self.speed), ("link speed", self.link_speed)):
            if not LEAST_FACTOR <= factor <= LARGEST_FACTOR:
                raise DeploymentError(
                    f"Class {self.name}: a {what} of {factor}; give a factor from {as_given(LEAST_FACTOR)} to "
                    f"{as_given(LARGEST_FACTOR)}, where 1 is that of the graph's times."
                )
        if self.memory_bytes is not None and not 0 <= self.memory_bytes <= MAX_BYTES:
            raise DeploymentError(
                f"Class {self.name}: {self.memory_bytes} bytes of memory; give a number from 0 to "
                f"{as_given(MAX_BYTES)}."
            )

    @property
    def memory_limit_bytes(self) -> float:
        """What the sizes on one device of the class may add up to; see `Deployment.memory_limit_of`."""
        return _limit(self.memory_bytes)

    def node_ms(self, node: Node) -> float:
        """Time of a node on a device of this class in ms: the node's own for it, or that of speed 1 divided."""
        own = node.time_on(self.name)
        return node.accelerator_ms / self.speed if own is None else own


def _limit(memory_bytes: float | None) -> float:
    return math.inf if memory_bytes is None else memory_bytes * (1 + MEMORY_TOLERANCE)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Devices are numbered: accelerators 0 .. k-1, then CPUs k .. k+l-1.

    `memory_bytes` is what one accelerator holds; None means no limit. `max_subgraphs` is how many subgraphs one after
    the other an accelerator may run for the latency of one micro-batch; other objectives ignore it.

    With `classes` accelerators differ and are numbered class after class; then `num_accelerators` is the sum of their
    counts and `memory_bytes` is None, for each class has its own (`of_classes` sees to that). What depends on the class
    is asked by device number: `node_ms`, `link_speed_of`, `capacity_bytes`, `memory_limit_of`, `device_name`.

    With `accelerators_per_server` n accelerators 0 .. n-1 are in one server, the next n in another, and so on. Within a
    server links are `server_link_speed` times as fast as between them and to CPUs: an accelerator receives a tensor at
    that speed from its own server, and it sends one so if no other device than those of its server reads it. (It sends
    a tensor once; the copy that leaves the server serves those inside as well.) See `transfer_speed`.

    Raises DeploymentError for counts, classes or a memory that make no sense. A deployment without any device is
    allowed: its placements are infeasible.

    >>> mixed = Deployment.of_classes((DeviceClass("A100", 2), DeviceClass("T4", 4, speed=0.25)), num_cpus=1)
    >>> mixed.num_accelerators, mixed.device_name(2), mixed.node_ms(Node(1, 2.0, 9.0), 2)
    (6, 'T4 1', 8.0)
    """

    num_accelerators: int
    num_cpus: int = 0
    memory_bytes: float | None = None
    communication: Communication = Communication.SUM
    training_memory: TrainingMemory | None = None
    replication: Replication | None = None
    max_subgraphs: int = 1
    classes: tuple[DeviceClass, ...] = ()
    accelerators_per_server: int | None = None
    server_link_speed: float = 1.0

    def __post_init__(self) -> None:
        self._check_classes()
        self._check_servers()
        for what, count in (("accelerators", self.num_accelerators), ("CPUs", self.num_cpus)):
            if not 0 <= count <= MAX_DEVICES:
                raise DeploymentError(f"{count} {what}: give a number from 0 to {MAX_DEVICES}.")
        if self.memory_bytes is not None and not (math.isfinite(self.memory_bytes) and self.memory_bytes >= 0):
            raise DeploymentError(f"{self.memory_bytes} bytes of accelerator memory: give a finite number, 0 or more.")

        if not 1 <= self.max_subgraphs <= MAX_SUBGRAPHS:
            raise DeploymentError(
                f"{self.max_subgraphs} subgraphs per accelerator: give a number from 1 to {MAX_SUBGRAPHS}."
            )

    def _check_classes(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        if not self.classes:
            return
        if len(self.classes) > MAX_CLASSES:
            raise DeploymentError(f"{len(self.classes)} device types: give up to {MAX_CLASSES}.")
        names = [device_class.name for device_class in self.classes]
        twin = next((name for name in names if names.count(name) > 1), None)
        if twin is not None:
            raise DeploymentError(f"Two device types are named {twin}; give them different names, or add up counts.")
        if self.num_accelerators != sum(device_class.count for device_class in self.classes):
            raise DeploymentError(
                f"The device types count {sum(device_class.count for device_class in self.classes)} accelerators and "
                f"{self.num_accelerators} are asked for; change the counts of the types."
            )
        if self.memory_bytes is not None:
            raise DeploymentError("Each device type has a memory of its own; leave out that of all accelerators.")

    def _check_servers(self) -> None:
        if not 1 <= self.server_link_speed <= LARGEST_FACTOR:
            raise DeploymentError(
                f"Links within a server that are {self.server_link_speed} times as fast as between servers: give a "
                f"factor from 1 to {as_given(LARGEST_FACTOR)}."
            )
        if self.accelerators_per_server is None:
            return
        if not 1 <= self.accelerators_per_server <= MAX_DEVICES:
            raise DeploymentError(
                f"{self.accelerators_per_server} accelerators per server: give a number from 1 to {MAX_DEVICES}."
            )
        if self.replication is not None and self.replication.max_replicas > 1:
            raise DeploymentError("Replicas are not modelled within servers; allow one replica, or leave servers out.")

    @property
    def has_servers(self) -> bool:
        """Whether links within servers differ from those between them."""
        per_server = self.accelerators_per_server
        return per_server is not None and per_server > 1 and self.server_link_speed > 1

    def transfer_speed(self, accelerator: int, others: Iterable[int | None]) -> float:
        """By what the time is divided that an accelerator takes to move a tensor from or to these; None is a CPU."""
        speed = self.link_speed_of(accelerator)
        per_server = self.accelerators_per_server
        if per_server is None or not self.has_servers:
            return speed
        inside = all(other is not None and other // per_server == accelerator // per_server for other in others)
        return speed * self.server_link_speed if inside else speed

    @classmethod
    def of_classes(cls, classes: Sequence[DeviceClass], num_cpus: int = 0, **others: Any) -> "Deployment":
        """Build a deployment of these classes of accelerators; `others` are further fields."""
        total = sum(device_class.count for device_class in classes)
        return cls(total, num_cpus, classes=tuple(classes), **others)

    @property
    def num_devices(self) -> int:
        """Accelerators and CPUs together."""
        return self.num_accelerators + self.num_cpus

    def is_cpu(self, device: int) -> bool:
        """Whether a device number belongs to a CPU."""
        return device >= self.num_accelerators

    def class_of(self, accelerator: int) -> DeviceClass | None:
        """Return the class of an accelerator; None where all are alike.

        A split may use more accelerators than there are. Those are judged as if they were of the last class.
        """
        for device_class in self.classes:
            if accelerator < device_class.count:
                return device_class
            accelerator -= device_class.count
        return self.classes[-1] if self.classes else None

    def accelerator_ms(self, node: Node, accelerator: int) -> float:
        """Time of a node in ms on an accelerator, of which there may be fewer; see `class_of`."""
        device_class = self.class_of(accelerator)
        return node.accelerator_ms if device_class is None else device_class.node_ms(node)

    def node_ms(self, node: Node, device: int) -> float:
        """Time of a node in ms on a device, an accelerator or a CPU."""
        return node.cpu_ms if self.is_cpu(device) else self.accelerator_ms(node, device)

    def link_speed_of(self, accelerator: int) -> float:
        """By what an accelerator's transfer times are divided."""
        device_class = self.class_of(accelerator)
        return 1.0 if device_class is None else device_class.link_speed

    def accelerator_memory_bytes(self, accelerator: int) -> float | None:
        """Memory of an accelerator, of which there may be fewer; None where there is no limit."""
        device_class = self.class_of(accelerator)
        return self.memory_bytes if device_class is None else device_class.memory_bytes

    def capacity_bytes(self, device: int) -> float | None:
        """Memory of a device; None where there is no limit."""
        return None if self.is_cpu(device) else self.accelerator_memory_bytes(device)

    def memory_limit_of(self, accelerator: int) -> float:
        """What the sizes on an accelerator may add up to; infinite without a limit.

        A little above its memory, since sums of sizes written as floats may be off in the last digits.
        """
        return _limit(self.accelerator_memory_bytes(accelerator))

    @property
    def largest_memory_bytes(self) -> float | None:
        """Memory of the accelerator that holds most; None where one has no limit."""
        sizes = [device_class.memory_bytes for device_class in self.classes if device_class.count]
        return max(sizes, key=_limit, default=None) if self.classes else self.memory_bytes

    @property
    def memory_limit_bytes(self) -> float:
        """What the sizes on any one accelerator may add up to at most, a little above `largest_memory_bytes`."""
        return _limit(self.largest_memory_bytes)

    def device_name(self, device: int) -> str:
        """What a person calls a device: 'Accelerator 1' or, with classes, 'A100 1'; 'CPU 1'."""
        if self.is_cpu(device):
            return f"CPU {device - self.num_accelerators + 1}"
        return self.accelerator_name(device)

    def accelerator_name(self, accelerator: int) -> str:
        """What a person calls an accelerator, of which there may be fewer."""
        number = accelerator
        for device_class in self.classes:
            if number < device_class.count:
                return f"{device_class.name} {number + 1}"
            number -= device_class.count
        return f"Accelerator {accelerator + 1}"
