"""How long an operator takes: a roofline over public figures of one accelerator, one CPU and one link.

    time_ms     = max(flops / (peak_flops · DENSE_EFFICIENCY), bytes / (memory_bandwidth · MEMORY_EFFICIENCY))
    transfer_ms = output bytes / LINK_BYTES_PER_MS

`flops` counts one multiply-add as two; `bytes` is what the operator reads and writes in device memory. The formula
is Williams, Waterman and Patterson's roofline ("Roofline: an insightful visual performance model", CACM 2009).
Kernel launch times, caches and overlap are left out: what matters to a placement is that dense layers cost by
arithmetic, element-wise ones by traffic, and that a CPU is some 32 times slower at the first but only 2.5 times at
the second.

The two efficiencies are assumptions, not measurements: tuned kernels reach about half of the arithmetic peak and
three quarters of the bandwidth on layers of the sizes here, on either device.
"""

from dataclasses import dataclass

BYTES_PER_ELEMENT = 2
"""Weights and activations are stored in half precision (fp16 or bf16), on the CPU too."""

STATE_BYTES_PER_PARAMETER = 16
"""Training, per parameter: fp16 weight 2 and gradient 2; fp32 master weight 4, Adam momentum 4 and variance 4.

Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020, section 3.1.
"""

DENSE_EFFICIENCY = 0.5
"""Share of the arithmetic peak that is reached (assumed)."""

MEMORY_EFFICIENCY = 0.75
"""Share of the memory bandwidth that is reached (assumed)."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A device: peak arithmetic in flops per second, memory bandwidth in bytes per second, memory in bytes."""

    name: str
    peak_flops: float
    memory_bandwidth: float
    memory_bytes: float | None

    def time_ms(self, flops: float, traffic_bytes: float) -> float:
        """Return the roofline time in ms of an operator with these flops and bytes of memory traffic.

        >>> ACCELERATOR.time_ms(32.5e9, 0)
        1.0
        """
        arithmetic_ms = 1e3 * flops / (self.peak_flops * DENSE_EFFICIENCY)
        memory_ms = 1e3 * traffic_bytes / (self.memory_bandwidth * MEMORY_EFFICIENCY)
        return float(f"{max(arithmetic_ms, memory_ms):.6g}")


ACCELERATOR = Processor("NVIDIA T4", 65e12, 320e9, 16e9)
"""NVIDIA T4 data sheet (2019): 65 TFLOPS in mixed precision, 16 GB of GDDR6 at 320 GB/s, PCIe 3.0 x16."""

CPU = Processor("Intel Xeon Gold 6148", 2.048e12, 128e9, None)
"""Intel's specifications: 20 cores, each two AVX-512 units, so 64 fp32 flops per cycle, at the AVX-512 base
frequency of 1.6 GHz; six channels of DDR4-2666, 128 GB/s."""

LINK_BYTES_PER_MS = 12.6e6
"""PCIe 3.0 x16 carries 8 GT/s · 16 lanes · 128/130 = 15.75 GB/s; packet headers and flow control leave about 80 %."""


def transfer_ms(size_bytes: float) -> float:
    """Return the time in ms to move a tensor of `size_bytes` between the accelerator and host memory."""
    return size_bytes / LINK_BYTES_PER_MS
