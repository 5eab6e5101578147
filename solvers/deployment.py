"""The devices to place on: k identical accelerators of memory M and l CPUs without a memory limit."""

import math
from dataclasses import dataclass

from solvers.errors import DeploymentError

MAX_DEVICES = 1024
"""More devices than any graph here has use for; a larger number is a typing error."""

MEMORY_TOLERANCE = 1e-9
"""Relative excess over a capacity that counts as none; no real capacity is that exact."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Devices are numbered: accelerators 0 .. k-1, then CPUs k .. k+l-1.

    `memory_bytes` is what one accelerator holds; None means no limit. Raises DeploymentError for counts or a
    memory that make no sense. A deployment without any device is allowed: its placements are infeasible.
    """

    num_accelerators: int
    num_cpus: int = 0
    memory_bytes: float | None = None

    def __post_init__(self) -> None:
        for what, count in (("accelerators", self.num_accelerators), ("CPUs", self.num_cpus)):
            if not 0 <= count <= MAX_DEVICES:
                raise DeploymentError(f"{count} {what}: give a number from 0 to {MAX_DEVICES}.")
        if self.memory_bytes is not None and not (math.isfinite(self.memory_bytes) and self.memory_bytes >= 0):
            raise DeploymentError(f"{self.memory_bytes} bytes of accelerator memory: give a finite number, 0 or more.")

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
