"""The devices to place on: k identical accelerators of memory M and l CPUs without a memory limit.

Besides their number a deployment says how devices communicate, whether a stage may be replicated, and what a training
schedule keeps in memory; the defaults are the model of Tarnawski et al. (NeurIPS 2020).
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from solvers.errors import DeploymentError

MAX_DEVICES = 1024
"""More devices than any graph here has use for; a larger number is a typing error."""

MAX_SUBGRAPHS = 64
"""More subgraphs per accelerator than any plan has use for: each pays for its transfers."""

MAX_MICRO_BATCHES = 1_000_000
"""Far more than any schedule here runs."""

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
    activations of one micro-batch. `solvers.memory` says which nodes' bytes count as what.
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
    """Stages may run on several accelerators that take turns at the samples (data parallelism within the pipeline).

    A stage on r accelerators takes (compute + transfers) / r per sample, and for training the ring all-reduce of its
    gradients, 2 (r - 1) / r x weight bytes / bandwidth (Tarnawski et al., NeurIPS 2020, appendix; Patarasuk and Yuan,
    "Bandwidth optimal all-reduce algorithms", 2009). `bandwidth_bytes_per_ms` is that of the all-reduce; None means
    the bandwidth that the graph's own transfers imply.
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
class Deployment:
    """Devices are numbered: accelerators 0 .. k-1, then CPUs k .. k+l-1.

    `memory_bytes` is what one accelerator holds; None means no limit. `max_subgraphs` is how many subgraphs one after
    the other an accelerator may run for the latency of one sample; other objectives ignore it. Raises DeploymentError
    for counts or a memory that make no sense. A deployment without any device is allowed: its placements are
    infeasible.
    """

    num_accelerators: int
    num_cpus: int = 0
    memory_bytes: float | None = None
    communication: Communication = Communication.SUM
    training_memory: TrainingMemory | None = None
    replication: Replication | None = None
    max_subgraphs: int = 1

    def __post_init__(self) -> None:
        for what, count in (("accelerators", self.num_accelerators), ("CPUs", self.num_cpus)):
            if not 0 <= count <= MAX_DEVICES:
                raise DeploymentError(f"{count} {what}: give a number from 0 to {MAX_DEVICES}.")
        if self.memory_bytes is not None and not (math.isfinite(self.memory_bytes) and self.memory_bytes >= 0):
            raise DeploymentError(f"{self.memory_bytes} bytes of accelerator memory: give a finite number, 0 or more.")

        if not 1 <= self.max_subgraphs <= MAX_SUBGRAPHS:
            raise DeploymentError(
                f"{self.max_subgraphs} subgraphs per accelerator: give a number from 1 to {MAX_SUBGRAPHS}."
            )

    @property
    def num_devices(self) -> int:
        """Accelerators and CPUs together."""
        return self.num_accelerators + self.num_cpus

    @property
    def memory_limit_bytes(self) -> float:
        """What the sizes on one accelerator may add up to; infinite without a limit.

        A little above `memory_bytes`, since sums of sizes written as floats may be off in the last digits.
        """
        return math.inf if self.memory_bytes is None else self.memory_bytes * (1 + MEMORY_TOLERANCE)

    def is_cpu(self, device: int) -> bool:
        """Whether a device number belongs to a CPU."""
        return device >= self.num_accelerators

    def capacity_bytes(self, device: int) -> float | None:
        """Memory of a device; None where there is no limit."""
        return None if self.is_cpu(device) else self.memory_bytes

    def device_name(self, device: int) -> str:
        """What a person calls a device: 'Accelerator 1', 'CPU 1'."""
        if self.is_cpu(device):
            return f"CPU {device - self.num_accelerators + 1}"
        return f"Accelerator {device + 1}"
